//! One question to a server.

use std::fmt;
use std::io::{self, Read};

use super::Patience;

/// What a server sends.
pub(super) struct Answer {
    /// The place in the file at which it begins.
    pub(super) start: u64,
    pub(super) body: Box<dyn Read>,
}

/// Why an attempt failed.
#[derive(Debug)]
pub(super) enum Trouble {
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
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<ureq::Error>());
        let has_stalled = matches!(inner, Some(ureq::Error::Timeout(_))) || error.kind() == io::ErrorKind::TimedOut;
        let why = if has_stalled { "the server stalled".to_owned() } else { format!("the answer broke off ({error})") };
        Trouble::Broken { why, bytes, total }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::Refused(reason) | Trouble::Checksum(reason) => formatter.write_str(reason),
            Trouble::Broken { why, bytes, total } => write!(formatter, "{why} after {bytes} of {total} bytes"),
            Trouble::TooLong(total) => write!(formatter, "the server sends more than the {total} bytes of the file"),
            Trouble::Disk(error) => error.fmt(formatter),
        }
    }
}

/// Asks for a file from a place on. A server may send all of it instead.
pub(super) fn ask(address: &str, have: u64, patience: &Patience) -> Result<Answer, Trouble> {
    let agent = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .user_agent(concat!("glassgrad/", env!("CARGO_PKG_VERSION")))
        .timeout_resolve(Some(patience.answer))
        .timeout_connect(Some(patience.answer))
        .timeout_send_request(Some(patience.answer))
        .timeout_recv_response(Some(patience.answer))
        .timeout_per_read(Some(patience.bytes))
        .timeout_recv_body(Some(patience.whole))
        .build()
        .new_agent();
    let mut request = agent.get(address);
    if have > 0 {
        request = request.header("Range", format!("bytes={have}-"));
    }
    let response = request.call().map_err(|error| Trouble::Refused(format!("no answer ({error})")))?;
    let (status, range) = (response.status().as_u16(), response.headers().get("content-range"));
    let start = match status {
        200 => 0,
        206 => match range.and_then(|range| range.to_str().ok()).and_then(start_of) {
            Some(start) if start == have => start,
            _ => return Err(Trouble::Refused("it sends another part of the file than was asked for".to_owned())),
        },
        // There is nothing from that place on: what is here is not a part of that file.
        416 if have > 0 => return ask(address, 0, patience),
        404 => return Err(Trouble::Refused("there is no such file (404)".to_owned())),
        status => return Err(Trouble::Refused(format!("it answers with the status {status}"))),
    };
    Ok(Answer { start, body: Box::new(response.into_body().into_reader()) })
}

/// The first number of `bytes 100-199/200`.
fn start_of(range: &str) -> Option<u64> {
    range.trim().strip_prefix("bytes")?.trim_start().split('-').next()?.parse().ok()
}
