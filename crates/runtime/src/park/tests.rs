//! The store against a map, on disks that work, fill up and fail.

use super::stager::Medium;
use super::{Sizes, Store};
use crate::bell::Bell;
use plimsoll_sched::{Event, SeqId};
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

const BLOCK: usize = 8;

/// A disk of so many bytes, which reads or writes so often before it fails.
#[derive(Clone)]
struct Disk {
    bytes: Arc<Mutex<Vec<u8>>>,
    reads: Arc<AtomicUsize>,
    writes: Arc<AtomicUsize>,
    /// It panics instead.
    panics: bool,
}

impl Disk {
    fn new(bytes: usize) -> Self {
        let often = || Arc::new(AtomicUsize::new(usize::MAX));
        Self { bytes: Arc::new(Mutex::new(vec![0; bytes])), reads: often(), writes: often(), panics: false }
    }
}

fn spend(left: &AtomicUsize, panics: bool) -> io::Result<()> {
    match left.load(SeqCst) {
        0 if panics => panic!("the test says to panic here"),
        0 => Err(io::Error::other("the test says to fail here")),
        n => {
            left.store(n - 1, SeqCst);
            Ok(())
        }
    }
}

impl Medium for Disk {
    fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        spend(&self.writes, self.panics)?;
        let offset = offset as usize;
        let mut disk = self.bytes.lock().unwrap();
        let place = disk.get_mut(offset..offset + bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
        place.copy_from_slice(bytes);
        Ok(())
    }

    fn read(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        spend(&self.reads, self.panics)?;
        let offset = offset as usize;
        bytes.copy_from_slice(&self.bytes.lock().unwrap()[offset..offset + bytes.len()]);
        Ok(())
    }
}

fn store(memory: usize, file: usize, disk: Option<&Disk>) -> Store {
    let medium = disk.map(|disk| Box::new(disk.clone()) as Box<dyn Medium>);
    Store::new(Sizes { block: BLOCK, memory, file }, medium, Arc::new(Bell::default())).unwrap()
}

fn save(store: &Store, slot: u32, value: u8) -> bool {
    store.save(slot, |bytes| bytes.fill(value))
}

/// What is in a slot, if it is in memory.
fn peek(store: &Store, slot: u32) -> Option<u8> {
    let mut value = None;
    store.load(slot, |bytes| {
        assert!(bytes.len() == BLOCK && bytes.iter().all(|&byte| byte == bytes[0]));
        value = Some(bytes[0]);
    });
    value
}

/// Saves a block, waiting for the stager to make room.
fn save_patiently(store: &Store, slot: u32, value: u8) {
    while !save(store, slot, value) {
        std::thread::yield_now();
    }
}

/// The answer to a fetch.
fn fetch(store: &Store, seq: u64, slots: &[u32]) -> Event {
    let mut events = Vec::new();
    store.fetch(SeqId(seq), slots);
    while events.is_empty() {
        std::thread::yield_now();
        store.news(&mut events);
    }
    assert_eq!(events.len(), 1);
    events.remove(0)
}

#[test]
fn memory_alone_keeps_what_fits() {
    let store = store(3, 0, None);
    for slot in 0..3 {
        assert!(save(&store, slot, slot as u8 + 1));
    }
    assert!(!save(&store, 1, 9) || peek(&store, 1) == Some(9), "a slot may be written again");
    store.discard(0);
    assert_eq!((peek(&store, 0), store.used()), (None, (2, 0)));
    assert_eq!(fetch(&store, 1, &[1, 2]), Event::Fetched(SeqId(1)));
    assert_eq!(fetch(&store, 2, &[0, 2]), Event::ParkLost(SeqId(2)));
    assert_eq!(peek(&store, 2), Some(3));
    assert!(save(&store, 0, 7));
    assert_eq!(store.used(), (3, 0));
}

#[test]
fn what_memory_has_no_room_for_goes_to_the_file_and_comes_back() {
    let disk = Disk::new(100 * BLOCK);
    let store = store(4, 40, Some(&disk));
    for round in 0..3 {
        for slot in 0..40 {
            save_patiently(&store, slot, slot as u8 + round);
        }
        for seq in 0..20_u32 {
            let slots = [seq, 39 - seq];
            assert_eq!(fetch(&store, seq.into(), &slots), Event::Fetched(SeqId(seq.into())));
            assert_eq!(slots.map(|slot| peek(&store, slot)), slots.map(|slot| Some(slot as u8 + round)));
            store.release(SeqId(seq.into()));
        }
    }
    (0..40).for_each(|slot| store.discard(slot));
    // The stager may have one in its hands still.
    while store.used() != (0, 0) {
        std::thread::yield_now();
    }
}

#[test]
fn a_store_that_was_cleared_is_as_a_new_one() {
    let disk = Disk::new(100 * BLOCK);
    let store = store(4, 40, Some(&disk));
    for round in 0..3 {
        (0..40).for_each(|slot| save_patiently(&store, slot, slot as u8 + round));
        assert_eq!(fetch(&store, 1, &[0, 1]), Event::Fetched(SeqId(1)));
        store.fetch(SeqId(2), &[20, 30]);
        store.clear();
        assert_eq!(fetch(&store, 3, &[0]), Event::ParkLost(SeqId(3)));
        // The stager may have one in its hands still.
        while store.used() != (0, 0) {
            std::thread::yield_now();
        }
        // What was kept in memory for the first one would leave no room.
        (0..40).for_each(|slot| save_patiently(&store, slot, slot as u8));
        store.clear();
    }
}

#[test]
fn what_is_fetched_stays_in_memory_until_it_is_released() {
    let disk = Disk::new(100 * BLOCK);
    let store = store(4, 40, Some(&disk));
    (0..10).for_each(|slot| save_patiently(&store, slot, slot as u8));
    assert_eq!(fetch(&store, 1, &[0, 1, 2]), Event::Fetched(SeqId(1)));
    (10..20).for_each(|slot| save_patiently(&store, slot, slot as u8));
    assert_eq!([0, 1, 2].map(|slot| peek(&store, slot)), [Some(0), Some(1), Some(2)]);
    // More than memory has room for beside them.
    assert_eq!(fetch(&store, 2, &[5, 6]), Event::ParkLost(SeqId(2)));
    store.release(SeqId(1));
    assert_eq!(fetch(&store, 2, &[5, 6]), Event::Fetched(SeqId(2)));
}

#[test]
fn a_full_or_failing_disk_loses_only_what_it_should_have_kept() {
    // Two blocks fit.
    let disk = Disk::new(2 * BLOCK);
    let full = store(4, 40, Some(&disk));
    let saved: Vec<_> = (0..20).filter(|&slot| save(&full, slot, slot as u8)).collect();
    assert!(saved.len() >= 4);
    for &slot in &saved {
        assert_eq!(fetch(&full, 1, &[slot]), Event::Fetched(SeqId(1)), "slot {slot}");
        assert_eq!(peek(&full, slot), Some(slot as u8));
    }
    cannot_be_read(false);
}

#[test]
fn a_disk_that_panics_is_one_that_fails() {
    cannot_be_read(true);
    // Nor be written: what memory has room for is kept all the same.
    let disk = Disk { panics: true, ..Disk::new(100 * BLOCK) };
    disk.writes.store(0, SeqCst);
    let unwritten = store(4, 40, Some(&disk));
    let saved: Vec<_> = (0..20).filter(|&slot| save(&unwritten, slot, slot as u8)).collect();
    for &slot in &saved {
        assert_eq!(fetch(&unwritten, 1, &[slot]), Event::Fetched(SeqId(1)), "slot {slot}");
    }
    assert_eq!(saved.len(), 4);
}

fn cannot_be_read(panics: bool) {
    let disk = Disk { panics, ..Disk::new(100 * BLOCK) };
    let failing = store(4, 40, Some(&disk));
    (0..10).for_each(|slot| save_patiently(&failing, slot, slot as u8));
    disk.reads.store(0, SeqCst);
    // Until then the stager goes on making room.
    while 4 * failing.used().0 > 3 * 4 {
        std::thread::yield_now();
    }
    let in_memory = (0..10).find(|&slot| peek(&failing, slot).is_some()).unwrap();
    let in_file = (0..10).find(|&slot| peek(&failing, slot).is_none()).unwrap();
    assert_eq!(fetch(&failing, 1, &[in_memory, in_file]), Event::ParkLost(SeqId(1)));
    assert_eq!(peek(&failing, in_memory), Some(in_memory as u8));
    // Others notice nothing, and it can be asked for anew.
    assert_eq!(fetch(&failing, 2, &[in_memory]), Event::Fetched(SeqId(2)));
    disk.reads.store(usize::MAX, SeqCst);
    assert_eq!(fetch(&failing, 1, &[in_memory, in_file]), Event::Fetched(SeqId(1)));
    assert_eq!(peek(&failing, in_file), Some(in_file as u8));
}

#[test]
fn the_file_is_gone_when_the_store_is_and_before() {
    let folder = tempfile::tempdir().unwrap();
    let sizes = Sizes { block: BLOCK, memory: 2, file: 20 };
    let store = Store::open(sizes, Some(folder.path()), Arc::default()).unwrap();
    (0..10).for_each(|slot| save_patiently(&store, slot, slot as u8));
    assert_eq!(fetch(&store, 1, &[0]), Event::Fetched(SeqId(1)));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "kill -9 would leave a file behind");
    let missing = folder.path().join("missing");
    assert!(Store::open(sizes, Some(&missing), Arc::default()).is_err());
}

#[test]
fn a_panic_while_saving_costs_no_room() {
    let store = store(1, 0, None);
    let saving = || store.save(0, |_| panic!("the test says to fail here"));
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(saving)).is_err());
    assert_eq!(store.used(), (0, 0));
    assert!(save(&store, 0, 7));
    assert_eq!(peek(&store, 0), Some(7));
}
