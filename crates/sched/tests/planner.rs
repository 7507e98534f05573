//! The planner against a toy lane that knows what every sequence is owed, and what is in every slot of every block.

use plimsoll_kv::{Chain, HashKey};
use plimsoll_sched::{
    Arrival, CostModel, Event, Limits, LogitRows, Plan, PlannedSpan, Planner, SeqId, Snapshot,
};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// A request of the script.
#[derive(Debug, Clone)]
struct Job {
    /// Steps after the one before it.
    gap: usize,
    prompt: usize,
    /// Jobs of one family begin with the same tokens, up to the least of these.
    family: Option<(u32, usize)>,
    /// Further continuations of the same prompt.
    forks: usize,
    /// Tokens it generates before it ends by itself.
    output: usize,
    all_logits: bool,
    /// It is cancelled once it has generated this many.
    cancel: Option<usize>,
    /// It pauses once it has generated this many, for so many steps.
    pause: Option<(usize, usize)>,
}

fn job() -> impl Strategy<Value = Job> {
    let cancel = proptest::option::weighted(0.15, 0..6usize);
    let pause = proptest::option::weighted(0.3, (0..6usize, 1..40usize));
    let family = proptest::option::weighted(0.6, (0..3u32, 1..100usize));
    let forks = prop_oneof![3 => Just(0usize), 1 => 1..4usize];
    let size = (0..4usize, 1..90usize, 1..30usize);
    (size, family, forks, proptest::bool::weighted(0.2), cancel, pause).prop_map(
        |((gap, prompt, output), family, forks, all_logits, cancel, pause)| Job {
            gap,
            prompt,
            family,
            forks,
            output,
            all_logits,
            cancel,
            pause,
        },
    )
}

/// A job that has nothing in common with others.
fn loner() -> impl Strategy<Value = Job> {
    job().prop_map(|job| Job { family: None, forks: 0, ..job })
}

fn limits() -> impl Strategy<Value = Limits> {
    (1..6usize, 0..40usize, 0..10usize, 8..20usize, 1..200u64).prop_map(
        |(max_seqs, rows, logits, blocks, budget)| Limits {
            max_seqs,
            max_rows: max_seqs + rows,
            max_logits: max_seqs + logits,
            context: 120,
            blocks,
            step_budget: Duration::from_millis(budget),
        },
    )
}

/// A sequence as the toy sees it.
#[derive(Debug)]
struct Live {
    job: Job,
    generated: usize,
    computed: usize,
    /// How often logits of each prompt position were reported.
    reported: Vec<u32>,
    paused_until: Option<usize>,
    first_step: Option<usize>,
    tokens: Vec<u32>,
    chain: Chain,
}

impl Live {
    /// What is in a slot of the cache when position `at` is computed: it depends on all tokens up to there.
    fn content(&self, at: usize) -> u64 {
        self.tokens[..=at].iter().fold(7, |hash, &token| mix(hash ^ u64::from(token)))
    }
}

/// The finalizer of SplitMix64.
fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// The prompt of job number `i`.
fn prompt(i: usize, job: &Job) -> Vec<u32> {
    let (family, common) = job.family.unwrap_or((0, 0));
    let token = |at| if at < common { 1000 * family + at as u32 % 9 } else { 10_000 + (i * 100 + at) as u32 };
    (0..job.prompt).map(token).collect()
}

struct Toy {
    limits: Limits,
    planner: Planner,
    live: BTreeMap<SeqId, Live>,
    plans: Vec<Plan>,
    /// The first step of each sequence that never paused, in the order of arrival.
    starts: Vec<(SeqId, usize)>,
    /// Contents of each block.
    slots: Vec<[u64; 16]>,
    next: u64,
    finished: usize,
    cancelled: usize,
    step: usize,
}

impl Toy {
    fn new(limits: Limits) -> Self {
        let planner = Planner::new(limits, CostModel::default(), Arc::default());
        let (live, plans, starts) = Default::default();
        let slots = vec![[0; 16]; limits.blocks];
        Self { limits, planner, live, plans, starts, slots, next: 0, finished: 0, cancelled: 0, step: 0 }
    }

    fn run(mut self, jobs: &[Job]) -> Self {
        let longest = self.planner.longest();
        let mut events = Vec::new();
        let (mut next, mut due) = (0, 0);
        while next < jobs.len() || !self.live.is_empty() {
            assert!(self.step < 60_000, "starved: {:?}", self.live);
            while next < jobs.len() && due + jobs[next].gap <= self.step {
                due = self.step;
                self.arrive(next, &jobs[next], longest, &mut events);
                next += 1;
            }
            self.resume(&mut events);
            self.one_step(&mut events);
        }
        self
    }

    fn arrive(&mut self, i: usize, job: &Job, longest: usize, events: &mut Vec<Event>) {
        let mut job = job.clone();
        job.prompt = job.prompt.min(longest - 1);
        job.output = job.output.min(longest - job.prompt);
        let (first, all_logits) = (SeqId(self.next), job.all_logits);
        for k in 0..=job.forks {
            let seq = SeqId(self.next);
            self.next += 1;
            let mut chain = Chain::new(HashKey([1, 2]), 0, "");
            let (tokens, mut names) = (prompt(i, &job), Vec::new());
            chain.extend(&tokens, &mut names);
            let fork_of = (k > 0 && !all_logits).then_some(first);
            let max_len = job.prompt + job.output;
            events.push(Event::Arrived(Arrival {
                seq,
                prompt: job.prompt,
                max_len,
                all_logits,
                names,
                fork_of,
            }));
            let live = Live {
                job: job.clone(),
                generated: 0,
                computed: 0,
                reported: vec![0; job.prompt],
                paused_until: None,
                first_step: None,
                tokens,
                chain,
            };
            self.live.insert(seq, live);
        }
    }

    fn resume(&mut self, events: &mut Vec<Event>) {
        for (seq, live) in &mut self.live {
            if live.paused_until.is_some_and(|until| until <= self.step) {
                live.paused_until = None;
                events.push(Event::Resumed(*seq));
            }
        }
    }

    fn one_step(&mut self, events: &mut Vec<Event>) {
        self.step += 1;
        let mut plan = Plan::default();
        self.planner.step(Duration::from_millis(self.step as u64), events.drain(..), &mut plan);
        self.planner.assert_sound();
        for seq in &plan.preempted {
            self.live.get_mut(seq).expect("a dead sequence was preempted").computed = 0;
        }
        for start in &plan.starts {
            self.live.get_mut(&start.seq).expect("a dead sequence started").computed = start.shared;
        }
        for copy in &plan.copies {
            self.slots[copy.to as usize] = self.slots[copy.from as usize];
        }
        self.check(&plan);
        // Now and then a step fails, and is tried again.
        if self.step.is_multiple_of(13) {
            events.push(Event::StepFailed);
        } else {
            events.push(Event::StepDone {
                elapsed: Duration::from_micros(700 + 400 * plan.spans.len() as u64),
            });
            for span in &plan.spans {
                self.compute(span, events);
            }
        }
        self.plans.push(plan);
    }

    fn check(&self, plan: &Plan) {
        let rows: usize = plan.spans.iter().map(|span| span.len).sum();
        let logits: usize = plan.spans.iter().map(PlannedSpan::logit_rows).sum();
        assert!(rows <= self.limits.max_rows, "{rows} rows");
        assert!(logits <= self.limits.max_logits, "{logits} rows of logits");
        assert!(plan.spans.len() <= self.limits.max_seqs);
        let running = |live: &Live| live.paused_until.is_none();
        assert!(!plan.spans.is_empty() || !self.live.values().any(running), "somebody can run, nobody does");
        for (i, span) in plan.spans.iter().enumerate() {
            assert!(plan.spans[..i].iter().all(|other| other.seq != span.seq), "twice in a step");
            let live = &self.live[&span.seq];
            assert!(running(live), "{span:?} is paused");
            assert_eq!(span.start, live.computed, "{span:?} leaves a hole or repeats a row");
            let len = live.job.prompt + live.generated;
            assert!(span.start + span.len <= len, "{span:?} is past its end");
            let blocks = self.planner.blocks(span.seq);
            assert!(blocks.len() * 16 >= span.start + span.len);
            for at in 0..span.start {
                let content = self.slots[blocks[at / 16] as usize][at % 16];
                assert_eq!(content, live.content(at), "{span:?} reads what is not its own at {at}");
            }
            let last = span.start + span.len == len;
            assert_eq!(last, span.logits == LogitRows::Last || last && span.logits == LogitRows::All);
        }
    }

    fn compute(&mut self, span: &PlannedSpan, events: &mut Vec<Event>) {
        let live = self.live.get_mut(&span.seq).expect("checked");
        if live.first_step.is_none() {
            live.first_step = Some(self.step);
            if live.job.pause.is_none() {
                self.starts.push((span.seq, self.step));
            }
        }
        live.computed = span.start + span.len;
        for at in span.start..live.computed {
            let block = self.planner.blocks(span.seq)[at / 16];
            self.slots[block as usize][at % 16] = live.content(at);
        }
        if span.logits == LogitRows::All {
            live.reported[span.start..live.computed].iter_mut().for_each(|count| *count += 1);
        }
        let sampled = live.computed == live.job.prompt + live.generated;
        if sampled {
            live.generated += 1;
            // Whoever knows the same tokens generates the same one.
            live.tokens.push(live.content(live.computed - 1) as u32 % 5);
            if let (_, [.., block]) = live.tokens.as_rchunks::<16>()
                && live.tokens.len().is_multiple_of(16)
            {
                events.push(Event::Filled(span.seq, live.chain.block(block)));
            }
        }
        let expected = u32::from(live.job.all_logits);
        if live.job.cancel.is_some_and(|at| live.generated >= at) {
            events.push(Event::Cancelled(span.seq));
            self.live.remove(&span.seq);
            self.cancelled += 1;
        } else if live.generated == live.job.output {
            assert!(live.reported.iter().all(|&count| count == expected), "{:?}", live.reported);
            events.push(Event::Finished(span.seq));
            self.live.remove(&span.seq);
            self.finished += 1;
        } else if let Some((_, steps)) = live.job.pause.filter(|&(at, _)| sampled && live.generated == at) {
            live.paused_until = Some(self.step + steps);
            events.push(Event::Paused(span.seq));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn nobody_is_lost_doubled_or_starved(limits in limits(), jobs in proptest::collection::vec(job(), 1..40)) {
        let mut toy = Toy::new(limits).run(&jobs);
        prop_assert_eq!(toy.finished + toy.cancelled, toy.next as usize);
        let mut plan = Plan::default();
        let late: Vec<_> = (0..toy.next).map(|i| Event::Cancelled(SeqId(i))).collect();
        toy.planner.step(Duration::from_secs(9), late, &mut plan);
        prop_assert_eq!(toy.planner.live(), 0);
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

fn planner(max_seqs: usize, blocks: usize, budget: Duration) -> Planner {
    let limits =
        Limits { max_seqs, max_rows: 512, max_logits: 64, context: 1024, blocks, step_budget: budget };
    Planner::new(limits, CostModel::default(), Arc::new(Snapshot::default()))
}

fn arrived(seq: u64, prompt: usize, max_len: usize) -> Event {
    let (names, fork_of) = Default::default();
    Event::Arrived(Arrival { seq: SeqId(seq), prompt, max_len, all_logits: false, names, fork_of })
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
