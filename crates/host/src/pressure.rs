//! How hard it is to get memory: what tasks waited for it, and what the control group had to do.

use crate::cgroup::{Group, groups};
use crate::{Host, field};

/// Share of the last ten seconds in which tasks waited for memory, 0 to 1 (pressure stall information).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pressure {
    /// Some task waited.
    pub some: f64,
    /// All tasks that were not idle waited.
    pub full: f64,
}

/// How often something happened in the control group of this process and those below, since it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemoryEvents {
    /// The limit was reached and pages had to be reclaimed, be it only those of files.
    pub limit_hits: u64,
    /// Reclaiming did not help.
    pub failures: u64,
    /// A process was killed for it.
    pub kills: u64,
}

/// Of the process's control group, or the nearest above that tells, or the machine.
pub(crate) fn pressure(host: &Host) -> Option<Pressure> {
    let of_group = groups(host, "memory").into_iter().find_map(|group| match group {
        Group::V2(folder) => host.read(folder.join("memory.pressure")),
        Group::V1(_) => None,
    });
    parse(&of_group.or_else(|| host.read("proc/pressure/memory"))?)
}

/// `some avg10=0.12 avg60=…` and `full avg10=…`, in percent.
fn parse(text: &str) -> Option<Pressure> {
    let share = |kind: &str| {
        let averages = field(text, kind)?;
        let percent = averages.split_whitespace().find_map(|word| word.strip_prefix("avg10="))?;
        percent
            .parse::<f64>()
            .ok()
            .filter(|percent| (0.0..=100.0).contains(percent))
            .map(|percent| percent / 100.0)
    };
    Some(Pressure { some: share("some")?, full: share("full").unwrap_or(0.0) })
}

/// Of the process's control group, or the nearest above that counts.
pub(crate) fn events(host: &Host) -> Option<MemoryEvents> {
    groups(host, "memory").into_iter().find_map(|group| match group {
        Group::V2(folder) => {
            let text = host.read(folder.join("memory.events"))?;
            let count = |key: &str| field(&text, key).and_then(|count| count.parse().ok()).unwrap_or(0);
            Some(MemoryEvents { limit_hits: count("max"), failures: count("oom"), kills: count("oom_kill") })
        }
        Group::V1(folder) => {
            let limit_hits = host.read(folder.join("memory.failcnt"))?.trim().parse().ok()?;
            let control = host.read(folder.join("memory.oom_control")).unwrap_or_default();
            let kills = field(&control, "oom_kill").and_then(|count| count.parse().ok()).unwrap_or(0);
            // Version 1 does not count failures apart: a kill is one.
            Some(MemoryEvents { limit_hits, failures: kills, kills })
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::machine;

    #[test]
    fn pressure_of_the_nearest_that_tells() {
        let text = |some: &str| {
            format!(
                "some avg10={some} avg60=1.00 avg300=0.00 total=1\nfull avg10=0.50 avg60=0.00 avg300=0.00 total=1\n"
            )
        };
        let (own, above, all) = (text("25.00"), text("50.00"), text("75.00"));
        let files = [
            ("sys/fs/cgroup/a/b/memory.pressure", &*own),
            ("sys/fs/cgroup/a/memory.pressure", &*above),
            ("proc/pressure/memory", &*all),
        ];
        for (left_out, expected) in [(0, Some(0.25)), (1, Some(0.5)), (2, Some(0.75)), (3, None)] {
            let mut all = vec![("proc/self/cgroup", "0::/a/b\n")];
            all.extend_from_slice(&files[left_out..]);
            let (_folder, host) = machine(&all);
            let expected = expected.map(|some| Pressure { some, full: 0.005 });
            assert_eq!(host.memory_pressure(), expected, "without the first {left_out}");
        }
    }

    #[test]
    fn pressure_is_read_or_refused() {
        for (text, expected) in [
            ("some avg10=100.00 avg60=1.00\n", Some((1.0, 0.0))),
            ("full avg10=1.00\nsome avg10=0.00\n", Some((0.0, 0.01))),
            ("some avg10=101.00\n", None),
            ("some avg10=NaN\n", None),
            ("some avg60=1.00\n", None),
            ("", None),
        ] {
            assert_eq!(parse(text).map(|pressure| (pressure.some, pressure.full)), expected, "{text:?}");
        }
    }

    #[test]
    fn events_of_both_versions() {
        let check = |cgroup: &str, files: &[(&str, &str)], expected: Option<(u64, u64, u64)>| {
            let mut all = vec![("proc/self/cgroup", cgroup)];
            all.extend_from_slice(files);
            let (_folder, host) = machine(&all);
            let events = host.memory_events();
            assert_eq!(events.map(|e| (e.limit_hits, e.failures, e.kills)), expected, "{files:?}");
        };
        let v2 = "low 1\nhigh 2\nmax 3\noom 4\noom_kill 5\noom_group_kill 6\n";
        check("0::/a\n", &[("sys/fs/cgroup/a/memory.events", v2)], Some((3, 4, 5)));
        check("0::/a\n", &[("sys/fs/cgroup/memory.events", "max 9\n")], Some((9, 0, 0)));
        check("0::/a\n", &[], None);
        let (hits, control) =
            ("sys/fs/cgroup/memory/m/memory.failcnt", "sys/fs/cgroup/memory/m/memory.oom_control");
        let killed = "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n";
        check("5:memory:/m\n", &[(hits, "7\n"), (control, killed)], Some((7, 2, 2)));
        check("5:memory:/m\n", &[(hits, "7\n")], Some((7, 0, 0)));
    }
}
