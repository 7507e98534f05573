//! The rings against toy models, one operation after the other.
#![cfg(not(loom))]

use std::collections::VecDeque;

use plimsoll_ring::{Level, Overflow, Pressure, Pushed, Ring, bytes, spsc};
use proptest::prelude::*;

fn config() -> ProptestConfig {
    let cases = if cfg!(miri) { 3 } else { 256 };
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

#[derive(Debug, Clone)]
enum Mpmc {
    Push(Overflow),
    Pop,
}

fn mpmc() -> impl Strategy<Value = Mpmc> {
    prop_oneof![
        2 => Just(Mpmc::Push(Overflow::Reject)),
        1 => Just(Mpmc::Push(Overflow::EvictOldest)),
        2 => Just(Mpmc::Pop),
    ]
}

#[derive(Debug, Clone)]
enum Spsc {
    Push,
    PushQuietly,
    PushBatch(usize),
    Pop,
    /// Up to so many, of which the caller takes so many.
    Drain(usize, usize),
    ForgetDrain(usize),
}

fn spsc_operation() -> impl Strategy<Value = Spsc> {
    prop_oneof![
        Just(Spsc::Push),
        Just(Spsc::PushQuietly),
        (0..6_usize).prop_map(Spsc::PushBatch),
        Just(Spsc::Pop),
        (0..6_usize, 0..6_usize).prop_map(|(max, taken)| Spsc::Drain(max, taken)),
        (0..3_usize).prop_map(Spsc::ForgetDrain),
    ]
}

#[derive(Debug, Clone)]
enum Frames {
    /// Granted bytes, and how many less are used.
    Commit(usize, usize),
    Abandon(usize),
    Read,
    Release,
}

fn frames() -> impl Strategy<Value = Frames> {
    prop_oneof![
        3 => (0..60_usize, 0..20_usize).prop_map(|(len, unused)| Frames::Commit(len, unused)),
        1 => (0..60_usize).prop_map(Frames::Abandon),
        1 => Just(Frames::Read),
        2 => Just(Frames::Release),
    ]
}

const BLOCK: usize = 128;

/// Frames and the bytes of block they take, the skipped end before them included.
#[derive(Default)]
struct FrameModel {
    frames: VecDeque<(Vec<u8>, usize)>,
    tail: usize,
}

impl FrameModel {
    /// What is skipped before a frame of `len` bytes, or `None` when there is no room for it.
    fn skipped(&self, len: usize) -> Option<usize> {
        let to_end = BLOCK - self.tail % BLOCK;
        let skipped = if Self::framed(len) > to_end { to_end } else { 0 };
        let free = BLOCK - self.frames.iter().map(|(_, taken)| taken).sum::<usize>();
        (skipped + Self::framed(len) <= free).then_some(skipped)
    }

    fn commit(&mut self, frame: Vec<u8>, skipped: usize) {
        let taken = skipped + Self::framed(frame.len());
        self.tail += taken;
        self.frames.push_back((frame, taken));
    }

    fn framed(len: usize) -> usize {
        8 + len.next_multiple_of(8)
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn ring_is_a_queue(capacity in 1..9_usize, operations in prop::collection::vec(mpmc(), 0..80)) {
        let ring = Ring::new(capacity);
        let mut model = VecDeque::new();
        prop_assert_eq!(ring.capacity(), capacity.next_power_of_two());
        let (mut pushed, mut popped) = (0, 0);
        for (index, operation) in operations.into_iter().enumerate() {
            let item = Box::new(index);
            let is_full = model.len() == ring.capacity();
            match operation {
                Mpmc::Push(overflow) => {
                    let expected = match overflow {
                        _ if !is_full => Pushed::Stored,
                        Overflow::EvictOldest => Pushed::Evicted(model.pop_front().expect("full")),
                        _ => Pushed::Rejected(item.clone()),
                    };
                    if !matches!(expected, Pushed::Rejected(_)) {
                        model.push_back(item.clone());
                        pushed += 1;
                    }
                    popped += u64::from(matches!(expected, Pushed::Evicted(_)));
                    prop_assert_eq!(ring.push(item, overflow), expected);
                }
                Mpmc::Pop => {
                    popped += u64::from(!model.is_empty());
                    prop_assert_eq!(ring.try_pop(), model.pop_front());
                }
            }
            prop_assert_eq!((ring.len(), ring.is_empty()), (model.len(), model.is_empty()));
            prop_assert_eq!(ring.is_full(), model.len() == ring.capacity());
            prop_assert_eq!((ring.pushed(), ring.popped()), (pushed, popped));
        }
    }

    #[test]
    fn spsc_is_a_queue(capacity in 1..9_usize, operations in prop::collection::vec(spsc_operation(), 0..80)) {
        let (mut producer, mut consumer) = spsc::ring(capacity);
        let capacity = capacity.next_power_of_two();
        let mut model = VecDeque::new();
        // Room that a forgotten drain has not given back.
        let mut withheld = 0;
        for (index, operation) in operations.into_iter().enumerate() {
            let item = Box::new(index);
            let free = capacity - model.len() - withheld;
            match operation {
                Spsc::Push | Spsc::PushQuietly => {
                    let result = match operation {
                        Spsc::Push => producer.try_push(item.clone()),
                        _ => producer.try_push_quietly(item.clone()),
                    };
                    prop_assert_eq!(result.is_ok(), free > 0);
                    model.extend(result.is_ok().then_some(item));
                }
                Spsc::PushBatch(count) => {
                    let mut items = (0..count).map(|_| item.clone());
                    prop_assert_eq!(producer.push_batch(&mut items), count.min(free));
                    prop_assert_eq!(items.len(), count.saturating_sub(free));
                    model.extend((0..count.min(free)).map(|_| item.clone()));
                }
                Spsc::Pop => {
                    withheld = if model.is_empty() { withheld } else { 0 };
                    prop_assert_eq!(consumer.try_pop(), model.pop_front());
                }
                Spsc::Drain(max, taken) => {
                    let expected: Vec<_> = model.drain(..max.min(taken).min(model.len())).collect();
                    prop_assert_eq!(consumer.drain(max).take(taken).collect::<Vec<_>>(), expected);
                    withheld = 0;
                }
                Spsc::ForgetDrain(taken) => {
                    let expected: Vec<_> = model.drain(..taken.min(model.len())).collect();
                    withheld += expected.len();
                    let mut drain = consumer.drain(capacity);
                    prop_assert_eq!(drain.by_ref().take(taken).collect::<Vec<_>>(), expected);
                    std::mem::forget(drain);
                }
            }
            prop_assert_eq!((consumer.len(), consumer.is_empty()), (model.len(), model.is_empty()));
            prop_assert_eq!((producer.free(), producer.len()), (capacity - model.len() - withheld, model.len() + withheld));
        }
    }

    #[test]
    fn slots_are_a_queue_and_keep_their_memory(operations in prop::collection::vec(any::<bool>(), 0..80)) {
        let (mut writer, mut reader) = spsc::slots(4, || Vec::with_capacity(8));
        let mut model = VecDeque::new();
        for (index, is_write) in operations.into_iter().enumerate() {
            if is_write {
                let written = writer.write(|slot: &mut Vec<usize>| {
                    slot.clear();
                    slot.push(index);
                    slot.capacity()
                });
                prop_assert_eq!(written, (model.len() < 4).then_some(8));
                model.extend(written.map(|_| index));
            } else {
                prop_assert_eq!(reader.read(|slot| slot[0]), model.pop_front());
            }
            prop_assert_eq!((reader.len(), writer.free()), (model.len(), 4 - model.len()));
        }
    }

    #[test]
    fn byte_ring_is_a_queue_of_frames(operations in prop::collection::vec(frames(), 0..120)) {
        let (mut writer, mut reader) = bytes::ring(BLOCK);
        let mut model = FrameModel::default();
        prop_assert_eq!(writer.max_frame(), 56);
        for (index, operation) in operations.into_iter().enumerate() {
            match operation {
                Frames::Commit(len, _) | Frames::Abandon(len) if len > 56 => {
                    prop_assert_eq!(writer.grant(len).err(), Some(bytes::Refused::TooLong));
                }
                Frames::Commit(len, unused) => match (writer.grant(len), model.skipped(len)) {
                    (Ok(mut grant), Some(skipped)) => {
                        prop_assert_eq!((grant.len(), grant.as_ptr().addr() % 8), (len, 0));
                        grant.fill(index as u8);
                        let used = len.saturating_sub(unused);
                        grant.commit(used);
                        model.commit(vec![index as u8; used], skipped);
                    }
                    (granted, skipped) => {
                        prop_assert_eq!((granted.err(), skipped), (Some(bytes::Refused::Full), None));
                    }
                },
                Frames::Abandon(len) => {
                    if let Ok(mut grant) = writer.grant(len) {
                        grant.fill(0xee);
                    }
                }
                Frames::Read => {
                    let frame = reader.read();
                    prop_assert_eq!(frame.as_deref(), model.frames.front().map(|(frame, _)| frame.as_slice()));
                }
                Frames::Release => {
                    let expected = model.frames.pop_front().map(|(frame, _)| frame);
                    let frame = reader.read();
                    prop_assert_eq!(frame.as_deref(), expected.as_deref());
                    if let Some(frame) = frame {
                        frame.release();
                    }
                }
            }
        }
    }

    #[test]
    fn pressure_has_hysteresis(depths in prop::collection::vec(0..10_usize, 0..60)) {
        let pressure = Pressure::new(3, 7);
        let mut model = Level::Low;
        for depth in depths {
            let next = match depth {
                0..=3 => Level::Low,
                7.. => Level::High,
                _ => model,
            };
            prop_assert_eq!(pressure.observe(depth), (next != model).then_some(next));
            prop_assert_eq!(pressure.level(), next);
            model = next;
        }
    }
}

#[test]
#[should_panic(expected = "a ring needs room for at least one item")]
fn a_ring_without_room_is_refused() {
    Ring::<u8>::new(0);
}

#[test]
fn what_is_left_is_dropped_once() {
    let counted = std::sync::Arc::new(());
    let item = || std::sync::Arc::clone(&counted);
    let check = |left: usize| assert_eq!(std::sync::Arc::strong_count(&counted), left + 1);

    let ring = Ring::new(4);
    (0..3).for_each(|_| drop(ring.push(item(), Overflow::Reject)));
    drop(ring.try_pop());
    check(2);
    drop(ring);
    check(0);

    let (mut producer, mut consumer) = spsc::ring(4);
    assert_eq!(producer.push_batch((0..4).map(|_| item())), 4);
    let mut drain = consumer.drain(4);
    drop(drain.next());
    std::mem::forget(drain);
    check(3);
    drop((producer, consumer));
    check(0);
}

#[test]
fn a_batch_whose_iterator_panics_is_published_so_far() {
    let (mut producer, mut consumer) = spsc::ring(4);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        producer.push_batch((0..3).map(|item| if item == 2 { panic!("half-way") } else { item }))
    }));
    assert!(panicked.is_err());
    assert_eq!(consumer.drain(4).collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn a_ring_that_is_opened_again_is_as_good_as_new() {
    let counted = std::sync::Arc::new(());
    let (mut producer, mut consumer) = spsc::ring(4);
    for round in 0..10 {
        for _ in 0..round % 5 {
            assert!(producer.try_push(counted.clone()).is_ok());
        }
        if round % 2 == 0 {
            consumer.try_pop();
        }
        producer.close();
        assert!(consumer.is_abandoned());
        producer.reopen(&mut consumer);
        assert!(!consumer.is_abandoned() && consumer.is_empty() && producer.free() == 4, "round {round}");
        assert_eq!(std::sync::Arc::strong_count(&counted), 1, "what was not read is still there");
    }
}
