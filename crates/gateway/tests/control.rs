//! The control plane answers by itself.

mod common;

use common::Client;
use hyper::Request;
use plimsoll_api::service::Readiness;
use plimsoll_gateway::control;
use plimsoll_telemetry::Metrics;
use plimsoll_testkit::service::ScriptedService;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

#[tokio::test]
async fn metrics_and_health() {
    let (service, metrics) = (Arc::new(ScriptedService::saying(&["x"])), Metrics::new());
    metrics.model("tiny").set_running(3);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let control = control::spawn(listener, service.clone(), metrics).unwrap();
    let get = async |path: &str| Client::connect(control.address()).await.send(Request::get(path)).await;
    let answer = get("/metrics").await;
    assert_eq!(answer.header("content-type"), Some("text/plain; version=0.0.4"));
    assert!(answer.text.contains("plimsoll_running{model=\"tiny\"} 3\n"), "{}", answer.text);
    assert_eq!(get("/health").await.status, 200);
    service.set_readiness(Readiness::Loading);
    assert_eq!(get("/health").await.error(), (503, "loading".to_owned(), None));
    assert_eq!(get("/ping").await.status, 200);
    assert_eq!(get("/version").await.json()["name"], "plimsoll");
    let answer = get("/experiments").await;
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(answer.json(), serde_json::json!({ "experiments": [] }));
    assert_eq!(get("/nothing").await.error().0, 404);
    let address = control.address();
    control.stop();
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}

#[test]
fn it_answers_while_every_thread_of_the_gateway_is_busy() {
    let service = Arc::new(ScriptedService::saying(&["x"]));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let control = control::spawn(listener, service, Metrics::new()).unwrap();
    let address = control.address();
    // This thread never yields to a runtime: the answer comes from the control plane's own thread.
    let mut socket = std::net::TcpStream::connect(address).unwrap();
    std::io::Write::write_all(&mut socket, b"GET /ping HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        .unwrap();
    let answer = std::io::read_to_string(socket).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
}

/// However many connections ask for nothing, a probe is answered while it still waits.
#[tokio::test]
async fn idle_connections_do_not_keep_a_probe_waiting() {
    let service = Arc::new(ScriptedService::saying(&["x"]));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let control = control::spawn(listener, service, Metrics::new()).unwrap();
    let mut idle = Vec::new();
    for _ in 0..300 {
        idle.push(tokio::net::TcpStream::connect(control.address()).await.unwrap());
    }
    let probe = async { Client::connect(control.address()).await.send(Request::get("/health")).await.status };
    let status = tokio::time::timeout(Duration::from_secs(20), probe).await.expect("an answer");
    assert_eq!(status, 200);
}
