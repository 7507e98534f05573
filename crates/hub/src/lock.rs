//! One puller at a time. The system drops the lock when its holder dies, so a file left behind means nothing.

use crate::config::Limits;
use crate::error::HubError;
use crate::fsx;
use crate::progress::Progress;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::Path;
use std::time::{Duration, Instant};

/// Held until dropped.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

/// How often a waiting process looks again.
const LOOK: Duration = Duration::from_millis(100);

impl Lock {
    /// Waits, at most [`Limits::lock_wait`], for whoever holds it; tells `progress` whom it waits for.
    pub(crate) fn acquire(
        path: &Path,
        what: &str,
        limits: &Limits,
        progress: &dyn Progress,
    ) -> Result<Self, HubError> {
        path.parent().map_or(Ok(()), fsx::create_dir)?;
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(HubError::io("open", path))?;
        let (started, patience) = (Instant::now(), limits.lock_wait);
        let mut told = false;
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::Error(error)) => return Err(HubError::io("lock", path)(error)),
                Err(TryLockError::WouldBlock) => {}
            }
            limits.stop.check()?;
            if started.elapsed() >= patience {
                return Err(HubError::Locked {
                    what: what.into(),
                    holder: holder(path),
                    waited: started.elapsed().as_secs(),
                });
            }
            if !told {
                progress.note(&format!("{what} is being pulled by process {}: waiting for it", holder(path)));
                told = true;
            }
            std::thread::sleep(LOOK.min(patience));
        }
        // Only said to those who wait: a failure to write it is no reason not to pull.
        let _ = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| write!(file, "{}", std::process::id()));
        Ok(Self { _file: file })
    }
}

fn holder(path: &Path) -> String {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(32).read_to_string(&mut text));
    if read.is_ok() && !text.trim().is_empty() { text.trim().to_owned() } else { "unknown".into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_held_lock_says_who_holds_it_and_a_dropped_one_is_free() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/x.lock");
        let now = Limits { lock_wait: Duration::ZERO, ..Limits::default() };
        let held = Lock::acquire(&path, "x", &now, &()).unwrap();
        let error = Lock::acquire(&path, "x", &now, &()).unwrap_err().to_string();
        assert!(error.contains(&format!("process {}", std::process::id())), "{error}");
        drop(held);
        Lock::acquire(&path, "x", &now, &()).unwrap();
    }

    #[test]
    fn a_lock_file_left_by_a_killed_process_is_free() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.lock");
        std::fs::write(&path, "4194305").unwrap();
        Lock::acquire(&path, "x", &Limits::default(), &()).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), std::process::id().to_string());
    }
}
