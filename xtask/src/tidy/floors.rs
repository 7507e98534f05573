//! Floors: a crate imports only crates on lower floors.

use super::Finding;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// The floor of every crate, by folder name. ARCHITECTURE.md shows the same table, and is checked against this one.
const FLOORS: &[(&str, Floor)] = &[
    ("ring", Floor::At(0)),
    ("kv", Floor::At(0)),
    ("charts", Floor::At(0)),
    ("trial", Floor::At(0)),
    ("pool", Floor::At(1)),
    ("sched", Floor::At(1)),
    ("host", Floor::At(1)),
    ("api", Floor::At(1)),
    ("kernels", Floor::At(2)),
    ("telemetry", Floor::At(2)),
    ("model", Floor::At(3)),
    ("hub", Floor::At(3)),
    ("runtime", Floor::At(4)),
    ("gateway", Floor::At(5)),
    ("load", Floor::At(5)),
    ("simulate", Floor::At(5)),
    ("plimsoll", Floor::At(6)),
    ("testkit", Floor::Dev),
];

/// Not part of the product, and so on no floor; imports nothing of it.
const TOOLS: &[&str] = &["xtask"];

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Floor {
    At(u8),
    /// Test doubles: may import any crate below the binary, is imported by tests alone.
    Dev,
}

impl std::fmt::Display for Floor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::At(floor) => write!(f, "{floor}"),
            Self::Dev => f.write_str("dev"),
        }
    }
}

fn floor(name: &str) -> Option<Floor> {
    FLOORS.iter().find(|row| row.0 == name).map(|row| row.1)
}

/// What `cargo metadata --no-deps` says, as far as it matters here.
#[derive(Debug, Deserialize)]
pub struct Workspace {
    #[serde(rename = "workspace_root")]
    pub root: PathBuf,
    pub packages: Vec<Package>,
}

#[derive(Debug, Deserialize)]
pub struct Package {
    name: String,
    #[serde(rename = "manifest_path")]
    pub manifest: PathBuf,
    dependencies: Vec<Dependency>,
}

#[derive(Debug, Deserialize)]
struct Dependency {
    name: String,
    /// `dev`, `build`, or null for a normal one.
    kind: Option<String>,
    /// Set for crates of this workspace.
    path: Option<PathBuf>,
}

impl Workspace {
    pub fn parse(json: &str) -> anyhow::Result<Self> {
        Ok(serde_json::from_str(json)?)
    }
}

impl Package {
    /// The name without `plimsoll-`: the folder's.
    pub fn short_name(&self) -> &str {
        short(&self.name)
    }
}

fn short(name: &str) -> &str {
    name.strip_prefix("plimsoll-").unwrap_or(name)
}

/// Every import goes down, and every crate has a floor.
pub fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut found = Vec::new();
    for package in &workspace.packages {
        let name = package.short_name();
        if floor(name).is_none() && !TOOLS.contains(&name) {
            found.push(Finding::new(
                &package.name,
                "has no floor: add it to xtask/src/tidy/floors.rs and ARCHITECTURE.md",
            ));
            continue;
        }
        for dependency in package.dependencies.iter().filter(|dependency| dependency.path.is_some()) {
            let to = short(&dependency.name);
            if !allowed(name, to, dependency.kind.as_deref() == Some("dev")) {
                found.push(Finding::new(&package.name, illegal(name, to)));
            }
        }
    }
    found
}

fn illegal(from: &str, to: &str) -> String {
    let show = |name| floor(name).map_or("none".to_owned(), |floor| floor.to_string());
    format!(
        "is on floor {} and imports `{to}` on floor {}; a crate imports only lower floors",
        show(from),
        show(to)
    )
}

fn allowed(from: &str, to: &str, dev: bool) -> bool {
    match (floor(from), floor(to)) {
        (Some(_), Some(Floor::Dev)) => dev,
        (Some(Floor::Dev), Some(_)) => to != "plimsoll",
        (Some(Floor::At(from)), Some(Floor::At(to))) => to < from,
        _ => false,
    }
}

/// The floor table in ARCHITECTURE.md is the one above: rows `| floor | ... crate names in backticks ... | ...`.
pub fn check_table(markdown: &str) -> Vec<Finding> {
    let written: BTreeSet<(String, String)> = markdown.lines().filter_map(row).collect();
    let real: BTreeSet<(String, String)> =
        FLOORS.iter().map(|(name, floor)| (floor.to_string(), (*name).to_owned())).collect();
    let missing = real
        .difference(&written)
        .map(|(floor, name)| format!("the floor table lacks `{name}` on floor {floor}"));
    let wrong = written
        .difference(&real)
        .map(|(floor, name)| format!("the floor table has `{name}` on floor {floor}, tidy does not"));
    missing.chain(wrong).map(|message| Finding::new("ARCHITECTURE.md", message)).collect()
}

fn row(line: &str) -> Option<(String, String)> {
    let mut cells = line.strip_prefix('|')?.split('|').map(str::trim);
    let floor = cells.next()?;
    let name = cells.next()?.strip_prefix('`')?.strip_suffix('`')?;
    let is_floor = floor == "dev" || (!floor.is_empty() && floor.bytes().all(|byte| byte.is_ascii_digit()));
    is_floor.then(|| (floor.to_owned(), name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A workspace of one package with one import.
    fn workspace(name: &str, to: &str, kind: Option<&str>) -> Workspace {
        let dependency = serde_json::json!({"name": to, "kind": kind, "path": "p"});
        let package =
            serde_json::json!({"name": name, "manifest_path": "Cargo.toml", "dependencies": [dependency]});
        let json = serde_json::json!({"workspace_root": "w", "packages": [package]});
        Workspace::parse(&json.to_string()).unwrap()
    }

    #[test]
    fn imports_go_down() {
        let cases: &[(&str, &str, Option<&str>, bool)] = &[
            ("plimsoll-pool", "plimsoll-ring", None, true),
            ("plimsoll-ring", "plimsoll-pool", None, false),
            ("plimsoll-ring", "plimsoll-kv", None, false),
            ("plimsoll-ring", "plimsoll-kv", Some("dev"), false),
            ("plimsoll-model", "plimsoll-hub", None, false),
            ("plimsoll-gateway", "plimsoll-runtime", None, true),
            ("plimsoll-gateway", "plimsoll-runtime", Some("build"), true),
            ("plimsoll", "plimsoll-gateway", None, true),
            ("plimsoll-gateway", "plimsoll-testkit", Some("dev"), true),
            ("plimsoll-gateway", "plimsoll-testkit", None, false),
            ("plimsoll-testkit", "plimsoll-model", None, true),
            ("plimsoll-testkit", "plimsoll", None, false),
            ("xtask", "plimsoll-api", None, false),
        ];
        for &(from, to, kind, fine) in cases {
            let found = check(&workspace(from, to, kind));
            assert_eq!(found.is_empty(), fine, "{from} -> {to} ({kind:?}): {found:?}");
        }
    }

    #[test]
    fn every_crate_has_a_floor() {
        let found = check(&workspace("plimsoll-attic", "plimsoll-ring", None));
        assert!(found[0].message.starts_with("has no floor"), "{found:?}");
    }

    #[test]
    fn the_document_says_the_same() {
        let table: String =
            FLOORS.iter().map(|(name, floor)| format!("| {floor} | `{name}` | is | never |\n")).collect();
        assert_eq!(check_table(&table), []);
        assert_eq!(check_table(&table.replace("| 0 | `ring`", "| 1 | `ring`")).len(), 2);
        assert_eq!(check_table(&format!("{table}| 3 | `attic` | is | never |")).len(), 1);
        assert_eq!(check_table("").len(), FLOORS.len());
    }
}
