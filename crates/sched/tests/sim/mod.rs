#![allow(dead_code, reason = "each test file uses a part")]
//! A lane whose steps take as long as a script says, driven by the very gate and planner on a virtual clock.

use plimsoll_sched::QueueRule;
use plimsoll_sched::{
    Arrival, Ask, Asked, Bounds, Class, CostModel, Door, Event, Gate, Limits, LogitRows, Plan, Planner,
    Promise, Refusal, SeqId, Snapshot, Terms, Ticket,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Random numbers that are the same every time (SplitMix64).
#[derive(Debug, Clone)]
pub struct Dice(pub u64);

impl Dice {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ (x >> 31)
    }

    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    /// Exponential with mean 1.
    pub fn gap(&mut self) -> f64 {
        -(1.0 - self.unit()).ln()
    }

    /// Normal with deviation 1.
    pub fn normal(&mut self) -> f64 {
        (-2.0 * (1.0 - self.unit()).ln()).sqrt() * (std::f64::consts::TAU * self.unit()).cos()
    }
}

/// A request of the script.
#[derive(Debug, Clone, Copy)]
pub struct Job {
    /// When its headers were parsed, in seconds.
    pub at: f64,
    pub prompt: usize,
    pub output: usize,
    pub asked: Asked,
    pub tenant: u32,
    /// Its client leaves, so many seconds after it came.
    pub leaves: Option<f64>,
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum End {
    Done { ttft: f64, gap: f64, predicted: f64 },
    Refused(Refusal),
    Expired,
    Left,
}

/// The machine: what a step takes beside what it should.
#[derive(Debug, Clone, Copy)]
pub struct Machine {
    pub base: f64,
    pub prefill: f64,
    pub decode: f64,
    pub kv: f64,
    /// Deviation of the logarithm of a step's time.
    pub noise: f64,
    /// Steps that take three times as long.
    pub stalls: f64,
    /// How much slower it is at a time.
    pub pace: fn(f64) -> f64,
}

/// SmolLM2-135M on two cores.
pub const MACHINE: Machine = Machine {
    base: 3e-3,
    prefill: 0.65e-3,
    decode: 1.3e-3,
    kv: 1e-6,
    noise: 0.1,
    stalls: 0.002,
    pace: |_| 1.0,
};

pub const PROMISE: Promise = Promise {
    ttft: Some(Duration::from_millis(500)),
    ttft_per_token: Duration::ZERO,
    itl: Some(Duration::from_millis(60)),
    e2e: None,
    quantile: 0.99,
};

pub struct Live {
    job: usize,
    generated: usize,
    computed: usize,
    first: Option<f64>,
    ticket: Option<Ticket>,
    predicted: f64,
}

pub struct Sim {
    pub gate: Gate,
    pub planner: Planner,
    pub snapshot: Arc<Snapshot>,
    pub promise: Promise,
    pub machine: Machine,
    dice: Dice,
    pub now: f64,
    live: BTreeMap<SeqId, Live>,
    mailbox: Vec<(SeqId, Event)>,
    pub ends: Vec<Option<End>>,
    next_id: u64,
    pub steps: Vec<f64>,
    pub preempted: usize,
    pub check: bool,
}

impl Sim {
    pub fn new(machine: Machine, promise: Promise, places: usize) -> Self {
        let snapshot = Arc::<Snapshot>::default();
        let limits = Limits {
            max_seqs: places,
            max_rows: 512,
            max_logits: places.max(64),
            context: 8192,
            blocks: 2048,
            step_budget: Duration::from_millis(50),
            park_blocks: 0,
            park_move: Duration::ZERO,
            park_ahead: 0,
            quantile: promise.quantile,
            queue: QueueRule { configured: 256, wait: promise.ttft, ..QueueRule::default() },
        };
        let bounds = Bounds { sequences: places as u32 + 256, tokens: 1 << 30, per_tenant: u32::MAX };
        let door = Door { bounds, places: places as u32, tenants: 4 };
        let gate = Gate::new(door, snapshot.clone());
        let planner = Planner::new(limits, seeded(&machine), snapshot.clone());
        let (live, mailbox, ends, steps) = Default::default();
        let dice = Dice(7);
        let (now, next_id, preempted, check) = (0.0, 0, 0, true);
        Self {
            gate,
            planner,
            snapshot,
            promise,
            machine,
            dice,
            now,
            live,
            mailbox,
            ends,
            next_id,
            steps,
            preempted,
            check,
        }
    }

    /// Runs `jobs`, which are in the order of their times, to the end.
    pub fn run(mut self, jobs: &[Job]) -> Self {
        self.ends = vec![None; jobs.len()];
        let mut next = 0;
        let mut events: Vec<Event> = Vec::new();
        let mut plan = Plan::default();
        let mut leaving: Vec<(f64, SeqId)> = Vec::new();
        loop {
            while next < jobs.len() && jobs[next].at <= self.now {
                self.knock(next, &jobs[next], &mut leaving);
                next += 1;
            }
            let arrived: Vec<SeqId> = self.mailbox.iter().map(|(id, _)| *id).collect();
            events.extend(self.mailbox.drain(..).map(|(_, event)| event));
            let now = self.now;
            for (_, id) in leaving.extract_if(.., |(at, _)| *at <= now) {
                if let Some(live) = self.live.remove(&id) {
                    events.push(Event::Cancelled(id));
                    self.ends[live.job] = Some(End::Left);
                }
            }
            self.planner.step(Duration::from_secs_f64(self.now), events.drain(..), &mut plan);
            if self.check {
                self.planner.assert_sound();
            }
            for id in arrived {
                if let Some(ticket) = self.live.get_mut(&id).and_then(|live| live.ticket.as_mut()) {
                    ticket.arrived();
                }
            }
            self.preempted += plan.preempted.len();
            for id in &plan.preempted {
                self.live.get_mut(id).expect("dead and preempted").computed = 0;
            }
            for id in &plan.expired {
                let live = self.live.remove(id).expect("dead and expired");
                assert!(live.first.is_none(), "expired while running");
                self.ends[live.job] = Some(End::Expired);
            }
            if plan.spans.is_empty() {
                if !plan.expired.is_empty() {
                    continue;
                }
                match jobs.get(next) {
                    Some(job) => self.now = job.at,
                    None => break,
                }
                continue;
            }
            let took = self.time(&plan);
            self.steps.push(took);
            let end = self.now + took;
            // Arrivals during the step are seen by the gate while it runs.
            while next < jobs.len() && jobs[next].at <= end {
                self.now = self.now.max(jobs[next].at);
                self.knock(next, &jobs[next], &mut leaving);
                next += 1;
            }
            self.now = end;
            events.push(Event::StepDone { elapsed: Duration::from_secs_f64(took) });
            self.compute(&plan, jobs, &mut events);
        }
        assert!(self.live.is_empty(), "somebody was lost");
        assert_eq!((self.gate.in_flight(), self.gate.coming()), ((0, 0), (0, 0)));
        self
    }

    fn knock(&mut self, i: usize, job: &Job, leaving: &mut Vec<(f64, SeqId)>) {
        let now = Duration::from_secs_f64(self.now);
        let arrived = Duration::from_secs_f64(job.at);
        let terms = Terms::new(&self.promise, &job.asked, job.prompt);
        let ask = Ask {
            sequences: 1,
            tokens: (job.prompt + 256) as u64,
            prompt: job.prompt as u64,
            max_tokens: Some(job.output as u32),
            terms,
            arrived,
            tenant: job.tenant,
        };
        match self.gate.try_admit(now, &ask) {
            Err(refusal) => self.ends[i] = Some(End::Refused(refusal)),
            Ok(ticket) => {
                let seq = SeqId(self.next_id);
                self.next_id += 1;
                let mut deadlines = terms.from(arrived);
                deadlines.expected = ticket.expected();
                let predicted = deadlines.expected.map_or(0.0, |e| e.at_most.as_secs_f64() - job.at);
                let (prompt, max_len) = (job.prompt, job.prompt + job.output);
                self.mailbox.push((
                    seq,
                    Event::Arrived(Arrival {
                        seq,
                        prompt,
                        max_len,
                        all_logits: false,
                        names: Vec::new(),
                        fork_of: None,
                        deadlines,
                    }),
                ));
                leaving.extend(job.leaves.map(|after| (job.at + after, seq)));
                self.live.insert(
                    seq,
                    Live { job: i, generated: 0, computed: 0, first: None, ticket: Some(ticket), predicted },
                );
            }
        }
    }

    fn time(&mut self, plan: &Plan) -> f64 {
        let m = self.machine;
        let mut seconds = m.base;
        for span in &plan.spans {
            let live = &self.live[&span.seq];
            let is_decode = live.generated > 0 && span.len == 1;
            let kv: usize = (span.start..span.start + span.len).map(|at| at + 1).sum();
            seconds += m.kv * kv as f64 + if is_decode { m.decode } else { m.prefill * span.len as f64 };
        }
        let stall = if self.dice.unit() < m.stalls { 3.0 } else { 1.0 };
        seconds * (m.noise * self.dice.normal()).exp() * stall * (m.pace)(self.now)
    }

    fn compute(&mut self, plan: &Plan, jobs: &[Job], events: &mut Vec<Event>) {
        for span in &plan.spans {
            let live = self.live.get_mut(&span.seq).expect("planned and dead");
            let job = &jobs[live.job];
            assert_eq!(span.start, live.computed);
            live.computed += span.len;
            if span.logits != LogitRows::Last {
                continue;
            }
            live.generated += 1;
            let first = *live.first.get_or_insert(self.now);
            if live.generated == job.output {
                let gap = (self.now - first) / (job.output.max(2) - 1) as f64;
                let (ttft, predicted) = (first - job.at, live.predicted);
                self.ends[live.job] = Some(End::Done { ttft, gap, predicted });
                self.live.remove(&span.seq);
                events.push(Event::Finished(span.seq));
            }
        }
    }
}

fn seeded(machine: &Machine) -> CostModel {
    use plimsoll_sched::Load;
    let decodes = [1, 2, 4, 8, 16].map(|n| (0..n).fold(Load::default(), |load, _| load.with_decode(0)));
    let prefills = [8, 16, 32, 64, 128, 256].map(|n| Load::default().with_prefill(0, n));
    let time = |load: &Load| {
        machine.base
            + machine.prefill * load.prefill as f64
            + machine.decode * load.decodes as f64
            + machine.kv * load.kv as f64
    };
    let samples: Vec<_> =
        decodes.iter().chain(&prefills).map(|load| (*load, Duration::from_secs_f64(time(load)))).collect();
    CostModel::seeded(&samples)
}

/// Poisson arrivals of the usual requests.
pub fn poisson(rate: f64, seconds: f64, seed: u64) -> Vec<Job> {
    let mut dice = Dice(seed);
    let (mut at, mut jobs) = (0.0, Vec::new());
    loop {
        at += dice.gap() / rate;
        if at > seconds {
            return jobs;
        }
        let prompt = 60 + dice.below(80);
        jobs.push(Job { at, prompt, output: 48, asked: Asked::default(), tenant: 0, leaves: None });
    }
}

/// What became of the jobs that `select` names.
#[derive(Debug, Default, Clone, Copy)]
pub struct Tally {
    pub offered: usize,
    pub accepted: usize,
    pub kept: usize,
    pub expired: usize,
    pub late: usize,
    pub queue_full: usize,
    pub never: usize,
    /// Done within the predicted time.
    pub predicted: usize,
    pub slow_ttft: usize,
    pub slow_gap: usize,
}

impl Sim {
    pub fn tally(&self, jobs: &[Job], select: impl Fn(&Job) -> bool) -> Tally {
        let mut tally = Tally::default();
        for (job, end) in jobs.iter().zip(&self.ends).filter(|(job, _)| select(job)) {
            tally.offered += 1;
            match end.expect("no end") {
                End::Done { ttft, gap, predicted } => {
                    let terms = Terms::new(&self.promise, &job.asked, job.prompt);
                    let is_slow = |limit: Option<Duration>, has: f64| {
                        limit.is_some_and(|limit| has > limit.as_secs_f64())
                    };
                    let (slow_ttft, slow_gap) = (is_slow(terms.ttft, ttft), is_slow(terms.itl, gap));
                    tally.accepted += 1;
                    tally.slow_ttft += usize::from(slow_ttft);
                    tally.slow_gap += usize::from(slow_gap);
                    tally.kept += usize::from(!slow_ttft && !slow_gap);
                    tally.predicted += usize::from(ttft <= predicted);
                }
                End::Expired => {
                    tally.accepted += 1;
                    tally.expired += 1;
                }
                End::Refused(Refusal::Late { .. }) => tally.late += 1,
                End::Refused(Refusal::Never) => tally.never += 1,
                End::Refused(_) => tally.queue_full += 1,
                End::Left => {}
            }
        }
        tally
    }
}

pub fn interactive(job: &Job) -> bool {
    job.asked.class == Class::Interactive
}
