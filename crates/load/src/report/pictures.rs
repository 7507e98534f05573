//! The charts of a report.

use super::{RateReport, Report};
use crate::record::{Outcome, Record};
use crate::slo::Slo;
use crate::summary::Summary;
use plimsoll_charts::{Axis, Chart, Mark, Point, Scale, distribution, short};
use std::time::Duration;

/// Bars of a histogram.
const BARS: usize = 40;
/// Stretches of time over which rates are counted.
const STRETCHES: f64 = 60.0;

fn ms(bound: Duration) -> f64 {
    bound.as_secs_f64() * 1e3
}

fn limited(chart: Chart, name: &str, bound: Option<Duration>) -> Chart {
    match bound {
        Some(bound) => chart.limit(format!("{name} promise {} ms", short(ms(bound))), ms(bound)),
        None => chart,
    }
}

/// The charts of one run: by time, by percentile, by count.
pub(super) fn of_run(run: &RateReport, slo: Option<&Slo>) -> Vec<Chart> {
    let measured: Vec<&Record> = run.records.iter().filter(|record| record.counts()).collect();
    let done: Vec<&Record> =
        measured.iter().filter(|record| record.outcome == Outcome::Done).copied().collect();
    if measured.is_empty() {
        return Vec::new();
    }
    vec![first_tokens(&done, slo), rates(&measured, slo), percentiles(&done), histogram(&done)]
}

fn first_tokens(done: &[&Record], slo: Option<&Slo>) -> Chart {
    let axis = Axis::new("TTFT").unit("ms").from_zero();
    let chart = Chart::new("Time to first token, by intended arrival", Axis::new("time").unit("s"), axis);
    let of = |met: bool| -> Vec<Point> {
        let chosen = done.iter().filter(|record| slo.is_none_or(|slo| slo.met_by(record)) == met);
        chosen.filter_map(|record| Some((record.intended, record.ttft_ms()?))).collect()
    };
    let chart = chart.with("in promise", Mark::Dots(of(true))).with("late", Mark::Dots(of(false)));
    limited(chart, "TTFT", slo.and_then(|slo| slo.ttft))
}

fn rates(measured: &[&Record], slo: Option<&Slo>) -> Chart {
    let end = measured.iter().map(|record| record.intended).fold(0.0, f64::max);
    let width = (end / STRETCHES).max(1.0);
    let counted = |chosen: &dyn Fn(&Record) -> bool| {
        let mut counts = vec![0_u32; (end / width) as usize + 2];
        for record in measured.iter().filter(|record| chosen(record)) {
            counts[(record.intended / width) as usize] += 1;
        }
        let point = |(i, count): (usize, &u32)| (i as f64 * width, f64::from(*count) / width);
        Mark::Step(counts.iter().enumerate().map(point).collect())
    };
    let met = |record: &Record| record.outcome == Outcome::Done && slo.is_none_or(|slo| slo.met_by(record));
    let refused = |record: &Record| matches!(record.outcome, Outcome::Refused { .. });
    let axis = Axis::new("requests per second").from_zero();
    Chart::new("What became of requests, by intended arrival", Axis::new("time").unit("s"), axis)
        .with("offered", counted(&|_| true))
        .with("in promise", counted(&met))
        .with("refused", counted(&refused))
        .with("late or failed", counted(&|record| !met(record) && !refused(record)))
}

fn percentiles(done: &[&Record]) -> Chart {
    let curve = |of: &dyn Fn(&Record) -> Option<f64>| {
        distribution::percentiles(&done.iter().filter_map(|record| of(record)).collect::<Vec<_>>())
    };
    let x = Axis::new("percentile").unit("%").scale(Scale::Tail);
    Chart::new("Latency by percentile", x, Axis::new("latency").unit("ms").scale(Scale::Log))
        .with("TTFT", curve(&Record::ttft_ms))
        .with("TPOT (mean gap)", curve(&Record::tpot_ms))
        .with("E2E", curve(&|record| Some(record.e2e_ms())))
}

fn histogram(done: &[&Record]) -> Chart {
    let samples: Vec<f64> = done.iter().filter_map(|record| record.ttft_ms()).collect();
    let x = Axis::new("TTFT").unit("ms");
    Chart::new("Time to first token, by count", x, Axis::new("requests"))
        .with("requests", distribution::histogram(&samples, BARS))
}

/// The charts over rates, when there are several: goodput, share in the promise, tails.
pub(super) fn over_rates(report: &Report) -> Vec<Chart> {
    let mut rates: Vec<&RateReport> = report.trials.iter().chain(&report.runs).collect();
    if rates.len() < 2 {
        return Vec::new();
    }
    rates.sort_by(|a, b| a.summary.offered_rate.total_cmp(&b.summary.offered_rate));
    // What was cut short says "too much", and no figures.
    let whole: Vec<&RateReport> = rates.iter().filter(|rate| !rate.cut_short).copied().collect();
    let points = |of: &dyn Fn(&Summary) -> Option<f64>| -> Vec<Point> {
        let point =
            |rate: &&RateReport| Some((rate.rate.unwrap_or(rate.summary.offered_rate), of(&rate.summary)?));
        whole.iter().filter_map(point).collect()
    };
    let x = || Axis::new("offered").unit("requests/s").from_zero();
    let slo = report.setting.slo;
    let p99 = |spread: Option<crate::percentile::Spread>| spread.map(|spread| spread.p99);
    let goodput = Chart::new("Goodput by rate", x(), Axis::new("in promise").unit("requests/s").from_zero())
        .with("goodput", Mark::Line(points(&|summary| Some(summary.goodput))));
    let share = Chart::new("Share in the promise by rate", x(), Axis::new("share").unit("%").from_zero())
        .with("of offered", Mark::Line(points(&|summary| Some(summary.attainment_offered * 100.0))))
        .with(
            "of accepted",
            Mark::Line(points(&|summary| summary.attainment_accepted.map(|share| share * 100.0))),
        );
    let share = match slo {
        Some(slo) => share.limit("promise", slo.quantile * 100.0),
        None => share,
    };
    let ttft = Chart::new("TTFT p99 by rate", x(), Axis::new("TTFT p99").unit("ms").scale(Scale::Log))
        .with("TTFT p99", Mark::Line(points(&|summary| p99(summary.ttft_ms))));
    let gaps = Chart::new("Mean gap p99 by rate", x(), Axis::new("TPOT p99").unit("ms").from_zero())
        .with("TPOT p99", Mark::Line(points(&|summary| p99(summary.tpot_ms))));
    let ttft = limited(ttft, "TTFT", slo.and_then(|slo| slo.ttft));
    vec![goodput, share, ttft, limited(gaps, "ITL", slo.and_then(|slo| slo.itl))]
}
