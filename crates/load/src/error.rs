//! What stops a run before, or instead of, its measurements. Failures of single requests are records, not errors.

use std::path::PathBuf;

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The address cannot be one.
    #[error("`{url}` is no address of a server: {why}; write http://HOST:PORT")]
    Url {
        /// As given.
        url: String,
        /// What is wrong with it.
        why: String,
    },
    /// Nobody answers there.
    #[error("{url} cannot be reached: {why}; is the server running there?")]
    Unreachable {
        /// The server.
        url: String,
        /// What the system said.
        why: String,
    },
    /// The server does not have the model.
    #[error("{url} has no model `{model}`; it has {known}")]
    UnknownModel {
        /// The server.
        url: String,
        /// The model asked for.
        model: String,
        /// Those it has.
        known: String,
    },
    /// No model was named, and the server does not list its own.
    #[error("{url} does not say which models it has ({why}); name one with --model")]
    NoModels {
        /// The server.
        url: String,
        /// What it said instead.
        why: String,
    },
    /// The requests that were to be sent do not work at all.
    #[error("{url} does not take the request: {why}")]
    Rejected {
        /// The server, with the path.
        url: String,
        /// Its status and words.
        why: String,
    },
    /// A file cannot be read.
    #[error("cannot read {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A line of a trace makes no sense.
    #[error("{place}: {what}")]
    Trace {
        /// File and line.
        place: String,
        /// What is wrong there.
        what: String,
    },
    /// More requests than a plan holds.
    #[error("more than {most} requests in one run; lower the rate, the number or the duration")]
    TooMany {
        /// As many as it holds.
        most: usize,
    },
    /// Told to stop. What was measured until then is in the report.
    #[error("stopped before the end: what was measured until then is reported")]
    Stopped,
    /// There is nothing to send.
    #[error("nothing would be sent: {0}")]
    Nothing(String),
}
