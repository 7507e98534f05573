//! What is told of an experiment, and the verdict. `docs/experiments.md` explains the fields.

use crate::bootstrap::{self, Estimate, FIGURES, FIRST_TIME, GOODPUT, IN_PROMISE, QUANTILES};
use crate::design::{Design, Measure, Unit};
use crate::log::Rounds;
use crate::tally::{Counts, KEPT, LATE, LOST, REFUSED};
use serde::Serialize;

/// Rounds and requests of an arm below which nothing is said.
const LEAST_ROUNDS: usize = 8;
const LEAST_REQUESTS: u64 = 50;
const RESAMPLES: usize = 1000;

/// What is known of an experiment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// What it is called.
    pub name: String,
    /// The model whose lane it is on.
    pub model: String,
    /// What varies.
    pub vary: String,
    /// What an arm is given to.
    pub unit: Unit,
    /// What the verdicts go by.
    pub measure: Measure,
    /// Its seed.
    pub seed: u64,
    /// How long blocks are in the mean.
    pub block_seconds: f64,
    /// How much of each is not counted.
    pub wash_out_seconds: f64,
    /// The arm in force on the lane; none where each request has its own.
    pub in_force: Option<String>,
    /// Rounds that are counted: what is resampled.
    pub rounds: usize,
    /// Blocks that are counted.
    pub blocks: usize,
    /// Blocks that have not ended, or whose requests have not.
    pub open_blocks: usize,
    /// Blocks that are kept; older ones are forgotten.
    pub most_blocks: usize,
    /// The first is the one that the others are compared with.
    pub arms: Vec<ArmReport>,
}

/// What is known of an arm.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ArmReport {
    /// What it is called.
    pub name: String,
    /// Its share, in proportion to the sum of all.
    pub weight: u32,
    /// Blocks that are counted.
    pub blocks: u64,
    /// Their time, without the wash-outs.
    pub seconds: f64,
    /// Requests that came.
    pub offered: u64,
    /// Of those, let in.
    pub accepted: u64,
    /// Of those offered, turned away at the door.
    pub refused: u64,
    /// Of those accepted, answered within the promise.
    pub in_promise: u64,
    /// Answered, not within the promise.
    pub late: u64,
    /// Not answered whole.
    pub lost: u64,
    /// Its figures.
    #[serde(flatten)]
    pub figures: Figures,
    /// How it compares; `None` for the first.
    pub against_first: Option<Comparison>,
}

/// How an arm compares with the first.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// By the measure of the experiment.
    pub verdict: Verdict,
    /// The difference that it goes by: this arm's less the first's.
    pub difference: Option<Interval>,
    /// All differences.
    pub differences: Figures,
}

/// What the figures show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The interval of the difference has better in it alone.
    Better,
    /// Worse alone.
    Worse,
    /// It has 0 in it.
    NoDifferenceShown,
    /// Fewer than 8 rounds with both arms, or than 50 requests of one.
    TooLittleData,
}

/// The figures of an arm, or their differences. What nobody has measured is `None`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figures {
    /// Requests in promise per second of counted time.
    pub goodput: Option<Interval>,
    /// Share of the offered that was in promise.
    pub share_in_promise: Option<Interval>,
    /// From arrival to the first token.
    pub ttft_seconds: Quantiles,
    /// The mean gap between an answer's tokens.
    pub itl_seconds: Quantiles,
    /// From arrival to the last token.
    pub e2e_seconds: Quantiles,
}

/// Percentiles of answers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Quantiles {
    /// The median.
    pub p50: Option<Interval>,
    /// The 95th.
    pub p95: Option<Interval>,
    /// The 99th.
    pub p99: Option<Interval>,
}

/// A number, and where it is with a confidence of 95 %.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interval {
    /// The number.
    pub value: f64,
    /// Where the interval begins; `None`: there are too few rounds to say.
    pub low: Option<f64>,
    /// Where it ends.
    pub high: Option<f64>,
}

/// Whose experiment it is, and what is in force.
#[derive(Debug, Clone)]
pub struct About {
    /// The model whose lane it is on.
    pub model: String,
    /// What varies.
    pub vary: String,
    /// The arm in force on the lane.
    pub in_force: Option<usize>,
}

impl Report {
    /// What `rounds` show.
    pub fn new(design: &Design, about: About, rounds: &Rounds) -> Self {
        let arms = design.arms.len();
        let estimates = (!rounds.rows.is_empty()).then(|| {
            bootstrap::estimate(&rounds.rows, arms, if rounds.rows.len() > 1 { RESAMPLES } else { 1 })
        });
        let arm = |i: usize| {
            let sums = Sums::of(&rounds.rows, i);
            let figures = estimates.as_ref().map(|all| &all.arms[i]);
            let differences = estimates.as_ref().map(|all| &all.differences[i]).filter(|_| i > 0);
            ArmReport {
                name: design.arms[i].name.clone(),
                weight: design.arms[i].weight,
                figures: Figures::new(figures, has_intervals(&rounds.rows, i)),
                against_first: differences
                    .map(|found| compare(design, &rounds.rows, i, found))
                    .or((i > 0).then(unknown)),
                ..sums.report()
            }
        };
        Self {
            name: design.name.clone(),
            model: about.model,
            vary: about.vary,
            unit: design.unit,
            measure: design.measure,
            seed: design.seed,
            block_seconds: design.block.as_secs_f64(),
            wash_out_seconds: if design.unit == Unit::Lane { design.wash_out.as_secs_f64() } else { 0.0 },
            in_force: about.in_force.and_then(|arm| Some(design.arms.get(arm)?.name.clone())),
            rounds: rounds.rows.len(),
            blocks: rounds.counted,
            open_blocks: rounds.open,
            most_blocks: design.keep,
            arms: (0..arms).map(arm).collect(),
        }
    }
}

/// All that an arm had.
struct Sums {
    blocks: u64,
    seconds: f64,
    requests: [u64; 4],
}

impl Sums {
    fn of(rows: &[Vec<Counts>], arm: usize) -> Self {
        let mut sums = Self { blocks: 0, seconds: 0.0, requests: [0; 4] };
        for counts in rows.iter().map(|row| &row[arm]) {
            sums.blocks += counts.blocks;
            sums.seconds += counts.seconds;
            sums.requests.iter_mut().zip(counts.requests).for_each(|(sum, more)| *sum += more);
        }
        sums
    }

    fn report(&self) -> ArmReport {
        let [in_promise, late, refused, lost] = [KEPT, LATE, REFUSED, LOST].map(|which| self.requests[which]);
        ArmReport {
            name: String::new(),
            weight: 0,
            blocks: self.blocks,
            seconds: self.seconds,
            offered: in_promise + late + refused + lost,
            accepted: in_promise + late + lost,
            refused,
            in_promise,
            late,
            lost,
            figures: Figures::new(None, false),
            against_first: None,
        }
    }
}

/// Whether so much is known of an arm that its scatter is.
fn has_intervals(rows: &[Vec<Counts>], arm: usize) -> bool {
    rows.iter().filter(|row| row[arm].offered() > 0).count() >= LEAST_ROUNDS
}

fn compare(design: &Design, rows: &[Vec<Counts>], arm: usize, found: &[Estimate; FIGURES]) -> Comparison {
    let both = rows.iter().filter(|row| row[0].offered() > 0 && row[arm].offered() > 0).count();
    let requests = |arm: usize| rows.iter().map(|row| row[arm].offered()).sum::<u64>();
    let is_known = both >= LEAST_ROUNDS && requests(0).min(requests(arm)) >= LEAST_REQUESTS;
    let (figure, more_is_better) = match design.measure {
        Measure::Goodput => (GOODPUT, true),
        Measure::InPromise => (IN_PROMISE, true),
        Measure::Ttft => (p95(0), false),
        Measure::Itl => (p95(1), false),
        Measure::E2e => (p95(2), false),
    };
    let Estimate { value, low, high } = found[figure];
    let verdict = match () {
        () if !(is_known && value.is_finite() && low.is_finite() && high.is_finite()) => {
            Verdict::TooLittleData
        }
        () if low > 0.0 && more_is_better || high < 0.0 && !more_is_better => Verdict::Better,
        () if low > 0.0 || high < 0.0 => Verdict::Worse,
        () => Verdict::NoDifferenceShown,
    };
    let difference = Interval::new(found[figure], is_known);
    Comparison { verdict, difference, differences: Figures::new(Some(found), is_known) }
}

fn unknown() -> Comparison {
    Comparison { verdict: Verdict::TooLittleData, difference: None, differences: Figures::new(None, false) }
}

/// Where the P95 of a kind of time is.
const fn p95(kind: usize) -> usize {
    FIRST_TIME + kind * QUANTILES.len() + 1
}

impl Figures {
    fn new(found: Option<&[Estimate; FIGURES]>, is_known: bool) -> Self {
        let at = |figure: usize| found.and_then(|found| Interval::new(found[figure], is_known));
        let quantiles = |kind: usize| {
            let first = FIRST_TIME + kind * QUANTILES.len();
            Quantiles { p50: at(first), p95: at(first + 1), p99: at(first + 2) }
        };
        Self {
            goodput: at(GOODPUT),
            share_in_promise: at(IN_PROMISE),
            ttft_seconds: quantiles(0),
            itl_seconds: quantiles(1),
            e2e_seconds: quantiles(2),
        }
    }
}

impl Interval {
    fn new(estimate: Estimate, is_known: bool) -> Option<Self> {
        let Estimate { value, low, high } = estimate;
        let end = |end: f64| Some(end).filter(|end| is_known && end.is_finite());
        value.is_finite().then(|| Self { value, low: end(low), high: end(high) })
    }
}
