//! The arm of a moment: blocks of time in random order.
//!
//! Blocks come in rounds. A round has as many blocks of each arm as its weight says, in random order, all of one length: so
//! within a round every arm has its share of the time, whatever the load does from hour to hour.

use crate::design::{Design, Unit};
use crate::random::Random;
use std::time::Duration;

/// A block of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Counted from 0.
    pub number: u64,
    /// Which round it is in.
    pub round: u64,
    /// The arm in force; `None`: each request has its own.
    pub arm: Option<usize>,
    /// When it begins.
    pub begins: Duration,
    /// From when on requests are counted.
    pub counts_from: Duration,
    /// When the next one begins.
    pub ends: Duration,
}

/// Which block it is.
#[derive(Debug, Clone)]
pub struct Schedule {
    random: Random,
    block: Duration,
    wash_out: Duration,
    unit: Unit,
    /// The arms of a round's blocks, in the order of this round.
    order: Vec<usize>,
    /// The place in `order` after the current block.
    next: usize,
    /// How long the blocks of this round are.
    length: Duration,
    current: Span,
}

impl Schedule {
    /// From time 0 on.
    pub fn new(design: &Design) -> Self {
        let order = match design.unit {
            Unit::Lane => {
                let each = design.weights().into_iter().enumerate();
                each.flat_map(|(arm, weight)| std::iter::repeat_n(arm, weight as usize)).collect()
            }
            Unit::Request => vec![0],
        };
        let (begins, counts_from, ends) = Default::default();
        let mut schedule = Self {
            random: Random::new(design.seed),
            block: design.block,
            wash_out: design.wash_out,
            unit: design.unit,
            next: order.len(),
            order,
            length: Duration::ZERO,
            current: Span { number: 0, round: 0, arm: None, begins, counts_from, ends },
        };
        schedule.begin_round();
        schedule.begin_block(0, 0);
        schedule
    }

    /// The block at `now`. It never goes back: what is before the current block is taken to be in it.
    pub fn at(&mut self, now: Duration) -> Span {
        while now >= self.current.ends {
            let mut round = self.current.round;
            if self.next == self.order.len() {
                round += 1;
                self.begin_round();
            }
            self.begin_block(self.current.number + 1, round);
        }
        self.current
    }

    fn begin_round(&mut self) {
        self.random.shuffle(&mut self.order);
        self.length = self.block.mul_f64(0.5 + self.random.unit());
        self.next = 0;
    }

    fn begin_block(&mut self, number: u64, round: u64) {
        let (begins, is_lane) = (self.current.ends, self.unit == Unit::Lane);
        let arm = is_lane.then(|| self.order[self.next]);
        let counts_from = if is_lane { begins + self.wash_out } else { begins };
        self.current = Span { number, round, arm, begins, counts_from, ends: begins + self.length };
        self.next += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::design::tests::design;
    use proptest::prelude::*;

    fn spans(design: &Design, until: Duration) -> Vec<Span> {
        let mut schedule = Schedule::new(design);
        let mut spans = vec![schedule.at(Duration::ZERO)];
        while let Some(last) = spans.last().filter(|last| last.ends < until) {
            let next = schedule.at(last.ends);
            spans.push(next);
        }
        spans
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn blocks_follow_each_other_and_rounds_balance(
            seed: u64,
            weights in prop::collection::vec(1_u32..4, 2..4),
            jump in 1_u64..500_000,
        ) {
            let design = Design { seed, ..design(Unit::Lane, &weights) };
            let spans = spans(&design, Duration::from_secs(5000));
            for pair in spans.windows(2) {
                prop_assert_eq!(pair[0].ends, pair[1].begins);
                prop_assert_eq!(pair[0].number + 1, pair[1].number);
                prop_assert!(pair[0].round <= pair[1].round);
            }
            for span in &spans {
                let length = span.ends - span.begins;
                prop_assert!(length >= Duration::from_secs(10) && length <= Duration::from_secs(30));
                prop_assert_eq!(span.counts_from - span.begins, design.wash_out);
            }
            for round in 0..spans[spans.len() - 1].round {
                let blocks: Vec<_> = spans.iter().filter(|span| span.round == round).collect();
                for (arm, weight) in design.weights().into_iter().enumerate() {
                    let of_arm = blocks.iter().filter(|span| span.arm == Some(arm)).count();
                    prop_assert_eq!(of_arm, weight as usize);
                }
                let length = blocks[0].ends - blocks[0].begins;
                prop_assert!(blocks.iter().all(|span| span.ends - span.begins == length));
            }
            // Whoever looks seldom sees the same blocks.
            let at = Duration::from_millis(jump);
            let found = spans.iter().find(|span| span.begins <= at && at < span.ends);
            prop_assert_eq!(Some(&Schedule::new(&design).at(at)), found);
        }
    }

    #[test]
    fn each_order_is_as_likely() {
        let design = design(Unit::Lane, &[1, 1, 1]);
        let spans = spans(&design, Duration::from_secs(60 * 3000));
        let mut firsts = [0_u32; 3];
        spans.chunks_exact(3).for_each(|round| firsts[round[0].arm.unwrap()] += 1);
        let rounds = f64::from(firsts.iter().sum::<u32>());
        assert!(firsts.iter().all(|&n| (f64::from(n) / rounds - 1.0 / 3.0).abs() < 0.05), "{firsts:?}");
    }

    #[test]
    fn it_never_goes_back() {
        let mut schedule = Schedule::new(&design(Unit::Lane, &[1, 1]));
        let later = schedule.at(Duration::from_secs(100));
        assert_eq!(schedule.at(Duration::from_secs(3)), later);
    }

    #[test]
    fn requests_have_no_wash_out() {
        let spans = spans(&design(Unit::Request, &[1, 3]), Duration::from_secs(100));
        assert!(spans.iter().all(|span| span.arm.is_none() && span.counts_from == span.begins));
        assert!(spans.windows(2).all(|pair| pair[0].round + 1 == pair[1].round));
    }
}
