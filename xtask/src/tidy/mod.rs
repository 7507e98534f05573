//! `cargo xtask tidy`: checks the rules of the house and reports sizes.
//!
//! Every check is a function from text to findings, so that it is tested on small made-up inputs; this module alone
//! reads the repository.
//!
//! - [`floors`]: who may import whom, and that ARCHITECTURE.md says the same.
//! - [`manifest`]: each crate's `Cargo.toml` (lints, versions from the workspace).
//! - [`source`]: Rust sources (unsafe, its proofs, module docs, sizes).
//! - [`vectors`]: the kernels' vectors and closures.
//! - [`text`]: every tracked file (registry hosts, paths of one machine).

mod floors;
mod manifest;
mod mask;
mod source;
mod text;
mod vectors;

use anyhow::{Context, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The crates that may contain `unsafe`.
const UNSAFE_CRATES: [&str; 3] = ["ring", "pool", "kernels"];

/// Something to mend (or, for sizes, to think about), and where.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    place: String,
    message: String,
}

impl Finding {
    fn new(place: impl Into<String>, message: impl Into<String>) -> Self {
        Self { place: place.into(), message: message.into() }
    }
}

/// Runs all checks on the repository around the current directory; failure when a rule is broken.
pub fn run() -> anyhow::Result<ExitCode> {
    let workspace =
        floors::Workspace::parse(&command("cargo", &["metadata", "--no-deps", "--format-version=1"])?)?;
    let root = workspace.root.clone();
    let mut broken = Vec::new();
    let mut notes = Vec::new();

    broken.extend(floors::check(&workspace));
    broken.extend(floors::check_table(&read(&root.join("ARCHITECTURE.md"))?));
    broken.extend(manifest::check_root(&read(&root.join("Cargo.toml"))?)?);
    for package in &workspace.packages {
        let place = relative(&root, &package.manifest);
        broken.extend(manifest::check(&place, package.short_name(), &read(&package.manifest)?)?);
    }
    for path in tracked(&root)? {
        // Weights, pictures and the like are not text; a tracked file may also be deleted in the working tree.
        let Ok(content) = std::fs::read_to_string(root.join(&path)) else { continue };
        broken.extend(text::check(&path, &content));
        if path.ends_with(".rs") {
            let found = source::check(&path, &content);
            broken.extend(found.broken);
            broken.extend(vectors::check(&path, &content));
            notes.extend(found.sizes);
        }
    }
    report(&broken, &notes);
    Ok(if broken.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn report(broken: &[Finding], notes: &[Finding]) {
    for note in notes {
        println!("note: {}: {}", note.place, note.message);
    }
    for finding in broken {
        eprintln!("error: {}: {}", finding.place, finding.message);
    }
    println!("tidy: {} to mend, {} worth a look", broken.len(), notes.len());
}

/// Files git tracks, and new ones it would, relative to the root.
fn tracked(root: &Path) -> anyhow::Result<Vec<String>> {
    let root = root.to_str().context("the repository's path is not UTF-8")?;
    let list = command("git", &["-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"])?;
    Ok(list.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect())
}

fn command(program: &str, args: &[&str]) -> anyhow::Result<String> {
    let output =
        Command::new(program).args(args).output().with_context(|| format!("cannot run `{program}`"))?;
    if !output.status.success() {
        bail!("`{program} {}` failed:\n{}", args.join(" "), String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8(output.stdout)?)
}

fn read(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

fn relative(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).map_or_else(|_| PathBuf::from(path), PathBuf::from).display().to_string()
}
