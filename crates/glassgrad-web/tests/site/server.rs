//! A plain file server on the loopback address, as any host of static files is one.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Serves a folder until it is dropped.
pub(crate) struct Files {
    address: SocketAddr,
    bytes: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
}

impl Files {
    pub(crate) fn serve(folder: &Path) -> Files {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let (bytes, is_over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (sum, over, folder) = (Arc::clone(&bytes), Arc::clone(&is_over), folder.to_owned());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if over.load(Ordering::Relaxed) {
                    return;
                }
                let (sum, folder) = (Arc::clone(&sum), folder.clone());
                std::thread::spawn(move || answer(stream, &folder, &sum));
            }
        });
        Files { address, bytes, is_over }
    }

    /// The address of the site: below a path, as on hosts with several sites.
    pub(crate) fn address(&self) -> String {
        format!("http://{}/glassgrad/", self.address)
    }

    /// The bytes of all files that were sent.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        // Wakes the listener, which then ends.
        let _ = TcpStream::connect(self.address);
    }
}

fn answer(mut stream: TcpStream, folder: &Path, sum: &AtomicU64) -> Option<()> {
    let mut lines = BufReader::new(stream.try_clone().ok()?).lines();
    let first = lines.next()?.ok()?;
    // The header ends with an empty line.
    lines.by_ref().take_while(|line| line.as_ref().is_ok_and(|line| !line.is_empty())).for_each(drop);
    let path = first.split(' ').nth(1)?.split(['?', '#']).next()?;
    let name = path.strip_prefix("/glassgrad/").map(|name| if name.is_empty() { "index.html" } else { name });
    let file: Option<PathBuf> = name.filter(|name| !name.contains("..")).map(|name| folder.join(name));
    let found = file.and_then(|file| Some((kind(&file), std::fs::read(file).ok()?)));
    let (status, kind, body) = match found {
        Some((kind, body)) => ("200 OK", kind, body),
        None => ("404 Not Found", "text/plain", b"not found".to_vec()),
    };
    sum.fetch_add(body.len() as u64, Ordering::Relaxed);
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nCache-Control: max-age=600\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).ok()?;
    stream.write_all(&body).ok()
}

fn kind(file: &Path) -> &'static str {
    match file.extension().and_then(|ending| ending.to_str()) {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "application/octet-stream",
    }
}
