//! The table on a terminal.

use super::Report;
use crate::summary::Summary;
use plimsoll_charts::percentile::Spread;
use plimsoll_charts::short;
use std::fmt;

/// The columns, and what a run has in each.
pub(super) const COLUMNS: [&str; 12] = [
    "replicas",
    "offered/s",
    "goodput/s",
    "in promise %",
    "of accepted %",
    "refused %",
    "late",
    "expired",
    "TTFT p50 ms",
    "TTFT p99 ms",
    "mean gap p99 ms",
    "busy %",
];

pub(super) fn cells(run: &Summary) -> [String; 12] {
    let share = |count: usize| short(100.0 * count as f64 / run.offered.max(1) as f64);
    let of = |spread: Option<Spread>, at: fn(Spread) -> f64| {
        spread.map_or_else(|| "–".to_owned(), |spread| short(at(spread)))
    };
    [
        run.replicas.to_string(),
        short(run.offered as f64 / run.span.max(1e-9)),
        short(run.goodput),
        share(run.in_promise),
        run.share_of_accepted().map_or_else(|| "–".to_owned(), |share| short(100.0 * share)),
        share(run.refused()),
        run.late.to_string(),
        run.expired.to_string(),
        of(run.ttft_ms, |spread| spread.p50),
        of(run.ttft_ms, |spread| spread.p99),
        of(run.gap_ms, |spread| spread.p99),
        short(100.0 * run.busy),
    ]
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "profile  {}\nload     {}\npromise  {}\n", self.profile, self.load, self.promise)?;
        let rows: Vec<[String; 12]> = self.runs.iter().map(cells).collect();
        let widths: Vec<usize> = (0..COLUMNS.len())
            .map(|i| {
                rows.iter().map(|row| row[i].chars().count()).chain([COLUMNS[i].len()]).max().unwrap_or(0)
            })
            .collect();
        let line = |f: &mut fmt::Formatter<'_>, cells: &mut dyn Iterator<Item = &str>| {
            let padded: Vec<_> = cells.zip(&widths).map(|(cell, width)| format!("{cell:>width$}")).collect();
            writeln!(f, "{}", padded.join("  "))
        };
        line(f, &mut COLUMNS.into_iter())?;
        for row in &rows {
            line(f, &mut row.iter().map(String::as_str))?;
        }
        for run in &self.runs {
            if let Some(share) = run.share_within_predicted().filter(|_| self.runs.len() == 1) {
                writeln!(
                    f,
                    "\nfirst tokens within the time predicted at the door: {} %",
                    short(100.0 * share)
                )?;
            }
        }
        for text in self.answer().iter().chain(&self.notes) {
            writeln!(f, "\n{text}")?;
        }
        Ok(())
    }
}
