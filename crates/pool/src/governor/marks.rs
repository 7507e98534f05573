//! [`Marks`]: the amounts of memory at which something happens.

use super::{Policy, Reading};

/// Above this share of the limit nobody is let in, however much of it is fixed: something must be left for the system.
const LAST: f64 = 0.98;

/// Amounts of used memory, in bytes: `normal <= shed <= refuse`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Marks {
    /// Under it caches and pools may grow again.
    pub normal: u64,
    /// Over it they shrink.
    pub shed: u64,
    /// Over it nobody is let in.
    pub refuse: u64,
}

impl Marks {
    /// The marks of a policy, for this limit and this much fixed memory.
    ///
    /// With little fixed, `shed` and `refuse` are the policy's shares of the limit. What is fixed moves the marks, because a
    /// server whose weights alone are half of the limit would otherwise never come back under 30 %, and one whose weights
    /// are over 80 % would give up a cache that costs little:
    ///
    /// - `refuse` is at least half-way from what is fixed to the limit, but never above 98 % of it;
    /// - `shed` is at least half-way from what is fixed to `refuse`;
    /// - `normal` lies between what is fixed and `shed` as it lies between 0 and `shed` in the policy.
    pub fn of(policy: &Policy, reading: &Reading) -> Self {
        let limit = reading.limit as f64;
        let fixed = (reading.fixed as f64).min(limit);
        let refuse =
            (policy.refuse * limit).max(f64::midpoint(fixed, limit)).min(LAST.max(policy.refuse) * limit);
        let shed = (policy.shed * limit).max(f64::midpoint(fixed, refuse)).min(refuse);
        let normal = (fixed + (shed - fixed) * policy.normal / policy.shed).min(shed);
        Self { normal: normal as u64, shed: shed as u64, refuse: refuse as u64 }
    }
}
