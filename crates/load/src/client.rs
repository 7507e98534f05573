//! A server that is known to take our requests: which model, which dialect, how words become tokens.

use crate::connection::{Buffers, Connections};
use crate::error::LoadError;
use crate::exchange::{Exchange, Patience, exchange};
use crate::manner::Conduct;
use crate::openai::{self, Dialect, Endpoint, Message, Role};
use crate::prompts::{CalibratedBy, Calibration, words};
use crate::record::Outcome;
use crate::target::Target;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::header::{HeaderName, HeaderValue};
use hyper::{Method, Request, StatusCode};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::timeout;

/// What a client is told before it knows the server.
#[derive(Debug, Clone)]
pub struct ClientOptions {
    /// The server.
    pub target: Target,
    /// Where requests go.
    pub endpoint: Endpoint,
    /// The model; without one, the first that the server lists.
    pub model: Option<String>,
    /// Headers that every request carries, such as `authorization`.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Longest that a connection may take to come about.
    pub connect_timeout: Duration,
    /// Longest that a request may take.
    pub timeout: Duration,
}

/// A server, and how to ask it.
#[derive(Debug)]
pub struct Client {
    connections: Connections,
    options: ClientOptions,
    model: String,
    dialect: Dialect,
    calibration: Calibration,
}

/// One request, as the load wants it.
#[derive(Debug, Clone, Copy)]
pub struct Ask<'a> {
    /// The conversation; a completion's prompt is its last message.
    pub messages: &'a [Message],
    /// Most tokens of the answer.
    pub max_tokens: u32,
    /// What `x-priority` says, if anything.
    pub priority: Option<&'a str>,
    /// Whether the answer's text is wanted.
    pub keep_text: bool,
    /// What its client does.
    pub conduct: Conduct,
}

/// Words of the two prompts that show how words become tokens.
const FEW: usize = 16;
const MANY: usize = 96;
/// Seeds of these prompts; no run's, so that they warm no cache for it.
const PROBE_SEED: u64 = 0xCA11_B8A7E;
/// As much of an answer that is no stream is read.
const MAX_BODY: usize = 1 << 20;

impl Client {
    /// Gets to know a server: is it there, has it the model, does it take such requests, how does it count tokens.
    ///
    /// # Errors
    /// What is wrong, for who started the run.
    pub async fn connect(options: ClientOptions) -> Result<Self, LoadError> {
        let connections = Connections::new(options.target.clone(), options.connect_timeout);
        let dialect = Dialect { ignore_eos: true, usage: true };
        let model = String::new();
        let mut client = Self { connections, options, model, dialect, calibration: Calibration::ASSUMED };
        client.model = client.choose_model().await?;
        client.calibrate().await?;
        Ok(client)
    }

    /// The model that is asked.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// Where, for people.
    pub fn url(&self) -> String {
        self.options.target.url()
    }

    /// Where requests go.
    pub fn endpoint(&self) -> Endpoint {
        self.options.endpoint
    }

    /// What the server understands.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// How words become tokens.
    pub fn calibration(&self) -> Calibration {
        self.calibration
    }

    /// Asks, and follows the answer to its end.
    pub async fn ask(&self, ask: &Ask<'_>) -> Exchange {
        let body =
            openai::body(self.options.endpoint, self.dialect, &self.model, ask.messages, ask.max_tokens);
        let body = ask.conduct.body(body, self.options.endpoint);
        let mut request = self.request(Method::POST, self.options.endpoint.path(), body);
        if let Conduct::ShortTimeout { ms } = ask.conduct {
            request.headers_mut().insert("x-request-timeout-ms", ms.into());
        }
        if let Some(priority) = ask.priority.and_then(|priority| HeaderValue::from_str(priority).ok()) {
            request.headers_mut().insert("x-priority", priority);
        }
        let patience =
            Patience { whole: self.options.timeout, keep_text: ask.keep_text, conduct: ask.conduct };
        exchange(&self.connections, request, patience).await
    }

    fn request(&self, method: Method, path: &str, body: Vec<u8>) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(Bytes::from(body)));
        *request.method_mut() = method;
        // The prefix and the host were parsed as parts of a URI before.
        *request.uri_mut() = self.options.target.path(path).parse().unwrap_or_default();
        let headers = request.headers_mut();
        if let Ok(host) = HeaderValue::from_str(&self.options.target.authority) {
            headers.insert("host", host);
        }
        headers.insert("content-type", HeaderValue::from_static("application/json"));
        for (name, value) in &self.options.headers {
            headers.insert(name, value.clone());
        }
        request
    }

    /// A request whose answer is one JSON document.
    async fn json(&self, method: Method, path: &str, body: &Value) -> Result<(StatusCode, Vec<u8>), String> {
        let body = if method == Method::GET { Vec::new() } else { body.to_string().into_bytes() };
        let answering = async {
            let answer = self.connections.send(self.request(method, path, body), Buffers::Usual).await?;
            let status = answer.response.status();
            let body = Limited::new(answer.response.into_body(), MAX_BODY).collect().await;
            Ok((status, body.map_err(|error| error.to_string())?.to_bytes().to_vec()))
        };
        let waited = timeout(self.options.timeout, answering).await;
        waited.unwrap_or_else(|_| Err(format!("no answer within {} s", self.options.timeout.as_secs_f64())))
    }

    async fn choose_model(&self) -> Result<String, LoadError> {
        let url = self.url();
        let answer = self.json(Method::GET, "/v1/models", &Value::Null).await;
        let (status, body) = answer.map_err(|why| LoadError::Unreachable { url: url.clone(), why })?;
        let known = model_names(&body);
        match (&self.options.model, known.first()) {
            (Some(model), Some(_)) if !known.contains(model) => {
                Err(LoadError::UnknownModel { url, model: model.clone(), known: known.join(", ") })
            }
            (Some(model), _) => Ok(model.clone()),
            (None, Some(first)) => Ok(first.clone()),
            (None, None) => {
                let why = format!("GET /v1/models: {status} {}", openai::error_message(&body));
                Err(LoadError::NoModels { url, why })
            }
        }
    }

    /// Finds out the dialect, by leaving away what the server does not know, and then how it counts.
    async fn calibrate(&mut self) -> Result<(), LoadError> {
        let mut complaint = None;
        for (ignore_eos, usage) in [(true, true), (false, true), (true, false), (false, false)] {
            self.dialect = Dialect { ignore_eos, usage };
            let asked = self.probe(FEW).await;
            match asked.outcome {
                Outcome::Done => {
                    self.calibration = self.counted(&asked).await;
                    return Ok(());
                }
                // What a server does not know it calls a bad request.
                Outcome::Http { status: 400 | 422 } => {
                    complaint.get_or_insert_with(|| rejection(&asked));
                }
                _ => return Err(self.rejected(rejection(&asked))),
            }
        }
        Err(self.rejected(complaint.unwrap_or_default()))
    }

    fn rejected(&self, why: String) -> LoadError {
        LoadError::Rejected { url: format!("{}{}", self.url(), self.options.endpoint.path()), why }
    }

    async fn counted(&self, few: &Exchange) -> Calibration {
        if let Some(few) = prompt_tokens(few)
            && let Some(many) = prompt_tokens(&self.probe(MANY).await)
            && let Some(line) = Calibration::through((FEW, few), (MANY, many), CalibratedBy::Usage)
        {
            return line;
        }
        if let Some(few) = self.tokenized(FEW).await
            && let Some(many) = self.tokenized(MANY).await
            && let Some(line) = Calibration::through((FEW, few), (MANY, many), CalibratedBy::Tokenize)
        {
            return line;
        }
        Calibration::ASSUMED
    }

    async fn probe(&self, count: usize) -> Exchange {
        let messages = [Message { role: Role::User, content: words(count, PROBE_SEED) }];
        let conduct = Conduct::Ordinary;
        self.ask(&Ask { messages: &messages, max_tokens: 2, priority: None, keep_text: false, conduct }).await
    }

    /// Tokens of a prompt by `/tokenize`, in vLLM's dialect and in llama-server's.
    async fn tokenized(&self, count: usize) -> Option<u32> {
        let text = words(count, PROBE_SEED);
        for body in [json!({"model": self.model, "prompt": text}), json!({"content": text})] {
            if let Ok((StatusCode::OK, body)) = self.json(Method::POST, "/tokenize", &body).await
                && let Some(tokens) = token_count(&body)
            {
                return Some(tokens);
            }
        }
        None
    }
}

fn prompt_tokens(asked: &Exchange) -> Option<u32> {
    asked.usage.and_then(|usage| usage.prompt_tokens)
}

fn rejection(asked: &Exchange) -> String {
    let words = asked.message.as_deref().unwrap_or_default();
    match asked.outcome {
        Outcome::Http { status } => format!("{status} {words}"),
        Outcome::Refused { .. } => format!("429 {words}; it should be idle before a run"),
        Outcome::Expired => format!("504 {words}"),
        _ => words.to_owned(),
    }
}

fn model_names(body: &[u8]) -> Vec<String> {
    let list: Value = serde_json::from_slice(body).unwrap_or_default();
    let models = list["data"].as_array().into_iter().flatten();
    models.filter_map(|model| model["id"].as_str()).map(str::to_owned).collect()
}

fn token_count(body: &[u8]) -> Option<u32> {
    let answer: Value = serde_json::from_slice(body).ok()?;
    let counted =
        answer["count"].as_u64().or_else(|| answer["tokens"].as_array().map(|tokens| tokens.len() as u64));
    counted.and_then(|count| u32::try_from(count).ok())
}
