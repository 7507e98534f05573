//! Connections to the server: kept while they are of use, as many as requests are under way.

use crate::manner::SLOW_BUFFER;
use crate::target::Target;
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use std::cell::RefCell;
use std::time::Duration;
use tokio::net::{TcpSocket, TcpStream, lookup_host};
use tokio::time::{Instant, timeout};

/// A connection that was idle for longer may be closed by the server just now; vLLM and llama-server do so after 5 s.
const MAX_IDLE: Duration = Duration::from_secs(2);

type Sender = SendRequest<Full<Bytes>>;

/// The connections to one server.
#[derive(Debug)]
pub struct Connections {
    target: Target,
    connect_timeout: Duration,
    idle: RefCell<Vec<(Sender, Instant)>>,
}

/// How much a connection holds that nobody has read yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Buffers {
    /// As the system thinks best.
    Usual,
    /// As little as can be.
    Small,
}

/// A response under way. Hand it back with [`Connections::keep`] when its body is read.
#[derive(Debug)]
pub struct Answer {
    /// Head and body.
    pub response: Response<Incoming>,
    sender: Sender,
    buffers: Buffers,
}

impl Connections {
    /// None yet.
    pub fn new(target: Target, connect_timeout: Duration) -> Self {
        Self { target, connect_timeout, idle: RefCell::default() }
    }

    /// Sends a request over a connection that is free, or a new one; over one of its own if that is to have small buffers.
    ///
    /// # Errors
    /// In words: no connection, or one that broke.
    pub async fn send(&self, mut request: Request<Full<Bytes>>, buffers: Buffers) -> Result<Answer, String> {
        while let Some(mut sender) = self.free(buffers) {
            match sender.try_send_request(request).await {
                Ok(response) => return Ok(Answer { response, sender, buffers }),
                // The server closed it before it took the request, so another one may be tried.
                Err(mut error) => match error.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(words(&error.into_error())),
                },
            }
        }
        let mut sender = self.connect(buffers).await?;
        let response = sender.send_request(request).await.map_err(|error| words(&error))?;
        Ok(Answer { response, sender, buffers })
    }

    /// Keeps the connection of an answer whose body was read to its end.
    pub fn keep(&self, answer: Answer) {
        if answer.buffers == Buffers::Usual {
            self.idle.borrow_mut().push((answer.sender, Instant::now()));
        }
    }

    /// The connection that was used last, if it is still of use.
    fn free(&self, buffers: Buffers) -> Option<Sender> {
        if buffers == Buffers::Small {
            return None;
        }
        let mut idle = self.idle.borrow_mut();
        while let Some((sender, since)) = idle.pop() {
            if since.elapsed() > MAX_IDLE {
                // Those below it have been idle for longer.
                idle.clear();
            } else if sender.is_ready() {
                return Some(sender);
            }
        }
        None
    }

    async fn connect(&self, buffers: Buffers) -> Result<Sender, String> {
        let connecting = timeout(self.connect_timeout, open(&self.target.authority, buffers));
        let stream = match connecting.await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return Err(error.to_string()),
            Err(_) => return Err(format!("no connection within {} s", self.connect_timeout.as_secs_f64())),
        };
        // A request must not wait for the acknowledgement of its head.
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        let mut http = Builder::new();
        if buffers == Buffers::Small {
            http.max_buf_size(SLOW_BUFFER as usize);
        }
        let (sender, connection) =
            http.handshake(TokioIo::new(stream)).await.map_err(|error| words(&error))?;
        // Ends with its sender and response; what breaks it, they are told.
        tokio::spawn(connection);
        Ok(sender)
    }
}

async fn open(authority: &str, buffers: Buffers) -> std::io::Result<TcpStream> {
    if buffers == Buffers::Usual {
        return TcpStream::connect(authority).await;
    }
    let mut last = std::io::Error::other("the name has no address");
    for address in lookup_host(authority).await? {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        // Before it connects, since the window it offers then is by this.
        socket.set_recv_buffer_size(SLOW_BUFFER / 2)?;
        match socket.connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// An error with its causes.
pub fn words(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        words = format!("{words}: {cause}");
        source = cause.source();
    }
    words
}
