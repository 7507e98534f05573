//! What a simulation is told as: a table, a page with charts, JSON.

mod html;
mod text;

use crate::fleet::Spread;
use crate::search::{Search, is_vain};
use crate::summary::Summary;
use plimsoll_sched::Promise;
use serde::Serialize;

/// A simulation and what it was of.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// What the step times are those of.
    pub profile: String,
    /// What was offered, in words.
    pub load: String,
    /// What must be kept, in words.
    pub promise: String,
    /// Share of the requests offered that must keep it.
    pub quantile: f64,
    /// How requests are spread.
    pub spread: Spread,
    /// One for each number of replicas, rising.
    pub runs: Vec<Summary>,
    /// Whether it was asked how many replicas hold the promise.
    pub searched: bool,
    /// The fewest of those tried that hold it.
    pub holds: Option<usize>,
    /// What else should be known.
    pub notes: Vec<String>,
}

impl Report {
    /// Takes in what a search found.
    pub fn take_in(&mut self, search: Search) {
        (self.runs, self.holds, self.searched) = (search.tried, search.holds, true);
    }

    /// One HTML page that stands by itself.
    pub fn html(&self) -> String {
        html::page(self)
    }

    /// What the search says, in a line.
    pub fn answer(&self) -> Option<String> {
        let most = self.runs.last().map_or(0, |run| run.replicas);
        self.searched.then(|| match self.holds {
            Some(1) => "1 replica holds the promise".to_owned(),
            Some(n) => format!("{n} replicas hold the promise"),
            None if is_vain(&self.runs) => {
                format!("no number of replicas holds the promise: {most} bring no more than fewer did, and refuse nobody for want of time")
            }
            None => format!("{most} replicas do not hold the promise; more were not tried (--max-replicas)"),
        })
    }
}

/// A promise in words.
pub fn promised(promise: &Promise) -> String {
    let Promise { ttft, ttft_per_token, itl, e2e, quantile } = *promise;
    let mut words = Vec::new();
    for (name, bound) in [("TTFT", ttft), ("mean ITL", itl), ("E2E", e2e)] {
        words.extend(
            bound.map(|bound| format!("{name} {} ms", plimsoll_charts::short(bound.as_secs_f64() * 1e3))),
        );
    }
    if !ttft_per_token.is_zero() {
        words.push(format!(
            "{} ms more TTFT per token",
            plimsoll_charts::short(ttft_per_token.as_secs_f64() * 1e3)
        ));
    }
    if words.is_empty() {
        return "none: an answer counts when it is complete".to_owned();
    }
    format!("{} for {} % of what is offered", words.join(", "), plimsoll_charts::short(quantile * 100.0))
}
