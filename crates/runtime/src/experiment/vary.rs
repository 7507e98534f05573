//! What an experiment varies.

use plimsoll_api::service::Priority;
use plimsoll_sched::{QueuePolicy, Switch};
use plimsoll_trial::{Design, Unit};
use std::time::Duration;

/// An experiment on a lane.
#[derive(Debug, Clone, PartialEq)]
pub struct Experiment {
    /// How it is done. Its unit is that of what varies.
    pub design: Design,
    /// What varies.
    pub vary: Vary,
}

/// What varies, with a value for each arm.
#[derive(Debug, Clone, PartialEq)]
pub enum Vary {
    /// How many may wait.
    QueuePolicy(Vec<QueuePolicy>),
    /// Sequences whose parked blocks are read back before it is their turn.
    Prefetch(Vec<usize>),
    /// What a step is cut to.
    StepBudget(Vec<Duration>),
    /// The class of requests that do not say.
    Priority(Vec<Priority>),
    /// Whether a request shares the beginning of its prompt.
    PrefixCache(Vec<bool>),
    /// Tokens that a request is expected to generate, for the gate's estimate.
    ExpectedOutput(Vec<u32>),
}

impl Vary {
    /// What an arm is given to.
    pub const fn unit(&self) -> Unit {
        match self {
            Self::QueuePolicy(_) | Self::Prefetch(_) | Self::StepBudget(_) => Unit::Lane,
            Self::Priority(_) | Self::PrefixCache(_) | Self::ExpectedOutput(_) => Unit::Request,
        }
    }

    /// What the configuration calls it.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::QueuePolicy(_) => "queue_policy",
            Self::Prefetch(_) => "prefetch",
            Self::StepBudget(_) => "step_budget",
            Self::Priority(_) => "priority",
            Self::PrefixCache(_) => "prefix_cache",
            Self::ExpectedOutput(_) => "expected_output",
        }
    }

    /// What puts an arm into force on a lane.
    pub(super) fn switch(&self, arm: usize) -> Option<Switch> {
        match self {
            Self::QueuePolicy(arms) => arms.get(arm).map(|policy| Switch::Queue(*policy)),
            Self::Prefetch(arms) => arms.get(arm).map(|ahead| Switch::ParkAhead(*ahead)),
            Self::StepBudget(arms) => arms.get(arm).map(|budget| Switch::StepBudget(*budget)),
            Self::Priority(_) | Self::PrefixCache(_) | Self::ExpectedOutput(_) => None,
        }
    }
}
