//! A web socket to the studio, as a script would open one.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

use crate::server::Studio;

#[derive(Debug)]
pub(crate) struct Socket {
    stream: BufReader<TcpStream>,
}

impl Socket {
    /// Opens the stream of a run; the status is returned if it is refused.
    pub(crate) fn open(studio: &Studio, path: &str, origin: Option<&str>) -> Result<Socket, u16> {
        let mut stream = TcpStream::connect(&studio.host).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a limit");
        let origin = origin.map(|origin| format!("Origin: {origin}\r\n")).unwrap_or_default();
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {}\r\n{origin}Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
            studio.host
        );
        stream.write_all(request.as_bytes()).expect("it listens");
        let mut stream = BufReader::new(stream);
        let mut line = String::new();
        stream.read_line(&mut line).expect("a status");
        let status = line.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        if status != 101 {
            return Err(status);
        }
        while line != "\r\n" {
            line.clear();
            stream.read_line(&mut line).expect("a header");
        }
        Ok(Socket { stream })
    }

    /// The next message, or nothing when the server has closed.
    pub(crate) fn next(&mut self) -> Option<Value> {
        loop {
            let mut head = [0; 2];
            self.stream.read_exact(&mut head).ok()?;
            let length = match head[1] & 0x7f {
                126 => u64::from(u16::from_be_bytes(self.bytes())),
                127 => u64::from_be_bytes(self.bytes()),
                length => u64::from(length),
            };
            let mut payload = vec![0; length as usize];
            self.stream.read_exact(&mut payload).ok()?;
            match head[0] & 0x0f {
                1 => return Some(serde_json::from_slice(&payload).expect("JSON")),
                8 => return None,
                // A pulse is answered, masked with zeros as clients must.
                9 => {
                    let _ = self.stream.get_mut().write_all(&[0x8a, 0x80, 0, 0, 0, 0]);
                }
                _ => {}
            }
        }
    }

    fn bytes<const COUNT: usize>(&mut self) -> [u8; COUNT] {
        let mut bytes = [0; COUNT];
        self.stream.read_exact(&mut bytes).expect("a length");
        bytes
    }

    /// Reads until a message of a kind fits.
    pub(crate) fn until(&mut self, kind: &str, fits: impl Fn(&Value) -> bool) -> Value {
        loop {
            let message = self.next().unwrap_or_else(|| panic!("the stream ended before {kind} came"));
            if message["kind"] == kind && fits(&message["data"]) {
                return message["data"].clone();
            }
        }
    }
}
