//! Reversing a chain of steps with few of its states kept: binomial schedules.
//!
//! Going back over n steps needs the state before each of them, last first. Keeping all of them runs every step
//! once; keeping few runs some steps again, from the nearest stored state. Griewank and Walther's
//! schedules run as few as possible: with s states kept at a time, the first among them, and every step run at most
//! r times forwards, at most β(s, r) = (s + r)! / (s! r!) steps can be reversed, and n steps take r·n - β(s + 1, r - 1)
//! steps forwards, with the least such r.

use std::fmt;

/// One action of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The state becomes the first of all, which is always known.
    Begin,
    /// Restores the state from a slot.
    Restore {
        /// The slot.
        slot: usize,
    },
    /// The state is kept in a slot.
    Store {
        /// The slot.
        slot: usize,
    },
    /// Steps are run forwards: from the state before one step to that before another.
    Advance {
        /// The first step that is run.
        from: usize,
        /// The first that is not.
        to: usize,
    },
    /// One step is reversed: the state is the one before it.
    Reverse {
        /// The step.
        step: usize,
    },
}

/// A checkpointing schedule, as plain data.
///
/// ```
/// use glassgrad::opt::revolve::Schedule;
/// let schedule = Schedule::new(4, 1);
/// assert_eq!(schedule.advances(), 4); // with nothing kept but the first state it would be 3 + 2 + 1
/// assert_eq!(schedule.to_string(), "\
/// run step 0, keep the state in slot 0, run steps 1 to 2, reverse step 3, take slot 0, run step 1, reverse step 2, \
/// take slot 0, reverse step 1, take the first state, reverse step 0");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// How many steps are reversed.
    pub steps: usize,
    /// How many states are kept at a time, besides the first.
    pub snapshots: usize,
    /// The actions, in order.
    pub actions: Vec<Action>,
}

/// A part of the chain that is still to be reversed.
struct Task {
    /// Its first step, the state before which lies in a slot, or is the first of all.
    base: usize,
    slot: Option<usize>,
    length: usize,
    /// How many slots are taken.
    taken: usize,
}

impl Schedule {
    /// The schedule that runs the fewest steps forwards, with this many states kept besides the first.
    ///
    /// ```
    /// use glassgrad::opt::revolve::Schedule;
    /// let all = Schedule::new(1000, 999);
    /// let some = Schedule::new(1000, 9);
    /// assert_eq!((all.advances(), some.advances()), (999, 3636));
    /// ```
    pub fn new(steps: usize, snapshots: usize) -> Schedule {
        let snapshots = snapshots.min(steps.saturating_sub(1));
        let mut actions = Vec::new();
        let mut tasks = Vec::new();
        if steps > 0 {
            tasks.push(Task { base: 0, slot: None, length: steps, taken: 0 });
        }
        // Before which step the state is that the machine holds.
        let mut current = 0;
        let restore = |slot: Option<usize>| slot.map_or(Action::Begin, |slot| Action::Restore { slot });
        while let Some(Task { base, slot, length, taken }) = tasks.pop() {
            if current != base {
                actions.push(restore(slot));
                current = base;
            }
            if length == 1 {
                actions.push(Action::Reverse { step: base });
                continue;
            }
            if taken == snapshots {
                // No slot is free: every state is reached from the base.
                let (from, to) = (base, base + length - 1);
                actions.extend([Action::Advance { from, to }, Action::Reverse { step: to }]);
                current = to;
                tasks.push(Task { base, slot, length: length - 1, taken });
                continue;
            }
            let middle = base + split(length, snapshots - taken + 1);
            actions.extend([Action::Advance { from: base, to: middle }, Action::Store { slot: taken }]);
            current = middle;
            tasks.push(Task { base, slot, length: middle - base, taken });
            tasks.push(Task { base: middle, slot: Some(taken), length: base + length - middle, taken: taken + 1 });
        }
        Schedule { steps, snapshots, actions }
    }

    /// How many steps are run forwards.
    ///
    /// ```
    /// use glassgrad::opt::revolve::Schedule;
    /// assert_eq!(Schedule::new(3, 0).advances(), 2 + 1);
    /// ```
    pub fn advances(&self) -> usize {
        let steps = |action: &Action| match action {
            Action::Advance { from, to } => to - from,
            _ => 0,
        };
        self.actions.iter().map(steps).sum()
    }
}

/// The fewest steps forwards that reverse a chain with this many states kept besides the first, by the formula.
///
/// ```
/// use glassgrad::opt::revolve::{Schedule, fewest_advances};
/// assert_eq!(fewest_advances(1000, 9), Schedule::new(1000, 9).advances());
/// ```
pub fn fewest_advances(steps: usize, snapshots: usize) -> usize {
    if steps <= 1 {
        return 0;
    }
    let kept = snapshots + 1;
    let runs = runs(steps, kept);
    let saved = reach(kept + 1, runs as isize - 1);
    usize::try_from((runs as u128 * steps as u128).saturating_sub(saved)).unwrap_or(usize::MAX)
}

/// The most steps that can be reversed with s states kept and every step run at most r times: β(s, r).
fn reach(kept: usize, runs: isize) -> u128 {
    let Ok(runs) = usize::try_from(runs) else { return 0 };
    // A product of few factors, each of which divides exactly.
    let (few, many) = (kept.min(runs) as u128, kept.max(runs) as u128);
    let mut reach: u128 = 1;
    for factor in 1..=few {
        match reach.checked_mul(many + factor) {
            Some(product) => reach = product / factor,
            None => return u128::MAX,
        }
    }
    reach
}

/// How often steps must be run at most.
fn runs(steps: usize, kept: usize) -> usize {
    (0..).find(|runs| reach(kept, *runs as isize) >= steps as u128).unwrap_or_default()
}

/// How far to go before the next state is kept.
fn split(steps: usize, kept: usize) -> usize {
    let runs = runs(steps, kept) as isize;
    // Before it, steps may be run once less than after it; both parts stay within what they can reach.
    let after = reach(kept - 1, runs);
    let before = reach(kept, runs - 2).max((steps as u128).saturating_sub(after)).max(1);
    usize::try_from(before).unwrap_or(steps).min(steps - 1)
}

/// The actions in words.
impl fmt::Display for Schedule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, action) in self.actions.iter().enumerate() {
            let comma = if number == 0 { "" } else { ", " };
            write!(formatter, "{comma}{action}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Action {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Action::Begin => write!(formatter, "take the first state"),
            Action::Restore { slot } => write!(formatter, "take slot {slot}"),
            Action::Store { slot } => write!(formatter, "keep the state in slot {slot}"),
            Action::Advance { from, to } if to - from == 1 => write!(formatter, "run step {from}"),
            Action::Advance { from, to } => write!(formatter, "run steps {from} to {}", to - 1),
            Action::Reverse { step } => write!(formatter, "reverse step {step}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Action, Schedule, fewest_advances};

    /// The fewest steps forwards for all chains and numbers of states, by trying every place for the next state.
    fn tried(steps: usize, snapshots: usize) -> Vec<Vec<usize>> {
        let mut fewest = vec![vec![0; steps + 1]; snapshots + 1];
        for kept in 0..=snapshots {
            for length in 2..=steps {
                fewest[kept][length] = match kept {
                    0 => length * (length - 1) / 2,
                    _ => (1..length)
                        .map(|first| first + fewest[kept - 1][length - first] + fewest[kept][first])
                        .min()
                        .unwrap_or_default(),
                };
            }
        }
        fewest
    }

    /// Plays a schedule: every step is reversed once, last first, from the state before it.
    fn play(schedule: &Schedule) -> usize {
        let mut slots = vec![None; schedule.snapshots];
        let (mut state, mut left, mut run) = (0, schedule.steps, 0);
        for action in &schedule.actions {
            match *action {
                Action::Begin => state = 0,
                Action::Restore { slot } => state = slots[slot].expect("something was kept"),
                Action::Store { slot } => slots[slot] = Some(state),
                Action::Advance { from, to } => {
                    assert_eq!(from, state);
                    run += to - from;
                    state = to;
                }
                Action::Reverse { step } => {
                    left -= 1;
                    assert_eq!((step, state), (left, left));
                }
            }
        }
        assert_eq!(left, 0);
        run
    }

    #[test]
    fn schedules_reverse_every_step_with_the_fewest_steps_forwards() {
        let (steps, snapshots) = (60, 12);
        let fewest = tried(steps, snapshots);
        for (kept, by_length) in fewest.iter().enumerate() {
            for (length, expected) in by_length.iter().enumerate() {
                let schedule = Schedule::new(length, kept);
                assert_eq!(play(&schedule), *expected, "{length} steps, {kept} snapshots");
                assert_eq!(schedule.advances(), *expected);
                assert_eq!(fewest_advances(length, kept), *expected);
            }
        }
    }

    #[test]
    fn a_thousand_steps_take_what_the_formula_says() {
        let fewest = tried(1000, 40);
        for kept in [0, 1, 2, 3, 5, 9, 20, 40] {
            assert_eq!(play(&Schedule::new(1000, kept)), fewest[kept][1000], "{kept} snapshots");
            assert_eq!(fewest_advances(1000, kept), fewest[kept][1000], "{kept} snapshots");
        }
        for kept in [100, 500, 998, 999, 1000, 5000] {
            assert_eq!(play(&Schedule::new(1000, kept)), fewest_advances(1000, kept), "{kept} snapshots");
        }
        assert_eq!(fewest_advances(1000, 0), 499_500);
        assert_eq!(fewest_advances(1000, 999), 999);
    }

    #[test]
    fn a_long_chain_with_every_state_kept_does_not_recurse() {
        assert_eq!(play(&Schedule::new(200_000, 199_999)), 199_999);
    }
}
