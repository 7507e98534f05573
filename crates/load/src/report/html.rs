//! One HTML page that stands by itself.

use super::text::{ended, notes, spreads};
use super::{RateReport, Report, pictures};
use crate::percentile::Spread;
use crate::summary::Summary;
use plimsoll_charts::{Chart, escape, short};
use std::fmt::Write;

const STYLE: &str = "\
:root{color-scheme:light dark;--page:#fff;--ink:#24292f;--faint:#d8dee4;--soft:#57606a}\
@media(prefers-color-scheme:dark){:root{--page:#0d1117;--ink:#c9d1d9;--faint:#30363d;--soft:#8b949e}}\
body{background:var(--page);color:var(--ink);font:15px/1.5 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem}\
table{border-collapse:collapse;margin:1rem 0;font-variant-numeric:tabular-nums}\
th,td{padding:.2rem .8rem;border-bottom:1px solid var(--faint);text-align:right}\
th:first-child,td:first-child{text-align:left}\
h2{margin-top:2.5rem}.note,.soft{color:var(--soft)}.headline{font-size:1.25rem}svg{display:block;margin:1.2rem 0}";

pub(super) fn page(report: &Report) -> String {
    let setting = &report.setting;
    let title = format!("{} under load", setting.model);
    let mut out = String::from("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">");
    out.push_str("<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">");
    put(&mut out, format_args!("<title>{}</title><style>{STYLE}</style></head><body>", escape(&title)));
    put(&mut out, format_args!("<h1>{}</h1>", escape(&title)));
    let place = format!("{}{}", setting.url, setting.endpoint.path());
    put(&mut out, format_args!("<p class=\"soft\">{}</p>", escape(&place)));
    if let Some(slo) = &setting.slo {
        put(&mut out, format_args!("<p>Promise: {}</p>", escape(&slo.to_string())));
    }
    for note in notes(report) {
        put(&mut out, format_args!("<p class=\"note\">Note: {}</p>", escape(&note)));
    }
    found(&mut out, report);
    if report.trials.len() + report.runs.len() > 1 {
        overview(&mut out, report);
    }
    for run in &report.runs {
        one_run(&mut out, report, run);
    }
    let workload = serde_json::to_string_pretty(&setting.workload).unwrap_or_default();
    put(&mut out, format_args!("<h2>Workload</h2><pre>{}</pre></body></html>\n", escape(&workload)));
    out
}

/// Writing to a string cannot fail.
fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = out.write_fmt(text);
}

fn found(out: &mut String, report: &Report) {
    let Some(sweep) = &report.sweep else { return };
    let words = match sweep.highest {
        Some(rate) if sweep.open_ended => format!("at least {} requests/s", short(rate)),
        Some(rate) => format!("{} requests/s", short(rate)),
        None => "none of those tried".to_owned(),
    };
    put(out, format_args!("<p class=\"headline\">Highest rate in the promise: <strong>{words}</strong></p>"));
}

fn charts(out: &mut String, charts: &[Chart]) {
    charts.iter().for_each(|chart| out.push_str(&chart.svg()));
}

fn overview(out: &mut String, report: &Report) {
    out.push_str(
        "<h2>By rate</h2><table><tr><th>requests/s</th><th>offered</th><th>in promise, % of offered</th>",
    );
    out.push_str("<th>% of accepted</th><th>goodput/s</th><th>refused</th><th>TTFT p99, ms</th><th>TPOT p99, ms</th></tr>");
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
        row(out, &cells);
    }
    out.push_str("</table>");
    charts(out, &pictures::over_rates(report));
}

fn row(out: &mut String, cells: &[String]) {
    out.push_str("<tr>");
    cells.iter().for_each(|cell| put(out, format_args!("<td>{}</td>", escape(cell))));
    out.push_str("</tr>");
}

fn one_run(out: &mut String, report: &Report, run: &RateReport) {
    put(out, format_args!("<h2>{}</h2>", escape(&run.title())));
    figures(out, &run.summary);
    for (name, summary) in &run.classes {
        put(out, format_args!("<h3>Class {}</h3>", escape(name)));
        figures(out, summary);
    }
    for (manner, ends) in &run.misbehaved {
        let words = format!("{}: {}", manner.name(), ended(ends));
        put(out, format_args!("<p class=\"note\">{}</p>", escape(&words)));
    }
    for message in &run.messages {
        put(out, format_args!("<p class=\"note\">Said: {}</p>", escape(message)));
    }
    charts(out, &pictures::of_run(run, report.setting.slo.as_ref()));
    let cores = short(run.generator.cores() * 100.0);
    put(out, format_args!("<p class=\"soft\">The load generator took {cores} % of a core.</p>"));
}

fn figures(out: &mut String, summary: &Summary) {
    let (goodput, share) = (short(summary.goodput), short(summary.attainment_offered * 100.0));
    put(
        out,
        format_args!(
            "<p class=\"headline\">Goodput <strong>{goodput}</strong> requests/s, {share} % of offered in promise"
        ),
    );
    if let Some(share) = summary.attainment_accepted {
        put(out, format_args!(", {} % of accepted", short(share * 100.0)));
    }
    put(out, format_args!("; {} tokens/s</p><table>", short(summary.output_tokens_per_second)));
    row(out, &["offered".to_owned(), summary.offered.to_string()]);
    for (name, count) in summary.outcomes.named() {
        row(out, &[name, count.to_string()]);
    }
    out.push_str("</table><table><tr><th></th><th>mean</th><th>p50</th><th>p90</th><th>p95</th><th>p99</th><th>p99.9</th>");
    out.push_str("<th>max</th></tr>");
    for (name, Spread { mean, p50, p90, p95, p99, p999, max, .. }) in spreads(summary) {
        let mut cells = vec![name.to_owned()];
        cells.extend([mean, p50, p90, p95, p99, p999, max].map(short));
        row(out, &cells);
    }
    out.push_str("</table>");
}
