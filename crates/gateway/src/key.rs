//! API keys.

use serde::Deserialize;
use std::fmt;
use subtle::ConstantTimeEq;

/// A key that opens the API. It never shows in debug output.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct ApiKey(String);

impl ApiKey {
    /// Whether a client could send it: visible ASCII, and not nothing.
    pub fn is_sendable(&self) -> bool {
        !self.0.is_empty() && self.0.bytes().all(|byte| byte.is_ascii_graphic())
    }

    /// Whether it is what a client sent. How long this takes tells nothing but its length.
    pub(crate) fn is(&self, sent: &[u8]) -> bool {
        self.0.as_bytes().ct_eq(sent).into()
    }
}

impl From<&str> for ApiKey {
    fn from(key: &str) -> Self {
        Self(key.to_owned())
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::ApiKey;

    #[test]
    fn a_key_is_never_shown() {
        let config = crate::GatewayConfig { api_keys: vec!["sk-secret".into()], ..Default::default() };
        assert!(!format!("{config:?} {:?}", ApiKey::from("sk-secret")).contains("secret"));
    }
}
