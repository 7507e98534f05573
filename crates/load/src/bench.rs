//! A whole bench: runs at given rates, or a sweep and runs at multiples of what it found.

use crate::arrivals::Extent;
use crate::client::Client;
use crate::error::LoadError;
use crate::options::BenchOptions;
use crate::progress::Progress;
use crate::record::Record;
use crate::report::{RateReport, Report};
use crate::run::{Run, RunOptions, Watch, run};
use crate::slo::Slo;
use crate::stop::Stop;
use crate::sweep::{Trial, sweep};

/// Whole trials of a sweep are runs of about so many requests, each with other prompts and arrivals, pooled.
const POOLED: usize = 500;

/// Runs a bench, until `stop` says otherwise. Whatever is done stands in the report, also when the future is dropped.
///
/// # Errors
/// What made a run impossible, and [`LoadError::Stopped`]. Requests that failed are in the report.
pub async fn bench(
    client: &Client,
    options: &BenchOptions,
    progress: &dyn Progress,
    stop: &Stop,
    report: &mut Report,
) -> Result<(), LoadError> {
    let mut bench = Bench { client, options, progress, stop, round: 0 };
    let mut rates = options.rates.clone();
    if let (Some(how), Some(slo)) = (options.sweep, options.slo) {
        let trials = &mut report.trials;
        let found = sweep(how, &slo, async |rate, requests| {
            let trial = bench.trial(rate, requests, &slo).await?;
            let tried = Trial {
                offered: trial.summary.offered,
                missed: trial.summary.offered - trial.summary.outcomes.in_promise,
            };
            progress.note(&trial.line());
            trials.push(trial.without_records());
            // Of a trial that was stopped nothing follows.
            bench.goes_on().map(|()| tried)
        })
        .await?;
        rates.extend(
            found
                .highest
                .into_iter()
                .flat_map(|highest| options.multiples.iter().map(move |multiple| Some(highest * multiple))),
        );
        report.sweep = Some(found);
    }
    for rate in rates {
        let run = bench.run(rate, options.extent, None).await?;
        let rate = RateReport::of(rate, vec![run], options);
        progress.note(&rate.line());
        report.runs.push(rate);
        bench.goes_on()?;
    }
    Ok(())
}

struct Bench<'a> {
    client: &'a Client,
    options: &'a BenchOptions,
    progress: &'a dyn Progress,
    stop: &'a Stop,
    round: u64,
}

impl Bench<'_> {
    fn goes_on(&self) -> Result<(), LoadError> {
        if self.stop.is_stopped() { Err(LoadError::Stopped) } else { Ok(()) }
    }

    /// One rate of a sweep: runs until there are enough requests, or too many have missed.
    async fn trial(&mut self, rate: f64, requests: usize, slo: &Slo) -> Result<RateReport, LoadError> {
        let parts = requests.div_ceil(POOLED).max(1);
        let mut allowed = slo.misses_allowed(requests);
        let mut runs = Vec::new();
        for part in 0..parts {
            // Parts as equal as they can be.
            let share = requests * (part + 1) / parts - requests * part / parts;
            let run = self.run(Some(rate), Extent::Requests(share), Some(allowed)).await?;
            let missed = run.records.iter().filter(|record| record.counts() && !slo.met_by(record)).count();
            runs.push(run);
            if self.stop.is_stopped() {
                break;
            }
            match allowed.checked_sub(missed) {
                Some(left) => allowed = left,
                None => break,
            }
        }
        Ok(RateReport::of(Some(rate), runs, self.options))
    }

    /// One run; ended early once more than `allowed` have missed the promise.
    async fn run(
        &mut self,
        rate: Option<f64>,
        extent: Extent,
        allowed: Option<usize>,
    ) -> Result<Run, LoadError> {
        if self.round > 0 {
            // Stopped in the pause, it sends nothing.
            tokio::time::timeout(self.options.pause, self.stop.stopped()).await.ok();
        }
        self.goes_on()?;
        let plan = self.options.workload.plan(rate, extent, self.round)?;
        let what =
            rate.map_or_else(|| "trace".to_owned(), |rate| format!("{}/s", plimsoll_charts::short(rate)));
        let turns = self.options.workload.sessions.map_or(1, |sessions| sessions.turns.max(1)) as usize;
        self.progress.begin(&what, plan.offers.len() * turns);
        let mut watcher =
            Watcher { slo: self.options.slo, allowed, over: 0, missed: 0, progress: self.progress };
        let watched = self.options.pid.map(|pid| (pid, self.options.window));
        let stop = self.stop.clone();
        let how = RunOptions { max_in_flight: self.options.max_in_flight, round: self.round, watched, stop };
        let run = run(self.client, &self.options.workload, &plan, how, &mut watcher).await;
        self.progress.end();
        self.round += 1;
        Ok(run)
    }
}

struct Watcher<'a> {
    slo: Option<Slo>,
    allowed: Option<usize>,
    over: usize,
    /// Of those that are measured.
    missed: usize,
    progress: &'a dyn Progress,
}

impl Watch for Watcher<'_> {
    fn over(&mut self, record: &Record, in_flight: usize) -> bool {
        self.over += 1;
        let met = self.slo.map_or(record.outcome == crate::record::Outcome::Done, |slo| slo.met_by(record));
        self.missed += usize::from(record.counts() && !met);
        self.progress.at(self.over, in_flight, self.missed);
        self.allowed.is_none_or(|allowed| self.missed <= allowed)
    }
}
