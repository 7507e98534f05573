//! A reader that is slow, all the way: sockets, gateway, token ring, lane. Small buffers, since what is in them hides it.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::Builder;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use plimsoll_gateway::{Gateway, GatewayConfig, serve};
use plimsoll_model::engine::Engine;
use plimsoll_runtime::{LaneConfig, ModelParts, Parking, Runtime};
use plimsoll_telemetry::Metrics;
use plimsoll_testkit::engine::{Observed, Script, ScriptedEngine};
use plimsoll_testkit::tiny::vocab;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket};

/// Small letters, each a token.
const LETTERS: std::ops::Range<u32> = 97..123;
/// Tokens of the KV cache; of what the slow reader asks for; and items of a ring.
const CACHE: usize = 120 * 16;
const LONG: usize = 1500;
const RING: usize = 32;

/// A server of one scripted model.
struct Server {
    address: SocketAddr,
    metrics: Arc<Metrics>,
    observed: Arc<Observed>,
    script: Script,
}

impl Server {
    async fn start(config: GatewayConfig) -> Self {
        let script = Script::new(vocab::tokens().len(), CACHE / 16, LETTERS);
        let engine = ScriptedEngine::new(script.clone());
        let observed = engine.observed();
        let parking = Parking { memory: 500 * engine.block_bytes(), ..Parking::default() };
        let lane = LaneConfig {
            token_ring: RING,
            parking,
            prefix_cache: false,
            warm_up: false,
            ..LaneConfig::default()
        };
        let metrics = Metrics::new();
        let runtime = Runtime::new(metrics.clone());
        let (name, engine, tokenizer) = ("tiny".into(), Box::new(engine), Arc::new(vocab::tokenizer()));
        runtime.add(ModelParts { name, engine, tokenizer, template: None, config: lane }).unwrap();
        runtime.ready();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let gateway = Gateway { service: runtime, metrics: metrics.clone(), config };
        tokio::spawn(serve(listener, gateway, std::future::pending()));
        Self { address, metrics, observed, script }
    }

    /// Begins to stream `tokens` tokens after `prompt` to a client that has little room.
    async fn begin(&self, prompt: &str, tokens: usize) -> Response<Incoming> {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(2048).unwrap();
        let stream = socket.connect(self.address).await.unwrap();
        let (mut sender, connection) =
            Builder::new().max_buf_size(8 << 10).handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let body = json!({"prompt": prompt, "max_tokens": tokens, "temperature": 0, "stream": true});
        let request = Request::post("/v1/completions").header("host", "test");
        sender.send_request(request.body(Full::new(Bytes::from(body.to_string()))).unwrap()).await.unwrap()
    }

    async fn run(&self, prompt: &str, tokens: usize) -> String {
        text(self.begin(prompt, tokens).await).await
    }

    /// What a sequence alone says.
    fn alone(&self, prompt: &str, tokens: usize) -> String {
        let prompt: Vec<u32> = prompt.bytes().map(u32::from).collect();
        self.script.alone(&prompt, tokens).into_iter().map(|token| char::from(token as u8)).collect()
    }

    /// The value of a series; 0 when it is not there yet.
    fn gauge(&self, series: &str) -> f64 {
        let text = self.metrics.render();
        let line = text.lines().find(|line| line.starts_with(series));
        line.map_or(0.0, |line| line.rsplit(' ').next().unwrap().parse().unwrap())
    }

    /// Steps that a request takes, and rows computed meanwhile.
    async fn cost(&self, prompt: &str, tokens: usize) -> (usize, usize) {
        let count = || (self.observed.steps.load(SeqCst), self.observed.rows.load(SeqCst));
        let before = count();
        assert_eq!(self.run(prompt, tokens).await, self.alone(prompt, tokens));
        let after = count();
        (after.0 - before.0, after.1 - before.1)
    }
}

/// The text of a stream that ends as it should.
async fn text(response: Response<Incoming>) -> String {
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    let body = String::from_utf8(bytes.to_vec()).unwrap();
    let mut text = String::new();
    for data in body.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|data| *data != "[DONE]") {
        let event: Value = serde_json::from_str(data).unwrap();
        text += event["choices"][0]["text"].as_str().unwrap_or_else(|| panic!("{event}"));
    }
    assert!(body.ends_with("data: [DONE]\n\n"));
    text
}

fn small_buffers() -> GatewayConfig {
    GatewayConfig { send_buffer: 4 << 10, connection_buffer: 8 << 10, ..GatewayConfig::default() }
}

const USED: &str = "plimsoll_kv_blocks{model=\"tiny\",state=\"used\"}";
const PARKED: &str = "plimsoll_park_moves_total{direction=\"out\",model=\"tiny\"}";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_pauses_its_own_sequence_which_is_parked_and_goes_on_where_it_stopped() {
    let server = Server::start(small_buffers()).await;
    let alone = server.cost("quick", 40).await;
    let slow = server.begin("slow", LONG).await;
    // At first it is ahead of its reader, and takes part in their steps; then it does not, and they are as if alone.
    let (mut ahead, mut undisturbed) = (0, 0);
    while undisturbed < 5 {
        let cost = server.cost("quick", 40).await;
        undisturbed = if cost == alone { undisturbed + 1 } else { 0 };
        ahead += cost.1.saturating_sub(alone.1);
    }
    assert!(ahead < LONG / 2, "{ahead} tokens were computed for a reader that takes none");
    // Its blocks are wanted.
    let long = "x".repeat(CACHE - 100);
    assert_eq!(server.run(&long, 20).await, server.alone(&long, 20));
    assert!(server.gauge(PARKED) > 0.0, "it kept its blocks");
    assert_eq!(text(slow).await, server.alone("slow", LONG));
    assert_eq!(server.observed.violations.load(SeqCst), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_is_cut_off_in_the_end_and_leaves_nothing_behind() {
    let config = GatewayConfig { stall_timeout: Duration::from_millis(30), ..small_buffers() };
    let server = Server::start(config).await;
    let slow = server.begin("slow", LONG).await;
    // It was let in, and by the time that it is cut off nothing of it is left.
    while server.gauge("plimsoll_requests_total{model=\"tiny\",outcome=\"cancelled\"") < 1.0
        || server.gauge(USED) > 0.0
        || server.gauge("plimsoll_running") > 0.0
    {
        tokio::task::yield_now().await;
    }
    assert!(slow.into_body().collect().await.is_err(), "it was told that all is well");
    assert_eq!(server.run("quick", 40).await, server.alone("quick", 40));
}
