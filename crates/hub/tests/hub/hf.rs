//! Hugging Face, played by two servers: the endpoint and the file store it redirects to.

use crate::fixture::{Fixture, assert_has, bytes};
use crate::server::{Request, Server, file, file_cut, head, reply};
use plimsoll_hub::Source;
use std::collections::BTreeMap;
use std::net::TcpStream;

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
/// Of `bytes(300_000)`, computed by another program.
const WEIGHTS: usize = 300_000;
const WEIGHTS_SHA256: &str = "e496e24b4de3ed92e3247412ae0a588a002b2e209bff58a8a138020cc8e75fed";

type Files = BTreeMap<&'static str, Vec<u8>>;

struct Hf {
    endpoint: Server,
    store: Server,
}

impl Hf {
    /// A repository `org/repo` with one branch; weights are large files.
    fn start(branch: &'static str, files: Files) -> Self {
        let mut n = 0;
        Self::with_store(branch, files, move |request, stream| {
            // The first transfer breaks: resuming is part of the normal case.
            file_cut(request, stream, "\"store\"", &bytes(WEIGHTS), if n == 0 { 1000 } else { usize::MAX });
            n += 1;
        })
    }

    fn with_store(
        branch: &'static str,
        files: Files,
        store: impl FnMut(&Request, &mut TcpStream) + Send + 'static,
    ) -> Self {
        let store = Server::start(store);
        let location = store.url("/blob?signature=1");
        let endpoint =
            Server::start(move |request, stream| answer(request, stream, (branch, &files, &location)));
        Self { endpoint, store }
    }

    fn fixture(&self) -> Fixture {
        Fixture::hf(&self.endpoint.base, Some("hf_secret"))
    }
}

fn answer(request: &Request, stream: &mut TcpStream, (branch, files, location): (&str, &Files, &str)) {
    let api = format!("/api/models/org/repo/revision/{branch}");
    if request.path == api {
        let siblings: Vec<String> =
            files.keys().map(|name| format!("{{\"rfilename\":\"{name}\"}}")).collect();
        let body =
            format!("{{\"id\":\"org/repo\",\"sha\":\"{COMMIT}\",\"siblings\":[{}]}}", siblings.join(","));
        return reply(stream, "200 OK", &[], body.as_bytes());
    }
    let Some(body) =
        request.path.strip_prefix(&format!("/org/repo/resolve/{COMMIT}/")).and_then(|name| files.get(name))
    else {
        return reply(stream, "404 Not Found", &[("x-error-code", "RepoNotFound")], b"");
    };
    if request.path.ends_with(".safetensors") || request.path.ends_with(".gguf") {
        let (etag, size) = (format!("\"{WEIGHTS_SHA256}\""), WEIGHTS.to_string());
        let headers = [
            ("location", location),
            ("x-repo-commit", COMMIT),
            ("x-linked-etag", &etag),
            ("x-linked-size", &size),
        ];
        return head(stream, "302 Found", &[&headers[..], &[("content-length", "0")]].concat());
    }
    file(request, stream, &format!("\"blob-{}\"", body.len()), body);
}

fn files(names: &[(&'static str, &str)]) -> Files {
    names.iter().map(|(name, body)| (*name, body.as_bytes().to_vec())).collect()
}

fn model() -> Files {
    files(&[
        ("config.json", "{}"),
        ("tokenizer.json", "{\"a\":1}"),
        ("model.safetensors", ""),
        ("README.md", "no"),
        ("x.gguf", ""),
    ])
}

#[test]
fn a_model_is_pulled_into_the_shared_cache() {
    let hf = Hf::start("main", model());
    let fixture = hf.fixture();
    let path = fixture.pull("hf://org/repo").unwrap();
    let repo = fixture.config.hf.cache.join("models--org--repo");
    assert_eq!(path, repo.join("snapshots").join(COMMIT));
    assert_eq!(std::fs::read(path.join("model.safetensors")).unwrap(), bytes(WEIGHTS));
    assert_eq!(std::fs::read_to_string(repo.join("refs/main")).unwrap(), COMMIT);
    assert_eq!(std::fs::read(repo.join("blobs").join(WEIGHTS_SHA256)).unwrap(), bytes(WEIGHTS));
    assert!(!path.join("README.md").exists());

    let there = hf_hub::Cache::new(fixture.config.hf.cache.clone()).model("org/repo".into());
    assert_eq!(there.get("config.json"), Some(path.join("config.json")));

    let asked = hf.endpoint.requests().len();
    assert_eq!(fixture.pull("hf://org/repo").unwrap(), path);
    assert_eq!(hf.endpoint.requests().len(), asked);
    fixture.hub().verify(&Source::parse("hf://org/repo").unwrap(), &()).unwrap();
    assert_has(&fixture.hub().list().unwrap()[0].resolved, &["org/repo at 0123"]);

    // Another source with the same blob: no byte of it travels again.
    let transfers = hf.store.requests().len();
    assert_eq!(fixture.pull("hf://org/repo/model.safetensors").unwrap(), path.join("model.safetensors"));
    assert_eq!(hf.store.requests().len(), transfers);
}

#[test]
fn the_token_goes_to_the_endpoint_alone() {
    let hf = Hf::start("main", model());
    hf.fixture().pull("hf://org/repo").unwrap();
    assert!(
        hf.endpoint
            .requests()
            .iter()
            .all(|request| request.header("authorization") == Some("Bearer hf_secret"))
    );
    let transfers = hf.store.requests();
    assert!(transfers.iter().all(|request| request.header("authorization").is_none()));
    assert_eq!(transfers.last().unwrap().range_start(), Some(1000));
}

#[test]
fn single_files_branches_and_commits_are_understood() {
    let hf = Hf::start("refs%2Fpr%2F1", model());
    let fixture = hf.fixture();
    let path = fixture.pull("hf://org/repo@refs%2Fpr%2F1/x.gguf").unwrap();
    assert!(path.ends_with(format!("snapshots/{COMMIT}/x.gguf")), "{}", path.display());
    assert!(fixture.config.hf.cache.join("models--org--repo/refs/refs/pr/1").is_file());

    let hf = Hf::start(COMMIT, model());
    let fixture = hf.fixture();
    fixture.pull(&format!("hf://org/repo@{COMMIT}/x.gguf")).unwrap();
    assert!(!fixture.config.hf.cache.join("models--org--repo/refs").exists());
}

#[test]
fn an_index_brings_its_shards() {
    let index = "{\"weight_map\":{\"a\":\"model-1.safetensors\",\"b\":\"model-2.safetensors\"}}";
    let all = [
        ("config.json", "{}"),
        ("model.safetensors.index.json", index),
        ("model-1.safetensors", ""),
        ("model-2.safetensors", ""),
        ("other.safetensors", ""),
    ];
    let hf = Hf::start("main", files(&all));
    let fixture = hf.fixture();
    let path = fixture.pull("hf://org/repo").unwrap();
    for (name, there) in
        [("model-1.safetensors", true), ("model-2.safetensors", true), ("other.safetensors", false)]
    {
        assert_eq!(path.join(name).exists(), there, "{name}");
    }
    let missing = files(&all[..3]);
    assert_has(
        &Hf::start("main", missing).fixture().pull_error("hf://org/repo"),
        &["no `model-2.safetensors`", "names"],
    );
}

#[test]
fn an_index_that_is_none_is_not_read_whole() {
    let long = " ".repeat((8 << 20) + 1);
    let all = [("config.json", "{}"), ("model.safetensors.index.json", &long), ("a.safetensors", "")];
    let hf = Hf::start("main", files(&all));
    let mut fixture = hf.fixture();
    fixture.config.limits.max_bytes = 1 << 30;
    assert_has(
        &fixture.pull_error("hf://org/repo"),
        &["model.safetensors.index.json", "larger than 8388608 bytes"],
    );
}

#[test]
fn what_the_repository_does_not_have_is_named_with_what_it_has() {
    let hf = Hf::start("main", files(&[("a-Q4_0.gguf", ""), ("README.md", "")]));
    let fixture = hf.fixture();
    assert_has(
        &fixture.pull_error("hf://org/repo/a-Q4_1.gguf"),
        &["org/repo at main has no `a-Q4_1.gguf`", "It has: a-Q4_0.gguf"],
    );
    assert_has(&fixture.pull_error("hf://org/repo"), &["name one file", "a-Q4_0.gguf"]);
}

fn check_refusal(status: &'static str, code: &'static str, token: Option<&str>, parts: &[&str]) {
    let server = Server::start(move |_, stream| reply(stream, status, &[("x-error-code", code)], b"{}"));
    let fixture = Fixture::hf(&server.base, token);
    assert_has(&fixture.pull_error("hf://org/repo"), parts);
    assert_eq!(server.requests().len(), 1, "{status}");
}

#[test]
fn refusals_say_whether_a_token_helps() {
    check_refusal(
        "401 Unauthorized",
        "GatedRepo",
        None,
        &["answered 401", "gated", "accept its terms at", "set HF_TOKEN"],
    );
    check_refusal("403 Forbidden", "GatedRepo", Some("t"), &["403", "the token has no access"]);
    check_refusal(
        "401 Unauthorized",
        "RepoNotFound",
        None,
        &["does not exist, is private or is gated", "HF_TOKEN"],
    );
    check_refusal("401 Unauthorized", "", Some("t"), &["token is not valid"]);
    check_refusal("404 Not Found", "RevisionNotFound", None, &["has no revision `main`"]);
    check_refusal("404 Not Found", "RepoNotFound", None, &["Check that", "/org/repo exists"]);
}

#[test]
fn large_files_are_checked_against_their_etag() {
    let mut n = 0;
    let hf = Hf::with_store("main", model(), move |request, stream| {
        let mut body = bytes(WEIGHTS);
        body[5] ^= u8::from(n == 0);
        n += 1;
        file(request, stream, "\"store\"", &body);
    });
    let fixture = hf.fixture();
    assert_has(
        &fixture.pull_error("hf://org/repo/x.gguf"),
        &["x.gguf", &format!("expected {WEIGHTS_SHA256}"), "deleted"],
    );
    let path = fixture.pull("hf://org/repo/x.gguf").unwrap();
    assert_eq!(std::fs::read(path).unwrap(), bytes(WEIGHTS));
}

#[test]
fn names_from_the_endpoint_cannot_lead_out_of_the_cache() {
    let evil_etag = Server::start(|request, stream| match request.path.starts_with("/api/") {
        true => reply(
            stream,
            "200 OK",
            &[],
            format!("{{\"sha\":\"{COMMIT}\",\"siblings\":[{{\"rfilename\":\"x.gguf\"}}]}}").as_bytes(),
        ),
        false => reply(stream, "200 OK", &[("etag", "\"../../../evil\"")], b"evil"),
    });
    assert_has(
        &Fixture::hf(&evil_etag.base, None).pull_error("hf://org/repo/x.gguf"),
        &["ETag `../../../evil`"],
    );

    let evil_commit =
        Server::start(|_, stream| reply(stream, "200 OK", &[], b"{\"sha\":\"../evil\",\"siblings\":[]}"));
    assert_has(
        &Fixture::hf(&evil_commit.base, None).pull_error("hf://org/repo/x.gguf"),
        &["commit `../evil`"],
    );

    let no_json = Server::start(|_, stream| reply(stream, "200 OK", &[], b"<html>log in</html>"));
    assert_has(&Fixture::hf(&no_json.base, None).pull_error("hf://org/repo"), &["cannot be used", "line 1"]);
}

#[test]
fn offline_takes_what_other_tools_cached() {
    let mut fixture = Fixture::hf("http://127.0.0.1:9", None);
    fixture.config.offline = true;
    assert_has(
        &fixture.pull_error("hf://org/repo"),
        &["hf://org/repo is not in the cache", "offline", "give its path"],
    );
    let repo = fixture.config.hf.cache.join("models--org--repo");
    let snapshot = repo.join("snapshots").join(COMMIT);
    std::fs::create_dir_all(&snapshot).unwrap();
    std::fs::create_dir_all(repo.join("refs")).unwrap();
    std::fs::write(repo.join("refs/main"), COMMIT).unwrap();
    for name in ["config.json", "tokenizer.json", "model.safetensors"] {
        std::fs::write(snapshot.join(name), "x").unwrap();
    }
    assert_eq!(fixture.pull("hf://org/repo").unwrap(), snapshot);
    assert_eq!(fixture.pull("hf://org/repo/config.json").unwrap(), snapshot.join("config.json"));
    assert_eq!(
        fixture.pull(&format!("hf://org/repo@{COMMIT}/config.json")).unwrap(),
        snapshot.join("config.json")
    );
    assert_has(&fixture.pull_error("smollm2"), &["smollm2 is not in the cache"]);
}

#[test]
fn an_endpoint_that_is_not_there_is_named() {
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = Fixture::hf(&format!("http://{gone}"), None).pull_error("hf://org/repo");
    assert_has(&error, &["no answer from http://127.0.0.1", "4 tries", "because"]);
}
