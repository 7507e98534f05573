//! What the server says when it is ready: what it chose, and a command that works.

use crate::compute::Compute;
use crate::config::units::Size;
use crate::load::Loaded;
use std::fmt;
use std::net::SocketAddr;

/// Where the server listens, with the ports it was given.
#[derive(Debug, Clone, Copy, serde::Serialize)]
pub struct Addresses {
    pub http: SocketAddr,
    pub admin: SocketAddr,
}

/// What was chosen.
pub struct Banner<'a> {
    pub compute: &'a Compute,
    pub models: &'a [Loaded],
    pub addresses: Addresses,
    /// Whether clients must send a key.
    pub keys: bool,
}

impl fmt::Display for Banner<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "plimsoll {}", env!("CARGO_PKG_VERSION"))?;
        writeln!(f, "  kernel   {}", self.compute.isa)?;
        writeln!(f, "  threads  {}", self.compute.threads)?;
        for model in self.models {
            writeln!(
                f,
                "  model    {}: {}, {} packed",
                model.name,
                model.title,
                Size(model.weight_bytes as u64)
            )?;
            writeln!(
                f,
                "           context {} tokens, {} sequences at a time, {} may wait",
                model.context, model.max_seqs, model.queue
            )?;
            writeln!(
                f,
                "           KV cache {}, room for {} tokens",
                Size(model.kv_bytes as u64),
                model.kv_tokens
            )?;
        }
        writeln!(f, "  API      http://{}", self.addresses.http)?;
        writeln!(f, "  metrics  http://{}/metrics", self.addresses.admin)?;
        if let Some(model) = self.models.first() {
            writeln!(f, "\nTry it:\n\n{}\n", self.curl(model))?;
        }
        write!(f, "ready; Ctrl-C lets running streams finish, a second one ends them")
    }
}

impl Banner<'_> {
    fn curl(&self, model: &Loaded) -> String {
        let key = if self.keys { " -H 'authorization: Bearer YOUR_KEY'" } else { "" };
        let (path, prompt) = if model.chat {
            ("chat/completions", r#""messages": [{"role": "user", "content": "Tell me about the sea."}]"#)
        } else {
            ("completions", r#""prompt": "The sea is""#)
        };
        format!(
            "  curl -sN http://{}/v1/{path} \\\n    -H 'content-type: application/json'{key} \\\n    -d '{{\"model\": \"{}\", \"stream\": true, \"max_tokens\": 100, {prompt}}}'",
            reachable(self.addresses.http),
            model.name,
        )
    }
}

/// An address that a client on this machine can use: not the one that stands for all.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        let loopback: std::net::IpAddr = if address.is_ipv4() {
            std::net::Ipv4Addr::LOCALHOST.into()
        } else {
            std::net::Ipv6Addr::LOCALHOST.into()
        };
        address.set_ip(loopback);
    }
    address
}
