//! What this machine is. Answers questions; decides nothing: how many threads to start or how much memory to take is the
//! caller's policy.
//!
//! - [`Host`]: where to ask. The files of `/proc` and `/sys` are read under a root folder, so a made-up tree will do.
//! - [`cpu`]: instruction sets and the processor's name.
//! - [`cores`]: the cores this process may use, and the share of them a control group leaves it.
//! - [`memory`]: what is free, what the limit is, what this process has.
//! - [`pressure`]: how hard it is to get more.
//! - [`numa`]: the nodes of the machine.
//! - [`process`]: its signals and its parent.
//! - [`thread`]: name, priority and cores of the calling thread.
//! - `cgroup` (private): where the control groups of this process lie, version 2 and 1.
//!
//! A file that is missing or not understood is as good as not there: the answer is then the next best one, never a
//! failure. Where there is no `/proc` (not Linux) the answers come from the standard library or are `None`.

mod cgroup;
pub mod cores;
pub mod cpu;
pub mod memory;
pub mod numa;
pub mod pressure;
pub mod process;
pub mod thread;

use std::fs;
use std::path::{Path, PathBuf};

pub use cores::Cores;
pub use memory::{Memory, Resident};
pub use numa::Node;
pub use pressure::{MemoryEvents, Pressure};

/// A machine, given by the folder that its `proc` and `sys` lie in.
#[derive(Debug, Clone)]
pub struct Host {
    root: PathBuf,
}

impl Host {
    /// The machine this process runs on.
    pub fn this() -> Self {
        Self::at("/")
    }

    /// The machine that the files under `root` describe.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The cores this process may use.
    pub fn cores(&self) -> Cores {
        cores::read(self)
    }

    /// The memory there is for this process. `None` when the machine does not say.
    pub fn memory(&self) -> Option<Memory> {
        memory::read(self)
    }

    /// The memory this process has. `None` when the machine does not say.
    pub fn resident(&self) -> Option<Resident> {
        memory::resident(self, "self")
    }

    /// The memory another process has. `None` when there is none of that number, or the machine does not say.
    pub fn resident_of(&self, process: u32) -> Option<Resident> {
        memory::resident(self, &process.to_string())
    }

    /// How hard it is to get memory. `None` when the machine does not say.
    pub fn memory_pressure(&self) -> Option<Pressure> {
        pressure::pressure(self)
    }

    /// What the control group had to do to keep its limit. `None` when there is none.
    pub fn memory_events(&self) -> Option<MemoryEvents> {
        pressure::events(self)
    }

    /// The nodes of the machine, at least one.
    pub fn nodes(&self) -> Vec<Node> {
        numa::read(self)
    }

    /// Whether this process was started to ignore the signal of that number.
    pub fn ignores(&self, signal: u32) -> bool {
        process::ignores(self, signal)
    }

    /// The processor's name.
    pub fn cpu_model(&self) -> Option<String> {
        cpu::model(self)
    }

    /// The text of the file at `path` under the root.
    fn read(&self, path: impl AsRef<Path>) -> Option<String> {
        fs::read_to_string(self.root.join(path)).ok()
    }
}

/// The value of `key` in lines of the form `key: value` or `key value`.
fn field<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let rest = line.strip_prefix(key)?.trim_start_matches([' ', '\t']);
        let is_whole_key = rest.len() + key.len() < line.len() || rest.starts_with(':');
        is_whole_key.then(|| rest.strip_prefix(':').unwrap_or(rest).trim())
    })
}

/// Bytes in a field that counts kibibytes: `123 kB`.
fn kibibytes(text: &str, key: &str) -> Option<u64> {
    field(text, key)?.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod testing {
    use super::*;

    /// A made-up machine: files by path. Lives as long as the folder.
    pub(crate) fn machine(files: &[(&str, &str)]) -> (tempfile::TempDir, Host) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for (path, text) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().expect("a file lies in a folder")).expect("writable");
            fs::write(path, text).expect("writable");
        }
        let host = Host::at(folder.path());
        (folder, host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_whole_key() {
        let text =
            "MemTotalX: 1 kB\nMemTotal:\t 2 kB\ninactive_file 3\nEmpty:\nHuge: 18446744073709551615 kB\n";
        let cases = [
            ("MemTotal", Some("2 kB")),
            ("inactive_file", Some("3")),
            ("inactive", None),
            ("Empty", Some("")),
            ("Absent", None),
        ];
        for (key, expected) in cases {
            assert_eq!(field(text, key), expected, "{key}");
        }
        assert_eq!(kibibytes(text, "MemTotal"), Some(2048));
        assert_eq!(kibibytes(text, "Huge"), None);
    }
}
