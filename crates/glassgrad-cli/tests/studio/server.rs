//! A running studio, and plain HTTP to it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

pub(crate) struct Studio {
    pub(crate) process: Child,
    /// Where it listens, as `host:port`.
    pub(crate) host: String,
    pub(crate) token: Option<String>,
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}

impl Studio {
    /// Starts a studio at a free port, and waits until it has printed its address.
    pub(crate) fn start(arguments: &[&str]) -> Studio {
        let mut process = Command::new(env!("CARGO_BIN_EXE_glassgrad"))
            .args(["studio", "--port", "0", "--no-open"])
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut line = String::new();
        BufReader::new(process.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
        let address = line.split("http://").nth(1).unwrap_or_else(|| panic!("no address: {line}")).trim();
        let (host, query) = address.split_once('/').expect("an address with a path");
        let token = query.strip_prefix("?token=").map(str::to_owned);
        Studio { process, host: host.to_owned(), token }
    }

    pub(crate) fn address(&self, rest: &str) -> String {
        format!("http://{}/{rest}", self.host)
    }

    /// Sends bytes, and reads whatever comes back until the end.
    pub(crate) fn send(&self, bytes: &[u8]) -> String {
        String::from_utf8_lossy(&self.exchange(bytes)).into_owned()
    }

    fn exchange(&self, bytes: &[u8]) -> Vec<u8> {
        let mut stream = TcpStream::connect(&self.host).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a limit");
        // It may have answered and gone before all is sent.
        let _ = stream.write_all(bytes);
        let mut text = Vec::new();
        let _ = stream.read_to_end(&mut text);
        text
    }

    /// The bytes of a file.
    pub(crate) fn bytes(&self, path: &str) -> Vec<u8> {
        let answer = self
            .exchange(format!("GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.host).as_bytes());
        let head = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").expect("a head");
        assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer[..head]));
        answer[head + 4..].to_vec()
    }

    /// Sends a file, and reads the answer.
    pub(crate) fn send_bytes(&self, path: &str, bytes: &[u8]) -> Value {
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Type: application/octet-stream\r\nContent-Length: {}\r\n\r\n",
            self.host,
            bytes.len()
        );
        let answer = self.send(&[head.as_bytes(), bytes].concat());
        serde_json::from_str(answer.split_once("\r\n\r\n").expect("a body").1).expect("JSON")
    }

    /// A request with these headers, of which `Host` and the type of the body have defaults.
    pub(crate) fn request(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let given = |name: &str| headers.iter().any(|(own, _)| own.eq_ignore_ascii_case(name));
        let mut text = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\nContent-Length: {}\r\n", body.len());
        if !given("host") {
            text += &format!("Host: {}\r\n", self.host);
        }
        if !given("content-type") {
            text += "Content-Type: application/json\r\n";
        }
        for (name, value) in headers {
            text += &format!("{name}: {value}\r\n");
        }
        let answer = self.send(format!("{text}\r\n{body}").as_bytes());
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        Answer { status, head: head.to_lowercase(), body: body.to_owned() }
    }

    /// A question that gets an answer.
    pub(crate) fn ask(&self, path: &str, question: &Value) -> Value {
        let answer = self.request("POST", path, &[], &question.to_string());
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        answer.json()
    }
}

impl Drop for Studio {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
