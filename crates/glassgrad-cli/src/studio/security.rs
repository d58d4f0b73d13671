//! Authentication of requests, and the security headers of responses.
//!
//! A server on one's own machine is within reach of every page that the same browser shows. Three doors are kept:
//!
//! - the `Host` header must be an address or `localhost`, so that no foreign name that was bound to this machine
//!   (DNS rebinding) gets an answer;
//! - an `Origin`, which browsers send with what a page does, must be the studio's own;
//! - beyond this machine, a token is needed, which is printed with the address and then kept in a cookie.

use std::net::IpAddr;

use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use crate::failure::Failure;

/// The cookie that keeps the token.
const COOKIE: &str = "glassgrad-studio";

/// The headers of every response: the page runs only its own code, connects only to its own server, and cannot be framed.
const HEADERS: [(HeaderName, &str); 6] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];

/// The keeper of the doors.
#[derive(Clone)]
pub(super) struct Guard {
    is_local: bool,
    token: Option<String>,
}

impl Guard {
    /// The guard of a server at an address, with a new token if others can reach it.
    pub(super) fn new(host: IpAddr) -> Result<Guard, Failure> {
        let is_local = host.is_loopback();
        let token = if is_local { None } else { Some(new_token()?) };
        Ok(Guard { is_local, token })
    }

    /// The query of the printed address.
    pub(super) fn query(&self) -> String {
        self.token.as_ref().map_or(String::new(), |token| format!("?token={token}"))
    }

    /// Whether the address that is printed holds a token.
    pub(super) fn has_token(&self) -> bool {
        self.token.is_some()
    }

    /// Why a request is refused, if it is.
    fn refuses(&self, headers: &HeaderMap) -> Option<&'static str> {
        let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or_default());
        let Some(host) = text(header::HOST) else { return Some("the request names no host") };
        if !self.is_own(host) {
            return Some("the request is for another host; ask for the address that was printed");
        }
        let own = |origin: &str| ["http://", "https://"].iter().any(|scheme| origin.strip_prefix(scheme) == Some(host));
        if text(header::ORIGIN).is_some_and(|origin| !own(origin)) {
            return Some("the request comes from another page");
        }
        None
    }

    /// Whether a `Host` is an address, or the name of the machine itself.
    fn is_own(&self, host: &str) -> bool {
        let Some(authority) = host.parse::<Authority>().ok().filter(|_| !host.contains('@')) else { return false };
        let name = authority.host().trim_start_matches('[').trim_end_matches(']');
        let reaches = |address: IpAddr| address.is_loopback() || !self.is_local;
        name.eq_ignore_ascii_case("localhost") || name.parse().is_ok_and(reaches)
    }

    /// Whether a request carries the token, where one is needed.
    fn is_known(&self, headers: &HeaderMap) -> bool {
        let Some(token) = &self.token else { return true };
        let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let bearer = text(header::AUTHORIZATION).strip_prefix("Bearer ");
        let cookie =
            text(header::COOKIE).split(';').find_map(|pair| pair.trim().strip_prefix(COOKIE)?.strip_prefix('='));
        bearer.into_iter().chain(cookie).any(|given| is_same(given, token))
    }
}

/// Constant-time comparison.
fn is_same(one: &str, other: &str) -> bool {
    one.len() == other.len() && one.bytes().zip(other.bytes()).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}

fn new_token() -> Result<String, Failure> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes)
        .map_err(|error| Failure::Result(format!("there is no randomness for a token: {error}")))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Middleware: passes or refuses a request, and sets the security headers of every response.
pub(super) async fn guarded(State(guard): State<Guard>, request: Request, next: Next) -> Response {
    let mut response = if let Some(reason) = guard.refuses(request.headers()) {
        (StatusCode::FORBIDDEN, format!("{reason}\n")).into_response()
    } else if guard.is_known(request.headers()) {
        next.run(request).await
    } else {
        authenticate(&guard, &request)
    };
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// The response to a client without a cookie: one that brings the token gets a cookie and is redirected.
fn authenticate(guard: &Guard, request: &Request) -> Response {
    let given = request.uri().query().and_then(|query| query.split('&').find_map(|pair| pair.strip_prefix("token=")));
    match (&guard.token, given) {
        (Some(token), Some(given)) if is_same(given, token) => {
            let cookie = format!("{COOKIE}={token}; HttpOnly; SameSite=Strict; Path=/");
            // A page of another origin, such as the file that this program opens, leads here: the cookie is sent along only
            // when the studio's own page is the one that leads on.
            if request.headers().get("sec-fetch-site").is_some_and(|site| site == "cross-site") {
                let refresh = HeaderName::from_static("refresh");
                return ([(refresh, "0; url=/".to_owned()), (header::SET_COOKIE, cookie)], "the studio opens\n")
                    .into_response();
            }
            (StatusCode::SEE_OTHER, [(header::LOCATION, "/".to_owned()), (header::SET_COOKIE, cookie)]).into_response()
        }
        _ => {
            let help = "a token is needed: open the address that was printed, or send it as Authorization: Bearer\n";
            (StatusCode::UNAUTHORIZED, help).into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(pairs: &[(HeaderName, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.clone(), HeaderValue::from_str(value).expect("a header"))).collect()
    }

    fn refused(guard: &Guard, pairs: &[(HeaderName, &str)]) -> bool {
        guard.refuses(&asked(pairs)).is_some()
    }

    #[test]
    fn only_addresses_and_the_machine_itself_are_hosts() {
        let local = Guard::new(IpAddr::from([127, 0, 0, 1])).expect("a guard");
        for host in ["127.0.0.1:7777", "localhost:7777", "localhost", "[::1]:80", "LOCALHOST:1"] {
            assert!(!refused(&local, &[(header::HOST, host)]), "{host}");
        }
        for host in
            ["evil.example:7777", "127.0.0.1.evil.example", "localhost.evil", "192.168.0.5:7777", "a@127.0.0.1", ""]
        {
            assert!(refused(&local, &[(header::HOST, host)]), "{host}");
        }
        assert!(refused(&local, &[]), "a request without a host");
        let open = Guard::new(IpAddr::from([0, 0, 0, 0])).expect("a guard");
        assert!(!refused(&open, &[(header::HOST, "192.168.0.5:7777")]));
        assert!(refused(&open, &[(header::HOST, "evil.example:7777")]));
    }

    #[test]
    fn other_pages_are_refused() {
        let local = Guard::new(IpAddr::from([127, 0, 0, 1])).expect("a guard");
        let from = |origin: &str| refused(&local, &[(header::HOST, "localhost:7777"), (header::ORIGIN, origin)]);
        assert!(!from("http://localhost:7777"));
        for origin in
            ["null", "http://evil.example", "http://localhost:8000", "http://127.0.0.1:7777", "localhost:7777"]
        {
            assert!(from(origin), "{origin}");
        }
    }

    #[test]
    fn beyond_this_machine_a_token_is_needed() {
        let open = Guard::new(IpAddr::from([0, 0, 0, 0])).expect("a guard");
        let token = open.token.clone().expect("a token");
        assert_eq!(token.len(), 32);
        assert_ne!(Guard::new(IpAddr::from([0, 0, 0, 0])).expect("a guard").token, Some(token.clone()));
        let known = |pair: (HeaderName, &str)| open.is_known(&asked(&[pair]));
        assert!(known((header::AUTHORIZATION, &format!("Bearer {token}"))));
        assert!(known((header::COOKIE, &format!("other=1; {COOKIE}={token}"))));
        assert!(!known((header::AUTHORIZATION, "Bearer ")));
        assert!(!known((header::COOKIE, &format!("{COOKIE}={}", "0".repeat(32)))));
        assert!(!open.is_known(&HeaderMap::new()));
    }
}
