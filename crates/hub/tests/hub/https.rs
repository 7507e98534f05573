//! Files from web servers that are good, slow, broken or hostile.

use crate::fixture::{Fixture, assert_has, bytes};
use crate::server::{Request, Server, file, file_cut, head, reply};
use plimsoll_hub::{Source, Stop};
use std::io::Write;
use std::net::TcpStream;

const LEN: usize = 400_000;
const CUT: usize = 150_000;

/// A server whose n-th request (from 0) is answered by `answer(n, …)`.
fn counted(mut answer: impl FnMut(usize, &Request, &mut TcpStream) + Send + 'static) -> Server {
    let mut n = 0;
    Server::start(move |request, stream| {
        answer(n, request, stream);
        n += 1;
    })
}

#[test]
fn a_file_is_pulled_once_listed_and_verified() {
    let server = Server::start(|request, stream| file(request, stream, "\"a\"", &bytes(LEN)));
    let fixture = Fixture::new();
    let source = server.url("/m/x.gguf?key=secret");
    let path = fixture.pull(&source).unwrap();
    assert_eq!(path.file_name().unwrap(), "x.gguf");
    assert_eq!(std::fs::read(&path).unwrap(), bytes(LEN));
    assert_eq!(fixture.pull(&source).unwrap(), path);
    assert_eq!(server.requests().len(), 1);

    let (hub, source) = (fixture.hub(), Source::parse(&source).unwrap());
    let list = hub.list().unwrap();
    assert_eq!((list.len(), list[0].bytes, list[0].whole, &list[0].path), (1, LEN as u64, true, &path));
    assert!(!format!("{list:?}").contains("secret"));
    hub.verify(&source, &()).unwrap();

    let mut damaged = bytes(LEN);
    damaged[7] ^= 1;
    std::fs::write(&path, damaged).unwrap();
    assert_has(&hub.verify(&source, &()).unwrap_err().to_string(), &["x.gguf", "damaged", "SHA-256"]);
    assert!(hub.remove(&source).unwrap());
    assert!(!hub.remove(&source).unwrap());
    assert!(hub.cached(&source).is_none());
}

#[test]
fn a_cached_file_of_another_size_is_pulled_again() {
    let server = Server::start(|request, stream| file(request, stream, "\"a\"", &bytes(LEN)));
    let fixture = Fixture::new();
    let path = fixture.pull(&server.url("/x.gguf")).unwrap();
    std::fs::write(&path, b"short").unwrap();
    assert!(!fixture.hub().list().unwrap()[0].whole);
    assert_eq!(std::fs::read(fixture.pull(&server.url("/x.gguf")).unwrap()).unwrap(), bytes(LEN));
}

#[test]
fn a_cut_connection_is_resumed_where_it_broke() {
    let server = counted(|n, request, stream| {
        file_cut(request, stream, "\"a\"", &bytes(LEN), if n == 0 { CUT } else { usize::MAX });
    });
    let fixture = Fixture::new();
    let path = fixture.pull(&server.url("/x.gguf")).unwrap();
    assert_eq!(std::fs::read(path).unwrap(), bytes(LEN));
    let second = &server.requests()[1];
    assert_eq!((second.range_start(), second.header("if-range")), (Some(CUT), Some("\"a\"")));
}

#[test]
fn what_arrived_outlives_a_failed_pull() {
    let server = counted(|n, request, stream| {
        let cut = if n < 4 { CUT / 4 } else { usize::MAX };
        file_cut(request, stream, "\"a\"", &bytes(LEN), cut);
    });
    let fixture = Fixture::new();
    let error = fixture.pull_error(&server.url("/x.gguf"));
    assert_has(&error, &["broke at byte 150000", "4 times", "run it again"]);
    assert_eq!(server.requests().len(), 4);
    assert_eq!(std::fs::read(fixture.pull(&server.url("/x.gguf")).unwrap()).unwrap(), bytes(LEN));
    assert_eq!(server.requests()[4].range_start(), Some(CUT));
}

/// The first answer has `first` for an ETag and breaks; the others have `second` and are whole, in whatever way `then` says.
fn check_restart(first: &'static str, then: impl Fn(&Request, &mut TcpStream) + Send + 'static) {
    let server = counted(move |n, request, stream| match n {
        0 => file_cut(request, stream, first, &bytes(LEN + 1), CUT),
        _ => then(request, stream),
    });
    let fixture = Fixture::new();
    let path = fixture.pull(&server.url("/x.gguf")).unwrap();
    assert_eq!(std::fs::read(path).unwrap(), bytes(LEN));
}

#[test]
fn a_part_of_another_file_is_never_continued() {
    let other = || bytes(LEN);
    check_restart("\"a\"", move |request, stream| file(request, stream, "\"b\"", &other()));
    check_restart("W/\"a\"", move |request, stream| file(request, stream, "W/\"a\"", &other()));
    check_restart("", move |request, stream| file(request, stream, "", &other()));
    // Ranges are not understood.
    check_restart("\"a\"", move |_, stream| reply(stream, "200 OK", &[], &other()));
    // Ranges are understood wrongly, until none is asked for.
    check_restart("\"a\"", move |request, stream| match request.range_start() {
        Some(_) => reply(stream, "206 Partial Content", &[("content-range", "bytes 0-9/10")], &other()[..10]),
        None => reply(stream, "200 OK", &[], &other()),
    });
    check_restart("\"a\"", move |request, stream| match request.range_start() {
        Some(from) => {
            let range = format!("bytes {from}-{}/{LEN}", LEN - 1);
            reply(
                stream,
                "206 Partial Content",
                &[("etag", "\"b\""), ("content-range", &range)],
                &other()[from..],
            );
        }
        None => reply(stream, "200 OK", &[], &other()),
    });
    check_restart("\"a\"", move |request, stream| match request.range_start() {
        Some(_) => reply(stream, "416 Range Not Satisfiable", &[], b""),
        None => reply(stream, "200 OK", &[], &other()),
    });
}

#[test]
fn passing_trouble_is_tried_again() {
    for status in ["503 Service Unavailable", "429 Too Many Requests", "500 Oops"] {
        let server = counted(move |n, request, stream| match n {
            0 => reply(stream, status, &[], b"later"),
            1 => {} // closes without a word
            _ => file(request, stream, "\"a\"", &bytes(10)),
        });
        Fixture::new().pull(&server.url("/x.gguf")).unwrap();
        assert_eq!(server.requests().len(), 3, "{status}");
    }
}

/// A pull that must fail with a message of these parts, after one request, leaving nothing of size.
fn check_refused(answer: impl Fn(&Request, &mut TcpStream) + Send + 'static, parts: &[&str]) {
    let server = Server::start(answer);
    let fixture = Fixture::new();
    assert_has(&fixture.pull_error(&server.url("/x.gguf?key=secret")), parts);
    let error = fixture.pull_error(&server.url("/x.gguf?key=secret"));
    assert!(!error.contains("secret"), "{error}");
    assert!(!fixture.files().iter().any(|file| file.contains("download")), "{:?}", fixture.files());
}

#[test]
fn refusals_say_what_to_do_and_leave_nothing() {
    check_refused(
        |_, stream| reply(stream, "404 Not Found", &[], b""),
        &["/x.gguf answered 404", "check the address"],
    );
    check_refused(|_, stream| reply(stream, "403 Forbidden", &[], b""), &["403", "without signing in"]);
    check_refused(
        |_, stream| head(stream, "200 OK", &[("content-length", "99999999999")]),
        &["too large", "99999999999", "1048576"],
    );
    check_refused(
        |_, stream| {
            head(stream, "200 OK", &[("etag", "\"a\"")]);
            while stream.write_all(&[7; 65536]).is_ok() {}
        },
        &["too large", "limit is 1048576"],
    );
    check_refused(
        |_, stream| reply(stream, "302 Found", &[("location", "/x.gguf")], b""),
        &["more than 5 redirects"],
    );
    check_refused(|_, stream| reply(stream, "302 Found", &[], b""), &["redirect to nowhere"]);
    for elsewhere in ["http://192.0.2.1/x", "ftp://127.0.0.1/x", "file:///etc/passwd"] {
        let parts = if elsewhere.starts_with("http:") { "use https" } else { "cannot be used" };
        check_refused(move |_, stream| reply(stream, "302 Found", &[("location", elsewhere)], b""), &[parts]);
    }
    check_refused(
        |_, stream| reply(stream, "200 OK", &[("content-encoding", "br")], b"x"),
        &["compressed although"],
    );
}

#[test]
fn redirects_are_followed() {
    let target = Server::start(|request, stream| file(request, stream, "\"a\"", &bytes(LEN)));
    let location = target.url("/cdn/y?sig=1");
    let server = Server::start(move |request, stream| match request.path.as_str() {
        "/a/x.gguf" => reply(stream, "301 Moved", &[("location", "b")], b""),
        "/a/b" => reply(stream, "307 Temporary", &[("location", "/c")], b""),
        _ => reply(stream, "302 Found", &[("location", &location)], b""),
    });
    let fixture = Fixture::new();
    let path = fixture.pull(&server.url("/a/x.gguf")).unwrap();
    assert_eq!(path.file_name().unwrap(), "x.gguf");
    assert_eq!(std::fs::read(path).unwrap(), bytes(LEN));
}

#[test]
fn a_wrong_checksum_deletes_the_file() {
    let server = counted(|n, request, stream| {
        let body: &[u8] = if n == 0 { b"abd" } else { b"abc" };
        file(request, stream, "\"a\"", body);
    });
    let fixture = Fixture::new();
    let digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    let source = server.url(&format!("/x.gguf#sha256={digest}"));
    assert_has(
        &fixture.pull_error(&source),
        &["x.gguf", "expected ba7816bf", "SHA-256 a52d159f", "deleted", "Pull again"],
    );
    assert_eq!(fixture.files(), [""; 0]);
    assert_eq!(std::fs::read(fixture.pull(&source).unwrap()).unwrap(), b"abc");
}

/// What is longer than its whole was said to be is another file, also when nobody knows a checksum.
#[test]
fn more_than_was_announced_is_not_taken() {
    for extra in [1, 100_000] {
        let server = counted(move |n, request, stream| match (n, request.range_start()) {
            (0, _) => file_cut(request, stream, "\"a\"", &bytes(LEN), CUT),
            (_, Some(from)) => {
                let range = format!("bytes {from}-{}/{LEN}", LEN - 1);
                let headers = [("etag", "\"a\""), ("content-range", &*range)];
                reply(stream, "206 Partial Content", &headers, &bytes(LEN + extra)[from..]);
            }
            (_, None) => file(request, stream, "\"a\"", &bytes(LEN)),
        });
        let fixture = Fixture::new();
        let path = fixture.pull(&server.url("/x.gguf")).unwrap();
        assert_eq!(std::fs::read(path).unwrap().len(), LEN, "{extra} more");
        assert_eq!(server.requests().len(), 3);
    }
}

#[test]
fn a_stopped_download_is_resumed_by_the_next() {
    let mut fixture = Fixture::new();
    let stop = fixture.config.limits.stop.clone();
    let server = counted(move |n, request, stream| {
        if n == 0 {
            file_cut(request, stream, "\"a\"", &bytes(LEN), CUT);
            stop.stop();
        } else {
            file(request, stream, "\"a\"", &bytes(LEN));
        }
    });
    assert_has(&fixture.pull_error(&server.url("/x.gguf")), &["was stopped"]);
    assert_eq!(server.requests().len(), 1);
    fixture.config.limits.stop = Stop::default();
    assert_eq!(std::fs::read(fixture.pull(&server.url("/x.gguf")).unwrap()).unwrap(), bytes(LEN));
}

#[test]
fn a_silent_server_is_given_up() {
    // It keeps every connection open and says nothing.
    let mut kept = Vec::new();
    let server = Server::start(move |_, stream| kept.push(stream.try_clone().unwrap()));
    let mut fixture = Fixture::new();
    fixture.config.limits.idle = std::time::Duration::from_millis(20);
    assert_has(
        &fixture.pull_error(&server.url("/x.gguf")),
        &["no answer", "4 tries", "proxy", "because timeout"],
    );
}

#[test]
fn a_server_that_stalls_in_the_middle_is_given_up() {
    let mut kept = Vec::new();
    let server = Server::start(move |request, stream| {
        file_cut(request, stream, "\"a\"", &bytes(LEN), CUT / 4);
        kept.push(stream.try_clone().unwrap());
    });
    let mut fixture = Fixture::new();
    fixture.config.limits.idle = std::time::Duration::from_secs(1);
    fixture.config.limits.retries = 0;
    assert_has(&fixture.pull_error(&server.url("/x.gguf")), &["broke at byte 37500"]);
}
