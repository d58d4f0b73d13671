//! `glassgrad device`: where programs can run.

use clap::Args;
use glassgrad::exec::{Isa, threads};
use serde_json::json;

use crate::device::described;
use crate::failure::{Failure, print};

/// List the devices that programs can run on, or why a GPU cannot be used
#[derive(Args)]
pub(crate) struct Device {
    /// One JSON object on standard output
    #[arg(long)]
    json: bool,
}

impl Device {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let (isa, threads, gpus) =
            (Isa::here().last().map_or_else(String::new, |isa| format!("{isa:?}")), threads(), described());
        if self.json {
            let (gpus, reason) = match gpus {
                Ok(gpus) => (gpus, None),
                Err(reason) => (Vec::new(), Some(reason)),
            };
            return print(
                &json!({ "cpu": { "isa": isa, "threads": threads }, "gpus": gpus, "reason": reason }).to_string(),
            );
        }
        let plural = if threads == 1 { "thread" } else { "threads" };
        let mut lines = vec![format!("cpu: {threads} {plural}, ISA level {isa}")];
        match gpus {
            Ok(gpus) => lines.extend(gpus),
            Err(reason) => lines.push(format!("no GPU: {reason}")),
        }
        print(&lines.join("\n"))
    }
}
