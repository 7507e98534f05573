//! The one binary: command line and configuration.

mod cli;
mod config;

use clap::Parser;

fn main() {
    drop(cli::Cli::parse());
}
