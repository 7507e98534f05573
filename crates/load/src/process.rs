//! What processes take: this one, so that it is seen whether it disturbed what it measured, and the server's if it is near.

use rustix::time::{ClockId, clock_gettime};

/// Processor seconds of this process so far, all threads.
pub fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Resident memory of a process of this machine, in bytes; `None` if there is none of that number, or the system does not say.
pub fn resident(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_some_memory() {
        assert!(resident(std::process::id()).is_some_and(|bytes| bytes > 100_000));
        assert_eq!(resident(u32::MAX), None);
    }
}
