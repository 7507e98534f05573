//! How a bench is told to end before its time.

use tokio_util::sync::CancellationToken;

/// Tells a bench to end. Clones are one and the same.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    offering: CancellationToken,
    waiting: CancellationToken,
}

impl Stop {
    /// Nothing more is sent, and what is under way is waited for. Said once more, that is given up, too.
    pub fn stop(&self) {
        if self.offering.is_cancelled() {
            self.waiting.cancel();
        }
        self.offering.cancel();
    }

    /// Whether it was said.
    pub fn is_stopped(&self) -> bool {
        self.offering.is_cancelled()
    }

    /// Waits until nothing more is to be sent.
    pub(crate) async fn stopped(&self) {
        self.offering.cancelled().await;
    }

    /// Waits until what is under way is to be given up.
    pub(crate) async fn given_up(&self) {
        self.waiting.cancelled().await;
    }
}
