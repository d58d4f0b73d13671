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

/// A number of the memory of the server, in bytes.
#[cfg(target_os = "linux")]
fn memory(studio: &Studio, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", studio.process.id())).expect("a process");
    let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a line");
    line.split_whitespace().next().and_then(|number| number.parse::<u64>().ok()).expect("a number") * 1024
}

#[cfg(target_os = "linux")]
#[test]
fn tables_that_would_fill_the_memory_are_refused_before_they_do() {
    let studio = Studio::start(&[]);
    is_well(&studio);
    let before = memory(&studio, "VmHWM:");
    let distinct: String = (0..20_000).map(|k| format!("w{k:05},{}\n", k % 2)).collect();
    // Few words in a column, but many columns of them.
    let names: Vec<String> = (0..50).map(|k| format!("c{k}")).collect();
    let rows =
        (0..4_000).map(|row| (0..50).map(|k| format!("{k}w{}", (row * 7 + k) % 200)).collect::<Vec<_>>().join(","));
    let wide =
        format!("{},y\n{}", names.join(","), rows.map(|row| format!("{row},{}\n", row.len() % 2)).collect::<String>());
    let tables = [format!("word,y\n{distinct}"), wide];
    let studio = &studio;
    std::thread::scope(|scope| {
        for table in &tables {
            for _ in 0..3 {
                scope.spawn(move || {
                    let asked = json!({ "data": "words.csv", "csv": table, "paused": true });
                    let answer = studio.ask("/api/runs", &asked);
                    let message = answer["error"]["message"].as_str().unwrap_or_default();
                    assert!(message.contains("more than 4096 distinct words"), "{answer}");
                });
            }
        }
    });
    let taken = memory(studio, "VmHWM:") - before;
    assert!(taken < 100 << 20, "{} MB were taken", taken >> 20);
    is_well(studio);
}

#[cfg(target_os = "linux")]
#[test]
fn a_large_table_is_held_within_the_memory_of_all_runs() {
    let studio = Studio::start(&[]);
    // A table of 20,000 rows and 60 numbers takes about 40 MB while it is prepared.
    let row = vec!["1"; 60].join(",");
    let table: String = (0..20_000).map(|k| format!("{row},{}\n", k % 2)).collect();
    let asked = json!({ "data": "numbers.csv", "csv": table, "paused": true }).to_string();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let answer = studio.request("POST", "/api/runs", &[], &asked);
                assert!([200, 503].contains(&answer.status), "{}", answer.status);
            });
        }
    });
    let peak = memory(&studio, "VmHWM:");
    assert!(peak < 1 << 30, "{} MB", peak >> 20);
    // On a machine that is busy, what was cancelled may still hold the desks for a moment.
    let began = std::time::Instant::now();
    while studio.request("POST", "/api/explore", &[], r#"{"expression":"x"}"#).status != 200 {
        assert!(began.elapsed() < std::time::Duration::from_secs(60), "it does not answer any more");
    }
    is_well(&studio);
}

#[test]
fn slow_connections_do_not_keep_others_out() {
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;
    use std::time::{Duration, Instant};
    let studio = Studio::start(&["--header-timeout", "3", "--request-timeout", "2"]);
    let open = |first: &[u8]| {
        let mut stream = TcpStream::connect(&studio.host).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a limit");
        let _ = stream.write_all(first);
        stream
    };
    // More than there are places for one address.
    let mut slow: Vec<TcpStream> = (0..300).map(|_| open(b"GET / HTTP/1.1\r\nHost: ")).collect();
    let began = Instant::now();
    for _ in 0..5 {
        is_well(&studio);
        // A byte now and then does not move the deadline.
        slow.iter_mut().for_each(|stream| drop(stream.write_all(b"x")));
    }
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    // The last one was not evicted; its head is overdue after three seconds, however many bytes come.
    let mut last = slow.pop().expect("a stream");
    last.set_read_timeout(Some(Duration::from_millis(50))).expect("a limit");
    let mut is_closed = || match last.read(&mut [0; 64]) {
        Ok(count) => count == 0,
        Err(error) => !matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut),
    };
    while !is_closed() {
        assert!(began.elapsed() < Duration::from_secs(15), "it is still open");
        slow.iter_mut().for_each(|stream| drop(stream.write_all(b"x")));
    }
    // A body that does not come is answered after the limit of the request.
    let head = format!(
        "POST /api/explore HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{{",
        studio.host
    );
    let mut body = open(head.as_bytes());
    let asked = Instant::now();
    let mut answer = [0; 12];
    body.read_exact(&mut answer).expect("an answer");
    assert_eq!(&answer, b"HTTP/1.1 408");
    assert!((Duration::from_secs(1)..Duration::from_secs(8)).contains(&asked.elapsed()), "{:?}", asked.elapsed());
    is_well(&studio);
}

#[test]
fn numbers_out_of_range_are_refused_and_no_run_is_lost() {
    use std::time::{Duration, Instant};
    let studio = Studio::start(&[]);
    let catalogue = studio.request("GET", "/api/train", &[], "").json();
    let fields = catalogue["fields"].as_array().expect("fields");
    for (name, value) in [
        ("lr", json!(1e308)),
        ("lr", json!(-1)),
        ("lr", json!(0)),
        ("momentum", json!(1)),
        ("weight_decay", json!(1e308)),
        ("clip", json!(-1)),
        ("dropout", json!(1)),
        ("lr_end", json!(0)),
        ("noise", json!(1e308)),
        ("test", json!(1)),
        ("test", json!(-3)),
        ("epochs", json!(0)),
        ("points", json!(1_000_000)),
        ("warmup", json!(u64::MAX)),
        ("context", json!(u64::MAX)),
        ("heads", json!(u64::MAX)),
        ("fan_in", json!(u64::MAX)),
        ("layers", json!([u64::MAX, u64::MAX])),
    ] {
        // Settings are called by the titles of the form.
        let field = fields.iter().find(|field| field["name"] == name);
        let title = field.and_then(|field| field["title"].as_str()).unwrap_or(name).to_lowercase();
        let asked = json!({ "data": "moons", "options": { name: value }, "paused": true });
        let answer = studio.ask("/api/runs", &asked);
        assert!(
            answer["error"]["message"].as_str().is_some_and(|text| text.to_lowercase().contains(&title)),
            "{name}: {answer}"
        );
    }
    for pace in [json!(0), json!(-1), json!(1e300)] {
        let answer = studio.ask("/api/runs", &json!({ "data": "moons", "pace": pace, "paused": true }));
        assert!(answer["error"]["message"].as_str().is_some_and(|text| text.starts_with("pace: ")), "{answer}");
    }
    let run = studio.ask("/api/runs", &json!({ "data": "moons", "options": { "epochs": 1000 }, "paused": true }))["id"]
        .clone();
    let tell = |order: serde_json::Value| studio.ask(&format!("/api/runs/{run}/command"), &order);
    for rate in [json!(1e308), json!(-1)] {
        let answer = tell(json!({ "do": "rate", "rate": rate }));
        assert!(answer["error"]["message"].as_str().is_some_and(|text| text.starts_with("rate: ")), "{answer}");
    }
    assert!(tell(json!({ "do": "pace", "pace": -1 }))["error"]["message"].is_string());
    // The largest rate that is taken makes a run diverge: that is reported, and the run can still be looked at.
    assert_eq!(tell(json!({ "do": "rate", "rate": 1e6 }))["id"], run);
    tell(json!({ "do": "go", "steps": 50 }));
    let began = Instant::now();
    loop {
        let state = studio.request("GET", &format!("/api/runs/{run}"), &[], "").json()["state"].clone();
        if state["phase"] != "running" {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{state}");
        std::thread::sleep(Duration::from_millis(20));
    }
    let looked =
        studio.ask(&format!("/api/runs/{run}/inspect"), &json!({ "at": "sample", "part": "test", "index": 0 }));
    assert!(looked["error"].is_null(), "{looked}");
    is_well(&studio);
}

#[test]
fn a_page_opened_from_a_file_gets_the_cookie_and_is_redirected() {
    let studio = Studio::start(&["--host", "0.0.0.0"]);
    let token = studio.token.clone().expect("a token is printed");
    let led = studio.request("GET", &format!("/?token={token}"), &[("Sec-Fetch-Site", "cross-site")], "");
    assert_eq!(led.status, 200);
    assert!(led.head.contains("refresh: 0; url=/") && led.head.contains("httponly; samesite=strict"), "{}", led.head);
    let wrong = studio.request("GET", "/?token=wrong", &[("Sec-Fetch-Site", "cross-site")], "");
    assert_eq!(wrong.status, 401);
}
