//! What memory there is for this process, and what it has.

use std::path::Path;

use crate::cgroup::{Group, groups};
use crate::{Host, field, kibibytes};

/// Memory as this process may use it, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Memory of the machine.
    pub total: u64,
    /// What can be had without swapping and without reaching a limit.
    pub available: u64,
    /// The tightest limit of the control groups, when it is less than the machine has.
    pub limit: Option<u64>,
}

impl Memory {
    /// What this process is held to: the limit, or all there is.
    pub fn most(&self) -> u64 {
        self.limit.unwrap_or(self.total)
    }

    /// How much of [`Memory::most`] is used, by whomever it holds: what cannot be had.
    pub fn used(&self) -> u64 {
        self.most().saturating_sub(self.available)
    }
}

/// Memory this process has, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resident {
    /// Now.
    pub now: u64,
    /// The most it ever had.
    pub peak: u64,
}

pub(crate) fn read(host: &Host) -> Option<Memory> {
    let meminfo = host.read("proc/meminfo")?;
    let total = kibibytes(&meminfo, "MemTotal")?;
    let mut memory = Memory { total, available: kibibytes(&meminfo, "MemAvailable")?, limit: None };
    for held in groups(host, "memory").iter().filter_map(|group| held_to(host, group)) {
        if held.limit < total {
            memory.limit = Some(memory.limit.map_or(held.limit, |limit| limit.min(held.limit)));
            memory.available = memory.available.min(held.limit.saturating_sub(held.used));
        }
    }
    Some(memory)
}

pub(crate) fn resident(host: &Host, process: &str) -> Option<Resident> {
    let status = host.read(format!("proc/{process}/status"))?;
    let now = kibibytes(&status, "VmRSS")?;
    Some(Resident { now, peak: kibibytes(&status, "VmHWM").unwrap_or(now).max(now) })
}

/// What a control group allows and has in use, in bytes.
struct Held {
    limit: u64,
    used: u64,
}

fn held_to(host: &Host, group: &Group) -> Option<Held> {
    let (folder, limit, used, idle) = match group {
        Group::V2(folder) => (folder, "memory.max", "memory.current", "inactive_file"),
        Group::V1(folder) => {
            (folder, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        }
    };
    let number = |name: &str| host.read(Path::new(folder).join(name))?.trim().parse::<u64>().ok();
    let limit = number(limit)?;
    // Pages of files that were not touched lately are given up before the limit bites.
    let stat = host.read(folder.join("memory.stat")).unwrap_or_default();
    let idle = field(&stat, idle).and_then(|bytes| bytes.parse().ok()).unwrap_or(0);
    Some(Held { limit, used: number(used).unwrap_or(0).saturating_sub(idle) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::machine;

    const MEMINFO: (&str, &str) =
        ("proc/meminfo", "MemTotal:       1000 kB\nMemFree:         100 kB\nMemAvailable:    800 kB\n");

    /// A machine of 1000 KiB, 800 available, with these control group files.
    fn check(cgroup: &str, files: &[(&str, &str)], limit: Option<u64>, available: u64) {
        let mut all = vec![MEMINFO, ("proc/self/cgroup", cgroup)];
        all.extend_from_slice(files);
        let (_folder, host) = machine(&all);
        assert_eq!(host.memory(), Some(Memory { total: 1000 << 10, available, limit }), "{files:?}");
    }

    #[test]
    fn the_tightest_limit_counts() {
        const FREE: u64 = 800 << 10;
        let (max, current) = ("sys/fs/cgroup/a/memory.max", "sys/fs/cgroup/a/memory.current");
        let stat = ("sys/fs/cgroup/a/memory.stat", "anon 1\ninactive_file 1000\nactive_file 7\n");
        check("0::/a\n", &[], None, FREE);
        check("0::/a\n", &[(max, "max\n"), (current, "5000\n")], None, FREE);
        check("0::/a\n", &[(max, "10000\n"), (current, "4000\n")], Some(10_000), 6_000);
        check("0::/a\n", &[(max, "10000\n"), (current, "4000\n"), stat], Some(10_000), 7_000);
        check("0::/a\n", &[(max, "10000\n"), (current, "40000\n")], Some(10_000), 0);
        check("0::/a\n", &[(max, "10000\n")], Some(10_000), 10_000);
        check("0::/a\n", &[(max, "-5\n")], None, FREE);
        // More than the machine has is no limit; one that is not near leaves what the machine has.
        check("0::/a\n", &[(max, "9223372036854771712\n"), (current, "4000\n")], None, FREE);
        check("0::/a\n", &[(max, "1000000\n"), (current, "0\n")], Some(1_000_000), FREE);
        let above = ("sys/fs/cgroup/memory.max", "5000\n");
        check("0::/a\n", &[(max, "10000\n"), (current, "4000\n"), above], Some(5_000), 5_000);
    }

    #[test]
    fn used_is_what_cannot_be_had() {
        let memory = |available, limit| Memory { total: 100, available, limit };
        for (memory, expected) in
            [(memory(30, None), (100, 70)), (memory(30, Some(40)), (40, 10)), (memory(50, Some(40)), (40, 0))]
        {
            assert_eq!((memory.most(), memory.used()), expected);
        }
    }

    #[test]
    fn version_1_limit() {
        let folder = "sys/fs/cgroup/memory/m";
        let [limit, usage, stat] =
            ["limit_in_bytes", "usage_in_bytes", "stat"].map(|name| format!("{folder}/memory.{name}"));
        let files = [(&*limit, "10000\n"), (&*usage, "4000\n"), (&*stat, "total_inactive_file 500\n")];
        check("5:memory:/m\n", &files, Some(10_000), 6_500);
    }

    #[test]
    fn resident_memory() {
        let cases = [
            ("VmHWM:\t 30 kB\nVmRSS:\t 20 kB\n", Some((20, 30))),
            ("VmRSS:\t 20 kB\n", Some((20, 20))),
            ("Name:\tx\n", None),
        ];
        for (status, expected) in cases {
            let (_folder, host) = machine(&[("proc/self/status", status), ("proc/7/status", status)]);
            let expected = expected.map(|(now, peak)| Resident { now: now << 10, peak: peak << 10 });
            assert_eq!((host.resident(), host.resident_of(7)), (expected, expected));
            assert_eq!(host.resident_of(8), None);
        }
    }

    #[test]
    fn without_files_there_is_no_answer() {
        let (_folder, host) = machine(&[]);
        assert_eq!((host.memory(), host.resident()), (None, None));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_machine_answers() {
        let (memory, resident) = (Host::this().memory(), Host::this().resident());
        assert!(memory.is_some_and(|memory| memory.available <= memory.total));
        assert!(resident.is_some_and(|resident| 0 < resident.now && resident.now <= resident.peak));
    }
}
