//! Ctrl-C and SIGTERM: the first asks the server to drain, a second one ends it at once.

use crate::pull::{self, STOP};
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// What a shell says of a process that Ctrl-C ended.
const ENDED_BY_SIGNAL: i32 = 130;

/// How long a pull may take to end.
pub const STOP_WAIT: Duration = Duration::from_secs(2);

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

/// For commands that do not serve: a signal ends a pull first, then, or if there is none, the process. Without this, pip
/// would go on by itself.
///
/// # Errors
/// When the system gives no thread, or the signals cannot be caught.
pub fn end_after_pulls() -> std::io::Result<()> {
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut signals = {
        let _inside = tokio.enter();
        Signals::catch()?
    };
    let wait = async move {
        signals.next().await;
        STOP.stop();
        if pull::is_under_way() {
            tokio::time::timeout(STOP_WAIT, signals.next()).await.ok();
        }
        std::process::exit(ENDED_BY_SIGNAL);
    };
    std::thread::Builder::new().name("signals".into()).spawn(move || tokio.block_on(wait)).map(drop)
}
