//! The loop of a lane's thread: take in, plan, compute, deliver.

use super::deliver::{Delivery, Scratch};
use super::moves::Mover;
use super::roster::Roster;
use super::spare::Shedder;
use super::stall::Stall;
use super::{LaneParts, Phase, Shared, warm_up};
use crate::bell::Sleeper;
use crate::experiment::Conductor;
use crate::park::Store;
use crate::turnstile::Turnstile;
use plimsoll_api::error::{Error, Reason};
use plimsoll_kv::Counts;
use plimsoll_model::engine::{Engine, Logits, Span, StepError};
use plimsoll_sched::{Class, CostModel, Event, Limits, LogitRows, Plan, PlannedSpan, Planner};
use plimsoll_telemetry::{KvBlocks, Step};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

/// The nice value of lanes.
const NICE: i32 = 5;

/// The body of a lane's thread. Says on `ready` when it begins to serve, or why it does not.
pub(super) fn run(
    parts: LaneParts,
    limits: Limits,
    store: Store,
    shared: &Shared,
    ready: &SyncSender<Result<(), String>>,
) {
    let _last = Last { name: parts.name.clone(), shared };
    // Below the gateway's threads: a new arrival is looked at while a step computes. Where the system cannot, it is
    // slower to answer under load, no more.
    if let Err(error) = plimsoll_host::thread::set_nice(NICE) {
        tracing::debug!("the lane keeps the normal priority: {error}");
    }
    let mut parts = parts;
    let seed = match seed(&mut parts, &limits) {
        Ok(cost) => cost,
        Err(why) => {
            ready.send(Err(why)).ok();
            return;
        }
    };
    let sequences = shared.gate.bounds().sequences as usize;
    let (planner, plan) = planner(&limits, &seed, shared);
    let mut worker = Worker {
        name: parts.name,
        shedder: Shedder::new(&*parts.engine),
        scratch: Scratch::new(parts.engine.shape().vocab),
        engine: parts.engine,
        ends: parts.ends,
        turnstile: parts.turnstile,
        planner,
        limits,
        seed,
        store,
        shared,
        roster: Roster::with_room(sequences),
        plan,
        spans: Vec::with_capacity(limits.max_seqs),
        shared_tokens: 0,
        stall: Stall::now(),
        conductor: Conductor::default(),
    };
    worker.publish();
    ready.send(Ok(())).ok();
    let mut began_anew = None;
    while let Err(panic) = catch_unwind(AssertUnwindSafe(|| worker.serve())) {
        // A lane that fails before it took anything in would do so for ever.
        let taken = worker.roster.taken();
        if began_anew.replace(taken) == Some(taken) {
            resume_unwind(panic);
        }
        worker.begin_anew(&message(&*panic));
    }
}

/// A planner with nothing to do, and a plan with room for what it will decide.
fn planner(limits: &Limits, seed: &CostModel, shared: &Shared) -> (Planner, Plan) {
    let (mut planner, mut plan) =
        (Planner::new(*limits, seed.clone(), shared.snapshot.clone()), Plan::default());
    planner.reserve(shared.gate.bounds().sequences as usize, &mut plan);
    (planner, plan)
}

fn seed(parts: &mut LaneParts, limits: &Limits) -> Result<CostModel, String> {
    if !parts.config.warm_up {
        return Ok(CostModel::default());
    }
    let _turn = parts.turnstile.take(None);
    let (engine, measured) = (&mut *parts.engine, parts.config.measured);
    let seed = || match measured {
        Some(measured) => warm_up::touch(engine, limits).map(|()| CostModel::measured(&measured)),
        None => warm_up::measure(engine, limits),
    };
    catch_unwind(AssertUnwindSafe(seed)).unwrap_or_else(|panic| Err(message(&*panic)))
}

/// Whatever ends the thread: nobody is let in any more, and nobody waits for it.
struct Last<'a> {
    name: String,
    shared: &'a Shared,
}

impl Drop for Last<'_> {
    fn drop(&mut self) {
        self.shared.go(Phase::Gone);
        self.shared.empty_mailbox();
        if std::thread::panicking() {
            self.shared.metrics.set_queue(0, 0);
            tracing::error!(model = self.name, "the lane is dead; restart the server to have the model back");
        }
    }
}

struct Worker<'a> {
    name: String,
    engine: Box<dyn Engine>,
    ends: Vec<u32>,
    turnstile: Arc<Turnstile>,
    planner: Planner,
    limits: Limits,
    /// What was known of steps before the first one.
    seed: CostModel,
    store: Store,
    shared: &'a Shared,
    roster: Roster,
    shedder: Shedder,
    plan: Plan,
    /// Empty between steps: its memory is kept.
    spans: Vec<Span<'static>>,
    scratch: Scratch,
    /// Prompt tokens that the sequences that joined with this plan need not compute.
    shared_tokens: usize,
    stall: Stall,
    conductor: Conductor,
}

impl Worker<'_> {
    fn serve(&mut self) {
        let sleeper = Sleeper::current();
        while !self.is_over() {
            self.take_in();
            // Between two plans: no block that is free now is read or written by one.
            if self.shedder.give_back(&self.shared.spare, &mut self.planner, &mut *self.engine) {
                self.store.trim();
            }
            let has_switched = self.conduct();
            self.planner.step(self.shared.now(), self.roster.events.drain(..), &mut self.plan);
            if has_switched {
                self.conductor.publish(&self.shared.trials, &self.planner.in_force());
            }
            self.roster.published();
            let has_expired = self.expire();
            self.shared_tokens = self.plan.starts.iter().map(|start| self.roster.start(start)).sum();
            self.publish();
            if !self.move_blocks() {
                continue;
            }
            if has_expired {
                // Their siblings may be in the plan: another one, without them.
                self.roster.events.insert(0, Event::StepFailed);
                continue;
            }
            if !self.plan.spans.is_empty() {
                self.step();
            } else if self.roster.events.is_empty() && !self.shedder.is_due() {
                let wake = self.plan.wake.into_iter().chain(self.conductor.due()).min();
                let until = wake.map(|wake| self.shared.begun + wake);
                self.stall.sleeps();
                let called = self.shared.bell.sleep(&sleeper, until, || !self.shared.mailbox.is_empty());
                self.stall.slept(called);
            }
        }
        self.take_in();
        let error =
            Error::new(Reason::Draining, "the server is going down and did not wait for this request");
        self.roster.fail_all(&error);
        self.planner.step(self.shared.now(), self.roster.events.drain(..), &mut self.plan);
        self.publish();
    }

    /// Puts into force what an experiment's block begins with. Returns whether one began.
    fn conduct(&mut self) -> bool {
        let events = &mut self.roster.events;
        let switch = |switch| events.push(Event::Switched(switch));
        self.conductor.conduct(&self.shared.trials, self.shared.now(), switch)
    }

    /// Ends the requests whose time is up. Returns whether there were any.
    fn expire(&mut self) -> bool {
        if self.plan.expired.is_empty() {
            return false;
        }
        let error = Error::new(Reason::Expired, "its time was up before the answer was complete");
        let ended = self.roster.fail(self.plan.expired.iter().copied(), &error);
        (0..ended).for_each(|_| self.shared.metrics.expired());
        true
    }

    fn is_over(&self) -> bool {
        let is_empty = || self.roster.is_empty() && self.shared.gate.in_flight().0 == 0;
        self.shared.is_at(Phase::Stopping) || self.shared.is_at(Phase::Draining) && is_empty()
    }

    fn take_in(&mut self) {
        let mut has_news = false;
        while let Some(request) = self.shared.mailbox.try_pop() {
            self.roster.arrive(request, &mut self.planner);
            has_news = true;
        }
        self.store.news(&mut self.roster.events);
        // Also after an arrival: a request that was cancelled in the mailbox rang before it was seen.
        if self.shared.bell.take() || has_news {
            let metrics = &self.shared.metrics;
            self.roster.look(|request| metrics.finished(request.arrived.elapsed()));
        }
    }

    /// Parks, brings back and copies blocks. Returns whether the plan's spans can be computed.
    fn move_blocks(&mut self) -> bool {
        let moved = catch_unwind(AssertUnwindSafe(|| {
            let mut mover = Mover {
                engine: &mut *self.engine,
                store: &self.store,
                planner: &self.planner,
                metrics: &self.shared.metrics,
                events: &mut self.roster.events,
            };
            mover.make(&self.plan.moves)
        }));
        match moved {
            Ok(true) => {
                self.store.news(&mut self.roster.events);
                return true;
            }
            Ok(false) => self.roster.events.insert(0, Event::StepFailed),
            Err(panic) => {
                self.roster.events.extend(self.plan.moves.saves.iter().map(|save| Event::ParkLost(save.seq)));
                self.fail(&message(&*panic), true);
            }
        }
        false
    }

    fn step(&mut self) {
        self.shared.metrics.stalled(self.stall.ends());
        let turnstile = self.turnstile.clone();
        let ready = Instant::now();
        let turn = turnstile.take(self.plan.due.map(|due| self.shared.begun + due));
        let started = Instant::now();
        let result = catch_unwind(AssertUnwindSafe(|| {
            self.compute()?;
            let generated = self.deliver();
            Ok::<_, StepError>((started.elapsed(), generated))
        }));
        drop(turn);
        match result {
            Ok(Ok((took, generated))) => {
                self.record(took, generated);
                self.roster.settle(self.plan.spans.iter().map(|span| span.seq));
                // First, before what it led to: the planner takes in the tokens, then the ends.
                // Waiting for other models is part of what a step costs: it is to be predicted, too.
                let elapsed = took + started.saturating_duration_since(ready);
                self.roster.events.insert(0, Event::StepDone { elapsed });
            }
            Ok(Err(error)) => self.fail(&error.to_string(), false),
            Err(panic) => self.fail(&message(&*panic), true),
        }
        self.stall = Stall::now();
    }

    fn compute(&mut self) -> Result<(), StepError> {
        let mut spans: Vec<Span<'_>> = std::mem::take(&mut self.spans);
        spans.extend(self.plan.spans.iter().filter_map(|planned| {
            let (i, choice) = self.roster.find(planned.seq)?;
            let tokens = &self.roster.requests()[i].sequences[choice].tokens;
            Some(span(planned, tokens, self.planner.blocks(planned.seq)))
        }));
        debug_assert_eq!(
            spans.len(),
            self.plan.spans.len(),
            "the planner knows a sequence that the lane does not"
        );
        let result = self.engine.step(&spans);
        self.spans = emptied(spans);
        result
    }

    fn deliver(&mut self) -> usize {
        let mut delivery = Delivery {
            engine: &mut *self.engine,
            roster: &mut self.roster,
            metrics: &self.shared.metrics,
            ends: &self.ends,
            scratch: &mut self.scratch,
            now: Instant::now(),
        };
        delivery.deliver(&self.plan.spans)
    }

    /// The step's requests are lost; the others go on.
    fn fail(&mut self, why: &str, is_panic: bool) {
        tracing::error!(
            model = self.name,
            panic = is_panic,
            requests = self.plan.spans.len(),
            "step failed: {why}"
        );
        if is_panic {
            self.shared.metrics.step_panicked();
        }
        self.engine.recover();
        let error =
            Error::new(Reason::Engine, "the engine failed while it computed this request; others go on");
        let moves = &self.plan.moves;
        let moved = moves.copies.iter().map(|copy| copy.seq).chain(moves.loads.iter().map(|load| load.seq));
        self.roster.fail(self.plan.spans.iter().map(|span| span.seq).chain(moved), &error);
        self.roster.events.insert(0, Event::StepFailed);
    }

    /// After a panic outside a step, nothing that was planned can be relied on: all requests that the lane has are lost,
    /// and it goes on as it began. What is in the mailbox waits, and is served.
    fn begin_anew(&mut self, why: &str) {
        let requests = self.roster.requests().len();
        tracing::error!(model = self.name, panic = true, requests, "the lane failed between steps: {why}");
        self.shared.metrics.step_panicked();
        let error = Error::new(Reason::Engine, "the engine failed while it had this request; send it again");
        self.roster.fail_all(&error);
        self.roster.events.clear();
        (self.planner, self.plan) = planner(&self.limits, &self.seed, self.shared);
        self.conductor = Conductor::default();
        self.store.clear();
        self.publish();
        self.engine.recover();
        // The new planner takes all blocks for untouched.
        self.engine.release_blocks(&(0..).take(self.limits.blocks).collect::<Vec<_>>());
        self.shedder = Shedder::new(&*self.engine);
        self.stall = Stall::now();
    }

    fn record(&self, took: Duration, generated_tokens: usize) {
        let sequences = self.plan.spans.len();
        let of_prompt = |span: &PlannedSpan| {
            let prompt =
                self.roster.find(span.seq).map_or(0, |(i, k)| self.roster.requests()[i].sequences[k].prompt);
            span.len.min(prompt.saturating_sub(span.start))
        };
        let prompt_tokens = self.plan.spans.iter().map(of_prompt).sum();
        let shared_tokens = self.shared_tokens;
        self.shared.metrics.step(Step { took, sequences, prompt_tokens, shared_tokens, generated_tokens });
    }

    fn publish(&self) {
        self.shedder.publish(&self.shared.spare, &self.planner);
        let (shared, metrics) = (self.shared, &self.shared.metrics);
        let limit = (shared.gate.limit() as usize).saturating_sub(self.limits.max_seqs);
        metrics.set_queue(shared.snapshot.waiting() + shared.mailbox.len(), limit);
        metrics.set_queue_cursor(shared.mailbox.popped());
        metrics.set_running(shared.snapshot.running());
        for class in Class::ALL {
            metrics.set_attainment(class.name(), shared.snapshot.attainment(class));
        }
        let Counts { free, cached, owned, shared } = self.planner.block_counts();
        metrics.set_kv_blocks(KvBlocks { used: owned, shared, cached, free });
    }
}

fn span<'a>(planned: &PlannedSpan, tokens: &'a [u32], blocks: &'a [u32]) -> Span<'a> {
    let logits = match planned.logits {
        LogitRows::None => Logits::None,
        LogitRows::Last => Logits::Last,
        LogitRows::All => Logits::All,
    };
    Span { tokens: &tokens[planned.start..planned.start + planned.len], start: planned.start, blocks, logits }
}

/// The same memory without the spans, and so without what they borrowed.
fn emptied(mut spans: Vec<Span<'_>>) -> Vec<Span<'static>> {
    spans.clear();
    spans.into_iter().map(|s| Span { tokens: &[], start: s.start, blocks: &[], logits: s.logits }).collect()
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a panic without a message")
        .into()
}
