//! One HTML page that stands by itself.

use super::Report;
use super::text::{COLUMNS, cells};
use crate::summary::Summary;
use plimsoll_charts::{Axis, Chart, Mark, escape};
use std::fmt::Write;

const STYLE: &str = "\
:root{color-scheme:light dark;--page:#fff;--ink:#24292f;--faint:#d8dee4;--soft:#57606a}\
@media(prefers-color-scheme:dark){:root{--page:#0d1117;--ink:#c9d1d9;--faint:#30363d;--soft:#8b949e}}\
body{background:var(--page);color:var(--ink);font:15px/1.5 system-ui,sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem}\
table{border-collapse:collapse;margin:1rem 0;font-variant-numeric:tabular-nums}\
th,td{padding:.2rem .7rem;border-bottom:1px solid var(--faint);text-align:right}\
.soft{color:var(--soft)}.headline{font-size:1.25rem}svg{display:block;margin:1.2rem 0}";

pub(super) fn page(report: &Report) -> String {
    let mut out = String::from("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">");
    out.push_str("<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">");
    out.push_str("<title>Plimsoll: replicas for a promise</title><style>");
    out.push_str(STYLE);
    out.push_str("</style></head><body><h1>Replicas for a promise</h1>");
    if let Some(answer) = report.answer() {
        put(&mut out, format_args!("<p class=\"headline\"><strong>{}</strong></p>", escape(&answer)));
    }
    for (name, text) in [("Profile", &report.profile), ("Load", &report.load), ("Promise", &report.promise)] {
        put(&mut out, format_args!("<p>{name}: {}</p>", escape(text)));
    }
    table(&mut out, &report.runs);
    for chart in charts(report) {
        out.push_str(&chart.svg());
    }
    for note in &report.notes {
        put(&mut out, format_args!("<p class=\"soft\">{}</p>", escape(note)));
    }
    out.push_str("</body></html>\n");
    out
}

/// Writing to a string cannot fail.
fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = out.write_fmt(text);
}

fn table(out: &mut String, runs: &[Summary]) {
    out.push_str("<table><tr>");
    COLUMNS.iter().for_each(|name| put(out, format_args!("<th>{name}</th>")));
    for run in runs {
        out.push_str("</tr><tr>");
        cells(run).iter().for_each(|cell| put(out, format_args!("<td>{cell}</td>")));
    }
    out.push_str("</tr></table>");
}

fn charts(report: &Report) -> [Chart; 2] {
    let line = |of: &dyn Fn(&Summary) -> f64| {
        Mark::Line(report.runs.iter().map(|run| (run.replicas as f64, of(run))).collect())
    };
    let per_second = |run: &Summary, count: usize| count as f64 / run.span.max(1e-9);
    let x = || Axis::new("replicas").from_zero();
    let requests = Chart::new("Requests by replicas", x(), Axis::new("requests per second").from_zero())
        .with("offered", line(&|run| per_second(run, run.offered)))
        .with("in promise (goodput)", line(&|run| run.goodput))
        .with("refused", line(&|run| per_second(run, run.refused())));
    let share = Axis::new("of what was offered").unit("%").from_zero();
    let shares = Chart::new("Share in promise by replicas", x(), share)
        .with("in promise", line(&|run| 100.0 * run.share_of_offered()))
        .with("busy", line(&|run| 100.0 * run.busy))
        .limit("wanted in promise", 100.0 * report.quantile);
    [requests, shares]
}
