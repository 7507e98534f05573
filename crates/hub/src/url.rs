//! The little of URLs that a downloader needs: where one leads, whether we may go there, what the file is called.

use ureq::http::Uri;

/// `scheme://host:port`, lower case, with the port spelled out.
pub(crate) fn origin(url: &str) -> Option<String> {
    let uri: Uri = url.parse().ok()?;
    let scheme = uri.scheme_str()?;
    let port = uri.port_u16().or(match scheme {
        "https" => Some(443),
        "http" => Some(80),
        _ => None,
    })?;
    Some(format!("{scheme}://{}:{port}", uri.host()?.to_ascii_lowercase()))
}

/// Whether a URL may be followed: https, or http that stays on this machine.
pub(crate) fn check(url: &str) -> Result<(), String> {
    let uri: Uri = url.parse().map_err(|_| "it is no URL".to_owned())?;
    let authority = uri.authority().ok_or("it names no host")?;
    if authority.as_str().contains('@') {
        return Err("it holds a name or password; use a link without".into());
    }
    match uri.scheme_str() {
        Some("https") => Ok(()),
        Some("http") if is_loopback(authority.host()) => Ok(()),
        Some("http") => Err("http:// is only followed to this machine; use https://".into()),
        _ => Err("only https:// is followed".into()),
    }
}

fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
    host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}

/// Where a `Location` header leads, seen from `base`.
pub(crate) fn join(base: &str, location: &str) -> Option<String> {
    if location.contains("://") && !location.starts_with('/') {
        return Some(location.to_owned());
    }
    let uri: Uri = base.parse().ok()?;
    let (scheme, authority) = (uri.scheme_str()?, uri.authority()?);
    if let Some(rest) = location.strip_prefix("//") {
        return Some(format!("{scheme}://{rest}"));
    }
    let folder = uri.path().rsplit_once('/').map_or("", |(folder, _)| folder);
    let path = if location.starts_with('/') { location.to_owned() } else { format!("{folder}/{location}") };
    Some(format!("{scheme}://{authority}{path}"))
}

/// Without query and fragment, which may hold a secret: for messages.
pub(crate) fn without_query(url: &str) -> &str {
    url.split(['?', '#']).next().unwrap_or_default()
}

/// A name to keep the file under: the last segment of the path, if it is a harmless one.
pub(crate) fn file_name(url: &str) -> Option<String> {
    let uri: Uri = url.parse().ok()?;
    let last = uri.path().rsplit('/').next()?.to_owned();
    let name: String = last
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' })
        .take(128)
        .collect();
    (!name.trim_matches('.').is_empty()).then_some(name)
}

/// Percent-encodes a path, leaving its slashes.
pub(crate) fn encode_path(path: &str) -> String {
    use std::fmt::Write;
    path.bytes().fold(String::with_capacity(path.len()), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            out.push(byte.into());
        } else {
            // Writing to a string cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_are_joined() {
        for (location, expected) in [
            ("https://cdn.example/y?s=1", "https://cdn.example/y?s=1"),
            ("//cdn.example/y", "https://cdn.example/y"),
            ("/y?z=https://q", "https://a.example:8443/y?z=https://q"),
            ("y", "https://a.example:8443/b/y"),
        ] {
            assert_eq!(
                join("https://a.example:8443/b/x?q", location).as_deref(),
                Some(expected),
                "{location}"
            );
        }
    }

    #[test]
    fn names_and_paths_are_made_harmless() {
        for (url, expected) in [
            ("https://a/b/x.gguf?q=/y", Some("x.gguf")),
            ("https://a/b/", None),
            ("https://a/..", None),
            ("https://a/%2e%2e%2fx", Some("_2e_2e_2fx")),
        ] {
            assert_eq!(file_name(url).as_deref(), expected, "{url}");
        }
        assert_eq!(encode_path("a b/ä#?.json"), "a%20b/%C3%A4%23%3F.json");
    }

    #[test]
    fn origins_spell_out_the_port() {
        assert_eq!(origin("https://A.example/x"), origin("https://a.example:443"));
        assert_ne!(origin("http://a.example"), origin("https://a.example"));
    }
}
