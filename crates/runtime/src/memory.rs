//! The watch over memory: a thread that reads every second how much is used, and when it is short lets caches and pools give
//! some back, and after that nobody in.
//!
//! `plimsoll-host` reads, [`Governor`] decides; here is the clock, and what is done.

use crate::runtime::Runtime;
use plimsoll_host::Host;
use plimsoll_pool::governor::{Decision, Governor, Level, Policy, Reading};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How memory is watched over.
#[derive(Debug, Clone)]
pub struct MemoryConfig {
    /// When it is short.
    pub policy: Policy,
    /// Time between two readings. Default 1 s.
    pub period: Duration,
    /// Bytes this process is held to beside what the machine and the control groups allow. Default `None`: nothing else.
    pub limit: Option<u64>,
}

impl Default for MemoryConfig {
    fn default() -> Self {
        Self { policy: Policy::default(), period: Duration::from_secs(1), limit: None }
    }
}

/// What can be done about memory beside what the lanes do. Called on the watch's thread.
pub struct Remedies {
    /// Makes the allocator give its free pages back. Default: [`plimsoll_pool::trim_heap`].
    pub purge: Box<dyn FnMut() + Send>,
    /// The level has changed: pools and caches that are no lane's shrink ([`plimsoll_pool::Pool::shrink`]) or may grow again.
    /// Default: nothing.
    pub level: Box<dyn FnMut(Level) + Send>,
}

impl Default for Remedies {
    fn default() -> Self {
        let purge = || {
            plimsoll_pool::trim_heap();
        };
        Self { purge: Box::new(purge), level: Box::new(|_| {}) }
    }
}

/// A running watch. Dropping it ends the thread, and lets everybody in who was kept out for lack of memory.
#[derive(Debug)]
pub struct MemoryWatch {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl MemoryWatch {
    /// Starts to watch over the memory that `host` reads, for the models of `runtime`, now and later. Where the machine does
    /// not say how much memory there is nothing is ever done.
    ///
    /// # Errors
    /// When the system has no thread to give.
    pub fn start(
        runtime: &Arc<Runtime>,
        host: Host,
        config: MemoryConfig,
        remedies: Remedies,
    ) -> io::Result<Self> {
        let is_over = Arc::<AtomicBool>::default();
        let watcher = Watcher {
            runtime: Arc::downgrade(runtime),
            host,
            governor: Governor::new(config.policy),
            limit: config.limit,
            remedies,
            begun: Instant::now(),
            fixed: 0,
        };
        let end = is_over.clone();
        let thread = std::thread::Builder::new()
            .name("memory".into())
            .spawn(move || watcher.run(&end, config.period))?;
        Ok(Self { is_over, thread: Some(thread) })
    }
}

impl Drop for MemoryWatch {
    fn drop(&mut self) {
        self.is_over.store(true, SeqCst);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            if thread.join().is_err() {
                tracing::error!("the watch over memory panicked");
            }
        }
    }
}

/// A limit, and what of it is used. Bytes.
struct Held {
    limit: u64,
    used: u64,
}

impl Held {
    fn share(&self) -> f64 {
        self.used as f64 / self.limit.max(1) as f64
    }
}

struct Watcher {
    runtime: Weak<Runtime>,
    host: Host,
    governor: Governor,
    limit: Option<u64>,
    remedies: Remedies,
    begun: Instant,
    /// What was used beside spare memory when last nobody was served.
    fixed: u64,
}

impl Watcher {
    fn run(mut self, is_over: &AtomicBool, period: Duration) {
        while !is_over.load(SeqCst) {
            let Some(runtime) = self.runtime.upgrade() else { return };
            self.look(&runtime);
            drop(runtime);
            std::thread::park_timeout(period);
        }
        if let Some(runtime) = self.runtime.upgrade() {
            runtime.set_short_of_memory(false);
        }
    }

    fn look(&mut self, runtime: &Runtime) {
        let Some(reading) = self.read(runtime) else { return };
        let decision = self.governor.observe(self.begun.elapsed(), &reading);
        // At every look: a model may have come since the last one.
        runtime.set_short_of_memory(decision.level == Level::Refuse);
        runtime.metrics().memory(decision.level as i64, reading.used, reading.limit);
        if decision.is_change {
            self.change(runtime, &decision, &reading);
        }
        if decision.give_back > 0 {
            runtime.want_memory(decision.give_back);
        }
        if decision.purge {
            (self.remedies.purge)();
        }
    }

    fn change(&mut self, runtime: &Runtime, decision: &Decision, reading: &Reading) {
        let Reading { limit, used, fixed, .. } = *reading;
        match decision.level {
            Level::Normal => tracing::info!(used, limit, "memory suffices again"),
            Level::Shed => {
                tracing::warn!(used, limit, fixed, "memory is short: caches and pools give some back")
            }
            Level::Refuse if fixed >= limit => tracing::error!(
                used,
                limit,
                fixed,
                "what is loaded takes more memory than there may be, so nobody is ever let in: raise the limit, or load less"
            ),
            Level::Refuse => tracing::warn!(used, limit, fixed, "memory is very short: nobody is let in"),
        }
        runtime.set_pools_small(decision.level != Level::Normal);
        (self.remedies.level)(decision.level);
    }

    /// What holds tighter: the machine with its control groups, or the limit of our own.
    fn held(&self) -> Option<Held> {
        let of_machine = self.host.memory().map(|memory| Held { limit: memory.most(), used: memory.used() });
        let own = self.limit.and_then(|limit| Some(Held { limit, used: self.host.resident()?.now }));
        match (of_machine, own) {
            (Some(of_machine), Some(own)) => {
                Some(if own.share() > of_machine.share() { own } else { of_machine })
            }
            (of_machine, own) => of_machine.or(own),
        }
    }

    fn read(&mut self, runtime: &Runtime) -> Option<Reading> {
        let Held { limit, used } = self.held()?;
        if runtime.is_idle() {
            self.fixed = used.saturating_sub(runtime.spare_memory());
        }
        Some(Reading {
            limit,
            used,
            fixed: self.fixed.min(used),
            stalled: self.host.memory_pressure().map_or(0.0, |pressure| pressure.some),
            failures: self.host.memory_events().map_or(0, |events| events.failures),
        })
    }
}
