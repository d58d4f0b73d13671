//! `glassgrad studio`: a local web page in which expressions are taken apart and networks learn.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::device::DeviceChoice;
use crate::failure::Failure;
use crate::sources::DataLocation;
use crate::studio::{Settings, serve};

/// Open the studio, a local web page to inspect derivatives of expressions and networks during training
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

    /// Print the address without opening a browser
    #[arg(long)]
    no_open: bool,

    /// Directory with the files of mnist or fashion
    #[arg(long = "data", value_name = "DIR")]
    directory: Option<PathBuf>,

    /// Seconds until a run is deleted that no page shows and that is not pinned
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    linger: u64,

    /// Timeout of the header of a request, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    header_timeout: u64,

    /// Timeout of a request from its header to its response, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=3600))]
    request_timeout: u64,

    #[command(flatten)]
    device: DeviceChoice,
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
        // A device that cannot be used is reported before the page opens.
        self.device.run(|| Ok(()))?;
        let places = DataLocation { folder: self.directory, ..DataLocation::default() };
        serve(&Settings {
            host: self.host,
            port: self.port,
            opens_browser: !self.no_open,
            places,
            device: self.device,
            linger,
            header_timeout: Duration::from_secs(self.header_timeout),
            request_timeout: Duration::from_secs(self.request_timeout),
        })
    }
}
