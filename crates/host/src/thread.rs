//! Name, priority and cores of the calling thread.
//!
//! On systems other than Linux every call is [`std::io::ErrorKind::Unsupported`]; callers that only wish for better
//! behaviour may go on.

use std::io;
use std::time::Duration;

/// The longest name Linux keeps, in bytes.
const NAME: usize = 15;

/// As much of `name` as a thread's name may have: up to 15 bytes, cut at a character, without NUL.
fn shortened(name: &str) -> &str {
    let name = name.split('\0').next().unwrap_or_default();
    &name[..name.floor_char_boundary(NAME)]
}

/// Names the calling thread, for `top -H`, debuggers and profiles. Longer names are cut to 15 bytes.
///
/// # Errors
/// When the system refuses or cannot.
pub fn set_name(name: &str) -> io::Result<()> {
    system::set_name(shortened(name))
}

/// Sets the nice value of the calling thread alone: from -20 (first) to 19 (last), 0 being normal.
///
/// # Errors
/// Lowering the value needs a privilege; otherwise when the system cannot.
pub fn set_nice(nice: i32) -> io::Result<()> {
    system::set_nice(nice)
}

/// The nice value of the calling thread.
///
/// # Errors
/// When the system cannot say.
pub fn nice() -> io::Result<i32> {
    system::nice()
}

/// How long the calling thread has been computing. What is missing to the time that went by it was kept from it: it slept,
/// or others had its core. Zero where the system cannot say.
pub fn cpu_time() -> Duration {
    system::cpu_time()
}

/// Keeps the calling thread, and threads it starts from now on, on one core.
///
/// # Errors
/// When there is no such core, the process may not use it, or the system cannot.
pub fn pin_to(core: usize) -> io::Result<()> {
    system::pin_to(&[core])
}

/// Keeps the calling thread, and threads it starts from now on, on these cores: those of a NUMA node, say.
///
/// Linux places a page on the node of the core that first touches it, unless a memory policy says otherwise. So a thread that
/// is kept on a node's cores and touches a new buffer places it there. (`mbind` and `set_mempolicy`, which could place it
/// from anywhere, have no safe wrapper.)
///
/// # Errors
/// When there is none of these cores that the process may use, or the system cannot.
pub fn pin_to_any(cores: &[usize]) -> io::Result<()> {
    system::pin_to(cores)
}

#[cfg(target_os = "linux")]
mod system {
    use std::ffi::CString;
    use std::io;
    use std::time::Duration;

    use rustix::process::{getpriority_process, setpriority_process};
    use rustix::thread::{CpuSet, gettid, sched_setaffinity, set_name as set_thread_name};
    use rustix::time::{ClockId, clock_gettime};

    pub(super) fn set_name(name: &str) -> io::Result<()> {
        Ok(set_thread_name(&CString::new(name)?)?)
    }

    // On Linux a priority belongs to a thread, and the "process" of these calls is one.
    pub(super) fn set_nice(nice: i32) -> io::Result<()> {
        Ok(setpriority_process(Some(gettid()), nice)?)
    }

    pub(super) fn nice() -> io::Result<i32> {
        Ok(getpriority_process(Some(gettid()))?)
    }

    pub(super) fn cpu_time() -> Duration {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
    }

    pub(super) fn pin_to(cores: &[usize]) -> io::Result<()> {
        if let Some(core) = cores.iter().find(|core| **core >= CpuSet::MAX_CPU) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("there is no core {core}")));
        }
        let mut set = CpuSet::new();
        cores.iter().for_each(|core| set.set(*core));
        Ok(sched_setaffinity(None, &set)?)
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::io;
    use std::time::Duration;

    pub(super) fn cpu_time() -> Duration {
        Duration::ZERO
    }

    pub(super) fn set_name(_name: &str) -> io::Result<()> {
        unsupported()
    }

    pub(super) fn set_nice(_nice: i32) -> io::Result<()> {
        unsupported()
    }

    pub(super) fn nice() -> io::Result<i32> {
        unsupported()
    }

    pub(super) fn pin_to(_cores: &[usize]) -> io::Result<()> {
        unsupported()
    }

    fn unsupported<T>() -> io::Result<T> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_cut_at_a_character() {
        let cases = [
            ("lane", "lane"),
            ("a-name-that-is-too-long", "a-name-that-is-"),
            ("fourteen-bytesé", "fourteen-bytes"),
            ("a\0b", "a"),
            ("", ""),
        ];
        for (name, expected) in cases {
            assert_eq!(shortened(name), expected);
        }
    }

    /// Runs `work` on a thread of its own, which may be changed for good.
    #[cfg(target_os = "linux")]
    fn on_a_thread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| scope.spawn(work).join()).expect("no panic")
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn one_thread_is_changed_and_no_other() {
        let before = nice().expect("readable");
        let after = on_a_thread(|| {
            set_nice(19).expect("raising needs no privilege");
            set_name("a-name-that-is-too-long").expect("valid");
            let name = std::fs::read_to_string("/proc/thread-self/comm").expect("there is a /proc");
            (nice().expect("readable"), name)
        });
        assert_eq!(after, (19, "a-name-that-is-\n".to_owned()));
        assert_eq!(nice().expect("readable"), before);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_thread_that_works_has_computed_and_one_that_sleeps_has_not() {
        let computed = on_a_thread(|| {
            let before = cpu_time();
            while cpu_time() < before + Duration::from_millis(5) {}
            cpu_time()
        });
        assert!(computed >= Duration::from_millis(5));
        let slept = on_a_thread(|| {
            std::thread::park_timeout(Duration::from_millis(20));
            cpu_time()
        });
        assert!(slept < Duration::from_millis(20));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_thread_can_be_pinned_to_an_allowed_core_only() {
        let core = crate::Host::this().cores().allowed[0];
        let allowed = on_a_thread(|| {
            pin_to(core).expect("an allowed core");
            let status = std::fs::read_to_string("/proc/thread-self/status").expect("there is a /proc");
            crate::field(&status, "Cpus_allowed_list").map(str::to_owned)
        });
        assert_eq!(allowed, Some(core.to_string()));
        assert!(on_a_thread(|| pin_to(usize::MAX)).is_err());
        assert!(on_a_thread(|| pin_to_any(&[])).is_err());
        let all = crate::Host::this().cores().allowed;
        assert!(on_a_thread(|| pin_to_any(&all)).is_ok());
    }
}
