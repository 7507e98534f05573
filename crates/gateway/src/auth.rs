//! API keys. A key is a tenant.

use crate::app::App;
use crate::key::ApiKey;
use crate::refusal::Refusal;
use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use plimsoll_api::error::{Error, Reason};
use std::sync::Arc;

/// What probes ask, and who has no key may ask too.
const OPEN: [&str; 3] = ["/health", "/ping", "/version"];

/// Who asks: the index of the API key, 0 without keys.
#[derive(Debug, Clone, Copy)]
pub struct Tenant(pub u32);

/// Finds the tenant, or refuses.
pub async fn authorize(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response {
    let keys = &app.config.api_keys;
    let open = keys.is_empty() || OPEN.contains(&request.uri().path());
    match if open { Some(0) } else { tenant(keys, request.headers()) } {
        Some(tenant) => {
            request.extensions_mut().insert(Tenant(tenant));
            next.run(request).await
        }
        None => {
            let message = "the API key is missing or unknown; send it as `authorization: Bearer KEY`";
            Refusal(Error::new(Reason::Unauthorized, message)).into_response()
        }
    }
}

fn tenant(keys: &[ApiKey], headers: &HeaderMap) -> Option<u32> {
    let header = headers.get(AUTHORIZATION)?.as_bytes();
    let (scheme, key) = header.split_at_checked("Bearer ".len())?;
    if !scheme.eq_ignore_ascii_case(b"Bearer ") {
        return None;
    }
    let key = key.trim_ascii();
    let mut found = None;
    // Every key is compared, in constant time each: how long this takes tells nothing but a key's length.
    for (index, known) in (0..).zip(keys) {
        if known.is(key) {
            found = Some(index);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::tenant;
    use axum::http::{HeaderMap, HeaderValue, header::AUTHORIZATION};

    #[test]
    fn a_key_is_a_tenant() {
        let keys = ["first".into(), "second".into()];
        for (header, expected) in [
            ("Bearer first", Some(0)),
            ("bearer second", Some(1)),
            ("Bearer  second ", Some(1)),
            ("Bearer secon", None),
            ("Bearer ", None),
            ("Basic first", None),
            ("first", None),
            ("", None),
        ] {
            let headers = HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_static(header))]);
            assert_eq!(tenant(&keys, &headers), expected, "{header}");
        }
        assert_eq!(tenant(&keys, &HeaderMap::new()), None);
    }
}
