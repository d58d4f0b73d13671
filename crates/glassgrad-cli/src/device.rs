//! `--device`: where programs run.

use clap::Args;
use glassgrad::exec::{MatmulPrecision, Target, gpus};
use glassgrad::runtime::Context;

use crate::failure::Failure;

/// The device of a command.
#[derive(Args, Clone, Debug)]
pub(crate) struct DeviceChoice {
    /// Where to compute: cpu, cuda (a GPU for each rank of a machine), or cuda:N for GPU number N (see `glassgrad device`)
    #[arg(long, value_name = "DEVICE", default_value = "cpu", value_parser = target)]
    pub(crate) device: Target,

    /// Multiply 32-bit matrices in TF32 on tensor cores: factors are rounded to 11 bits
    #[arg(long)]
    pub(crate) tf32: bool,
}

fn target(text: &str) -> Result<Target, String> {
    let number = text.strip_prefix("cuda:").map(str::parse::<usize>);
    match (text, number) {
        ("cpu", _) => Ok(Target::Cpu),
        ("cuda", _) => Ok(Target::Cuda(own_gpu())),
        (_, Some(Ok(number))) => Ok(Target::Cuda(number)),
        _ => Err("there are cpu, cuda and cuda:N, such as cuda:1".to_owned()),
    }
}

/// What launchers tell each process about its place among the ranks of its machine.
const LOCAL_RANKS: [&str; 3] = ["OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"];

/// The GPU of this process: ranks on one machine have one after another, and share them where there are fewer.
fn own_gpu() -> usize {
    let place = LOCAL_RANKS.iter().find_map(|name| std::env::var(name).ok()?.parse::<usize>().ok());
    match place {
        Some(place) if place > 0 => place % gpus().map_or(1, |gpus| gpus.len()),
        Some(_) | None => 0,
    }
}

impl DeviceChoice {
    /// The kind of device, which is the same on all ranks of a job.
    pub(crate) fn kind(&self) -> &'static str {
        match self.device {
            Target::Cpu => "cpu",
            Target::Cuda(_) if self.tf32 => "cuda with TF32",
            Target::Cuda(_) => "cuda",
            Target::Reference | Target::EmulatedCuda => unreachable!("no argument is {:?}", self.device),
        }
    }

    /// Calls a function whose programs run on the device.
    pub(crate) fn run<R>(&self, function: impl FnOnce() -> Result<R, Failure>) -> Result<R, Failure> {
        if self.device == Target::Cpu {
            if !self.tf32 {
                return function();
            }
            let message = "--tf32 is for a GPU: a CPU multiplies 32-bit numbers in full precision; add --device cuda";
            return Err(Failure::Input(message.to_owned()));
        }
        let precision = if self.tf32 { MatmulPrecision::Tf32 } else { MatmulPrecision::Full };
        Context::open_with(self.device, precision).map_err(Failure::input)?.run(function)
    }
}

/// The GPUs of this machine as text, or why none can be used.
pub(crate) fn described() -> Result<Vec<String>, String> {
    gpus().map(|gpus| gpus.iter().map(ToString::to_string).collect()).map_err(|error| error.to_string())
}
