//! The promise is kept, whatever is offered: gate and planner on a virtual clock, on a machine with noise.
#![cfg(not(loom))]

mod sim;

use sim::{MACHINE, Machine, PROMISE, Sim, poisson};

#[test]
#[ignore = "figures"]
fn figures() {
    let machines = [
        ("calm", Machine { noise: 0.03, stalls: 0.0, ..MACHINE }),
        ("usual", MACHINE),
        ("noisy", Machine { noise: 0.3, stalls: 0.01, ..MACHINE }),
        ("drift", Machine { noise: 0.15, pace: |t| 1.0 + 0.5 * (t / 40.0).sin().max(0.0), ..MACHINE }),
        ("bursts", Machine { noise: 0.15, pace: |t| if t % 30.0 < 5.0 { 2.0 } else { 1.0 }, ..MACHINE }),
    ];
    for (name, machine) in machines {
        for rate in [2.0, 4.0, 5.0, 6.0, 8.0, 12.0, 16.0, 24.0] {
            let seconds = 400.0;
            let jobs = poisson(rate, seconds, 3);
            let sim = Sim::new(machine, PROMISE, 16).run(&jobs);
            let t = sim.tally(&jobs, |_| true);
            let share = |n: usize, of: usize| 100.0 * n as f64 / of.max(1) as f64;
            println!(
                "{name:6} {rate:4.0}/s goodput {:5.2}/s accepted {:5.1}% inside {:6.2}% of accepted, predicted {:5.2}%  {t:?} margin {:.2} aim {:.2}",
                t.kept as f64 / seconds,
                share(t.accepted, t.offered),
                share(t.kept, t.accepted),
                share(t.predicted, t.accepted - t.expired),
                sim.snapshot.view().margin,
                sim.snapshot.view().aim,
            );
        }
    }
}
