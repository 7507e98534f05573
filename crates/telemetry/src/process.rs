//! What the operating system says about this process.

/// Resident memory in bytes; `None` where `/proc` is not there.
pub fn resident_bytes() -> Option<u64> {
    resident(&std::fs::read_to_string("/proc/self/status").ok()?)
}

fn resident(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::resident;

    #[test]
    fn reads_the_resident_set() {
        assert_eq!(resident("Name:\tx\nVmRSS:\t    2048 kB\nVmSize:\t9 kB\n"), Some(2048 * 1024));
        assert_eq!(resident("Name:\tx\n"), None);
        assert_eq!(resident("VmRSS:\tmany kB\n"), None);
    }
}
