//! `bench serve`: load for a server, and what became of it.

mod args;
pub mod words;

pub use args::BenchServe;

use crate::offered::is_factor;
use crate::progress::TerminalProgress;
use crate::signals::Signals;
use anyhow::{Context, bail, ensure};
use plimsoll_host::Host;
use plimsoll_load::arrivals::Extent;
use plimsoll_load::manner::Manners;
use plimsoll_load::openai::Endpoint;
use plimsoll_load::progress::Progress;
use plimsoll_load::sweep::SweepOptions;
use plimsoll_load::target::Target;
use plimsoll_load::workload::{Sessions, Source, Workload};
use plimsoll_load::{BenchOptions, Client, ClientOptions, HeaderName, HeaderValue, Report, Stop};
use std::pin::pin;

/// Requests of a run when nobody says.
const REQUESTS: usize = 200;
/// The same for the answer of a sweep: one in a hundred may miss, and ten are enough to count.
const SWEEP_REQUESTS: usize = 1000;
/// Where a sweep begins when nobody says.
const SWEEP_START: f64 = 1.0;

/// Runs `bench serve`.
pub fn run(command: &BenchServe) -> anyhow::Result<()> {
    let client = client_options(command)?;
    let bench = bench_options(command)?;
    let files = command.report.create()?;
    // One thread: the machine may be the server's as well.
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (report, ended) = tokio.block_on(measure(client, &bench))?;
    let written = files.write(&report, || report.html());
    written.and(ended)
}

/// What was measured, and why no more than that: an hour's results must outlive a signal and a server that is gone.
async fn measure(
    client: ClientOptions,
    bench: &BenchOptions,
) -> anyhow::Result<(Report, anyhow::Result<()>)> {
    let mut signals = Signals::catch().context("cannot catch signals")?;
    let client = tokio::select! {
        client = Client::connect(client) => client?,
        name = signals.next() => bail!("stopped ({name}) before anything was measured"),
    };
    let mut report = Report::new(&client, bench);
    let (progress, stop) = (TerminalProgress::default(), Stop::default());
    let ended = {
        let mut benched = pin!(plimsoll_load::bench(&client, bench, &progress, &stop, &mut report));
        loop {
            tokio::select! {
                ended = &mut benched => break ended.map_err(Into::into),
                name = signals.next() => {
                    progress.note(&format!("{name}: {}", told(&stop)));
                    stop.stop();
                }
            }
        }
    };
    progress.end();
    Ok((report, ended))
}

/// What the next signal does.
fn told(stop: &Stop) -> &'static str {
    if stop.is_stopped() {
        "gives up what is under way"
    } else {
        "sends nothing more and waits for the answers under way; a second signal gives them up"
    }
}

fn client_options(command: &BenchServe) -> anyhow::Result<ClientOptions> {
    let (timeout, connect_timeout) = command.timeouts();
    ensure!(
        !timeout.is_zero() && !connect_timeout.is_zero(),
        "--timeout and --connect-timeout must be above 0"
    );
    let endpoint = match command.endpoint {
        args::Endpoint::Chat => Endpoint::Chat,
        args::Endpoint::Completions => Endpoint::Completions,
    };
    Ok(ClientOptions {
        target: Target::parse(&command.url)?,
        endpoint,
        model: command.model.clone(),
        headers: headers(command)?,
        connect_timeout,
        timeout,
    })
}

fn headers(command: &BenchServe) -> anyhow::Result<Vec<(HeaderName, HeaderValue)>> {
    let header = |text: &String| {
        let parts = text.split_once(':').and_then(|(name, value)| {
            Some((name.trim().parse().ok()?, HeaderValue::from_str(value.trim()).ok()?))
        });
        parts.with_context(|| format!("--header `{text}` is no header; write \"NAME: VALUE\""))
    };
    let mut headers: Vec<_> = command.headers.iter().map(header).collect::<anyhow::Result<_>>()?;
    // The variable may hold the server's list of keys; any of them will do.
    if let Some(key) = command.api_key.as_deref().and_then(|keys| keys.split(',').next()) {
        let value =
            HeaderValue::from_str(&format!("Bearer {key}")).context("--api-key cannot stand in a header")?;
        headers.push((HeaderName::from_static("authorization"), value));
    }
    Ok(headers)
}

fn bench_options(command: &BenchServe) -> anyhow::Result<BenchOptions> {
    let (offered, promise) = (&command.offered, &command.promise);
    let are_factors = |factors: &[f64]| factors.iter().copied().all(is_factor);
    ensure!(are_factors(&offered.rate), "--rate must be above 0");
    ensure!(are_factors(&promise.multiples), "--multiples must be above 0");
    ensure!(command.run.max_in_flight > 0, "--max-in-flight must be at least 1");
    ensure!(!command.run.window.0.is_zero(), "--window must be above 0");
    if let Some(pid) = command.run.pid {
        let is_there = Host::this().resident_of(pid).is_some();
        ensure!(is_there, "--pid {pid}: there is no such process on this machine whose memory can be read");
    }
    Ok(BenchOptions {
        workload: workload(command)?,
        extent: extent(command),
        slo: promise.slo.map(|bounds| bounds.0),
        rates: rates(command)?,
        sweep: if promise.sweep { Some(sweep(command)?) } else { None },
        multiples: if promise.sweep { promise.multiples.clone() } else { Vec::new() },
        max_in_flight: command.run.max_in_flight,
        pause: command.run.pause.0,
        window: command.run.window.0,
        pid: command.run.pid,
    })
}

fn extent(command: &BenchServe) -> Extent {
    let offered = &command.offered;
    let most = match (command.promise.sweep, offered.trace.is_named()) {
        (true, _) => SWEEP_REQUESTS,
        (false, true) => usize::MAX,
        (false, false) => REQUESTS,
    };
    match offered.duration {
        Some(duration) => Extent::Seconds(duration.0.as_secs_f64()),
        None => Extent::Requests(offered.requests.unwrap_or(most)),
    }
}

/// The rates that are run as they are given; a sweep has its own.
fn rates(command: &BenchServe) -> anyhow::Result<Vec<Option<f64>>> {
    let offered = &command.offered;
    if command.promise.sweep {
        ensure!(offered.rate.len() <= 1, "--sweep begins at one --rate, not at {}", offered.rate.len());
        return Ok(Vec::new());
    }
    if offered.rate.is_empty() {
        if !offered.trace.is_named() {
            bail!("how much? give --rate R, --trace FILE, or --sweep with --slo");
        }
        return Ok(vec![None]);
    }
    Ok(offered.rate.iter().copied().map(Some).collect())
}

fn sweep(command: &BenchServe) -> anyhow::Result<SweepOptions> {
    let promise = &command.promise;
    ensure!((0.001..=1.0).contains(&promise.precision), "--precision must be from 0.001 to 1, such as 0.05");
    let (least, most) = (promise.min_rate, promise.max_rate);
    ensure!(is_factor(least) && is_factor(most), "--min-rate and --max-rate must be above 0");
    ensure!(least <= most, "--min-rate must be at most --max-rate");
    let requests = command.offered.requests.unwrap_or(SWEEP_REQUESTS);
    ensure!(requests > 0, "--requests must be at least 1");
    let start = command.offered.rate.first().copied().unwrap_or(SWEEP_START.clamp(least, most));
    ensure!(
        (least..=most).contains(&start),
        "a sweep begins at {start} requests/s (--rate), which must be from --min-rate {least} to --max-rate {most}"
    );
    Ok(SweepOptions { start, least, most, requests, precision: promise.precision })
}

fn workload(command: &BenchServe) -> anyhow::Result<Workload> {
    let offered = &command.offered;
    let sessions = offered.sessions.then_some(Sessions { turns: offered.turns, think: offered.think.0 });
    ensure!((1..=1000).contains(&offered.turns), "--turns must be from 1 to 1000");
    ensure!(
        sessions.is_none() || command.endpoint == args::Endpoint::Chat,
        "--sessions are conversations; use --endpoint chat"
    );
    Ok(Workload {
        source: source(command)?,
        shared_prefix: command.said.shared_prefix,
        mix: offered.mix.clone().map(|mix| mix.0).unwrap_or_default(),
        manners: manners(command)?,
        sessions,
        warmup: command.run.warmup.0,
        seed: command.run.seed,
    })
}

fn manners(command: &BenchServe) -> anyhow::Result<Manners> {
    let args::Misbehaving { slow_readers, hang_up, bad, short_timeouts } = command.misbehaving;
    let manners = Manners { slow_readers, hang_up, bad, short_timeouts };
    ensure!(
        manners.are_sound(),
        "--slow-readers, --hang-up, --bad and --short-timeouts are shares of the requests: each from 0 to 1, together at most 1"
    );
    Ok(manners)
}

fn source(command: &BenchServe) -> anyhow::Result<Source> {
    let (offered, said) = (&command.offered, &command.said);
    let drawn = Source::Process {
        arrivals: offered.arrivals.0,
        prompt: said.prompt_tokens,
        output: said.output_tokens,
    };
    Ok(offered.trace.source()?.unwrap_or(drawn))
}
