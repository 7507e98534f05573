//! The planner against a toy lane that knows what every sequence is owed, and what is in every slot of every block.

mod toy;

use plimsoll_sched::Class;
use plimsoll_sched::{
    Arrival, CostModel, Deadlines, Event, Expected, Limits, LogitRows, Plan, Planner, SeqId, Snapshot,
};
use proptest::prelude::*;
use std::sync::Arc;
use std::time::Duration;
use toy::Toy;
use toy::script::{job, limits, loner};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn nobody_is_lost_doubled_or_starved(limits in limits(), jobs in proptest::collection::vec(job(), 1..40)) {
        let mut toy = Toy::new(limits).run(&jobs);
        prop_assert_eq!(toy.finished + toy.cancelled + toy.expired, toy.next as usize);
        let mut plan = Plan::default();
        let late: Vec<_> = (0..toy.next).map(|i| Event::Cancelled(SeqId(i))).collect();
        toy.planner.step(Duration::from_secs(9), late, &mut plan);
        prop_assert_eq!(toy.planner.live(), 0);
        prop_assert_eq!(toy.planner.parked_blocks(), 0);
        let counts = toy.planner.block_counts();
        prop_assert_eq!(counts.free + counts.cached, limits.blocks);
        toy.planner.shed(limits.blocks);
        prop_assert_eq!(toy.planner.block_counts().free, limits.blocks);
    }

    #[test]
    fn first_come_first_served(limits in limits(), jobs in proptest::collection::vec(loner(), 1..40)) {
        let mut starts = Toy::new(limits).run(&jobs).starts;
        starts.sort_by_key(|&(seq, _)| seq);
        prop_assert!(starts.is_sorted_by_key(|&(_, step)| step), "{:?}", starts);
    }

    #[test]
    fn plans_are_deterministic(limits in limits(), jobs in proptest::collection::vec(job(), 1..20)) {
        prop_assert_eq!(Toy::new(limits).run(&jobs).plans, Toy::new(limits).run(&jobs).plans);
    }
}

fn limits_of(max_seqs: usize, blocks: usize, step_budget: Duration) -> Limits {
    Limits {
        max_seqs,
        max_rows: 512,
        max_logits: 64,
        context: 1024,
        blocks,
        step_budget,
        park_blocks: 0,
        park_move: Duration::ZERO,
        park_ahead: 0,
        quantile: 0.99,
        queue: plimsoll_sched::QueueRule::default(),
    }
}

fn planner(max_seqs: usize, blocks: usize, budget: Duration) -> Planner {
    Planner::new(limits_of(max_seqs, blocks, budget), CostModel::default(), Arc::default())
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

/// One of `class` that must have its first token by `first` and its last by `last`, in milliseconds.
fn urgent(seq: u64, class: Class, first: Option<u64>, last: Option<u64>) -> Event {
    let Event::Arrived(arrival) = arrived(seq, 20, 100) else { unreachable!() };
    let [first, last] = [first, last].map(|ms| ms.map(Duration::from_millis));
    Event::Arrived(Arrival { deadlines: Deadlines { class, first, last, ..Deadlines::default() }, ..arrival })
}

#[test]
fn the_line_is_by_class_then_deadline_then_arrival() {
    let mut planner = planner(1, 64, Duration::from_millis(50));
    let mut plan = Plan::default();
    let events = [
        urgent(0, Class::Standard, None, None),
        urgent(1, Class::Interactive, Some(900), None),
        urgent(2, Class::Interactive, Some(500), None),
        urgent(3, Class::Standard, Some(5000), None),
        urgent(4, Class::Batch, None, None),
        // A time for the last token alone is a deadline as well, and no hurry is none.
        urgent(5, Class::Standard, None, Some(4000)),
        urgent(6, Class::Standard, None, Some(600_000)),
    ];
    planner.step(Duration::ZERO, events, &mut plan);
    for seq in [2, 1, 5, 3, 0, 6, 4].map(SeqId) {
        assert_eq!(plan.spans[0].seq, seq);
        planner.step(Duration::ZERO, [DONE, Event::Finished(seq)], &mut plan);
    }
}

#[test]
fn a_step_is_due_when_the_first_of_its_promises_is() {
    let ms = Duration::from_millis;
    let of = |seq, first, itl: u64, last| match urgent(seq, Class::Standard, first, last) {
        Event::Arrived(Arrival { deadlines, .. }) => {
            let Event::Arrived(arrival) = arrived(seq, 20, 100) else { unreachable!() };
            Event::Arrived(Arrival { deadlines: Deadlines { itl: Some(ms(itl)), ..deadlines }, ..arrival })
        }
        other => other,
    };
    for (events, dues) in [
        (vec![arrived(0, 20, 100)], [None, None, None]),
        (vec![of(0, Some(500), 60, None)], [Some(500), Some(160), Some(220)]),
        (vec![of(0, Some(500), 60, None), of(1, Some(400), 90, None)], [Some(400), Some(160), Some(220)]),
        (vec![of(0, Some(500), 60, Some(170)), arrived(1, 20, 100)], [Some(170), Some(160), Some(170)]),
    ] {
        let mut planner = planner(4, 64, ms(1000));
        let mut plan = Plan::default();
        planner.step(Duration::ZERO, events, &mut plan);
        let mut seen = vec![plan.due];
        for at in [100, 130] {
            planner.step(ms(at), [DONE], &mut plan);
            seen.push(plan.due);
        }
        assert_eq!(seen, dues.map(|due| due.map(ms)));
        planner.step(ms(131), [DONE, Event::Cancelled(SeqId(0)), Event::Cancelled(SeqId(1))], &mut plan);
        assert_eq!(plan.due, None, "nothing runs");
    }
}

#[test]
fn a_first_token_that_is_late_already_is_due_no_more() {
    let ms = Duration::from_millis;
    // A prompt of several steps.
    let Event::Arrived(long) = arrived(0, 150, 200) else { unreachable!() };
    for (first, due) in [(50, None), (60, None), (61, Some(ms(61)))] {
        let mut planner = planner(4, 64, ms(50));
        let mut plan = Plan::default();
        let deadlines = Deadlines { first: Some(ms(first)), itl: Some(ms(60)), ..Deadlines::default() };
        planner.step(Duration::ZERO, [Event::Arrived(Arrival { deadlines, ..long.clone() })], &mut plan);
        assert_eq!(plan.due, Some(ms(first)));
        planner.step(ms(60), [DONE], &mut plan);
        assert_eq!((plan.spans.len(), plan.due), (1, due), "it goes on: {plan:?}");
    }
}

#[test]
fn whose_time_is_up_is_ended_and_its_blocks_are_free() {
    let ms = Duration::from_millis;
    let mut planner = planner(1, 64, ms(50));
    let mut plan = Plan::default();
    let events = [
        urgent(0, Class::Interactive, Some(10), Some(100)),
        urgent(1, Class::Standard, Some(40), None),
        urgent(2, Class::Standard, None, None),
    ];
    planner.step(Duration::ZERO, events, &mut plan);
    assert_eq!(plan.spans[0].seq, SeqId(0));
    planner.step(ms(39), [DONE], &mut plan);
    assert_eq!((&plan.expired[..], plan.spans[0].seq), (&[][..], SeqId(0)), "late, but it has begun");
    planner.step(ms(40), [DONE], &mut plan);
    assert_eq!((&plan.expired[..], plan.spans[0].seq), (&[SeqId(1)][..], SeqId(0)), "it never ran");
    planner.step(ms(100), [DONE], &mut plan);
    assert_eq!((&plan.expired[..], plan.spans[0].seq), (&[SeqId(0)][..], SeqId(2)));
    planner.step(ms(101), [DONE, Event::Finished(SeqId(2))], &mut plan);
    assert_eq!((planner.live(), planner.block_counts().free), (0, 64));
}

/// Its first token came with the first continuation: those that wait for a place do not end it.
#[test]
fn a_continuation_outlives_the_time_for_the_first_token() {
    let ms = Duration::from_millis;
    let mut planner = planner(1, 64, ms(50));
    let mut plan = Plan::default();
    let Event::Arrived(second) = urgent(1, Class::Standard, Some(40), Some(100)) else { unreachable!() };
    let second = Event::Arrived(Arrival { fork_of: Some(SeqId(0)), ..second });
    planner.step(Duration::ZERO, [urgent(0, Class::Standard, Some(40), Some(100)), second], &mut plan);
    for now in [30, 40, 60] {
        planner.step(ms(now), [DONE], &mut plan);
        assert_eq!((&plan.expired[..], plan.spans[0].seq), (&[][..], SeqId(0)), "at {now} ms");
    }
    planner.step(ms(100), [DONE], &mut plan);
    assert_eq!(plan.expired, [SeqId(0), SeqId(1)], "the last token has a time too");
}

/// Nor does it count as a first token that came later than predicted, which would have others refused.
#[test]
fn a_continuation_teaches_nothing_of_predictions() {
    let ms = Duration::from_millis;
    let learned = |continuation: bool| {
        let snapshot = Arc::new(Snapshot::default());
        let mut planner = Planner::new(limits_of(1, 64, ms(50)), CostModel::default(), snapshot.clone());
        let mut plan = Plan::default();
        let Event::Arrived(arrival) = arrived(1, 20, 100) else { unreachable!() };
        let expected = Some(Expected { at: ms(0), first: ms(30), at_most: ms(60), ends_in_time: true });
        let arrival = Arrival { deadlines: Deadlines { expected, ..Deadlines::default() }, ..arrival };
        let fork_of = continuation.then_some(SeqId(0));
        planner.step(ms(0), [arrived(0, 20, 100), Event::Arrived(Arrival { fork_of, ..arrival })], &mut plan);
        planner.step(ms(30), [DONE], &mut plan);
        planner.step(ms(900), [DONE, Event::Finished(SeqId(0))], &mut plan);
        planner.step(ms(930), [DONE], &mut plan);
        assert!(plan.spans[0].start >= 20, "it had its first token: {plan:?}");
        snapshot.view().allowance
    };
    let new = Arc::new(Snapshot::default());
    Planner::new(limits_of(1, 64, ms(50)), CostModel::default(), new.clone());
    let standard =
        |[near, far]: [[f64; Class::COUNT]; 2]| (near[Class::Standard.index()], far[Class::Standard.index()]);
    assert_eq!(standard(learned(true)), standard(new.view().allowance));
    assert!(standard(learned(false)) > standard(new.view().allowance), "the test sees what is learned");
}

#[test]
fn one_that_is_paused_wakes_the_lane_when_its_time_is_up() {
    let mut planner = planner(1, 64, Duration::from_millis(50));
    let mut plan = Plan::default();
    planner.step(Duration::ZERO, [urgent(0, Class::Standard, None, Some(70))], &mut plan);
    planner.step(Duration::ZERO, [DONE, Event::Paused(SeqId(0))], &mut plan);
    assert_eq!((plan.spans.len(), plan.wake), (0, Some(Duration::from_millis(70))));
}

#[test]
fn batch_makes_way_for_a_place_and_comes_back_where_it_was() {
    let mut planner = planner(2, 64, Duration::from_millis(50));
    let mut plan = Plan::default();
    let batch = |seq| urgent(seq, Class::Batch, None, None);
    planner.step(Duration::ZERO, [batch(0), batch(1), batch(2)], &mut plan);
    planner.step(Duration::ZERO, [DONE, urgent(3, Class::Interactive, Some(500), None)], &mut plan);
    assert_eq!(plan.preempted, [SeqId(1)], "the last of the batch");
    assert!(plan.spans.iter().any(|span| span.seq == SeqId(3)));
    planner.step(Duration::ZERO, [DONE, Event::Finished(SeqId(3))], &mut plan);
    let span = plan.spans.iter().find(|span| span.seq == SeqId(1)).expect("before 2, which never ran");
    assert_eq!((span.start, span.len), (0, 21), "with the token it had");
}

/// A class that has less than 85 % of what it is promised gets shorter steps: batch makes way though there is a place for it,
/// stays away for a while, and comes back where it was when nobody more urgent runs.
#[test]
fn batch_stands_back_for_a_class_that_misses_its_target() {
    let mut planner = planner(4, 64, Duration::from_millis(50));
    let mut plan = Plan::default();
    let runs = |plan: &Plan, seq: u64| plan.spans.iter().any(|span| span.seq == SeqId(seq));
    let events = [urgent(0, Class::Batch, None, None), urgent(1, Class::Interactive, None, None)];
    planner.step(Duration::ZERO, events, &mut plan);
    let mut rounds = Vec::new();
    for i in 2..25 {
        let at = Duration::from_millis(60 * i);
        let gone = Event::Finished(SeqId(if i > 2 { i - 1 } else { 99 }));
        // It begins in time, and its first token comes too late.
        planner.step(at, [DONE, gone, urgent(i, Class::Interactive, Some(60 * i + 10), None)], &mut plan);
        let mut made_way = plan.preempted.contains(&SeqId(0));
        planner.step(at + Duration::from_millis(40), [DONE], &mut plan);
        made_way |= plan.preempted.contains(&SeqId(0));
        assert!(runs(&plan, i) && runs(&plan, 1));
        rounds.push((made_way, runs(&plan, 0)));
        planner.assert_sound();
    }
    let misses = rounds.iter().position(|&(made_way, _)| made_way).expect("it makes way");
    assert!((9..15).contains(&misses), "after {misses} have missed: {rounds:?}");
    assert!(rounds[..misses].iter().all(|&(_, runs)| runs), "{rounds:?}");
    assert!(rounds[misses..misses + 8].iter().all(|&(_, runs)| !runs), "{rounds:?}");
    let gone = [1, 24].map(|seq| Event::Finished(SeqId(seq)));
    planner.step(Duration::from_secs(2), [DONE].into_iter().chain(gone), &mut plan);
    assert!(runs(&plan, 0), "nobody more urgent runs");
}

const DONE: Event = Event::StepDone { elapsed: Duration::from_millis(5) };

#[test]
fn decodes_go_before_prefill_and_share_a_step() {
    let mut planner = planner(4, 64, Duration::from_millis(50));
    let mut plan = Plan::default();
    planner.step(Duration::ZERO, [arrived(0, 4, 100)], &mut plan);
    planner.step(Duration::ZERO, [DONE, arrived(1, 4, 100)], &mut plan);
    let seen: Vec<_> = plan.spans.iter().map(|s| (s.seq.0, s.start, s.len, s.logits)).collect();
    assert_eq!(seen, [(0, 4, 1, LogitRows::Last), (1, 0, 4, LogitRows::Last)]);
}

#[test]
fn a_long_prompt_is_cut_to_the_budget_and_decodes_go_on_beside_it() {
    let mut planner = planner(4, 64, Duration::from_millis(50));
    let mut plan = Plan::default();
    planner.step(Duration::ZERO, [arrived(0, 4, 100), arrived(1, 800, 900)], &mut plan);
    for _ in 0..5 {
        planner.step(Duration::ZERO, [Event::StepDone { elapsed: plan.predicted }], &mut plan);
        assert_eq!(plan.spans[0].seq, SeqId(0));
        assert_eq!((plan.spans[1].seq, plan.spans[1].logits), (SeqId(1), LogitRows::None));
        assert!(plan.spans[1].len > 1 && plan.predicted <= Duration::from_millis(50), "{plan:?}");
    }
}

#[test]
fn the_youngest_gives_its_blocks_and_is_computed_again_from_the_start() {
    let mut planner = planner(4, 6, Duration::from_secs(1));
    let mut plan = Plan::default();
    planner.step(Duration::ZERO, [arrived(0, 16, 96), arrived(1, 16, 96)], &mut plan);
    let mut generated = 0;
    while plan.preempted.is_empty() {
        planner.step(Duration::ZERO, [DONE], &mut plan);
        generated += 1;
        assert!(generated < 96);
    }
    assert_eq!(plan.preempted, [SeqId(1)]);
    assert!(plan.spans.iter().all(|span| span.seq == SeqId(0)));
    planner.step(Duration::ZERO, [DONE, Event::Finished(SeqId(0))], &mut plan);
    let span = plan.spans[0];
    assert_eq!((span.seq, span.start, span.len, span.logits), (SeqId(1), 0, 16 + generated, LogitRows::Last));
}

#[test]
fn a_paused_sequence_keeps_its_blocks_until_they_are_needed() {
    let mut planner = planner(4, 6, Duration::from_secs(1));
    let mut plan = Plan::default();
    planner.step(Duration::ZERO, [arrived(0, 40, 96)], &mut plan);
    planner.step(Duration::ZERO, [DONE, Event::Paused(SeqId(0))], &mut plan);
    assert!(plan.spans.is_empty());
    assert_eq!(planner.block_counts().free, 3);
    planner.step(Duration::ZERO, [arrived(1, 40, 96)], &mut plan);
    assert_eq!((plan.spans[0].seq, plan.preempted.len()), (SeqId(1), 0));
    planner.step(Duration::ZERO, [DONE, Event::Cancelled(SeqId(1)), arrived(2, 80, 96)], &mut plan);
    assert_eq!((plan.spans[0].seq, &plan.preempted[..]), (SeqId(2), &[SeqId(0)][..]));
    planner.step(Duration::ZERO, [DONE, Event::Resumed(SeqId(0)), Event::Finished(SeqId(2))], &mut plan);
    assert_eq!((plan.spans[0].seq, plan.spans[0].start, plan.spans[0].len), (SeqId(0), 0, 41));
}

#[test]
fn a_model_slower_than_the_budget_still_batches() {
    let mut planner = planner(4, 64, Duration::from_micros(1));
    let mut plan = Plan::default();
    planner.step(Duration::ZERO, [arrived(0, 1, 100), arrived(1, 30, 100)], &mut plan);
    for _ in 0..40 {
        planner.step(Duration::ZERO, [DONE], &mut plan);
    }
    assert_eq!(plan.spans.len(), 2, "{plan:?}");
}
