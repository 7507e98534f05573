//! Who works on texts off the async threads, and how many at a time: they share the cores with the lane.

use plimsoll_api::error::{Error, Reason};
use std::sync::Arc;
use tokio::sync::Semaphore;

/// Blocking threads that work on one model's long prompts at a time, and on its shorter ones.
const STAGERS: usize = 1;
/// Bytes from which a prompt is long: cutting it takes tens of milliseconds and more.
const LONG: usize = 32 << 10;
/// Of those who want only the tokens, or only the text.
pub(crate) const CUTTERS: usize = 1;

/// The places of those who work on prompts: long ones have their own, so that they keep no shorter one waiting.
pub(crate) struct Stagers {
    short: Arc<Semaphore>,
    long: Arc<Semaphore>,
}

impl Default for Stagers {
    fn default() -> Self {
        let [short, long] = [STAGERS; 2].map(|places| Arc::new(Semaphore::new(places)));
        Self { short, long }
    }
}

impl Stagers {
    /// The places for a prompt of so many bytes.
    pub(crate) fn of(&self, bytes: usize) -> &Arc<Semaphore> {
        if bytes < LONG { &self.short } else { &self.long }
    }
}

/// Does `work` on a blocking thread, as many at a time as `places` allows: they share the cores with the lane.
pub(crate) async fn off_thread<T: Send + 'static>(
    places: &Arc<Semaphore>,
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let permit = places.clone().acquire_owned().await;
    // The thread gives the permit back, not the caller: one whose client left still computes.
    let staged = move || {
        let _permit = permit;
        work()
    };
    let result = tokio::task::spawn_blocking(staged).await;
    result.unwrap_or_else(|_| Err(Error::new(Reason::Internal, "the text could not be worked on")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// However many long prompts there are, and however long they take, a shorter one is cut meanwhile.
    #[tokio::test]
    async fn long_prompts_keep_no_shorter_one_waiting() {
        let stagers = Stagers::default();
        let (began, mut has_begun) = tokio::sync::mpsc::channel(3);
        let gates: Vec<_> = (0..3)
            .map(|_| {
                let (open, is_open) = mpsc::sync_channel::<()>(0);
                let (places, began) = (stagers.of(100_000).clone(), began.clone());
                let cut = async move {
                    off_thread(&places, move || {
                        began.blocking_send(()).ok();
                        is_open.recv().ok();
                        Ok(())
                    })
                    .await
                };
                (open, tokio::spawn(cut))
            })
            .collect();
        has_begun.recv().await;
        for bytes in [2_049, 10_000] {
            assert_eq!(off_thread(stagers.of(bytes), move || Ok(bytes)).await, Ok(bytes));
        }
        for (open, long) in gates {
            assert!(!long.is_finished());
            drop(open);
            assert_eq!(long.await.unwrap(), Ok(()));
        }
    }
}
