//! What an experiment is, and what is wrong with it.

use serde::Serialize;
use std::time::Duration;

/// What an arm is given to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// All requests of a lane, for a block of time.
    Lane,
    /// One request. Blocks of time are only what its figures are gathered by.
    Request,
}

/// What the verdict goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Requests per second that were answered within the promise. More is better.
    Goodput,
    /// Share of the requests offered that were answered within the promise. More is better.
    InPromise,
    /// P95 of the time to the first token. Less is better.
    Ttft,
    /// P95 of the mean gap between tokens. Less is better.
    Itl,
    /// P95 of the time to the last token. Less is better.
    E2e,
}

/// One of what is compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arm {
    /// What it is called.
    pub name: String,
    /// Its share, in proportion to the sum of all.
    pub weight: u32,
}

/// An experiment on one lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Design {
    /// What it is called.
    pub name: String,
    /// The first is the one that the others are compared with.
    pub arms: Vec<Arm>,
    /// What an arm is given to.
    pub unit: Unit,
    /// What the verdict goes by.
    pub measure: Measure,
    /// The same seed gives the same arms to the same requests, and the same order of blocks.
    pub seed: u64,
    /// How long blocks are in the mean. Those of one round are equally long, and rounds from half to one and a half times
    /// as long, so that no rhythm of the load's is in step with them.
    pub block: Duration,
    /// Requests that come so soon after the beginning of a block are not counted. Of a [`Unit::Lane`] alone.
    pub wash_out: Duration,
    /// Blocks that are kept; older ones are forgotten.
    pub keep: usize,
}

/// The shortest blocks.
pub const SHORTEST: Duration = Duration::from_millis(100);
/// The longest blocks.
pub const LONGEST: Duration = Duration::from_secs(24 * 3600);
/// Blocks that may be kept.
pub const KEEP: std::ops::RangeInclusive<usize> = 16..=4096;
/// Most arms, and most that the weight of one comes to.
const MOST_ARMS: usize = 16;
const MOST_WEIGHT: u32 = 100;

/// What is wrong with an experiment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DesignError {
    /// It has no name, or one that cannot be the label of a metric everywhere.
    #[error("`{0}` cannot be a name; use at most 64 letters, digits, and . _ -")]
    Name(String),
    /// There is nothing to compare, or too much.
    #[error("it has {0} arms; it must have 2 to {MOST_ARMS}")]
    Arms(usize),
    /// Two arms have one name.
    #[error("two of its arms are called `{0}`; give one another `name`")]
    SameName(String),
    /// An arm that nobody gets, or of a weight that makes rounds endless.
    #[error("the weight of its arm `{0}` is {1}; it must be from 1 to {MOST_WEIGHT}")]
    Weight(String, u32),
    /// A block that is too short or too long.
    #[error("its blocks are {0:?} long; they must be from {SHORTEST:?} to {LONGEST:?}")]
    Block(Duration),
    /// Nothing of the shortest blocks would be counted.
    #[error(
        "its wash-out of {0:?} leaves nothing of its shortest blocks, which are {1:?} long (half of `block`)"
    )]
    WashOut(Duration, Duration),
    /// Too few or too many blocks.
    #[error("it keeps {0} blocks; that must be from {least} to {most}", least = KEEP.start(), most = KEEP.end())]
    Keep(usize),
    /// Goodput per arm of requests is mostly the arm's share of them.
    #[error("`goodput` says nothing about arms that share the requests of the same time; use `in_promise`")]
    Goodput,
}

impl Design {
    /// Finds what is wrong with it.
    ///
    /// # Errors
    /// The first thing that is.
    pub fn check(&self) -> Result<(), DesignError> {
        self.check_arms()?;
        if !(SHORTEST..=LONGEST).contains(&self.block) {
            return Err(DesignError::Block(self.block));
        }
        if self.unit == Unit::Lane && self.wash_out >= self.block / 2 {
            return Err(DesignError::WashOut(self.wash_out, self.block / 2));
        }
        if !KEEP.contains(&self.keep) {
            return Err(DesignError::Keep(self.keep));
        }
        if self.unit == Unit::Request && self.measure == Measure::Goodput {
            return Err(DesignError::Goodput);
        }
        Ok(())
    }

    fn check_arms(&self) -> Result<(), DesignError> {
        let names = self.arms.iter().map(|arm| &arm.name).chain([&self.name]);
        if let Some(name) = names.into_iter().find(|name| !is_name(name)) {
            return Err(DesignError::Name(name.clone()));
        }
        if !(2..=MOST_ARMS).contains(&self.arms.len()) {
            return Err(DesignError::Arms(self.arms.len()));
        }
        for (i, arm) in self.arms.iter().enumerate() {
            if self.arms[..i].iter().any(|other| other.name == arm.name) {
                return Err(DesignError::SameName(arm.name.clone()));
            }
            if !(1..=MOST_WEIGHT).contains(&arm.weight) {
                return Err(DesignError::Weight(arm.name.clone(), arm.weight));
            }
        }
        Ok(())
    }

    /// The weights, in lowest terms.
    pub(crate) fn weights(&self) -> Vec<u32> {
        let divisor = self.arms.iter().map(|arm| arm.weight).fold(0, gcd).max(1);
        self.arms.iter().map(|arm| arm.weight / divisor).collect()
    }
}

fn is_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    !name.is_empty() && name.len() <= 64 && name.chars().all(is_plain)
}

const fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Arms `a`, `b`, … of these weights.
    pub(crate) fn design(unit: Unit, weights: &[u32]) -> Design {
        let name = |i: usize| char::from(b'a' + u8::try_from(i).unwrap_or(25)).to_string();
        Design {
            name: "test".into(),
            arms: weights.iter().enumerate().map(|(i, &weight)| Arm { name: name(i), weight }).collect(),
            unit,
            measure: Measure::InPromise,
            seed: 7,
            block: Duration::from_secs(20),
            wash_out: if unit == Unit::Lane { Duration::from_secs(4) } else { Duration::ZERO },
            keep: 512,
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        let good = design(Unit::Lane, &[1, 1]);
        assert_eq!(good.check(), Ok(()));
        let second = Duration::from_secs(1);
        let twins = vec![good.arms[0].clone(), good.arms[0].clone()];
        let cases: [(Design, &str); 12] = [
            (Design { name: "a b".into(), ..good.clone() }, "`a b` cannot be a name"),
            (Design { name: String::new(), ..good.clone() }, "`` cannot be a name"),
            (design(Unit::Lane, &[1]), "it has 1 arms; it must have 2 to 16"),
            (design(Unit::Lane, &[1; 17]), "it has 17 arms"),
            (design(Unit::Lane, &[1, 0]), "the weight of its arm `b` is 0; it must be from 1 to 100"),
            (design(Unit::Lane, &[101, 1]), "the weight of its arm `a` is 101"),
            (Design { arms: twins, ..good.clone() }, "two of its arms are called `a`"),
            (Design { block: Duration::from_millis(99), ..good.clone() }, "its blocks are 99ms long"),
            (
                Design { wash_out: second * 10, ..good.clone() },
                "its wash-out of 10s leaves nothing of its shortest blocks, which are 10s long",
            ),
            (Design { block: second * 6, ..good.clone() }, "its wash-out of 4s leaves nothing"),
            (Design { keep: 3, ..good.clone() }, "it keeps 3 blocks; that must be from 16 to 4096"),
            (
                Design { measure: Measure::Goodput, ..design(Unit::Request, &[1, 1]) },
                "`goodput` says nothing about arms that share",
            ),
        ];
        for (design, message) in cases {
            let error = design.check().unwrap_err().to_string();
            assert!(error.starts_with(message), "{error}\nis not {message}");
        }
    }

    #[test]
    fn weights_are_in_lowest_terms() {
        for (weights, lowest) in [([1, 1, 1], [1, 1, 1]), ([50, 100, 50], [1, 2, 1]), ([3, 2, 6], [3, 2, 6])]
        {
            assert_eq!(design(Unit::Lane, &weights).weights(), lowest);
        }
    }
}
