//! One HTML page that stands by itself.

use super::Report;
use super::text::{COLUMNS, cells};
use crate::summary::Summary;
use plimsoll_charts::{Axis, Chart, Mark, Page, escape};

pub(super) fn page(report: &Report) -> String {
    let mut page = Page::new("Replicas for a promise");
    if let Some(answer) = report.answer() {
        page.put(format_args!("<p class=\"headline\"><strong>{}</strong></p>", escape(&answer)));
    }
    for (name, text) in [("Profile", &report.profile), ("Load", &report.load), ("Promise", &report.promise)] {
        page.put(format_args!("<p>{name}: {}</p>", escape(text)));
    }
    page.put(format_args!("<table>"));
    page.head(&COLUMNS);
    report.runs.iter().for_each(|run| page.row(&cells(run)));
    page.put(format_args!("</table>"));
    page.charts(&charts(report));
    for note in &report.notes {
        page.put(format_args!("<p class=\"soft\">{}</p>", escape(note)));
    }
    page.end()
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
