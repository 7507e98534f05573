//! Every limit of the gateway.

use crate::key::ApiKey;
use axum::http::HeaderValue;
use std::time::Duration;

/// What the gateway allows and who may use it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatewayConfig {
    /// The keys that open `/v1`, `/tokenize` and `/detokenize`; each is a tenant. Without any, everybody may. Default: none.
    pub api_keys: Vec<ApiKey>,
    /// Origins whose pages may call the API from a browser; `*` is any. Default: none, and no CORS headers.
    pub cors_origins: Vec<String>,
    /// Largest body, in bytes. Default: 8 MiB.
    pub body_limit: usize,
    /// Most bytes of all bodies being read at once; what is more is refused as a full queue. At least `body_limit`.
    /// Default: 256 MiB.
    pub body_memory: usize,
    /// Longest wait for a body, from its headers to its last byte. Default: 30 s.
    pub body_timeout: Duration,
    /// Longest wait for a request's headers; also how long an idle connection is kept. Default: 30 s.
    pub header_timeout: Duration,
    /// Longest time that a client may leave an answer unread, while the kernel's buffers are full; then the connection is
    /// cut and its request cancelled. Default: 60 s.
    pub stall_timeout: Duration,
    /// Largest head of a request, and most bytes of an answer held back for a slow reader, per connection. At least
    /// 8 KiB. Default: 32 KiB.
    pub connection_buffer: usize,
    /// Most connections at once; more wait in the listener's backlog. Default: 4096.
    pub max_connections: usize,
    /// Send buffer of a connection in the kernel, in bytes: small, because what is in it hides that a reader is slow.
    /// Default: 16 KiB.
    pub send_buffer: usize,
    /// Most continuations of one request: prompts times `n`. Default: 128.
    pub max_choices: u32,
    /// How often a stream on which nothing happens gets a comment, so that proxies do not cut it. Default: 15 s; `None`: never.
    pub keep_alive: Option<Duration>,
    /// How long running requests may go on after the server was told to stop. Default: 30 s.
    pub drain_timeout: Duration,
}

impl Default for GatewayConfig {
    fn default() -> Self {
        Self {
            api_keys: Vec::new(),
            cors_origins: Vec::new(),
            body_limit: 8 << 20,
            body_memory: 256 << 20,
            body_timeout: Duration::from_secs(30),
            header_timeout: Duration::from_secs(30),
            stall_timeout: Duration::from_secs(60),
            connection_buffer: 32 << 10,
            max_connections: 4096,
            send_buffer: 16 << 10,
            max_choices: 128,
            keep_alive: Some(Duration::from_secs(15)),
            drain_timeout: Duration::from_secs(30),
        }
    }
}

/// A setting that cannot work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A key that no client could send.
    #[error("API key number {number} is empty or has characters other than visible ASCII")]
    ApiKey {
        /// Its place, from 1. The key itself stays out of logs.
        number: usize,
    },
    /// An origin that no browser would send.
    #[error("`{origin}` is no origin; write it as https://example.org, or * for any")]
    Origin {
        /// What was given.
        origin: String,
    },
    /// A limit that would refuse everything.
    #[error("`{name}` is {value}; it must be at least {least}")]
    TooSmall {
        /// Which limit.
        name: &'static str,
        /// What was given.
        value: usize,
        /// The least that works.
        least: usize,
    },
}

impl GatewayConfig {
    /// Refuses settings that cannot work.
    ///
    /// # Errors
    /// The first such setting.
    pub fn check(&self) -> Result<(), ConfigError> {
        if let Some(at) = self.api_keys.iter().position(|key| !key.is_sendable()) {
            return Err(ConfigError::ApiKey { number: at + 1 });
        }
        if let Some(origin) = self.cors_origins.iter().find(|origin| !is_origin(origin)) {
            return Err(ConfigError::Origin { origin: origin.clone() });
        }
        let limits = [
            ("body_limit", self.body_limit, 1),
            ("body_memory", self.body_memory, self.body_limit),
            ("connection_buffer", self.connection_buffer, 8 << 10),
            ("max_connections", self.max_connections, 1),
            ("max_choices", self.max_choices as usize, 1),
        ];
        match limits.into_iter().find(|&(_, value, least)| value < least) {
            Some((name, value, least)) => Err(ConfigError::TooSmall { name, value, least }),
            None => Ok(()),
        }
    }
}

fn is_origin(origin: &str) -> bool {
    let host = origin.split_once("://").map(|(_, host)| host);
    let named = host.is_some_and(|host| !host.is_empty() && !host.contains('/'));
    origin == "*" || (named && HeaderValue::from_str(origin).is_ok())
}

#[cfg(test)]
mod tests {
    use super::{ConfigError, GatewayConfig};

    #[test]
    fn refuses_what_cannot_work() {
        let good = GatewayConfig::default();
        assert_eq!(good.check(), Ok(()));
        let key = GatewayConfig { api_keys: vec!["a".into(), "b c".into()], ..good.clone() };
        assert_eq!(key.check(), Err(ConfigError::ApiKey { number: 2 }));
        for origin in ["example.org", "https://a.org/path", "", "https://"] {
            let config = GatewayConfig { cors_origins: vec![origin.into()], ..good.clone() };
            assert_eq!(config.check(), Err(ConfigError::Origin { origin: origin.into() }));
        }
        let small = GatewayConfig { connection_buffer: 100, ..good };
        assert!(matches!(small.check(), Err(ConfigError::TooSmall { name: "connection_buffer", .. })));
    }
}
