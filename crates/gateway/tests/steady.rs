//! Steady state: the gateway's threads allocate nothing per token that they write, each in a frame of its own.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use futures_core::Stream;
use plimsoll_api::error::Error;
use plimsoll_api::service::{
    Boxed, Delta, Event, EventStream, Finish, GenerateRequest, Generation, ModelCard, Readiness, Service,
    TokenInfo, TokenizeRequest, Usage,
};
use plimsoll_gateway::{Gateway, GatewayConfig, serve};
use plimsoll_pool::counting::Counting;
use plimsoll_telemetry::Metrics;
use plimsoll_testkit::service::card;
use plimsoll_testkit::steady::Threads;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Says as many words as it is asked for, each when the one before was read, and allocates for none of them.
struct Babbler;

/// How many words streams may have said, and who waits for more.
static PACE: Mutex<(u32, Vec<Waker>)> = Mutex::new((0, Vec::new()));

fn pace(words: u32) {
    let mut pace = PACE.lock().unwrap();
    pace.0 = words;
    pace.1.drain(..).for_each(Waker::wake);
}

struct Babble {
    spare: Vec<Delta>,
    left: u32,
    of: u32,
    scored: bool,
}

impl Stream for Babble {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Event>> {
        let mut pace = PACE.lock().unwrap();
        if self.of - self.left > pace.0 {
            pace.1.push(context.waker().clone());
            return Poll::Pending;
        }
        drop(pace);
        if self.left == 0 {
            return Poll::Ready(Some(Event::Done(Usage { completion_tokens: self.of, ..Usage::default() })));
        }
        self.left -= 1;
        let mut delta = self.spare.pop().unwrap_or_default();
        delta.text.clear();
        delta.text.push_str(" word");
        delta.tokens.resize_with(usize::from(self.scored), || TokenInfo {
            text: " word".into(),
            bytes: b" word".to_vec(),
            logprob: Some(-0.5),
            top: vec![(1, " other".into(), b" other".to_vec(), -0.25)],
            ..TokenInfo::default()
        });
        delta.finish = (self.left == 0).then_some(Finish::Length);
        Poll::Ready(Some(Event::Delta(delta)))
    }
}

impl EventStream for Babble {
    fn give_back(mut self: Pin<&mut Self>, delta: Delta) {
        self.spare.push(delta);
    }
}

impl Service for Babbler {
    fn models(&self, _tenant: u32) -> Vec<ModelCard> {
        vec![card("tiny")]
    }

    fn readiness(&self) -> Readiness {
        Readiness::Ready
    }

    fn tokenize(&self, _: TokenizeRequest) -> Boxed<'_, Result<Vec<u32>, Error>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn detokenize(&self, _: String, _: Vec<u32>) -> Boxed<'_, Result<String, Error>> {
        Box::pin(async { Ok(String::new()) })
    }

    fn generate(&self, request: GenerateRequest) -> Boxed<'_, Result<Generation, Error>> {
        let (left, scored) = (request.max_tokens.unwrap_or(1), request.logprobs.is_some());
        let babble = Babble { spare: Vec::new(), left, of: left, scored };
        Box::pin(async { Ok(Generation { prompt_tokens: 1, events: Box::pin(babble) }) })
    }
}

/// A gateway on a thread of its own.
fn start() -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    listener.set_nonblocking(true).unwrap();
    let gateway =
        Gateway { service: Arc::new(Babbler), metrics: Metrics::new(), config: GatewayConfig::default() };
    let run = move || {
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        tokio.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            serve(listener, gateway, std::future::pending()).await
        })
    };
    std::thread::Builder::new().name("gateway".into()).spawn(run).unwrap();
    address
}

/// Reads one answer to its end: the last chunk of its body. Allocates on the caller's thread alone.
fn ask(client: &mut TcpStream, path: &str, body: &Value) -> String {
    let prompts = body["prompt"].as_array().map_or(1, Vec::len);
    let body = body.to_string();
    let head = format!("POST {path} HTTP/1.1\r\nhost: test\r\ncontent-length: {}\r\n\r\n", body.len());
    client.write_all((head + &body).as_bytes()).unwrap();
    pace(0);
    let (mut answer, mut piece) = (Vec::new(), [0; 4096]);
    while !answer.ends_with(b"0\r\n\r\n") {
        let read = client.read(&mut piece).unwrap();
        assert!(read > 0, "{}", String::from_utf8_lossy(&answer));
        answer.extend_from_slice(&piece[..read]);
        pace((String::from_utf8_lossy(&answer).matches("data: ").count() / prompts) as u32 + 1);
    }
    String::from_utf8(answer).unwrap()
}

#[test]
fn a_stream_allocates_nothing_per_token() {
    let mut client = TcpStream::connect(start()).unwrap();
    // Its thread has its name by the time it has answered.
    ask(&mut client, "/v1/completions", &json!({"prompt": "hi", "stream": true}));
    let chat = json!({"messages": [{"role": "user", "content": "hi"}]});
    let cases = [
        ("/v1/chat/completions", chat.clone(), json!({})),
        ("/v1/chat/completions", chat, json!({"logprobs": true, "top_logprobs": 1})),
        ("/v1/completions", json!({"prompt": "hi"}), json!({})),
        ("/v1/completions", json!({"prompt": "hi"}), json!({"logprobs": 1})),
        ("/v1/completions", json!({"prompt": ["a", "b", "c"]}), json!({})),
    ];
    for (path, mut body, options) in cases {
        body.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
        body["stream"] = json!(true);
        let mut allocations = Vec::new();
        for tokens in [500, 500, 50, 500, 50] {
            body["max_tokens"] = json!(tokens);
            let threads = Threads::named(&["gateway"]);
            let answer = ask(&mut client, path, &body);
            let words = answer.matches(" word").count();
            assert!(words >= tokens && answer.contains("[DONE]"), "{words} words of {tokens}");
            allocations.push(threads.allocations());
        }
        println!("{path}: {allocations:?}");
        // A connection's own, of timers and the like, come and go; one in 45 tokens would be too many.
        let difference = allocations[3].abs_diff(allocations[4]);
        assert!(difference < 10, "{path} {body}: {difference} for 450 tokens more ({allocations:?})");
    }
}
