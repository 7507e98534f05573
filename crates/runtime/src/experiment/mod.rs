//! Experiments on a lane: what varies, and how an arm is put into force.
//!
//! What varies for the whole lane goes to the planner as an event, by the lane's thread, when a block begins. What varies
//! per request is decided where the request comes in, and goes with it.
//!
//! - `vary`: what may vary. `guest`: a request that takes part.

mod guest;
pub(crate) mod vary;

pub(crate) use guest::{Entered, Judged, Policy};
pub use vary::{Experiment, Vary};

use plimsoll_sched::{QueuePolicy, Switch};
use plimsoll_telemetry::{ExperimentMetrics, Metrics};
use plimsoll_trial::log::Rounds;
use plimsoll_trial::report::About;
use plimsoll_trial::{Design, Log, Report, Unit};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The most requests that wait under any queue policy that may be in force.
pub(crate) fn most_waiting(configured: (QueuePolicy, u32), experiments: &[Experiment]) -> u32 {
    let (policy, queue) = configured;
    let switched = experiments.iter().flat_map(|experiment| match &experiment.vary {
        Vary::QueuePolicy(arms) => arms.as_slice(),
        _ => &[],
    });
    switched.map(|policy| policy.most(queue)).fold(policy.most(queue), u32::max)
}

/// The experiments of a lane.
#[derive(Default)]
pub(crate) struct Trials {
    all: Box<[Trial]>,
}

struct Trial {
    vary: Vary,
    log: Mutex<Log>,
    metrics: Arc<ExperimentMetrics>,
}

impl Trial {
    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Trials {
    /// On the lane of `model`, from the beginning of its clock.
    pub(crate) fn new(model: &str, experiments: &[Experiment], metrics: &Metrics) -> Self {
        let trial = |experiment: &Experiment| {
            let design = Design { unit: experiment.vary.unit(), ..experiment.design.clone() };
            let arms: Vec<_> = design.arms.iter().map(|arm| arm.name.as_str()).collect();
            let metrics = Arc::new(metrics.experiment(model, &design.name, &arms));
            Trial { vary: experiment.vary.clone(), log: Mutex::new(Log::new(design)), metrics }
        };
        Self { all: experiments.iter().map(trial).collect() }
    }

    /// A request with this id comes to the door at `now`.
    pub(crate) fn enter(&self, now: Duration, id: &str) -> Entered {
        let mut entered = Entered::default();
        for trial in &self.all {
            let place = trial.log().arrive(now, id);
            entered.join(place, &trial.vary, &trial.metrics);
        }
        entered
    }

    /// What they have shown by `now`. Takes a while: it resamples.
    pub(crate) fn reports(&self, model: &str, now: Duration) -> Vec<Report> {
        let report = |trial: &Trial| {
            // Requests come in while the figures are made: only the list of blocks is copied under the lock.
            let (design, blocks, span) = {
                let mut log = trial.log();
                (log.design().clone(), log.blocks(), log.at(now))
            };
            let about =
                About { model: model.to_owned(), vary: trial.vary.name().to_owned(), in_force: span.arm };
            Report::new(&design, about, &Rounds::of(&blocks, design.arms.len(), now))
        };
        self.all.iter().map(report).collect()
    }
}

/// Puts arms into force on a lane: the part of its thread.
#[derive(Default)]
pub(crate) struct Conductor {
    /// The arm of each experiment.
    arms: Vec<Option<usize>>,
    /// When the next block begins; `None`: nothing was looked at yet, or there is nothing to switch.
    due: Option<Duration>,
    has_begun: bool,
}

impl Conductor {
    /// When it has something to do again.
    pub(crate) const fn due(&self) -> Option<Duration> {
        self.due
    }

    /// Tells `switch` what to put into force at `now`. Returns whether a block began.
    pub(crate) fn conduct(&mut self, trials: &Trials, now: Duration, mut switch: impl FnMut(Switch)) -> bool {
        if self.has_begun && self.due.is_none_or(|due| now < due) {
            return false;
        }
        self.has_begun = true;
        self.arms.resize(trials.all.len(), None);
        self.due = None;
        for (trial, arm) in trials.all.iter().zip(&mut self.arms) {
            if trial.vary.unit() == Unit::Request {
                continue;
            }
            let span = trial.log().at(now);
            if std::mem::replace(arm, span.arm) != span.arm {
                span.arm.and_then(|arm| trial.vary.switch(arm)).into_iter().for_each(&mut switch);
            }
            self.due = Some(self.due.map_or(span.ends, |due| due.min(span.ends)));
        }
        true
    }

    /// Says which arms are in force: those whose value the planner goes by.
    pub(crate) fn publish(&self, trials: &Trials, in_force: &[Switch]) {
        for (trial, arm) in trials.all.iter().zip(&self.arms) {
            let is_true =
                |arm: &usize| trial.vary.switch(*arm).is_some_and(|value| in_force.contains(&value));
            trial.metrics.set_in_force(arm.filter(is_true));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_api::service::Priority;
    use plimsoll_trial::{Arm, Measure};

    fn experiment(name: &str, arms: usize, vary: Vary) -> Experiment {
        let design = Design {
            name: name.into(),
            arms: (0..arms).map(|i| Arm { name: format!("arm{i}"), weight: 1 }).collect(),
            unit: Unit::Lane,
            measure: Measure::InPromise,
            seed: 1,
            block: Duration::from_secs(10),
            wash_out: Duration::from_secs(1),
            keep: 100,
        };
        Experiment { design, vary }
    }

    #[test]
    fn the_gate_has_room_for_every_arm() {
        let vary = Vary::QueuePolicy(vec![QueuePolicy::Little, QueuePolicy::Band]);
        let of = |experiments: &[Experiment]| most_waiting((QueuePolicy::Little, 256), experiments);
        assert_eq!(of(&[]), 256);
        assert_eq!(of(&[experiment("a", 2, vary)]), 8192);
        assert_eq!(of(&[experiment("a", 2, Vary::Prefetch(vec![0, 2]))]), 256);
    }

    #[test]
    fn every_block_puts_its_arm_into_force() {
        let policies = vec![QueuePolicy::Little, QueuePolicy::Fixed];
        let experiments = [
            experiment("queue", 2, Vary::QueuePolicy(policies.clone())),
            experiment("class", 2, Vary::Priority(vec![Priority::Standard, Priority::Batch])),
            experiment("ahead", 2, Vary::Prefetch(vec![0, 2])),
        ];
        let metrics = Metrics::new();
        let trials = Trials::new("m", &experiments, &metrics);
        let (mut conductor, mut force, mut seen) = (Conductor::default(), Vec::<Switch>::new(), [0_u32; 4]);
        let mut now = Duration::ZERO;
        for _ in 0..200 {
            let began = conductor.conduct(&trials, now, |switch| {
                force.retain(|old| std::mem::discriminant(old) != std::mem::discriminant(&switch));
                force.push(switch);
            });
            assert!(began);
            let all = [
                Switch::Queue(policies[0]),
                Switch::Queue(policies[1]),
                Switch::ParkAhead(0),
                Switch::ParkAhead(2),
            ];
            seen.iter_mut().zip(all).for_each(|(seen, one)| *seen += u32::from(force.contains(&one)));
            let reports = trials.reports("m", now);
            let queue = usize::from(force.contains(&all[1]));
            assert_eq!(reports[0].in_force.as_deref(), Some(experiments[0].design.arms[queue].name.as_str()));
            assert_eq!(reports[1].in_force, None);
            now = conductor.due().unwrap();
            assert!(!conductor.conduct(&trials, now - Duration::from_nanos(1), |_| panic!("too early")));
        }
        assert!(seen.iter().all(|&count| count > 60), "{seen:?}");
        conductor.publish(&trials, &force);
        let line = |arm: usize| {
            let text = metrics.render();
            let begin =
                format!("plimsoll_experiment_in_force{{arm=\"arm{arm}\",experiment=\"queue\",model=\"m\"}} ");
            text.lines().find_map(|line| line.strip_prefix(&begin).map(str::to_owned)).unwrap()
        };
        let fixed = usize::from(force.contains(&Switch::Queue(QueuePolicy::Fixed)));
        assert_eq!((line(fixed), line(1 - fixed)), ("1".into(), "0".into()));
        conductor.publish(&trials, &[]);
        assert_eq!((line(0), line(1)), ("0".into(), "0".into()), "the planner goes by none of them");
    }

    #[test]
    fn without_experiments_there_is_nothing_to_do() {
        let mut conductor = Conductor::default();
        let trials = Trials::default();
        conductor.conduct(&trials, Duration::ZERO, |_| panic!("nothing to switch"));
        assert!(!conductor.conduct(&trials, Duration::from_secs(1000), |_| panic!("nothing to switch")));
        assert_eq!(conductor.due(), None);
    }
}
