//! One run: it makes steps, executes commands, evaluates the test set and computes views as the `budget` allows.
//!
//! A run is a future, so that it can be suspended between two steps: its session borrows from its experiment, which the future
//! owns. A thread drives it to its end and sleeps where it waits; without threads it is polled in turns with other runs.
//!
//! Views and evaluation take a few percent of the time of the steps, so that a watched run is hardly slower; while it is paused or
//! waits at a limited speed, they cost nothing and are computed at once.

mod budget;
mod publish;
mod speed;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use glassgrad::clock::Instant;
use glassgrad::data::Examples;
use glassgrad::error::Error;
use glassgrad::expr::Tensor;
use glassgrad::optim::Optimizer;
use glassgrad::train::{Epoch, Flow, Observer, Session, Step, TrainError};
use glassgrad::tree::Tree as _;
use serde_json::{Value, json};

use super::broadcast::Broadcast;
use super::curve::Curve;
use super::inbox::{Event, Inbox, Wait};
use crate::experiment::history::{EpochRecord, History};
use crate::experiment::network::Network;
use crate::experiment::objective::{Evaluator, Score};
use crate::experiment::recipe;
use crate::experiment::settings::{in_flags, in_form};
use crate::experiment::study::Study;
use crate::views::LiveView;
use budget::Budget;
use speed::Speed;

/// Between two updates of the same view.
const BETWEEN_VIEWS: Duration = Duration::from_millis(60);
/// Between two messages about the state: sixty a second.
const BETWEEN_STATES: Duration = Duration::from_micros(16_600);
/// The same without watchers.
const UNWATCHED: Duration = Duration::from_millis(500);
/// At most this many points of the trajectory are kept, if they are small enough.
const TRAJECTORY: usize = 40;
const MOST_ELEMENTS: usize = 4_000_000;
/// At most this many epochs are recorded.
const MOST_EPOCHS: usize = 2000;

/// The maximum number of steps per second; unlimited if `None`.
pub(super) type Pace = Option<f64>;

/// A query about a run, executed between two steps; it is also answered when there is no run.
pub(crate) type Query = Box<dyn FnOnce(Option<&Snapshot<'_>>) + Send>;

/// A command to a run.
pub(crate) enum Command {
    /// Run to the end, or for this many steps.
    Go {
        steps: Option<u64>,
    },
    Pause,
    /// End the run; it can still be inspected.
    Stop,
    Rate(f64),
    Pace(Pace),
    Query(Query),
}

/// The view of a run that a query gets.
pub(crate) struct Snapshot<'d> {
    pub(crate) study: &'d Study,
    pub(crate) optimizer: &'d Optimizer,
    pub(crate) session: &'d Session<'d, Network, Examples<(Tensor, Tensor)>>,
    /// The current network, or the last one whose loss was finite.
    pub(crate) network: &'d Network,
    pub(crate) history: &'d History,
    /// The trajectory: networks from the first on.
    pub(crate) trajectory: &'d [Network],
}

/// The phase of a run.
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

/// Runs an experiment until it is deleted.
pub(super) async fn run(
    study: &Study,
    broadcast: &Broadcast,
    inbox: &Inbox,
    pace: Pace,
    paused: bool,
) -> Result<(), Error> {
    let failed = |failure: crate::failure::Failure| Error::new("train", failure.to_string());
    let optimizer = recipe::optimizer(&study.settings, study.batches()).map_err(failed)?;
    let training = study.training().map_err(failed)?;
    let session = training.session(&study.start, &study.task.training)?;
    let mut run = Run {
        study,
        broadcast,
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
        views: Vec::new(),
        phase: if paused { Phase::Paused } else { Phase::Running },
        left: None,
        pace,
        trouble: Value::Null,
        rate_changed: false,
        last_good: None,
        trajectory: vec![session.parameters().clone()],
        trajectory_interval: 1,
        posted: Instant::now(),
        drawn: Instant::now(),
        session,
    };
    run.post_beginning()?;
    run.update_all_views()?;
    run.go(inbox).await
}

/// A run in the hands of its driver.
struct Run<'r> {
    study: &'r Study,
    broadcast: &'r Broadcast,
    optimizer: &'r Optimizer,
    session: Session<'r, Network, Examples<(Tensor, Tensor)>>,
    record: Record<'r>,
    views: Vec<ScheduledView<'r>>,
    phase: Phase,
    /// Steps until it pauses by itself.
    left: Option<u64>,
    pace: Pace,
    trouble: Value,
    /// Whether the learning rate was changed during the run, so that no command line reproduces it.
    rate_changed: bool,
    last_good: Option<Network>,
    trajectory: Vec<Network>,
    trajectory_interval: u64,
    /// When the state was last put up, and the curves.
    posted: Instant,
    drawn: Instant,
}

/// The record of steps and epochs of a run.
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
        self.speed.record_step(step.number);
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

/// A view with the time of its last update.
struct ScheduledView<'r> {
    name: &'static str,
    view: Box<dyn LiveView + 'r>,
    /// The step after which it was last updated, and when.
    step: Option<u64>,
    at: Instant,
}

impl<'r> Run<'r> {
    async fn go(&mut self, inbox: &Inbox) -> Result<(), Error> {
        loop {
            // Drain the commands first; while the run is idle, wait until one comes.
            loop {
                let wait = if self.phase == Phase::Running { Wait::Nothing } else { Wait::Command };
                match inbox.next(wait).await {
                    Event::Command(command) => self.execute(command)?,
                    Event::Over => break,
                    Event::Closed => return Ok(()),
                }
            }
            let begin = Instant::now();
            let (before, observed) = (self.phase, self.record.budget.observation_time());
            self.step()?;
            let observed = self.record.budget.observation_time() - observed;
            self.record.budget.trained += begin.elapsed().saturating_sub(observed);
            if before != self.phase {
                // The run has ended: all views are updated once more.
                self.update_all_views()?;
                continue;
            }
            let between = if self.broadcast.is_watched() { BETWEEN_STATES } else { UNWATCHED };
            if begin.duration_since(self.posted) >= between {
                self.post_state();
            }
            if self.record.budget.allows_view() {
                self.update_one_view()?;
            }
            // The interval between steps at the requested pace.
            let due = self.pace.map_or(Duration::ZERO, |pace| Duration::from_secs_f64(1.0 / pace.clamp(0.1, 1e9)));
            let rest = due.saturating_sub(begin.elapsed());
            if rest > Duration::ZERO {
                self.record.budget.rested += rest;
                if rest > BETWEEN_STATES {
                    self.post_state();
                }
                match inbox.next(Wait::For(rest)).await {
                    Event::Command(command) => self.execute(command)?,
                    Event::Over => {}
                    Event::Closed => return Ok(()),
                }
            }
        }
    }

    fn execute(&mut self, command: Command) -> Result<(), Error> {
        let is_at_an_end = matches!(self.phase, Phase::Finished | Phase::Stopped | Phase::Failed);
        match command {
            Command::Go { steps } if !is_at_an_end => (self.phase, self.left) = (Phase::Running, steps),
            Command::Pause if !is_at_an_end => {
                self.phase = Phase::Paused;
                self.update_all_views()?;
            }
            Command::Stop if !is_at_an_end => {
                self.phase = Phase::Stopped;
                self.update_all_views()?;
            }
            // An invalid rate does not end the run.
            Command::Rate(rate) => match self.session.set_rate(rate) {
                Ok(()) => {
                    self.rate_changed = true;
                    if self.phase != Phase::Failed {
                        self.trouble = Value::Null;
                    }
                }
                Err(error) => self.trouble = json!({ "message": error.to_string() }),
            },
            Command::Pace(pace) => self.pace = pace,
            Command::Query(query) => {
                let snapshot = Snapshot {
                    study: self.study,
                    optimizer: self.optimizer,
                    session: &self.session,
                    network: self.network(),
                    history: &self.record.history,
                    trajectory: &self.trajectory,
                };
                // A query that panics has changed nothing: its reply is dropped, and the run continues.
                let _ = catch_unwind(AssertUnwindSafe(|| query(Some(&snapshot))));
                return Ok(());
            }
            Command::Go { .. } | Command::Pause | Command::Stop => {}
        }
        self.post_state();
        Ok(())
    }

    /// Takes one step and records it.
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
        if self.session.steps().is_multiple_of(self.trajectory_interval) {
            self.extend_trajectory();
        }
        self.left = self.left.map(|left| left.saturating_sub(1));
        if self.session.is_over() {
            self.phase = Phase::Finished;
        } else if self.left == Some(0) {
            (self.phase, self.left) = (Phase::Paused, None);
        }
        Ok(())
    }

    /// Appends the network; drops every second one when there are too many.
    fn extend_trajectory(&mut self) {
        let capacity = MOST_ELEMENTS / self.study.start.element_count().max(1);
        if capacity < 4 {
            return;
        }
        self.trajectory.push(self.session.parameters().clone());
        if self.trajectory.len() >= TRAJECTORY.min(capacity) {
            let mut place = 0;
            self.trajectory.retain(|_| {
                place += 1;
                place % 2 == 1
            });
            self.trajectory_interval *= 2;
        }
    }

    fn network(&self) -> &Network {
        self.last_good.as_ref().unwrap_or(self.session.parameters())
    }

    /// Updates the least recently updated view, if it is stale and due.
    fn update_one_view(&mut self) -> Result<(), Error> {
        if !self.broadcast.is_watched() {
            return Ok(());
        }
        let steps = self.session.steps();
        let due = |scheduled: &&mut ScheduledView<'_>| {
            scheduled.step != Some(steps) && scheduled.at.elapsed() >= BETWEEN_VIEWS
        };
        let network = self.network().clone();
        let Some(scheduled) = self.views.iter_mut().filter(due).min_by_key(|scheduled| scheduled.at) else {
            return Ok(());
        };
        let begin = Instant::now();
        self.broadcast.post(scheduled.name, &with_step(steps, scheduled.view.evaluate(&network)?));
        (scheduled.step, scheduled.at) = (Some(steps), Instant::now());
        self.record.budget.viewed += begin.elapsed();
        Ok(())
    }

    /// Updates all views, when the run is paused or ends.
    fn update_all_views(&mut self) -> Result<(), Error> {
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
        for scheduled in &mut self.views {
            if scheduled.step != Some(steps) || self.phase == Phase::Failed {
                self.broadcast.post(scheduled.name, &with_step(steps, scheduled.view.evaluate(&network)?));
                (scheduled.step, scheduled.at) = (Some(steps), Instant::now());
            }
        }
        self.post_state();
        Ok(())
    }
}

/// A view with the step after which it was evaluated.
fn with_step(steps: u64, data: Value) -> Value {
    json!({ "step": steps, "data": data })
}
