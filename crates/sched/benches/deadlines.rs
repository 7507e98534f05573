//! What carrying a deadline costs at each hop: `cargo bench -p plimsoll-sched --bench deadlines`.
//!
//! A hop with a deadline beside the same one without, in turns, so that what else the machine does hits both; a figure is the
//! median of its rounds, in nanoseconds for each request. The table is printed in Markdown, for `benches/README.md`.

use plimsoll_sched::{
    Arrival, Ask, Asked, Bounds, Class, CostModel, Deadlines, Door, Event, Gate, Limits, Plan, Planner,
    Promise, QueueRule, SeqId, Snapshot, Terms,
};
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

const ROUNDS: usize = 101;
const ITEMS: u32 = 2000;
/// Requests in the batch, whose deadlines the planner looks at in every step.
const BATCH: u64 = 16;

const LONG: Duration = Duration::from_secs(3600);
const TIMED: Promise = Promise {
    ttft: Some(LONG),
    ttft_per_token: Duration::ZERO,
    itl: Some(LONG),
    e2e: Some(LONG),
    quantile: 0.99,
};
const UNTIMED: Promise =
    Promise { ttft: None, ttft_per_token: Duration::ZERO, itl: None, e2e: None, quantile: 0.99 };

fn main() {
    println!("| hop | with, ns | without, ns | a deadline, ns |\n| --- | ---: | ---: | ---: |");
    row("from the promise and the headers to points in time", terms);
    row("the gate", gate);
    row(&format!("a step of the planner, for each of {BATCH} requests"), step);
}

/// `hop` makes a round ready for a promise; a round returns nanoseconds for each request.
fn row<R: FnMut() -> f64>(name: &str, hop: impl Fn(Promise) -> R) {
    let (mut with, mut without) = (hop(TIMED), hop(UNTIMED));
    let (mut timed, mut untimed): (Vec<f64>, Vec<f64>) = (0..ROUNDS).map(|_| (with(), without())).unzip();
    let (timed, untimed) = (median(&mut timed), median(&mut untimed));
    println!("| {name} | {timed:.0} | {untimed:.0} | {:.0} |", timed - untimed);
}

fn median(figures: &mut [f64]) -> f64 {
    figures.sort_unstable_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn each(mut once: impl FnMut(u32)) -> f64 {
    let begun = Instant::now();
    (0..ITEMS).for_each(&mut once);
    begun.elapsed().as_secs_f64() * 1e9 / f64::from(ITEMS)
}

fn terms(promise: Promise) -> impl FnMut() -> f64 {
    move || {
        each(|i| {
            let arrived = Duration::from_micros(u64::from(i));
            black_box(Terms::new(black_box(&promise), &Asked::default(), 100).from(arrived));
        })
    }
}

fn gate(promise: Promise) -> impl FnMut() -> f64 {
    let bounds = Bounds { sequences: 1000, tokens: 1 << 30, per_tenant: u32::MAX };
    let gate = Gate::new(Door { bounds, places: 16, tenants: 1 }, Arc::default());
    let terms = Terms::new(&promise, &Asked::default(), 100);
    move || {
        each(|i| {
            let arrived = Duration::from_micros(u64::from(i));
            let (prompt, max_tokens) = (100, Some(48));
            let ask = Ask { sequences: 1, tokens: 148, prompt, max_tokens, terms, arrived, tenant: 0 };
            drop(black_box(gate.try_admit(arrived, black_box(&ask))));
        })
    }
}

fn step(promise: Promise) -> impl FnMut() -> f64 {
    let limits = Limits {
        max_seqs: BATCH as usize,
        max_rows: 512,
        max_logits: 64,
        context: 1 << 20,
        blocks: 1 << 17,
        step_budget: Duration::from_millis(50),
        park_blocks: 0,
        park_move: Duration::ZERO,
        park_ahead: 0,
        quantile: 0.99,
        queue: QueueRule::default(),
    };
    let deadlines = Terms::new(&promise, &Asked::default(), 1).from(Duration::ZERO);
    let begin = move || {
        let mut planner = Planner::new(limits, CostModel::default(), Arc::<Snapshot>::default());
        let mut plan = Plan::default();
        planner.step(Duration::ZERO, (0..BATCH).map(|seq| arrival(seq, deadlines)), &mut plan);
        (planner, plan)
    };
    move || {
        let (mut planner, mut plan) = begin();
        let done = Event::StepDone { elapsed: Duration::from_millis(1) };
        each(|i| planner.step(Duration::from_millis(u64::from(i)), [done.clone()], &mut plan)) / BATCH as f64
    }
}

fn arrival(seq: u64, deadlines: Deadlines) -> Event {
    Event::Arrived(Arrival {
        seq: SeqId(seq),
        prompt: 1,
        max_len: 1 << 16,
        all_logits: false,
        names: Vec::new(),
        fork_of: None,
        deadlines: Deadlines { class: Class::Interactive, ..deadlines },
    })
}
