//! The binary from outside, where no model is needed.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::process::{Command, Output};

/// Runs the binary without the settings of whoever runs the tests.
fn plimsoll(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("PLIMSOLL_") {
            command.env_remove(name);
        }
    }
    command.args(args).output().unwrap()
}

/// What a failed run says: one line on standard error.
#[track_caller]
fn refused(args: &[&str], says: &str) {
    let output = plimsoll(args);
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success(), "{args:?} was taken");
    assert_eq!(error.trim_end().lines().count(), 1, "{error}");
    assert!(error.contains(says), "{args:?} says {error}");
}

#[test]
fn errors_are_one_line_and_say_what_to_do() {
    refused(&["serve"], "try `plimsoll serve smollm2`");
    refused(&["serve", "smollm2", "--grpc", ":8001"], "gRPC is not served yet");
    refused(&["serve", "smollm2", "--slo", "other:ttft=1s"], "there is no model `other`");
    refused(&["serve", "smollm2", "--max-seqs", "0"], "must be from 1 to 1024");
    refused(&["serve", "smollm2", "--http", "nowhere"], "write HOST:PORT");
    refused(&["serve", "smollm2", "--config", "no-such.toml"], "no-such.toml");
    refused(&["serve", "smollm2", "--log", "loud=very", "--http=:0", "--admin=:0"], "no log level");
    refused(&["run", "no-such-model", "Hi"], "no-such-model");
    refused(&["run", "/dev/null", "Hi"], "cannot read /dev/null: it is a folder, a device or a pipe\n");
    refused(&["pull", "ftp://example.org/x"], "ftp");
}

#[test]
fn addresses_of_an_earlier_server_are_taken_back() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("addresses.json");
    std::fs::write(&file, "{}").unwrap();
    let serve = |announce: &std::path::Path, says: &str| {
        let announce = format!("--announce={}", announce.display());
        refused(&["serve", "./no-such.gguf", "--http=:0", "--admin=:0", &announce], says);
    };
    serve(&file, "no-such.gguf");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    // Before a model is pulled or loaded.
    serve(&folder.path().join("none/addresses.json"), "cannot write the addresses");
}

#[test]
fn bench_serve_says_what_is_missing_before_it_sends() {
    // Nothing listens on the discard port of this machine's tests; none of these gets as far.
    let url = "http://127.0.0.1:9";
    refused(&["bench", "serve", url], "give --rate R, --trace FILE, or --sweep with --slo");
    refused(&["bench", "serve", "https://127.0.0.1:9", "--rate", "1"], "TLS");
    refused(&["bench", "serve", url, "--rate", "0"], "--rate must be above 0");
    refused(&["bench", "serve", url, "--rate", "1", "--header", "x"], "NAME: VALUE");
    refused(&["bench", "serve", url, "--trace", "no-such.csv"], "no-such.csv");
    refused(&["bench", "serve", url, "--rate", "1", "--pid", "4294967295"], "no such process");
    refused(&["bench", "serve", url, "--rate", "1"], "cannot be reached");
    for (args, says) in [
        (&["--sweep"][..], "--slo"),
        (&["--slo", "ttft=500"][..], "no duration"),
        (&["--mix", "a"][..], "no mix"),
        (&["--arrivals", "often"][..], "no process"),
        (&["--prompt-tokens", "0"][..], "no length"),
    ] {
        let output = plimsoll(&[&["bench", "serve", url][..], args].concat());
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && error.contains(says), "{args:?} says {error}");
    }
}

#[test]
fn a_port_in_use_names_the_flag() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    refused(&["serve", "smollm2", "--http", &address, "--admin=:0"], "--http HOST:PORT");
    refused(&["serve", "smollm2", "--admin", &address, "--http=:0"], "--admin HOST:PORT");
}

#[test]
fn help_lists_what_works_and_not_what_is_planned() {
    let help = String::from_utf8(plimsoll(&["serve", "--help"]).stdout).unwrap();
    for flag in
        ["--http", "--admin", "--model", "--threads", "--ctx", "--max-seqs", "--api-key", "--config", "--slo"]
    {
        assert!(help.contains(flag), "{flag} is missing from\n{help}");
    }
    assert!(!help.contains("--grpc"), "{help}");
}
