//! A small workload, and what measuring with it says.
#![allow(dead_code, clippy::unwrap_used, reason = "each test file uses a part, and all of it is test")]

use crate::scripted::connect;
use plimsoll_load::arrivals::{Arrivals, Extent};
use plimsoll_load::lengths::Lengths;
use plimsoll_load::manner::Manners;
use plimsoll_load::record::Record;
use plimsoll_load::target::Target;
use plimsoll_load::workload::{Source, Workload};
use plimsoll_load::{BenchOptions, Client, Report, Stop, bench};
use std::time::Duration;

pub fn workload() -> Workload {
    let source = Source::Process {
        arrivals: Arrivals::Constant,
        prompt: Lengths::Fixed { tokens: 30 },
        output: Lengths::Fixed { tokens: 4 },
    };
    Workload {
        source,
        shared_prefix: 0,
        mix: Vec::new(),
        manners: Manners::default(),
        sessions: None,
        warmup: Duration::ZERO,
        seed: 1,
    }
}

pub fn bench_options(requests: usize, rate: f64) -> BenchOptions {
    BenchOptions {
        workload: workload(),
        extent: Extent::Requests(requests),
        slo: None,
        rates: vec![Some(rate)],
        sweep: None,
        multiples: Vec::new(),
        max_in_flight: 100,
        pause: Duration::ZERO,
        window: Duration::from_secs(30),
        pid: None,
    }
}

pub async fn measure(target: Target, options: &BenchOptions) -> Report {
    let client = connect(target).await.unwrap();
    measure_with(&client, options).await
}

pub async fn measure_with(client: &Client, options: &BenchOptions) -> Report {
    let mut report = Report::new(client, options);
    bench(client, options, &(), &Stop::default(), &mut report).await.unwrap();
    report
}

pub fn by_id(report: &Report) -> Vec<&Record> {
    let mut records: Vec<&Record> = report.runs[0].records.iter().collect();
    records.sort_by_key(|record| (record.id, record.turn));
    records
}
