//! `Blocks` against a toy model: a list of holdings.

use plimsoll_kv::{Blocks, Counts, blocks_for};
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Op {
    Allocate,
    AllocateInto(usize),
    Retain(usize),
    Release(usize),
    Cool(usize),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        Just(Op::Allocate),
        (0..5usize).prop_map(Op::AllocateInto),
        any::<usize>().prop_map(Op::Retain),
        any::<usize>().prop_map(Op::Release),
        any::<usize>().prop_map(Op::Release),
        (0..5usize).prop_map(Op::Cool),
    ]
}

/// Applies `op` to the ledger, to `held`, one entry per holding, and to `warm`, the free blocks that were written to.
fn apply(op: &Op, blocks: &mut Blocks, held: &mut Vec<u32>, warm: &mut Vec<u32>) {
    let (free, before) = (blocks.free(), held.clone());
    match *op {
        Op::Allocate => match blocks.allocate() {
            Some(block) => {
                assert!(!held.contains(&block));
                held.push(block);
            }
            None => assert_eq!(free, 0),
        },
        Op::AllocateInto(count) => {
            assert_eq!(blocks.allocate_into(count, held), free >= count);
            assert!(held.len() == before.len() || held.len() == before.len() + count);
        }
        Op::Retain(i) if !held.is_empty() => {
            let block = held[i % held.len()];
            blocks.retain(block);
            held.push(block);
        }
        Op::Release(i) if !held.is_empty() => {
            let block = held.swap_remove(i % held.len());
            assert_eq!(blocks.release(block), !held.contains(&block));
        }
        Op::Cool(count) => {
            let cooled = blocks.cool(count);
            assert_eq!(cooled.len(), count.min(warm.len()));
            assert!(cooled.iter().all(|block| warm.contains(block)), "{cooled:?} of {warm:?}");
            warm.retain(|block| !cooled.contains(block));
        }
        Op::Retain(_) | Op::Release(_) => {}
    }
    let taken = held.iter().filter(|block| !before.contains(block)).count();
    let were_warm = held.iter().filter(|block| warm.contains(block)).count();
    assert_eq!(were_warm, taken.min(warm.len()), "warm blocks are handed out first");
    warm.retain(|block| !held.contains(block));
    warm.extend(before.iter().filter(|block| !held.contains(block)));
}

proptest! {
    #[test]
    fn agrees_with_a_list_of_holdings(count in 0..20usize, ops in proptest::collection::vec(op(), 0..200)) {
        let mut blocks = Blocks::new(count);
        let (mut held, mut warm) = (Vec::new(), Vec::new());
        for op in &ops {
            apply(op, &mut blocks, &mut held, &mut warm);
            blocks.assert_balance(held.iter().copied());
            let Counts { free, cached, owned, shared } = blocks.counts();
            prop_assert_eq!((free + owned + shared, cached), (count, 0));
            prop_assert_eq!(blocks.warm(), warm.len());
        }
        for block in held.drain(..) {
            blocks.release(block);
        }
        prop_assert_eq!(blocks.free(), count);
    }
}

#[test]
fn blocks_for_rounds_up() {
    for (tokens, blocks) in [(0, 0), (1, 1), (16, 1), (17, 2), (160, 10)] {
        assert_eq!(blocks_for(tokens), blocks, "{tokens} tokens");
    }
}

#[test]
#[should_panic(expected = "released twice")]
fn a_double_release_is_caught() {
    let mut blocks = Blocks::new(1);
    let block = blocks.allocate().unwrap();
    blocks.release(block);
    blocks.release(block);
}
