//! One HTML page that stands by itself.

use super::text::{ended, notes, spreads};
use super::{RateReport, Report, pictures};
use crate::percentile::Spread;
use crate::summary::Summary;
use plimsoll_charts::{Page, escape, short};

pub(super) fn page(report: &Report) -> String {
    let setting = &report.setting;
    let title = format!("{} under load", setting.model);
    let mut page = Page::new(&title);
    let place = format!("{}{}", setting.url, setting.endpoint.path());
    page.put(format_args!("<p class=\"soft\">{}</p>", escape(&place)));
    if let Some(slo) = &setting.slo {
        page.put(format_args!("<p>Promise: {}</p>", escape(&slo.to_string())));
    }
    for note in notes(report) {
        page.put(format_args!("<p class=\"soft\">Note: {}</p>", escape(&note)));
    }
    found(&mut page, report);
    if report.trials.len() + report.runs.len() > 1 {
        overview(&mut page, report);
    }
    for run in &report.runs {
        one_run(&mut page, report, run);
    }
    let workload = serde_json::to_string_pretty(&setting.workload).unwrap_or_default();
    page.put(format_args!("<h2>Workload</h2><pre>{}</pre>", escape(&workload)));
    page.end()
}

fn found(page: &mut Page, report: &Report) {
    let Some(sweep) = &report.sweep else { return };
    let words = match sweep.highest {
        Some(rate) if sweep.open_ended => format!("at least {} requests/s", short(rate)),
        Some(rate) => format!("{} requests/s", short(rate)),
        None => "none of those tried".to_owned(),
    };
    page.put(format_args!("<p class=\"headline\">Highest rate in the promise: <strong>{words}</strong></p>"));
}

fn overview(page: &mut Page, report: &Report) {
    page.put(format_args!("<h2>By rate</h2><table>"));
    page.head(&[
        "requests/s",
        "offered",
        "in promise, % of offered",
        "% of accepted",
        "goodput/s",
        "refused",
        "TTFT p99, ms",
        "TPOT p99, ms",
    ]);
    for rate in report.trials.iter().chain(&report.runs) {
        let Summary { offered, goodput, ref outcomes, ttft_ms, tpot_ms, .. } = rate.summary;
        let p99 = |spread: Option<Spread>| spread.map_or_else(|| "–".to_owned(), |spread| short(spread.p99));
        let accepted =
            rate.summary.attainment_accepted.map_or_else(|| "–".to_owned(), |share| short(share * 100.0));
        let cells = [
            short(rate.rate.unwrap_or(rate.summary.offered_rate)) + rate.mark(),
            offered.to_string(),
            short(rate.summary.attainment_offered * 100.0),
            accepted,
            short(goodput),
            outcomes.refused.to_string(),
            p99(ttft_ms),
            p99(tpot_ms),
        ];
        page.row(&cells);
    }
    page.put(format_args!("</table>"));
    page.charts(&pictures::over_rates(report));
}

fn one_run(page: &mut Page, report: &Report, run: &RateReport) {
    page.put(format_args!("<h2>{}</h2>", escape(&run.title())));
    figures(page, &run.summary);
    for (name, summary) in &run.classes {
        page.put(format_args!("<h3>Class {}</h3>", escape(name)));
        figures(page, summary);
    }
    for (manner, ends) in &run.misbehaved {
        let words = format!("{}: {}", manner.name(), ended(ends));
        page.put(format_args!("<p class=\"soft\">{}</p>", escape(&words)));
    }
    for message in &run.messages {
        page.put(format_args!("<p class=\"soft\">Said: {}</p>", escape(message)));
    }
    page.charts(&pictures::of_run(run, report.setting.slo.as_ref()));
    let cores = short(run.generator.cores() * 100.0);
    page.put(format_args!("<p class=\"soft\">The load generator took {cores} % of a core.</p>"));
}

fn figures(page: &mut Page, summary: &Summary) {
    let (goodput, share) = (short(summary.goodput), short(summary.attainment_offered * 100.0));
    page.put(format_args!(
        "<p class=\"headline\">Goodput <strong>{goodput}</strong> requests/s, {share} % of offered in promise"
    ));
    if let Some(share) = summary.attainment_accepted {
        page.put(format_args!(", {} % of accepted", short(share * 100.0)));
    }
    page.put(format_args!("; {} tokens/s</p><table>", short(summary.output_tokens_per_second)));
    page.row(&["offered".to_owned(), summary.offered.to_string()]);
    for (name, count) in summary.outcomes.named() {
        page.row(&[name, count.to_string()]);
    }
    page.put(format_args!("</table><table>"));
    page.head(&["", "mean", "p50", "p90", "p95", "p99", "p99.9", "max"]);
    for (name, Spread { mean, p50, p90, p95, p99, p999, max, .. }) in spreads(summary) {
        let mut cells = vec![name.to_owned()];
        cells.extend([mean, p50, p90, p95, p99, p999, max].map(short));
        page.row(&cells);
    }
    page.put(format_args!("</table>"));
}
