//! How a pull is told to end early.

use crate::error::HubError;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Tells pulls to end. Clones are one and the same.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Pulls under way end within a second or so (one that waits for a silent server, when that times out), and new ones
    /// at once. What cannot be resumed is removed, and pip is ended with whatever it started.
    pub fn stop(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    pub(crate) fn check(&self) -> Result<(), HubError> {
        if self.0.load(Ordering::SeqCst) { Err(HubError::Stopped) } else { Ok(()) }
    }
}
