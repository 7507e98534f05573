//! One replica: the loop of a lane around the very gate and planner, in virtual time.

use crate::machine::Machine;
use plimsoll_kv::{BLOCK_TOKENS, BlockHash};
use plimsoll_sched::{
    Arrival, Ask, Asked, Bounds, CostModel, Door, Event, Gate, Limits, Load, LogitRows, Plan, PlannedSpan,
    Planner, Promise, Refusal, SeqId, Snapshot, Terms, Ticket,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// What replicas are made of, all of them alike.
#[derive(Debug, Clone)]
pub struct Spec {
    /// What a step and a batch hold.
    pub limits: Limits,
    /// What may be in flight at once.
    pub bounds: Bounds,
    /// Tenants that share it.
    pub tenants: u32,
    /// What is promised.
    pub promise: Promise,
    /// What the planner believes of steps in the beginning.
    pub cost: CostModel,
    /// Tokens of output that the gate counts for a request which may have more.
    pub expected_output: u32,
    /// Tokens that all prompts of a tenant begin with alike: their full blocks are computed once, and found by the others.
    pub shared_prefix: usize,
    /// Whether the planner's books are checked after every plan. For tests: it is slow.
    pub check: bool,
}

/// A request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Request {
    /// When its headers were parsed, in seconds from the start.
    pub at: f64,
    /// Tokens of its prompt, at least 1.
    pub prompt: usize,
    /// Tokens it generates, at least 1; it asks for no more.
    pub output: usize,
    /// What it asks for.
    pub asked: Asked,
    /// Who asks, from 0.
    pub tenant: u32,
}

/// How a request ended. Times in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum End {
    /// Complete.
    Done {
        /// From arrival to its first token.
        ttft: f64,
        /// The mean gap between its tokens; 0 for one token.
        gap: f64,
        /// From arrival to its last token.
        e2e: f64,
        /// The time to its first token that the gate predicted all but a few not to pass.
        predicted: f64,
    },
    /// Not let in.
    Refused(Refusal),
    /// Longer than any sequence can be.
    TooLong,
    /// Let in, and its time was up.
    Expired,
}

#[derive(Debug)]
struct Live {
    index: usize,
    request: Request,
    generated: usize,
    computed: usize,
    first: Option<Duration>,
    /// Seconds.
    predicted: f64,
    ticket: Ticket,
}

/// One replica.
pub struct Lane<M> {
    gate: Gate,
    planner: Planner,
    snapshot: Arc<Snapshot>,
    promise: Promise,
    expected_output: u32,
    shared_prefix: usize,
    check: bool,
    machine: M,
    live: BTreeMap<SeqId, Live>,
    /// Let in since the last plan.
    mailbox: Vec<SeqId>,
    events: Vec<Event>,
    plan: Plan,
    /// The step in hand: when it is over, and how long it takes.
    step: Option<(Duration, Duration)>,
    /// When to plan though nothing happens.
    wake: Option<Duration>,
    next: u64,
    ended: Vec<(usize, End)>,
    /// What it has done.
    pub done: Work,
}

/// What a lane has done.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Work {
    /// Steps.
    pub steps: u64,
    /// Sequences that had rows in them, summed over steps.
    pub rows: u64,
    /// Tokens of prompts that it found in the cache.
    pub found: u64,
    /// Seconds in which it computed.
    pub busy: f64,
    /// The longest step in seconds.
    pub longest: f64,
    /// Sequences that had to make way.
    pub preempted: usize,
}

impl<M: Machine> Lane<M> {
    /// A replica with nothing to do.
    pub fn new(spec: &Spec, machine: M) -> Self {
        let snapshot = Arc::<Snapshot>::default();
        let places = u32::try_from(spec.limits.max_seqs).unwrap_or(u32::MAX);
        let door = Door { bounds: spec.bounds, places, tenants: spec.tenants };
        Self {
            gate: Gate::new(door, snapshot.clone()),
            planner: Planner::new(spec.limits, spec.cost.clone(), snapshot.clone()),
            snapshot,
            promise: spec.promise,
            expected_output: spec.expected_output,
            shared_prefix: spec.shared_prefix,
            check: spec.check,
            machine,
            live: BTreeMap::new(),
            mailbox: Vec::new(),
            events: Vec::new(),
            plan: Plan::default(),
            step: None,
            wake: None,
            next: 0,
            ended: Vec::new(),
            done: Work::default(),
        }
    }

    /// Lives on to `until`, in seconds from the start; infinity: until there is nothing left to do.
    pub fn advance(&mut self, until: f64) {
        let until = if until.is_finite() { Duration::from_secs_f64(until) } else { Duration::MAX };
        loop {
            match (self.step, self.wake) {
                (Some((end, took)), _) if end <= until => self.finish_step(end, took),
                (None, Some(wake)) if wake <= until => self.plan(wake),
                _ => return,
            }
        }
    }

    /// Brings the request of this number to the gate, at its time; [`Lane::advance`] must have come as far.
    pub fn offer(&mut self, index: usize, request: &Request) {
        let now = Duration::from_secs_f64(request.at);
        if request.prompt + request.output > self.planner.longest() {
            self.ended.push((index, End::TooLong));
            return;
        }
        let terms = Terms::new(&self.promise, &request.asked, request.prompt);
        let output = u32::try_from(request.output).unwrap_or(u32::MAX);
        let ask = Ask {
            sequences: 1,
            tokens: request.prompt as u64 + u64::from(output.min(self.expected_output)),
            prompt: request.prompt as u64,
            max_tokens: Some(output),
            terms,
            arrived: now,
            tenant: request.tenant,
        };
        match self.gate.try_admit(now, &ask) {
            Err(refusal) => self.ended.push((index, End::Refused(refusal))),
            Ok(ticket) => self.let_in(index, request, ticket),
        }
        if self.step.is_none() && !self.mailbox.is_empty() {
            self.plan(now);
        }
    }

    fn let_in(&mut self, index: usize, request: &Request, ticket: Ticket) {
        let seq = SeqId(self.next);
        self.next += 1;
        let predicted = ticket.expected().map_or(f64::INFINITY, |e| e.at_most.as_secs_f64() - request.at);
        let live =
            Live { index, request: *request, generated: 0, computed: 0, first: None, predicted, ticket };
        self.live.insert(seq, live);
        self.mailbox.push(seq);
    }

    /// Takes in what came, and begins the next step.
    fn plan(&mut self, now: Duration) {
        loop {
            let arrived = std::mem::take(&mut self.mailbox);
            for seq in &arrived {
                let mut names = self.planner.spare_names();
                let Some(live) = self.live.get(seq) else { continue };
                names.extend(shared_names(&live.request, self.shared_prefix));
                self.events.push(arrival(*seq, live, &self.promise, names));
            }
            self.planner.step(now, self.events.drain(..), &mut self.plan);
            if self.check {
                self.planner.assert_sound();
            }
            arrived.iter().for_each(|seq| {
                if let Some(live) = self.live.get_mut(seq) {
                    live.ticket.arrived();
                }
            });
            self.done.preempted += self.plan.preempted.len();
            for seq in &self.plan.preempted {
                if let Some(live) = self.live.get_mut(seq) {
                    live.computed = 0;
                }
            }
            for start in &self.plan.starts {
                if let Some(live) = self.live.get_mut(&start.seq) {
                    live.computed = start.shared;
                    self.done.found += start.shared as u64;
                }
            }
            for seq in &self.plan.expired {
                if let Some(live) = self.live.remove(seq) {
                    self.ended.push((live.index, End::Expired));
                }
            }
            if !self.plan.spans.is_empty() || self.plan.expired.is_empty() {
                break;
            }
        }
        (self.step, self.wake) = (None, self.plan.wake);
        if !self.plan.spans.is_empty() {
            let took = self.machine.seconds(self.load(), now.as_secs_f64());
            self.done.steps += 1;
            self.done.rows += self.plan.spans.len() as u64;
            self.done.busy += took;
            self.done.longest = self.done.longest.max(took);
            let took = Duration::from_secs_f64(took);
            self.step = Some((now + took, took));
        }
    }

    fn load(&self) -> Load {
        self.plan.spans.iter().fold(Load::default(), |load, span| {
            let decodes = span.len == 1 && self.live.get(&span.seq).is_some_and(|live| live.generated > 0);
            if decodes { load.with_decode(span.start) } else { load.with_prefill(span.start, span.len) }
        })
    }

    fn finish_step(&mut self, now: Duration, elapsed: Duration) {
        self.events.push(Event::StepDone { elapsed });
        let spans = std::mem::take(&mut self.plan.spans);
        spans.iter().for_each(|span| self.advance_sequence(now, span));
        self.plan.spans = spans;
        self.plan(now);
    }

    fn advance_sequence(&mut self, now: Duration, span: &PlannedSpan) {
        let Some(live) = self.live.get_mut(&span.seq) else { return };
        debug_assert_eq!(span.start, live.computed, "{span:?} does not go on where it stopped");
        live.computed = span.start + span.len;
        if span.logits != LogitRows::Last {
            return;
        }
        live.generated += 1;
        let first = *live.first.get_or_insert(now);
        if live.generated < live.request.output {
            return;
        }
        let gaps = live.request.output.saturating_sub(1).max(1) as f64;
        let end = End::Done {
            ttft: first.as_secs_f64() - live.request.at,
            gap: now.saturating_sub(first).as_secs_f64() / gaps,
            e2e: now.as_secs_f64() - live.request.at,
            predicted: live.predicted,
        };
        self.ended.push((live.index, end));
        self.live.remove(&span.seq);
        self.events.push(Event::Finished(span.seq));
    }

    /// The numbers of the requests that have ended since the last call, and how.
    pub fn ended(&mut self) -> impl Iterator<Item = (usize, End)> {
        self.ended.drain(..)
    }

    /// Tokens, prompts and expected outputs, of what is in flight.
    pub fn outstanding(&self) -> u64 {
        self.gate.in_flight().1
    }

    /// Whether nothing is in flight, at the gate and in the planner.
    pub fn is_idle(&self) -> bool {
        self.live.is_empty() && self.gate.in_flight() == (0, 0) && self.gate.coming() == (0, 0)
    }

    /// What the planner says about itself.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }
}

/// The names of the full blocks that all prompts of a tenant begin with.
fn shared_names(request: &Request, shared: usize) -> impl Iterator<Item = BlockHash> {
    let tenant = u128::from(request.tenant) << 64;
    (0..request.prompt.min(shared) / BLOCK_TOKENS).map(move |block| BlockHash(tenant | block as u128))
}

fn arrival(seq: SeqId, live: &Live, promise: &Promise, names: Vec<BlockHash>) -> Event {
    let request = &live.request;
    let terms = Terms::new(promise, &request.asked, request.prompt);
    let mut deadlines = terms.from(Duration::from_secs_f64(request.at));
    deadlines.expected = live.ticket.expected();
    let (prompt, max_len) = (request.prompt, request.prompt + request.output);
    Event::Arrived(Arrival { seq, prompt, max_len, all_logits: false, names, fork_of: None, deadlines })
}
