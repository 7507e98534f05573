//! `https://` sources.

use crate::client::Client;
use crate::config::Limits;
use crate::digest;
use crate::download::{self, Job};
use crate::entry::Entry;
use crate::error::HubError;
use crate::fsx;
use crate::manifest::{FORMAT, FileRecord, Manifest};
use crate::progress::Progress;
use crate::source::UrlSource;
use crate::url;
use std::path::PathBuf;

/// Downloads into the entry's staging folder, verifies, publishes. The caller holds the entry's lock.
pub(crate) fn pull(
    client: &Client,
    limits: &Limits,
    (source, entry): (&UrlSource, &Entry),
    progress: &dyn Progress,
) -> Result<PathBuf, HubError> {
    let name = url::file_name(&source.url).unwrap_or_else(|| "model".into());
    let staging = entry.staging();
    let part = staging.join("download");
    fsx::create_dir(&staging)?;
    let job = Job { url: &source.url, token: None, part: &part, label: &name, bytes: None };
    download::fetch(client, limits, &job, progress)?;

    let shown = url::without_query(&source.url).to_owned();
    let sha256 = digest::of_file(&part, &name, progress)?;
    if let Some(expected) = source.sha256.as_ref().filter(|expected| **expected != sha256) {
        fsx::remove(&part)?;
        return Err(HubError::Checksum {
            file: name,
            origin: shown,
            expected: expected.clone(),
            actual: sha256,
        });
    }
    let bytes = std::fs::metadata(&part).map_err(HubError::io("read", &part))?.len();
    let files = staging.join("files");
    fsx::remove(&files)?;
    fsx::create_dir(&files)?;
    fsx::rename(&part, &files.join(&name))?;
    let record = FileRecord { path: name.clone(), bytes, sha256 };
    entry.publish(&Manifest {
        format: FORMAT,
        source: shown.clone(),
        resolved: shown,
        root: None,
        opens: name,
        files: vec![record],
    })
}
