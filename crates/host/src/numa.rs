//! The nodes of the machine: which cores and how much memory each has, and how far they are apart.

use crate::cores::parse_list;
use crate::{Host, kibibytes};

const FOLDER: &str = "sys/devices/system/node";
/// More nodes than Linux can be built for.
const MOST: usize = 1 << 10;

/// Cores, and memory that they reach fastest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// The system's number.
    pub id: usize,
    /// Its cores, ascending, whether this process may use them or not; none when it is memory alone.
    pub cores: Vec<usize>,
    /// Bytes of memory it has.
    pub total: u64,
    /// Bytes that can be had: unused ones, and those of files that were not touched lately.
    pub free: u64,
    /// How far each node is, in the order of the nodes; 10 is the node itself. Empty when the machine does not say.
    pub distances: Vec<u32>,
}

/// Ascending by number, and never empty: a machine that does not say is one node, with all that this process may use.
pub(crate) fn read(host: &Host) -> Vec<Node> {
    let online = host.read(format!("{FOLDER}/online")).as_deref().and_then(parse_list).unwrap_or_default();
    let nodes: Vec<_> =
        online.into_iter().take_while(|id| *id < MOST).filter_map(|id| node(host, id)).collect();
    if nodes.is_empty() { vec![undivided(host)] } else { with_known_distances(nodes) }
}

fn node(host: &Host, id: usize) -> Option<Node> {
    let file = |name: &str| host.read(format!("{FOLDER}/node{id}/{name}"));
    let memory = file("meminfo")?;
    let bytes = |key: &str| kibibytes(&memory, &format!("Node {id} {key}"));
    let cores = file("cpulist")?;
    let cores = if cores.trim().is_empty() { Vec::new() } else { parse_list(&cores)? };
    let free = bytes("MemFree")?.saturating_add(bytes("Inactive(file)").unwrap_or(0));
    let distances = file("distance").unwrap_or_default();
    let distances = distances.split_whitespace().map_while(|far| far.parse().ok()).collect();
    Some(Node { id, cores, total: bytes("MemTotal")?, free, distances })
}

/// A distance belongs to a node by its place in the line, so a line that is not as long as there are nodes says nothing.
fn with_known_distances(mut nodes: Vec<Node>) -> Vec<Node> {
    let count = nodes.len();
    nodes.iter_mut().filter(|node| node.distances.len() != count).for_each(|node| node.distances.clear());
    nodes
}

fn undivided(host: &Host) -> Node {
    let (total, free) = host.memory().map_or((0, 0), |memory| (memory.total, memory.available));
    Node { id: 0, cores: host.cores().allowed, total, free, distances: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::machine;

    /// The files of a node, by name.
    fn files(id: usize, cores: &str, total: u64, free: u64, distance: &str) -> Vec<(String, String)> {
        let path = |name: &str| format!("{FOLDER}/node{id}/{name}");
        let meminfo = format!(
            "Node {id} MemTotal:       {total} kB\nNode {id} MemFree:        {free} kB\nNode {id} Inactive(file):  1 kB\n"
        );
        vec![
            (path("cpulist"), format!("{cores}\n")),
            (path("meminfo"), meminfo),
            (path("distance"), format!("{distance}\n")),
        ]
    }

    fn nodes(online: &str, files: &[Vec<(String, String)>]) -> Vec<Node> {
        let online = (format!("{FOLDER}/online"), format!("{online}\n"));
        let all: Vec<_> =
            files.iter().flatten().chain([&online]).map(|(path, text)| (&**path, &**text)).collect();
        let (_folder, host) = machine(&all);
        host.nodes()
    }

    fn node(id: usize, cores: &[usize], total: u64, free: u64, distances: &[u32]) -> Node {
        Node {
            id,
            cores: cores.to_vec(),
            total: total << 10,
            free: (free + 1) << 10,
            distances: distances.to_vec(),
        }
    }

    #[test]
    fn two_sockets_and_memory_alone() {
        let machine = [
            files(0, "0-1,4-5", 100, 50, "10 21 30"),
            files(1, "2-3,6-7", 100, 20, "21 10 15"),
            files(4, "", 800, 700, "30 15 10"),
        ];
        let expected = [
            node(0, &[0, 1, 4, 5], 100, 50, &[10, 21, 30]),
            node(1, &[2, 3, 6, 7], 100, 20, &[21, 10, 15]),
            node(4, &[], 800, 700, &[30, 15, 10]),
        ];
        assert_eq!(nodes("0-1,4", &machine), expected);
        // A node that cannot be read is not there, and the distances no longer say whose they are.
        let expected = [node(0, &[0, 1, 4, 5], 100, 50, &[]), node(1, &[2, 3, 6, 7], 100, 20, &[])];
        assert_eq!(nodes("0-1,4", &machine[..2]), expected);
    }

    #[test]
    fn one_node() {
        let expected = [node(0, &[0, 1], 100, 50, &[10])];
        assert_eq!(nodes("0", &[files(0, "0-1", 100, 50, "10")]), expected);
        assert_eq!(nodes("0", &[files(0, "0-1", 100, 50, "ten")]), [node(0, &[0, 1], 100, 50, &[])]);
    }

    #[test]
    fn a_machine_that_does_not_say_is_one_node() {
        let files = [
            ("proc/self/status", "Cpus_allowed_list:\t2-3\n"),
            ("proc/meminfo", "MemTotal: 100 kB\nMemAvailable: 60 kB\n"),
            ("sys/devices/system/node/online", "0\n"),
        ];
        let (_folder, host) = machine(&files);
        let expected =
            Node { id: 0, cores: vec![2, 3], total: 100 << 10, free: 60 << 10, distances: Vec::new() };
        assert_eq!(host.nodes(), [expected]);
        assert_eq!(machine(&[]).1.nodes().len(), 1);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_machine_answers() {
        let nodes = Host::this().nodes();
        assert!(nodes.iter().any(|node| !node.cores.is_empty()));
        assert!(nodes.iter().all(|node| node.free <= node.total));
    }
}
