//! The one binary: command line and configuration. What it starts is in the crates below.
//!
//! Never here: logic. A command reads its configuration, puts the parts together and hands over.
//!
//! - [`cli`]: the shape of the command line. [`config`]: keys from flags, environment and file, validated.
//! - [`load`]: from a source to an engine with its text side. [`pull`]: the cache of models. [`progress`]: the
//!   bar of all that take long.
//! - [`serve`], with [`banner`] and [`signals`]; [`chat`] for `run`; [`bench`]; [`tune`], [`simulate`] and their [`profile`].
//! - [`offered`]: what `bench serve` and `simulate` have in common on the command line.

mod banner;
mod bench;
mod beside;
mod chat;
mod cli;
mod compute;
mod config;
mod file_size;
mod load;
mod offered;
mod profile;
mod progress;
mod pull;
mod report_files;
mod serve;
mod signals;
mod simulate;
mod tune;
mod with_parent;

use anyhow::{Context, bail};
use clap::Parser;
use cli::{Bench, Cli, Command, Serve};
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read our output has read enough.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            // Nobody may be there to read it: a panic would say something else with its status.
            writeln!(std::io::stderr(), "plimsoll: {error:#}").ok();
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> anyhow::Result<()> {
    // The first two have an end of their own: what runs is finished, or what was measured is written. The third becomes pip.
    if !matches!(command, Command::Serve(_) | Command::Bench(Bench::Serve(_)) | Command::WithParent(_)) {
        signals::end_after_pulls().context("cannot catch signals")?;
    }
    match command {
        Command::Serve(command) => serve(command),
        Command::Run(command) => chat::run(&command),
        Command::Pull(command) => {
            let path = pull::pull(&command.source)?;
            Ok(writeln!(std::io::stdout(), "{}", path.display())?)
        }
        Command::Models => pull::list(&mut std::io::stdout()),
        Command::Bench(Bench::Engine(command)) => bench::engine(&command),
        Command::Bench(Bench::Serve(command)) => bench::serve::run(&command),
        Command::Tune(command) => tune::run(&command),
        Command::Simulate(command) => simulate::run(&command),
        Command::WithParent(command) => command.run(),
    }
}

fn serve(command: Serve) -> anyhow::Result<()> {
    if let Some((flag, message)) = command.planned() {
        bail!("--{flag}: {message}");
    }
    serve::serve(config::server(&command.wanted(), command.server.clone())?)
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io = error.downcast_ref::<std::io::Error>();
    io.is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}
