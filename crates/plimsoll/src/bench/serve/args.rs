//! The command line of `bench serve`.

use super::words::{Bounds, Mix, Process};
use crate::config::units::Period;
use crate::offered::TraceArgs;
use crate::report_files::ReportArgs;
use clap::{Args, ValueEnum};
use plimsoll_load::lengths::Lengths;
use std::time::Duration;

/// What `bench serve` is told.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct BenchServe {
    /// The server: http://HOST:PORT, of Plimsoll, vLLM, llama-server or another that speaks the OpenAI API
    pub url: String,
    /// Model to ask [default: the first that the server lists]
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    /// Where requests go
    #[arg(long, value_enum, default_value_t)]
    pub endpoint: Endpoint,
    /// Key sent as `authorization: Bearer KEY`
    #[arg(long, env = "PLIMSOLL_API_KEY", value_name = "KEY", hide_env_values = true)]
    pub api_key: Option<String>,
    /// A further header of every request, `NAME: VALUE`; repeatable
    #[arg(long = "header", value_name = "HEADER")]
    pub headers: Vec<String>,
    #[command(flatten)]
    pub offered: Offered,
    #[command(flatten)]
    pub said: Said,
    #[command(flatten)]
    pub misbehaving: Misbehaving,
    #[command(flatten)]
    pub promise: Promise,
    #[command(flatten)]
    pub run: RunArgs,
    #[command(flatten)]
    pub report: ReportArgs,
}

/// When requests come.
#[derive(Debug, Args)]
#[command(next_help_heading = "What is offered")]
pub struct Offered {
    /// Mean requests per second; several rates are run one after the other
    #[arg(long, value_name = "R,R,…", value_delimiter = ',')]
    pub rate: Vec<f64>,
    /// Requests of each run, after the warm-up [default: 200, with --sweep 1000, with --trace all]
    #[arg(long, value_name = "N", conflicts_with = "duration")]
    pub requests: Option<usize>,
    /// Length of each run, after the warm-up
    #[arg(long, value_name = "DURATION")]
    pub duration: Option<Period>,
    /// `poisson`, `constant`, `burst:N` (N at once), or `ramp:A-B` (from A times the rate to B times)
    #[arg(long, value_name = "PROCESS", default_value = "poisson", conflicts_with = "trace")]
    pub arrivals: Process,
    #[command(flatten)]
    pub trace: TraceArgs,
    /// Classes and their shares, sent as x-priority, such as interactive=0.3,batch=0.7
    #[arg(long, value_name = "CLASS=SHARE,…")]
    pub mix: Option<Mix>,
    /// Conversations: each request's answer becomes part of the next one's prompt. Rates still count requests
    #[arg(long)]
    pub sessions: bool,
    /// Requests of a conversation
    #[arg(long, value_name = "N", default_value_t = 4, requires = "sessions")]
    pub turns: u32,
    /// Mean time between an answer and the next request of its conversation
    #[arg(long, value_name = "DURATION", default_value = "2s", requires = "sessions")]
    pub think: Period,
}

/// What requests say.
#[derive(Debug, Args)]
#[command(next_help_heading = "What is said")]
pub struct Said {
    /// Tokens of a prompt: N, N-M (any of these), or MEAN~DEVIATION; random words
    #[arg(long, value_name = "TOKENS", default_value = "100")]
    pub prompt_tokens: Lengths,
    /// Tokens of an answer, in the same way; exact where the server knows ignore_eos, otherwise the most
    #[arg(long, value_name = "TOKENS", default_value = "48")]
    pub output_tokens: Lengths,
    /// Tokens that all prompts begin with alike, of the above
    #[arg(long, value_name = "TOKENS", default_value_t = 0)]
    pub shared_prefix: u32,
}

/// Clients that misbehave, as shares of the requests. They are reported apart.
#[derive(Debug, Clone, Copy, Args)]
#[command(next_help_heading = "Clients that misbehave")]
pub struct Misbehaving {
    /// Share that reads slowly, with small buffers, an answer that is large
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, conflicts_with = "sweep")]
    pub slow_readers: f64,
    /// Share that hangs up: at a random token, or while it waits
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, conflicts_with = "sweep")]
    pub hang_up: f64,
    /// Share whose bodies are no requests
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, conflicts_with = "sweep")]
    pub bad: f64,
    /// Share with an x-request-timeout-ms of 1 to 300, too short for most answers
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, conflicts_with = "sweep")]
    pub short_timeouts: f64,
}

/// What must be kept.
#[derive(Debug, Args)]
#[command(next_help_heading = "The promise")]
pub struct Promise {
    /// The promise, such as ttft=500ms,itl=60ms,e2e=5s,quantile=0.99; itl is an answer's mean gap between tokens
    #[arg(long, value_name = "BOUNDS")]
    pub slo: Option<Bounds>,
    /// Find the highest rate at which the quantile of all requests keeps the promise, beginning at --rate
    #[arg(long, requires = "slo", conflicts_with_all = ["speedup", "duration"])]
    pub sweep: bool,
    /// After the sweep, run at these multiples of the rate it found
    #[arg(long, value_name = "X,X,…", value_delimiter = ',', default_values_t = [1.0], requires = "sweep")]
    pub multiples: Vec<f64>,
    /// Two rates are told apart when they differ by this share
    #[arg(long, value_name = "SHARE", default_value_t = 0.05, requires = "sweep")]
    pub precision: f64,
    /// The sweep goes no lower than this
    #[arg(long, value_name = "R", default_value_t = 0.01, requires = "sweep")]
    pub min_rate: f64,
    /// The sweep goes no higher than this
    #[arg(long, value_name = "R", default_value_t = 1000.0, requires = "sweep")]
    pub max_rate: f64,
}

/// How it goes about it.
#[derive(Debug, Args)]
#[command(next_help_heading = "The run")]
pub struct RunArgs {
    /// Requests that come before this are sent, and not counted
    #[arg(long, value_name = "DURATION", default_value = "2s")]
    pub warmup: Period,
    /// Longest that a request may take
    #[arg(long, value_name = "DURATION", default_value = "60s")]
    pub timeout: Period,
    /// Longest that a connection may take to come about
    #[arg(long, value_name = "DURATION", default_value = "5s")]
    pub connect_timeout: Period,
    /// Most requests under way; those beyond wait here, which counts as their latency
    #[arg(long, value_name = "N", default_value_t = 1024)]
    pub max_in_flight: usize,
    /// Between two runs
    #[arg(long, value_name = "DURATION", default_value = "1s")]
    pub pause: Period,
    /// Windows of the figures over time in --json
    #[arg(long, value_name = "DURATION", default_value = "30s")]
    pub window: Period,
    /// Process of this machine, the server's, whose memory is read at the end of every window
    #[arg(long, value_name = "PID")]
    pub pid: Option<u32>,
    /// Decides arrivals, lengths, words and classes
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

/// Where requests go.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Endpoint {
    /// `/v1/chat/completions`
    #[default]
    Chat,
    /// `/v1/completions`
    Completions,
}

impl BenchServe {
    /// The bounds on a request's and a connection's time.
    pub fn timeouts(&self) -> (Duration, Duration) {
        (self.run.timeout.0, self.run.connect_timeout.0)
    }
}

const EXAMPLES: &str = "\
Examples:
  plimsoll bench serve http://localhost:8000 --rate 4 --requests 500 --slo ttft=500ms,itl=60ms
  plimsoll bench serve http://localhost:8000 --sweep --slo ttft=500ms,itl=60ms --multiples 1,2,4 --html report.html
  plimsoll bench serve http://localhost:8000 --trace conv.csv --speedup 0.2 --scale-tokens 0.1 --duration 5min
docs/load.md says what each figure means.";
