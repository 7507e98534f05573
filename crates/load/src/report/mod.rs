//! What a bench found: as JSON, as text, as one HTML page.

mod html;
mod pictures;
mod text;

use crate::client::Client;
use crate::manner::Manner;
use crate::openai::{Dialect, Endpoint};
use crate::options::BenchOptions;
use crate::over_time::{Window, windows};
use crate::prompts::Calibration;
use crate::record::Record;
use crate::run::Run;
use crate::slo::Slo;
use crate::summary::Summary;
use crate::sweep::Sweep;
use crate::workload::{Source, Workload};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// All results of a bench. `serde` writes it as JSON; docs/load.md describes it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// What was asked of whom.
    pub setting: Setting,
    /// The highest rate in the promise, if it was looked for.
    pub sweep: Option<Sweep>,
    /// The rates that a sweep tried.
    pub trials: Vec<RateReport>,
    /// The runs.
    pub runs: Vec<RateReport>,
}

/// What was asked of whom.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Setting {
    /// The server.
    pub url: String,
    /// The model.
    pub model: String,
    /// Where requests went.
    pub endpoint: Endpoint,
    /// What the server understands.
    pub dialect: Dialect,
    /// How words became tokens.
    pub calibration: Calibration,
    /// The promise.
    pub slo: Option<Slo>,
    /// Arrivals and lengths.
    pub workload: Value,
}

/// One rate: its figures, in all and by class, and its requests.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RateReport {
    /// Requests per second that were asked for; none for a trace at its own.
    pub rate: Option<f64>,
    /// The figures.
    pub summary: Summary,
    /// The same for each class of the mix.
    pub classes: Vec<(String, Summary)>,
    /// What became of the measured requests of those who misbehave, by what they do and how it ended. They are in no other figure.
    pub misbehaved: BTreeMap<Manner, BTreeMap<String, usize>>,
    /// The figures window by window; those of several runs one after the other.
    pub over_time: Vec<Window>,
    /// What the load generator itself took.
    pub generator: Generator,
    /// Ended early: too many had missed the promise, or it was stopped.
    pub cut_short: bool,
    /// Failures in the words of the server, each once, at most 5.
    pub messages: Vec<String>,
    /// Every request, if they are kept.
    pub records: Vec<Record>,
}

/// What the load generator took of the machine it may share with the server.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Generator {
    /// Processor seconds.
    pub cpu_seconds: f64,
    /// Seconds that passed.
    pub wall_seconds: f64,
}

/// Messages that a report keeps of each rate.
const MOST_MESSAGES: usize = 5;

impl Report {
    /// A report without results yet, of what `options` ask of the server that `client` knows.
    pub fn new(client: &Client, options: &BenchOptions) -> Self {
        Self { setting: Setting::of(client, options), sweep: None, trials: Vec::new(), runs: Vec::new() }
    }

    /// One page for people, with charts; nothing in it comes from elsewhere.
    pub fn html(&self) -> String {
        html::page(self)
    }
}

impl Generator {
    /// Share of one core.
    pub fn cores(&self) -> f64 {
        self.cpu_seconds / self.wall_seconds.max(1e-9)
    }
}

impl RateReport {
    /// The figures of runs at one rate.
    pub fn of(rate: Option<f64>, runs: Vec<Run>, options: &BenchOptions) -> Self {
        let slo = options.slo.as_ref();
        let class = |(i, class): (usize, &crate::workload::Class)| {
            (class.name.clone(), Summary::of(&runs, Some(i), slo))
        };
        let mut messages: Vec<String> = Vec::new();
        for message in runs.iter().flat_map(|run| &run.records).filter_map(|record| record.message.as_ref()) {
            if messages.len() < MOST_MESSAGES && !messages.contains(message) {
                messages.push(message.clone());
            }
        }
        Self {
            rate,
            summary: Summary::of(&runs, None, slo),
            classes: options.workload.mix.iter().enumerate().map(class).collect(),
            misbehaved: misbehaved(&runs),
            over_time: runs.iter().flat_map(|run| windows(run, options.window, slo)).collect(),
            generator: Generator {
                cpu_seconds: runs.iter().map(|run| run.cpu).sum(),
                wall_seconds: runs.iter().map(|run| run.wall).sum(),
            },
            cut_short: runs.iter().any(|run| run.cut_short),
            messages,
            records: runs.into_iter().flat_map(|run| run.records).collect(),
        }
    }

    /// The same without the requests.
    #[must_use]
    pub fn without_records(self) -> Self {
        Self { records: Vec::new(), ..self }
    }

    /// The rate for people.
    pub fn title(&self) -> String {
        let rate = self.rate.unwrap_or(self.summary.offered_rate);
        format!("{} requests/s", plimsoll_charts::short(rate))
    }
}

fn misbehaved(runs: &[Run]) -> BTreeMap<Manner, BTreeMap<String, usize>> {
    let mut all: BTreeMap<Manner, BTreeMap<String, usize>> = BTreeMap::new();
    for record in runs.iter().flat_map(|run| &run.records) {
        if record.measured && record.manner != Manner::Ordinary {
            *all.entry(record.manner).or_default().entry(record.outcome.to_string()).or_default() += 1;
        }
    }
    all
}

impl Setting {
    fn of(client: &Client, options: &BenchOptions) -> Self {
        Self {
            url: client.url(),
            model: client.model().to_owned(),
            endpoint: client.endpoint(),
            dialect: client.dialect(),
            calibration: client.calibration(),
            slo: options.slo,
            workload: described(&options.workload),
        }
    }
}

fn described(workload: &Workload) -> Value {
    let source = match &workload.source {
        Source::Process { arrivals, prompt, output } => {
            json!({"arrivals": arrivals, "prompt_tokens": prompt, "output_tokens": output})
        }
        Source::Trace { trace, scaling } => {
            json!({"trace": {"requests": trace.entries.len(), "failed_left_out": trace.failed, "scaling": scaling}})
        }
    };
    let sessions = workload
        .sessions
        .map(|sessions| json!({"turns": sessions.turns, "mean_think_seconds": sessions.think.as_secs_f64()}));
    json!({
        "source": source,
        "shared_prefix_tokens": workload.shared_prefix,
        "mix": workload.mix,
        "misbehaving": workload.manners,
        "sessions": sessions,
        "warmup_seconds": workload.warmup.as_secs_f64(),
        "seed": workload.seed,
    })
}
