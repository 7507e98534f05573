//! A machine whose steps take as long as a script says, and the usual requests.

use fastrand::Rng;
use plimsoll_sched::{Asked, Bounds, Class, CostModel, Limits, Load, Promise, QueueRule, Rates};
use plimsoll_simulate::{End, Fleet, Machine, Ran, Request, Spec, Spread, Summary};
use std::time::Duration;

/// What a step takes beside what it should.
#[derive(Debug, Clone, Copy)]
pub struct Script {
    pub rates: Rates,
    /// Deviation of the logarithm of a step's time.
    pub noise: f64,
    /// Steps that take three times as long.
    pub stalls: f64,
    /// How much slower it is at a time.
    pub pace: fn(f64) -> f64,
}

/// SmolLM2-135M on two cores.
pub const MACHINE: Script = Script {
    rates: Rates { base: 3e-3, prefill: 0.65e-3, decode: 1.3e-3, kv: 1e-6 },
    noise: 0.1,
    stalls: 0.002,
    pace: |_| 1.0,
};

pub const PROMISE: Promise = Promise {
    ttft: Some(Duration::from_millis(500)),
    ttft_per_token: Duration::ZERO,
    itl: Some(Duration::from_millis(60)),
    e2e: None,
    quantile: 0.99,
};

/// The script, and the dice of its noise.
pub struct Scripted(pub Script, pub Rng);

impl Machine for Scripted {
    fn seconds(&mut self, load: Load, now: f64) -> f64 {
        let Script { rates, noise, stalls, pace } = self.0;
        let stall = if self.1.f64() < stalls { 3.0 } else { 1.0 };
        // Box and Muller.
        let radius = (-2.0 * (1.0 - self.1.f64()).ln()).sqrt();
        let normal = radius * (std::f64::consts::TAU * self.1.f64()).cos();
        rates.seconds(load) * (noise * normal).exp() * stall * pace(now)
    }
}

/// A replica as the server makes one for a script.
pub fn spec(script: &Script, promise: Promise) -> Spec {
    let limits = Limits {
        max_seqs: 16,
        max_rows: 512,
        max_logits: 64,
        context: 8192,
        blocks: 2048,
        step_budget: Duration::from_millis(50),
        park_blocks: 0,
        park_move: Duration::ZERO,
        park_ahead: 0,
        quantile: promise.quantile,
        queue: QueueRule { configured: 256, wait: promise.ttft, ..QueueRule::default() },
    };
    let bounds = Bounds { sequences: 16 + 256, tokens: 1 << 30, per_tenant: u32::MAX };
    Spec {
        limits,
        bounds,
        tenants: 4,
        promise,
        cost: seeded(script),
        expected_output: 256,
        shared_prefix: 0,
        check: true,
    }
}

fn seeded(script: &Script) -> CostModel {
    let decodes = [1, 2, 4, 8, 16].map(|n| (0..n).fold(Load::default(), |load, _| load.with_decode(0)));
    let prefills = [8, 16, 32, 64, 128, 256].map(|n| Load::default().with_prefill(0, n));
    let timed = |load: &Load| (*load, Duration::from_secs_f64(script.rates.seconds(*load)));
    CostModel::seeded(&decodes.iter().chain(&prefills).map(timed).collect::<Vec<_>>())
}

/// What one replica makes of `requests`.
pub fn run(script: Script, promise: Promise, requests: &[Request]) -> Ran {
    run_unchecked(&spec(&script, promise), script, requests)
}

pub fn run_unchecked(spec: &Spec, script: Script, requests: &[Request]) -> Ran {
    let machine = |i: usize| Scripted(script, Rng::with_seed(7 + i as u64));
    Fleet::new(spec, 1, Spread::default(), machine).run(requests, &mut |_| {})
}

/// What became of those that `select` names.
pub fn tally(ran: &Ran, requests: &[Request], select: impl Fn(&Request) -> bool) -> Summary {
    Summary::of(ran, requests, &PROMISE, 1.0, select)
}

/// Poisson arrivals of the usual requests.
pub fn poisson(rate: f64, seconds: f64, seed: u64) -> Vec<Request> {
    let mut rng = Rng::with_seed(seed);
    let (mut at, mut requests) = (0.0, Vec::new());
    loop {
        at += -(1.0 - rng.f64()).ln() / rate;
        if at > seconds {
            return requests;
        }
        let prompt = 60 + rng.usize(..80);
        requests.push(Request { at, prompt, output: 48, asked: Asked::default(), tenant: 0 });
    }
}

pub fn interactive(request: &Request) -> bool {
    request.asked.class == Class::Interactive
}

pub fn is_done(end: &End) -> bool {
    matches!(end, End::Done { .. })
}
