//! Progress bar of training: loss, metric, speed, time left.

use std::cell::RefCell;
use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use glassgrad::error::Error;
use glassgrad::train::{Epoch, Flow, Observer, Step};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::experiment::history::History;
use crate::experiment::network::Network;
use crate::folder::{Folder, HISTORY};
use crate::interrupt;
use crate::terminal::escaped;

/// Shows a bar on standard error where that is a terminal, keeps the history in a directory, and ends when Ctrl-C is pressed.
pub(crate) struct Progress<'p> {
    bar: ProgressBar,
    history: &'p RefCell<History>,
    folder: Option<&'p Folder>,
    written: Instant,
}

/// The history is written down when so much time has passed.
const BETWEEN_WRITES: Duration = Duration::from_secs(2);

impl<'p> Progress<'p> {
    /// A bar for this many steps, if standard error is a terminal.
    pub(crate) fn new(
        name: &str,
        steps: u64,
        visible: bool,
        history: &'p RefCell<History>,
        folder: Option<&'p Folder>,
    ) -> Progress<'p> {
        let visible = visible && std::io::stderr().is_terminal();
        let target = if visible { ProgressDrawTarget::stderr_with_hz(10) } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(steps), target);
        let style = "{prefix} {bar:24.cyan/dim} {percent:>3} %  {msg}  {per_sec} steps, {eta} left";
        // The template is a constant that the tests have seen work.
        if let Ok(style) = ProgressStyle::with_template(style) {
            bar.set_style(style.progress_chars("━╸─"));
        }
        bar.set_prefix(escaped(name).into_owned());
        interrupt::listen();
        Progress { bar, history, folder, written: Instant::now() }
    }
}

impl Observer<Network> for Progress<'_> {
    fn step(&mut self, step: &Step) -> Result<Flow, Error> {
        self.bar.set_position(step.number);
        Ok(if interrupt::is_asked() { Flow::Stop } else { Flow::Continue })
    }

    fn epoch(&mut self, _: &Epoch<'_, Network>) -> Result<Flow, Error> {
        let history = self.history.borrow();
        if let Some(seen) = history.epochs.last() {
            let test = seen.test.map(|score| format!("  test {}", score.measure)).unwrap_or_default();
            self.bar.set_message(format!("epoch {}  loss {:.4}{test}", seen.epoch, seen.loss));
        }
        if let Some(folder) = self.folder
            && self.written.elapsed() > BETWEEN_WRITES
        {
            self.written = Instant::now();
            let written = folder.write(HISTORY, &history.to_json()?);
            written.map_err(|failure| Error::new("history", failure.to_string()))?;
        }
        Ok(Flow::Continue)
    }
}

impl Drop for Progress<'_> {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// A bar for what is fetched.
pub(crate) struct Fetching {
    bar: ProgressBar,
}

impl Fetching {
    pub(crate) fn new() -> Fetching {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("{msg} {bar:24.cyan/dim} {bytes} of {total_bytes}, {eta} left")
        {
            bar.set_style(style.progress_chars("━╸─"));
        }
        Fetching { bar }
    }

    pub(crate) fn show(&mut self, progress: &crate::sources::Progress) {
        self.bar.set_message(progress.file.clone());
        self.bar.set_length(progress.total);
        self.bar.set_position(progress.bytes);
    }
}

impl Drop for Fetching {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
