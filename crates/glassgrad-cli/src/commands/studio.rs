//! `glassgrad studio`: a local web page in which expressions are taken apart and networks learn.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::failure::Failure;
use crate::sources::Place;
use crate::studio::{Settings, serve};

/// Open a local page in which any expression can be taken apart, and any network watched while it learns
///
/// The page and everything it needs are in this program; nothing is fetched from anywhere. Only this machine can reach it,
/// unless --host names another address: then everyone who opens the page needs the token that is printed with the address.
#[derive(Args)]
pub(crate) struct Studio {
    /// The port to listen at; 0 takes any that is free
    #[arg(long, default_value_t = 7777)]
    port: u16,

    /// The address to listen at; 0.0.0.0 is every address of this machine
    #[arg(long, default_value = "127.0.0.1", value_parser = address)]
    host: IpAddr,

    /// Print the address only, and leave the browser alone
    #[arg(long)]
    no_open: bool,

    /// Directory with the files of mnist or fashion, which can be learnt then
    #[arg(long = "data", value_name = "DIR")]
    directory: Option<PathBuf>,

    /// For how many seconds a run stays when no page shows it and it is not kept
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    linger: u64,

    /// For how many seconds the head of a request may take to come
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    header_timeout: u64,

    /// For how many seconds a request may take from its head to its answer, its body included
    #[arg(long, value_name = "SECONDS", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=3600))]
    request_timeout: u64,
}

fn address(text: &str) -> Result<IpAddr, String> {
    if text == "localhost" {
        return Ok(Ipv4Addr::LOCALHOST.into());
    }
    text.parse().map_err(|_| "an address of this machine is needed, such as 127.0.0.1, ::1 or 0.0.0.0".to_owned())
}

impl Studio {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let linger = Duration::from_secs(self.linger);
        if let Some(directory) = self.directory.as_ref().filter(|directory| !directory.is_dir()) {
            return Err(Failure::Input(format!("--data {}: there is no such directory", directory.display())));
        }
        let places = Place { folder: self.directory, ..Place::default() };
        serve(&Settings {
            host: self.host,
            port: self.port,
            opens_browser: !self.no_open,
            places,
            linger,
            header_timeout: Duration::from_secs(self.header_timeout),
            request_timeout: Duration::from_secs(self.request_timeout),
        })
    }
}
