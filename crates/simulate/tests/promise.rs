//! The promise is kept, whatever is offered: gate and planner on a virtual clock, on a machine with noise.
mod scripted;

use fastrand::Rng;
use plimsoll_sched::{Asked, Class, Promise, Refusal};
use plimsoll_simulate::{End, Request, Summary};
use scripted::{MACHINE, PROMISE, Script, interactive, is_done, poisson, tally};
use std::time::Duration;

const CALM: Script = Script { noise: 0.03, stalls: 0.0, ..MACHINE };
const NOISY: Script = Script { noise: 0.3, stalls: 0.01, ..MACHINE };
const DRIFTING: Script = Script { noise: 0.15, pace: |t| 1.0 + 0.5 * (t / 40.0).sin().max(0.0), ..MACHINE };
const BURSTY: Script = Script { noise: 0.15, pace: |t| if t % 30.0 < 5.0 { 2.0 } else { 1.0 }, ..MACHINE };

/// As a machine that others compute on beside it: now and then a step waits for a core.
const STALLING: Script =
    Script { noise: 0.15, pace: |t| if (t * 7919.0).fract() < 0.01 { 5.0 } else { 1.0 }, ..MACHINE };

const MACHINES: [(&str, Script); 6] = [
    ("calm", CALM),
    ("usual", MACHINE),
    ("noisy", NOISY),
    ("drift", DRIFTING),
    ("bursts", BURSTY),
    ("stalls", STALLING),
];

/// About the highest rate at which nearly all are let in and kept.
const CAPACITY: f64 = 4.0;

fn share(part: usize, all: usize) -> f64 {
    part as f64 / all.max(1) as f64
}

fn run(machine: Script, rate: f64, seconds: f64) -> Summary {
    seeded_run(machine, rate, seconds, 3)
}

fn seeded_run(machine: Script, rate: f64, seconds: f64, seed: u64) -> Summary {
    let requests = poisson(rate, seconds, seed);
    let spec = plimsoll_simulate::Spec { check: false, ..scripted::spec(&machine, PROMISE) };
    tally(&scripted::run_unchecked(&spec, machine, &requests), &requests, |_| true)
}

#[test]
fn more_than_it_can_do_is_refused_and_the_rest_is_in_time() {
    for (name, machine) in &MACHINES[..4] {
        let machine = *machine;
        let at_capacity = run(machine, CAPACITY, 200.0);
        for times in [2.0, 4.0] {
            let over = run(machine, CAPACITY * times, 200.0);
            println!("{name} {times}: {over:?}");
            assert!(
                over.in_promise as f64 >= 0.95 * at_capacity.in_promise as f64,
                "{name} {times}: {over:?} {at_capacity:?}"
            );
            assert!(share(over.in_promise, over.accepted) >= 0.99, "{name} {times}: {over:?}");
            assert_eq!((over.refused_never, over.refused_full), (0, 0), "{name} {times}: {over:?}");
        }
    }
}

/// Nothing is promised but the last token: those who run must not be held up by whoever is let in later.
#[test]
fn the_last_token_is_in_time_whoever_comes_after() {
    // Where every tenth step takes half again as long, forty-eight of them are hard to foretell.
    for ((name, machine), least) in MACHINES.iter().zip([0.99, 0.99, 0.95]) {
        for (milliseconds, times) in [(2000, 2.0), (2000, 4.0), (4000, 4.0)] {
            let promise = Promise { e2e: Some(Duration::from_millis(milliseconds)), ..Promise::default() };
            let requests = poisson(CAPACITY * times, 200.0, 3);
            let spec = plimsoll_simulate::Spec { check: false, ..scripted::spec(machine, promise) };
            let ran = scripted::run_unchecked(&spec, *machine, &requests);
            let seen = Summary::of(&ran, &requests, &promise, 1.0, |_| true);
            let what = format!("{name}, {milliseconds} ms, {times}: {seen:?}");
            println!("{what}");
            assert!(share(seen.in_promise, seen.accepted) >= least, "{what}");
            assert!(seen.in_promise > 900, "{what}");
        }
    }
}

/// Alone one is let in whatever is predicted: what ends late for that makes nobody else's end be aimed at earlier.
#[test]
fn hopeless_requests_on_an_idle_lane_shut_nobody_out() {
    let promise = Promise { e2e: Some(Duration::from_secs(4)), ..Promise::default() };
    let spec = plimsoll_simulate::Spec { check: false, ..scripted::spec(&MACHINE, promise) };
    let hopeless = (0..30).map(|i| Request {
        at: 2.0 * f64::from(i),
        prompt: 100,
        output: 400,
        asked: Asked { timeout: Some(Duration::from_millis(300)), ..Asked::default() },
        tenant: 1,
    });
    let later = poisson(CAPACITY, 100.0, 3).into_iter().map(|job| Request { at: job.at + 60.0, ..job });
    let [with, without] =
        [hopeless.chain(later.clone()).collect(), later.collect::<Vec<_>>()].map(|requests| {
            let ran = scripted::run_unchecked(&spec, MACHINE, &requests);
            Summary::of(&ran, &requests, &promise, 1.0, |request| request.tenant == 0)
        });
    println!("{with:?}\n{without:?}");
    assert!(with.in_promise as f64 >= 0.95 * without.in_promise as f64, "{with:?} {without:?}");
}

#[test]
fn predictions_are_quantiles() {
    for (name, machine) in MACHINES {
        for rate in [2.0, 12.0] {
            let tally = run(machine, rate, 400.0);
            let kept = tally.share_within_predicted().unwrap_or(0.0);
            println!("{name} {rate}: {kept:.4} {tally:?}");
            assert!((0.98..=0.997).contains(&kept), "{name} at {rate}/s: {kept} {tally:?}");
        }
    }
}

/// `share` of the jobs are of `class`.
fn mixed(mut jobs: Vec<Request>, of: f64, class: Class, others: Class) -> Vec<Request> {
    let mut rng = Rng::with_seed(11);
    for job in &mut jobs {
        job.asked.class = if rng.f64() < of { class } else { others };
    }
    jobs
}

#[test]
fn interactive_requests_do_not_notice_a_flood_of_batch() {
    let jobs = mixed(poisson(2.0 * CAPACITY, 300.0, 5), 0.3, Class::Interactive, Class::Batch);
    let ran = scripted::run(MACHINE, PROMISE, &jobs);
    let (urgent, batch) = (tally(&ran, &jobs, interactive), tally(&ran, &jobs, |job| !interactive(job)));
    println!("{urgent:?}\n{batch:?}");
    assert!(share(urgent.in_promise, urgent.offered) >= 0.99, "{urgent:?}");
    let served = (batch.accepted - batch.expired) as f64 / 300.0;
    assert!(served > 1.0, "{batch:?}: {served}/s");
}

#[test]
fn a_long_batch_prompt_leaves_the_others_their_gap() {
    let asked = |class| Asked { class, ..Asked::default() };
    let stream = |i: usize| Request {
        at: 0.25 * i as f64,
        prompt: 80,
        output: 150,
        asked: asked(Class::Interactive),
        tenant: 0,
    };
    let mut jobs: Vec<_> = (0..8).map(stream).collect();
    jobs.push(Request { at: 2.5, prompt: 6000, output: 20, asked: asked(Class::Batch), tenant: 0 });
    for machine in [MACHINE, Script { noise: 0.2, pace: |_| 1.8, ..MACHINE }] {
        let ran = scripted::run(machine, PROMISE, &jobs);
        println!("{:?}", ran.ends);
        let urgent = tally(&ran, &jobs, interactive);
        assert_eq!((urgent.accepted, urgent.in_promise), (8, 8), "{urgent:?}");
        assert!(is_done(&ran.ends[8]), "{:?}", ran.ends[8]);
    }
}

#[test]
fn of_a_thousand_at_once_as_many_come_in_as_have_time() {
    // A thousand at the same instant: as many as can have their first token in time, no more, and the next ones
    // right after are let in again.
    let mut jobs: Vec<_> = (0..1000).map(|_| Request { at: 1.0, ..poisson(1.0, 9.0, 1)[0] }).collect();
    jobs.push(Request { at: 20.0, ..jobs[0] });
    let ran = scripted::run(MACHINE, PROMISE, &jobs);
    let tally = tally(&ran, &jobs, |_| true);
    println!("{tally:?}");
    assert!((3..12).contains(&tally.accepted) && tally.in_promise == tally.accepted, "{tally:?}");
    assert!(is_done(&ran.ends[1000]));
    let wait = |end: &End| match end {
        End::Refused(Refusal::Late { retry_after }) => Some(*retry_after),
        _ => None,
    };
    assert!(ran.ends.iter().filter_map(wait).all(|wait| wait < Duration::from_secs(2)));
}

#[test]
fn what_is_late_even_alone_is_refused_for_good() {
    let tight = |ttft: u64| Asked { ttft: Some(Duration::from_millis(ttft)), ..Asked::default() };
    let job = |at: f64, asked| Request { at, prompt: 400, output: 4, asked, tenant: 0 };
    let jobs = [job(0.0, tight(100)), job(1.0, tight(2000))];
    let ran = scripted::run(CALM, PROMISE, &jobs);
    assert_eq!(ran.ends[0], End::Refused(Refusal::Never));
    assert!(is_done(&ran.ends[1]));
}

#[test]
fn a_greedy_tenant_leaves_room_for_another() {
    let mut jobs = poisson(20.0, 200.0, 9);
    let mut rng = Rng::with_seed(4);
    jobs.iter_mut().for_each(|job| job.tenant = u32::from(rng.f64() < 0.05));
    let ran = scripted::run(MACHINE, PROMISE, &jobs);
    let [greedy, modest] = [0, 1].map(|tenant| tally(&ran, &jobs, |job| job.tenant == tenant));
    println!("{greedy:?}\n{modest:?}");
    assert!(share(modest.in_promise, modest.offered) > 0.9, "{modest:?}");
}

#[test]
fn without_a_promise_only_the_queue_says_no() {
    let jobs = poisson(20.0, 30.0, 2);
    let tally = tally(&scripted::run(MACHINE, Promise::default(), &jobs), &jobs, |_| true);
    assert_eq!((tally.refused_late, tally.refused_never, tally.expired), (0, 0, 0), "{tally:?}");
}

#[test]
#[ignore = "figures for a person"]
fn figures() {
    for (name, machine) in MACHINES {
        for rate in [2.0, 4.0, 5.0, 6.0, 8.0, 12.0, 16.0, 24.0] {
            let runs: Vec<_> = (0..6).map(|seed| seeded_run(machine, rate, 400.0, seed)).collect();
            let mut t = runs[0].clone();
            for run in &runs[1..] {
                t.offered += run.offered;
                t.accepted += run.accepted;
                t.in_promise += run.in_promise;
                t.late += run.late;
                t.within_predicted += run.within_predicted;
            }
            println!(
                "{name:6} {rate:4.0}/s goodput {:5.2}/s accepted {:5.1}% inside {:6.2}% predicted {:5.2}%",
                t.in_promise as f64 / 2400.0,
                100.0 * share(t.accepted, t.offered),
                100.0 * t.share_of_accepted().unwrap_or(0.0),
                100.0 * t.share_within_predicted().unwrap_or(0.0),
            );
        }
    }
}
