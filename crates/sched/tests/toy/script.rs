//! What the toy lane is asked for: jobs, and the limits that it has.

use plimsoll_sched::{Class, Limits, QueueRule, Terms};
use proptest::prelude::*;
use std::time::Duration;

/// A request of the script.
#[derive(Debug, Clone)]
pub struct Job {
    /// Steps after the one before it.
    pub gap: usize,
    pub prompt: usize,
    /// Jobs of one family begin with the same tokens, up to the least of these.
    pub family: Option<(u32, usize)>,
    /// Further continuations of the same prompt.
    pub forks: usize,
    /// Tokens it generates before it ends by itself.
    pub output: usize,
    pub all_logits: bool,
    /// It is cancelled once it has generated this many.
    pub cancel: Option<usize>,
    /// It pauses once it has generated this many, for so many steps.
    pub pause: Option<(usize, usize)>,
    /// In steps from its arrival: its first token, its mean gap, its last token.
    pub terms: Terms,
}

fn terms() -> impl Strategy<Value = Terms> {
    let class = prop_oneof![Just(Class::Interactive), Just(Class::Standard), Just(Class::Batch)];
    let after = |steps| proptest::option::weighted(0.3, (1..steps).prop_map(Duration::from_millis));
    let terms = (class, after(60u64), after(20), after(200));
    terms.prop_map(|(class, ttft, itl, e2e)| Terms { class, ttft, itl, e2e })
}

pub fn job() -> impl Strategy<Value = Job> {
    let cancel = proptest::option::weighted(0.15, 0..6usize);
    let pause = proptest::option::weighted(0.3, (0..6usize, 1..40usize));
    let family = proptest::option::weighted(0.6, (0..3u32, 1..100usize));
    let forks = prop_oneof![3 => Just(0usize), 1 => 1..4usize];
    let size = (0..4usize, 1..90usize, 1..30usize);
    (size, family, forks, proptest::bool::weighted(0.2), cancel, pause, terms()).prop_map(
        |((gap, prompt, output), family, forks, all_logits, cancel, pause, terms)| Job {
            gap,
            prompt,
            family,
            forks,
            output,
            all_logits,
            cancel,
            pause,
            terms,
        },
    )
}

/// A job that has nothing in common with others.
pub fn loner() -> impl Strategy<Value = Job> {
    job().prop_map(|job| Job { family: None, forks: 0, terms: Terms::default(), ..job })
}

pub fn limits() -> impl Strategy<Value = Limits> {
    let park = (prop_oneof![Just(0usize), 1..40usize], prop_oneof![4 => Just(0u64), 1 => 1..20u64]);
    (1..6usize, 0..40usize, 0..10usize, 8..20usize, 1..200u64, park).prop_map(
        |(max_seqs, rows, logits, blocks, budget, (park_blocks, park_move))| Limits {
            max_seqs,
            max_rows: max_seqs + rows,
            max_logits: max_seqs + logits,
            context: 120,
            blocks,
            step_budget: Duration::from_millis(budget),
            park_blocks,
            park_move: Duration::from_millis(park_move),
            park_ahead: max_seqs % 3,
            quantile: 0.99,
            queue: QueueRule::default(),
        },
    )
}

/// The prompt of job number `i`.
pub fn prompt(i: usize, job: &Job) -> Vec<u32> {
    let (family, common) = job.family.unwrap_or((0, 0));
    let token = |at| if at < common { 1000 * family + at as u32 % 9 } else { 10_000 + (i * 100 + at) as u32 };
    (0..job.prompt).map(token).collect()
}
