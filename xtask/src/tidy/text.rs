//! Every tracked file: nothing in it belongs to one machine or one registry.

use super::Finding;

/// Folders of somebody's machine, as the first part of an absolute path.
const MACHINE_FOLDERS: [&str; 6] = ["home", "root", "work", "tmp", "Users", "mnt"];

/// Words that make a host name a package registry's or a mirror's.
const REGISTRY_WORDS: [&str; 8] =
    ["pypi", "pythonhosted", "crates", "npm", "mirror", "registry", "artifact", "nexus"];

/// Ends of host names, so that `registry.rs` is not one.
const HOST_ENDS: [&str; 7] = ["org", "io", "com", "net", "dev", "internal", "local"];

/// What cargo itself writes for its public registry, on every machine.
const LOCKED_SOURCE: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Files whose content is given: reference answers hold any text, and a licence is what it is.
fn is_given(path: &str) -> bool {
    path.starts_with("tests/golden/") || path == "LICENSE"
}

/// Checks one file; `path` is relative to the repository.
pub fn check(path: &str, content: &str) -> Vec<Finding> {
    if is_given(path) {
        return Vec::new();
    }
    let lockfile = path.ends_with("Cargo.lock");
    let mut found = Vec::new();
    for (number, line) in content.lines().enumerate() {
        let place = || format!("{path}:{}", number + 1);
        let line = if lockfile { line.replace(LOCKED_SOURCE, "") } else { line.to_owned() };
        if let Some(host) = registry_host(&line) {
            found.push(Finding::new(
                place(),
                format!("names the registry host `{host}`; use the client's own configuration"),
            ));
        }
        if let Some(folder) = machine_path(&line) {
            found
                .push(Finding::new(place(), format!("has a path below `/{folder}`, which is one machine's")));
        }
    }
    found
}

fn registry_host(line: &str) -> Option<&str> {
    line.split(|c: char| !(c.is_ascii_alphanumeric() || c == '.' || c == '-'))
        .map(|word| word.trim_matches(['.', '-']))
        .find(|word| {
            let end = word.rsplit_once('.').map(|(_, end)| end);
            end.is_some_and(|end| HOST_ENDS.contains(&end))
                && REGISTRY_WORDS.iter().any(|part| word.contains(part))
        })
}

fn machine_path(line: &str) -> Option<&'static str> {
    MACHINE_FOLDERS.into_iter().find(|folder| {
        let start = format!("/{folder}/");
        line.match_indices(&start).any(|(at, _)| line[..at].chars().next_back().is_none_or(starts_path))
    })
}

/// Whether a path can start after `c`: not inside a longer path, a URL or a variable's value.
fn starts_path(c: char) -> bool {
    c.is_whitespace() || matches!(c, '"' | '\'' | '`' | '(' | '[' | '<' | '=' | ':' | ',' | '>')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_paths() {
        // Joined here, so that this file passes its own check.
        let path = |folder: &str, rest: &str| format!("/{folder}/{rest}");
        let cases = [
            ("README.md", "pip download x".to_owned(), 0),
            ("README.md", format!("see https://{}.org/x", "pypi"), 1),
            ("README.md", format!("index = \"{}.internal:8080\"", "some-mirror"), 1),
            ("README.md", "https://github.com/x and registry.rs, mirror.example".to_owned(), 0),
            ("Cargo.lock", format!("source = \"{LOCKED_SOURCE}\""), 0),
            ("Cargo.lock", format!("source = \"registry+https://{}.com/index\"", "npm-mirror"), 1),
            ("a.rs", format!("open(\"{}\")", path("tmp", "x")), 1),
            ("a.rs", path("root", ".cache"), 1),
            ("a.rs", path("sys", "fs/cgroup"), 0),
            ("a.rs", format!("target{}", path("tmp", "x")), 0),
            ("a.rs", format!("https://example.org{}", path("home", "x")), 0),
            ("tests/golden/x.json", path("tmp", "x"), 0),
        ];
        for (file, content, broken) in cases {
            let found = check(file, &content);
            assert_eq!(found.len(), broken, "{file}: {content}\n{found:?}");
        }
    }
}
