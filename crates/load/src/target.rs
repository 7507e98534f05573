//! The server under load: where it is.

use crate::error::LoadError;

/// An address, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// `host:port`, as the `host` header has it.
    pub authority: String,
    /// What stands before `/v1`, without a slash at its end.
    pub prefix: String,
}

impl Target {
    /// Reads `http://HOST:PORT`, also without the scheme, with a path, or with the `/v1` that OpenAI clients want.
    ///
    /// # Errors
    /// What is no such address; `https`, which is not spoken here.
    pub fn parse(url: &str) -> Result<Self, LoadError> {
        let wrong = |why: &str| LoadError::Url { url: url.to_owned(), why: why.to_owned() };
        let rest = match url.split_once("://") {
            Some(("http", rest)) => rest,
            Some(("https", _)) => {
                return Err(wrong("TLS is not spoken here, since it would be measured too"));
            }
            Some((scheme, _)) => return Err(wrong(&format!("`{scheme}` is no scheme it could speak"))),
            None => url,
        };
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let uri: hyper::Uri =
            format!("http://{authority}/").parse().map_err(|_| wrong("host or port make no sense"))?;
        let host =
            uri.host().filter(|host| !host.is_empty()).ok_or_else(|| wrong("there is no host in it"))?;
        let port = match authority.strip_prefix(host).map(|port| port.strip_prefix(':').unwrap_or(port)) {
            Some("") => 80,
            Some(port) => port.parse::<u16>().map_err(|_| wrong("the port is no number up to 65535"))?,
            None => return Err(wrong("only a host may stand before the port")),
        };
        if path.contains(['?', '#', ' ']) {
            return Err(wrong("only a path may follow the port"));
        }
        let path = path.trim_end_matches('/');
        let path =
            path.strip_suffix("v1").filter(|path| path.is_empty() || path.ends_with('/')).unwrap_or(path);
        let path = path.trim_matches('/');
        let prefix = if path.is_empty() { String::new() } else { format!("/{path}") };
        Ok(Self { authority: format!("{host}:{port}"), prefix })
    }

    /// The address for people.
    pub fn url(&self) -> String {
        format!("http://{}{}", self.authority, self.prefix)
    }

    /// The path of a request: `/v1/models` behind the prefix.
    pub fn path(&self, path: &str) -> String {
        format!("{}{path}", self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let cases = [
            ("http://localhost:8000", "http://localhost:8000"),
            ("localhost:8000", "http://localhost:8000"),
            ("http://[::1]:8000/", "http://[::1]:8000"),
            ("http://host", "http://host:80"),
            ("http://host:1/v1", "http://host:1"),
            ("http://host:1/v1/", "http://host:1"),
            ("http://host:1/a/b/v1", "http://host:1/a/b"),
            ("http://host:1/arv1", "http://host:1/arv1"),
        ];
        for (url, wanted) in cases {
            assert_eq!(Target::parse(url).unwrap().url(), wanted, "{url}");
        }
    }

    #[test]
    fn what_is_none() {
        for (url, says) in [
            ("https://h:1", "TLS"),
            ("ftp://h", "ftp"),
            ("http://", "host"),
            ("h:1/v1?x", "path"),
            ("h:99999", "port"),
        ] {
            let error = Target::parse(url).unwrap_err().to_string();
            assert!(error.contains(says), "{url}: {error}");
        }
    }
}
