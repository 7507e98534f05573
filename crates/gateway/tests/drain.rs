//! Going down: no new work, running work ends.

mod common;

use common::{Answer, Client, Server, piece, post};
use http_body_util::BodyExt;
use hyper::Request;
use plimsoll_api::service::Readiness;
use plimsoll_gateway::GatewayConfig;
use plimsoll_testkit::service::{Act, Gate, Script, ScriptedService};
use serde_json::json;
use std::time::Duration;

/// Says "a", waits at the gate, says the rest.
fn waits(gate: &Gate) -> ScriptedService {
    let gate = gate.clone();
    ScriptedService::new(move |request| {
        let mut script = Script::saying(request, &["a", "b"]);
        script.acts.insert(1, Act::Wait(gate.clone()));
        Ok(script)
    })
}

fn ask(stream: bool) -> String {
    json!({"prompt": "a", "stream": stream}).to_string()
}

#[tokio::test]
async fn running_streams_finish_and_new_work_is_refused() {
    let gate = Gate::closed();
    let server = Server::plain(waits(&gate)).await;
    let mut client = server.client().await;
    let mut idle = server.client().await;
    assert_eq!(idle.send(Request::get("/health")).await.status, 200);
    let mut stream = client.begin(post("/v1/completions", ask(true))).await.unwrap().into_body();
    assert!(piece(&mut stream).await.contains("\"a\""));
    server.stop.cancel();
    // The idle connection is closed; those who come now hear why.
    assert!(idle.begin(post("/v1/completions", ask(false))).await.is_err());
    let late = server.post("/v1/completions", ask(false)).await;
    assert_eq!(late.error(), (503, "draining".to_owned(), None));
    assert_eq!((late.header("x-plimsoll-reason"), late.header("retry-after")), (Some("draining"), Some("1")));
    assert_eq!(server.get("/health").await.error().0, 503);
    assert_eq!(server.get("/ping").await.status, 200);
    gate.open(1);
    let rest = stream.collect().await.unwrap().to_bytes();
    assert!(rest.ends_with(b"data: [DONE]\n\n"));
    server.running.await.unwrap().unwrap();
    assert_eq!(server.service.counts().finished, 1);
}

#[tokio::test]
async fn what_runs_too_long_ends_with_an_error() {
    let gate = Gate::closed();
    let config = GatewayConfig { drain_timeout: Duration::from_millis(20), ..GatewayConfig::default() };
    let server = Server::start(waits(&gate), config).await;
    let mut client = server.client().await;
    let mut stream = client.begin(post("/v1/completions", ask(true))).await.unwrap().into_body();
    assert!(piece(&mut stream).await.contains("\"a\""));
    let address = server.address;
    let whole = tokio::spawn(async move {
        let mut client = Client::connect(address).await;
        Answer::read(client.begin(post("/v1/completions", ask(false))).await.unwrap()).await
    });
    server.service.until(|counts| counts.live() == 2).await;
    server.stop.cancel();
    let rest = stream.collect().await.unwrap().to_bytes();
    let rest = String::from_utf8_lossy(&rest);
    assert!(rest.starts_with("data: {\"error\":{") && rest.ends_with("data: [DONE]\n\n"), "{rest}");
    assert_eq!(whole.await.unwrap().error(), (503, "draining".to_owned(), None));
    server.running.await.unwrap().unwrap();
    assert_eq!(server.service.counts().dropped, 2);
}

#[tokio::test]
async fn an_idle_server_stops_at_once() {
    let server = Server::plain(ScriptedService::saying(&["x"])).await;
    let mut idle = server.client().await;
    assert_eq!(idle.send(Request::get("/ping")).await.status, 200);
    server.stop.cancel();
    server.running.await.unwrap().unwrap();
}

#[tokio::test]
async fn health_follows_the_service() {
    let server = Server::plain(ScriptedService::saying(&["x"])).await;
    for (readiness, code) in [(Readiness::Loading, "loading"), (Readiness::Draining, "draining")] {
        server.service.set_readiness(readiness);
        assert_eq!(server.get("/health").await.error(), (503, code.to_owned(), None));
        assert_eq!(server.post("/v1/completions", ask(false)).await.error(), (503, code.to_owned(), None));
    }
    server.service.set_readiness(Readiness::Ready);
    assert_eq!(server.get("/health").await.status, 200);
}

#[tokio::test]
async fn a_model_that_may_still_come_is_not_called_unknown() {
    let server = Server::plain(ScriptedService::saying(&["x"])).await;
    let asked = [
        ("/v1/completions", json!({"model": "later", "prompt": "a"})),
        ("/tokenize", json!({"model": "later", "prompt": "a"})),
        ("/detokenize", json!({"model": "later", "tokens": [1]})),
    ];
    for (readiness, status, code) in
        [(Readiness::Loading, 503, "loading"), (Readiness::Ready, 404, "model_not_found")]
    {
        server.service.set_readiness(readiness);
        for (path, body) in &asked {
            let (was, reason, _) = server.post(path, body.to_string()).await.error();
            assert_eq!((was, reason.as_str()), (status, code), "{path}");
        }
        let (was, reason, _) = server.get("/v1/models/later").await.error();
        assert_eq!((was, reason.as_str()), (status, code), "/v1/models/later");
    }
}
