//! Who works on texts off the async threads, and how many at a time: they share the cores with the lane.

use plimsoll_api::error::{Error, Reason};
use std::sync::Arc;
use tokio::sync::{Semaphore, oneshot};

/// Blocking threads that work on one model's long prompts at a time, and on its shorter ones.
const STAGERS: usize = 1;
/// Bytes from which a prompt is long: cutting it takes tens of milliseconds and more.
const LONG: usize = 32 << 10;
/// How nice the threads are that work on long texts of which no answer is expected: they may take half a minute, and no
/// gate let them in, so they have what the lane leaves.
const CUTTERS_NICE: i32 = 19;

/// The places of those who work on texts: long ones have their own, so that they keep no shorter one waiting.
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

    /// Does `work` on a text of so many bytes of which only the tokens, or the text, are wanted.
    pub(crate) async fn cut<T: Send + 'static>(
        &self,
        bytes: usize,
        work: impl FnOnce() -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let places = self.of(bytes);
        if bytes < LONG { off_thread(places, work).await } else { behind_the_lane(places, work).await }
    }
}

/// Does `work` on a thread that has what others leave: one of its own, since a nice value cannot be taken back.
async fn behind_the_lane<T: Send + 'static>(
    places: &Arc<Semaphore>,
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let permit = places.clone().acquire_owned().await;
    let (done, result) = oneshot::channel();
    let cut = move || {
        let _permit = permit;
        plimsoll_host::thread::set_nice(CUTTERS_NICE).ok();
        done.send(work()).ok();
    };
    let thread = std::thread::Builder::new().name("plimsoll-cutter".into()).spawn(cut);
    match thread {
        Ok(_) => result.await.unwrap_or_else(|_| Err(failed())),
        Err(_) => Err(failed()),
    }
}

fn failed() -> Error {
    Error::new(Reason::Internal, "the text could not be worked on")
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
    result.unwrap_or_else(|_| Err(failed()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// However many long texts there are, and however long they take, a shorter one is cut meanwhile.
    async fn check<F: Future<Output = Result<usize, Error>> + Send + 'static>(
        cut: impl Fn(Arc<Stagers>, usize, Box<dyn FnOnce() -> Result<usize, Error> + Send>) -> F,
    ) {
        let stagers = Arc::new(Stagers::default());
        let (began, mut has_begun) = tokio::sync::mpsc::channel(3);
        let gates: Vec<_> = (0..3)
            .map(|_| {
                let (open, is_open) = mpsc::sync_channel::<()>(0);
                let began = began.clone();
                let work = move || {
                    began.blocking_send(()).ok();
                    is_open.recv().ok();
                    Ok(0)
                };
                (open, tokio::spawn(cut(stagers.clone(), 100_000, Box::new(work))))
            })
            .collect();
        has_begun.recv().await;
        for bytes in [2_049, 10_000] {
            assert_eq!(cut(stagers.clone(), bytes, Box::new(move || Ok(bytes))).await, Ok(bytes));
        }
        for (open, long) in gates {
            assert!(!long.is_finished());
            drop(open);
            assert_eq!(long.await.unwrap(), Ok(0));
        }
    }

    #[tokio::test]
    async fn long_prompts_keep_no_shorter_one_waiting() {
        check(|stagers, bytes, work| async move { off_thread(stagers.of(bytes), work).await }).await;
    }

    #[tokio::test]
    async fn long_texts_keep_no_shorter_one_waiting() {
        check(|stagers, bytes, work| async move { stagers.cut(bytes, work).await }).await;
    }

    /// Who only wants tokens has what the lane leaves, and what goes wrong there is an answer.
    #[tokio::test]
    async fn long_texts_are_cut_behind_the_lane() {
        let nice = || {
            let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
            let behind_name = stat.rsplit_once(')').unwrap().1;
            Ok(behind_name.split_whitespace().nth(16).unwrap().parse::<i32>().unwrap())
        };
        let stagers = Stagers::default();
        assert_eq!(stagers.cut(LONG, nice).await, Ok(CUTTERS_NICE));
        assert!(stagers.cut(LONG - 1, nice).await.unwrap() < CUTTERS_NICE);
        let panics = stagers.cut::<()>(LONG, || panic!("in a test")).await;
        assert_eq!(panics.unwrap_err().reason, Reason::Internal);
        assert_eq!(stagers.cut(LONG, || Ok(1)).await, Ok(1), "its place is free again");
    }
}
