//! How much each tenant has in flight, and how many ask.

use crate::sync::{AtomicU32, AtomicU64};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::time::Duration;

/// A tenant that has not asked for so long is not counted, in microseconds.
const FORGOTTEN: u64 = 10_000_000;
/// How old the count may be, in microseconds.
const STALE: u64 = 100_000;

#[derive(Debug)]
pub(crate) struct Tenants {
    all: Box<[Tenant]>,
    /// How many asked lately, as of `counted`.
    crowd: AtomicU32,
    counted: AtomicU64,
}

#[derive(Debug)]
struct Tenant {
    sequences: AtomicU32,
    /// Most of them.
    most: AtomicU32,
    /// When it asked last, in microseconds, at least 1; 0: never.
    asked: AtomicU64,
}

impl Tenants {
    pub(crate) fn new(tenants: u32, most: u32) -> Self {
        let new =
            |_| Tenant { sequences: AtomicU32::new(0), most: AtomicU32::new(most), asked: AtomicU64::new(0) };
        Self {
            all: (0..tenants.max(1)).map(new).collect(),
            crowd: AtomicU32::new(1),
            counted: AtomicU64::new(0),
        }
    }

    /// Those beyond the list are one.
    fn get(&self, tenant: u32) -> &Tenant {
        &self.all[(tenant as usize).min(self.all.len() - 1)]
    }

    /// From now on a tenant may have `most` sequences in flight; what it has stays.
    pub(crate) fn set_most(&self, tenant: u32, most: u32) {
        self.get(tenant).most.store(most, Relaxed);
    }

    /// Most sequences a tenant may have in flight.
    pub(crate) fn most(&self, tenant: u32) -> u32 {
        self.get(tenant).most.load(Relaxed)
    }

    /// Notes that a tenant asks. Returns how many did lately.
    pub(crate) fn saw(&self, tenant: u32, now: Duration) -> u32 {
        if self.all.len() == 1 {
            return 1;
        }
        let now = u64::try_from(now.as_micros()).unwrap_or(u64::MAX).max(1);
        self.get(tenant).asked.store(now, Relaxed);
        if self.counted.load(Relaxed) + STALE < now {
            self.counted.store(now, Relaxed);
            let lately = |other: &&Tenant| {
                let asked = other.asked.load(Relaxed);
                asked > 0 && asked + FORGOTTEN > now
            };
            let crowd = self.all.iter().filter(lately).count();
            self.crowd.store(u32::try_from(crowd).unwrap_or(u32::MAX), Relaxed);
        }
        self.crowd.load(Relaxed)
    }

    /// Counts `sequences` of a tenant in, unless that is more than it may have. Returns how many it has with them.
    pub(crate) fn enter(&self, tenant: u32, sequences: u32) -> Option<u32> {
        let (own, most) = (&self.get(tenant).sequences, self.most(tenant));
        let mut has = own.load(Acquire);
        loop {
            let next = has.checked_add(sequences).filter(|&next| next <= most)?;
            match own.compare_exchange_weak(has, next, AcqRel, Acquire) {
                Ok(_) => return Some(next),
                Err(seen) => has = seen,
            }
        }
    }

    /// How many sequences a tenant has in flight.
    pub(crate) fn has(&self, tenant: u32) -> u32 {
        self.get(tenant).sequences.load(Acquire)
    }

    pub(crate) fn leave(&self, tenant: u32, sequences: u32) {
        let before = self.get(tenant).sequences.fetch_sub(sequences, AcqRel);
        debug_assert!(before >= sequences, "more of a tenant's left than came");
    }
}
