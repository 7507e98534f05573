//! `with-parent`: what pip is started through. Nothing can be done any more for a pull whose process was killed outright, and pip
//! would go on by itself for as long as the download takes.

use clap::Args;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// What a shell ends with that cannot start a command.
const NOT_STARTED: i32 = 127;

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
        eprintln!("{}: {error}", self.program.display());
        std::process::exit(NOT_STARTED);
    }
}
