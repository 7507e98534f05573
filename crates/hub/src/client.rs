//! The one HTTP client: every wait bounded, every redirect looked at before it is followed, a token sent to its own
//! origin only.

use crate::config::{HubConfig, Limits, Token};
use crate::error::HubError;
use crate::url;
use std::path::Path;
use std::sync::Arc;
use ureq::Agent;
use ureq::http::{HeaderMap, Response, StatusCode, header};
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};

/// Bytes of a JSON answer.
const JSON_LIMIT: u64 = 32 << 20;

/// What is asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ask<'a> {
    pub url: &'a str,
    pub token: Option<&'a Token>,
    /// `(first byte, ETag it must still have)`
    pub resume: Option<(u64, &'a str)>,
}

/// An answer, and where it came from.
#[derive(Debug)]
pub(crate) struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: ureq::Body,
}

#[derive(Debug)]
pub(crate) struct Client {
    agent: Agent,
    /// The configured Hugging Face origin: somebody chose it, so it may be plain http.
    chosen: Option<String>,
    limits: Limits,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Hops {
    All,
    /// A redirect to another origin is the answer: it carries the headers that describe the file.
    SameOrigin,
}

impl Client {
    pub(crate) fn new(config: &HubConfig) -> Result<Self, HubError> {
        let limits = config.limits.clone();
        let mut builder = Agent::config_builder()
            .max_redirects(0)
            .max_redirects_will_error(false)
            .http_status_as_error(false)
            .user_agent(concat!("plimsoll/", env!("CARGO_PKG_VERSION")))
            .timeout_resolve(Some(limits.connect))
            .timeout_connect(Some(limits.connect))
            .timeout_recv_response(Some(limits.idle))
            .timeout_per_read(Some(limits.idle))
            .timeout_per_write(Some(limits.idle));
        if let Some(path) = &config.ca_file {
            builder = builder.tls_config(TlsConfig::builder().root_certs(roots(path)?).build());
        }
        Ok(Self { agent: builder.build().new_agent(), chosen: url::origin(&config.hf.endpoint), limits })
    }

    /// Asks for a file, following redirects.
    pub(crate) fn get(&self, ask: &Ask<'_>) -> Result<Answer, HubError> {
        self.follow(ask, false, Hops::All)
    }

    /// Asks about a file. A redirect to another origin is not followed: the origin's own headers are wanted.
    pub(crate) fn head(&self, ask: &Ask<'_>) -> Result<Answer, HubError> {
        self.again(ask.url, || self.follow(ask, true, Hops::SameOrigin))
    }

    /// Asks for a small text.
    pub(crate) fn text(&self, ask: &Ask<'_>) -> Result<(StatusCode, HeaderMap, String), HubError> {
        self.again(ask.url, || {
            let Answer { status, headers, mut body, .. } = self.follow(ask, false, Hops::All)?;
            let text = body
                .with_config()
                .limit(JSON_LIMIT)
                .lossy_utf8(true)
                .read_to_string()
                .map_err(unreachable(ask.url))?;
            Ok((status, headers, text))
        })
    }

    /// Tries again what may be a passing failure.
    fn again<T>(&self, url: &str, mut attempt: impl FnMut() -> Result<T, HubError>) -> Result<T, HubError> {
        let mut tries = 1;
        loop {
            match attempt() {
                Err(HubError::Unreachable { .. }) if tries <= self.limits.retries => {}
                Err(HubError::Unreachable { source, .. }) => {
                    return Err(HubError::Unreachable { url: url::without_query(url).into(), tries, source });
                }
                done => return done,
            }
            self.limits.pause(tries);
            tries += 1;
        }
    }

    fn follow(&self, ask: &Ask<'_>, head: bool, hops: Hops) -> Result<Answer, HubError> {
        let mut at = ask.url.to_owned();
        for _ in 0..=self.limits.redirects {
            self.check(&at)?;
            let token = ask.token.filter(|_| url::origin(&at) == url::origin(ask.url));
            let response = self.once(&Ask { url: &at, token, resume: ask.resume }, head)?;
            let next = redirect(&at, &response)?;
            match next {
                Some(next) if hops == Hops::All || url::origin(&next) == url::origin(&at) => at = next,
                _ => {
                    let (parts, body) = response.into_parts();
                    return Ok(Answer { status: parts.status, headers: parts.headers, body });
                }
            }
        }
        Err(answer(ask.url, format!("more than {} redirects", self.limits.redirects)))
    }

    fn check(&self, at: &str) -> Result<(), HubError> {
        if self.chosen.is_some() && url::origin(at) == self.chosen {
            return Ok(());
        }
        url::check(at).map_err(|problem| answer(at, problem))
    }

    fn once(&self, ask: &Ask<'_>, head: bool) -> Result<Response<ureq::Body>, HubError> {
        let request = if head { self.agent.head(ask.url) } else { self.agent.get(ask.url) };
        // What is compressed on the way has no stable byte positions to resume at.
        let mut request = request.header(header::ACCEPT_ENCODING, "identity");
        if let Some(Token(token)) = ask.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        if let Some((from, etag)) = ask.resume {
            request = request.header(header::RANGE, format!("bytes={from}-")).header(header::IF_RANGE, etag);
        }
        if ask.url.starts_with("http://") && url::check(ask.url).is_ok() {
            // A proxy cannot reach this machine's loopback.
            request = request.config().proxy(None).build();
        }
        request.call().map_err(unreachable(ask.url))
    }
}

impl Limits {
    /// Waits before the try that follows the `tries`-th.
    pub(crate) fn pause(&self, tries: u32) {
        let most = std::time::Duration::from_secs(30);
        std::thread::sleep(self.backoff.saturating_mul(1 << tries.saturating_sub(1).min(10)).min(most));
    }
}

fn redirect(at: &str, response: &Response<ureq::Body>) -> Result<Option<String>, HubError> {
    if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return Ok(None);
    }
    let location = response.headers().get(header::LOCATION).and_then(|value| value.to_str().ok());
    location
        .and_then(|location| url::join(at, location))
        .map(Some)
        .ok_or_else(|| answer(at, "a redirect to nowhere".into()))
}

/// Whether a server's refusal may pass by itself.
pub(crate) fn is_passing(status: StatusCode) -> bool {
    status.is_server_error() || matches!(status.as_u16(), 408 | 429)
}

pub(crate) fn answer(url: &str, problem: String) -> HubError {
    HubError::Answer { url: url::without_query(url).into(), problem }
}

pub(crate) fn unreachable(url: &str) -> impl Fn(ureq::Error) -> HubError {
    move |source| HubError::Unreachable {
        url: url::without_query(url).into(),
        tries: 1,
        source: Box::new(source),
    }
}

fn roots(path: &Path) -> Result<RootCerts, HubError> {
    let bytes = std::fs::read(path).map_err(HubError::io("read certificates", path))?;
    let certs: Vec<_> = parse_pem(&bytes)
        .filter_map(|item| match item {
            Ok(PemItem::Certificate(cert)) => Some(cert),
            _ => None,
        })
        .collect();
    Ok(RootCerts::Specific(Arc::new(certs)))
}
