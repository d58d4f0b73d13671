//! One HTTP request, by the program `curl`.
//!
//! Every system that people train on has curl, with its certificates, proxies and protocols kept up to date. A TLS stack
//! of our own would be a sixth of the program's build time for two optional data sets.

use std::fmt;
use std::io::{self, Read};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use super::Patience;

/// The most bytes that the headers of a response may have, redirects included.
const HEADER_LIMIT: usize = 1 << 16;

/// A response.
#[derive(Debug)]
pub(super) struct Answer {
    /// The place in the file at which it begins.
    pub(super) start: u64,
    pub(super) body: Body,
}

/// Why an attempt failed.
#[derive(Debug)]
pub(super) enum Trouble {
    /// curl cannot be started.
    NoCurl(io::Error),
    /// The server could not be asked, or refused.
    Refused(String),
    /// The answer ended too early.
    Broken { why: String, bytes: u64, total: u64 },
    /// The server sends more than the file has.
    TooLong(u64),
    /// The bytes are wrong.
    Checksum(String),
    /// The fault is on this side.
    Disk(io::Error),
}

impl Trouble {
    pub(super) fn broken(error: &io::Error, bytes: u64, total: u64) -> Trouble {
        let has_stalled = error.kind() == io::ErrorKind::TimedOut;
        let why = if has_stalled { "the server stalled".to_owned() } else { format!("the answer broke off ({error})") };
        Trouble::Broken { why, bytes, total }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::NoCurl(error) => write!(formatter, "the program curl cannot be started ({error})"),
            Trouble::Refused(reason) | Trouble::Checksum(reason) => formatter.write_str(reason),
            Trouble::Broken { why, bytes, total } => write!(formatter, "{why} after {bytes} of {total} bytes"),
            Trouble::TooLong(total) => write!(formatter, "the server sends more than the {total} bytes of the file"),
            Trouble::Disk(error) => error.fmt(formatter),
        }
    }
}

/// Asks for a file from a place on. A server may send all of it instead.
pub(super) fn ask(program: &str, address: &str, have: u64, patience: &Patience) -> Result<Answer, Trouble> {
    let mut body = Body::start(program, address, have, patience).map_err(Trouble::NoCurl)?;
    let head = Head::read(&mut body).map_err(|error| Trouble::Refused(format!("no answer ({error})")))?;
    body.timeout = patience.bytes;
    let start = match head.status {
        200 => 0,
        206 => match head.range.as_deref().and_then(start_of) {
            Some(start) if start == have => start,
            _ => return Err(Trouble::Refused("it sends another part of the file than was asked for".to_owned())),
        },
        // There is nothing from that place on: what is here is not a part of that file.
        416 if have > 0 => return ask(program, address, 0, patience),
        404 => return Err(Trouble::Refused("there is no such file (404)".to_owned())),
        status => return Err(Trouble::Refused(format!("it answers with the status {status}"))),
    };
    Ok(Answer { start, body })
}

/// The first number of `bytes 100-199/200`.
fn start_of(range: &str) -> Option<u64> {
    range.trim().strip_prefix("bytes")?.trim_start().split('-').next()?.parse().ok()
}

/// The standard output of curl: the headers of the response, then its body. Reading fails with
/// [`io::ErrorKind::TimedOut`] if nothing arrives for `timeout`. Dropping it ends curl.
#[derive(Debug)]
pub(super) struct Body {
    curl: Child,
    blocks: Receiver<io::Result<Vec<u8>>>,
    block: Vec<u8>,
    taken: usize,
    timeout: Duration,
    deadline: Instant,
}

impl Body {
    fn start(program: &str, address: &str, have: u64, patience: &Patience) -> io::Result<Body> {
        let mut command = Command::new(program);
        // No configuration file of the user, no other protocols, no patterns in the address.
        command.args(["--disable", "--silent", "--show-error", "--globoff", "--no-buffer"]);
        command.args(["--proto", "=http,https", "--proto-redir", "=http,https", "--location", "--max-redirs", "10"]);
        // Unlike `--include`, this does not keep the headers back until the first byte of the body.
        command.args(["--dump-header", "-", "--suppress-connect-headers"]);
        command.args(["--user-agent", concat!("glassgrad/", env!("CARGO_PKG_VERSION"))]);
        if have > 0 {
            command.args(["--range", &format!("{have}-")]);
        }
        command.args(["--url", address]);
        let mut curl = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let output = curl.stdout.take().expect("the standard output is piped");
        // A pipe has no timeout, a channel has. Two blocks of 64 KiB are in memory at most.
        let (sender, blocks) = sync_channel(1);
        std::thread::spawn(move || {
            let mut output: ChildStdout = output;
            loop {
                let mut block = vec![0; 1 << 16];
                let read = output.read(&mut block).map(|count| {
                    block.truncate(count);
                    block
                });
                let is_last = read.as_ref().is_ok_and(Vec::is_empty);
                let is_error = read.as_ref().is_err_and(|error| error.kind() != io::ErrorKind::Interrupted);
                if sender.send(read).is_err() || is_last || is_error {
                    return;
                }
            }
        });
        let deadline = Instant::now() + patience.whole;
        Ok(Body { curl, blocks, block: Vec::new(), taken: 0, timeout: patience.answer, deadline })
    }

    /// The result after curl has closed its output.
    fn ended(&mut self) -> io::Result<usize> {
        if self.curl.wait()?.success() {
            return Ok(0);
        }
        let mut message = String::new();
        if let Some(errors) = &mut self.curl.stderr {
            errors.take(1 << 12).read_to_string(&mut message)?;
        }
        let reason = message.lines().next().unwrap_or("curl failed without a message").trim();
        Err(io::Error::other(reason.to_owned()))
    }
}

impl Read for Body {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.block.len() {
            let remaining = self.deadline.saturating_duration_since(Instant::now());
            match self.blocks.recv_timeout(self.timeout.min(remaining)) {
                Ok(block) => (self.block, self.taken) = (block?, 0),
                Err(RecvTimeoutError::Timeout) => {
                    return Err(io::Error::new(io::ErrorKind::TimedOut, "the server does not answer in time"));
                }
                Err(RecvTimeoutError::Disconnected) => return self.ended(),
            }
            if self.block.is_empty() {
                return self.ended();
            }
        }
        let count = buffer.len().min(self.block.len() - self.taken);
        buffer[..count].copy_from_slice(&self.block[self.taken..][..count]);
        self.taken += count;
        Ok(count)
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.curl.kill();
        let _ = self.curl.wait();
    }
}

/// The parsed headers of a response.
struct Head {
    status: u16,
    range: Option<String>,
}

impl Head {
    /// Reads the headers of the last response; those of redirects and of interim responses come before it.
    fn read(body: &mut Body) -> io::Result<Head> {
        let mut left = HEADER_LIMIT;
        loop {
            let first = line(body, &mut left)?;
            let status = first.strip_prefix("HTTP/").and_then(|rest| rest.split_whitespace().nth(1)?.parse().ok());
            let status = status.ok_or_else(|| io::Error::other("the response is not one of HTTP"))?;
            let (mut range, mut is_redirect) = (None, false);
            loop {
                let header = line(body, &mut left)?;
                if header.is_empty() {
                    break;
                }
                let (name, value) = header.split_once(':').unwrap_or((&header, ""));
                match name.to_ascii_lowercase().as_str() {
                    "content-range" => range = Some(value.trim().to_owned()),
                    "location" => is_redirect = matches!(status, 301 | 302 | 303 | 307 | 308),
                    _ => {}
                }
            }
            if !is_redirect && !(100..200).contains(&status) {
                return Ok(Head { status, range });
            }
        }
    }
}

/// A line of the headers, without its end.
fn line(body: &mut Body, left: &mut usize) -> io::Result<String> {
    let (mut line, mut byte) = (Vec::new(), [0]);
    loop {
        if *left == 0 {
            return Err(io::Error::other("its headers are too long"));
        }
        match body.read(&mut byte) {
            Ok(0) => return Err(io::Error::other("the connection was closed before the headers ended")),
            Ok(_) if byte[0] == b'\n' => break,
            Ok(_) => line.push(byte[0]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        *left -= 1;
    }
    Ok(String::from_utf8_lossy(&line).trim_end().to_owned())
}
