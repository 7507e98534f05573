//! The promise is kept, whatever is offered: gate and planner on a virtual clock, on a machine with noise.
#![cfg(not(loom))]

mod sim;

use plimsoll_sched::{Asked, Class, Promise, Refusal};
use sim::{End, Job, MACHINE, Machine, PROMISE, Sim, Tally, interactive, poisson};
use std::time::Duration;

const CALM: Machine = Machine { noise: 0.03, stalls: 0.0, ..MACHINE };
const NOISY: Machine = Machine { noise: 0.3, stalls: 0.01, ..MACHINE };
const DRIFTING: Machine = Machine { noise: 0.15, pace: |t| 1.0 + 0.5 * (t / 40.0).sin().max(0.0), ..MACHINE };
const BURSTY: Machine = Machine { noise: 0.15, pace: |t| if t % 30.0 < 5.0 { 2.0 } else { 1.0 }, ..MACHINE };

/// About the highest rate at which nearly all are let in and kept.
const CAPACITY: f64 = 4.0;

fn share(part: usize, all: usize) -> f64 {
    part as f64 / all.max(1) as f64
}

fn run(machine: Machine, rate: f64, seconds: f64) -> Tally {
    let jobs = poisson(rate, seconds, 3);
    let mut sim = Sim::new(machine, PROMISE, 16);
    sim.check = false;
    sim.run(&jobs).tally(&jobs, |_| true)
}

#[test]
fn more_than_it_can_do_is_refused_and_the_rest_is_in_time() {
    for (name, machine, inside) in
        [("calm", CALM, 0.99), ("usual", MACHINE, 0.99), ("noisy", NOISY, 0.99), ("drift", DRIFTING, 0.99)]
    {
        let at_capacity = run(machine, CAPACITY, 200.0);
        for times in [2.0, 4.0] {
            let over = run(machine, CAPACITY * times, 200.0);
            println!("{name} {times}: {over:?}");
            assert!(
                over.kept as f64 >= 0.95 * at_capacity.kept as f64,
                "{name} {times}: {over:?} {at_capacity:?}"
            );
            assert!(share(over.kept, over.accepted) >= inside, "{name} {times}: {over:?}");
            assert_eq!((over.never, over.queue_full), (0, 0), "{name} {times}: {over:?}");
        }
    }
}

#[test]
fn predictions_are_quantiles() {
    for (name, machine) in
        [("calm", CALM), ("usual", MACHINE), ("noisy", NOISY), ("drift", DRIFTING), ("bursts", BURSTY)]
    {
        for rate in [2.0, 12.0] {
            let tally = run(machine, rate, 400.0);
            let kept = share(tally.predicted, tally.accepted - tally.expired);
            println!("{name} {rate}: {kept:.4} {tally:?}");
            assert!((0.98..=0.997).contains(&kept), "{name} at {rate}/s: {kept} {tally:?}");
        }
    }
}

/// `share` of the jobs are of `class`.
fn mixed(mut jobs: Vec<Job>, of: f64, class: Class, others: Class) -> Vec<Job> {
    let mut dice = sim::Dice(11);
    for job in &mut jobs {
        job.asked.class = if dice.unit() < of { class } else { others };
    }
    jobs
}

#[test]
fn interactive_requests_do_not_notice_a_flood_of_batch() {
    let jobs = mixed(poisson(2.0 * CAPACITY, 300.0, 5), 0.3, Class::Interactive, Class::Batch);
    let sim = Sim::new(MACHINE, PROMISE, 16).run(&jobs);
    let (urgent, batch) = (sim.tally(&jobs, interactive), sim.tally(&jobs, |job| !interactive(job)));
    println!("{urgent:?}\n{batch:?} preempted {}", sim.preempted);
    assert!(share(urgent.kept, urgent.offered) >= 0.99, "{urgent:?}");
    let served = (batch.accepted - batch.expired) as f64 / 300.0;
    assert!(served > 1.0, "{batch:?}: {served}/s");
}

#[test]
fn a_long_batch_prompt_leaves_the_others_their_gap() {
    let asked = |class| Asked { class, ..Asked::default() };
    let stream = |i: usize| Job {
        at: 0.15 * i as f64,
        prompt: 80,
        output: 150,
        asked: asked(Class::Interactive),
        tenant: 0,
        leaves: None,
    };
    let mut jobs: Vec<_> = (0..8).map(stream).collect();
    jobs.push(Job { at: 1.5, prompt: 6000, output: 20, asked: asked(Class::Batch), tenant: 0, leaves: None });
    for machine in [MACHINE, Machine { noise: 0.2, pace: |_| 1.8, ..MACHINE }] {
        let sim = Sim::new(machine, PROMISE, 16).run(&jobs);
        println!("{:?}", sim.ends);
        let urgent = sim.tally(&jobs, interactive);
        assert_eq!((urgent.accepted, urgent.kept), (8, 8), "{urgent:?}");
        assert!(matches!(sim.ends[8], Some(End::Done { .. })), "{:?}", sim.ends[8]);
    }
}

#[test]
fn of_a_thousand_at_once_as_many_come_in_as_have_time() {
    // A thousand at the same instant: as many as can have their first token in time, no more, and the next ones
    // right after are let in again.
    let mut jobs: Vec<_> = (0..1000).map(|_| Job { at: 1.0, ..poisson(1.0, 9.0, 1)[0] }).collect();
    jobs.push(Job { at: 20.0, ..jobs[0] });
    let sim = Sim::new(MACHINE, PROMISE, 16).run(&jobs);
    let tally = sim.tally(&jobs, |_| true);
    println!("{tally:?}");
    assert!((3..12).contains(&tally.accepted) && tally.kept == tally.accepted, "{tally:?}");
    assert!(matches!(sim.ends[1000], Some(End::Done { .. })));
    let wait = |end: &Option<End>| match end {
        Some(End::Refused(Refusal::Late { retry_after })) => Some(*retry_after),
        _ => None,
    };
    assert!(sim.ends.iter().filter_map(wait).all(|wait| wait < Duration::from_secs(2)));
}

#[test]
fn what_is_late_even_alone_is_refused_for_good() {
    let tight = |ttft: u64| Asked { ttft: Some(Duration::from_millis(ttft)), ..Asked::default() };
    let job = |at: f64, asked| Job { at, prompt: 400, output: 4, asked, tenant: 0, leaves: None };
    let jobs = [job(0.0, tight(100)), job(1.0, tight(2000))];
    let sim = Sim::new(CALM, PROMISE, 16).run(&jobs);
    assert_eq!(sim.ends[0], Some(End::Refused(Refusal::Never)));
    assert!(matches!(sim.ends[1], Some(End::Done { .. })));
}

#[test]
fn a_greedy_tenant_leaves_room_for_another() {
    let mut jobs = poisson(20.0, 200.0, 9);
    let mut dice = sim::Dice(4);
    jobs.iter_mut().for_each(|job| job.tenant = u32::from(dice.unit() < 0.05));
    let sim = Sim::new(MACHINE, PROMISE, 16).run(&jobs);
    let [greedy, modest] = [0, 1].map(|tenant| sim.tally(&jobs, |job| job.tenant == tenant));
    println!("{greedy:?}\n{modest:?}");
    assert!(share(modest.kept, modest.offered) > 0.9, "{modest:?}");
}

#[test]
fn without_a_promise_only_the_queue_says_no() {
    let jobs = poisson(20.0, 30.0, 2);
    let sim = Sim::new(MACHINE, Promise::default(), 16).run(&jobs);
    let tally = sim.tally(&jobs, |_| true);
    assert_eq!((tally.late, tally.never, tally.expired), (0, 0, 0), "{tally:?}");
}

#[test]
#[ignore = "figures for a person"]
fn figures() {
    for (name, machine) in
        [("calm", CALM), ("usual", MACHINE), ("noisy", NOISY), ("drift", DRIFTING), ("bursts", BURSTY)]
    {
        for rate in [2.0, 4.0, 5.0, 6.0, 8.0, 12.0, 16.0, 24.0] {
            let t = run(machine, rate, 400.0);
            println!(
                "{name:6} {rate:4.0}/s goodput {:5.2}/s accepted {:5.1}% inside {:6.2}% predicted {:5.2}% {t:?}",
                t.kept as f64 / 400.0,
                100.0 * share(t.accepted, t.offered),
                100.0 * share(t.kept, t.accepted),
                100.0 * share(t.predicted, t.accepted - t.expired),
            );
        }
    }
}
