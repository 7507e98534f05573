//! Ctrl-C, SIGTERM and a terminal that is gone: the first asks the server to drain, a second one ends it at once.

use crate::pull::{self, STOP};
use plimsoll_host::{Host, process::HANGUP};
use std::io::Write;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Instant;

/// What a shell says of a process that Ctrl-C ended.
const ENDED_BY_SIGNAL: i32 = 130;

/// How long a pull may take to end.
pub const STOP_WAIT: Duration = Duration::from_secs(2);

/// Within this time of one signal further ones are the same: `timeout -s INT` sends its signal to the process and then to the
/// process's group.
const SAME: Duration = Duration::from_secs(1);

/// The signals, caught from now on.
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// None if it is ignored, which whoever started the process wished (`nohup`).
    hangup: Option<Signal>,
    last: Option<Instant>,
}

impl Signals {
    /// Catches them. Must be called inside a Tokio runtime.
    pub fn catch() -> std::io::Result<Self> {
        let hangup = if Host::this().ignores(HANGUP) { None } else { Some(signal(SignalKind::hangup())?) };
        let [interrupt, terminate] = [SignalKind::interrupt(), SignalKind::terminate()].map(signal);
        Ok(Self { interrupt: interrupt?, terminate: terminate?, hangup, last: None })
    }

    /// Waits for one of them that is not the same as the last; its name.
    pub async fn next(&mut self) -> &'static str {
        loop {
            let name = self.any().await;
            let now = Instant::now();
            if self.last.is_none_or(|last| now - last >= SAME) {
                self.last = Some(now);
                return name;
            }
        }
    }

    async fn any(&mut self) -> &'static str {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => "Ctrl-C",
            _ = self.terminate.recv() => "SIGTERM",
            _ = hangup => "SIGHUP",
        }
    }

    /// Ends the process at the next one, whatever is running.
    pub async fn end_at_next(mut self) {
        let name = self.next().await;
        // The terminal may be gone.
        writeln!(std::io::stderr(), "plimsoll: a second signal ({name}): ending at once").ok();
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
