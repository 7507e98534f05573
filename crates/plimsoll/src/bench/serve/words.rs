//! Values of `bench serve` that have a little grammar of their own.

use crate::config;
use plimsoll_load::arrivals::Arrivals;
use plimsoll_load::slo::Slo;
use plimsoll_load::workload::Class;
use plimsoll_runtime::Promise;
use std::str::FromStr;

/// `--slo`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds(pub Slo);

impl FromStr for Bounds {
    type Err = String;

    /// As the server's own, but for what only the server knows.
    fn from_str(text: &str) -> Result<Self, String> {
        let promise = config::slo::Slo::from_str(text)?.check().map_err(|error| error.to_string())?;
        if !promise.ttft_per_token.is_zero() {
            return Err("ttft_per_token cannot be measured from here; give ttft".to_owned());
        }
        let Promise { ttft, itl, e2e, quantile, .. } = promise;
        Ok(Self(Slo { ttft, itl, e2e, quantile }))
    }
}

/// `--mix`.
#[derive(Debug, Clone, PartialEq)]
pub struct Mix(pub Vec<Class>);

/// Most classes of a mix.
const MOST_CLASSES: usize = 16;

impl FromStr for Mix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let class = |part: &str| {
            let (name, share) = part.trim().split_once('=')?;
            let share: f64 = share.parse().ok()?;
            let sound = share > 0.0
                && share.is_finite()
                && !name.is_empty()
                && name.bytes().all(|byte| byte.is_ascii_graphic());
            sound.then(|| Class { name: name.to_owned(), share })
        };
        let classes: Option<Vec<Class>> = text.split(',').map(class).collect();
        let classes = classes.filter(|classes| classes.len() <= MOST_CLASSES);
        classes.map(Self).ok_or_else(|| {
            format!("`{text}` is no mix; write interactive=0.3,batch=0.7 (at most {MOST_CLASSES} classes, shares above 0)")
        })
    }
}

/// `--arrivals`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Process(pub Arrivals);

impl FromStr for Process {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, more) = text.split_once(':').unwrap_or((text, ""));
        let arrivals = match (name, more) {
            ("poisson", "") => Some(Arrivals::Poisson),
            ("constant", "") => Some(Arrivals::Constant),
            ("burst", size) => {
                size.parse().ok().filter(|&size| size > 0).map(|size| Arrivals::Burst { size })
            }
            ("ramp", ends) => ramp(ends),
            _ => None,
        };
        arrivals.map(Self).ok_or_else(|| {
            format!("`{text}` is no process of arrivals; there are poisson, constant, burst:8 and ramp:0.5-2")
        })
    }
}

impl Process {
    /// Its name, as it is written.
    pub fn name(self) -> String {
        match self.0 {
            Arrivals::Constant => "constant".to_owned(),
            Arrivals::Poisson => "poisson".to_owned(),
            Arrivals::Burst { size } => format!("burst:{size}"),
            Arrivals::Ramp { from, to } => format!("ramp:{from}-{to}"),
        }
    }
}

fn ramp(ends: &str) -> Option<Arrivals> {
    let (from, to) = ends.split_once('-')?;
    let factor = |text: &str| text.parse().ok().filter(|factor: &f64| (0.0..=1e6).contains(factor));
    let (from, to) = (factor(from)?, factor(to)?);
    (from + to > 0.0).then_some(Arrivals::Ramp { from, to })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn bounds() {
        let ms = |ms| Some(Duration::from_millis(ms));
        let slo = |text: &str| text.parse::<Bounds>().map(|bounds| bounds.0);
        let wanted = Slo { ttft: ms(500), itl: ms(60), e2e: None, quantile: 0.99 };
        assert_eq!(slo("ttft=500ms,itl=60ms"), Ok(wanted));
        assert_eq!(
            slo("e2e=2s, quantile=0.9"),
            Ok(Slo { ttft: None, itl: None, e2e: ms(2000), quantile: 0.9 })
        );
        for text in
            ["", "ttft", "ttft=500", "tpot=1s", "quantile=0.9", "ttft=1s,quantile=1", "ttft=1s,quantile=99"]
        {
            assert!(slo(text).is_err(), "{text}");
        }
    }

    #[test]
    fn mixes() {
        let mix: Mix = "interactive=0.3,batch=0.7".parse().unwrap();
        assert_eq!(mix.0[1], Class { name: "batch".to_owned(), share: 0.7 });
        for text in ["", "a", "a=0", "a=x", "=1", "a b=1", "a=inf"] {
            assert!(text.parse::<Mix>().is_err(), "{text}");
        }
    }

    #[test]
    fn processes() {
        let cases = [
            ("poisson", Some(Arrivals::Poisson)),
            ("constant", Some(Arrivals::Constant)),
            ("burst:8", Some(Arrivals::Burst { size: 8 })),
            ("ramp:0.5-2", Some(Arrivals::Ramp { from: 0.5, to: 2.0 })),
            ("burst", None),
            ("burst:0", None),
            ("ramp:0-0", None),
            ("ramp:-1-2", None),
            ("poisson:2", None),
            ("uniform", None),
        ];
        for (text, wanted) in cases {
            assert_eq!(text.parse().ok().map(|Process(arrivals)| arrivals), wanted, "{text}");
        }
    }
}
