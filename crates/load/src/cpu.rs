//! What this process itself costs, so that it is seen whether it disturbed what it measured.

use rustix::time::{ClockId, clock_gettime};

/// Processor seconds of this process so far, all threads.
pub fn seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}
