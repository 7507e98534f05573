//! The watch over memory, on a made-up machine.
#![allow(clippy::unwrap_used, reason = "all of it is test")]

mod common;

use common::{Bench, config, request, script};
use plimsoll_api::error::Reason;
use plimsoll_host::Host;
use plimsoll_pool::governor::{Level, Policy};
use plimsoll_runtime::{MemoryConfig, MemoryWatch, Remedies};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A control group of 10,000 bytes on a machine with more.
struct Machine(tempfile::TempDir);

impl Machine {
    fn new(used: u64) -> Self {
        let machine = Self(tempfile::tempdir().unwrap());
        machine.write("proc/meminfo", "MemTotal: 100000 kB\nMemAvailable: 90000 kB\n");
        machine.write("proc/self/cgroup", "0::/a\n");
        machine.write("sys/fs/cgroup/a/memory.max", "10000\n");
        machine.set_used(used);
        machine
    }

    fn set_used(&self, used: u64) {
        self.write("sys/fs/cgroup/a/memory.current", &format!("{used}\n"));
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        // Beside and renamed: the watch never reads half of it.
        let beside = path.with_extension("part");
        std::fs::write(&beside, text).unwrap();
        std::fs::rename(&beside, &path).unwrap();
    }

    fn host(&self) -> Host {
        Host::at(Path::new(self.0.path()))
    }
}

/// Reads all the time and waits for nothing.
fn eager() -> MemoryConfig {
    let [hold, grace, purge_every] = [Duration::ZERO; 3];
    MemoryConfig {
        policy: Policy { hold, grace, purge_every, ..Policy::default() },
        period: Duration::from_millis(1),
        limit: None,
    }
}

const LEVEL: &str = "plimsoll_memory_level";

async fn until(bench: &Bench, gauge: &str, is_it: impl Fn(f64) -> bool) {
    while !is_it(bench.gauge(gauge)) {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn nobody_is_let_in_while_memory_is_very_short() {
    let (bench, machine) = (Bench::new(script(), config()), Machine::new(1_000));
    let (purges, levels) = (Arc::<AtomicUsize>::default(), Arc::<Mutex<Vec<Level>>>::default());
    let (purged, seen) = (purges.clone(), levels.clone());
    let remedies = Remedies {
        purge: Box::new(move || {
            purged.fetch_add(1, SeqCst);
        }),
        level: Box::new(move |level| seen.lock().unwrap().push(level)),
    };
    let watch = MemoryWatch::start(&bench.runtime, machine.host(), eager(), remedies).unwrap();
    assert!(bench.run(request("before", 3)).await.is_ok());
    machine.set_used(9_900);
    until(&bench, LEVEL, |level| level == 2.0).await;
    let error = bench.start(request("now", 3)).await.err().unwrap();
    assert_eq!(error.reason, Reason::Memory);
    assert!(error.retry_after.is_some());
    machine.set_used(1_000);
    until(&bench, LEVEL, |level| level == 0.0).await;
    assert!(bench.run(request("after", 3)).await.is_ok());
    assert_eq!(*levels.lock().unwrap(), [Level::Shed, Level::Refuse, Level::Shed, Level::Normal]);
    assert!(purges.load(SeqCst) > 0);
    // A watch that ends leaves the gate open.
    machine.set_used(9_900);
    until(&bench, LEVEL, |level| level == 2.0).await;
    drop(watch);
    assert!(bench.run(request("later", 3)).await.is_ok());
    bench.assert_nothing_left();
}

#[tokio::test]
async fn what_lanes_keep_is_given_back_and_computed_anew() {
    let cached = "plimsoll_kv_blocks{model=\"scripted\",state=\"cached\"}";
    let (bench, machine) = (Bench::new(script(), config()), Machine::new(1_000));
    let _watch = MemoryWatch::start(&bench.runtime, machine.host(), eager(), Remedies::default()).unwrap();
    let prompt =
        "the same beginning of a text that takes several blocks of tokens, and so is kept for the next one";
    let expected = bench.alone(prompt, 40);
    assert_eq!(bench.run(request(prompt, 40)).await.unwrap().texts[0], expected);
    // Kept when the lane has heard that the request is over: after its reader.
    until(&bench, cached, |blocks| blocks > 0.0).await;
    machine.set_used(9_000);
    until(&bench, cached, |blocks| blocks == 0.0).await;
    assert_eq!(bench.run(request(prompt, 40)).await.unwrap().texts, [expected]);
    bench.assert_nothing_left();
}
