//! A web server for tests: one thread, one connection at a time, the test says what it answers.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// What was asked.
#[derive(Debug, Clone)]
pub struct Request {
    pub method: String,
    pub path: String,
    headers: HashMap<String, String>,
}

impl Request {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// The first byte asked for, if not the whole.
    pub fn range_start(&self) -> Option<usize> {
        self.header("range")?.strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok()
    }
}

/// A running server. It ends with the test process.
pub struct Server {
    pub base: String,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    pub fn start(mut answer: impl FnMut(&Request, &mut TcpStream) + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                if let Some(request) = read_request(&stream) {
                    seen.lock().unwrap().push(request.clone());
                    answer(&request, &mut stream);
                }
            }
        });
        Self { base, requests }
    }

    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }
}

fn read_request(stream: &TcpStream) -> Option<Request> {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    let first = lines.next()?;
    let mut words = first.split(' ');
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let headers = lines.take_while(|line| !line.is_empty()).filter_map(|line| {
        line.split_once(':').map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
    });
    Some(Request { method, path, headers: headers.collect() })
}

/// Status line and headers. Write errors are the client's business: it may have left.
pub fn head(stream: &mut TcpStream, status: &str, headers: &[(&str, &str)]) {
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let _ = write!(stream, "HTTP/1.1 {status}\r\nconnection: close\r\n{headers}\r\n");
}

/// A whole answer.
pub fn reply(stream: &mut TcpStream, status: &str, headers: &[(&str, &str)], body: &[u8]) {
    let length = body.len().to_string();
    head(stream, status, &[headers, &[("content-length", &length)]].concat());
    let _ = stream.write_all(body);
}

/// A file as a good server answers for it: ranges, if the ETag is still the same.
pub fn file(request: &Request, stream: &mut TcpStream, etag: &str, bytes: &[u8]) {
    file_cut(request, stream, etag, bytes, usize::MAX);
}

/// The same, but the connection breaks after `cut` bytes of the body.
pub fn file_cut(request: &Request, stream: &mut TcpStream, etag: &str, bytes: &[u8], cut: usize) {
    let from =
        request.range_start().filter(|from| request.header("if-range") == Some(etag) && *from < bytes.len());
    let body = &bytes[from.unwrap_or(0)..];
    let length = body.len().to_string();
    let range = format!("bytes {}-{}/{}", from.unwrap_or(0), bytes.len() - 1, bytes.len());
    match from {
        Some(_) => {
            head(
                stream,
                "206 Partial Content",
                &[("etag", etag), ("content-length", &length), ("content-range", &range)],
            );
        }
        None => head(stream, "200 OK", &[("etag", etag), ("content-length", &length)]),
    }
    if request.method != "HEAD" {
        let _ = stream.write_all(&body[..body.len().min(cut)]);
    }
}
