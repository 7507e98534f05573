//! A server that does as it is told, on a real socket.

#![expect(clippy::unwrap_used, reason = "tests")]
#![allow(dead_code, reason = "each test binary uses a part")]

use plimsoll_load::target::Target;
use plimsoll_load::{Client, ClientOptions, LoadError};
use serde_json::Value;
use std::rc::Rc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::LocalSet;

/// A request that came in.
#[derive(Debug, Clone)]
pub struct Asked {
    /// The client's port: one per connection.
    pub from: u16,
    pub path: String,
    pub head: String,
    pub body: Value,
}

/// What the server does, one after the other.
#[derive(Debug, Clone)]
pub enum Act {
    Send(String),
    Pause(Duration),
    /// Says nothing more, and keeps the connection.
    Stall,
    /// Closes the connection.
    Cut,
}

/// An answer with a body of known length.
pub fn plain(status: &str, headers: &str, body: &str) -> Vec<Act> {
    let length = body.len();
    vec![Act::Send(format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n{headers}\r\n{body}"))]
}

/// The head of a stream.
pub const STREAM: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

/// One event, as one chunk of the stream.
pub fn event(data: &str) -> Act {
    let event = format!("data: {data}\n\n");
    Act::Send(format!("{:x}\r\n{event}\r\n", event.len()))
}

pub fn text(text: &str) -> Act {
    event(&serde_json::json!({"choices": [{"delta": {"content": text}}]}).to_string())
}

pub fn usage(prompt: usize, completion: usize) -> Act {
    let usage = serde_json::json!({"prompt_tokens": prompt, "completion_tokens": completion});
    event(&serde_json::json!({"choices": [], "usage": usage}).to_string())
}

/// `[DONE]` and the end of the stream.
pub fn done() -> Vec<Act> {
    vec![event("[DONE]"), Act::Send("0\r\n\r\n".to_owned())]
}

/// A whole answer: two texts, of two tokens each, and the usage. A prompt's words are its tokens, and 10 more.
pub fn whole(asked: &Asked) -> Vec<Act> {
    let mut acts = vec![Act::Send(STREAM.to_owned()), text("Good "), text("day")];
    acts.push(usage(prompt_words(asked) + 10, 4));
    acts.extend(done());
    acts
}

/// Words of all messages.
pub fn prompt_words(asked: &Asked) -> usize {
    let contents = asked.body["messages"].as_array().into_iter().flatten();
    contents.map(|message| message["content"].as_str().unwrap().split(' ').count()).sum()
}

type Handler = dyn Fn(&Asked) -> Vec<Act>;

/// Runs `test` beside a server that lists the model `m` and answers other requests by `handler`.
pub fn beside<T>(handler: impl Fn(&Asked) -> Vec<Act> + 'static, test: impl AsyncFnOnce(Target) -> T) -> T {
    let handler: Rc<Handler> = Rc::new(move |asked: &Asked| match asked.path.as_str() {
        "/v1/models" => plain("200 OK", "", r#"{"data":[{"id":"m"}]}"#),
        _ => handler(asked),
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let target = Target::parse(&listener.local_addr().unwrap().to_string()).unwrap();
        tokio::task::spawn_local(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::task::spawn_local(serve(stream, handler.clone()));
            }
        });
        test(target).await
    })
}

async fn serve(stream: TcpStream, handler: Rc<Handler>) {
    let from = stream.peer_addr().unwrap().port();
    let mut stream = BufReader::new(stream);
    while let Some(asked) = read(&mut stream, from).await {
        for act in handler(&asked) {
            match act {
                Act::Send(text) if stream.write_all(text.as_bytes()).await.is_ok() => {}
                Act::Pause(time) => tokio::time::sleep(time).await,
                Act::Stall => std::future::pending().await,
                Act::Send(_) | Act::Cut => return,
            }
        }
    }
}

async fn read(stream: &mut BufReader<TcpStream>, from: u16) -> Option<Asked> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).unwrap().to_lowercase();
    let length =
        head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    let path = head.split(' ').nth(1).unwrap().to_owned();
    Some(Asked { from, path, head, body: serde_json::from_slice(&body).unwrap_or_default() })
}

pub fn options(target: Target) -> ClientOptions {
    ClientOptions {
        target,
        endpoint: Default::default(),
        model: None,
        headers: Vec::new(),
        connect_timeout: Duration::from_secs(30),
        timeout: Duration::from_secs(60),
    }
}

pub async fn connect(target: Target) -> Result<Client, LoadError> {
    Client::connect(options(target)).await
}
