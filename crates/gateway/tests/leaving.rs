//! A client that leaves cancels its request, wherever the request is.

mod common;

use common::{Server, piece, post};
use plimsoll_api::service::{Delta, Event};
use plimsoll_gateway::GatewayConfig;
use plimsoll_testkit::service::{Act, Gate, Script, ScriptedService};
use serde_json::json;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const CANCELLED: &str =
    r#"plimsoll_requests_total{model="tiny",outcome="cancelled",route="/v1/completions"}"#;

/// Says "x" and then nothing more.
fn hangs() -> ScriptedService {
    ScriptedService::new(|_| {
        let delta = Delta { text: "x".to_owned(), ..Delta::default() };
        Ok(Script::new(vec![Act::Emit(Event::Delta(delta)), Act::Hang]))
    })
}

/// Admits nothing, for ever.
fn queues() -> ScriptedService {
    ScriptedService::new(|request| {
        Ok(Script { admission: Some(Gate::closed()), ..Script::saying(request, &["x"]) })
    })
}

/// Admits and says nothing.
fn silent() -> ScriptedService {
    ScriptedService::new(|_| Ok(Script::new(vec![Act::Hang])))
}

fn body(stream: bool, prompts: usize) -> String {
    json!({"prompt": vec!["a"; prompts], "stream": stream}).to_string()
}

#[tokio::test]
async fn while_it_waits_or_runs() {
    for service in [hangs, queues, silent] {
        for stream in [false, true] {
            let server = Server::plain(service()).await;
            let mut client = server.client().await;
            let request = tokio::spawn(async move {
                let response = client.begin(post("/v1/completions", body(stream, 1))).await;
                // Hold the answer, if there is one, until aborted.
                std::future::pending::<()>().await;
                drop((response, client));
            });
            server.service.until(|counts| counts.live() == 1).await;
            request.abort();
            let counts = server.service.until(|counts| counts.live() == 0).await;
            assert_eq!((counts.asked, counts.dropped), (1, 1));
            assert_eq!(server.metric(CANCELLED), 1, "stream: {stream}");
        }
    }
}

#[tokio::test]
async fn after_the_first_token() {
    let server = Server::plain(hangs()).await;
    let mut client = server.client().await;
    let response = client.begin(post("/v1/completions", body(true, 3))).await.unwrap();
    let mut stream = response.into_body();
    assert!(piece(&mut stream).await.starts_with("data: {"));
    drop((stream, client));
    let counts = server.service.until(|counts| counts.live() == 0).await;
    assert_eq!((counts.asked, counts.dropped), (3, 3));
}

#[tokio::test]
async fn by_closing_half_or_all_of_a_raw_socket() {
    for half in [true, false] {
        let server = Server::plain(queues()).await;
        let mut socket = TcpStream::connect(server.address).await.unwrap();
        let body = body(false, 1);
        let head =
            format!("POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n", body.len());
        socket.write_all(head.as_bytes()).await.unwrap();
        socket.write_all(body.as_bytes()).await.unwrap();
        server.service.until(|counts| counts.live() == 1).await;
        if half {
            socket.shutdown().await.unwrap();
            assert_eq!(socket.read(&mut [0; 16]).await.unwrap(), 0, "closed without an answer");
        } else {
            drop(socket);
        }
        let counts = server.service.until(|counts| counts.live() == 0).await;
        assert_eq!(counts.dropped, 1);
    }
}

/// Says far more than the buffers between the two hold.
fn talks() -> ScriptedService {
    ScriptedService::new(|_| {
        let delta = Delta { text: "some words, ".repeat(20), ..Delta::default() };
        Ok(Script::new(vec![Act::Emit(Event::Delta(delta)); 200_000]))
    })
}

#[tokio::test]
async fn a_slow_reader_holds_up_its_own_stream() {
    let server = Server::plain(talks()).await;
    let mut client = server.client().await;
    let response = client.begin(post("/v1/completions", body(true, 1))).await.unwrap();
    let mut stream = response.into_body();
    piece(&mut stream).await;
    // Others are served meanwhile, and the slow one is neither finished nor cut off.
    for _ in 0..20 {
        assert_eq!(server.get("/health").await.status, 200);
    }
    assert_eq!(server.service.counts().live(), 1);
    drop((stream, client));
    assert_eq!(server.service.until(|counts| counts.live() == 0).await.dropped, 1);
}

#[tokio::test]
async fn a_reader_that_takes_nothing_is_cut_off() {
    let config = GatewayConfig { stall_timeout: Duration::from_millis(20), ..GatewayConfig::default() };
    let server = Server::start(talks(), config).await;
    let mut client = server.client().await;
    let response = client.begin(post("/v1/completions", body(true, 1))).await.unwrap();
    let counts = server.service.until(|counts| counts.live() == 0).await;
    assert_eq!(counts.dropped, 1);
    drop(response);
}
