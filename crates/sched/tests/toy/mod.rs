#![allow(dead_code, reason = "each test file uses a part")]
//! A lane that computes nothing, but remembers what is in every slot of every block and of the parking store.
//!
//! - [`script`]: what it is asked for. [`memory`]: what is where.

mod memory;
pub mod script;

use memory::Memory;
use script::Job;

use plimsoll_kv::{Chain, HashKey};
use plimsoll_sched::{
    Arrival, CostModel, Deadlines, Event, Limits, LogitRows, Plan, PlannedSpan, Planner, SeqId,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

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
    /// What is in the cache when a position is computed: it depends on all tokens up to there.
    contents: Vec<u64>,
    chain: Chain,
    deadlines: Deadlines,
}

impl Live {
    fn push(&mut self, token: u32) {
        let before = self.contents.last().copied().unwrap_or(7);
        self.contents.push(mix(before ^ u64::from(token)));
        self.tokens.push(token);
    }
}

/// The finalizer of SplitMix64.
fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

pub struct Toy {
    pub limits: Limits,
    pub planner: Planner,
    live: BTreeMap<SeqId, Live>,
    pub plans: Vec<Plan>,
    /// The first step of each sequence that never paused, in the order of arrival.
    pub starts: Vec<(SeqId, usize)>,
    memory: Memory,
    /// Tokens that came back from the store.
    pub restored: usize,
    /// Tokens that others had computed.
    pub shared: usize,
    pub next: u64,
    pub finished: usize,
    pub cancelled: usize,
    pub expired: usize,
    step: usize,
}

impl Toy {
    pub fn new(limits: Limits) -> Self {
        let planner = Planner::new(limits, CostModel::default(), Arc::default());
        let (live, plans, starts) = Default::default();
        Self {
            limits,
            planner,
            live,
            plans,
            starts,
            memory: Memory::new(&limits),
            restored: 0,
            shared: 0,
            next: 0,
            finished: 0,
            cancelled: 0,
            expired: 0,
            step: 0,
        }
    }

    pub fn run(mut self, jobs: &[Job]) -> Self {
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
        let deadlines = job.terms.from(Duration::from_millis(self.step as u64));
        for k in 0..=job.forks {
            let seq = SeqId(self.next);
            self.next += 1;
            let mut chain = Chain::new(HashKey([1, 2]), 0, "");
            let (tokens, mut names) = (script::prompt(i, &job), Vec::new());
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
                deadlines,
            }));
            let mut live = Live {
                job: job.clone(),
                generated: 0,
                computed: 0,
                reported: vec![0; job.prompt],
                paused_until: None,
                first_step: None,
                tokens: Vec::new(),
                contents: Vec::new(),
                chain,
                deadlines,
            };
            tokens.into_iter().for_each(|token| live.push(token));
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
        self.memory.answer(self.step, &self.planner, events);
        let now = Duration::from_millis(self.step as u64);
        self.planner.step(now, events.drain(..), &mut plan);
        self.planner.assert_sound();
        for seq in &plan.expired {
            let live = self.live.remove(seq).expect("a dead sequence expired");
            let Deadlines { first, last, .. } = live.deadlines;
            let is_late = |by: Option<Duration>| by.is_some_and(|by| by <= now);
            assert!(is_late(last) || is_late(first) && live.first_step.is_none(), "{seq:?} had time left");
            self.expired += 1;
        }
        for seq in &plan.preempted {
            self.live.get_mut(seq).expect("a dead sequence was preempted").computed = 0;
        }
        for start in &plan.starts {
            let live = self.live.get_mut(&start.seq).expect("a dead sequence started");
            live.computed = start.shared + start.restored;
            self.restored += start.restored;
            self.shared += start.shared;
        }
        let lost = self.memory.make(self.step, &plan.moves, &self.planner, events);
        for seq in &lost {
            self.live.get_mut(seq).expect("a dead sequence was loaded").computed = 0;
        }
        // Now and then a step fails, and is tried again.
        if !lost.is_empty() || self.step.is_multiple_of(13) {
            events.push(Event::StepFailed);
        } else {
            self.check(&plan);
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
        assert!(
            !plan.spans.is_empty() || self.memory.is_fetching() || !self.live.values().any(running),
            "somebody can run, nobody does"
        );
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
                let content = self.memory.blocks[blocks[at / 16] as usize][at % 16];
                assert_eq!(content, live.contents[at], "{span:?} reads what is not its own at {at}");
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
            self.memory.blocks[block as usize][at % 16] = live.contents[at];
        }
        if span.logits == LogitRows::All {
            live.reported[span.start..live.computed].iter_mut().for_each(|count| *count += 1);
        }
        let sampled = live.computed == live.job.prompt + live.generated;
        if sampled {
            live.generated += 1;
            // Whoever knows the same tokens generates the same one.
            live.push(live.contents[live.computed - 1] as u32 % 5);
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
