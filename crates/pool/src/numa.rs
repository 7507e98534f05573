//! On which node of the machine a buffer should lie: near the core that uses it, if there is room. Pure: the nodes are
//! values (`plimsoll-host` reads them). A machine that is not divided is one node, and every answer is that node.

/// Cores, and memory that they reach fastest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// The system's number.
    pub id: usize,
    /// Its cores; none when it is memory alone.
    pub cores: Vec<usize>,
    /// Bytes that can be had there.
    pub free: u64,
    /// How far each node is, in the order of the nodes; 10 is the node itself. Nodes that are not named are 20 away.
    pub distances: Vec<u32>,
}

/// The nodes of a machine, and what was placed on them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    nodes: Vec<Node>,
}

/// The distance of a node to itself, by the ACPI table that Linux reports.
const LOCAL: u32 = 10;
const REMOTE: u32 = 20;

impl Topology {
    /// A machine of these nodes.
    ///
    /// # Panics
    /// When there are none.
    pub fn new(nodes: Vec<Node>) -> Self {
        assert!(!nodes.is_empty(), "a machine has at least one node");
        Self { nodes }
    }

    /// The nodes; their free memory is less by what was placed.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The node that `core` belongs to; the first one when none claims it.
    pub fn node_of(&self, core: usize) -> &Node {
        &self.nodes[self.home(core)]
    }

    fn home(&self, core: usize) -> usize {
        self.nodes.iter().position(|node| node.cores.contains(&core)).unwrap_or(0)
    }

    fn distance(&self, from: usize, to: usize) -> u32 {
        let default = if from == to { LOCAL } else { REMOTE };
        self.nodes[from].distances.get(to).copied().filter(|far| *far > 0).unwrap_or(default)
    }

    /// Places `bytes` that `core` uses and returns the id of the node: the core's own if it has room; otherwise, of the
    /// nodes that have, the one with the most free memory for its distance. When none has room the same without that
    /// condition: a slow page is better than none.
    pub fn place(&mut self, core: usize, bytes: u64) -> usize {
        let home = self.home(core);
        let weight = |at: usize| self.nodes[at].free as f64 / f64::from(self.distance(home, at));
        let has_room = |at: usize| self.nodes[at].free >= bytes;
        let best = |candidates: &mut dyn Iterator<Item = usize>| {
            // The nearest, then the lowest, of equals.
            let key = |at: &usize| (std::cmp::Reverse(self.distance(home, *at)), std::cmp::Reverse(*at));
            candidates.max_by(|a, b| weight(*a).total_cmp(&weight(*b)).then_with(|| key(a).cmp(&key(b))))
        };
        let mut all = 0..self.nodes.len();
        let chosen = if has_room(home) {
            home
        } else {
            best(&mut all.clone().filter(|at| has_room(*at))).or_else(|| best(&mut all)).unwrap_or(home)
        };
        self.take(chosen, bytes)
    }

    /// Places `bytes` that all of `cores` use, a share of them for each core, and returns `(node id, bytes)` in the order of
    /// the nodes: shares that need not move once work is dealt out by core.
    pub fn spread(&mut self, cores: &[usize], bytes: u64) -> Vec<(usize, u64)> {
        let mut shares = vec![0; self.nodes.len()];
        let count = cores.len().max(1) as u64;
        for (at, core) in (0..count).zip(cores.iter().copied().chain(std::iter::repeat(0))) {
            // Whole bytes that add up: share n goes from n/count to (n+1)/count.
            let until = |n: u64| (u128::from(bytes) * u128::from(n) / u128::from(count)) as u64;
            let share = until(at + 1) - until(at);
            let id = self.place(core, share);
            shares[self.nodes.iter().position(|node| node.id == id).unwrap_or(0)] += share;
        }
        let ids = self.nodes.iter().map(|node| node.id);
        ids.zip(shares).filter(|(_, share)| *share > 0).collect()
    }

    fn take(&mut self, at: usize, bytes: u64) -> usize {
        let node = &mut self.nodes[at];
        node.free = node.free.saturating_sub(bytes);
        node.id
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn node(id: usize, cores: &[usize], free: u64, distances: &[u32]) -> Node {
        Node { id, cores: cores.to_vec(), free, distances: distances.to_vec() }
    }

    /// Two sockets, and memory without cores behind the second.
    fn three() -> Topology {
        Topology::new(vec![
            node(0, &[0, 1, 4, 5], 100, &[10, 21, 30]),
            node(1, &[2, 3, 6, 7], 50, &[21, 10, 15]),
            node(4, &[], 1000, &[30, 15, 10]),
        ])
    }

    #[test]
    fn near_while_there_is_room() {
        for (core, bytes, expected) in [
            (0, 100, 0),
            (5, 1, 0),
            (2, 50, 1),
            // Not at home: 1000/30 is more than 50/21.
            (0, 101, 4),
            (2, 51, 4),
            // Nowhere: the best for its distance.
            (0, 5000, 4),
            // A core that no node claims.
            (99, 1, 0),
        ] {
            assert_eq!(three().place(core, bytes), expected, "{bytes} for core {core}");
        }
    }

    #[test]
    fn far_memory_weighs_less() {
        let nodes = |far| {
            Topology::new(vec![
                node(0, &[0], 0, &[10, 20, far]),
                node(1, &[], 60, &[]),
                node(2, &[], 90, &[]),
            ])
        };
        assert_eq!(nodes(25).place(0, 50), 2);
        assert_eq!(nodes(40).place(0, 50), 1);
        // 60/20 is 90/30: the nearer one.
        assert_eq!(nodes(30).place(0, 50), 1);
    }

    #[test]
    fn what_was_placed_is_no_longer_free() {
        let mut machine = three();
        let placed = [60, 60, 30, 60].map(|bytes| machine.place(1, bytes));
        assert_eq!(placed, [0, 4, 0, 4]);
        assert_eq!(machine.nodes().iter().map(|node| node.free).collect::<Vec<_>>(), [10, 50, 880]);
    }

    #[test]
    fn a_buffer_of_all_cores_has_shares() {
        assert_eq!(three().spread(&[0, 1, 2, 3], 80), [(0, 40), (1, 40)]);
        assert_eq!(three().spread(&[0, 1, 2], 10), [(0, 6), (1, 4)]);
        assert_eq!(three().spread(&[2, 3], 120), [(4, 120)]);
        assert_eq!(three().spread(&[], 7), [(0, 7)]);
        let mut one = Topology::new(vec![node(0, &[0, 1], 10, &[10])]);
        assert_eq!((one.spread(&[0, 1, 9], 1000), one.place(7, 5)), (vec![(0, 1000)], 0));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 256 }, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn nothing_is_lost_and_home_comes_first(
            free in prop::collection::vec(0..100_u64, 1..5),
            wanted in prop::collection::vec((0..8_usize, 0..60_u64), 0..20),
        ) {
            let nodes = free.iter().enumerate().map(|(id, free)| node(id, &[2 * id, 2 * id + 1], *free, &[]));
            let mut machine = Topology::new(nodes.collect());
            for (core, bytes) in wanted {
                let before = machine.clone();
                let shares = machine.clone().spread(&[core, core + 1], bytes);
                prop_assert_eq!(shares.iter().map(|(_, share)| share).sum::<u64>(), bytes);
                let id = machine.place(core, bytes);
                let home = before.node_of(core);
                prop_assert!(id == home.id || home.free < bytes);
                let fits = before.nodes().iter().any(|node| node.free >= bytes);
                prop_assert!(!fits || before.nodes()[id].free >= bytes, "some node has room, so the chosen one does");
            }
        }
    }
}
