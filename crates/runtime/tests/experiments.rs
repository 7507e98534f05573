//! Experiments on a lane with a scripted engine: arms are truly in force, and what becomes of requests is counted.

mod common;

use common::{Bench, MODEL, config, request};
use plimsoll_api::service::{GenerateRequest, Priority, Service, Urgency};
use plimsoll_runtime::{Arm, Design, Experiment, LaneConfig, Measure, Promise, QueuePolicy, Unit, Vary};
use plimsoll_trial::{Report, arm_of};
use std::time::Duration;

fn experiment(vary: Vary) -> Experiment {
    let arm = |name: &str| Arm { name: name.into(), weight: 1 };
    let design = Design {
        name: "e".into(),
        arms: vec![arm("a"), arm("b")],
        unit: vary.unit(),
        measure: Measure::InPromise,
        seed: 1,
        block: Duration::from_millis(100),
        wash_out: Duration::ZERO,
        keep: 4096,
    };
    Experiment { design, vary }
}

fn lane(vary: Vary) -> LaneConfig {
    LaneConfig { experiments: vec![experiment(vary)], ..config() }
}

fn named(id: usize, prompt: &str) -> GenerateRequest {
    GenerateRequest { request_id: format!("id-{id}"), ..request(prompt, 3) }
}

fn report(bench: &Bench) -> Report {
    bench.runtime.experiments().remove(0)
}

/// Asks for reports until all blocks are over: they end by themselves.
fn settled(bench: &Bench) -> Report {
    loop {
        let report = report(bench);
        if report.open_blocks == 0 {
            return report;
        }
        std::thread::yield_now();
    }
}

#[tokio::test]
async fn each_request_is_served_by_its_arm() {
    let bench = Bench::new(common::script(), lane(Vary::PrefixCache(vec![true, false])));
    let design = experiment(Vary::PrefixCache(Vec::new())).design;
    let prompt = "the same beginning of thirty-two tokens and a little more than that";
    let (mut seen, mut found) = ([0_u64; 2], [0_u64; 2]);
    for id in 0..40 {
        let arm = arm_of(&design, &format!("id-{id}"));
        let usage = bench.run(named(id, prompt)).await.unwrap().usage.unwrap();
        seen[arm] += 1;
        found[arm] += u64::from(usage.cached_tokens > 0);
    }
    assert_eq!(found, [seen[0] - 1, 0], "who shares finds what the first one left, the others nothing");
    let report = settled(&bench);
    assert_eq!((report.unit, report.in_force.as_deref()), (Unit::Request, None));
    let counted: Vec<_> = report.arms.iter().map(|arm| (arm.offered, arm.in_promise)).collect();
    assert_eq!(counted, [(seen[0], seen[0]), (seen[1], seen[1])]);
    assert!(report.arms.iter().all(|arm| arm.figures.ttft_seconds.p50.is_some()));
    let metric = |arm: &str| {
        let labels = format!("{{arm=\"{arm}\",experiment=\"e\",model=\"{MODEL}\",outcome=\"in_promise\"}}");
        bench.gauge(&format!("plimsoll_experiment_requests_total{labels}"))
    };
    assert_eq!([metric("a"), metric("b")], seen.map(|count| count as f64));
    bench.assert_nothing_left();
}

#[tokio::test]
async fn the_class_of_who_does_not_say_is_its_arms_and_all_are_judged_alike() {
    // Nothing is as fast as promised, and `batch` is promised nothing.
    let promise = Promise { e2e: Some(Duration::from_nanos(1)), ..Promise::default() };
    let config = LaneConfig { promise, ..lane(Vary::Priority(vec![Priority::Standard, Priority::Batch])) };
    let bench = Bench::new(common::script(), config);
    let design = experiment(Vary::Priority(Vec::new())).design;
    for id in 0..20 {
        let is_served = bench.run(named(id, "abc")).await.is_ok_and(|outcome| outcome.failed.is_none());
        assert_eq!(is_served, arm_of(&design, &format!("id-{id}")) == 1, "id-{id}");
    }
    let said = Urgency { priority: Some(Priority::Batch), ..Urgency::default() };
    for id in 20..30 {
        let request = GenerateRequest { urgency: said, ..named(id, "abc") };
        assert!(bench.run(request).await.is_ok_and(|outcome| outcome.failed.is_none()), "it says so itself");
    }
    let report = settled(&bench);
    let sum =
        |count: fn(&plimsoll_trial::report::ArmReport) -> u64| report.arms.iter().map(count).sum::<u64>();
    assert_eq!(sum(|arm| arm.offered), 30);
    assert!(report.arms[1].late > 0 && report.arms[1].in_promise < report.arms[1].offered, "{report:#?}");
    bench.assert_nothing_left();
}

#[tokio::test]
async fn the_lanes_arms_take_turns_and_count_what_came_in_their_blocks() {
    let bench =
        Bench::new(common::script(), lane(Vary::QueuePolicy(vec![QueuePolicy::Little, QueuePolicy::Band])));
    let in_force = |arm: &str| {
        let labels = format!("{{arm=\"{arm}\",experiment=\"e\",model=\"{MODEL}\"}}");
        bench.gauge(&format!("plimsoll_experiment_in_force{labels}")) == 1.0
    };
    let (mut seen, mut id, mut served) = ([false; 2], 0, 0);
    // A report takes its time.
    let counted = |id: usize| id % 64 == 63 && report(&bench).arms.iter().all(|arm| arm.offered > 0);
    while seen != [true; 2] || !counted(id) {
        seen[0] |= in_force("a");
        seen[1] |= in_force("b");
        served += u64::from(bench.run(named(id, "abc")).await.is_ok());
        id += 1;
    }
    let report = settled(&bench);
    assert_eq!(report.arms.iter().map(|arm| arm.in_promise).sum::<u64>(), served);
    assert_eq!(report.arms.iter().map(|arm| arm.blocks).sum::<u64>(), report.blocks as u64);
    bench.assert_nothing_left();
}

#[tokio::test]
async fn an_idle_lane_switches_too() {
    let bench = Bench::new(common::script(), lane(Vary::Prefetch(vec![0, 2])));
    let mut seen = [false; 2];
    while seen != [true; 2] {
        for (arm, seen) in ["a", "b"].into_iter().zip(&mut seen) {
            let labels = format!("{{arm=\"{arm}\",experiment=\"e\",model=\"{MODEL}\"}}");
            *seen |= bench.gauge(&format!("plimsoll_experiment_in_force{labels}")) == 1.0;
        }
        std::thread::yield_now();
    }
    assert_eq!(report(&bench).blocks, 0, "nobody came");
    bench.assert_nothing_left();
}

#[tokio::test]
async fn who_leaves_is_lost_and_who_could_never_be_served_is_not_counted() {
    // Nobody reads, so it is not over before its reader leaves.
    let config = LaneConfig { token_ring: 16, ..lane(Vary::ExpectedOutput(vec![16, 64])) };
    let bench = Bench::new(common::script(), config);
    drop(bench.start(GenerateRequest { max_tokens: Some(200), ..named(0, "abc") }).await.unwrap());
    assert!(bench.start(GenerateRequest { n: 0, ..named(1, "abc") }).await.is_err());
    assert!(bench.start(GenerateRequest { max_tokens: Some(1 << 20), ..named(2, "abc") }).await.is_err());
    let report = settled(&bench);
    let sum =
        |count: fn(&plimsoll_trial::report::ArmReport) -> u64| report.arms.iter().map(count).sum::<u64>();
    assert_eq!((sum(|arm| arm.offered), sum(|arm| arm.lost), sum(|arm| arm.refused)), (1, 1, 0));
    bench.assert_nothing_left();
}
