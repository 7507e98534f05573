//! The files that a report goes to, besides the terminal.

use anyhow::Context;
use clap::Args;
use serde::Serialize;
use std::fmt::Display;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// Where a report goes.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Write all results to this file as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a report with charts to this file; one HTML page that needs nothing else
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Files that are there already: nobody wants to learn after an hour that the folder is not.
pub struct ReportFiles {
    json: Option<File>,
    html: Option<File>,
}

impl ReportArgs {
    /// Makes the files.
    ///
    /// # Errors
    /// When one cannot be written.
    pub fn create(&self) -> anyhow::Result<ReportFiles> {
        let create =
            |path: &Path| File::create(path).with_context(|| format!("{} cannot be written", path.display()));
        let [json, html] = [&self.json, &self.html].map(|path| path.as_deref().map(create).transpose());
        Ok(ReportFiles { json: json?, html: html? })
    }
}

impl ReportFiles {
    /// Writes a report to the files and prints it, each in any case: one place without room must not lose the figures.
    ///
    /// # Errors
    /// The first that failed.
    pub fn write(
        self,
        report: &(impl Serialize + Display),
        html: impl FnOnce() -> String,
    ) -> anyhow::Result<()> {
        let printed = write!(std::io::stdout(), "{report}").map_err(Into::into);
        let results = [
            self.json
                .map_or(Ok(()), |file| write_json(file, report))
                .context("--json: the report cannot be written"),
            self.html
                .map_or(Ok(()), |mut file| file.write_all(html().as_bytes()))
                .context("--html: the report cannot be written"),
            printed,
        ];
        results.into_iter().collect()
    }
}

fn write_json(file: File, report: &impl Serialize) -> std::io::Result<()> {
    // A record is some dozens of small writes.
    let mut file = BufWriter::new(file);
    serde_json::to_writer(&mut file, report)?;
    file.flush()
}
