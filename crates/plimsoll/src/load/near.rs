//! Weights lie near the cores that compute with them: on a machine of several memory nodes they are read and packed by a
//! thread that is kept on the cores of the node they should lie on, because Linux places a page where it is first touched.
//! (KV blocks are first touched by the computing threads themselves.) A machine of one node needs none of this.

use plimsoll_host::{Host, thread};
use plimsoll_pool::numa::{Node, Topology};

/// Does `work`, which touches about `bytes` of new memory, where that memory should lie.
pub fn place<T: Send>(host: &Host, bytes: u64, work: impl FnOnce() -> T + Send) -> T {
    let Some(cores) = cores_near(host, bytes) else { return work() };
    let placed = || {
        if let Err(error) = thread::pin_to_any(&cores) {
            tracing::debug!("weights lie where the system puts them: {error}");
        }
        work()
    };
    // A thread of its own: the caller stays where it may run.
    std::thread::scope(|scope| match scope.spawn(placed).join() {
        Ok(done) => done,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}

/// The cores of the node on which `bytes` should lie that this process' first core uses; `None` when it does not matter: there
/// is one node, or the best one has no cores to touch them from.
fn cores_near(host: &Host, bytes: u64) -> Option<Vec<usize>> {
    let nodes = host.nodes();
    let (1.., Some(&core)) = (nodes.len().saturating_sub(1), host.cores().allowed.first()) else {
        return None;
    };
    let node = |node: plimsoll_host::numa::Node| Node {
        id: node.id,
        cores: node.cores,
        free: node.free,
        distances: node.distances,
    };
    let mut topology = Topology::new(nodes.into_iter().map(node).collect());
    let chosen = topology.place(core, bytes);
    let cores = topology.nodes().iter().find(|node| node.id == chosen).map(|node| node.cores.clone());
    cores.filter(|cores| !cores.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine of nodes with these cores and so many KiB free.
    fn machine(nodes: &[(&str, u64)]) -> (tempfile::TempDir, Host) {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: String, text: String| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let system = "sys/devices/system/node";
        write(format!("{system}/online"), format!("0-{}\n", nodes.len() - 1));
        for (i, (cores, free)) in nodes.iter().enumerate() {
            write(format!("{system}/node{i}/cpulist"), format!("{cores}\n"));
            write(
                format!("{system}/node{i}/meminfo"),
                format!("Node {i} MemTotal: 4000 kB\nNode {i} MemFree: {free} kB\n"),
            );
            write(format!("{system}/node{i}/distance"), format!("{}\n", ["10 21", "21 10"][i % 2]));
        }
        write("proc/self/status".into(), "Cpus_allowed_list:\t0-3\n".into());
        let host = Host::at(folder.path());
        (folder, host)
    }

    #[test]
    fn weights_go_to_the_node_of_the_first_core_that_has_room() {
        let cases = [
            (&[("0-3", 3000)][..], None),
            (&[("0-1", 3000), ("2-3", 3000)], Some(vec![0, 1])),
            (&[("0-1", 10), ("2-3", 3000)], Some(vec![2, 3])),
            // Memory alone: nobody to touch it from.
            (&[("0-3", 10), ("", 3000)], None),
        ];
        for (nodes, expected) in cases {
            let (_folder, host) = machine(nodes);
            assert_eq!(cores_near(&host, 1 << 20), expected, "{nodes:?}");
        }
        let (_folder, host) = machine(&[("0-1", 3000), ("2-3", 3000)]);
        assert_eq!(place(&host, 1, || 7), 7, "also where the cores are not this machine's");
    }
}
