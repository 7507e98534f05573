//! Where the control groups of this process lie.
//!
//! `/proc/self/cgroup` has one line `id:controllers:path` for each hierarchy; version 2 is the line `0::path`. The folders
//! are looked for where distributions mount them, `/sys/fs/cgroup` (version 2) and `/sys/fs/cgroup/CONTROLLERS`
//! (version 1). A limit of any group above holds too. Inside a container the path may be that of the host, which is not
//! there; the mount's own folder then is the process's group, and it is among the folders above.

use std::path::{Component, Path, PathBuf};

use crate::Host;

const MOUNT: &str = "sys/fs/cgroup";

/// A group whose files this process is held to.
#[derive(Debug, PartialEq)]
pub(crate) enum Group {
    V1(PathBuf),
    V2(PathBuf),
}

/// The groups that limit `controller` ("cpu", "memory"), from the process's own up to the root of each hierarchy.
pub(crate) fn groups(host: &Host, controller: &str) -> Vec<Group> {
    let lines = host.read("proc/self/cgroup").unwrap_or_default();
    lines.lines().filter_map(|line| of_line(line, controller)).flatten().collect()
}

fn of_line(line: &str, controller: &str) -> Option<Vec<Group>> {
    let (_id, rest) = line.split_once(':')?;
    let (controllers, path) = rest.split_once(':')?;
    let folders = |mount: PathBuf| folders_up(mount, Path::new(path));
    if controllers.is_empty() {
        return Some(folders(MOUNT.into()).map(Group::V2).collect());
    }
    if !controllers.split(',').any(|name| name == controller) {
        return None;
    }
    Some(folders(Path::new(MOUNT).join(controllers)).map(Group::V1).collect())
}

/// `mount/a/b`, `mount/a`, `mount` for the path `/a/b`. Steps up (`..`: a group outside of the namespace) count as none.
fn folders_up(mount: PathBuf, path: &Path) -> impl Iterator<Item = PathBuf> {
    let names: Vec<_> = path.components().filter(|part| matches!(part, Component::Normal(_))).collect();
    (0..=names.len())
        .rev()
        .map(move |depth| names[..depth].iter().fold(mount.clone(), |folder, name| folder.join(name)))
        .collect::<Vec<_>>()
        .into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::machine;

    fn check(cgroup: &str, controller: &str, expected: &[Group]) {
        let (_folder, host) = machine(&[("proc/self/cgroup", cgroup)]);
        assert_eq!(groups(&host, controller), expected, "{cgroup:?}");
    }

    #[test]
    fn own_group_first_then_those_above() {
        let v1 = |path: &str| Group::V1(Path::new(MOUNT).join(path));
        let v2 = |path: &str| Group::V2(Path::new(MOUNT).join(path));
        check("0::/\n", "cpu", &[v2("")]);
        check("0::/a/b.scope\n", "cpu", &[v2("a/b.scope"), v2("a"), v2("")]);
        check("0::/../../x\n", "cpu", &[v2("x"), v2("")]);
        let hybrid = "5:memory:/m\n4:cpu,cpuacct:/c\n3:cpuset:/s\n0::/\n";
        check(hybrid, "cpu", &[v1("cpu,cpuacct/c"), v1("cpu,cpuacct"), v2("")]);
        check(hybrid, "memory", &[v1("memory/m"), v1("memory"), v2("")]);
        check("garbage\n::\n1:cpu\n", "cpu", &[v2("")]);
        assert!(groups(&machine(&[]).1, "cpu").is_empty());
    }
}
