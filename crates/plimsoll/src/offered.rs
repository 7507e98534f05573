//! What is offered to a server, or to a simulated one: a trace, or requests that are drawn.

use anyhow::ensure;
use clap::Args;
use plimsoll_load::trace::{Scaling, Trace};
use plimsoll_load::workload::Source;
use std::path::PathBuf;

/// A trace to be replayed, for a command that has a `--rate` too.
#[derive(Debug, Args)]
pub struct TraceArgs {
    /// Replay a trace instead: CSV in the layout of Azure's LLM traces or of BurstGPT
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Times as fast as the trace was recorded; --rate instead names the rate itself
    #[arg(long, value_name = "X", requires = "trace", conflicts_with = "rate")]
    pub speedup: Option<f64>,
    /// Keep each request of the trace with this chance
    #[arg(long, value_name = "SHARE", default_value_t = 1.0, requires = "trace")]
    pub keep: f64,
    /// Multiply the trace's prompt and output tokens by this
    #[arg(long, value_name = "X", default_value_t = 1.0, requires = "trace")]
    pub scale_tokens: f64,
}

impl TraceArgs {
    /// Whether a trace is named.
    pub const fn is_named(&self) -> bool {
        self.trace.is_some()
    }

    /// The requests of the trace, if one is named.
    ///
    /// # Errors
    /// When a factor is out of range, or the file is no trace.
    pub fn source(&self) -> anyhow::Result<Option<Source>> {
        let Some(path) = &self.trace else { return Ok(None) };
        let speedup = self.speedup.unwrap_or(1.0);
        ensure!(
            is_factor(speedup) && is_factor(self.scale_tokens),
            "--speedup and --scale-tokens must be above 0"
        );
        ensure!(is_factor(self.keep) && self.keep <= 1.0, "--keep must be above 0 and at most 1");
        let scaling = Scaling { speedup, keep: self.keep, tokens: self.scale_tokens };
        Ok(Some(Source::Trace { trace: Trace::read(path)?, scaling }))
    }
}

/// Whether something can be multiplied by `factor` and remain.
pub fn is_factor(factor: f64) -> bool {
    factor > 0.0 && factor.is_finite()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_out_of_range_are_refused_before_the_file_is_read() {
        let none = TraceArgs { trace: None, speedup: None, keep: 1.0, scale_tokens: 1.0 };
        assert!(none.source().unwrap().is_none());
        let trace = Some(PathBuf::from("no such file"));
        let named =
            |speedup, keep, scale_tokens| TraceArgs { trace: trace.clone(), speedup, keep, scale_tokens };
        for (args, flag) in [
            (named(Some(0.0), 1.0, 1.0), "--speedup"),
            (named(Some(f64::INFINITY), 1.0, 1.0), "--speedup"),
            (named(None, 1.0, -1.0), "--scale-tokens"),
            (named(None, 0.0, 1.0), "--keep"),
            (named(None, 1.5, 1.0), "--keep"),
            (named(None, f64::NAN, 1.0), "--keep"),
            (named(Some(2.0), 0.5, 0.1), "no such file"),
        ] {
            let error = args.source().unwrap_err().to_string();
            assert!(error.contains(flag), "{args:?}: {error}");
        }
    }
}
