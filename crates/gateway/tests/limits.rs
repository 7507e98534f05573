//! Who may ask, and how much.

mod common;

use bytes::Bytes;
use common::{Answer, Client, Server, post};
use hyper::Request;
use plimsoll_api::error::{Error, Reason};
use plimsoll_gateway::{Gateway, GatewayConfig, serve};
use plimsoll_telemetry::Metrics;
use plimsoll_testkit::service::{Act, Gate as ScriptGate, Script, ScriptedService};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

fn says() -> ScriptedService {
    ScriptedService::saying(&["x"])
}

fn prompt() -> String {
    json!({"prompt": "a"}).to_string()
}

async fn raw(server: &Server, bytes: &[u8]) -> std::io::Result<String> {
    let mut socket = TcpStream::connect(server.address).await?;
    socket.write_all(bytes).await?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await?;
    Ok(answer)
}

#[tokio::test]
async fn a_body_over_the_limit() {
    let config = GatewayConfig { body_limit: 1000, ..GatewayConfig::default() };
    let server = Server::start(says(), config).await;
    let fitting = json!({"prompt": "x".repeat(900)}).to_string();
    assert_eq!(server.post("/v1/completions", fitting).await.status, 200);
    for size in [1001, 3000, 100_000] {
        let answer = server.post("/v1/completions", vec![b' '; size]).await;
        assert_eq!(answer.error(), (413, "body_too_large".to_owned(), None));
        assert!(answer.text.contains("1000 bytes"), "{}", answer.text);
    }
    let chunk = format!("258\r\n{}\r\n", " ".repeat(0x258));
    let head =
        "POST /v1/completions HTTP/1.1\r\nhost: x\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n";
    let answer = raw(&server, format!("{head}{}0\r\n\r\n", chunk.repeat(3)).as_bytes()).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
}

#[tokio::test]
async fn bodies_share_memory() {
    let config = GatewayConfig { body_limit: 1000, body_memory: 1000, ..GatewayConfig::default() };
    let server = Server::start(says(), config).await;
    let mut half = TcpStream::connect(server.address).await.unwrap();
    let head = "POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 900\r\n\r\n";
    half.write_all(format!("{head}{}", " ".repeat(800)).as_bytes()).await.unwrap();
    let fitting = || json!({"prompt": "x".repeat(500)}).to_string();
    // Until the half body has arrived, the other still fits.
    let answer = loop {
        let answer = server.post("/v1/completions", fitting()).await;
        if answer.status != 200 {
            break answer;
        }
    };
    assert_eq!(answer.error(), (429, "queue_full".to_owned(), None));
    assert_eq!(answer.header("retry-after"), Some("1"));
    drop(half);
    while server.post("/v1/completions", fitting()).await.status != 200 {}
}

/// What was read from a body takes memory until its request is let in.
#[tokio::test]
async fn read_bodies_share_memory_until_they_are_let_in() {
    let admission = ScriptGate::closed();
    let theirs = admission.clone();
    let waits = ScriptedService::new(move |request| {
        Ok(Script { admission: Some(theirs.clone()), ..Script::saying(request, &["x"]) })
    });
    let config = GatewayConfig { body_limit: 10_000, body_memory: 10_000, ..GatewayConfig::default() };
    let server = Server::start(waits, config).await;
    let large = || post("/v1/completions", json!({"prompt": "x".repeat(9000)}).to_string());
    let mut first = server.client().await;
    let first = tokio::spawn(async move { Answer::read(first.begin(large()).await.unwrap()).await });
    server.service.until(|counts| counts.asked == 1).await;
    let second = Answer::read(server.client().await.begin(large()).await.unwrap()).await;
    assert_eq!(second.error(), (429, "queue_full".to_owned(), None));
    admission.open(2);
    assert_eq!(first.await.unwrap().status, 200);
    let third = Answer::read(server.client().await.begin(large()).await.unwrap()).await;
    assert_eq!(third.status, 200);
}

#[tokio::test]
async fn a_body_that_comes_in_pieces() {
    let server = Server::plain(says()).await;
    let head =
        "POST /v1/completions HTTP/1.1\r\nhost: x\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n";
    let answer =
        raw(&server, format!("{head}9\r\n{{\"prompt\"\r\n1\r\n:\r\n4\r\n\"a\"}}\r\n0\r\n\r\n").as_bytes())
            .await
            .unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[tokio::test]
async fn a_body_that_never_comes() {
    let config = GatewayConfig { body_timeout: Duration::from_millis(20), ..GatewayConfig::default() };
    let server = Server::start(says(), config).await;
    let answer = raw(&server, b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\n{")
        .await
        .unwrap();
    assert!(answer.starts_with("HTTP/1.1 408") && answer.contains("body_timeout"), "{answer}");
}

#[tokio::test]
async fn headers_that_never_end() {
    let config = GatewayConfig { header_timeout: Duration::from_millis(20), ..GatewayConfig::default() };
    let server = Server::start(says(), config).await;
    let answer = raw(&server, b"GET /health HTTP/1.1\r\nhost:").await.unwrap();
    assert!(!answer.contains("200 OK"), "{answer}");
    let endless = format!("GET /health HTTP/1.1\r\nconnection: close\r\nx: {}\r\n\r\n", "y".repeat(40_000));
    let server = Server::plain(says()).await;
    let answer = raw(&server, endless.as_bytes()).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 431"), "{answer}");
}

#[tokio::test]
async fn more_connections_than_there_are_slots_wait() {
    let config = GatewayConfig { max_connections: 1, ..GatewayConfig::default() };
    let server = Server::start(says(), config).await;
    let mut first = server.client().await;
    assert_eq!(first.send(Request::get("/health")).await.status, 200);
    let address = server.address;
    let second =
        tokio::spawn(async move { Client::connect(address).await.send(Request::get("/ping")).await.status });
    assert_eq!(first.send(Request::get("/health")).await.status, 200);
    assert!(!second.is_finished());
    drop(first);
    assert_eq!(second.await.unwrap(), 200);
}

#[tokio::test]
async fn keys_are_tenants() {
    let api_keys = vec!["one".into(), "two".into()];
    let server = Server::start(says(), GatewayConfig { api_keys, ..GatewayConfig::default() }).await;
    let ask = async |key: Option<&str>, path: &str| -> Answer {
        let mut request = post(path, prompt());
        if let Some(key) = key {
            request.headers_mut().insert("authorization", format!("Bearer {key}").parse().unwrap());
        }
        Answer::read(server.client().await.begin(request).await.unwrap()).await
    };
    assert_eq!(ask(Some("two"), "/v1/completions").await.status, 200);
    assert_eq!(server.service.requests()[0].tenant, 1);
    for path in
        ["/v1/completions", "/v1/chat/completions", "/v1/models", "/tokenize", "/detokenize", "/nothing"]
    {
        for key in [None, Some("three"), Some("")] {
            let answer = ask(key, path).await;
            assert_eq!(answer.error(), (401, "invalid_api_key".to_owned(), None), "{path} {key:?}");
            assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
        }
    }
    for path in ["/health", "/ping", "/version"] {
        assert_eq!(server.get(path).await.status, 200);
    }
}

#[tokio::test]
async fn every_answer_has_a_request_id() {
    let server = Server::plain(says()).await;
    let ask = async |id: &str| -> String {
        let answer = server.client().await.send(Request::get("/nothing").header("x-request-id", id)).await;
        answer.header("x-request-id").unwrap().to_owned()
    };
    assert_eq!(ask("trace/1:a-b").await, "trace/1:a-b");
    for unfit in ["", "with space", &"x".repeat(129), "t\u{e9}"] {
        assert!(ask(unfit).await.starts_with("req_"), "{unfit}");
    }
    let mut request = post("/v1/completions", prompt());
    request.headers_mut().insert("x-request-id", "mine".parse().unwrap());
    let answer = Answer::read(server.client().await.begin(request).await.unwrap()).await;
    assert_eq!(answer.header("x-request-id"), Some("mine"));
    assert_eq!(server.service.requests()[0].request_id, "mine");
}

#[tokio::test]
async fn wrong_methods_and_bodies_get_the_error_shape() {
    let server = Server::plain(says()).await;
    let wrong = server.get("/tokenize").await;
    assert_eq!(wrong.error(), (405, "method_not_supported".to_owned(), None));
    assert_eq!(wrong.header("allow"), Some("POST"));
    for body in [&b""[..], b"{", b"[]", b"\xff\xfe", b"{\"prompt\": \"\xc3\"}"] {
        let answer = server.post("/v1/completions", Bytes::from_static(body)).await;
        assert_eq!(answer.error(), (400, "invalid_request".to_owned(), None), "{body:?}");
        assert_eq!(answer.header("x-plimsoll-reason"), Some("invalid_request"));
    }
    let answer = server.post("/v1/completions", "{\"prompt\": \"a\", \"n\": \"x\"}").await;
    assert_eq!(answer.error(), (400, "invalid_request".to_owned(), Some("n".to_owned())));
    assert_eq!(server.get("/v1/models/%ff").await.error().0, 404);
}

#[tokio::test]
async fn a_panic_is_an_answer() {
    let server = Server::plain(ScriptedService::new(|_| Ok(Script::new(vec![Act::Panic])))).await;
    let answer = server.post("/v1/completions", prompt()).await;
    assert_eq!(answer.error(), (500, "internal".to_owned(), None));
    assert!(answer.header("x-request-id").is_some());
    let answer = server.post("/v1/completions", json!({"prompt": "a", "stream": true}).to_string()).await;
    assert_eq!(answer.error(), (500, "internal".to_owned(), None), "nothing was sent yet");
    assert_eq!(server.get("/health").await.status, 200);
}

#[tokio::test]
async fn pages_of_known_origins_may_ask() {
    let cors_origins = vec!["https://a.org".to_owned()];
    let api_keys = vec!["k".into()];
    let config = GatewayConfig { cors_origins, api_keys, ..GatewayConfig::default() };
    let server = Server::start(says(), config).await;
    let preflight = |origin: &str| {
        Request::options("/v1/completions")
            .header("origin", origin)
            .header("access-control-request-method", "POST")
            .header("access-control-request-headers", "authorization,content-type")
    };
    let allowed = "access-control-allow-origin";
    let answer = server.client().await.send(preflight("https://a.org")).await;
    assert_eq!((answer.status.as_u16(), answer.header(allowed)), (200, Some("https://a.org")));
    assert_eq!(answer.header("access-control-allow-headers"), Some("authorization,content-type"));
    assert_eq!(server.client().await.send(preflight("https://b.org")).await.header(allowed), None);
    let plain = Server::plain(says()).await;
    assert_eq!(plain.client().await.send(preflight("https://a.org")).await.header(allowed), None);
}

#[tokio::test]
async fn a_setting_that_cannot_work_is_refused() {
    let config = GatewayConfig { api_keys: vec!["".into()], ..GatewayConfig::default() };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let gateway = Gateway { service: Arc::new(says()), metrics: Metrics::new(), config };
    let error = serve(listener, gateway, std::future::pending()).await.unwrap_err();
    assert!(error.to_string().starts_with("API key number 1 is empty"), "{error}");
}

#[tokio::test]
async fn an_encoded_body_is_not_taken_for_text() {
    let server = Server::plain(says()).await;
    for (encoding, status) in
        [("gzip", 415), ("br", 415), ("gzip, identity", 415), ("identity", 200), ("Identity", 200)]
    {
        for path in ["/v1/completions", "/tokenize"] {
            let mut request = post(path, prompt());
            request.headers_mut().insert("content-encoding", encoding.parse().unwrap());
            let answer = Answer::read(server.client().await.begin(request).await.unwrap()).await;
            assert_eq!(answer.status, status, "{encoding} {path}: {}", answer.text);
            if status == 415 {
                let param = Some("content-encoding".to_owned());
                assert_eq!(answer.error(), (415, "unsupported_encoding".to_owned(), param));
                assert_eq!(answer.header("accept-encoding"), Some("identity"));
            }
        }
    }
}

#[tokio::test]
async fn what_a_refusal_took_is_measured() {
    let full = ScriptedService::new(|_| {
        Err(Error::new(Reason::QueueFull, "full").retry_after(Duration::from_secs(1)))
    });
    let server = Server::plain(full).await;
    assert_eq!(server.post("/v1/completions", prompt()).await.status, 429);
    // Neither a fault of the client's nor one of the server's is a refusal.
    assert_eq!(server.post("/v1/completions", "{").await.status, 400);
    assert_eq!(server.get("/nothing").await.status, 404);
    assert_eq!(server.metric("plimsoll_refusal_seconds_count"), 1);
}
