//! Chores of this repository that are not part of the product.
//!
//! - [`tidy`]: the rules of the house that the compiler and clippy do not know.

mod tidy;

use std::process::ExitCode;

fn main() -> anyhow::Result<ExitCode> {
    match std::env::args().nth(1).as_deref() {
        Some("tidy") => tidy::run(),
        other => {
            let what = other.map_or("no task named".to_owned(), |task| format!("no task `{task}`"));
            eprintln!("{what}; the tasks are: tidy");
            Ok(ExitCode::from(2))
        }
    }
}
