//! Who loses its blocks gets them back from the parking store, where that is cheaper than computing them again.

mod toy;

use plimsoll_sched::{Arrival, CostModel, Deadlines, Event, Limits, Plan, Planner, SeqId, Snapshot};
use std::sync::Arc;
use std::time::Duration;
use toy::Toy;
use toy::script::Job;

fn limits(park_blocks: usize, park_move: Duration) -> Limits {
    Limits {
        max_seqs: 4,
        max_rows: 512,
        max_logits: 64,
        context: 1024,
        blocks: 6,
        step_budget: Duration::from_secs(1),
        park_blocks,
        park_move,
        park_ahead: 1,
        quantile: 0.99,
        queue: plimsoll_sched::QueueRule::default(),
    }
}

fn arrived(seq: u64, prompt: usize, max_len: usize) -> Event {
    let (names, fork_of) = Default::default();
    Event::Arrived(Arrival {
        seq: SeqId(seq),
        prompt,
        max_len,
        all_logits: false,
        names,
        fork_of,
        deadlines: Deadlines::default(),
    })
}

const DONE: Event = Event::StepDone { elapsed: Duration::from_millis(5) };

struct Lane {
    planner: Planner,
    plan: Plan,
}

impl Lane {
    /// Sequence 1, which had computed 40 tokens when it was paused, has just made way for sequence 2.
    fn preempted(limits: Limits) -> Self {
        let planner = Planner::new(limits, CostModel::default(), Arc::new(Snapshot::default()));
        let mut lane = Self { planner, plan: Plan::default() };
        lane.step([arrived(1, 40, 96)]);
        lane.step([DONE, Event::Paused(SeqId(1))]);
        lane.step([arrived(2, 80, 96)]);
        assert_eq!(lane.plan.preempted, [SeqId(1)]);
        lane
    }

    fn step(&mut self, events: impl IntoIterator<Item = Event>) {
        self.planner.step(Duration::ZERO, events, &mut self.plan);
        self.planner.assert_sound();
    }

    fn spans(&self) -> Vec<(u64, usize, usize)> {
        self.plan.spans.iter().map(|span| (span.seq.0, span.start, span.len)).collect()
    }

    fn saves(&self) -> Vec<u64> {
        self.plan.moves.saves.iter().map(|save| save.seq.0).collect()
    }
}

#[test]
fn the_cheaper_of_parking_and_computing_again_is_done() {
    // By the model's default a token of prefill takes a millisecond; three blocks go there and come back.
    for (slots, each, saves) in
        [(8, 1, 3), (3, 1, 3), (2, 1, 0), (0, 1, 0), (8, 6, 3), (8, 7, 0), (8, 1000, 0)]
    {
        let mut lane = Lane::preempted(limits(slots, Duration::from_millis(each)));
        assert_eq!(lane.saves().len(), saves, "{slots} slots, {each} ms");
        lane.step([DONE, Event::Cancelled(SeqId(2)), Event::Resumed(SeqId(1))]);
        if saves > 0 {
            assert_eq!(lane.plan.moves.fetches, [(SeqId(1), 0)]);
            assert!(lane.plan.spans.is_empty(), "its blocks are not at hand");
            lane.step([Event::Fetched(SeqId(1))]);
            let loaded = lane.plan.moves.loads.iter().map(|load| load.seq.0);
            assert!(loaded.eq([1; 3]));
            assert_eq!(lane.plan.moves.fetched, [SeqId(1)]);
            assert_eq!(lane.spans(), [(1, 40, 1)]);
        } else {
            assert_eq!(lane.spans(), [(1, 0, 41)]);
        }
        lane.step([DONE, Event::Finished(SeqId(1))]);
        assert_eq!(lane.plan.moves.discards.len(), saves);
        assert_eq!(lane.planner.parked_blocks(), 0);
    }
}

#[test]
fn only_what_was_written_since_is_saved_the_second_time() {
    let mut lane = Lane::preempted(limits(8, Duration::ZERO));
    lane.step([DONE, Event::Cancelled(SeqId(2)), Event::Resumed(SeqId(1))]);
    lane.step([Event::Fetched(SeqId(1))]);
    for _ in 0..10 {
        lane.step([DONE]);
    }
    lane.step([Event::Paused(SeqId(1)), arrived(3, 80, 96)]);
    // Position 40 is in the third block, position 49 in the fourth.
    let slots = lane.planner.slots(SeqId(1));
    let saved: Vec<_> = lane.plan.moves.saves.iter().map(|save| save.at.slot).collect();
    assert_eq!((lane.saves(), &saved[..]), (vec![1, 1], &slots[2..]));
}

#[test]
fn what_the_store_lost_is_computed_again() {
    let preempted = || Lane::preempted(limits(8, Duration::ZERO));
    // When it was saved, when it was fetched.
    let mut lane = preempted();
    lane.step([Event::ParkLost(SeqId(1)), DONE, Event::Cancelled(SeqId(2)), Event::Resumed(SeqId(1))]);
    assert_eq!((lane.spans(), lane.planner.parked_blocks()), (vec![(1, 0, 41)], 0));
    let mut lane = preempted();
    lane.step([DONE, Event::Cancelled(SeqId(2)), Event::Resumed(SeqId(1))]);
    lane.step([Event::ParkLost(SeqId(1))]);
    assert_eq!((lane.spans(), lane.planner.parked_blocks()), (vec![(1, 0, 41)], 0));
    // When it was loaded: the plan is dropped.
    let mut lane = preempted();
    lane.step([DONE, Event::Cancelled(SeqId(2)), Event::Resumed(SeqId(1))]);
    lane.step([Event::Fetched(SeqId(1))]);
    assert_eq!(lane.spans(), [(1, 40, 1)]);
    lane.step([Event::StepFailed, Event::ParkLost(SeqId(1))]);
    assert_eq!((lane.spans(), lane.planner.parked_blocks()), (vec![(1, 0, 41)], 0));
}

/// What is brought back may turn out to be lost: nobody takes it over in the same step.
#[test]
fn a_fork_waits_until_its_origin_has_been_brought_back() {
    let mut lane = Lane::preempted(limits(8, Duration::ZERO));
    let Event::Arrived(fork) = arrived(3, 40, 96) else { unreachable!() };
    let fork = Event::Arrived(Arrival { fork_of: Some(SeqId(1)), ..fork });
    lane.step([DONE, Event::Cancelled(SeqId(2)), Event::Resumed(SeqId(1))]);
    lane.step([Event::Fetched(SeqId(1)), fork]);
    assert_eq!((lane.spans(), lane.plan.moves.copies.len()), (vec![(1, 40, 1)], 0));
    lane.step([DONE]);
    assert_eq!((lane.spans(), lane.plan.moves.copies.len()), (vec![(1, 41, 1), (3, 39, 1)], 1));
}

#[test]
fn the_toy_lane_parks_and_shares() {
    let job = |family| Job {
        gap: 1,
        prompt: 60,
        family,
        forks: 1,
        output: 29,
        all_logits: false,
        cancel: None,
        pause: Some((3, 10)),
        terms: plimsoll_sched::Terms::default(),
    };
    let jobs: Vec<_> = (0..12).map(|i| job((i % 2 == 0).then_some((0, 40)))).collect();
    let toy = Toy::new(Limits { blocks: 12, ..limits(40, Duration::ZERO) }).run(&jobs);
    assert!(toy.restored > 100 && toy.shared > 100, "{} restored, {} shared", toy.restored, toy.shared);
}
