//! Profiles: what `tune` measured of a model on a machine, in a file that `serve` and `simulate` read.

use crate::beside;
use crate::compute::Compute;
use crate::config::{self, Model};
use crate::file_size::bytes_of;
use anyhow::{Context, anyhow, bail, ensure};
use plimsoll_host::Host;
use plimsoll_hub::HubConfig;
use plimsoll_kernels::KvType;
use plimsoll_runtime::Measured;
use plimsoll_sched::Rates;
use plimsoll_sched::measured::QUANTILES;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The layout of the file. A reader takes this one alone.
const VERSION: u32 = 1;
/// A profile has about a thousand bytes; there is room for comments.
const MOST_BYTES: u64 = 1 << 20;

/// What a file says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    pub version: u32,
    pub model: Identity,
    pub machine: Machine,
    pub cost: Cost,
    pub residuals: Residuals,
    pub knee: Knee,
    pub lane: Lane,
}

/// Which model: the name of its file or folder, and its size.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    pub file: String,
    pub bytes: u64,
}

/// On what it ran, and how.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    pub cpu: String,
    pub kernel: String,
    pub threads: usize,
    pub kv_type: String,
}

/// Seconds of a step, and for each unit of what is in it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cost {
    pub step: f64,
    pub prefill_token: f64,
    pub decode_sequence: f64,
    pub kv_token: f64,
}

/// Measured over fitted time of single steps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Residuals {
    pub quantiles: Vec<f64>,
    pub ratios: Vec<f64>,
}

/// Where throughput stops growing.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Knee {
    pub batch: usize,
    pub tokens_per_second: f64,
    /// Whether larger batches were measured.
    pub reached: bool,
}

/// The sizes of the lane that the model would have been served with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lane {
    pub max_seqs: usize,
    pub max_rows: usize,
    pub context: usize,
    pub kv_blocks: usize,
}

/// Makes the folder of a profile that is to be written, and finds out whether a file can be there.
pub fn prepare(path: &Path) -> anyhow::Result<()> {
    let failed = || format!("cannot write the profile {}", path.display());
    if path.is_dir() {
        return Err(anyhow!("it is a folder; name a file in it")).with_context(failed);
    }
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).with_context(failed)?;
    }
    beside::try_write(path).with_context(failed)
}

/// The text of a profile's file. What is longer is none, and might have no end.
fn text(path: &Path) -> anyhow::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(MOST_BYTES + 1).read_to_string(&mut text)?;
    ensure!(text.len() as u64 <= MOST_BYTES, "it is longer than {MOST_BYTES} bytes, which no profile is");
    Ok(text)
}

/// What a profile must be of.
pub struct Subject<'a> {
    /// The model's file or folder.
    pub path: &'a Path,
    pub compute: &'a Compute,
    pub kv_type: KvType,
}

impl Subject<'_> {
    pub fn identity(&self) -> Identity {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Identity { file: name, bytes: bytes_of(self.path) }
    }

    pub fn machine(&self) -> Machine {
        Machine {
            cpu: Host::this().cpu_model().unwrap_or_else(|| "unknown".to_owned()),
            kernel: self.compute.isa.name().to_owned(),
            threads: self.compute.threads,
            kv_type: kv_name(self.kv_type).to_owned(),
        }
    }

    /// Where `tune` puts the profile, and `serve` looks for it.
    pub fn usual_place(&self) -> anyhow::Result<PathBuf> {
        let folder = HubConfig::from_env(config::env::lookup)?.cache_dir.join("profiles");
        let Machine { kernel, threads, kv_type, .. } = self.machine();
        Ok(folder.join(format!("{}-{kernel}-{threads}-{kv_type}.toml", self.identity().file)))
    }
}

const fn kv_name(kv_type: KvType) -> &'static str {
    match kv_type {
        KvType::F16 => "f16",
        KvType::Q8 => "q8",
    }
}

impl Profile {
    /// Reads and checks a file.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let text = text(path).with_context(|| format!("cannot read the profile {}", path.display()))?;
        Self::parse(&text).with_context(|| format!("{} is no profile that can be used", path.display()))
    }

    fn parse(text: &str) -> anyhow::Result<Self> {
        let table: toml::Table = text.parse().map_err(|error| config::at_line(text, &error))?;
        let version = table.get("version").and_then(toml::Value::as_integer);
        ensure!(
            version == Some(i64::from(VERSION)),
            "its version is {}, and this program reads {VERSION}; make it anew with `plimsoll tune`",
            version.map_or("missing".to_owned(), |version| version.to_string())
        );
        let profile: Self = toml::from_str(text).map_err(|error| config::at_line(text, &error))?;
        profile.measured()?;
        let Lane { max_seqs, max_rows, context, kv_blocks } = profile.lane;
        let is_sound = (1..=1024).contains(&max_seqs)
            && (max_seqs..=65_536).contains(&max_rows)
            && (1..=1 << 24).contains(&context)
            && (1..=1 << 24).contains(&kv_blocks);
        ensure!(is_sound, "[lane] has sizes that no lane can have");
        Ok(profile)
    }

    /// Writes it, where [`prepare`] has been.
    pub fn write(&self, path: &Path) -> anyhow::Result<()> {
        let failed = || format!("cannot write the profile {}", path.display());
        beside::write(path, &toml::to_string(self)?).with_context(failed)
    }

    /// What steps cost.
    pub fn measured(&self) -> anyhow::Result<Measured> {
        let Cost { step, prefill_token, decode_sequence, kv_token } = self.cost;
        let Residuals { quantiles, ratios } = &self.residuals;
        ensure!(
            quantiles[..] == QUANTILES && ratios.len() == QUANTILES.len(),
            "[residuals] must have the quantiles {QUANTILES:?}, and as many ratios"
        );
        let rates = Rates { base: step, prefill: prefill_token, decode: decode_sequence, kv: kv_token };
        let mut residuals = [1.0; QUANTILES.len()];
        residuals.copy_from_slice(ratios);
        let measured = Measured { rates, residuals };
        ensure!(
            measured.is_sound(),
            "[cost] and [residuals] must be finite, costs not negative and at most 100 s, ratios above 0, at most a million, and rising"
        );
        Ok(measured)
    }

    /// What it is of, in a line.
    pub fn title(&self) -> String {
        let Machine { cpu, kernel, threads, kv_type } = &self.machine;
        format!("{} on {cpu}, {kernel}, {threads} threads, {kv_type} KV", self.model.file)
    }

    /// Whether it is of this model on this machine.
    fn check(&self, subject: &Subject<'_>) -> anyhow::Result<()> {
        let (model, machine) = (subject.identity(), subject.machine());
        ensure!(
            self.model == model,
            "it is of {} ({} bytes), not of {} ({} bytes)",
            self.model.file,
            self.model.bytes,
            model.file,
            model.bytes
        );
        let theirs = &self.machine;
        for (what, theirs, ours) in [
            ("CPU", &theirs.cpu, &machine.cpu),
            ("kernel", &theirs.kernel, &machine.kernel),
            ("KV type", &theirs.kv_type, &machine.kv_type),
            ("number of threads", &theirs.threads.to_string(), &machine.threads.to_string()),
        ] {
            ensure!(theirs == ours, "its {what} is {theirs}, and here it is {ours}");
        }
        Ok(())
    }
}

/// What is known of the costs of `model`: from the profile that its configuration names, which must be of it; else from the one
/// in the usual place, if there is one that is.
pub fn known(model: &Model, subject: &Subject<'_>) -> anyhow::Result<Option<Measured>> {
    let read = |path: &Path| {
        let profile = Profile::read(path)?;
        let of = profile.check(subject).and_then(|()| profile.measured());
        of.with_context(|| format!("the profile {} cannot be used here", path.display()))
    };
    if let Some(path) = &model.profile {
        let measured = read(path)
            .map_err(|error| error.context("make one with `plimsoll tune`, or leave out `profile`"))?;
        return Ok(Some(measured));
    }
    let Some(path) = subject.usual_place().ok().filter(|path| path.exists()) else { return Ok(None) };
    match read(&path) {
        Ok(measured) => {
            tracing::info!(model = model.name, profile = %path.display(), "costs are known from a profile");
            Ok(Some(measured))
        }
        Err(error) => {
            tracing::warn!(model = model.name, "ignored: {error:#}; `plimsoll tune` makes it anew");
            Ok(None)
        }
    }
}

/// `[residuals]` of what was measured.
pub fn residuals(measured: &Measured) -> Residuals {
    Residuals { quantiles: QUANTILES.to_vec(), ratios: measured.residuals.to_vec() }
}

/// A profile of what was found, of this version.
pub fn of(subject: &Subject<'_>, tuned: &plimsoll_runtime::tune::Tuned, lane: Lane) -> Profile {
    let Rates { base, prefill, decode, kv } = tuned.measured.rates;
    let plimsoll_runtime::tune::Knee { batch, tokens_per_second, is_reached } = tuned.knee;
    Profile {
        version: VERSION,
        model: subject.identity(),
        machine: subject.machine(),
        cost: Cost { step: base, prefill_token: prefill, decode_sequence: decode, kv_token: kv },
        residuals: residuals(&tuned.measured),
        knee: Knee { batch, tokens_per_second, reached: is_reached },
        lane,
    }
}

/// The profile that a command cannot do without.
pub fn needed(path: &Path) -> anyhow::Result<Profile> {
    if path.is_dir() {
        bail!("--profile {} is a folder; name the file that `plimsoll tune` wrote", path.display());
    }
    Profile::read(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile() -> Profile {
        let rates = Rates { base: 3e-3, prefill: 5e-4, decode: 1e-3, kv: 1e-7 };
        let residuals_of =
            Measured { rates, residuals: [0.8, 0.9, 0.9, 1.0, 1.0, 1.0, 1.1, 1.2, 1.3, 1.5, 3.0] };
        let (cpu, kernel, kv_type) = ("C".to_owned(), "avx2".to_owned(), "f16".to_owned());
        Profile {
            version: VERSION,
            model: Identity { file: "m.gguf".to_owned(), bytes: 7 },
            machine: Machine { cpu, kernel, threads: 2, kv_type },
            cost: Cost { step: 3e-3, prefill_token: 5e-4, decode_sequence: 1e-3, kv_token: 1e-7 },
            residuals: residuals(&residuals_of),
            knee: Knee { batch: 16, tokens_per_second: 900.0, reached: true },
            lane: Lane { max_seqs: 16, max_rows: 512, context: 8192, kv_blocks: 800 },
        }
    }

    #[test]
    fn a_profile_comes_back_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b.toml");
        prepare(&path).unwrap();
        assert_eq!(path.parent().unwrap().read_dir().unwrap().count(), 0, "nothing is left of the try");
        profile().write(&path).unwrap();
        assert_eq!(Profile::read(&path).unwrap(), profile());
        assert!((profile().measured().unwrap().rates.base - 3e-3).abs() < 1e-12);
    }

    #[test]
    fn where_no_profile_can_be_is_known_before() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        for (path, says) in
            [(folder.path(), "it is a folder"), (&file.join("p.toml"), "cannot write the profile")]
        {
            let error = format!("{:#}", prepare(path).unwrap_err());
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn what_is_too_long_is_no_profile() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.toml");
        let long = toml::to_string(&profile()).unwrap() + &"# long\n".repeat(200_000);
        std::fs::write(&path, long).unwrap();
        let error = format!("{:#}", Profile::read(&path).unwrap_err());
        assert!(error.ends_with("it is longer than 1048576 bytes, which no profile is"), "{error}");
    }

    #[test]
    fn what_is_no_profile_is_said_to_be_none() {
        let text = toml::to_string(&profile()).unwrap();
        for (from, to, says) in [
            ("version = 1", "version = 2", "its version is 2"),
            ("version = 1", "", "its version is missing"),
            ("version = 1", "version = 1\ncolour = 3", "unknown field"),
            ("step = 0.003", "step = -0.003", "costs not negative"),
            ("step = 0.003", "step = nan", "must be finite"),
            // The time of such a step is more than a `Duration` holds.
            ("step = 0.003", "step = 1e300", "at most 100 s"),
            ("3.0", "1e300", "at most a million"),
            ("step = 0.003", "", "missing field"),
            ("0.999", "0.9", "must have the quantiles"),
            ("max_seqs = 16", "max_seqs = 0", "no lane can have"),
            ("[cost]", "[cost", "line 13: "),
        ] {
            assert!(text.contains(from), "{from} in {text}");
            let error = format!("{:#}", Profile::parse(&text.replace(from, to)).unwrap_err());
            assert!(error.contains(says), "{from} -> {to}: {error}");
            assert!(!error.contains('\n'), "{error}");
        }
        let missing = format!("{:#}", Profile::read(Path::new("/nowhere/p.toml")).unwrap_err());
        assert!(missing.starts_with("cannot read the profile /nowhere/p.toml"), "{missing}");
    }
}
