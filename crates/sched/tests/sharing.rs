//! The same beginning is computed once, whoever asks and whenever.

use plimsoll_kv::{BlockHash, Chain, HashKey};
use plimsoll_sched::{Arrival, CostModel, Deadlines, Event, Limits, Plan, Planner, SeqId, Snapshot};
use std::sync::Arc;
use std::time::Duration;

struct Lane {
    planner: Planner,
    plan: Plan,
    events: Vec<Event>,
    /// Rows computed.
    rows: usize,
    /// Tokens that were not.
    shared: usize,
}

impl Lane {
    fn new(max_seqs: usize, blocks: usize) -> Self {
        let limits = Limits {
            max_seqs,
            max_rows: 256,
            max_logits: 64,
            context: 4096,
            blocks,
            step_budget: Duration::from_secs(1),
            park_blocks: 0,
            park_move: Duration::ZERO,
            park_ahead: 0,
            quantile: 0.99,
            queue: plimsoll_sched::QueueRule::default(),
        };
        let planner = Planner::new(limits, CostModel::default(), Arc::new(Snapshot::default()));
        Self { planner, plan: Plan::default(), events: Vec::new(), rows: 0, shared: 0 }
    }

    fn arrive(&mut self, seq: u64, prompt: &[u32], salt: &str, fork_of: Option<u64>) {
        self.events.push(Event::Arrived(Arrival {
            seq: SeqId(seq),
            prompt: prompt.len(),
            max_len: prompt.len() + 8,
            all_logits: false,
            names: names(prompt, salt),
            fork_of: fork_of.map(SeqId),
            deadlines: Deadlines::default(),
        }));
    }

    /// One step that goes well.
    fn step(&mut self) {
        self.planner.step(Duration::ZERO, self.events.drain(..), &mut self.plan);
        self.planner.assert_sound();
        self.rows += self.plan.spans.iter().map(|span| span.len).sum::<usize>();
        self.shared += self.plan.starts.iter().map(|start| start.shared).sum::<usize>();
        self.events.push(Event::StepDone { elapsed: Duration::from_millis(5) });
    }

    /// Steps until all have generated a token, and ends each that has.
    fn first_tokens(&mut self) {
        self.step();
        while self.planner.live() > 0 {
            let done = self.plan.spans.iter().filter(|span| span.logit_rows() == 1);
            self.events.extend(done.map(|span| Event::Finished(span.seq)));
            self.step();
        }
    }
}

fn names(tokens: &[u32], salt: &str) -> Vec<BlockHash> {
    let mut names = Vec::new();
    Chain::new(HashKey([3, 4]), 0, salt).extend(tokens, &mut names);
    names
}

/// `common` tokens that all have, then `own` ones that only number `i` has.
fn prompt(common: usize, i: u64, own: usize) -> Vec<u32> {
    (0..common as u32).chain((0..own as u32).map(|at| 10_000 * (i as u32 + 1) + at)).collect()
}

#[test]
fn a_prefix_is_computed_once_even_when_all_come_at_once() {
    for (common, own, max_seqs, blocks) in
        [(1000, 20, 16, 4096), (1000, 1, 32, 4096), (1000, 37, 4, 80), (16, 5, 8, 64), (1024, 0, 8, 200)]
    {
        let mut lane = Lane::new(max_seqs, blocks);
        for i in 0..32 {
            lane.arrive(i, &prompt(common, i, own), "", None);
        }
        lane.first_tokens();
        let most = common + 32 * (if own == 0 { 16 } else { 15 } + own);
        assert!(lane.rows <= most, "{common} common, {own} own: {} rows, not {most}", lane.rows);
        assert_eq!(lane.rows + lane.shared, 32 * (common + own));
    }
}

#[test]
fn who_waited_for_a_leader_that_leaves_goes_on_where_it_was() {
    let mut lane = Lane::new(8, 256);
    for i in 0..3 {
        lane.arrive(i, &prompt(1000, i, 4), "", None);
    }
    lane.step();
    assert_eq!(lane.plan.spans.iter().map(|s| s.seq.0).collect::<Vec<_>>(), [0]);
    lane.step();
    let computed = lane.rows;
    lane.events.push(Event::Cancelled(SeqId(0)));
    lane.first_tokens();
    assert!(lane.rows <= computed.max(1000) + 15 + 2 * (15 + 4), "{} rows", lane.rows);
}

#[test]
fn a_block_is_found_again_after_its_last_reader_left_until_its_space_is_wanted() {
    let mut lane = Lane::new(4, 64);
    lane.arrive(0, &prompt(320, 0, 3), "", None);
    lane.first_tokens();
    assert_eq!((lane.rows, lane.planner.block_counts().cached), (323, 20));
    lane.arrive(1, &prompt(320, 1, 3), "", None);
    lane.first_tokens();
    assert_eq!((lane.rows, lane.shared), (326, 320));
    // The end of the chain goes before its beginning.
    lane.planner.shed(8);
    lane.arrive(2, &prompt(320, 2, 3), "", None);
    lane.first_tokens();
    assert_eq!((lane.rows, lane.shared), (326 + 131, 320 + 192));
    lane.arrive(3, &prompt(0, 3, 900), "", None);
    lane.first_tokens();
    lane.arrive(4, &prompt(320, 4, 3), "", None);
    lane.shared = 0;
    lane.first_tokens();
    assert!(lane.shared < 192, "900 tokens fit no cache of 64 blocks beside 320");
}

#[test]
fn tenants_and_salts_share_nothing() {
    let mut lane = Lane::new(4, 64);
    for (i, salt) in ["a", "b", ""].into_iter().enumerate() {
        lane.arrive(i as u64, &prompt(160, 0, 0), salt, None);
    }
    lane.first_tokens();
    assert_eq!((lane.rows, lane.shared), (480, 0));
    let chain = |tenant| Chain::new(HashKey([3, 4]), tenant, "").block(&[1; 16]);
    assert_ne!(chain(0), chain(1));
    let keyed = |key| Chain::new(HashKey(key), 0, "").block(&[1; 16]);
    assert_ne!(keyed([0, 0]), keyed([0, 1]));
}

#[test]
fn continuations_share_their_prompt_and_copy_what_they_write_to() {
    // With and without names; the last block partly filled, full, and full but for the token that is computed.
    for len in [1, 7, 16, 17, 100, 320] {
        for named in [true, false] {
            let mut lane = Lane::new(8, 256);
            for i in 0..4 {
                lane.arrive(i, &prompt(len, 0, 0), "", (i > 0).then_some(0));
            }
            if !named {
                lane.events.iter_mut().for_each(|event| {
                    if let Event::Arrived(arrival) = event {
                        arrival.names.clear();
                    }
                });
            }
            lane.step();
            while lane.plan.spans.len() < 4 {
                lane.step();
            }
            let counts = lane.planner.block_counts();
            assert_eq!(counts.shared, (len - 1) / 16, "{len} tokens");
            let copies = lane.plan.moves.copies.len();
            assert_eq!(copies, if (len - 1) % 16 == 0 { 0 } else { 3 }, "{len} tokens");
            lane.first_tokens();
            assert_eq!(lane.shared, 3 * (len - 1), "{len} tokens");
        }
    }
}
