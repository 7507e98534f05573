//! The report on a terminal.

use super::{RateReport, Report};
use crate::percentile::Spread;
use crate::prompts::CalibratedBy;
use crate::summary::{Summary, TokensBy};
use plimsoll_charts::short;
use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

impl RateReport {
    /// The rate in one line.
    pub fn line(&self) -> String {
        let Summary { offered, goodput, attainment_offered, ref ttft_ms, ref tpot_ms, .. } = self.summary;
        let p99 = |spread: &Option<Spread>| spread.map_or_else(|| "–".to_owned(), |spread| short(spread.p99));
        format!(
            "{}{}: {offered} offered, {} % in promise, goodput {}/s, p99 TTFT {} ms, mean gap {} ms",
            self.title(),
            self.mark(),
            short(attainment_offered * 100.0),
            short(goodput),
            p99(ttft_ms),
            p99(tpot_ms),
        )
    }

    /// What a reader must know of a rate that is not whole.
    pub(super) fn mark(&self) -> &'static str {
        if self.cut_short { " (cut short)" } else { "" }
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let setting = &self.setting;
        writeln!(f, "{} at {}{}", setting.model, setting.url, setting.endpoint.path())?;
        if let Some(slo) = &setting.slo {
            writeln!(f, "promise: {slo}")?;
        }
        for note in notes(self) {
            writeln!(f, "note: {note}")?;
        }
        if let Some(sweep) = &self.sweep {
            match sweep.highest {
                Some(rate) if sweep.open_ended => {
                    writeln!(
                        f,
                        "highest rate in the promise: at least {} requests/s, the most allowed",
                        short(rate)
                    )?;
                }
                Some(rate) => writeln!(f, "highest rate in the promise: {} requests/s", short(rate))?,
                None => writeln!(f, "no rate that was tried is in the promise")?,
            }
        }
        self.runs.iter().try_for_each(|run| write!(f, "\n{run}"))
    }
}

impl Display for RateReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}{}", self.title(), self.mark())?;
        figures(f, &self.summary)?;
        for (name, summary) in &self.classes {
            writeln!(f, "  class {name}")?;
            figures(f, summary)?;
        }
        for (manner, ends) in &self.misbehaved {
            writeln!(f, "  {}: {}", manner.name(), ended(ends))?;
        }
        for message in &self.messages {
            writeln!(f, "  said: {message}")?;
        }
        let generator = self.generator;
        let share = short(generator.cores() * 100.0);
        writeln!(
            f,
            "  load generator: {} s of processor time in {} s, {share} % of a core",
            short(generator.cpu_seconds),
            short(generator.wall_seconds)
        )
    }
}

/// How those ended who misbehave.
pub(super) fn ended(ends: &BTreeMap<String, usize>) -> String {
    let ends: Vec<String> = ends.iter().map(|(end, count)| format!("{end} {count}")).collect();
    ends.join(", ")
}

fn figures(f: &mut Formatter<'_>, summary: &Summary) -> fmt::Result {
    let percent = |share: f64| format!("{} %", short(share * 100.0));
    writeln!(
        f,
        "  offered {} ({}/s), goodput {}/s, in promise {} of offered{}",
        summary.offered,
        short(summary.offered_rate),
        short(summary.goodput),
        percent(summary.attainment_offered),
        summary
            .attainment_accepted
            .map(|share| format!(", {} of accepted", percent(share)))
            .unwrap_or_default(),
    )?;
    let outcomes: Vec<String> =
        summary.outcomes.named().iter().map(|(name, count)| format!("{} {count}", name.trim())).collect();
    writeln!(f, "  outcomes: {}", outcomes.join(", "))?;
    writeln!(f, "  {:<26}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}", "", "p50", "p90", "p95", "p99", "p99.9", "max")?;
    for (name, spread) in spreads(summary) {
        let Spread { p50, p90, p95, p99, p999, max, .. } = spread;
        write!(f, "  {name:<26}")?;
        [p50, p90, p95, p99, p999, max].iter().try_for_each(|value| write!(f, "{:>9}", short(*value)))?;
        writeln!(f)?;
    }
    writeln!(f, "  {} tokens/s answered", short(summary.output_tokens_per_second))
}

/// The distributions of a summary, with names, without those that are empty.
pub(super) fn spreads(summary: &Summary) -> Vec<(&'static str, Spread)> {
    let all = [
        ("TTFT, ms", summary.ttft_ms),
        ("TPOT (mean gap), ms", summary.tpot_ms),
        ("ITL (each gap), ms", summary.itl_ms),
        ("E2E, ms", summary.e2e_ms),
        ("refused after, ms", summary.refusal_ms),
        ("retry-after, ms", summary.retry_after_ms),
        ("sent late by, ms", summary.lag_ms),
        ("prompt tokens", summary.prompt_tokens),
        ("output tokens", summary.output_tokens),
    ];
    all.into_iter().filter_map(|(name, spread)| Some((name, spread?))).collect()
}

/// Lag at the 99th percentile from which the figures are in doubt.
const LATE_MS: f64 = 20.0;

/// What a reader must know before believing the figures.
pub(super) fn notes(report: &Report) -> Vec<String> {
    let mut notes = Vec::new();
    let setting = &report.setting;
    if !setting.dialect.ignore_eos {
        notes.push("the server does not know ignore_eos: answers may be shorter than asked for".to_owned());
    }
    match setting.calibration.by {
        CalibratedBy::Usage => {}
        CalibratedBy::Tokenize => {
            notes.push("prompt lengths are by /tokenize, without the chat template".to_owned())
        }
        CalibratedBy::Assumed => {
            notes.push("the server does not count tokens: a prompt's word was taken for a token".to_owned());
        }
    }
    let all = || report.trials.iter().chain(&report.runs);
    let by = |wanted| all().any(|rate| rate.summary.tokens_by == Some(wanted));
    if by(TokensBy::Chunks) || by(TokensBy::Mixed) {
        notes.push("without usage from the server, events with text were counted as tokens".to_owned());
    }
    let late = |rate: &RateReport| rate.summary.lag_ms.is_some_and(|lag| lag.p99 > LATE_MS);
    if all().any(late) {
        notes.push(format!(
            "requests were sent more than {LATE_MS} ms late: this machine, or --max-in-flight, was the limit"
        ));
    }
    notes
}
