//! What is counted of requests: a fixed number of atomics per block and arm, so that a lane's thread adds to them without
//! waiting and without memory of its own.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Outcome {
    /// It was answered whole.
    Answered(Answered),
    /// It was turned away at the door.
    Refused,
    /// It was let in and not answered whole: its time was up, a step failed, or its client left.
    Lost,
}

/// An answer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Answered {
    /// Whether it was within the promise.
    pub is_kept: bool,
    /// From its arrival to the first token.
    pub ttft: Option<Duration>,
    /// The mean gap between its tokens.
    pub gap: Option<Duration>,
    /// From its arrival to the last token.
    pub e2e: Duration,
}

/// How many times are told apart, by kind.
pub(crate) const TIMES: usize = 3;
/// Buckets of times: sixteen to an octave from half a millisecond on, so that each is 4.4 % wide. The last one has all
/// beyond two minutes.
pub(crate) const BUCKETS: usize = 18 * OCTAVE;
const OCTAVE: usize = 16;
const FIRST: f64 = 0.0005;

/// The requests of one arm in one block.
#[derive(Debug)]
pub struct Tally {
    /// In the order of [`Counts::requests`].
    requests: [AtomicU32; 4],
    /// TTFT, mean gap, E2E.
    times: [[AtomicU32; BUCKETS]; TIMES],
}

impl Default for Tally {
    fn default() -> Self {
        let zeros = || std::array::from_fn(|_| AtomicU32::new(0));
        Self { requests: std::array::from_fn(|_| AtomicU32::new(0)), times: [zeros(), zeros(), zeros()] }
    }
}

impl Tally {
    /// Adds a request.
    pub fn add(&self, outcome: &Outcome) {
        let which = match outcome {
            Outcome::Answered(Answered { is_kept: true, .. }) => KEPT,
            Outcome::Answered(_) => LATE,
            Outcome::Refused => REFUSED,
            Outcome::Lost => LOST,
        };
        if let Outcome::Answered(Answered { ttft, gap, e2e, .. }) = outcome {
            for (time, buckets) in [*ttft, *gap, Some(*e2e)].into_iter().zip(&self.times) {
                time.into_iter().for_each(|time| _ = buckets[bucket(time)].fetch_add(1, Relaxed));
            }
        }
        self.requests[which].fetch_add(1, Relaxed);
    }

    /// What it comes to, when it is no longer added to.
    pub(crate) fn counts(&self, seconds: f64) -> Counts {
        let requests = std::array::from_fn(|i| u64::from(self.requests[i].load(Relaxed)));
        let times = std::array::from_fn(|i| {
            let counted = self.times[i].iter().map(|count| count.load(Relaxed)).enumerate();
            counted.filter(|&(_, count)| count > 0).collect()
        });
        Counts { seconds, blocks: 1, requests, times }
    }
}

pub(crate) const KEPT: usize = 0;
pub(crate) const LATE: usize = 1;
pub(crate) const REFUSED: usize = 2;
pub(crate) const LOST: usize = 3;

/// What one arm had in one round.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Counts {
    /// Time in which requests were counted.
    pub(crate) seconds: f64,
    /// Blocks.
    pub(crate) blocks: u64,
    /// Kept, late, refused, lost.
    pub(crate) requests: [u64; 4],
    /// Of TTFT, mean gap and E2E: buckets that are not empty.
    pub(crate) times: [Vec<(usize, u32)>; TIMES],
}

impl Counts {
    /// Requests that came.
    pub(crate) fn offered(&self) -> u64 {
        self.requests.iter().sum()
    }
}

fn bucket(time: Duration) -> usize {
    let octaves = (time.as_secs_f64() / FIRST).max(1.0).log2();
    ((octaves * OCTAVE as f64) as usize).min(BUCKETS - 1)
}

/// The middle of a bucket, in seconds.
pub(crate) fn middle(bucket: usize) -> f64 {
    FIRST * ((bucket as f64 + 0.5) / OCTAVE as f64).exp2()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_as_narrow_as_said() {
        for micros in [500_u64, 777, 1_000, 12_345, 60_000, 500_000, 9_000_000, 100_000_000] {
            let time = Duration::from_micros(micros);
            let found = middle(bucket(time));
            assert!((found / time.as_secs_f64() - 1.0).abs() < 0.023, "{time:?} is taken for {found}");
        }
        assert_eq!(bucket(Duration::ZERO), 0);
        assert_eq!(bucket(Duration::MAX), BUCKETS - 1);
    }

    #[test]
    fn each_request_is_counted_once() {
        let tally = Tally::default();
        let ms = Duration::from_millis;
        let answer = Answered { is_kept: true, ttft: Some(ms(100)), gap: None, e2e: ms(300) };
        tally.add(&Outcome::Answered(answer));
        tally.add(&Outcome::Answered(Answered { is_kept: false, gap: Some(ms(40)), ..answer }));
        tally.add(&Outcome::Refused);
        tally.add(&Outcome::Lost);
        tally.add(&Outcome::Lost);
        let counts = tally.counts(2.0);
        assert_eq!(counts.requests, [1, 1, 1, 2]);
        assert_eq!(counts.offered(), 5);
        let all: Vec<u32> = counts.times.iter().map(|times| times.iter().map(|time| time.1).sum()).collect();
        assert_eq!(all, [2, 1, 2]);
        assert_eq!(counts.times[0], [(bucket(ms(100)), 2)]);
    }
}
