//! [`Marks`]: the amounts of memory at which something happens.

use super::{Policy, Reading};

/// Amounts of used memory, in bytes: `normal < shed < refuse`, unless nothing is left between what is fixed and the limit.
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
    /// With nothing fixed they are the policy's shares of the limit. What is fixed moves them, because a server whose weights
    /// alone are half of the limit would otherwise never come back under 30 %, and one whose weights are over 80 % would
    /// give up a cache that costs nothing:
    ///
    /// - `shed` is the policy's share of the limit, but at least half-way from what is fixed to the limit;
    /// - `normal` lies between what is fixed and `shed` as it lies between 0 and `shed` in the policy;
    /// - `refuse` lies between `shed` and the limit as it does in the policy.
    pub fn of(policy: &Policy, reading: &Reading) -> Self {
        let limit = reading.limit as f64;
        let fixed = (reading.fixed as f64).min(limit);
        let shed = (policy.shed * limit).max(f64::midpoint(fixed, limit));
        let normal = fixed + (shed - fixed) * policy.normal / policy.shed;
        let refuse = shed + (limit - shed) * (policy.refuse - policy.shed) / (1.0 - policy.shed);
        Self { normal: normal as u64, shed: shed as u64, refuse: refuse as u64 }
    }
}
