//! Manifests: lints and versions come from the workspace.

use super::{Finding, UNSAFE_CRATES};
use anyhow::Context;
use toml::{Table, Value};

/// Lints a crate with `unsafe` must set itself, since it cannot inherit `forbid(unsafe_code)`.
const UNSAFE_LINTS: [(&str, &str); 2] =
    [("rust", "unsafe_op_in_unsafe_fn"), ("clippy", "undocumented_unsafe_blocks")];

/// The root manifest forbids unsafe code for all who inherit its lints.
pub fn check_root(text: &str) -> anyhow::Result<Vec<Finding>> {
    let manifest = parse("Cargo.toml", text)?;
    let lint = dig(&manifest, &["workspace", "lints", "rust", "unsafe_code"]);
    if lint.and_then(Value::as_str) == Some("forbid") {
        return Ok(Vec::new());
    }
    Ok(vec![Finding::new("Cargo.toml", "[workspace.lints.rust] must have unsafe_code = \"forbid\"")])
}

/// One member's manifest.
pub fn check(place: &str, name: &str, text: &str) -> anyhow::Result<Vec<Finding>> {
    let manifest = parse(place, text)?;
    let mut found = lints(place, name, &manifest);
    for (section, table) in dependency_tables(&manifest) {
        let own = table.iter().filter(|(_, value)| !from_workspace(value));
        found.extend(own.map(|(dependency, _)| {
            let message = format!(
                "[{section}] {dependency} must be `.workspace = true`; versions live in the root Cargo.toml"
            );
            Finding::new(place, message)
        }));
    }
    Ok(found)
}

fn parse(place: &str, text: &str) -> anyhow::Result<Table> {
    text.parse().with_context(|| format!("{place} is not TOML"))
}

fn dig<'a>(table: &'a Table, path: &[&str]) -> Option<&'a Value> {
    let (last, parents) = path.split_last()?;
    parents.iter().try_fold(table, |table, key| table.get(*key)?.as_table())?.get(*last)
}

fn lints(place: &str, name: &str, manifest: &Table) -> Vec<Finding> {
    if dig(manifest, &["lints", "workspace"]).and_then(Value::as_bool) == Some(true) {
        return Vec::new();
    }
    if !UNSAFE_CRATES.contains(&name) {
        let message = "must have [lints] workspace = true, which forbids unsafe code";
        return vec![Finding::new(place, message)];
    }
    UNSAFE_LINTS
        .iter()
        .filter(|(tool, lint)| dig(manifest, &["lints", tool, lint]).is_none())
        .map(|(tool, lint)| {
            Finding::new(place, format!("[lints.{tool}] must have {lint}: this crate may use unsafe"))
        })
        .collect()
}

/// All dependency tables, the ones for a target included.
fn dependency_tables(manifest: &Table) -> Vec<(String, &Table)> {
    let mut tables = kinds("", manifest);
    for (target, value) in manifest.get("target").and_then(Value::as_table).into_iter().flatten() {
        tables.extend(
            value.as_table().map(|table| kinds(&format!("target.{target}."), table)).unwrap_or_default(),
        );
    }
    tables
}

fn kinds<'a>(prefix: &str, table: &'a Table) -> Vec<(String, &'a Table)> {
    ["dependencies", "dev-dependencies", "build-dependencies"]
        .iter()
        .filter_map(|kind| Some((format!("{prefix}{kind}"), table.get(*kind)?.as_table()?)))
        .collect()
}

fn from_workspace(value: &Value) -> bool {
    value.get("workspace").and_then(Value::as_bool) == Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members() {
        let inherits = "[lints]\nworkspace = true\n";
        let own = "[lints.rust]\nunsafe_op_in_unsafe_fn = \"deny\"\n[lints.clippy]\nundocumented_unsafe_blocks = \"warn\"\n";
        let cases: &[(&str, String, usize)] = &[
            ("api", inherits.into(), 0),
            ("api", String::new(), 1),
            ("api", own.into(), 1),
            ("ring", own.into(), 0),
            ("ring", inherits.into(), 0),
            ("ring", "[lints.rust]\n".into(), 2),
            ("api", format!("{inherits}[dependencies]\nserde.workspace = true"), 0),
            (
                "api",
                format!("{inherits}[dependencies]\nserde = {{ workspace = true, features = [\"rc\"] }}"),
                0,
            ),
            ("api", format!("{inherits}[dependencies]\nserde = \"1\""), 1),
            ("api", format!("{inherits}[dev-dependencies]\nserde = {{ version = \"1\" }}"), 1),
            ("api", format!("{inherits}[build-dependencies]\ncc = \"1\""), 1),
            ("api", format!("{inherits}[target.'cfg(unix)'.dependencies]\nlibc = \"0.2\""), 1),
        ];
        for (name, text, broken) in cases {
            let found = check("Cargo.toml", name, text).unwrap();
            assert_eq!(found.len(), *broken, "{name}: {text}\n{found:?}");
        }
    }

    #[test]
    fn root() {
        assert_eq!(check_root("[workspace.lints.rust]\nunsafe_code = \"forbid\"").unwrap(), []);
        assert_eq!(check_root("[workspace.lints.rust]\nunsafe_code = \"deny\"").unwrap().len(), 1);
        assert_eq!(check_root("[workspace]").unwrap().len(), 1);
        assert!(check_root("not toml").is_err());
    }
}
