//! Ctrl-C and SIGTERM: the first asks the server to drain, a second one ends it at once.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// What a shell says of a process that Ctrl-C ended.
const ENDED_BY_SIGNAL: i32 = 130;

/// Both signals, caught from now on.
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Catches them. Must be called inside a Tokio runtime.
    pub fn catch() -> std::io::Result<Self> {
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    /// Waits for one of them; its name.
    pub async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "Ctrl-C",
            _ = self.terminate.recv() => "SIGTERM",
        }
    }

    /// Ends the process at the next one, whatever is running.
    pub async fn end_at_next(mut self) {
        let name = self.next().await;
        eprintln!("plimsoll: a second signal ({name}): ending at once");
        std::process::exit(ENDED_BY_SIGNAL);
    }
}
