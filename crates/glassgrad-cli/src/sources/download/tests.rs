//! Downloads from servers of this machine that behave, and that do not.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::*;

/// A server that answers every request by a function of the connection and of the requested offset. It records these
/// places.
struct Server {
    address: String,
    asked: Arc<Mutex<Vec<Option<usize>>>>,
}

impl Server {
    fn start(answer: impl Fn(&mut TcpStream, Option<usize>) + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}/file.gz", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&asked);
        let answer = Arc::new(answer);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let range = range_of(&stream);
                seen.lock().unwrap().push(range);
                let answer = Arc::clone(&answer);
                std::thread::spawn(move || answer(&mut stream, range));
            }
        });
        Server { address, asked }
    }

    fn asked(&self) -> Vec<Option<usize>> {
        self.asked.lock().unwrap().clone()
    }
}

/// Reads a request, and the offset of its range.
fn range_of(stream: &TcpStream) -> Option<usize> {
    let mut range = None;
    for line in BufReader::new(stream).lines() {
        let line = line.unwrap_or_default().to_lowercase();
        if let Some(rest) = line.strip_prefix("range: bytes=") {
            range = rest.trim_end_matches('-').parse().ok();
        }
        if line.is_empty() {
            break;
        }
    }
    range
}

/// Writes the head of an answer and some bytes. The client may have disconnected.
fn send(stream: &mut TcpStream, head: &str, body: &[u8]) {
    let _ = write!(stream, "HTTP/1.1 {head}\r\nConnection: close\r\n\r\n").and_then(|()| stream.write_all(body));
}

/// Keeps a connection open for as long as the test program runs.
fn hold() {
    loop {
        std::thread::park();
    }
}

/// An honest answer.
fn serve(stream: &mut TcpStream, range: Option<usize>, content: &[u8]) {
    let length = content.len();
    match range {
        None => send(stream, &format!("200 OK\r\nContent-Length: {length}"), content),
        Some(start) if start >= length => send(stream, "416 Range Not Satisfiable\r\nContent-Length: 0", b""),
        Some(start) => {
            let rest = &content[start..];
            let last = length - 1;
            let head = format!(
                "206 Partial Content\r\nContent-Length: {}\r\nContent-Range: bytes {start}-{last}/{length}",
                rest.len()
            );
            send(stream, &head, rest);
        }
    }
}

/// What is to be fetched: 200,000 bytes that are not all the same.
fn content() -> Vec<u8> {
    (0..200_000_u32).map(|k| (k.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

fn download(addresses: &[&str]) -> Download {
    let patience = Patience {
        answer: Duration::from_millis(500),
        bytes: Duration::from_millis(300),
        whole: Duration::from_secs(20),
        attempts: 4,
    };
    Download {
        addresses: addresses.iter().map(|address| (*address).to_owned()).collect(),
        bytes: content().len() as u64,
        md5: format!("{:x}", md5::compute(content())),
        patience,
        program: "curl",
    }
}

/// A place in a folder of its own.
struct TempDir(PathBuf);

impl TempDir {
    fn new(name: &str) -> TempDir {
        let folder = std::env::temp_dir().join(format!("glassgrad-download-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        TempDir(folder)
    }

    fn file(&self) -> PathBuf {
        self.0.join("deep/file.gz")
    }

    fn with_part(self, bytes: &[u8]) -> TempDir {
        fs::create_dir_all(self.0.join("deep")).unwrap();
        fs::write(beside(&self.file()), bytes).unwrap();
        self
    }

    /// Fetches, and must fail for a reason. What is left of it is returned.
    fn refused(&self, download: &Download, reason: &str) -> Option<Vec<u8>> {
        let message = download.fetch(&self.file(), &mut |_| {}).unwrap_err().to_string();
        assert!(message.contains(reason), "{message}, not {reason}");
        assert!(message.contains("help: fetch it by other means"), "{message}");
        assert!(!self.file().exists());
        fs::read(beside(&self.file())).ok()
    }

    fn fetched(&self, download: &Download) {
        download.fetch(&self.file(), &mut |_| {}).unwrap();
        assert!(fs::read(self.file()).unwrap() == content() && !beside(&self.file()).exists());
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_download_is_verified_and_progress_is_reported() {
    let server = Server::start(|stream, range| serve(stream, range, &content()));
    let place = TempDir::new("good");
    let mut reports = Vec::new();
    download(&[&server.address]).fetch(&place.file(), &mut |progress| reports.push(progress.clone())).unwrap();
    assert_eq!(fs::read(place.file()).unwrap(), content());
    assert_eq!((reports[0].bytes, reports[0].file.as_str()), (0, "file.gz"));
    assert!(reports.windows(2).all(|pair| pair[0].bytes < pair[1].bytes));
    assert!(reports.iter().all(|progress| progress.total == 200_000) && reports.last().unwrap().bytes == 200_000);
    assert!(fs::read_dir(place.file().parent().unwrap()).unwrap().count() == 1);
}

#[test]
fn a_download_is_resumed() {
    let server = Server::start(|stream, range| serve(stream, range, &content()));
    TempDir::new("resumed").with_part(&content()[..70_000]).fetched(&download(&[&server.address]));
    assert_eq!(server.asked(), [Some(70_000)]);
    // A part that is whole already is only checked.
    TempDir::new("whole").with_part(&content()).fetched(&download(&[&server.address]));
    assert_eq!(server.asked().len(), 1);
    // One that is not of this file is thrown away when the sum is wrong, and all is fetched.
    TempDir::new("foreign").with_part(&[9; 70_000]).fetched(&download(&[&server.address]));
    assert_eq!(server.asked()[1..], [Some(70_000), None]);
    // One that is longer than the file.
    TempDir::new("longer").with_part(&[9; 300_000]).fetched(&download(&[&server.address]));
    assert_eq!(server.asked()[3..], [Some(300_000), None]);
}

#[test]
fn a_server_that_ignores_the_place_sends_all() {
    let server = Server::start(|stream, _| serve(stream, None, &content()));
    TempDir::new("ignores").with_part(&content()[..70_000]).fetched(&download(&[&server.address]));
    assert_eq!(server.asked(), [Some(70_000)]);
}

#[test]
fn a_server_that_sends_another_part_is_refused() {
    let server = Server::start(|stream, _| serve(stream, Some(5), &content()));
    let left = TempDir::new("another")
        .with_part(&content()[..70_000])
        .refused(&download(&[&server.address]), "another part of the file");
    assert_eq!(left.unwrap().len(), 70_000);
}

#[test]
fn wrong_bytes_are_removed() {
    let server = Server::start(|stream, range| {
        let mut wrong = content();
        wrong[100_000] ^= 1;
        serve(stream, range, &wrong);
    });
    let left = TempDir::new("lies").refused(&download(&[&server.address]), "its checksum is ");
    assert_eq!((left, server.asked().len()), (None, 1));
}

#[test]
fn a_claimed_length_is_not_believed() {
    // Less than it sends: the rest is requested, and there is none.
    let server = Server::start(|stream, _| send(stream, "200 OK\r\nContent-Length: 150000", &content()));
    TempDir::new("less").refused(&download(&[&server.address]), "the answer ended after 150000 of 200000 bytes");
    // More than it sends: what comes is the file, and that is what counts.
    let server = Server::start(|stream, _| send(stream, "200 OK\r\nContent-Length: 250000", &content()));
    TempDir::new("more").fetched(&download(&[&server.address]));
    // More, and it does send more.
    let server =
        Server::start(|stream, _| send(stream, "200 OK\r\nContent-Length: 200001", &[content(), vec![1]].concat()));
    TempDir::new("longer-claim").refused(&download(&[&server.address]), "more than the 200000 bytes");
}

#[test]
fn a_server_that_stalls_is_left() {
    // The servers hold the connection for ever, so that only a timeout ends an attempt.
    let server = Server::start(|stream, range| {
        let head = format!("200 OK\r\nContent-Length: {}", content().len());
        send(stream, &head, &content()[..if range.is_none() { 50_000 } else { 0 }]);
        hold();
    });
    let left =
        TempDir::new("stalls").refused(&download(&[&server.address]), "the server stalled after 0 of 200000 bytes");
    assert!(left.unwrap().is_empty());
    // One that does not even answer.
    let server = Server::start(|_, _| hold());
    TempDir::new("silent").refused(&download(&[&server.address]), "no answer (");
}

/// Bytes that drip are no stall, but the time for the whole answer ends.
#[test]
fn an_answer_that_drips_ends() {
    let server = Server::start(|stream, _| {
        send(stream, "200 OK\r\nContent-Length: 200000", b"");
        while stream.write_all(&[7]).is_ok() {
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    let patience = Patience { whole: Duration::from_millis(700), attempts: 1, ..download(&[]).patience };
    let slow = Download { patience, ..download(&[&server.address]) };
    let left = TempDir::new("drips").refused(&slow, "the server stalled after ");
    assert!((1..100).contains(&left.unwrap().len()));
}

#[test]
fn redirects_are_followed_but_not_for_ever_or_to_files() {
    let good = Server::start(|stream, range| serve(stream, range, &content()));
    let redirect = |to: String| {
        Server::start(move |stream, _| {
            send(stream, &format!("302 Found\r\nContent-Length: 4\r\nLocation: {to}"), b"gone");
        })
    };
    let one = redirect(good.address.clone());
    let two = redirect(one.address.clone());
    TempDir::new("redirected").with_part(&content()[..70_000]).fetched(&download(&[&two.address]));
    assert_eq!(good.asked(), [Some(70_000)]);
    let circle = redirect("/file.gz".to_owned());
    TempDir::new("circle").refused(&download(&[&circle.address]), "no answer (");
    assert_eq!(circle.asked().len(), 11);
    let local = redirect("file:///etc/hostname".to_owned());
    TempDir::new("local").refused(&download(&[&local.address]), "no answer (");
    TempDir::new("scheme").refused(&download(&["file:///etc/hostname"]), "no answer (");
}

#[test]
fn headers_without_end_are_refused() {
    let server = Server::start(|stream, _| {
        let _ = write!(stream, "HTTP/1.1 200 OK\r\n");
        while stream.write_all(b"X-More: of the same\r\n").is_ok() {}
    });
    TempDir::new("headers").refused(&download(&[&server.address]), "no answer (");
}

#[test]
fn without_curl_the_remedy_is_named() {
    let place = TempDir::new("without");
    let without = Download { program: "curl-that-is-not-installed", ..download(&["http://127.0.0.1:9/file.gz"]) };
    let message = without.fetch(&place.file(), &mut |_| {}).unwrap_err().to_string();
    assert!(message.contains("the program curl cannot be started"), "{message}");
    assert!(message.contains("install curl, or fetch http://127.0.0.1:9/file.gz by other means"), "{message}");
}

#[test]
fn an_answer_that_breaks_off_is_continued() {
    let server = Server::start(|stream, range| {
        let start = range.unwrap_or(0);
        let (length, end) = (content().len(), (start + 60_000).min(content().len()));
        let head = match range {
            None => format!("200 OK\r\nContent-Length: {length}"),
            Some(start) => format!(
                "206 Partial Content\r\nContent-Range: bytes {start}-{}/{length}\r\nContent-Length: {}",
                length - 1,
                length - start
            ),
        };
        send(stream, &head, &content()[start..end]);
    });
    TempDir::new("breaks").fetched(&download(&[&server.address]));
    assert_eq!(server.asked(), [None, Some(60_000), Some(120_000), Some(180_000)]);
    // Too often: what has come is kept for the next time.
    let place = TempDir::new("often");
    let once =
        Download { patience: Patience { attempts: 2, ..download(&[]).patience }, ..download(&[&server.address]) };
    let left = place.refused(&once, "after 120000 of 200000 bytes");
    assert_eq!(left.unwrap(), content()[..120_000]);
    place.fetched(&once);
}

#[test]
fn an_endless_answer_is_cut_off() {
    let server = Server::start(|stream, _| {
        send(stream, "200 OK", b"");
        while stream.write_all(&[7; 10_000]).is_ok() {}
    });
    let left =
        TempDir::new("endless").refused(&download(&[&server.address]), "sends more than the 200000 bytes of the file");
    assert_eq!(left, None);
}

#[test]
fn the_next_address_is_asked() {
    let missing = Server::start(|stream, _| send(stream, "404 Not Found\r\nContent-Length: 4", b"gone"));
    let broken = Server::start(|stream, _| send(stream, "500 Oh\r\nContent-Length: 0", b""));
    let unreachable = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}/file.gz", listener.local_addr().unwrap())
    };
    let good = Server::start(|stream, range| serve(stream, range, &content()));
    let addresses = [missing.address.as_str(), &broken.address, &unreachable];
    let place = TempDir::new("next");
    let message = download(&addresses).fetch(&place.file(), &mut |_| {}).unwrap_err().to_string();
    for reason in ["there is no such file (404)", "it answers with the status 500", "no answer ("] {
        assert!(message.contains(reason), "{message}, not {reason}");
    }
    place.fetched(&download(&[&addresses[..], &[&good.address]].concat()));
}

#[test]
fn write_errors_are_reported() {
    let server = Server::start(|stream, range| serve(stream, range, &content()));
    let place = TempDir::new("file").with_part(b"");
    fs::write(place.0.join("plain"), b"").unwrap();
    let message =
        download(&[&server.address]).fetch(&place.0.join("plain/file.gz"), &mut |_| {}).unwrap_err().to_string();
    assert!(message.contains("cannot write"), "{message}");
}
