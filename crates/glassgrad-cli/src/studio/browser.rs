//! Opening the page in the browser of this machine.
//!
//! The arguments of a process can be read by every user of a machine. An address with a token is therefore not passed to
//! the browser: it opens a file that only its owner can read, and that leads to the address.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Asks the system to show an address. Where it cannot, the address has been printed.
pub(super) fn open(address: &str, is_secret: bool) -> Option<Page> {
    if !is_secret {
        show(address);
        return None;
    }
    let page = Page::new(address).ok()?;
    show(&page.path.to_string_lossy());
    Some(page)
}

fn show(target: &str) {
    let (program, arguments): (&str, &[&str]) = match std::env::consts::OS {
        "macos" => ("open", &[]),
        "windows" => ("cmd", &["/C", "start", ""]),
        _ => ("xdg-open", &[]),
    };
    let quiet = Stdio::null;
    let _ = Command::new(program).args(arguments).arg(target).stdin(quiet()).stdout(quiet()).stderr(quiet()).spawn();
}

/// A page that leads to an address, for its owner alone. It is removed when the studio ends.
pub(super) struct Page {
    path: PathBuf,
}

impl Page {
    fn new(address: &str) -> io::Result<Page> {
        // The folder of the session is the user's own; another one may be everyone's, and the file in it is not.
        let folder = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|folder| folder.is_dir());
        let mut name = [0_u8; 16];
        getrandom::fill(&mut name).map_err(io::Error::other)?;
        let name: String = name.iter().map(|byte| format!("{byte:02x}")).collect();
        let path = folder.unwrap_or_else(std::env::temp_dir).join(format!("glassgrad-studio-{name}.html"));
        let mut file = private().open(&path)?;
        // The address is of digits, letters and the signs of addresses: there is nothing in it to escape.
        let text = format!("<!doctype html><meta http-equiv=\"refresh\" content=\"0; url={address}\">\n");
        let page = Page { path };
        file.write_all(text.as_bytes())?;
        Ok(page)
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// A new file that only its owner can read.
fn private() -> fs::OpenOptions {
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_with_a_token_is_for_its_owner_alone_and_goes_away() {
        let page = Page::new("http://127.0.0.1:7777/?token=0123").expect("a page");
        let text = fs::read_to_string(&page.path).expect("a file");
        assert!(text.contains("url=http://127.0.0.1:7777/?token=0123"), "{text}");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(fs::metadata(&page.path).expect("a file").permissions().mode() & 0o777, 0o600);
        }
        let path = page.path.clone();
        drop(page);
        assert!(!path.exists());
    }
}
