//! `tune`: what a model's steps cost on this machine, into a profile.

use crate::cli::Tune;
use crate::compute::Compute;
use crate::load::Engines;
use crate::profile::{self, Lane, Subject};
use crate::progress::TerminalProgress;
use crate::{config, load};
use anyhow::{Context, anyhow, ensure};
use plimsoll_runtime::Measured;
use plimsoll_runtime::tune::{GROWTH, KNEE_DEPTH, Knee, Scan, Tuned, tune};
use plimsoll_sched::measured::QUANTILES;
use std::fmt;
use std::io::Write;
use std::time::Duration;

/// Batches up to so many times the configured one are measured, or the knee may lie beyond.
const WIDER: usize = 2;
const TIME: std::ops::RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(3600);

/// Runs `tune`.
pub fn run(command: &Tune) -> anyhow::Result<()> {
    ensure!(TIME.contains(&command.time.0), "--time must be from 1s to 1h");
    let (compute, model) = config::single(&command.wanted())?;
    ensure!(
        model.profile.is_none(),
        "tune makes a profile; --out says where, and --profile has no part in it"
    );
    let compute = Compute::new(compute)?;
    let Engines { path, mut engine, options } = load::wider(&model, &compute, WIDER)?;
    let subject = Subject { path: &path, compute: &compute, kv_type: model.kv_type };
    let place = command.out.clone().map_or_else(|| subject.usual_place(), Ok)?;
    // Before the scan: nobody wants to learn afterwards that it cannot be kept.
    profile::prepare(&place)?;
    let scan = Scan { max_seqs: options.max_seqs, time: command.time.0 };
    let bar = TerminalProgress::default();
    let mut begun = false;
    let mut progress = |done: usize, of: usize| {
        if !begun {
            bar.count(&format!("tune {}", model.name), of);
            begun = true;
        }
        bar.counted(done);
    };
    let tuned = tune(&mut engine, &scan, &mut progress).map_err(|why| anyhow!(why));
    bar.done();
    let tuned = tuned.with_context(|| format!("cannot tune the model `{}`", model.name))?;
    let lane = Lane {
        max_seqs: model.max_seqs,
        max_rows: options.max_rows,
        context: options.context,
        kv_blocks: options.blocks,
    };
    let profile = profile::of(&subject, &tuned, lane);
    // What nobody could read is not written.
    profile.measured().context("the machine was too busy to measure on; try again when it is idle")?;
    profile.write(&place)?;
    let mut out = std::io::stdout();
    writeln!(out, "{}\n\n{}", profile.title(), Table(&tuned))?;
    Ok(writeln!(out, "written to {}", place.display())?)
}

struct Table<'a>(&'a Tuned);

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tuned { measured, timed, knee, skipped } = self.0;
        writeln!(f, "decodes   depth  prefill   start   median ms   fitted ms   tokens/s")?;
        for timed in timed {
            let probe = timed.probe;
            let (took, fitted) = (timed.took.as_secs_f64(), measured.rates.seconds(probe.load()));
            let rate = (probe.decodes + probe.prefill) as f64 / took.max(1e-9);
            writeln!(
                f,
                "{:>7} {:>7} {:>8} {:>7} {:>11.2} {:>11.2} {rate:>10.0}",
                probe.decodes,
                probe.depth,
                probe.prefill,
                probe.start,
                took * 1e3,
                fitted * 1e3
            )?;
        }
        if *skipped > 0 {
            writeln!(f, "no time for {skipped} larger shapes; --time allows more")?;
        }
        costs(f, measured)?;
        write_knee(f, *knee)
    }
}

fn write_knee(f: &mut fmt::Formatter<'_>, knee: Knee) -> fmt::Result {
    let Knee { batch, tokens_per_second, is_reached } = knee;
    let (least, growth) = (if is_reached { "" } else { "at least " }, GROWTH * 100.0);
    write!(
        f,
        "knee      {least}{batch} sequences, {tokens_per_second:.0} tokens/s after {KNEE_DEPTH} tokens: "
    )?;
    if is_reached {
        writeln!(f, "twice as many bring less than {growth:.0} % more")
    } else {
        writeln!(
            f,
            "up to there twice as many bring {growth:.0} % more and above, and no larger batch was measured"
        )
    }
}

fn costs(f: &mut fmt::Formatter<'_>, measured: &Measured) -> fmt::Result {
    let rates = measured.rates;
    writeln!(
        f,
        "\na step    {:.3} ms, and {:.4} ms per prefill token, {:.4} ms per decode, {:.6} ms per token of KV cache read",
        rates.base * 1e3,
        rates.prefill * 1e3,
        rates.decode * 1e3,
        rates.kv * 1e3
    )?;
    write!(f, "off by   ")?;
    for (q, ratio) in QUANTILES.iter().zip(measured.residuals) {
        write!(f, " p{:.1}: {ratio:.2}", q * 100.0)?;
    }
    writeln!(f, " times the fit")
}
