//! Errors inside a reader, before the path of the file is added.

use super::CheckpointError;
use std::{borrow::Cow, io, path::Path};

/// What is wrong with a file, without its path.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The file could not be read.
    Io(io::Error),
    /// The bytes are not what the format says.
    Format(String),
    /// A sound file of a kind this engine does not run.
    Unsupported(String),
}

impl Fault {
    /// Adds the path of the file.
    pub(crate) fn at(self, path: &Path) -> CheckpointError {
        let path = path.to_path_buf();
        match self {
            Self::Io(source) => CheckpointError::Io { path, source },
            Self::Format(what) => CheckpointError::Format { path, what },
            Self::Unsupported(what) => CheckpointError::Unsupported { path, what },
        }
    }
}

impl From<io::Error> for Fault {
    fn from(source: io::Error) -> Self {
        Self::Io(source)
    }
}

/// Longest piece of a file's text that a message quotes, in characters.
const QUOTE_CHARS: usize = 80;

/// A file's text for a one-line message: escaped and cut short, because it may hold anything.
pub(crate) fn quote(text: &str) -> String {
    let mut chars = text.chars();
    let head: Cow<'_, str> = chars.by_ref().take(QUOTE_CHARS).flat_map(char::escape_debug).collect();
    let dots = if chars.next().is_some() { "..." } else { "" };
    format!("`{head}{dots}`")
}

macro_rules! bad {
    ($($arg:tt)*) => { $crate::checkpoint::fault::Fault::Format(format!($($arg)*)) };
}
macro_rules! unsupported {
    ($($arg:tt)*) => { $crate::checkpoint::fault::Fault::Unsupported(format!($($arg)*)) };
}
pub(crate) use {bad, unsupported};
