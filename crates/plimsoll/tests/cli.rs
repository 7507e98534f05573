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
    refused(&["serve", "smollm2", "--slo", "smollm2:ttft=1s"], "promises are not kept yet");
    refused(&["serve", "smollm2", "--max-seqs", "0"], "must be from 1 to 1024");
    refused(&["serve", "smollm2", "--http", "nowhere"], "write HOST:PORT");
    refused(&["serve", "smollm2", "--config", "no-such.toml"], "no-such.toml");
    refused(&["serve", "smollm2", "--log", "loud=very", "--http=:0", "--admin=:0"], "no log level");
    refused(&["run", "no-such-model", "Hi"], "no-such-model");
    refused(&["pull", "ftp://example.org/x"], "ftp");
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
    for flag in ["--http", "--admin", "--model", "--threads", "--ctx", "--max-seqs", "--api-key", "--config"]
    {
        assert!(help.contains(flag), "{flag} is missing from\n{help}");
    }
    assert!(!help.contains("--grpc") && !help.contains("--slo"), "{help}");
}
