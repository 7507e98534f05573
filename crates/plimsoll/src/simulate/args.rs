//! The command line of `simulate`.

use crate::bench::serve::words::{Mix, Process};
use crate::config::slo::Slo;
use crate::config::units::Period;
use crate::offered::TraceArgs;
use crate::report_files::ReportArgs;
use clap::{Args, ValueEnum};
use plimsoll_load::lengths::Lengths;
use std::path::PathBuf;

/// What `simulate` is told.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Simulate {
    /// What steps cost: the file that `plimsoll tune` wrote
    #[arg(long, value_name = "FILE")]
    pub profile: PathBuf,
    /// So many replicas; several numbers are simulated one after the other [default: search for the fewest that hold the promise]
    #[arg(long, value_name = "N,N,…", value_delimiter = ',')]
    pub replicas: Vec<usize>,
    /// The search goes no higher than this
    #[arg(long, value_name = "N", default_value_t = 1024, conflicts_with = "replicas")]
    pub max_replicas: usize,
    /// Which replica a request goes to
    #[arg(long, value_enum, default_value_t)]
    pub spread: SpreadKey,
    /// The promise, such as ttft=500ms,itl=60ms,quantile=0.99 [default: none]
    #[arg(long, value_name = "TERMS")]
    pub slo: Option<Slo>,
    #[command(flatten)]
    pub offered: Offered,
    /// Sequences that run at the same time on a replica [default: the profile's]
    #[arg(long, value_name = "N", help_heading = "A replica")]
    pub max_seqs: Option<usize>,
    /// Tokens that its KV cache holds [default: the profile's]
    #[arg(long, value_name = "TOKENS", help_heading = "A replica")]
    pub kv_tokens: Option<usize>,
    /// Requests that may wait for it [default: 256]
    #[arg(long, value_name = "N", help_heading = "A replica")]
    pub queue: Option<u32>,
    /// Decides arrivals, lengths, classes and how long steps take
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    #[command(flatten)]
    pub report: ReportArgs,
}

/// What is offered; as in `bench serve`.
#[derive(Debug, Args)]
#[command(next_help_heading = "What is offered")]
pub struct Offered {
    /// Mean requests per second, over all replicas together
    #[arg(long, value_name = "R")]
    pub rate: Option<f64>,
    /// Requests [default: 10000, with --trace all]
    #[arg(long, value_name = "N", conflicts_with = "duration")]
    pub requests: Option<usize>,
    /// For so long
    #[arg(long, value_name = "DURATION")]
    pub duration: Option<Period>,
    /// `poisson`, `constant`, `burst:N` (N at once), or `ramp:A-B` (from A times the rate to B times)
    #[arg(long, value_name = "PROCESS", default_value = "poisson", conflicts_with = "trace")]
    pub arrivals: Process,
    /// Tokens of a prompt: N, N-M (any of these), or MEAN~DEVIATION
    #[arg(long, value_name = "TOKENS", default_value = "100", conflicts_with = "trace")]
    pub prompt_tokens: Lengths,
    /// Tokens of an answer, in the same way
    #[arg(long, value_name = "TOKENS", default_value = "48", conflicts_with = "trace")]
    pub output_tokens: Lengths,
    /// Tokens that all prompts begin with alike, of these: a system prompt, and what the chat template writes before it
    #[arg(long, value_name = "TOKENS", default_value_t = 0)]
    pub shared_prefix: u32,
    #[command(flatten)]
    pub trace: TraceArgs,
    /// Classes and their shares, such as interactive=0.3,batch=0.7
    #[arg(long, value_name = "CLASS=SHARE,…")]
    pub mix: Option<Mix>,
}

/// Which replica a request goes to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum SpreadKey {
    /// The one with the fewest tokens, prompts and expected outputs, in flight
    #[default]
    LeastTokens,
    /// Each in turn
    RoundRobin,
}

const EXAMPLES: &str = "\
Examples:
  plimsoll tune smollm2 --out smollm2.toml
  plimsoll simulate --profile smollm2.toml --rate 40 --requests 100000 --slo ttft=500ms,itl=60ms
  plimsoll simulate --profile smollm2.toml --trace conv.csv --scale-tokens 0.1 --replicas 2,4,8 --slo ttft=1s --html report.html
docs/simulate.md says what is simulated, and what is not.";
