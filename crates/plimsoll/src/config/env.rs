//! The environment beyond clap's `PLIMSOLL_*`: what belongs to other tools, such as cache folders and proxies.

/// The value of a variable; one that is not UTF-8 counts as unset.
#[expect(clippy::disallowed_methods, reason = "this module is the one place that reads the environment")]
pub fn lookup(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
