//! A lane: one model's thread, and the door to it.
//!
//! - [`worker`]: the loop: take in, plan, compute, deliver.
//! - [`roster`]: the requests the thread has.
//! - [`moves`]: blocks are copied, parked and brought back, before a step.
//! - [`deliver`]: from logits to tokens in the rings.
//! - [`sizes`]: how much of everything it has.
//! - [`stall`]: steps that begin later than they could.
//! - [`spare`]: memory of blocks that no sequence needs, and how it goes back.
//! - [`warm_up`]: what steps cost, measured before serving.

mod deliver;
mod moves;
mod roster;
mod sizes;
mod spare;
mod stall;
mod warm_up;
mod worker;

pub(crate) use spare::Spare;

use crate::bell::Bell;
use crate::config::LaneConfig;
use crate::experiment::Trials;
use crate::park::Store;
use crate::request::Request;
use crate::turnstile::Turnstile;
use plimsoll_model::engine::{BLOCK_TOKENS, Engine};
use plimsoll_ring::Ring;
use plimsoll_sched::{Door, Gate, Limits, Snapshot};
use plimsoll_telemetry::ModelMetrics;
use std::sync::atomic::{AtomicU8, Ordering::SeqCst};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const _: () = assert!(BLOCK_TOKENS == plimsoll_kv::BLOCK_TOKENS, "planner and engine must agree on a block");

/// How far a lane is in going down. Only ever grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Phase {
    /// It takes work.
    Open,
    /// It finishes what it has, then ends.
    Draining,
    /// It drops what it has and ends.
    Stopping,
    /// Its thread is gone, or about to: what is left in the mailbox is for whoever finds it.
    Gone,
}

/// What a lane's thread and everybody else share.
pub(crate) struct Shared {
    pub(crate) gate: Gate,
    pub(crate) bell: Arc<Bell>,
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) metrics: Arc<ModelMetrics>,
    pub(crate) spare: Spare,
    pub(crate) trials: Trials,
    /// When the lane's clock began.
    pub(crate) begun: Instant,
    mailbox: Ring<Request>,
    phase: AtomicU8,
}

impl Shared {
    /// The lane's time.
    pub(crate) fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    pub(crate) fn is_at(&self, phase: Phase) -> bool {
        self.phase.load(SeqCst) >= phase as u8
    }

    fn go(&self, phase: Phase) {
        if phase > Phase::Open {
            self.gate.close();
        }
        self.phase.fetch_max(phase as u8, SeqCst);
        self.bell.ring();
    }

    /// Drops what is in the mailbox: their readers see their rings end.
    fn empty_mailbox(&self) {
        while self.mailbox.try_pop().is_some() {}
    }
}

/// The door to a lane. Dropping it ends the thread.
pub(crate) struct Lane {
    pub(crate) shared: Arc<Shared>,
    pub(crate) limits: Limits,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Says nothing, and hangs up when the thread ends.
    ended: Mutex<Receiver<Never>>,
}

/// A message nobody can send.
enum Never {}

/// What a lane is made of.
pub(crate) struct LaneParts {
    pub(crate) name: String,
    pub(crate) engine: Box<dyn Engine>,
    pub(crate) config: LaneConfig,
    /// Tokens that end a text.
    pub(crate) ends: Vec<u32>,
    pub(crate) turnstile: Arc<Turnstile>,
    pub(crate) metrics: Arc<ModelMetrics>,
    pub(crate) trials: Trials,
}

impl Lane {
    /// Starts the thread, and waits until it has measured what steps cost.
    ///
    /// # Errors
    /// When the thread could not be started, or the engine failed in the warm-up: why.
    pub(crate) fn start(mut parts: LaneParts) -> Result<Self, String> {
        let (shape, block_bytes) = (parts.engine.shape(), parts.engine.block_bytes());
        let (limits, bounds) = parts.config.sizes(shape, block_bytes);
        let snapshot = Arc::<Snapshot>::default();
        let places = u32::try_from(limits.max_seqs).unwrap_or(u32::MAX);
        let door = Door { bounds, places, tenants: parts.config.tenants };
        let gate = Gate::new(door, snapshot.clone());
        for (tenant, limits) in (0..).zip(&parts.config.tenant_limits) {
            limits.in_flight.into_iter().for_each(|most| gate.limit_tenant(tenant, most));
        }
        let shared = Arc::new(Shared {
            gate,
            bell: Arc::default(),
            snapshot,
            metrics: parts.metrics.clone(),
            spare: Spare::default(),
            trials: std::mem::take(&mut parts.trials),
            begun: Instant::now(),
            // A request is at least one sequence, so whoever was let in finds room.
            mailbox: Ring::new(bounds.sequences as usize),
            phase: AtomicU8::new(Phase::Open as u8),
        });
        let folder = parts.config.parking.folder.as_deref();
        let sizes = parts.config.parking.sizes(block_bytes);
        let store = Store::open(sizes, folder, shared.bell.clone()).map_err(|error| {
            let folder = folder.map(|folder| folder.display().to_string()).unwrap_or_default();
            format!("no file for parked KV blocks can be made in `{folder}`: {error}")
        })?;
        let (ready, is_ready) = mpsc::sync_channel(1);
        let name = format!("lane {}", parts.name);
        let theirs = shared.clone();
        let (ends, ended) = mpsc::sync_channel(0);
        let body = move || {
            let _ends: SyncSender<Never> = ends;
            worker::run(parts, limits, store, &theirs, &ready);
        };
        let thread = std::thread::Builder::new().name(name).spawn(body).map_err(|e| e.to_string())?;
        let lane = Self { shared, limits, thread: Mutex::new(Some(thread)), ended: Mutex::new(ended) };
        is_ready.recv().unwrap_or_else(|_| Err("the lane's thread died in the warm-up".into()))?;
        Ok(lane)
    }

    /// Longest sequence that can ever run, in tokens.
    pub(crate) fn longest(&self) -> usize {
        self.limits.context.min(self.limits.blocks * BLOCK_TOKENS)
    }

    /// Hands a request over that was let in.
    pub(crate) fn submit(&self, request: Request) {
        let pushed = self.shared.mailbox.try_push(request);
        debug_assert!(pushed.is_ok(), "the gate let in more than the mailbox holds");
        self.shared.bell.wake();
        if self.shared.is_at(Phase::Gone) {
            self.shared.empty_mailbox();
        }
    }

    /// Whether its thread has ended; before a drain, by a failure.
    pub(crate) fn is_gone(&self) -> bool {
        self.shared.is_at(Phase::Gone)
    }

    /// Goes on to `phase`. Returns at once; [`Lane::join`] waits.
    pub(crate) fn go(&self, phase: Phase) {
        self.shared.go(phase);
    }

    /// Waits until the thread has ended, and tells it to stop at `until`. Returns the sequences that were dropped.
    pub(crate) fn end_by(&self, until: Instant) -> u32 {
        let left = until.saturating_duration_since(Instant::now());
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(left);
        let is_late = matches!(ended, Err(RecvTimeoutError::Timeout));
        let dropped = if is_late { self.shared.gate.in_flight().0 } else { 0 };
        self.go(Phase::Stopping);
        self.join();
        dropped
    }

    /// Waits for the thread to end.
    pub(crate) fn join(&self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread
            && thread.join().is_err()
        {
            tracing::error!("a lane's thread panicked and could not go on");
        }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.go(Phase::Stopping);
        self.join();
    }
}
