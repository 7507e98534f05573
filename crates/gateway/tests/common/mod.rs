//! A gateway on a real socket, and a client for it.

#![expect(clippy::unwrap_used, reason = "tests")]
#![allow(dead_code, reason = "each test binary uses a part")]

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{HeaderMap, Request, Response, StatusCode, body::Incoming};
use hyper_util::rt::TokioIo;
use plimsoll_gateway::{Gateway, GatewayConfig, serve};
use plimsoll_telemetry::Metrics;
use plimsoll_testkit::service::ScriptedService;
use serde_json::Value;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// A running gateway.
pub struct Server {
    pub address: SocketAddr,
    pub service: Arc<ScriptedService>,
    pub metrics: Arc<Metrics>,
    pub stop: CancellationToken,
    pub running: JoinHandle<io::Result<()>>,
}

impl Server {
    pub async fn start(service: ScriptedService, config: GatewayConfig) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (service, metrics, stop) = (Arc::new(service), Metrics::new(), CancellationToken::new());
        let gateway = Gateway { service: service.clone(), metrics: metrics.clone(), config };
        let running = tokio::spawn(serve(listener, gateway, stop.clone().cancelled_owned()));
        Self { address, service, metrics, stop, running }
    }

    pub async fn plain(service: ScriptedService) -> Self {
        Self::start(service, GatewayConfig::default()).await
    }

    pub async fn client(&self) -> Client {
        Client::connect(self.address).await
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.client().await.send(Request::get(path)).await
    }

    pub async fn post(&self, path: &str, body: impl Into<Bytes>) -> Answer {
        self.client().await.post(path, body).await
    }

    pub async fn post_json(&self, path: &str, body: &Value) -> Answer {
        self.post(path, body.to_string()).await
    }

    /// The value of a series of `/metrics`; 0 when it is not there.
    pub fn metric(&self, series: &str) -> u64 {
        let text = self.metrics.render();
        let value = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        value.map_or(0, |value| value.parse().unwrap())
    }
}

/// One connection.
pub struct Client(SendRequest<Full<Bytes>>);

impl Client {
    pub async fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        let (sender, connection) = handshake(TokioIo::new(stream)).await.unwrap();
        // Ends when the sender and the response are dropped.
        tokio::spawn(connection);
        Self(sender)
    }

    pub async fn begin(&mut self, request: Request<Full<Bytes>>) -> hyper::Result<Response<Incoming>> {
        self.0.send_request(request).await
    }

    pub async fn send(&mut self, request: hyper::http::request::Builder) -> Answer {
        let request = request.header("host", "test").body(Full::default()).unwrap();
        Answer::read(self.begin(request).await.unwrap()).await
    }

    pub async fn post(&mut self, path: &str, body: impl Into<Bytes>) -> Answer {
        Answer::read(self.begin(post(path, body)).await.unwrap()).await
    }
}

pub fn post(path: &str, body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    let request = Request::post(path).header("host", "test").header("content-type", "application/json");
    request.body(Full::new(body.into())).unwrap()
}

/// A whole answer.
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub text: String,
}

impl Answer {
    pub async fn read(response: Response<Incoming>) -> Self {
        let (head, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        Self { status: head.status, headers: head.headers, text: String::from_utf8(bytes.to_vec()).unwrap() }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap()
    }

    /// `(status, error.code, error.param)`.
    pub fn error(&self) -> (u16, String, Option<String>) {
        let error = &self.json()["error"];
        let code = error["code"].as_str().unwrap_or_default().to_owned();
        (self.status.as_u16(), code, error["param"].as_str().map(str::to_owned))
    }

    /// The text for a snapshot: what differs from run to run is taken out.
    pub fn snapshot(&self) -> String {
        let mut text = format!("{}\n", self.status);
        for name in ["content-type", "cache-control", "retry-after", "retry-after-ms", "x-plimsoll-reason"] {
            if let Some(value) = self.header(name) {
                text.push_str(&format!("{name}: {value}\n"));
            }
        }
        text.push('\n');
        text.push_str(&self.text);
        let mut out = String::new();
        for line in text.split_inclusive('\n') {
            out.push_str(&masked(line));
        }
        out
    }
}

/// Hides the random id, the time and the version.
fn masked(line: &str) -> String {
    let mut line = line.replace(concat!("plimsoll-", env!("CARGO_PKG_VERSION")), "plimsoll-VERSION");
    for prefix in ["\"chatcmpl-", "\"cmpl-"] {
        if let Some(at) = line.find(prefix) {
            let digits = at + prefix.len();
            line.replace_range(digits..digits + 32, "ID");
        }
    }
    // The scripted models were created before.
    if let Some(at) = line.find("\"created\":1").filter(|_| !line.contains("1700000000")) {
        let digits = at + "\"created\":".len();
        let end = line[digits..].find(',').unwrap() + digits;
        line.replace_range(digits..end, "NOW");
    }
    line
}

/// The next piece of a streamed body.
pub async fn piece(body: &mut Incoming) -> String {
    let frame = body.frame().await.unwrap().unwrap();
    String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap()
}
