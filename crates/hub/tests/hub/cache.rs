//! The cache when several pull at once, and after one was killed.

use crate::fixture::{Fixture, Notes, assert_has, bytes, config};
use crate::server::{Server, file, file_cut};
use plimsoll_hub::{Hub, Source};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Barrier;
use std::sync::mpsc::sync_channel;

const LEN: usize = 400_000;
const HALF: usize = 200_000;

#[test]
fn local_paths_are_used_in_place() {
    let fixture = Fixture::new();
    let path = fixture.dir.path().join("x.gguf");
    std::fs::write(&path, "x").unwrap();
    assert_eq!(fixture.pull(path.to_str().unwrap()).unwrap(), path);
    assert_has(&fixture.pull_error("/nowhere/x.gguf"), &["no file or folder /nowhere/x.gguf"]);
    assert_has(&fixture.pull_error("org/repo"), &["hf://ORG/REPO"]);
    assert_has(&fixture.pull_error("~/x.gguf"), &["shell"]);
    assert!(fixture.files().is_empty());
}

#[test]
fn many_pulling_at_once_download_once() {
    let server = Server::start(|request, stream| file(request, stream, "\"a\"", &bytes(LEN)));
    let fixture = Fixture::new();
    let start = Barrier::new(6);
    let pull = || {
        // Each its own hub: nothing is shared but the folder, as between processes.
        let hub = fixture.hub();
        start.wait();
        hub.pull(&Source::parse(&server.url("/x.gguf")).unwrap(), &()).unwrap()
    };
    let paths: Vec<PathBuf> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..6).map(|_| scope.spawn(pull)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(paths.iter().all(|path| *path == paths[0]));
    assert_eq!(std::fs::read(&paths[0]).unwrap(), bytes(LEN));
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn who_waits_is_told_for_whom_and_not_for_ever() {
    let (started, has_started) = sync_channel(1);
    let (go_on, may_go_on) = sync_channel(1);
    let server = Server::start(move |request, stream| {
        started.send(()).unwrap();
        may_go_on.recv().unwrap();
        file(request, stream, "\"a\"", b"x");
    });
    let mut fixture = Fixture::new();
    let (hub, source) = (fixture.hub(), Source::parse(&server.url("/x.gguf")).unwrap());
    std::thread::scope(|scope| {
        let puller = scope.spawn(|| hub.pull(&source, &()));
        has_started.recv().unwrap();
        fixture.config.limits.lock_wait = std::time::Duration::from_millis(10);
        let notes = Notes::default();
        let error = fixture.hub().pull(&source, &notes).unwrap_err().to_string();
        let me = format!("process {}", std::process::id());
        assert_has(&error, &["is being pulled by", &me, "end it"]);
        assert_has(&notes.0.lock().unwrap()[0], &["/x.gguf is being pulled by", &me]);
        go_on.send(()).unwrap();
        puller.join().unwrap().unwrap();
    });
}

/// Not a test by itself: the process that the next one kills.
#[test]
#[ignore = "run by killed_in_the_middle"]
#[expect(clippy::disallowed_methods, reason = "how the parent test passes its values")]
fn child_that_pulls() {
    let (dir, url) = (std::env::var("HUB_TEST_DIR").unwrap(), std::env::var("HUB_TEST_URL").unwrap());
    let hub = Hub::new(config(Path::new(&dir))).unwrap();
    let _ = hub.pull(&Source::parse(&url).unwrap(), &());
}

#[test]
fn killed_in_the_middle() {
    let mut kept = Vec::new();
    let server = Server::start(move |request, stream| match kept.len() {
        0 => {
            file_cut(request, stream, "\"a\"", &bytes(LEN), HALF);
            // Open, and silent: the child waits for more.
            kept.push(stream.try_clone().unwrap());
        }
        _ => file(request, stream, "\"a\"", &bytes(LEN)),
    });
    let fixture = Fixture::new();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "cache::child_that_pulls"])
        .env("HUB_TEST_DIR", fixture.dir.path())
        .env("HUB_TEST_URL", server.url("/x.gguf"))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    while part_len(&fixture) < HALF as u64 {
        assert!(child.try_wait().unwrap().is_none(), "the child ended by itself");
        std::thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(fixture.hub().list().unwrap().is_empty(), "a half pulled model must not show");
    let path = fixture.pull(&server.url("/x.gguf")).unwrap();
    assert_eq!(std::fs::read(path).unwrap(), bytes(LEN));
    assert_eq!(server.requests()[1].range_start(), Some(HALF));
}

fn part_len(fixture: &Fixture) -> u64 {
    let files = fixture.files();
    let part = files.iter().find(|file| file.ends_with(".part/download"));
    part.and_then(|part| std::fs::metadata(fixture.config.cache_dir.join(part)).ok())
        .map_or(0, |meta| meta.len())
}

#[test]
fn leftovers_of_every_kind_do_not_matter() {
    let server = Server::start(|request, stream| file(request, stream, "\"a\"", &bytes(LEN)));
    let fixture = Fixture::new();
    let url = server.url("/x.gguf");
    let entry = fixture.pull(&url).unwrap().parent().unwrap().parent().unwrap().to_owned();
    let check = |what: &str| {
        let path = fixture.pull(&url).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(std::fs::read(path).unwrap(), bytes(LEN), "{what}");
        assert_eq!(fixture.files().len(), 2, "{what}: {:?}", fixture.files());
    };
    let part = entry.with_added_extension("part");
    let leave = |name: &str, body: &str| {
        std::fs::create_dir_all(part.join("files")).unwrap();
        std::fs::write(part.join(name), body).unwrap();
    };

    std::fs::write(entry.join("manifest.json"), "{\"format\":1,").unwrap();
    check("a torn manifest");
    std::fs::write(entry.join("manifest.json"), "{\"format\":99}").unwrap();
    check("a manifest of another layout");
    std::fs::remove_dir_all(&entry).unwrap();
    leave("download", "garbage without a record");
    check("a part without a record");
    std::fs::remove_dir_all(&entry).unwrap();
    leave("download", "garbage");
    leave("download.json", "{\"url\":");
    check("a part with a torn record");
    let asked = server.requests().len();
    std::fs::remove_dir_all(&entry).unwrap();
    leave("download", "");
    std::fs::write(part.join("download"), bytes(LEN)).unwrap();
    leave("download.json", &format!("{{\"url\":\"{url}\",\"etag\":\"a\",\"bytes\":{LEN}}}"));
    check("a part that is whole");
    assert_eq!(server.requests().len(), asked, "what is there must not travel again");
    std::fs::remove_dir_all(&entry).unwrap();
    leave("files/x.gguf", "from a kill just before the end");
    leave("manifest.json", "{}");
    check("a staged file");
    std::fs::rename(&entry, entry.with_added_extension("old")).unwrap();
    std::fs::create_dir_all(&entry).unwrap();
    check("a kill between the two renames");
}

#[test]
fn a_cache_that_cannot_be_written_is_named() {
    let server = Server::start(|request, stream| file(request, stream, "\"a\"", b"x"));
    let mut fixture = Fixture::new();
    fixture.config.cache_dir = fixture.dir.path().join("file");
    std::fs::write(&fixture.config.cache_dir, "").unwrap();
    assert_has(&fixture.pull_error(&server.url("/x.gguf")), &["create", "/file/models/url"]);
}
