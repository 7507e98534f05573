//! The blocks that are kept, and which one a request belongs to.
//!
//! A request belongs to the block in which it came to the door, also when it ends in a later one. Blocks in which nobody
//! came are not kept: arms have no say in who comes.

use crate::assign::arm_of;
use crate::design::Design;
use crate::schedule::{Schedule, Span};
use crate::tally::{Counts, Outcome, Tally};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::AcqRel, Ordering::Acquire};
use std::time::Duration;

/// The blocks of an experiment.
#[derive(Debug)]
pub struct Log {
    design: Design,
    schedule: Schedule,
    /// Oldest first, at most as many as the design keeps.
    kept: VecDeque<Arc<Block>>,
}

/// What is counted in a block.
#[derive(Debug)]
pub struct Block {
    span: Span,
    /// Requests that have not ended.
    open: AtomicU32,
    /// One per arm, or that of the arm in force alone.
    tallies: Box<[Tally]>,
}

/// Where a request belongs.
#[derive(Debug)]
pub struct Place {
    /// Its arm.
    pub arm: usize,
    /// Where it is counted; `None`: it came in a wash-out.
    pub seat: Option<Seat>,
}

/// Where a request is counted. Dropping it unsettled counts it as lost.
#[derive(Debug)]
pub struct Seat {
    block: Arc<Block>,
    tally: usize,
    is_settled: bool,
}

impl Seat {
    /// The request ended so.
    pub fn settle(mut self, outcome: &Outcome) {
        self.block.tallies[self.tally].add(outcome);
        self.is_settled = true;
    }

    /// It is not to be counted: it could not have been served by any arm.
    pub fn withdraw(mut self) {
        self.is_settled = true;
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if !self.is_settled {
            self.block.tallies[self.tally].add(&Outcome::Lost);
        }
        // Last, and released: whoever sees no request open sees all that they were counted as.
        self.block.open.fetch_sub(1, AcqRel);
    }
}

impl Log {
    /// Without blocks, from time 0 on.
    pub fn new(design: Design) -> Self {
        let schedule = Schedule::new(&design);
        Self { design, schedule, kept: VecDeque::new() }
    }

    /// The experiment.
    pub const fn design(&self) -> &Design {
        &self.design
    }

    /// The block at `now`.
    pub fn at(&mut self, now: Duration) -> Span {
        self.schedule.at(now)
    }

    /// A request with this id comes to the door at `now`.
    pub fn arrive(&mut self, now: Duration, id: &str) -> Place {
        let span = self.schedule.at(now);
        let arm = span.arm.unwrap_or_else(|| arm_of(&self.design, id));
        let counts = now >= span.counts_from;
        let seat = counts.then(|| {
            let block = self.block(span);
            block.open.fetch_add(1, AcqRel);
            Seat { block, tally: if span.arm.is_some() { 0 } else { arm }, is_settled: false }
        });
        Place { arm, seat }
    }

    fn block(&mut self, span: Span) -> Arc<Block> {
        if let Some(last) = self.kept.back().filter(|last| last.span.number == span.number) {
            return last.clone();
        }
        let tallies = if span.arm.is_some() { 1 } else { self.design.arms.len() };
        let tallies = (0..tallies).map(|_| Tally::default()).collect();
        let block = Arc::new(Block { span, open: AtomicU32::new(0), tallies });
        if self.kept.len() >= self.design.keep {
            self.kept.pop_front();
        }
        self.kept.push_back(block.clone());
        block
    }

    /// The blocks that are kept, oldest first. They are still added to.
    pub fn blocks(&self) -> Vec<Arc<Block>> {
        self.kept.iter().cloned().collect()
    }
}

/// What figures are made from: the rounds, with one [`Counts`] per arm.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rounds {
    /// Oldest first.
    pub rows: Vec<Vec<Counts>>,
    /// Blocks that are counted.
    pub counted: usize,
    /// Blocks that have not ended, or whose requests have not.
    pub open: usize,
}

impl Rounds {
    /// Of `blocks` that had ended at `now`, and all whose requests had, too.
    pub fn of(blocks: &[Arc<Block>], arms: usize, now: Duration) -> Self {
        let mut rounds = Self::default();
        let mut last = None;
        for block in blocks {
            if now < block.span.ends || block.open.load(Acquire) > 0 {
                rounds.open += 1;
                continue;
            }
            if last.replace(block.span.round) != Some(block.span.round) {
                rounds.rows.push(vec![Counts::default(); arms]);
            }
            let Some(row) = rounds.rows.last_mut() else { continue };
            let seconds = (block.span.ends - block.span.counts_from).as_secs_f64();
            rounds.counted += 1;
            for (i, tally) in block.tallies.iter().enumerate() {
                let arm = block.span.arm.unwrap_or(i);
                row[arm].add(&tally.counts(seconds));
            }
        }
        rounds
    }
}

impl Counts {
    fn add(&mut self, other: &Self) {
        self.seconds += other.seconds;
        self.blocks += other.blocks;
        self.requests.iter_mut().zip(other.requests).for_each(|(sum, more)| *sum += more);
        self.times.iter_mut().zip(&other.times).for_each(|(all, more)| all.extend_from_slice(more));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::design::{Unit, tests::design};
    use crate::tally::{KEPT, LOST, REFUSED};
    use proptest::prelude::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn answered(ms: u64) -> Outcome {
        let e2e = Duration::from_millis(ms);
        Outcome::Answered(crate::Answered { is_kept: true, ttft: Some(e2e), gap: None, e2e })
    }

    #[test]
    fn the_wash_out_is_not_counted() {
        let mut log = Log::new(design(Unit::Lane, &[1, 1]));
        let first = log.at(Duration::ZERO);
        let early = log.arrive(first.counts_from - Duration::from_nanos(1), "a");
        assert!(early.seat.is_none() && Some(early.arm) == first.arm && log.blocks().is_empty());
        let counted = log.arrive(first.counts_from, "a");
        assert!(counted.seat.is_some() && Some(counted.arm) == first.arm);
        assert_eq!(log.blocks().len(), 1);
    }

    #[test]
    fn who_straddles_belongs_to_the_block_it_came_in() {
        let mut log = Log::new(design(Unit::Lane, &[1, 1]));
        let first = log.at(Duration::ZERO);
        let early = log.arrive(first.ends - SECOND, "a");
        let next = log.arrive(first.ends + 5 * SECOND, "b");
        next.seat.unwrap().settle(&Outcome::Refused);
        let after = log.at(first.ends).ends;
        let rounds = |log: &Log| Rounds::of(&log.blocks(), 2, after);
        assert_eq!((rounds(&log).counted, rounds(&log).open), (1, 1), "it has not ended: its block waits");
        early.seat.unwrap().settle(&answered(7000));
        let all = rounds(&log);
        assert_eq!((all.counted, all.open, all.rows.len()), (2, 0, 1));
        let row = &all.rows[0];
        assert_eq!(row[first.arm.unwrap()].requests, [1, 0, 0, 0]);
        assert_eq!(row[1 - first.arm.unwrap()].requests, [0, 0, 1, 0]);
        let counted = (first.ends - first.counts_from).as_secs_f64();
        assert!(row.iter().all(|cell| cell.seconds == counted && cell.blocks == 1));
        assert_eq!(Rounds::of(&log.blocks(), 2, after - SECOND).open, 1, "the current block is open");
    }

    #[test]
    fn who_is_dropped_is_lost_and_who_withdraws_was_never_there() {
        let mut log = Log::new(design(Unit::Request, &[1, 1]));
        drop(log.arrive(SECOND, "a"));
        log.arrive(SECOND, "b").seat.unwrap().withdraw();
        log.arrive(SECOND, "c").seat.unwrap().settle(&Outcome::Refused);
        let rounds = Rounds::of(&log.blocks(), 2, 100 * SECOND);
        let sum = |which: usize| rounds.rows[0].iter().map(|cell| cell.requests[which]).sum::<u64>();
        assert_eq!([sum(KEPT), sum(REFUSED), sum(LOST)], [0, 1, 1]);
    }

    proptest! {
        /// However requests come and end, each that was counted is counted once, for its arm, and memory is bounded.
        #[test]
        fn nothing_is_lost_or_counted_twice(
            is_lane: bool,
            gaps in prop::collection::vec((0_u64..9_000, 0_usize..4, 0_usize..8), 1..200),
        ) {
            let unit = if is_lane { Unit::Lane } else { Unit::Request };
            let mut log = Log::new(Design { keep: 16, block: 10 * SECOND, wash_out: 2 * SECOND, ..design(unit, &[2, 1]) });
            let (mut now, mut seated, mut running) = (Duration::ZERO, [0_u64; 2], Vec::new());
            for (i, (gap, how, stays)) in gaps.into_iter().enumerate() {
                now += Duration::from_millis(gap);
                let place = log.arrive(now, &i.to_string());
                if !is_lane {
                    prop_assert!(place.seat.is_some());
                    prop_assert_eq!(place.arm, arm_of(log.design(), &i.to_string()));
                }
                if let Some(seat) = place.seat {
                    seated[place.arm] += 1;
                    running.push((seat, how));
                }
                while running.len() > stays {
                    let (seat, how) = running.remove(0);
                    match how {
                        0 => seat.settle(&answered(100)),
                        1 => seat.settle(&Outcome::Refused),
                        _ => drop(seat),
                    }
                }
                prop_assert!(log.blocks().len() <= 16);
            }
            running.clear();
            let blocks = log.blocks();
            let rounds = Rounds::of(&blocks, 2, now + 1000 * SECOND);
            prop_assert_eq!(rounds.open, 0);
            for (arm, seated) in seated.into_iter().enumerate() {
                let counted: u64 = rounds.rows.iter().map(|row| row[arm].offered()).sum();
                let is_right = counted == seated || blocks.len() == 16 && counted < seated;
                prop_assert!(is_right);
            }
        }
    }
}
