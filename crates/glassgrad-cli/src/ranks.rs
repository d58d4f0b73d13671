//! The ranks of a job: processes that `mpirun` or `srun` has started, and that train together.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use glassgrad::collective::{Communicator, Shards, Solo, Traffic};
use glassgrad::exec::{NcclCommunicator, Target};
use glassgrad::hashing::Fingerprint;
use glassgrad::tree::Tree as _;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::experiment::settings::Settings;
use crate::experiment::task::Task;
use crate::failure::Failure;

/// What launchers of MPI programs tell each process: the number of ranks.
const SIZES: [&str; 3] = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"];
/// What they tell it about the rank. `srun` without MPI sets only the size.
const RANKS: [&str; 3] = ["OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"];

/// The number of ranks that a launcher has started, if one has.
fn launched() -> Option<usize> {
    RANKS.iter().find_map(std::env::var_os)?;
    Some(SIZES.iter().find_map(|name| std::env::var(name).ok()?.parse().ok()).unwrap_or(1))
}

/// This process as a rank of its job.
pub(crate) struct Ranks {
    communicator: Arc<dyn Communicator>,
}

impl Ranks {
    /// Joins the job; a process that no launcher started is a job of one rank.
    pub(crate) fn join() -> Result<Ranks, Failure> {
        Ok(Ranks { communicator: communicator(launched())? })
    }

    /// The same ranks with messages between their GPUs.
    pub(crate) fn by_nccl(self, device: Target) -> Result<Ranks, Failure> {
        let Target::Cuda(gpu) = device else {
            return Err(Failure::Input("--nccl is for GPUs; add --device cuda".to_owned()));
        };
        let communicator = NcclCommunicator::new(self.communicator, gpu).map_err(Failure::result)?;
        Ok(Ranks { communicator: Arc::new(communicator) })
    }

    pub(crate) fn size(&self) -> usize {
        self.communicator.size()
    }

    /// Whether this rank reports and saves.
    pub(crate) fn is_first(&self) -> bool {
        self.communicator.rank() == 0
    }

    /// Checks that all ranks were started with the same version, device and settings.
    pub(crate) fn check_settings(
        &self,
        settings: &Settings,
        device: &str,
        flags: &[(&str, bool)],
    ) -> Result<(), Failure> {
        let Ok(Value::Object(values)) = serde_json::to_value(settings) else {
            unreachable!("settings are an object of JSON");
        };
        let names: Vec<(String, String)> = values
            .into_iter()
            .map(|(name, value)| {
                if name == "data" {
                    ("data".to_owned(), value)
                } else {
                    (format!("--{}", name.replace('_', "-")), value)
                }
            })
            .map(|(name, value)| (name, value.to_string()))
            .collect();
        let mut facts = vec![("version", env!("CARGO_PKG_VERSION").to_owned()), ("device", device.to_owned())];
        facts.extend(flags.iter().map(|(name, is_on)| (*name, is_on.to_string())));
        facts.extend(names.iter().map(|(name, value)| (name.as_str(), value.clone())));
        self.communicator.agree(&facts).map_err(Failure::input)
    }

    /// The shards of every batch, if there are several, or several ranks.
    pub(crate) fn shards(&self, count: usize, any_order: bool) -> Result<Option<Arc<Shards>>, Failure> {
        if count == 1 && self.size() == 1 {
            return Ok(None);
        }
        let shards = Shards::over(Arc::clone(&self.communicator), count);
        let ordered = |shards: Shards| if any_order { shards.sum_in_any_order() } else { shards };
        shards
            .map(|shards| Some(Arc::new(ordered(shards))))
            .map_err(|error| Failure::Input(format!("--shards: {error}")))
    }

    /// What rank 0 finds, with the part that only rank 0 has; other ranks have the rest alone.
    pub(crate) fn broadcast_first<F, T: Serialize + DeserializeOwned>(
        &self,
        find: impl FnOnce() -> Result<(Option<F>, T), Failure>,
    ) -> Result<(Option<F>, T), Failure> {
        if self.size() == 1 {
            return find();
        }
        let found = self.is_first().then(find);
        let message = match &found {
            Some(Ok((_, rest))) => serde_json::to_vec(rest).map_err(Failure::result)?,
            // An error of rank 0 is reported there: nothing is sent.
            Some(Err(_)) | None => Vec::new(),
        };
        let message = self.communicator.broadcast_first(message).map_err(Failure::result)?;
        match found {
            Some(found) => found,
            None if message.is_empty() => Err(Failure::Result("rank 0 could not begin".to_owned())),
            None => Ok((None, serde_json::from_slice(&message).map_err(Failure::result)?)),
        }
    }

    /// Calls a function on all ranks, on rank 0 before the others if it downloads what they read.
    pub(crate) fn one_before_others<T>(
        &self,
        is_download: bool,
        function: impl Fn() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        if self.size() == 1 || !is_download {
            return function();
        }
        let found = self.is_first().then(&function);
        self.communicator.broadcast_first(Vec::new()).map_err(Failure::result)?;
        found.unwrap_or_else(function)
    }

    /// Shares work among the ranks: of a list, rank r of R works on the items r, r + R, …, and all ranks have all results, in the
    /// order of the list. Work that ends early has fewer results; what follows the first gap is dropped.
    pub(crate) fn share<T, R: Serialize + DeserializeOwned>(
        &self,
        items: Vec<T>,
        mut work: impl FnMut(T) -> Result<Option<R>, Failure>,
    ) -> Result<Vec<R>, Failure> {
        let (rank, size) = (self.communicator.rank(), self.size());
        let mut own: Vec<R> = Vec::new();
        for item in items.into_iter().skip(rank).step_by(size) {
            match work(item)? {
                Some(result) => own.push(result),
                None => break,
            }
        }
        if size == 1 {
            return Ok(own);
        }
        let own = serde_json::to_vec(&own).map_err(Failure::result)?;
        let all = self.communicator.all_gather_lists(&own).map_err(Failure::result)?;
        let lists = all.iter().map(|list| serde_json::from_slice::<Vec<R>>(list).map(Vec::into_iter));
        let mut lists = lists.collect::<Result<Vec<_>, _>>().map_err(Failure::result)?;
        Ok((0..).map_while(|place| lists[place % size].next()).collect())
    }

    /// Ends the part of this rank. A failure ends the whole job: the other ranks wait for this one.
    pub(crate) fn end(self, done: Result<(), Failure>) -> Result<(), Failure> {
        let failure = match done {
            Err(failure) if self.size() > 1 => failure,
            done => return done,
        };
        // What all ranks have noticed rank 0 reports, and ends the job; the others leave it the time to.
        let failure = match self.communicator.rank() {
            0 => failure,
            rank => {
                std::thread::sleep(Duration::from_millis(500));
                Failure::Result(format!("rank {rank}: {failure}"))
            }
        };
        crate::report(&failure);
        self.communicator.abort(&failure.to_string());
        Err(failure)
    }
}

#[cfg(feature = "mpi")]
fn communicator(launched: Option<usize>) -> Result<Arc<dyn Communicator>, Failure> {
    match launched {
        Some(_) => Ok(Arc::new(glassgrad_mpi::MpiCommunicator::initialise().map_err(Failure::result)?)),
        None => Ok(Arc::new(Solo)),
    }
}

#[cfg(not(feature = "mpi"))]
fn communicator(launched: Option<usize>) -> Result<Arc<dyn Communicator>, Failure> {
    match launched {
        // Each process would train alone, and write over what the others write.
        Some(ranks) if ranks > 1 => Err(Failure::Input(format!(
            "this process is one of {ranks} ranks, and the program was built without MPI: build it with --features mpi (docs/scaling.md)"
        ))),
        _ => Ok(Arc::new(Solo)),
    }
}

/// The default number of shards of a job with this many ranks.
pub(crate) fn default_shards(ranks: usize) -> usize {
    ranks.next_power_of_two().max(8)
}

/// Checks that all ranks have loaded the same examples.
pub(crate) fn check_data(shards: &Shards, task: &Task) -> Result<(), Failure> {
    if shards.ranks() == 1 {
        return Ok(());
    }
    let mut hash = Fingerprint::default();
    for (_, leaf) in task.training.tensors().leaves() {
        hash.words(leaf.shape());
        let bytes = leaf.eval().map_err(Failure::result)?.buffer().to_bytes();
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| hash.word(u64::from_le_bytes(*word)));
        rest.iter().for_each(|byte| hash.word(u64::from(*byte)));
    }
    let facts = [("data", format!("{} with the fingerprint {:032x}", task.about.name, hash.finish()))];
    shards.agree(&facts).map_err(Failure::input)
}

/// What a distributed run reports about itself.
pub(crate) struct Distributed {
    ranks: usize,
    shards: usize,
    transport: String,
    traffic: Traffic,
}

impl Distributed {
    pub(crate) fn of(shards: &Shards) -> Distributed {
        Distributed {
            ranks: shards.ranks(),
            shards: shards.count(),
            transport: shards.communicator().describe(),
            traffic: shards.traffic(),
        }
    }

    pub(crate) fn to_json(&self) -> Value {
        let Traffic { collectives, bytes, busy, exposed } = self.traffic;
        json!({
            "ranks": self.ranks, "shards": self.shards, "transport": self.transport, "collectives": collectives, "bytes": bytes,
            "communication_seconds": busy.as_secs_f64(), "exposed_seconds": exposed.as_secs_f64(), "hidden": self.traffic.hidden(),
        })
    }
}

/// One line.
impl fmt::Display for Distributed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Distributed { ranks, shards, transport, traffic } = self;
        write!(formatter, "{shards} shards on {ranks} rank{} ({transport})", if *ranks == 1 { "" } else { "s" })?;
        write!(formatter, "; {} collectives, {:.1} MB", traffic.collectives, traffic.bytes as f64 / 1e6)?;
        match traffic.hidden() {
            Some(hidden) => {
                let seconds = traffic.busy.as_secs_f64();
                write!(formatter, ", {seconds:.2} s of communication, {:.0} % of it hidden", 100.0 * hidden)
            }
            None => Ok(()),
        }
    }
}
