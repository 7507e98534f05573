//! One file into a part file. A part is resumed only when the server proves, by a strong ETag, that it still has the
//! same file; otherwise the download starts over.

use crate::client::{Answer, Ask, Client, answer, is_passing};
use crate::config::{Limits, Token};
use crate::error::HubError;
use crate::fsx;
use crate::progress::Progress;
use crate::url;
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use ureq::http::{HeaderMap, StatusCode, header};

/// Progress that makes the count of failed tries start afresh.
const PROGRESS: u64 = 1 << 20;
const CHUNK: usize = 256 << 10;

/// What is fetched to where.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Job<'a> {
    pub url: &'a str,
    pub token: Option<&'a Token>,
    /// Grows until it is whole; kept when the transfer breaks.
    pub part: &'a Path,
    /// Short name for the progress bar.
    pub label: &'a str,
    /// Size, when it is known from elsewhere.
    pub bytes: Option<u64>,
}

/// Beside the part: what it is a part of.
#[derive(Debug, Serialize, Deserialize)]
struct PartRecord {
    url: String,
    etag: String,
    /// Of the whole file.
    bytes: Option<u64>,
}

/// How one try ended that did not finish the file.
enum Stop {
    /// Worth another try.
    Passing(HubError),
    Final(HubError),
}

/// Fetches the whole file into `job.part`, synced to disk.
pub(crate) fn fetch(
    client: &Client,
    limits: &Limits,
    job: &Job<'_>,
    progress: &dyn Progress,
) -> Result<(), HubError> {
    let mut tries = 0;
    loop {
        limits.stop.check()?;
        let before = part_len(job.part);
        let result = attempt(client, limits, job, progress);
        progress.end();
        match result {
            Ok(()) => return fsx::remove(&record_path(job.part)),
            Err(Stop::Final(error)) => return Err(error),
            Err(Stop::Passing(error)) => {
                tries = if part_len(job.part) >= before + PROGRESS { 1 } else { tries + 1 };
                if tries > limits.retries {
                    return Err(with_tries(error, tries));
                }
                progress.note(&format!("{}: {}; trying again", job.label, why(&error)));
            }
        }
        limits.pause(tries);
    }
}

fn attempt(client: &Client, limits: &Limits, job: &Job<'_>, progress: &dyn Progress) -> Result<(), Stop> {
    let have = part_len(job.part);
    let record = read_record(job).filter(|_| have > 0);
    if record.as_ref().is_some_and(|record| record.bytes == Some(have)) {
        // An earlier pull ended between the last byte and what comes after it.
        return Ok(());
    }
    let resume = record.as_ref().map(|record| (have, record.etag.as_str()));
    let ask = Ask { url: job.url, token: job.token, resume };
    let answer = client.get(&ask).map_err(Stop::Passing)?;
    match (answer.status, resume) {
        (StatusCode::PARTIAL_CONTENT, Some((from, etag))) => {
            let announced =
                resumed_total(&answer.headers, from, etag).map_err(|problem| restart(job, problem))?;
            Transfer { limits, job, progress, done: from, total: announced }.run(answer)
        }
        (StatusCode::OK, _) => {
            let total = content_length(&answer.headers);
            Transfer { limits, job, progress, done: 0, total }.run(answer)
        }
        // The file has shrunk.
        (StatusCode::RANGE_NOT_SATISFIABLE, Some(_)) => Err(restart(job, "the file has changed".into())),
        (status, _) => {
            let error = HubError::Status {
                url: url::without_query(job.url).into(),
                status: status.as_u16(),
                advice: advice(status),
            };
            Err(if is_passing(status) { Stop::Passing(error) } else { Stop::Final(error) })
        }
    }
}

/// Forgets the part, so that the next try begins at the first byte.
fn restart(job: &Job<'_>, problem: String) -> Stop {
    match discard(job.part) {
        Ok(()) => Stop::Passing(answer(job.url, problem)),
        Err(error) => Stop::Final(error),
    }
}

/// Deletes a part and what is known about it.
pub(crate) fn discard(part: &Path) -> Result<(), HubError> {
    fsx::remove(part)?;
    fsx::remove(&record_path(part))
}

/// An empty part, with the record that lets a later try resume it if the server named a strong ETag.
fn begin_part(job: &Job<'_>, bytes: Option<u64>, headers: &HeaderMap) -> Result<(), HubError> {
    discard(job.part)?;
    if let Some(etag) = strong_etag(headers) {
        let record = PartRecord { url: job.url.into(), etag: etag.into(), bytes };
        let text =
            serde_json::to_vec(&record).map_err(|error| HubError::io("write", job.part)(error.into()))?;
        fsx::write_atomic(&record_path(job.part), &text)?;
    }
    File::create(job.part).map(drop).map_err(HubError::io("create", job.part))
}

/// One body on its way to disk.
struct Transfer<'a> {
    limits: &'a Limits,
    job: &'a Job<'a>,
    progress: &'a dyn Progress,
    done: u64,
    total: Option<u64>,
}

impl Transfer<'_> {
    fn run(mut self, answer: Answer) -> Result<(), Stop> {
        self.check_announced(&answer.headers).map_err(Stop::Final)?;
        if self.done == 0 {
            begin_part(self.job, self.total, &answer.headers).map_err(Stop::Final)?;
        }
        self.progress.begin(
            &format!("download {}", self.job.label),
            self.done,
            self.total.or(self.job.bytes),
        );
        let file = OpenOptions::new().append(true).open(self.job.part);
        let mut file = file.map_err(|error| Stop::Final(HubError::io("open", self.job.part)(error)))?;
        // The reader's own limit is off: ours ends the transfer with an error that says so.
        let mut body = answer.body.into_with_config().limit(u64::MAX).reader();
        let mut chunk = vec![0; CHUNK];
        loop {
            match body.read(&mut chunk) {
                Ok(0) => break,
                Ok(read) => self.store(&mut file, &chunk[..read])?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Stop::Passing(self.broken(error))),
            }
        }
        if self.total.or(self.job.bytes).is_some_and(|total| self.done < total) {
            return Err(Stop::Passing(self.broken(io::ErrorKind::UnexpectedEof.into())));
        }
        file.sync_all().map_err(|error| Stop::Final(HubError::io("write", self.job.part)(error)))
    }

    fn check_announced(&self, headers: &HeaderMap) -> Result<(), HubError> {
        if headers.get(header::CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity") {
            return Err(answer(self.job.url, "it is compressed although that was not asked for".into()));
        }
        if let (Some(total), Some(bytes)) = (self.total, self.job.bytes)
            && total != bytes
        {
            discard(self.job.part)?;
            return Err(answer(self.job.url, format!("{total} bytes, but the file has {bytes}")));
        }
        self.check_size(self.total.or(self.job.bytes).unwrap_or(0))
    }

    fn check_size(&self, bytes: u64) -> Result<(), HubError> {
        let limit = self.job.bytes.unwrap_or(u64::MAX).min(self.limits.max_bytes);
        if bytes <= limit {
            return Ok(());
        }
        // A part of what is not wanted would only take space.
        discard(self.job.part)?;
        Err(HubError::TooLarge { what: url::without_query(self.job.url).into(), bytes, limit })
    }

    fn store(&mut self, file: &mut File, bytes: &[u8]) -> Result<(), Stop> {
        self.limits.stop.check().map_err(Stop::Final)?;
        let done = self.done + bytes.len() as u64;
        if let Some(total) = self.total.filter(|&total| done > total) {
            // Whatever this is, it is not the file that was announced.
            return Err(restart(self.job, format!("more than the {total} bytes that it announced")));
        }
        self.check_size(done).map_err(Stop::Final)?;
        let written = file.write_all(bytes).map_err(HubError::io("write", self.job.part));
        written.map_err(Stop::Final)?;
        self.done = done;
        self.progress.at(self.done);
        Ok(())
    }

    fn broken(&self, source: io::Error) -> HubError {
        HubError::Broken { url: url::without_query(self.job.url).into(), got: self.done, tries: 1, source }
    }
}

fn with_tries(error: HubError, n: u32) -> HubError {
    match error {
        HubError::Broken { url, got, source, .. } => HubError::Broken { url, got, source, tries: n },
        HubError::Unreachable { url, source, .. } => HubError::Unreachable { url, source, tries: n },
        other => other,
    }
}

/// The innermost cause, which is the short one.
fn why(error: &HubError) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

fn part_len(part: &Path) -> u64 {
    std::fs::metadata(part).map_or(0, |meta| meta.len())
}

fn record_path(part: &Path) -> PathBuf {
    part.with_added_extension("json")
}

fn read_record(job: &Job<'_>) -> Option<PartRecord> {
    let bytes = std::fs::read(record_path(job.part)).ok()?;
    serde_json::from_slice::<PartRecord>(&bytes).ok().filter(|record| record.url == job.url)
}

fn strong_etag(headers: &HeaderMap) -> Option<&str> {
    let etag = headers.get(header::ETAG)?.to_str().ok()?;
    (etag.len() > 2 && etag.starts_with('"') && etag.ends_with('"')).then_some(etag)
}

fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.trim().parse().ok()
}

/// The whole file's size, if the answer goes on exactly where the part ends and is of the same file.
fn resumed_total(headers: &HeaderMap, from: u64, etag: &str) -> Result<Option<u64>, String> {
    if headers.get(header::ETAG).is_some_and(|now| now != etag) {
        return Err("the file changed while it was being resumed".into());
    }
    let text = headers.get(header::CONTENT_RANGE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let (range, total) = text
        .strip_prefix("bytes ")
        .and_then(|rest| rest.split_once('/'))
        .ok_or(format!("content-range `{text}`"))?;
    let starts_at = range.split_once('-').and_then(|(start, _)| start.parse().ok());
    if starts_at != Some(from) {
        return Err(format!("content-range `{text}`, asked for was byte {from} onwards"));
    }
    Ok(total.parse().ok())
}

fn advice(status: StatusCode) -> String {
    match status.as_u16() {
        404 | 410 => "There is no such file: check the address",
        401 | 403 => "It is not public: a link is needed that works without signing in",
        429 => "It is asked too often: wait a while, then pull again",
        code if code >= 500 => "The server has trouble: pull again later",
        _ => "Check the address",
    }
    .into()
}
