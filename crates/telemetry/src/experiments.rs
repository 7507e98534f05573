//! What experiments record.

use crate::register::register;
use prometheus::{IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry};

/// How a request that takes part ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requests {
    /// Answered within the promise.
    InPromise,
    /// Answered, not within the promise.
    Late,
    /// Turned away at the door.
    Refused,
    /// Let in, and not answered whole.
    Lost,
}

impl Requests {
    const ALL: [Self; 4] = [Self::InPromise, Self::Late, Self::Refused, Self::Lost];

    const fn name(self) -> &'static str {
        match self {
            Self::InPromise => "in_promise",
            Self::Late => "late",
            Self::Refused => "refused",
            Self::Lost => "lost",
        }
    }
}

/// The families, of all experiments.
pub(crate) struct Experiments {
    requests: IntCounterVec,
    in_force: IntGaugeVec,
}

impl Experiments {
    pub(crate) fn new(registry: &Registry) -> Self {
        let requests = Opts::new(
            "plimsoll_experiment_requests_total",
            "Requests counted by an experiment, by how they ended.",
        );
        let in_force = Opts::new(
            "plimsoll_experiment_in_force",
            "1 for the arm that the lane goes by now, 0 for the others.",
        );
        Self {
            requests: register(
                registry,
                IntCounterVec::new(requests, &["model", "experiment", "arm", "outcome"]),
            ),
            in_force: register(registry, IntGaugeVec::new(in_force, &["model", "experiment", "arm"])),
        }
    }

    pub(crate) fn of(&self, model: &str, experiment: &str, arms: &[&str]) -> ExperimentMetrics {
        let requests = |arm: &&str| {
            Requests::ALL.map(|how| self.requests.with_label_values(&[model, experiment, arm, how.name()]))
        };
        let in_force = |arm: &&str| self.in_force.with_label_values(&[model, experiment, arm]);
        ExperimentMetrics {
            requests: arms.iter().map(requests).collect(),
            in_force: arms.iter().map(in_force).collect(),
        }
    }
}

/// The metrics of one experiment. Recording touches atomics only.
pub struct ExperimentMetrics {
    /// By arm, in the order of [`Requests::ALL`].
    requests: Vec<[IntCounter; 4]>,
    in_force: Vec<IntGauge>,
}

impl ExperimentMetrics {
    /// A request of an arm ended so.
    pub fn count(&self, arm: usize, how: Requests) {
        if let Some(counters) = self.requests.get(arm) {
            counters[how as usize].inc();
        }
    }

    /// Which arm the lane goes by.
    pub fn set_in_force(&self, arm: Option<usize>) {
        for (i, gauge) in self.in_force.iter().enumerate() {
            gauge.set(i64::from(Some(i) == arm));
        }
    }
}
