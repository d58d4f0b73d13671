//! Memory map of a program: the offset and the live range of every buffer.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::steps::{ExplainedStep, Kind, line_of};
use super::text::shortened;
use crate::opt::contract::metric;
use crate::opt::memory::aligned;
use crate::opt::program::{Held, Memory, Program, Step};
use crate::sorting::IndirectSort;

/// The most columns and rows of the picture as text.
const COLUMNS: usize = 72;
const ROWS: usize = 12;
/// One letter for each value, if there are enough of them.
const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
/// How many of the largest values are listed.
pub(super) const LISTED: usize = 8;

/// The memory that the steps of a program use in between.
///
/// ```
/// use glassgrad::Tensor;
/// let x = Tensor::new(&[0.5_f32; 100], [10, 10]);
/// let arena = x.matmul(&x.matmul(&x).tanh()).explain().unwrap().arena;
/// // The product and its tanh share a place.
/// assert_eq!((arena.bytes, arena.unshared, arena.highest, arena.values.len()), (448, 896, 448, 2));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Arena {
    /// Its size in bytes.
    pub bytes: usize,
    /// The size that it would have if every value had a place of its own.
    pub unshared: usize,
    /// The most bytes that are in use at once.
    pub highest: usize,
    /// The first step in which they are.
    pub highest_at: usize,
    /// How many steps the program has.
    pub steps: usize,
    /// The values stored there, in the order in which they are written.
    pub values: Vec<ArenaValue>,
}

/// A value in the arena.
///
/// ```
/// use glassgrad::Tensor;
/// let x = Tensor::new(&[0.5_f32; 100], [10, 10]);
/// let explanation = x.matmul(&x).matmul(&x.tanh()).explain().unwrap();
/// let value = &explanation.arena.values[0];
/// assert_eq!((value.what.as_str(), value.held.bytes), ("product 10×10×10", 400));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ArenaValue {
    /// Its place, its size, and when it is there.
    pub held: Held,
    /// What wrote it, in a few words.
    pub what: String,
    /// The kind of step that wrote it.
    pub kind: Kind,
    /// The first of the user's lines for which that step worked.
    pub line: Option<String>,
}

impl Arena {
    pub(super) fn of(program: &Program, steps: &[ExplainedStep]) -> Arena {
        let value = |held: &Held| {
            let step = &steps[held.first];
            let room = match &program.steps[held.first] {
                Step::Scan(repeat) => Some(repeat.scratch),
                Step::ReverseScan(sweep) => Some(sweep.scratch),
                Step::Loop(_) | Step::Contract(_) | Step::Call(_) => None,
            };
            let is_room = room == Some(Memory::Arena(held.place));
            let what = if is_room { format!("room of: {}", step.what) } else { step.what.clone() };
            ArenaValue { held: *held, what, kind: step.kind, line: step.origins.first().map(|origin| line_of(origin)) }
        };
        let mut values: Vec<ArenaValue> = program.values.iter().map(value).collect();
        values.indirect_sort_by_key(|value| (value.held.first, value.held.place));
        let live = in_use(&program.values, program.steps.len());
        let highest = live.iter().copied().max().unwrap_or(0);
        Arena {
            bytes: program.arena,
            unshared: program.values.iter().map(|held| aligned(held.bytes)).fold(0, usize::saturating_add),
            highest,
            highest_at: live.iter().position(|bytes| *bytes == highest).unwrap_or(0),
            steps: program.steps.len(),
            values,
        }
    }

    /// The values from the largest to the smallest; of equal ones the first comes first.
    pub(super) fn largest(&self) -> Vec<usize> {
        let mut numbers: Vec<usize> = (0..self.values.len()).collect();
        numbers.indirect_sort_by_key(|number| std::cmp::Reverse(self.values[*number].held.bytes));
        numbers
    }

    /// A picture of the arena as text: steps from left to right, places from the bottom to the top, a letter for each
    /// value. Of more values than there are letters, shades show the occupied fraction of a cell.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let x = Tensor::new(&[0.5_f32; 100], [10, 10]);
    /// let picture = x.matmul(&x).matmul(&x.tanh()).explain().unwrap().arena.text();
    /// let rows: Vec<&str> = picture.lines().collect();
    /// assert_eq!((rows[0], rows[11]), ("  │·bb│ 896 B", "  │aaa│ 0"));
    /// assert!(rows[13].starts_with("  a  400 B  steps 0 to 2  product 10×10×10"));
    /// ```
    pub fn text(&self) -> String {
        if self.values.is_empty() || self.bytes == 0 {
            return String::new();
        }
        let (columns, rows) = (self.steps.min(COLUMNS), ROWS);
        let has_letters = self.values.len() <= LETTERS.len();
        let mut cells = vec![vec![(0.0_f64, ' '); columns]; rows];
        for (number, value) in self.values.iter().enumerate() {
            let letter = if has_letters { LETTERS[number] as char } else { '█' };
            let steps = value.held.steps();
            let across = overlaps(steps.start as f64, steps.end as f64, self.steps as f64 / columns as f64, columns);
            let end = value.held.place + value.held.bytes;
            let along = overlaps(value.held.place as f64, end as f64, self.bytes as f64 / rows as f64, rows);
            for (row, tall) in &along {
                for (column, wide) in &across {
                    let cell = &mut cells[*row][*column];
                    let share = tall * wide;
                    // A letter stands for the value with the largest share of the cell; shades add up.
                    match has_letters {
                        true if share > cell.0 => *cell = (share, letter),
                        true => {}
                        false => cell.0 += share,
                    }
                }
            }
        }
        let shown = |(share, letter): &(f64, char)| match (has_letters, (share * 4.0).round() as usize) {
            _ if *share == 0.0 => '·',
            (true, _) => *letter,
            (false, 0 | 1) => '░',
            (false, 2) => '▒',
            (false, 3) => '▓',
            (false, _) => '█',
        };
        let mut text = String::new();
        for (row, cells) in cells.iter().enumerate().rev() {
            let line: String = cells.iter().map(shown).collect();
            let place = match row {
                0 => " 0".to_owned(),
                _ if row + 1 == rows => format!(" {}", metric(self.bytes as u128, "B")),
                _ => String::new(),
            };
            let _ = writeln!(text, "  │{line}│{place}");
        }
        let _ = writeln!(text, "  {}", self.below(columns));
        for number in self.largest().into_iter().take(LISTED) {
            let letter = if has_letters { LETTERS[number] as char } else { '-' };
            let _ = writeln!(text, "  {letter}  {}", self.values[number].words());
        }
        text
    }

    /// The first and the last step, under the picture.
    fn below(&self, columns: usize) -> String {
        let (first, last) = ("step 0", self.steps.saturating_sub(1).to_string());
        let space = (columns + 2).saturating_sub(first.len() + last.len());
        if space == 0 || self.steps < 2 { first.to_owned() } else { format!("{first}{}{last}", " ".repeat(space)) }
    }

    pub(super) fn to_json(&self) -> Value {
        let value = |value: &ArenaValue| {
            let Held { place, bytes, first, last, is_taken_over } = value.held;
            json!({
                "place": place, "bytes": bytes, "first": first, "last": last, "is_taken_over": is_taken_over,
                "what": value.what, "line": value.line,
            })
        };
        json!({
            "bytes": self.bytes, "unshared": self.unshared, "highest": self.highest, "highest_at": self.highest_at,
            "values": self.values.iter().map(value).collect::<Vec<_>>(),
        })
    }
}

impl ArenaValue {
    /// Its size, its steps, what wrote it and for which line.
    pub(super) fn words(&self) -> String {
        let bytes = metric(self.held.bytes as u128, "B");
        let Held { first, last, .. } = self.held;
        let steps = if first == last { format!("step {first}") } else { format!("steps {first} to {last}") };
        let line = self.line.as_ref().map(|line| format!("  {line}")).unwrap_or_default();
        format!("{bytes}  {steps}  {}{line}", shortened(&self.what, 48))
    }
}

/// The bytes in use in each step, as the planner counts them.
fn in_use(values: &[Held], steps: usize) -> Vec<usize> {
    let mut changes = vec![0_isize; steps + 1];
    for held in values {
        let bytes = aligned(held.bytes) as isize;
        changes[held.steps().start] += bytes;
        changes[held.steps().end] -= bytes;
    }
    let running = changes.iter().scan(0_isize, |sum, change| {
        *sum += change;
        Some(usize::try_from(*sum).unwrap_or(0))
    });
    running.take(steps).collect()
}

/// Which cells of a size a stretch touches, and how much of each it covers.
fn overlaps(from: f64, to: f64, size: f64, cells: usize) -> Vec<(usize, f64)> {
    let first = (from / size) as usize;
    let last = ((to / size).ceil() as usize).min(cells);
    let covered = |cell: usize| {
        let (left, right) = (cell as f64 * size, (cell + 1) as f64 * size);
        (to.min(right) - from.max(left)) / size
    };
    (first..last).map(|cell| (cell, covered(cell))).filter(|(_, share)| *share > 0.0).collect()
}
