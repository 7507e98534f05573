//! Logs: text on a terminal, JSON otherwise.
//!
//! Events carry `request_id` where a request is concerned. Prompt text is never logged, at any level.

use std::io::IsTerminal;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// Text when standard error is a terminal, JSON when it is not.
    #[default]
    Auto,
    /// For people.
    Text,
    /// One JSON object per line.
    Json,
}

/// Why logging could not begin.
#[derive(Debug, thiserror::Error)]
pub enum LogsError {
    /// The level is none.
    #[error(
        "`{level}` is no log level; use error, warn, info, debug, trace or off, or per module as in `info,plimsoll_gateway=debug`"
    )]
    Level {
        /// What was given.
        level: String,
    },
    /// Somebody else has installed a subscriber in this process.
    #[error("logging has begun already in this process")]
    Begun,
}

/// Begins logging to standard error. `level` is a level (`info`) or a list of `module=level`.
///
/// # Errors
/// [`LogsError::Level`] for what is no level, [`LogsError::Begun`] when called a second time.
pub fn init(format: Format, level: &str) -> Result<(), LogsError> {
    let filter = targets(level).ok_or_else(|| LogsError::Level { level: level.to_owned() })?;
    let terminal = std::io::stderr().is_terminal();
    let text = format == Format::Text || (format == Format::Auto && terminal);
    let layer = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let registry = tracing_subscriber::registry().with(filter);
    let begun = if text {
        registry.with(layer.with_ansi(terminal).compact()).try_init()
    } else {
        registry.with(layer.json().flatten_event(true).with_span_list(false)).try_init()
    };
    begun.map_err(|_| LogsError::Begun)
}

/// Without `=` a part is a level here. The parser would take it for a module, and nothing for `error`: with a level mistyped
/// nothing would be logged.
fn targets(level: &str) -> Option<Targets> {
    let is_level = |part: &str| !part.is_empty() && part.parse::<LevelFilter>().is_ok();
    let is_right = |part: &str| part.contains('=') || is_level(part);
    level.split(',').all(is_right).then(|| level.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::{Format, LogsError, init, targets};

    #[test]
    fn refuses_what_is_no_level() {
        let error = init(Format::Json, "loud=very").unwrap_err();
        assert!(matches!(error, LogsError::Level { .. }));
        assert!(error.to_string().starts_with("`loud=very` is no log level"));
        for level in ["wran", "", "info,", "plimsoll_gateway", "plimsoll_gateway=debug,inof"] {
            assert!(targets(level).is_none(), "{level}");
        }
        for level in ["warn", "INFO", "off", "info,plimsoll_gateway=debug", "plimsoll_gateway=debug"] {
            assert!(targets(level).is_some(), "{level}");
        }
    }

    #[test]
    fn begins_once() {
        init(Format::Json, "warn").unwrap();
        tracing::debug!("not shown");
        assert!(matches!(init(Format::Text, "info").unwrap_err(), LogsError::Begun));
    }
}
