//! Every interleaving (up to a bounded number of preemptions) of a caller and its workers.

use super::*;
use loom::cell::Cell;
use loom::model::Builder;

fn explore(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

/// A chunk's own result, which loom watches: two writers at once, or a reader before the job is over, are found.
struct Result(Cell<usize>);

// SAFETY: loom reports whoever uses it at the same time as another.
unsafe impl Sync for Result {}

/// Jobs one after the other, which borrow from the caller's stack; then the team goes.
fn jobs(size: usize, chunks: &[usize]) {
    let mut team = Team::new(size, |_| {}).unwrap();
    for &chunks in chunks {
        let results: Vec<Result> = (0..chunks).map(|_| Result(Cell::new(0))).collect();
        team.run(chunks, |worker, chunk| {
            assert!(worker < size);
            results[chunk].0.set(results[chunk].0.get() + chunk + 1);
        });
        for (chunk, result) in results.iter().enumerate() {
            assert_eq!(result.0.get(), chunk + 1, "of {chunks}");
        }
    }
}

#[test]
fn a_job_is_done_once_and_seen_by_its_caller() {
    explore(3, || jobs(2, &[2]));
}

/// The word of the second job may equal one that a worker of the first still looks at.
#[test]
fn a_late_worker_claims_of_the_job_that_is_there() {
    explore(2, || jobs(2, &[2, 2]));
}

#[test]
fn two_workers_share_a_job() {
    explore(2, || jobs(3, &[3]));
}

#[test]
fn a_sleeping_worker_is_woken_to_go() {
    explore(3, || drop(Team::new(2, |_| {}).unwrap()));
}

/// The caller takes no part here, so a worker that overslept the job would leave it undone for ever.
#[test]
fn a_sleeping_worker_is_woken_to_work() {
    explore(3, || {
        let mut team = Team::new(2, |_| {}).unwrap();
        team.announce(1, &|_, _| {});
        while team.shared.done.load(Ordering::Acquire) < 1 {
            thread::yield_now();
        }
    });
}
