//! How long prompts and answers are, in tokens.

use fastrand::Rng;
use serde::Serialize;
use std::str::FromStr;

/// A distribution of lengths.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Lengths {
    /// Always so many.
    Fixed {
        /// Tokens.
        tokens: u32,
    },
    /// Any number between two, both included, as likely as another.
    Uniform {
        /// The least.
        from: u32,
        /// The greatest.
        to: u32,
    },
    /// Normal, and at least 1.
    Normal {
        /// The mean.
        mean: f64,
        /// The standard deviation.
        deviation: f64,
    },
}

/// Most tokens of one length.
const MOST: f64 = 1e6;

impl Lengths {
    /// A length, at least 1.
    pub fn sample(&self, rng: &mut Rng) -> u32 {
        match *self {
            Self::Fixed { tokens } => tokens.max(1),
            Self::Uniform { from, to } => rng.u32(from.min(to)..=to.max(from)).max(1),
            Self::Normal { mean, deviation } => {
                (mean + deviation * normal(rng)).round().clamp(1.0, MOST) as u32
            }
        }
    }
}

/// A standard normal number (Box and Muller 1958).
fn normal(rng: &mut Rng) -> f64 {
    let radius = (-2.0 * (1.0 - rng.f64()).ln()).sqrt();
    radius * (std::f64::consts::TAU * rng.f64()).cos()
}

impl FromStr for Lengths {
    type Err = String;

    /// `100`, `80-120` (any of these) or `100~20` (normal: mean and deviation).
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("`{text}` is no length in tokens; write 100, 80-120, or 100~20 (mean~deviation)");
        let count = |part: &str| {
            let tokens: f64 = part.trim().parse().map_err(|_| wrong())?;
            if (1.0..=MOST).contains(&tokens) { Ok(tokens) } else { Err(wrong()) }
        };
        if let Some((mean, deviation)) = text.split_once('~') {
            let deviation: f64 = deviation.trim().parse().map_err(|_| wrong())?;
            let sound = (0.0..=MOST).contains(&deviation);
            return if sound { Ok(Self::Normal { mean: count(mean)?, deviation }) } else { Err(wrong()) };
        }
        if let Some((from, to)) = text.split_once('-') {
            let (from, to) = (count(from)? as u32, count(to)? as u32);
            return if from <= to { Ok(Self::Uniform { from, to }) } else { Err(wrong()) };
        }
        Ok(Self::Fixed { tokens: count(text)? as u32 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_written() {
        let cases = [
            ("100", Some(Lengths::Fixed { tokens: 100 })),
            ("80-120", Some(Lengths::Uniform { from: 80, to: 120 })),
            ("100~20", Some(Lengths::Normal { mean: 100.0, deviation: 20.0 })),
            ("0", None),
            ("120-80", None),
            ("a", None),
            ("100~-1", None),
            ("1e9", None),
        ];
        for (text, wanted) in cases {
            assert_eq!(text.parse().ok(), wanted, "{text}");
        }
    }

    #[test]
    fn means_and_bounds() {
        let cases = [
            ("100", 100.0, 100, 100),
            ("80-120", 100.0, 80, 120),
            ("100~20", 100.0, 1, 300),
            ("2~50", 21.0, 1, 400),
        ];
        for (text, mean, least, most) in cases {
            let lengths: Lengths = text.parse().unwrap();
            let mut rng = Rng::with_seed(7);
            let samples: Vec<u32> = (0..20_000).map(|_| lengths.sample(&mut rng)).collect();
            let got = samples.iter().map(|&sample| f64::from(sample)).sum::<f64>() / samples.len() as f64;
            assert!((got - mean).abs() < 1.0, "{text}: {got}");
            assert!(samples.iter().all(|sample| (least..=most).contains(sample)), "{text}");
        }
    }
}
