//! `with-parent`: what pip is started through. Nothing can be done any more for a pull whose process was killed outright, and pip
//! would go on by itself for as long as the download takes.

use clap::Args;
use std::ffi::OsString;
use std::io::{ErrorKind, Write};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// What a shell ends with that finds no such command, and with one that it cannot start.
const NOT_FOUND: i32 = 127;
const NOT_STARTED: i32 = 126;

#[derive(Debug, Args)]
pub struct WithParent {
    parent: u32,
    program: OsString,
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

impl WithParent {
    /// Becomes the command, which ends with the process `parent`.
    pub fn run(&self) -> ! {
        // Where the system refuses to tell, it runs all the same.
        if !plimsoll_host::process::end_with_parent(self.parent).unwrap_or(true) {
            std::process::exit(NOT_STARTED);
        }
        let error = Command::new(&self.program).args(&self.arguments).exec();
        writeln!(std::io::stderr(), "{}: {error}", self.program.display()).ok();
        std::process::exit(if error.kind() == ErrorKind::NotFound { NOT_FOUND } else { NOT_STARTED });
    }
}
