//! The shards of a batch, and those of this rank: their programs run beside each other, and their collectives meet here.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::communicator::Communicator;
use super::exchange::{Exchange, Outcome, Request};
use super::scope::{Scope, within};
use super::tree::{self, Block, shards_of};
use crate::clock::Instant;
use crate::error::Error;

/// The shards of every batch, distributed over the ranks of a job.
///
/// A batch is split into a fixed number of shards, and each rank runs some of them. What is computed depends on the number of shards, and
/// not on the number of ranks.
///
/// ```
/// use std::sync::Arc;
/// use glassgrad::{Tensor, collective::{Shards, Solo, ThreadRank}, compile};
/// let numbers = [0.1, 1e8, -1e8, 0.3];
/// let sum = |shards: Shards| {
///     let summed = compile(|x: &Tensor| x.all_reduce());
///     let own: Vec<Tensor> = shards.local().map(|shard| Tensor::from(numbers[shard])).collect();
///     summed.call_shards(&shards, &own).unwrap()[0].item().unwrap()
/// };
/// let alone = sum(Shards::new(Arc::new(Solo), 4).unwrap());
/// for ranks in [2, 3, 4] {
///     let all = ThreadRank::run(ranks, |rank| sum(Shards::new(rank, 4).unwrap()));
///     assert_eq!(all, vec![alone; ranks]);
/// }
/// ```
pub struct Shards {
    group: Arc<Group>,
    /// Threads for all shards of this rank but the first, which runs on the thread of the caller.
    workers: Vec<Sender<Work>>,
    threads: Vec<JoinHandle<()>>,
}

type Work = Box<dyn FnOnce() + Send>;

/// What the collectives of this rank have cost so far.
///
/// ```
/// use glassgrad::collective::Traffic;
/// use std::time::Duration;
/// let traffic = Traffic { busy: Duration::from_secs(4), exposed: Duration::from_secs(1), ..Traffic::default() };
/// assert_eq!(traffic.hidden(), Some(0.75));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// The number of collectives.
    pub collectives: u64,
    /// The bytes of their operands, for one shard.
    pub bytes: u64,
    /// The time that messages took.
    pub busy: Duration,
    /// The part of it in which all shards of this rank waited for them.
    pub exposed: Duration,
}

impl Traffic {
    /// The share of the time of messages in which some shard of this rank computed; `None` without messages.
    ///
    /// ```
    /// assert_eq!(glassgrad::collective::Traffic::default().hidden(), None);
    /// ```
    pub fn hidden(&self) -> Option<f64> {
        (!self.busy.is_zero()).then(|| 1.0 - self.exposed.as_secs_f64() / self.busy.as_secs_f64())
    }
}

/// When the collectives of a run were complete on this rank, which is when their messages can begin, and when their results were needed.
///
/// ```
/// use std::sync::Arc;
/// use glassgrad::{Tensor, collective::{Shards, Solo}, compile};
/// let shards = Shards::new(Arc::new(Solo), 2).unwrap();
/// let summed = compile(|x: &Tensor| x.all_reduce());
/// summed.call_shards(&shards, &[Tensor::zeros([3]), Tensor::zeros([3])]).unwrap();
/// let timeline = shards.timeline();
/// assert_eq!(timeline.collectives.len(), 1);
/// let sum = timeline.collectives[0];
/// assert!(sum.ready <= sum.needed && sum.needed <= timeline.end && sum.bytes == 12);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timeline {
    /// The collectives in their order.
    pub collectives: Vec<Milestones>,
    /// The end of the run.
    pub end: Duration,
}

/// When a collective was complete and needed, since the beginning of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Milestones {
    /// All local shards had reached it.
    pub ready: Duration,
    /// All local shards had asked for its result.
    pub needed: Duration,
    /// The bytes of an operand.
    pub bytes: usize,
}

impl Shards {
    /// The shards of a job: a power of two, and at least one for each rank.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use glassgrad::collective::{Shards, Solo};
    /// assert_eq!(Shards::new(Arc::new(Solo), 8).unwrap().local(), 0..8);
    /// assert!(Shards::new(Arc::new(Solo), 6).err().unwrap().to_string().contains("6 shards are no power of two"));
    /// ```
    pub fn new(communicator: Arc<impl Communicator + 'static>, count: usize) -> Result<Shards, Error> {
        Shards::over(communicator, count)
    }

    /// [`Shards::new`] for a communicator whose type is not known.
    pub fn over(communicator: Arc<dyn Communicator>, count: usize) -> Result<Shards, Error> {
        let (rank, ranks) = (communicator.rank(), communicator.size());
        if !count.is_power_of_two() {
            let help = "choose 1, 2, 4, 8, …: sums over shards are evaluated by a binary tree";
            return Err(Error::new("shards", format!("{count} shards are no power of two")).help(help));
        }
        if ranks > count {
            let message = format!("{count} shards are too few for {ranks} ranks: a rank has at least one");
            let help = format!("choose {} shards or more, or fewer ranks", ranks.next_power_of_two());
            return Err(Error::new("shards", message).help(help));
        }
        let local = shards_of(rank, ranks, count);
        let state = State { next: vec![0; local.len()], ..State::default() };
        let group = Arc::new(Group {
            communicator,
            count,
            local,
            state: Mutex::new(state),
            changed: Condvar::new(),
            transport: Mutex::default(),
            any_order: AtomicBool::new(false),
        });
        let mut shards = Shards { group, workers: Vec::new(), threads: Vec::new() };
        for _ in 1..shards.group.local.len() {
            let (sender, receiver) = channel::<Work>();
            shards.workers.push(sender);
            shards.threads.push(std::thread::spawn(move || receiver.into_iter().for_each(|work| work())));
        }
        if ranks > 1 {
            let group = Arc::clone(&shards.group);
            shards.threads.push(std::thread::spawn(move || group.communicate()));
        }
        Ok(shards)
    }

    /// The number of shards of a batch.
    pub fn count(&self) -> usize {
        self.group.count
    }

    /// The shards of this rank.
    pub fn local(&self) -> Range<usize> {
        self.group.local.clone()
    }

    /// The number of this rank.
    pub fn rank(&self) -> usize {
        self.group.communicator.rank()
    }

    /// The number of ranks.
    pub fn ranks(&self) -> usize {
        self.group.communicator.size()
    }

    /// The transport between ranks.
    pub fn communicator(&self) -> &dyn Communicator {
        &*self.group.communicator
    }

    /// What collectives have cost on this rank so far.
    pub fn traffic(&self) -> Traffic {
        self.group.state().traffic
    }

    /// Lets the transport sum large operands in an order of its own, as `MPI_Allreduce` does: fewer bytes where the number of ranks is no power of
    /// two, and sums in the network where it can, but the bits of results depend on the number of ranks. All ranks must ask for it.
    ///
    /// ```
    /// use glassgrad::{Tensor, collective::{Shards, ThreadRank}, compile};
    /// let sums = ThreadRank::run(2, |rank| {
    ///     let shards = Shards::new(rank, 2).unwrap().sum_in_any_order();
    ///     let all = compile(|x: &Tensor| x.all_reduce()).call_shards(&shards, &[Tensor::ones([2000])]).unwrap();
    ///     all[0].to_vec::<f32>().unwrap()
    /// });
    /// assert_eq!(sums[0], [2.0; 2000]);
    /// ```
    pub fn sum_in_any_order(self) -> Shards {
        self.group.any_order.store(true, Ordering::Relaxed);
        self
    }

    /// The last run of the programs of this rank's shards.
    pub fn timeline(&self) -> Timeline {
        self.group.state().timeline.clone()
    }

    /// Ends the job on all ranks, because this one cannot continue.
    pub fn abort(&self, message: &str) {
        self.group.communicator.abort(message);
    }

    /// The bytes of rank 0, for all ranks, whatever others have.
    ///
    /// ```
    /// use glassgrad::collective::{Shards, ThreadRank};
    /// let all = ThreadRank::run(2, |rank| {
    ///     let shards = Shards::new(rank, 2).unwrap();
    ///     shards.broadcast_first(vec![7; 3 * (1 - shards.rank())]).unwrap()
    /// });
    /// assert_eq!(all, [[7, 7, 7], [7, 7, 7]]);
    /// ```
    pub fn broadcast_first(&self, bytes: Vec<u8>) -> Result<Vec<u8>, Error> {
        let _alone = self.group.transport();
        self.communicator().broadcast_first(bytes)
    }

    /// The bytes of each rank, for all ranks; their numbers may differ.
    pub fn all_gather_lists(&self, own: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        let _alone = self.group.transport();
        self.communicator().all_gather_lists(own)
    }

    /// Checks that all ranks have the same facts, such as the version and the data; the error names the first difference, with both
    /// sides, and is the same on every rank.
    ///
    /// ```
    /// use glassgrad::collective::{Communicator, Shards, ThreadRank};
    /// let errors = ThreadRank::run(2, |rank| {
    ///     let epochs = if rank.rank() == 0 { "10" } else { "20" };
    ///     let shards = Shards::new(rank, 2).unwrap();
    ///     shards.agree(&[("data", "iris".into()), ("epochs", epochs.into())]).unwrap_err().to_string()
    /// });
    /// assert!(errors[1].contains("rank 1 has epochs 20, and rank 0 has 10"), "{}", errors[1]);
    /// assert_eq!(errors[0], errors[1]);
    /// ```
    pub fn agree(&self, facts: &[(&str, String)]) -> Result<(), Error> {
        let _alone = self.group.transport();
        self.communicator().agree(facts)
    }

    /// Calls a function that builds graphs for the program of a shard: collectives in it are among these shards.
    pub fn trace<R>(&self, function: impl FnOnce() -> R) -> R {
        within(Scope { shards: self.count(), replica: None }, function)
    }

    /// Runs the programs of the local shards beside each other, and returns their results in the order of the shards. An error of one
    /// ends them all.
    pub fn run<T: Send + 'static>(
        &self,
        programs: Vec<impl FnOnce() -> Result<T, Error> + Send + 'static>,
    ) -> Result<Vec<T>, Error> {
        let count = self.group.local.len();
        assert_eq!(programs.len(), count, "a program for each shard of this rank");
        self.group.check()?;
        let started = self.group.start();
        let (sender, finished) = channel();
        let mut programs = programs.into_iter().enumerate();
        let first = programs.next();
        for ((place, program), worker) in programs.zip(&self.workers) {
            let (group, sender) = (Arc::clone(&self.group), sender.clone());
            let work = move || {
                let done = group.run_one(place, program);
                // The other end waits for it.
                drop(group);
                let _ = sender.send((place, done));
            };
            if worker.send(Box::new(work)).is_err() {
                unreachable!("the thread of a shard ends only with its group");
            }
        }
        drop(sender);
        let mut results: Vec<Option<Result<T, Error>>> = (0..count).map(|_| None).collect();
        if let Some((place, program)) = first {
            results[place] = Some(self.group.run_one(place, program));
        }
        finished.into_iter().for_each(|(place, done)| results[place] = Some(done));
        self.group.state().timeline.end = started.elapsed();
        // The error that came first, and not those of the shards that it ended.
        self.group.check()?;
        results.into_iter().flatten().collect()
    }
}

impl Drop for Shards {
    fn drop(&mut self) {
        self.workers.clear();
        self.group.state().closed = true;
        self.group.changed.notify_all();
        for thread in self.threads.drain(..) {
            // A panic was reported where it happened.
            let _ = thread.join();
        }
    }
}

/// The shards of this rank, and what they are doing together.
pub(super) struct Group {
    communicator: Arc<dyn Communicator>,
    count: usize,
    local: Range<usize>,
    state: Mutex<State>,
    changed: Condvar,
    /// Held while the transport is used: calls of the communicator are made from one thread at a time.
    transport: Mutex<()>,
    /// Whether sums may be evaluated in another order than that of the tree.
    any_order: AtomicBool,
}

#[derive(Default)]
struct State {
    /// The number of collectives that each local shard has posted.
    next: Vec<u64>,
    pending: HashMap<u64, Pending>,
    /// The number of collectives whose messages are over.
    exchanged: u64,
    /// Memory for operands, by size.
    spare: HashMap<usize, Vec<Vec<u8>>>,
    failure: Option<Error>,
    closed: bool,
    traffic: Traffic,
    /// The run that is under way, or the last one, and its beginning.
    timeline: Timeline,
    started: Option<Instant>,
    /// The number of the first collective of the run.
    first: u64,
    /// How many local shards wait for an outcome, since when all of them do, and for how long they did before.
    waiting: usize,
    all_wait: Option<Instant>,
    waited: Duration,
}

/// A collective that some local shard has reached.
struct Pending {
    request: Request,
    /// Partial sums of subtrees, or the operands of shards, by their first shard.
    blocks: BTreeMap<usize, (Block, Vec<u8>)>,
    outcome: Option<Arc<Outcome>>,
    /// How many local shards have asked for the outcome.
    asked: usize,
    /// How many local shards have the outcome.
    taken: usize,
}

/// Most buffers of one size that are kept for operands.
const MOST_SPARE: usize = 16;

impl Group {
    pub(super) fn count(&self) -> usize {
        self.count
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn transport(&self) -> MutexGuard<'_, ()> {
        self.transport.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The error that has ended this group, if there was one.
    fn check(&self) -> Result<(), Error> {
        self.state().failure.clone().map_or(Ok(()), Err)
    }

    /// Begins a run.
    fn start(&self) -> Instant {
        let (now, mut state) = (Instant::now(), self.state());
        state.timeline.collectives.clear();
        state.first = state.next.iter().copied().max().unwrap_or(0);
        state.started = Some(now);
        now
    }

    fn fail(&self, error: Error) {
        self.state().failure.get_or_insert(error);
        self.changed.notify_all();
    }

    /// Runs the program of one local shard.
    fn run_one<T>(self: &Arc<Self>, place: usize, program: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
        let scope = Scope { shards: self.count, replica: Some((Arc::clone(self), place)) };
        let done = catch_unwind(AssertUnwindSafe(|| within(scope, program))).unwrap_or_else(|payload| {
            let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let text = text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_default();
            Err(Error::new("shards", format!("the program of shard {} panicked: {text}", self.local.start + place)))
        });
        if let Err(error) = &done {
            self.fail(error.clone());
        }
        done
    }

    /// Hands in the operand of a local shard, and returns the number of the collective.
    pub(super) fn post(&self, place: usize, request: Request, operand: &[u8]) -> Result<u64, Error> {
        let mut state = self.state();
        let mut bytes = state.spare.get_mut(&operand.len()).and_then(Vec::pop).unwrap_or_default();
        drop(state);
        bytes.clear();
        bytes.extend_from_slice(operand);
        let mut block = Block::shard(self.local.start + place);
        state = self.state();
        let number = state.next[place];
        state.next[place] += 1;
        let entry = state.pending.entry(number).or_insert_with(|| Pending {
            request,
            blocks: BTreeMap::new(),
            outcome: None,
            asked: 0,
            taken: 0,
        });
        if entry.request != request {
            let (first, other) = (entry.request, request);
            drop(state);
            let message = format!(
                "shard {} is at {} of {} bytes, and another one at {} of {} bytes",
                self.local.start + place,
                other.collective,
                other.bytes,
                first.collective,
                first.bytes
            );
            let error = Error::new(request.collective.kind.name(), message)
                .help("all shards must run the same program: what it computes may not depend on the shard");
            self.fail(error.clone());
            return Err(error);
        }
        // Siblings are added by the shard that comes second, which changes no bit: each addition has its operands in order.
        loop {
            let Some(pending) = state.pending.get_mut(&number) else {
                unreachable!("a collective ends when all have it")
            };
            let sibling = request.collective.kind.adds().then(|| pending.blocks.remove(&block.sibling().first));
            match sibling.flatten() {
                Some((other, others)) if other == block.sibling() => {
                    drop(state);
                    let (mut left, right) = if block.is_left() { (bytes, others) } else { (others, bytes) };
                    tree::add(request.dtype, &mut left, &right);
                    (block, bytes) = (block.parent(), left);
                    state = self.state();
                    state.recycle(right);
                }
                other => {
                    // A block at the place of the sibling that is smaller: its own sibling is still to come.
                    pending.blocks.extend(other.map(|(smaller, bytes)| (smaller.first, (smaller, bytes))));
                    pending.blocks.insert(block.first, (block, bytes));
                    break;
                }
            }
        }
        if state.pending.get(&number).is_some_and(|pending| self.is_complete(pending)) {
            let ready = state.elapsed();
            let milestones = state.milestones(number);
            (milestones.ready, milestones.bytes) = (ready, request.bytes);
        }
        if self.communicator.size() == 1 {
            self.finish_alone(&mut state, number);
        } else {
            self.changed.notify_all();
        }
        Ok(number)
    }

    fn exchange(&self, number: u64, request: Request) -> Exchange<'_> {
        Exchange {
            communicator: &*self.communicator,
            number,
            request,
            any_order: self.any_order.load(Ordering::Relaxed),
        }
    }

    /// Ends a collective of a job of one rank that all shards have reached: no message is sent.
    fn finish_alone(&self, state: &mut State, number: u64) {
        let is_complete = |pending: &&mut Pending| self.is_complete(pending);
        let Some(pending) = state.pending.get_mut(&number).filter(is_complete) else { return };
        let blocks = std::mem::take(&mut pending.blocks).into_values().collect();
        let exchange = self.exchange(number, pending.request);
        match exchange.run(blocks) {
            Ok(outcome) => pending.outcome = Some(Arc::new(outcome)),
            Err(error) => state.failure = state.failure.take().or(Some(error)),
        }
        state.count(number);
        self.changed.notify_all();
    }

    /// Whether all local shards have reached a collective. Blocks that are being added are in no list meanwhile.
    fn is_complete(&self, pending: &Pending) -> bool {
        pending.outcome.is_none()
            && pending.blocks.values().map(|(block, _)| block.size).sum::<usize>() == self.local.len()
    }

    /// Waits for the outcome of a collective, and writes what belongs to a local shard.
    pub(super) fn wait(&self, number: u64, place: usize, output: &mut [u8]) -> Result<(), Error> {
        let mut state = self.state();
        let count = self.local.len();
        let Some(pending) = state.pending.get_mut(&number) else { unreachable!("this shard has not taken it yet") };
        pending.asked += 1;
        if pending.asked == count {
            let needed = state.elapsed();
            state.milestones(number).needed = needed;
        }
        state.waiting += 1;
        if state.waiting == count {
            state.all_wait = Some(Instant::now());
        }
        let outcome = loop {
            if let Some(error) = &state.failure {
                return Err(error.clone());
            }
            let Some(pending) = state.pending.get(&number) else { unreachable!("a collective ends when all have it") };
            match &pending.outcome {
                Some(outcome) => break Arc::clone(outcome),
                None => state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        };
        state.waited = state.all_waited();
        (state.all_wait, state.waiting) = (None, state.waiting - 1);
        drop(state);
        output.copy_from_slice(outcome.of(place));
        drop(outcome);
        let mut state = self.state();
        let Some(pending) = state.pending.get_mut(&number) else { unreachable!("this shard has not taken it yet") };
        pending.taken += 1;
        if pending.taken == count
            && let Some(outcome) = state.pending.remove(&number).and_then(|pending| pending.outcome)
            && let Some(Outcome::Same(bytes)) = Arc::into_inner(outcome)
            && let Some(bytes) = Arc::into_inner(bytes)
        {
            state.recycle(bytes);
        }
        Ok(())
    }

    /// The communication thread: makes the messages of collectives, one after another in their order, while shards compute.
    fn communicate(&self) {
        let mut state = self.state();
        loop {
            let number = state.exchanged;
            let is_complete = |pending: &&mut Pending| self.is_complete(pending);
            if state.failure.is_some() {
                return;
            }
            let Some(pending) = state.pending.get_mut(&number).filter(is_complete) else {
                if state.closed {
                    return;
                }
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let (request, blocks) = (pending.request, std::mem::take(&mut pending.blocks).into_values().collect());
            let waited = state.all_waited();
            drop(state);
            let started = Instant::now();
            let done = {
                let _alone = self.transport();
                self.exchange(number, request).run(blocks)
            };
            let busy = started.elapsed();
            state = self.state();
            match done {
                Ok(outcome) => {
                    let Some(pending) = state.pending.get_mut(&number) else {
                        unreachable!("no shard has taken it yet")
                    };
                    pending.outcome = Some(Arc::new(outcome));
                    let exposed = state.all_waited().saturating_sub(waited).min(busy);
                    state.traffic.busy += busy;
                    state.traffic.exposed += exposed;
                    state.count(number);
                }
                Err(error) => state.failure = Some(error),
            }
            state.exchanged += 1;
            self.changed.notify_all();
        }
    }
}

impl State {
    /// For how long all local shards have waited at the same time.
    fn all_waited(&self) -> Duration {
        self.waited + self.all_wait.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// The time since the run began.
    fn elapsed(&self) -> Duration {
        self.started.map_or(Duration::ZERO, |started| started.elapsed())
    }

    /// What is recorded about a collective of this run.
    fn milestones(&mut self, number: u64) -> &mut Milestones {
        let place = (number - self.first) as usize;
        let recorded = &mut self.timeline.collectives;
        if recorded.len() <= place {
            recorded.resize(place + 1, Milestones::default());
        }
        &mut recorded[place]
    }

    /// Counts a collective that is over.
    fn count(&mut self, number: u64) {
        let bytes = self.pending.get(&number).map_or(0, |pending| pending.request.bytes as u64);
        self.traffic.collectives += 1;
        self.traffic.bytes += bytes;
    }

    /// Keeps memory for a later operand.
    fn recycle(&mut self, bytes: Vec<u8>) {
        let spare = self.spare.entry(bytes.len()).or_default();
        if spare.len() < MOST_SPARE {
            spare.push(bytes);
        }
    }
}
