//! The world of an MPI job as a communicator.
#![allow(unsafe_code)]

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use glassgrad::collective::Communicator;
use glassgrad::dtype::DType;
use glassgrad::error::Error;
use mpi::Threading;
use mpi::collective::SystemOperation;
use mpi::datatype::{Partition, PartitionMut};
use mpi::environment::Universe;
use mpi::request::{Request, Scope};
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator as _, CommunicatorCollectives as _, Equivalence, Root as _};

/// All ranks of an MPI job. It is created once in a process, and MPI is finalised when it is dropped.
///
/// A rank that is lost ends the job: the launcher (`mpirun`, `srun`) ends the others, within a second on one machine.
///
/// ```no_run
/// use std::sync::Arc;
/// use glassgrad::collective::Shards;
/// use glassgrad_mpi::MpiCommunicator;
/// let shards = Shards::new(Arc::new(MpiCommunicator::initialise()?), 8)?;
/// println!("rank {} of {} has the shards {:?}", shards.rank(), shards.ranks(), shards.local());
/// # Ok::<(), glassgrad::error::Error>(())
/// ```
pub struct MpiCommunicator {
    world: Mutex<World>,
    rank: usize,
    size: usize,
}

struct World {
    communicator: SimpleCommunicator,
    /// MPI is finalised when it is dropped.
    universe: Universe,
}

// SAFETY: MPI was initialised with `MPI_THREAD_SERIALIZED` or more, so that any thread may call it, one at a time, which the mutex
// around this ensures.
unsafe impl Send for World {}

impl MpiCommunicator {
    /// Initialises MPI. A process that no launcher started is a job of one rank.
    pub fn initialise() -> Result<MpiCommunicator, Error> {
        let refuse = |message: &str, help: &str| Error::new("mpi", message).help(help);
        let Some((universe, provided)) = mpi::initialize_with_threading(Threading::Serialized) else {
            return Err(refuse("MPI is initialised already", "create one MpiCommunicator, and share it"));
        };
        if provided < Threading::Serialized {
            let help = "install an MPI library with MPI_THREAD_SERIALIZED: messages are made by a thread of their own";
            return Err(refuse("this MPI library may be called by one thread only", help));
        }
        let communicator = universe.world();
        let (rank, size) = (communicator.rank() as usize, communicator.size() as usize);
        Ok(MpiCommunicator { world: Mutex::new(World { communicator, universe }), rank, size })
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts and offsets as MPI takes them.
fn layout(counts: &[usize]) -> Result<(Vec<i32>, Vec<i32>), Error> {
    let (mut offsets, mut end) = (Vec::with_capacity(counts.len()), 0_usize);
    for count in counts {
        offsets.push(end);
        end += count;
    }
    let numbers =
        |numbers: &[usize]| numbers.iter().map(|number| i32::try_from(*number)).collect::<Result<Vec<_>, _>>();
    match (numbers(counts), numbers(&offsets), i32::try_from(end)) {
        (Ok(counts), Ok(offsets), Ok(_)) => Ok((counts, offsets)),
        _ => Err(Error::new("mpi", format!("a message of {end} bytes is longer than MPI takes, {} bytes", i32::MAX))
            .help("split the tensor: a collective is one message")),
    }
}

/// For this long a message is asked for again and again, and the core is offered to others in between. With 100 µs steps of two ranks took up to half as long again.
const POLLING: Duration = Duration::from_millis(2);
/// Then it is asked for in these intervals. A library that waits keeps a core busy, which other threads of this rank compute on.
const INTERVAL: Duration = Duration::from_micros(20);

/// Waits for a message.
fn wait<'a, D: ?Sized, S: Scope<'a>>(mut request: Request<'a, D, S>) {
    let started = Instant::now();
    while let Err(unfinished) = request.test() {
        request = unfinished;
        match started.elapsed() < POLLING {
            true => std::thread::yield_now(),
            false => std::thread::sleep(INTERVAL),
        }
    }
}

/// `MPI_Allreduce` of numbers that are given as bytes.
fn all_reduce<T: Equivalence + Copy + Default, const N: usize>(
    communicator: &SimpleCommunicator,
    bytes: &mut [u8],
    number: fn([u8; N]) -> T,
    of_number: fn(T) -> [u8; N],
) {
    let own: Vec<T> = bytes.as_chunks::<N>().0.iter().map(|word| number(*word)).collect();
    let mut sums = vec![T::default(); own.len()];
    mpi::request::scope(|scope| {
        wait(communicator.immediate_all_reduce_into(scope, &own[..], &mut sums[..], SystemOperation::sum()));
    });
    bytes.as_chunks_mut::<N>().0.iter_mut().zip(sums).for_each(|(word, sum)| *word = of_number(sum));
}

impl Communicator for MpiCommunicator {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn all_gather(&self, send: &[u8], counts: &[usize], receive: &mut [u8]) -> Result<(), Error> {
        let (counts, offsets) = layout(counts)?;
        let mut parts = PartitionMut::new(receive, counts, offsets);
        let world = self.world();
        mpi::request::scope(|scope| {
            wait(world.communicator.immediate_all_gather_varcount_into(scope, send, &mut parts));
        });
        Ok(())
    }

    fn all_to_all(
        &self,
        send: &[u8],
        send_counts: &[usize],
        receive: &mut [u8],
        receive_counts: &[usize],
    ) -> Result<(), Error> {
        let (send_counts, send_offsets) = layout(send_counts)?;
        let (receive_counts, receive_offsets) = layout(receive_counts)?;
        let send = Partition::new(send, send_counts, send_offsets);
        let mut receive = PartitionMut::new(receive, receive_counts, receive_offsets);
        let world = self.world();
        mpi::request::scope(|scope| {
            wait(world.communicator.immediate_all_to_all_varcount_into(scope, &send, &mut receive));
        });
        Ok(())
    }

    fn broadcast(&self, root: usize, bytes: &mut [u8]) -> Result<(), Error> {
        // An empty slice has no address that MPI accepts.
        if bytes.is_empty() {
            return Ok(());
        }
        layout(&[bytes.len()])?;
        let world = self.world();
        let root = world.communicator.process_at_rank(root as i32);
        mpi::request::scope(|scope| wait(root.immediate_broadcast_into(scope, bytes)));
        Ok(())
    }

    fn sum(&self, dtype: DType, bytes: &mut [u8]) -> Result<bool, Error> {
        layout(&[bytes.len()])?;
        let world = self.world();
        match dtype {
            DType::F32 => all_reduce(&world.communicator, bytes, f32::from_ne_bytes, f32::to_ne_bytes),
            DType::F64 => all_reduce(&world.communicator, bytes, f64::from_ne_bytes, f64::to_ne_bytes),
            DType::I64 => all_reduce(&world.communicator, bytes, i64::from_ne_bytes, i64::to_ne_bytes),
            DType::Bool | DType::F16 | DType::BF16 | DType::I32 | DType::U8 => {
                unreachable!("sums over shards are of compute types, and truth values are refused: {dtype}")
            }
        }
        Ok(true)
    }

    /// It ends this process too, with the code 1. The message is the caller's to show.
    fn abort(&self, _: &str) {
        match self.world.try_lock() {
            Ok(world) => world.communicator.abort(1),
            // Another thread waits in MPI for a rank: the launcher ends the job when this process ends.
            Err(_) => std::process::exit(1),
        }
    }

    fn describe(&self) -> String {
        let version = mpi::environment::library_version().unwrap_or_default();
        let name = version.split([',', '\n', '\0']).next().unwrap_or_default().trim().to_owned();
        let (major, minor) = mpi::environment::version();
        let _universe = &self.world().universe;
        format!("{name} (MPI {major}.{minor})")
    }
}
