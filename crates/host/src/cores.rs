//! The cores this process may use.

use std::path::Path;

use crate::cgroup::{Group, groups};
use crate::{Host, field};

/// What the scheduler lets this process use.
#[derive(Debug, Clone, PartialEq)]
pub struct Cores {
    /// Numbers of the cores the process may run on, ascending; never empty.
    pub allowed: Vec<usize>,
    /// Core-seconds per second that the control group grants, when it limits them.
    pub quota: Option<f64>,
}

impl Cores {
    /// Threads that can run at once without being throttled: the allowed cores, or the quota rounded up where that is
    /// less. At least 1.
    pub fn usable(&self) -> usize {
        let by_quota = self.quota.map_or(usize::MAX, |quota| quota.ceil() as usize);
        self.allowed.len().min(by_quota).max(1)
    }
}

pub(crate) fn read(host: &Host) -> Cores {
    let status = host.read("proc/self/status").unwrap_or_default();
    let allowed = field(&status, "Cpus_allowed_list").and_then(parse_list).unwrap_or_else(fallback);
    let quota = groups(host, "cpu").iter().filter_map(|group| quota(host, group)).reduce(f64::min);
    Cores { allowed, quota }
}

/// Without `/proc`: the standard library knows how many, and they are numbered from 0.
fn fallback() -> Vec<usize> {
    (0..std::thread::available_parallelism().map_or(1, usize::from)).collect()
}

fn quota(host: &Host, group: &Group) -> Option<f64> {
    let (quota, period) = match group {
        // "max 100000" or "150000 100000", in microseconds.
        Group::V2(folder) => {
            let text = host.read(folder.join("cpu.max"))?;
            let (quota, period) = text.trim().split_once(' ')?;
            (quota.to_owned(), period.to_owned())
        }
        // -1 is no limit.
        Group::V1(folder) => {
            let file = |name: &str| host.read(Path::new(folder).join(name));
            (file("cpu.cfs_quota_us")?, file("cpu.cfs_period_us")?)
        }
    };
    let (quota, period) = (quota.trim().parse::<u64>().ok()?, period.trim().parse::<u64>().ok()?);
    (quota > 0 && period > 0).then(|| quota as f64 / period as f64)
}

/// The numbers of a list such as `0-3,8,10-11`. `None` when it is not one, or is empty.
pub(crate) fn parse_list(text: &str) -> Option<Vec<usize>> {
    /// More cores than Linux can be built for: a list that names a higher one is not believed.
    const MOST: usize = 1 << 16;
    let mut cores = Vec::new();
    for range in text.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (first.trim().parse::<usize>().ok()?, last.trim().parse::<usize>().ok()?);
        if first > last || last >= MOST {
            return None;
        }
        cores.extend(first..=last);
    }
    cores.sort_unstable();
    cores.dedup();
    Some(cores)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::machine;

    #[test]
    fn lists_are_read_or_refused() {
        let cases: [(&str, Option<&[usize]>); 10] = [
            ("0", Some(&[0])),
            ("0-1", Some(&[0, 1])),
            ("8,0-3,2", Some(&[0, 1, 2, 3, 8])),
            (" 5 \n", Some(&[5])),
            ("", None),
            ("3-1", None),
            ("a-b", None),
            ("1,,2", None),
            ("0-99999999999", None),
            ("-1", None),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_list(text).as_deref(), expected, "{text:?}");
        }
    }

    /// A machine with four allowed cores and these control group files.
    fn check(cgroup: &str, files: &[(&str, &str)], quota: Option<f64>, usable: usize) {
        let mut all =
            vec![("proc/self/status", "Name:\tx\nCpus_allowed_list:\t2-5\n"), ("proc/self/cgroup", cgroup)];
        all.extend_from_slice(files);
        let (_folder, host) = machine(&all);
        let cores = host.cores();
        assert_eq!(
            (cores.allowed.as_slice(), cores.quota, cores.usable()),
            (&[2, 3, 4, 5][..], quota, usable)
        );
    }

    #[test]
    fn the_tightest_quota_counts() {
        let (own, above) = ("sys/fs/cgroup/a/b/cpu.max", "sys/fs/cgroup/a/cpu.max");
        check("0::/a/b\n", &[], None, 4);
        check("0::/a/b\n", &[(own, "max 100000\n")], None, 4);
        check("0::/a/b\n", &[(own, "150000 100000\n")], Some(1.5), 2);
        check("0::/a/b\n", &[(own, "max 100000\n"), (above, "50000 100000\n")], Some(0.5), 1);
        check("0::/a/b\n", &[(own, "300000 100000\n"), (above, "200000 100000\n")], Some(2.0), 2);
        check("0::/a/b\n", &[(own, "1600000 100000\n")], Some(16.0), 4);
        check("0::/a/b\n", &[(own, "100000 0\n"), (above, "what\n")], None, 4);
        // The host's path, seen from inside a container.
        check("0::/docker/1234\n", &[("sys/fs/cgroup/cpu.max", "100000 100000\n")], Some(1.0), 1);
    }

    #[test]
    fn version_1_quota() {
        let folder = "sys/fs/cgroup/cpu,cpuacct/c";
        let (quota, period) = (format!("{folder}/cpu.cfs_quota_us"), format!("{folder}/cpu.cfs_period_us"));
        check("4:cpu,cpuacct:/c\n", &[(&quota, "250000\n"), (&period, "100000\n")], Some(2.5), 3);
        check("4:cpu,cpuacct:/c\n", &[(&quota, "-1\n"), (&period, "100000\n")], None, 4);
        check("4:cpu,cpuacct:/c\n", &[(&quota, "250000\n")], None, 4);
    }

    #[test]
    fn without_files_there_is_still_a_core() {
        assert!(machine(&[]).1.cores().usable() >= 1);
        assert!(Host::this().cores().usable() >= 1);
    }
}
