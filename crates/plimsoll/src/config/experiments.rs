//! Experiments: the `[[experiment]]` tables of the file, checked against the models that are served.

use super::keys::QueuePolicyKey;
use super::units::Period;
use super::{Model, in_range};
use anyhow::{Context, anyhow, bail, ensure};
use clap::ValueEnum;
use plimsoll_api::service::Priority;
use plimsoll_runtime::{Arm, Design, Experiment, Measure, Parking, Unit, Vary};
use serde::Deserialize;
use std::ops::RangeInclusive;
use std::time::Duration;

/// One `[[experiment]]`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ExperimentKeys {
    pub name: String,
    /// `None`: all models, each for itself.
    pub model: Option<String>,
    pub vary: String,
    pub arms: Vec<ArmKeys>,
    pub seed: u64,
    pub block: Option<Period>,
    pub wash_out: Option<Period>,
    pub measure: Option<MeasureKey>,
    pub keep_blocks: Option<usize>,
}

/// The names of the fields of [`ExperimentKeys`].
pub const EXPERIMENT_KEYS: [&str; 9] =
    ["name", "model", "vary", "arms", "seed", "block", "wash_out", "measure", "keep_blocks"];

/// One of what is compared.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArmKeys {
    pub value: String,
    /// `None`: the value.
    pub name: Option<String>,
    /// `None`: 1.
    pub weight: Option<u32>,
}

/// What the verdict goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MeasureKey {
    Goodput,
    InPromise,
    Ttft,
    Itl,
    E2e,
}

impl From<MeasureKey> for Measure {
    fn from(key: MeasureKey) -> Self {
        match key {
            MeasureKey::Goodput => Self::Goodput,
            MeasureKey::InPromise => Self::InPromise,
            MeasureKey::Ttft => Self::Ttft,
            MeasureKey::Itl => Self::Itl,
            MeasureKey::E2e => Self::E2e,
        }
    }
}

/// Blocks are half to one and a half times as long: 10 to 30 s.
const BLOCK: Period = Period(Duration::from_secs(20));
const KEEP_BLOCKS: usize = 512;
const STEP_BUDGET: RangeInclusive<Period> =
    Period(Duration::from_millis(5))..=Period(Duration::from_millis(1000));
const EXPECTED_OUTPUT: RangeInclusive<u32> = 1..=65_536;

/// What can vary.
const VARY: [&str; 6] =
    ["queue_policy", "prefetch", "step_budget", "priority", "prefix_cache", "expected_output"];

/// Gives each model its experiments.
pub fn assign(experiments: &[ExperimentKeys], models: &mut [Model]) -> anyhow::Result<()> {
    for (i, keys) in experiments.iter().enumerate() {
        ensure!(!keys.name.is_empty(), "an [[experiment]] needs a `name`");
        let twice = experiments[..i].iter().any(|other| other.name == keys.name);
        ensure!(!twice, "two experiments are called `{}`; give one another name", keys.name);
        keys.assign(models).with_context(|| format!("experiment `{}`", keys.name))?;
    }
    Ok(())
}

impl ExperimentKeys {
    fn assign(&self, models: &mut [Model]) -> anyhow::Result<()> {
        let experiment = self.check()?;
        if let Some(name) = self.model.as_ref().filter(|name| models.iter().all(|model| model.name != **name))
        {
            let served: Vec<_> = models.iter().map(|model| model.name.as_str()).collect();
            bail!("there is no model `{name}`; served are {}", served.join(", "));
        }
        let concerned = |model: &&mut Model| self.model.as_ref().is_none_or(|name| *name == model.name);
        for model in models.iter_mut().filter(concerned) {
            let vary = experiment.vary.name();
            if let Some(other) = model.experiments.iter().find(|other| other.vary.name() == vary) {
                bail!("`{}` varies the {vary} of model `{}`, too", other.design.name, model.name);
            }
            ensure!(
                !matches!(experiment.vary, Vary::Prefetch(_)) || model.parking.memory > 0,
                "model `{}` has no park_memory, so there is nothing to read ahead",
                model.name
            );
            model.experiments.push(experiment.clone());
        }
        Ok(())
    }

    fn check(&self) -> anyhow::Result<Experiment> {
        let vary = self.vary()?;
        let unit = vary.unit();
        ensure!(
            unit == Unit::Lane || self.wash_out.is_none(),
            "each request has its own {}, so there is nothing to wash out; remove `wash_out`",
            self.vary
        );
        let usual = match unit {
            Unit::Lane => Measure::Goodput,
            Unit::Request => Measure::InPromise,
        };
        let block = self.block.unwrap_or(BLOCK).0;
        let arm = |arm: &ArmKeys| Arm {
            name: arm.name.clone().unwrap_or_else(|| arm.value.clone()),
            weight: arm.weight.unwrap_or(1),
        };
        let design = Design {
            name: self.name.clone(),
            arms: self.arms.iter().map(arm).collect(),
            unit,
            measure: self.measure.map_or(usual, Into::into),
            seed: self.seed,
            block,
            wash_out: self.wash_out.map_or(block / 5, |wash_out| wash_out.0),
            keep: self.keep_blocks.unwrap_or(KEEP_BLOCKS),
        };
        design.check()?;
        Ok(Experiment { design, vary })
    }

    fn vary(&self) -> anyhow::Result<Vary> {
        let values = || self.arms.iter().map(|arm| arm.value.as_str());
        Ok(match self.vary.as_str() {
            "queue_policy" => Vary::QueuePolicy(values().map(queue_policy).collect::<Result<_, _>>()?),
            "prefetch" => {
                let ahead = |on: bool| if on { Parking::default().ahead } else { 0 };
                Vary::Prefetch(values().map(|value| switch(value).map(ahead)).collect::<Result<_, _>>()?)
            }
            "step_budget" => Vary::StepBudget(values().map(step_budget).collect::<Result<_, _>>()?),
            "priority" => Vary::Priority(values().map(priority).collect::<Result<_, _>>()?),
            "prefix_cache" => Vary::PrefixCache(values().map(switch).collect::<Result<_, _>>()?),
            "expected_output" => {
                Vary::ExpectedOutput(values().map(expected_output).collect::<Result<_, _>>()?)
            }
            "" => bail!("it needs `vary`: one of {}", VARY.join(", ")),
            other => bail!("nothing that is called `{other}` can vary; what can is {}", VARY.join(", ")),
        })
    }
}

fn queue_policy(value: &str) -> anyhow::Result<plimsoll_runtime::QueuePolicy> {
    let key = QueuePolicyKey::from_str(value, false);
    Ok(key.map_err(|_| anyhow!("there is no queue policy `{value}`; there are fixed, band, little"))?.into())
}

fn switch(value: &str) -> anyhow::Result<bool> {
    match value {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => bail!("`{value}` is neither on nor off"),
    }
}

fn step_budget(value: &str) -> anyhow::Result<Duration> {
    let period = value.parse().map_err(|error: String| anyhow!(error))?;
    Ok(in_range("step_budget", period, &STEP_BUDGET)?.0)
}

fn priority(value: &str) -> anyhow::Result<Priority> {
    match value {
        "interactive" => Ok(Priority::Interactive),
        "standard" => Ok(Priority::Standard),
        "batch" => Ok(Priority::Batch),
        _ => bail!("there is no class `{value}`; there are interactive, standard, batch"),
    }
}

fn expected_output(value: &str) -> anyhow::Result<u32> {
    let tokens = value.parse().map_err(|_| anyhow!("`{value}` is no number of tokens"))?;
    in_range("expected_output", tokens, &EXPECTED_OUTPUT)
}
