//! What the calling process is to its signals and to its parent.
//!
//! On systems other than Linux every call is [`std::io::ErrorKind::Unsupported`], or says no.

use crate::{Host, field};
use std::io;

/// SIGHUP: the terminal is gone.
pub const HANGUP: u32 = 1;

/// Whether this process ignores the signal of that number, which it may have been started with (`nohup`).
pub(crate) fn ignores(host: &Host, signal: u32) -> bool {
    let status = host.read("proc/self/status").unwrap_or_default();
    let mask = field(&status, "SigIgn").and_then(|mask| u64::from_str_radix(mask, 16).ok());
    let bit = signal.checked_sub(1).and_then(|bit| 1_u64.checked_shl(bit)).unwrap_or(0);
    mask.is_some_and(|mask| mask & bit != 0)
}

/// Has the calling process killed as soon as the thread that started it ends, whatever ends it. What it becomes by `exec` keeps
/// that; what it starts does not. Returns whether its parent is `parent` still: it may have ended before.
///
/// # Errors
/// As the system's.
#[cfg(target_os = "linux")]
pub fn end_with_parent(parent: u32) -> io::Result<bool> {
    use rustix::process::{Signal, getppid, set_parent_process_death_signal};
    set_parent_process_death_signal(Some(Signal::KILL))?;
    Ok(getppid().is_some_and(|pid| u32::try_from(pid.as_raw_nonzero().get()) == Ok(parent)))
}

/// Has the calling process killed as soon as the thread that started it ends.
///
/// # Errors
/// Always: this system has no such thing.
#[cfg(not(target_os = "linux"))]
pub fn end_with_parent(_: u32) -> io::Result<bool> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::machine;

    #[test]
    fn what_is_ignored_is_told_by_its_bit() {
        for (mask, signal, expected) in [
            ("0000000000000001", HANGUP, true),
            ("0000000000001000", HANGUP, false),
            ("0000000000001000", 13, true),
            ("ffffffffffffffff", 64, true),
            ("ffffffffffffffff", 65, false),
            ("ffffffffffffffff", 0, false),
            ("none", HANGUP, false),
        ] {
            let (_folder, host) = machine(&[("proc/self/status", &format!("Name:\tx\nSigIgn:\t{mask}\n"))]);
            assert_eq!(ignores(&host, signal), expected, "{signal} of {mask}");
        }
        let (_folder, host) = machine(&[]);
        assert!(!ignores(&host, HANGUP));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn an_orphan_is_told() {
        // No process has that number.
        assert!(!end_with_parent(u32::MAX).unwrap());
        assert!(end_with_parent(std::os::unix::process::parent_id()).unwrap());
        rustix::process::set_parent_process_death_signal(None).unwrap();
    }
}
