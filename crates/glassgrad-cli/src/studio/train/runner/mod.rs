//! The thread of one run: it makes steps, executes commands, evaluates the test set and computes views as the `budget` allows.
//!
//! Views and evaluation take a few percent of the time of the steps, so that a watched run is hardly slower; while it is paused or
//! waits at a limited speed, they cost nothing and are computed at once.

mod budget;
mod publish;
mod speed;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::time::{Duration, Instant};

use glassgrad::data::Examples;
use glassgrad::error::Error;
use glassgrad::expr::Tensor;
use glassgrad::optim::Optimizer;
use glassgrad::train::{Epoch, Flow, Observer, Session, Step, TrainError};
use glassgrad::tree::Tree as _;
use serde_json::{Value, json};

use super::broadcast::Broadcast;
use super::curve::Curve;
use crate::experiment::history::{EpochRecord, History};
use crate::experiment::network::Network;
use crate::experiment::objective::{Evaluator, Score};
use crate::experiment::recipe;
use crate::experiment::settings::{in_flags, in_form};
use crate::experiment::study::Study;
use crate::studio::views::Look;
use budget::Budget;
use speed::Speed;

/// Between two looks of the same kind.
const BETWEEN_LOOKS: Duration = Duration::from_millis(60);
/// Between two messages about the state: sixty a second.
const BETWEEN_STATES: Duration = Duration::from_micros(16_600);
/// The same while nobody watches.
const UNWATCHED: Duration = Duration::from_millis(500);
/// The stack of the thread of a run.
const STACK: usize = 16 << 20;
/// So many networks of the way so far are kept, if they are small enough.
const WAY: usize = 40;
const MOST_NUMBERS_OF_WAY: usize = 4_000_000;
/// So many epochs are remembered one by one.
const MOST_EPOCHS: usize = 2000;

/// How many steps a second are made at most; as many as possible without a number.
pub(super) type Pace = Option<f64>;

/// A question about a run, asked between two steps.
pub(super) type Question = Box<dyn FnOnce(&Snapshot<'_>) + Send>;

/// What a run can be told.
pub(super) enum Order {
    /// To go on: until the end, or for so many steps.
    Go {
        steps: Option<u64>,
    },
    Pause,
    /// To end here: it can still be looked at.
    Stop,
    Rate(f64),
    Pace(Pace),
    Ask(Question),
}

/// What a question sees.
pub(super) struct Snapshot<'d> {
    pub(super) study: &'d Study,
    pub(super) optimizer: &'d Optimizer,
    pub(super) session: &'d Session<'d, Network, Examples<(Tensor, Tensor)>>,
    /// The network as it is, or the last one that was good.
    pub(super) network: &'d Network,
    pub(super) history: &'d History,
    /// Networks of the way so far, from the first on.
    pub(super) way: &'d [Network],
}

/// What a run is doing.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Running,
    Paused,
    Finished,
    Stopped,
    /// The loss was not finite, or something could not be computed.
    Failed,
}

impl Phase {
    fn name(self) -> &'static str {
        match self {
            Phase::Running => "running",
            Phase::Paused => "paused",
            Phase::Finished => "finished",
            Phase::Stopped => "stopped",
            Phase::Failed => "failed",
        }
    }
}

/// Starts the thread of a run, which ends when the other end of its orders is dropped.
pub(super) fn start(study: Study, board: Arc<Broadcast>, pace: Pace, paused: bool) -> Result<Sender<Order>, String> {
    let (orders, received) = channel();
    let work = move || {
        let worked = catch_unwind(AssertUnwindSafe(|| work(&study, &board, &received, pace, paused)));
        let trouble = match worked {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.to_string(),
            Err(_) => "internal error in the run; other runs continue".to_owned(),
        };
        // Questions go unanswered from here on: who asked is told by the end of the thread.
        board.set_running(false);
        board.post("state", &json!({ "phase": Phase::Failed.name(), "trouble": { "message": trouble } }));
    };
    let thread = std::thread::Builder::new().name("run".to_owned()).stack_size(STACK);
    thread.spawn(work).map_err(|error| format!("no thread for it: {error}"))?;
    Ok(orders)
}

fn work(study: &Study, board: &Broadcast, orders: &Receiver<Order>, pace: Pace, paused: bool) -> Result<(), Error> {
    let failed = |failure: crate::failure::Failure| Error::new("train", failure.to_string());
    let optimizer = recipe::optimizer(&study.settings, study.batches()).map_err(failed)?;
    let training = study.training().map_err(failed)?;
    let session = training.session(&study.start, &study.task.training)?;
    let mut run = Run {
        study,
        board,
        optimizer: &optimizer,
        record: Record {
            evaluator: Evaluator::new(&study.objective, &study.task.test),
            loss: f64::NAN,
            rate: study.settings.lr,
            losses: Curve::new(),
            history: History::default(),
            budget: Budget::default(),
            epoch_began: Duration::ZERO,
            speed: Speed::new(),
        },
        looks: Vec::new(),
        phase: if paused { Phase::Paused } else { Phase::Running },
        left: None,
        pace,
        trouble: Value::Null,
        rate_changed: false,
        last_good: None,
        way: vec![session.parameters().clone()],
        way_every: 1,
        posted: Instant::now(),
        drawn: Instant::now(),
        session,
    };
    run.post_beginning()?;
    run.look_at_all()?;
    run.go(orders)
}

/// A run in the hands of its thread.
struct Run<'r> {
    study: &'r Study,
    board: &'r Broadcast,
    optimizer: &'r Optimizer,
    session: Session<'r, Network, Examples<(Tensor, Tensor)>>,
    record: Record<'r>,
    looks: Vec<Looking<'r>>,
    phase: Phase,
    /// How many steps are left until it pauses by itself.
    left: Option<u64>,
    pace: Pace,
    trouble: Value,
    /// Whether the learning rate was changed during the run, so that no command line reproduces it.
    rate_changed: bool,
    last_good: Option<Network>,
    way: Vec<Network>,
    way_every: u64,
    /// When the state was last put up, and the curves.
    posted: Instant,
    drawn: Instant,
}

/// What is recorded of the steps and epochs of a run.
struct Record<'r> {
    evaluator: Evaluator<'r>,
    /// The loss and the learning rate of the last step.
    loss: f64,
    rate: f64,
    losses: Curve,
    history: History,
    budget: Budget,
    /// The time of steps when this epoch began.
    epoch_began: Duration,
    speed: Speed,
}

impl Record<'_> {
    fn score(&mut self, network: &Network) -> Result<Score, Error> {
        let begin = Instant::now();
        let score = self.evaluator.evaluate(network)?.score;
        self.budget.evaluated += begin.elapsed();
        Ok(score)
    }
}

impl Observer<Network> for Record<'_> {
    fn step(&mut self, step: &Step) -> Result<Flow, Error> {
        (self.loss, self.rate) = (step.loss, step.rate);
        self.losses.push(step.number, step.loss);
        self.speed.made(step.number);
        Ok(Flow::Continue)
    }

    /// Records an epoch; the test set is evaluated if there is time for it.
    fn epoch(&mut self, epoch: &Epoch<'_, Network>) -> Result<Flow, Error> {
        let test = if self.budget.allows_evaluation() { Some(self.score(epoch.parameters)?) } else { None };
        let seconds = self.budget.trained.saturating_sub(self.epoch_began).as_secs_f64();
        self.epoch_began = self.budget.trained;
        let number = epoch.number + 1;
        let seen = EpochRecord { epoch: number, loss: epoch.loss, rate: self.rate, test, sizes: Vec::new(), seconds };
        self.history.epochs.push(seen);
        if self.history.epochs.len() >= MOST_EPOCHS {
            // Every second epoch stays, and the last.
            self.history.epochs.retain(|seen| seen.epoch % 2 == number % 2);
        }
        Ok(Flow::Continue)
    }
}

/// Something that is looked at now and then.
struct Looking<'r> {
    name: &'static str,
    look: Box<dyn Look + 'r>,
    /// The step after which it was last looked at, and when.
    step: Option<u64>,
    at: Instant,
}

impl<'r> Run<'r> {
    fn go(&mut self, orders: &Receiver<Order>) -> Result<(), Error> {
        loop {
            // Orders first, and all of them; where nothing is to be done, until one comes.
            loop {
                let order = match self.phase == Phase::Running {
                    true => match orders.try_recv() {
                        Ok(order) => order,
                        Err(TryRecvError::Empty) => break,
                        Err(TryRecvError::Disconnected) => return Ok(()),
                    },
                    false => match orders.recv() {
                        Ok(order) => order,
                        Err(_) => return Ok(()),
                    },
                };
                self.obey(order)?;
            }
            let begin = Instant::now();
            let (before, looked) = (self.phase, self.record.budget.looked());
            self.step()?;
            let looked = self.record.budget.looked() - looked;
            self.record.budget.trained += begin.elapsed().saturating_sub(looked);
            if before != self.phase {
                // It has come to an end: whatever there is to see is looked at once more.
                self.look_at_all()?;
                continue;
            }
            let between = if self.board.is_watched() { BETWEEN_STATES } else { UNWATCHED };
            if begin.duration_since(self.posted) >= between {
                self.post_state();
            }
            if self.record.budget.allows_view() {
                self.look_at_one()?;
            }
            // A step is due so long after the one before it.
            let due = self.pace.map_or(Duration::ZERO, |pace| Duration::from_secs_f64(1.0 / pace.clamp(0.1, 1e9)));
            let rest = due.saturating_sub(begin.elapsed());
            if rest > Duration::ZERO {
                self.record.budget.rested += rest;
                if rest > BETWEEN_STATES {
                    self.post_state();
                }
                match orders.recv_timeout(rest) {
                    Ok(order) => self.obey(order)?,
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => return Ok(()),
                }
            }
        }
    }

    fn obey(&mut self, order: Order) -> Result<(), Error> {
        let is_at_an_end = matches!(self.phase, Phase::Finished | Phase::Stopped | Phase::Failed);
        match order {
            Order::Go { steps } if !is_at_an_end => (self.phase, self.left) = (Phase::Running, steps),
            Order::Pause if !is_at_an_end => {
                self.phase = Phase::Paused;
                self.look_at_all()?;
            }
            Order::Stop if !is_at_an_end => {
                self.phase = Phase::Stopped;
                self.look_at_all()?;
            }
            // A rate that cannot be is no reason to lose the run.
            Order::Rate(rate) => match self.session.set_rate(rate) {
                Ok(()) => {
                    self.rate_changed = true;
                    if self.phase != Phase::Failed {
                        self.trouble = Value::Null;
                    }
                }
                Err(error) => self.trouble = json!({ "message": error.to_string() }),
            },
            Order::Pace(pace) => self.pace = pace,
            Order::Ask(question) => {
                let snapshot = Snapshot {
                    study: self.study,
                    optimizer: self.optimizer,
                    session: &self.session,
                    network: self.network(),
                    history: &self.record.history,
                    way: &self.way,
                };
                // A question that stumbles has changed nothing: who asked is told, and the run goes on.
                let _ = catch_unwind(AssertUnwindSafe(|| question(&snapshot)));
                return Ok(());
            }
            Order::Go { .. } | Order::Pause | Order::Stop => {}
        }
        self.post_state();
        Ok(())
    }

    /// Makes one step, and keeps what is to be kept of it.
    fn step(&mut self) -> Result<(), Error> {
        match self.session.advance(&mut self.record) {
            Ok(Some(_)) => {}
            Ok(None) => {
                self.phase = Phase::Finished;
                return Ok(());
            }
            Err(trouble) => {
                self.phase = Phase::Failed;
                let message = in_form(&in_flags(&trouble.to_string()));
                if let TrainError::NotFinite { explanation, last_good, step, steps_before, .. } = trouble {
                    let origin = explanation.as_ref().map(|found| found.to_string());
                    self.trouble =
                        json!({ "message": message, "step": step, "steps_before": steps_before, "origin": origin });
                    self.last_good = Some(*last_good);
                } else {
                    self.trouble = json!({ "message": message });
                }
                return Ok(());
            }
        }
        if self.session.steps().is_multiple_of(self.way_every) {
            self.remember_way();
        }
        self.left = self.left.map(|left| left.saturating_sub(1));
        if self.session.is_over() {
            self.phase = Phase::Finished;
        } else if self.left == Some(0) {
            (self.phase, self.left) = (Phase::Paused, None);
        }
        Ok(())
    }

    /// Keeps the network, and every second one only when there are too many.
    fn remember_way(&mut self) {
        let app = MOST_NUMBERS_OF_WAY / self.study.start.element_count().max(1);
        if app < 4 {
            return;
        }
        self.way.push(self.session.parameters().clone());
        if self.way.len() >= WAY.min(app) {
            let mut place = 0;
            self.way.retain(|_| {
                place += 1;
                place % 2 == 1
            });
            self.way_every *= 2;
        }
    }

    fn network(&self) -> &Network {
        self.last_good.as_ref().unwrap_or(self.session.parameters())
    }

    /// Looks at what was not looked at for longest, if it has changed and was not looked at just now.
    fn look_at_one(&mut self) -> Result<(), Error> {
        if !self.board.is_watched() {
            return Ok(());
        }
        let steps = self.session.steps();
        let due = |looking: &&mut Looking<'_>| looking.step != Some(steps) && looking.at.elapsed() >= BETWEEN_LOOKS;
        let network = self.network().clone();
        let Some(looking) = self.looks.iter_mut().filter(due).min_by_key(|looking| looking.at) else { return Ok(()) };
        let begin = Instant::now();
        self.board.post(looking.name, &seen_after(steps, looking.look.look(&network)?));
        (looking.step, looking.at) = (Some(steps), Instant::now());
        self.record.budget.viewed += begin.elapsed();
        Ok(())
    }

    /// Looks at everything, for when the run stands still.
    fn look_at_all(&mut self) -> Result<(), Error> {
        let (steps, network) = (self.session.steps(), self.network().clone());
        if let Some(last) = self.record.history.epochs.last()
            && last.test.is_none()
            && self.session.position().batch == 0
        {
            let score = self.record.score(&network)?;
            if let Some(last) = self.record.history.epochs.last_mut() {
                last.test = Some(score);
            }
        }
        for looking in &mut self.looks {
            if looking.step != Some(steps) || self.phase == Phase::Failed {
                self.board.post(looking.name, &seen_after(steps, looking.look.look(&network)?));
                (looking.step, looking.at) = (Some(steps), Instant::now());
            }
        }
        self.post_state();
        Ok(())
    }
}

/// What was seen, and after which step.
fn seen_after(steps: u64, seen: Value) -> Value {
    json!({ "step": steps, "seen": seen })
}
