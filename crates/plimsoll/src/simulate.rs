//! `simulate`: the scheduler on a virtual clock.

mod args;

pub use args::Simulate;

use crate::offered::is_factor;
use crate::profile::{self, Profile};
use crate::progress::TerminalProgress;
use anyhow::{anyhow, ensure};
use plimsoll_load::arrivals::Extent;
use plimsoll_load::workload::{Class as Share, Source, Workload};
use plimsoll_model::engine::{BLOCK_TOKENS, Shape};
use plimsoll_runtime::{LaneConfig, Parking, Promise};
use plimsoll_sched::{Asked, Class, CostModel, Measured};
use plimsoll_simulate::report::promised;
use plimsoll_simulate::{Drawn, Fleet, Report, Request, Spec, Spread, Summary, search};
use std::time::Duration;

/// Requests of a run when nobody says.
const REQUESTS: usize = 10_000;
/// Longest load in seconds.
const LONGEST: f64 = 1e9;
/// Most replicas that are simulated.
const MOST_REPLICAS: usize = 100_000;

/// Runs `simulate`.
pub fn run(command: &Simulate) -> anyhow::Result<()> {
    let profile = profile::needed(&command.profile)?;
    let measured = profile.measured()?;
    let promise = command.slo.as_ref().map_or(Ok(Promise::default()), |slo| slo.check())?;
    let spec = spec(command, &profile, promise, &measured)?;
    let (requests, span) = requests(command)?;
    let files = command.report.create()?;
    let spread = command.spread.into();
    let mut report = report(command, &profile, &spec, (&requests, span));
    let bar = TerminalProgress::default();
    let one = |replicas: usize| {
        bar.count(&format!("{replicas} replicas"), requests.len());
        let machine = |i: usize| Drawn::new(measured, command.seed.wrapping_add(i as u64));
        let ran = Fleet::new(&spec, replicas, spread, machine).run(&requests, &mut |done| bar.counted(done));
        bar.done();
        Ok::<_, anyhow::Error>(Summary::of(&ran, &requests, &promise, span, |_| true))
    };
    if command.replicas.is_empty() {
        report.take_in(search(promise.quantile, command.max_replicas, one)?);
    } else {
        let mut replicas = command.replicas.clone();
        replicas.sort_unstable();
        replicas.dedup();
        report.runs = replicas.into_iter().map(one).collect::<anyhow::Result<_>>()?;
    }
    files.write(&report, || report.html())
}

/// A replica as `serve` would make one of the profile's sizes.
fn spec(
    command: &Simulate,
    profile: &Profile,
    promise: Promise,
    measured: &Measured,
) -> anyhow::Result<Spec> {
    for (flag, replicas) in [("replicas", &command.replicas[..]), ("max-replicas", &[command.max_replicas])] {
        let is_right = replicas.iter().all(|replicas| (1..=MOST_REPLICAS).contains(replicas));
        ensure!(is_right, "--{flag} must be from 1 to {MOST_REPLICAS}");
    }
    let (sizes, defaults) = (profile.lane, LaneConfig::default());
    let max_seqs = command.max_seqs.unwrap_or(sizes.max_seqs);
    ensure!((1..=sizes.max_rows).contains(&max_seqs), "--max-seqs must be from 1 to {}", sizes.max_rows);
    let blocks = command.kv_tokens.map_or(sizes.kv_blocks, |tokens| tokens.div_ceil(BLOCK_TOKENS));
    ensure!((1..=1 << 24).contains(&blocks), "--kv-tokens must be from 1 to {}", BLOCK_TOKENS << 24);
    let queue = command.queue.unwrap_or(defaults.queue);
    ensure!((1..=65_536).contains(&queue), "--queue must be from 1 to 65536");
    // Nothing is parked: what moving blocks takes was not measured.
    let parking = Parking { memory: 0, ..Parking::default() };
    let lane = LaneConfig { max_seqs, queue, promise, parking, ..defaults };
    let shape = Shape {
        // No step is computed.
        vocab: 1,
        context: sizes.context,
        blocks,
        max_rows: sizes.max_rows,
        max_logits: sizes.max_rows,
    };
    let (limits, bounds) = lane.sizes(&shape, 0);
    Ok(Spec {
        limits,
        bounds,
        tenants: lane.tenants,
        promise,
        cost: CostModel::measured(measured),
        expected_output: lane.expected_output,
        shared_prefix: command.offered.shared_prefix as usize,
        check: false,
    })
}

/// What is offered, and over how many seconds.
fn requests(command: &Simulate) -> anyhow::Result<(Vec<Request>, f64)> {
    let offered = &command.offered;
    ensure!(offered.rate.is_none_or(is_factor), "--rate must be above 0");
    let mix = offered.mix.clone().map(|mix| mix.0).unwrap_or_default();
    let classes = mix.iter().map(class).collect::<anyhow::Result<Vec<_>>>()?;
    let workload = Workload {
        source: source(command)?,
        // No text is written: replicas are told.
        shared_prefix: 0,
        mix,
        sessions: None,
        manners: Default::default(),
        warmup: Duration::ZERO,
        seed: command.seed,
    };
    let extent = match (offered.duration, offered.requests) {
        (Some(duration), _) => Extent::Seconds(duration.0.as_secs_f64()),
        (None, Some(requests)) => Extent::Requests(requests),
        (None, None) => Extent::Requests(if offered.trace.is_named() { usize::MAX } else { REQUESTS }),
    };
    let plan = workload.plan(offered.rate, extent, 0)?;
    ensure!(
        plan.span <= LONGEST,
        "the requests come over {:.3e} s, longer than 30 years; raise the rate",
        plan.span
    );
    let request = |offer: &plimsoll_load::workload::Offer| Request {
        at: offer.at,
        prompt: offer.prompt_tokens.max(1) as usize,
        output: offer.output_tokens.max(1) as usize,
        asked: Asked { class: classes.get(offer.class).copied().unwrap_or_default(), ..Asked::default() },
        tenant: 0,
    };
    Ok((plan.offers.iter().map(request).collect(), plan.span))
}

fn class(share: &Share) -> anyhow::Result<Class> {
    let found = Class::ALL.into_iter().find(|class| class.name() == share.name);
    found.ok_or_else(|| {
        anyhow!("--mix: there is no class `{}`; there are interactive, standard and batch", share.name)
    })
}

fn source(command: &Simulate) -> anyhow::Result<Source> {
    let offered = &command.offered;
    ensure!(offered.trace.is_named() || offered.rate.is_some(), "how much? give --rate R or --trace FILE");
    let drawn = Source::Process {
        arrivals: offered.arrivals.0,
        prompt: offered.prompt_tokens,
        output: offered.output_tokens,
    };
    Ok(offered.trace.source()?.unwrap_or(drawn))
}

fn report(command: &Simulate, profile: &Profile, spec: &Spec, (requests, span): (&[Request], f64)) -> Report {
    let mean = |of: fn(&Request) -> usize| {
        requests.iter().map(of).sum::<usize>() as f64 / requests.len().max(1) as f64
    };
    let (prompt, output) = (mean(|request| request.prompt), mean(|request| request.output));
    let rate = requests.len() as f64 / span.max(1e-9);
    let name = match &command.offered.trace.trace {
        Some(path) => format!("the trace {}", path.display()),
        None => format!("{} arrivals", command.offered.arrivals.name()),
    };
    let load = format!(
        "{name}: {} requests over {span:.1} s ({rate:.2}/s), {prompt:.0} prompt tokens and {output:.0} of output on the average",
        requests.len()
    );
    let too_long = requests.iter().filter(|r| r.prompt + r.output > spec.limits.context).count();
    let notes = (too_long > 0).then(|| {
        format!(
            "{too_long} requests are longer than the context of {} tokens and count as refused (--scale-tokens shrinks them)",
            spec.limits.context
        )
    });
    Report {
        profile: profile.title(),
        load,
        promise: promised(&spec.promise),
        quantile: spec.promise.quantile,
        spread: command.spread.into(),
        runs: Vec::new(),
        searched: false,
        holds: None,
        notes: notes.into_iter().collect(),
    }
}

impl From<args::SpreadKey> for Spread {
    fn from(key: args::SpreadKey) -> Self {
        match key {
            args::SpreadKey::LeastTokens => Self::LeastTokens,
            args::SpreadKey::RoundRobin => Self::RoundRobin,
        }
    }
}
