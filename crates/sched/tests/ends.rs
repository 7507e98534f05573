//! The time to the last token: who is hurried by it, whom it holds up, and what is learned from it.

use plimsoll_sched::{
    Arrival, Class, CostModel, Deadlines, Event, Expected, Limits, Plan, Planner, QueueRule, SeqId, Snapshot,
};
use std::sync::Arc;
use std::time::Duration;

const DONE: Event = Event::StepDone { elapsed: Duration::from_millis(5) };

fn planner(max_seqs: usize) -> (Planner, Arc<Snapshot>) {
    let limits = Limits {
        max_seqs,
        max_rows: 512,
        max_logits: 64,
        context: 1024,
        blocks: 64,
        step_budget: Duration::from_millis(50),
        park_blocks: 0,
        park_move: Duration::ZERO,
        park_ahead: 0,
        quantile: 0.99,
        queue: QueueRule::default(),
    };
    let snapshot = Arc::new(Snapshot::default());
    (Planner::new(limits, CostModel::default(), snapshot.clone()), snapshot)
}

fn arrived(seq: u64, (prompt, max_len): (usize, usize), deadlines: Deadlines) -> Event {
    let (names, fork_of) = Default::default();
    Event::Arrived(Arrival { seq: SeqId(seq), prompt, max_len, all_logits: false, names, fork_of, deadlines })
}

/// One that must have its last token by `last`, in milliseconds, and whose end was predicted to be in time or not.
fn ends_by(seq: u64, last: Option<u64>, ends_in_time: bool) -> Event {
    let [at, first, at_most] = [0, 30, 60].map(Duration::from_millis);
    let expected = Some(Expected { at, first, at_most, ends_in_time });
    let last = last.map(Duration::from_millis);
    arrived(seq, (20, 100), Deadlines { expected, last, ..Deadlines::default() })
}

#[test]
fn who_must_end_soon_gives_no_turn_to_a_first_token() {
    let ms = Duration::from_millis;
    // How many tokens two have after so many steps beside a long prompt that was promised its first token. One always runs.
    let tokens = |last| {
        let (mut planner, _) = planner(4);
        let mut plan = Plan::default();
        let first = Deadlines { first: Some(ms(9000)), ..Deadlines::default() };
        let long = arrived(2, (900, 1000), first);
        let [a, b] = [0, 1].map(|seq| ends_by(seq, last, true));
        planner.step(Duration::ZERO, [a, b, long], &mut plan);
        let mut ran = 0;
        for step in 1..=8 {
            planner.step(ms(50 * step), [DONE], &mut plan);
            assert!(plan.spans.iter().any(|span| span.seq == SeqId(2)), "it prefills: {plan:?}");
            ran += plan.spans.iter().filter(|span| span.seq < SeqId(2)).count();
        }
        ran
    };
    assert_eq!(tokens(Some(4000)), 16);
    assert!(tokens(Some(600_000)) < 12 && tokens(None) < 12);
}

#[test]
fn who_waits_for_its_last_token_alone_may_be_overtaken_only_so_far() {
    let i = Class::Standard.index();
    for ends_in_time in [true, false] {
        let (mut planner, snapshot) = planner(1);
        let events = [3000, 4000].map(|last| ends_by(last, Some(last), ends_in_time));
        planner.step(Duration::ZERO, events, &mut Plan::default());
        let view = snapshot.view();
        assert_eq!(view.latest[i], 4.0);
        assert!(view.slack[i] > 0.0 && (view.slack[i] < 4.0) == ends_in_time, "{view:?}");
    }
}

#[test]
fn who_ends_late_teaches_others_only_where_it_was_not_to_be_foreseen() {
    let ms = Duration::from_millis;
    // How much of the time to the end is aimed at, by whether it was predicted to be in time, after what happened to it.
    let aim = |ends_in_time: bool, events: &[Event]| {
        let (mut planner, snapshot) = planner(1);
        let mut plan = Plan::default();
        planner.step(ms(0), [ends_by(0, Some(100), ends_in_time)], &mut plan);
        planner.step(ms(30), [DONE].into_iter().chain(events.to_vec()), &mut plan);
        planner.step(ms(70), [DONE], &mut plan);
        planner.step(ms(100), [DONE], &mut plan);
        assert_eq!(plan.expired, [SeqId(0)]);
        snapshot.view().aim_last[Class::Standard.index()]
    };
    let new = planner(1).1.view().aim_last[Class::Standard.index()];
    assert!(aim(true, &[]) < new, "the test sees what is learned");
    assert_eq!(aim(false, &[]), new, "it was alone");
    assert_eq!(aim(true, &[Event::Paused(SeqId(0))]), new, "its reader is slow");
}
