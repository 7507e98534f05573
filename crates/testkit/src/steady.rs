//! Which threads of this process allocate. The test's binary must have [`Counting`] as its allocator.
//!
//! [`Counting`]: plimsoll_pool::counting::Counting

use plimsoll_pool::counting::{self, Counts};
use std::fs;

/// The threads of this process whose names begin in one of these ways, and what they had allocated at some time.
#[derive(Debug)]
pub struct Threads {
    /// Number in the system, name, and the counts at the beginning.
    threads: Vec<(i32, String, Counts)>,
}

impl Threads {
    /// Those there are now. (The system keeps the first 15 bytes of a name.)
    ///
    /// # Panics
    /// When there is none for some prefix, or the system does not tell.
    pub fn named(prefixes: &[&str]) -> Self {
        let all = fs::read_dir("/proc/self/task").expect("a Linux with /proc");
        let threads: Vec<_> = all
            .filter_map(|entry| {
                let path = entry.ok()?.path();
                let name = fs::read_to_string(path.join("comm")).ok()?.trim_end().to_owned();
                let number = path.file_name()?.to_str()?.parse().ok()?;
                let is_wanted = prefixes.iter().any(|prefix| name.starts_with(prefix));
                is_wanted.then(|| (number, name, counting::of(number).unwrap_or_default()))
            })
            .collect();
        for prefix in prefixes {
            let is_there = threads.iter().any(|(_, name, _)| name.starts_with(prefix));
            assert!(is_there, "no thread is called {prefix}...");
        }
        Self { threads }
    }

    /// Has the next allocation of each of them say where it came from.
    pub fn watch(&self) {
        self.threads.iter().for_each(|&(number, ..)| counting::watch(number, true));
    }

    /// What each has done since the beginning, by name.
    pub fn since(&self) -> impl Iterator<Item = (&str, Counts)> {
        self.threads
            .iter()
            .map(|(number, name, before)| (&**name, counting::of(*number).unwrap_or_default().since(*before)))
    }

    /// All that they have allocated since the beginning, together.
    pub fn allocations(&self) -> u64 {
        self.since().map(|(_, counts)| counts.allocations).sum()
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.threads.iter().for_each(|&(number, ..)| counting::watch(number, false));
    }
}
