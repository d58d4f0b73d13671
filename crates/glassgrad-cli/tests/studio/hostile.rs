//! Requests that should not be answered, and that the server stays well.

use serde_json::json;

use crate::server::Studio;

fn is_well(studio: &Studio) {
    let got = studio.ask("/api/explore", &json!({ "expression": "x^2", "at": { "x": 3 } }));
    assert_eq!(got["gradient"][0]["value"], 6.0);
}

#[test]
fn other_hosts_and_other_pages_are_refused() {
    let studio = Studio::start(&[]);
    let question = r#"{"expression":"x"}"#;
    let status = |headers: &[(&str, &str)]| studio.request("POST", "/api/explore", headers, question).status;
    assert_eq!(status(&[]), 200);
    assert_eq!(status(&[("Host", "evil.example")]), 403);
    assert_eq!(status(&[("Host", "127.0.0.1.evil.example:7777")]), 403);
    assert_eq!(status(&[("Origin", "http://evil.example")]), 403);
    assert_eq!(status(&[("Origin", "null")]), 403);
    assert_eq!(status(&[("Origin", &format!("http://{}", studio.host))]), 200);
    // A form of another page can send text, but no JSON.
    assert_eq!(status(&[("Content-Type", "text/plain")]), 415);
    assert!(studio.send(b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n").starts_with("HTTP/1.1 4"), "no host");
    for path in ["/", "/api/gallery", "/nothing"] {
        let answer = studio.request("GET", path, &[], "");
        assert!(
            answer.head.contains("content-security-policy: default-src 'none'; script-src 'self'"),
            "{}",
            answer.head
        );
        assert!(answer.head.contains("x-content-type-options: nosniff"), "{}", answer.head);
        assert!(!answer.head.contains("access-control-allow-origin"), "{}", answer.head);
    }
    assert_eq!(studio.request("GET", "/", &[("Host", "evil.example")], "").status, 403);
}

#[test]
fn beyond_this_machine_a_token_is_needed() {
    let studio = Studio::start(&["--host", "0.0.0.0"]);
    let token = studio.token.clone().expect("a token is printed");
    let question = r#"{"expression":"x"}"#;
    let status = |headers: &[(&str, &str)]| studio.request("POST", "/api/explore", headers, question).status;
    assert_eq!(status(&[]), 401);
    assert_eq!(status(&[("Authorization", "Bearer 00000000000000000000000000000000")]), 401);
    assert_eq!(status(&[("Authorization", &format!("Bearer {token}"))]), 200);
    assert_eq!(studio.request("GET", "/", &[], "").status, 401);
    assert_eq!(studio.request("GET", "/?token=wrong", &[], "").status, 401);
    let welcomed = studio.request("GET", &format!("/?token={token}"), &[], "");
    assert_eq!(welcomed.status, 303);
    assert!(welcomed.head.contains("httponly; samesite=strict"), "{}", welcomed.head);
    assert_eq!(studio.request("GET", "/", &[("Cookie", &format!("glassgrad-studio={token}"))], "").status, 200);
    assert_eq!(Studio::start(&[]).token, None, "on this machine alone none is needed");
}

#[test]
fn requests_that_are_no_questions_get_an_error() {
    let studio = Studio::start(&[]);
    let status = |body: &str| studio.request("POST", "/api/explore", &[], body).status;
    assert_eq!(status("{"), 400);
    assert_eq!(status("[]"), 422);
    assert_eq!(status("{}"), 422);
    assert_eq!(status(r#"{"expression":"x","spell":1}"#), 422);
    assert_eq!(status(r#"{"expression":"x","output":-1}"#), 422);
    assert_eq!(status(r#"{"expression":"x","at":{"x":1e999}}"#), 400);
    assert_eq!(status(&format!(r#"{{"expression":"{}"}}"#, "x".repeat(100_000))), 413);
    assert_eq!(status(&"[".repeat(60_000)), 422);
    assert_eq!(studio.request("GET", "/api/explore", &[], "").status, 405);
    assert_eq!(studio.request("POST", "/", &[], "").status, 405);
    for path in ["/../Cargo.toml", "/%2e%2e/Cargo.toml", "/js/../../Cargo.toml", "/etc/passwd"] {
        assert_eq!(studio.request("GET", path, &[], "").status, 404, "{path}");
    }
    is_well(&studio);
}

#[test]
fn expressions_that_are_too_much_get_an_error() {
    let studio = Studio::start(&[]);
    let long = ["x+".repeat(2100), "(".repeat(4000), "-".repeat(4000), "sin(".repeat(1000), "x^".repeat(2000)];
    let wide = format!("{}1", "sin(x)+x*".repeat(400));
    // A tower of squares, whose derivatives would fill any memory when written out.
    let tower: String = (1..60).map(|k| format!("a{k} = a{0}*a{0} + sin(a{0}); ", k - 1)).collect();
    for text in long.iter().chain([&wide]) {
        let got = studio.ask("/api/explore", &json!({ "expression": text }));
        assert!(got["error"]["message"].is_string(), "{text}: {got}");
        let got = studio.ask("/api/derive", &json!({ "expression": text, "wrt": "x", "sizes": "x: n" }));
        assert!(got["error"]["message"].is_string(), "{text}: {got}");
    }
    for path in ["/api/explore", "/api/compare"] {
        let body = json!({ "expression": format!("{tower}a59"), "order": 20, "at": { "a0": 0.001 } }).to_string();
        let answer = studio.request("POST", path, &[], &body);
        assert!([200, 503].contains(&answer.status), "{path}: {}", answer.status);
    }
    let huge = json!({ "expression": "norm2(x*x')^2", "wrt": "x", "sizes": "x: n, n=100000000" });
    assert!(studio.ask("/api/derive", &huge)["error"]["message"].is_string());
    let order = json!({ "expression": "x", "order": 1_000_000 });
    assert!(studio.ask("/api/explore", &order)["error"]["message"].is_string());
    is_well(&studio);
}

#[test]
fn broken_connections_leave_it_well() {
    let studio = Studio::start(&[]);
    for bytes in [&b"\0\xff\xfe garbage \r\n\r\n"[..], b"GET", b"POST /api/explore HTTP/9.9\r\n\r\n"] {
        use std::io::Write as _;
        let mut stream = std::net::TcpStream::connect(&studio.host).expect("it listens");
        let _ = stream.write_all(bytes);
    }
    let idle: Vec<_> = (0..50).map(|_| std::net::TcpStream::connect(&studio.host).expect("it listens")).collect();
    is_well(&studio);
    drop(idle);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| is_well(&studio));
        }
    });
}
