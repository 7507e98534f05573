//! `hf://` sources, kept in the cache that Hugging Face's own tools share. Repository addresses, the cache's layout and the
//! API's answer are `hf-hub`'s; the bytes come through our own client, which bounds every wait and size.

use crate::client::{Ask, Client, answer};
use crate::config::{HfConfig, HubConfig};
use crate::digest;
use crate::download::{self, Job};
use crate::entry::Entry;
use crate::error::HubError;
use crate::fsx;
use crate::lock::Lock;
use crate::manifest::{FORMAT, FileRecord, Manifest};
use crate::progress::Progress;
use crate::select::{self, Wanted};
use crate::source::HfSource;
use crate::url::encode_path;
use hf_hub::api::RepoInfo;
use hf_hub::{Cache, CacheRepo, Repo, RepoType};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use ureq::http::{HeaderMap, StatusCode};

/// Longest index of shards, in bytes: names of some thousand tensors are a tenth of it.
const MOST_INDEX: u64 = 8 << 20;

/// A repository at one commit.
struct Snapshot<'a> {
    client: &'a Client,
    config: &'a HubConfig,
    source: &'a HfSource,
    /// Of the commit.
    repo: Repo,
    cache: CacheRepo,
    commit: String,
}

/// What the endpoint says about a file.
struct Meta {
    /// Names the blob; the SHA-256 of a large file.
    etag: String,
    bytes: Option<u64>,
}

/// Asks which commit is meant, fetches what is missing, records it. The caller holds the entry's lock.
pub(crate) fn pull(
    client: &Client,
    config: &HubConfig,
    (source, entry): (&HfSource, &Entry),
    progress: &dyn Progress,
) -> Result<PathBuf, HubError> {
    let info = info(client, &config.hf, source)?;
    let files: Vec<&str> = info.siblings.iter().map(|sibling| sibling.rfilename.as_str()).collect();
    let commit = plain_word(&info.sha)
        .ok_or_else(|| answer(&config.hf.endpoint, format!("commit `{}`", info.sha.escape_debug())))?;
    let snapshot = Snapshot {
        client,
        config,
        source,
        repo: Repo::with_revision(source.repo.clone(), RepoType::Model, commit.clone()),
        cache: Cache::new(config.hf.cache.clone()).repo(repo(source)),
        commit,
    };
    let (opens, records) = snapshot.fetch_wanted(&files, progress)?;
    if source.revision.as_ref() != Some(&snapshot.commit) {
        snapshot
            .cache
            .create_ref(&snapshot.commit)
            .map_err(HubError::io("write", config.hf.cache.join("…/refs")))?;
    }
    fsx::remove(&entry.staging())?;
    let manifest = Manifest {
        format: FORMAT,
        source: source.to_string(),
        resolved: format!("{} at {}", source.repo, snapshot.commit),
        root: Some(snapshot.root()),
        opens,
        files: records,
    };
    entry.publish(&manifest)
}

/// What another tool has put into the shared cache already, found without asking anybody.
pub(crate) fn shared(config: &HfConfig, source: &HfSource) -> Option<PathBuf> {
    let cache = Cache::new(config.cache.clone()).repo(repo(source));
    // A commit has no reference file; its snapshot folder bears its name.
    let find = |file: &str| match &source.revision {
        Some(revision) if is_commit(revision) => {
            Some(cache.pointer_path(revision).join(file)).filter(|path| path.exists())
        }
        _ => cache.get(file),
    };
    match &source.path {
        Some(path) => find(path).filter(|path| path.is_file()),
        // Which weights belong to a folder only its index says: one file of weights is the case that needs none.
        None => find("model.safetensors")
            .and(find("config.json"))
            .and(find("tokenizer.json"))?
            .parent()
            .map(Path::to_owned),
    }
}

fn repo(source: &HfSource) -> Repo {
    let revision = source.revision.clone().unwrap_or_else(|| "main".into());
    Repo::with_revision(source.repo.clone(), RepoType::Model, revision)
}

fn is_commit(revision: &str) -> bool {
    revision.len() == 40 && revision.bytes().all(|b| b.is_ascii_hexdigit())
}

fn info(client: &Client, config: &HfConfig, source: &HfSource) -> Result<RepoInfo, HubError> {
    let url = format!("{}/api/{}", config.endpoint, repo(source).api_url());
    let (status, headers, text) =
        client.text(&Ask { url: &url, token: config.token.as_ref(), resume: None })?;
    if status != StatusCode::OK {
        return Err(refusal(&url, (status, &headers), config, source));
    }
    serde_json::from_str(&text).map_err(|error| answer(&url, error.to_string()))
}

fn refusal(
    url: &str,
    (status, headers): (StatusCode, &HeaderMap),
    config: &HfConfig,
    source: &HfSource,
) -> HubError {
    let code = headers.get("x-error-code").and_then(|value| value.to_str().ok()).unwrap_or_default();
    let page = format!("{}/{}", config.endpoint, source.repo);
    let advice = match (status.as_u16(), code) {
        (_, "GatedRepo") | (403, _) => match config.token {
            Some(_) => format!(
                "The model is gated and the token has no access: accept its terms at {page}, or use another token"
            ),
            None => format!(
                "The model is gated: accept its terms at {page}, then set HF_TOKEN to a token with read access"
            ),
        },
        (401, _) if config.token.is_some() => {
            format!("The token is not valid, or {page} does not exist or is private")
        }
        (401, _) => format!(
            "{page} does not exist, is private or is gated. For the last two set HF_TOKEN to a token with read access"
        ),
        (404, "RevisionNotFound") => format!("{page} has no revision `{}`", repo(source).revision()),
        (404, _) => format!(
            "Check that {page} exists, and the revision `{}`; a private one needs HF_TOKEN",
            repo(source).revision()
        ),
        (429, _) => "It is asked too often: wait a while, or set HF_TOKEN".into(),
        _ => "The endpoint (HF_ENDPOINT) has trouble: pull again later".into(),
    };
    HubError::Status { url: url.into(), status: status.as_u16(), advice }
}

impl Snapshot<'_> {
    fn root(&self) -> PathBuf {
        self.cache.pointer_path(&self.commit)
    }

    fn fetch_wanted(
        &self,
        files: &[&str],
        progress: &dyn Progress,
    ) -> Result<(String, Vec<FileRecord>), HubError> {
        let wanted =
            select::wanted(files, self.source.path.as_deref()).map_err(|missing| self.missing(missing))?;
        let mut records = Vec::new();
        let (opens, mut queue) = match wanted {
            Wanted::File(file) => (file.to_owned(), vec![file.to_owned()]),
            Wanted::Folder { folder, first } => (folder, first),
        };
        if queue.len() > self.config.limits.max_files {
            return Err(self.missing((
                format!("{} files, at most {} are allowed", queue.len(), self.config.limits.max_files),
                Vec::new(),
            )));
        }
        // An index comes early and names the shards that follow it.
        let mut next = 0;
        while let Some(file) = queue.get(next).cloned() {
            next += 1;
            records.push(self.fetch(&file, progress)?);
            if file.ends_with(select::INDEX) {
                let index = self.index(&file)?;
                let shards =
                    select::shards(&index, &opens, files).map_err(|missing| self.missing(missing))?;
                queue.extend(shards);
            }
        }
        Ok((opens, records))
    }

    /// The index of shards, which is not read whole before it is known to be short.
    fn index(&self, file: &str) -> Result<Vec<u8>, HubError> {
        let path = self.root().join(file);
        let mut text = Vec::new();
        let read = File::open(&path).and_then(|index| index.take(MOST_INDEX + 1).read_to_end(&mut text));
        read.map_err(HubError::io("read", &path))?;
        if text.len() as u64 > MOST_INDEX {
            let problem = format!("`{file}` is larger than {MOST_INDEX} bytes, which no index of shards is");
            return Err(self.missing((problem, Vec::new())));
        }
        Ok(text)
    }

    fn missing(&self, (problem, near): (String, Vec<String>)) -> HubError {
        HubError::NotInRepo {
            repo: format!("{} at {}", self.source.repo, repo(self.source).revision()),
            problem,
            near,
        }
    }

    /// One file of the snapshot, from the cache or the endpoint.
    fn fetch(&self, file: &str, progress: &dyn Progress) -> Result<FileRecord, HubError> {
        let path =
            crate::source::relative(file).map_err(|problem| answer(&self.config.hf.endpoint, problem))?;
        let url = format!(
            "{}/{}/resolve/{}/{}",
            self.config.hf.endpoint,
            self.repo.url(),
            self.repo.url_revision(),
            encode_path(&path)
        );
        let meta = self.meta(&url)?;
        let blob = self.cache.blob_path(&meta.etag);
        let sha256 = self.blob((&url, file), &meta, &blob, progress)?;
        let bytes = std::fs::metadata(&blob).map_err(HubError::io("read", &blob))?.len();
        link(&blob, &self.root().join(&path))?;
        Ok(FileRecord { path, bytes, sha256 })
    }

    fn meta(&self, url: &str) -> Result<Meta, HubError> {
        let hf = &self.config.hf;
        let head = self.client.head(&Ask { url, token: hf.token.as_ref(), resume: None })?;
        if !(head.status.is_success() || head.status.is_redirection()) {
            return Err(refusal(url, (head.status, &head.headers), hf, self.source));
        }
        let text = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok());
        let etag =
            text("x-linked-etag").or_else(|| text("etag")).ok_or_else(|| answer(url, "no ETag".into()))?;
        let etag = etag.trim_start_matches("W/").trim_matches('"');
        // It becomes a file name.
        let etag = plain_word(etag).ok_or_else(|| answer(url, format!("ETag `{}`", etag.escape_debug())))?;
        // Of a redirect, content-length is the length of its own little body.
        let plain = if head.status.is_success() { text("content-length") } else { None };
        Ok(Meta { etag, bytes: text("x-linked-size").or(plain).and_then(|bytes| bytes.trim().parse().ok()) })
    }

    /// Makes sure the blob is there, whole and verified, and returns its digest.
    fn blob(
        &self,
        (url, file): (&str, &str),
        meta: &Meta,
        blob: &Path,
        progress: &dyn Progress,
    ) -> Result<String, HubError> {
        let hf = &self.config.hf;
        // The same lock that Hugging Face's Python client takes.
        let lock =
            hf.cache.join(".locks").join(repo(self.source).folder_name()).join(format!("{}.lock", meta.etag));
        let _lock = Lock::acquire(&lock, file, &self.config.limits, progress)?;
        let is_whole =
            std::fs::metadata(blob).is_ok_and(|found| meta.bytes.is_none_or(|bytes| bytes == found.len()));
        if is_whole {
            return verified(blob, file, &meta.etag, url, progress);
        }
        blob.parent().map_or(Ok(()), fsx::create_dir)?;
        let part = blob.with_added_extension("plimsoll-part");
        let job = Job { url, token: hf.token.as_ref(), part: &part, label: file, bytes: meta.bytes };
        download::fetch(self.client, &self.config.limits, &job, progress)?;
        let sha256 = verified(&part, file, &meta.etag, url, progress)?;
        fsx::rename(&part, blob)?;
        Ok(sha256)
    }
}

/// The file's digest, compared with the ETag where that is one (large files). A file that differs is deleted.
fn verified(
    path: &Path,
    file: &str,
    etag: &str,
    url: &str,
    progress: &dyn Progress,
) -> Result<String, HubError> {
    let actual = digest::of_file(path, file, progress)?;
    let promised = etag.len() == 64 && etag.bytes().all(|b| b.is_ascii_hexdigit());
    if promised && !actual.eq_ignore_ascii_case(etag) {
        fsx::remove(path)?;
        return Err(HubError::Checksum {
            file: file.into(),
            origin: url.into(),
            expected: etag.into(),
            actual,
        });
    }
    Ok(actual)
}

/// Links the snapshot's file to its blob, as Hugging Face's tools do.
fn link(blob: &Path, pointer: &Path) -> Result<(), HubError> {
    if pointer.exists() {
        return Ok(());
    }
    pointer.parent().map_or(Ok(()), fsx::create_dir)?;
    // A link that leads nowhere: its blob was deleted by hand.
    fsx::remove(pointer)?;
    #[cfg(unix)]
    let linked = std::os::unix::fs::symlink(blob, pointer);
    #[cfg(not(unix))]
    let linked = std::fs::hard_link(blob, pointer);
    match linked {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        other => other.map_err(HubError::io("link", pointer)),
    }
}

fn plain_word(text: &str) -> Option<String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    (!text.is_empty() && text.len() <= 128 && !text.starts_with('.') && text.chars().all(plain))
        .then(|| text.to_owned())
}
