//! Sparsity patterns: which derivatives may differ from zero, read off the tape.

use std::sync::OnceLock;

use crate::calculus::Triplets;
use crate::ops::{Algebra, Binary, Operation, Real, Row, Unary, Visitor, visit};
use crate::scalar::tape::Operand;
use crate::scalar::{Dual, NodeId, Recorded, Tape};

/// The positions of a matrix that may differ from zero, in compressed rows. It holds for every input at which
/// the recording does, so that it is computed once for many matrices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    columns: usize,
    starts: Vec<usize>,
    indices: Vec<usize>,
}

impl Pattern {
    /// The pattern with these columns in each row, in any order.
    ///
    /// # Panics
    /// If a column is not below `columns`.
    pub fn from_rows(columns: usize, rows: impl IntoIterator<Item = Vec<usize>>) -> Self {
        let (mut starts, mut indices) = (vec![0], Vec::new());
        for mut row in rows {
            row.sort_unstable();
            row.dedup();
            if let Some(last) = row.last() {
                assert!(*last < columns, "a pattern of {columns} columns has no column {last}");
            }
            indices.extend(row);
            starts.push(indices.len());
        }
        Pattern { columns, starts, indices }
    }

    /// The pattern of the Jacobian: the inputs on which each result depends.
    ///
    /// ```
    /// use glassgrad::scalar::{Recorded, sparse::Pattern};
    /// let recorded = Recorded::several(|x, y| (y[0], y[1]) = (x[0] * x[2], x[1].sin()), &[1.0, 2.0, 3.0], 2);
    /// let pattern = Pattern::jacobian(&recorded);
    /// assert_eq!((pattern.row(0), pattern.row(1)), (&[0, 2][..], &[1][..]));
    /// ```
    pub fn jacobian<T: Real>(recorded: &Recorded<T>) -> Self {
        let mut search = DomainSearch::new(recorded.tape(), recorded.inputs());
        let rows = recorded.outputs().iter().map(|output| match output {
            Operand::Node(id) => search.domain(*id),
            Operand::Constant(_) => Vec::new(),
        });
        Pattern::from_rows(recorded.inputs().len(), rows)
    }

    /// The pattern of the Hessian of the first result: the pairs of inputs that meet in an operation with a second
    /// derivative.
    pub fn hessian<T: Real>(recorded: &Recorded<T>) -> Self {
        let mut pattern: Vec<Vec<usize>> = vec![Vec::new(); recorded.inputs().len()];
        if let Operand::Node(output) = recorded.outputs()[0] {
            let tape = recorded.tape();
            let mut search = DomainSearch::new(tape, recorded.inputs());
            let mut meet = |rows: &[usize], columns: &[usize]| {
                for row in rows {
                    pattern[*row].extend(columns);
                }
                for column in columns {
                    pattern[*column].extend(rows);
                }
            };
            for id in tape.ancestors(output) {
                let [first, mixed, second] = curvature(tape.operation_of(id));
                if !(first || mixed || second) {
                    continue;
                }
                let node = tape.node(id);
                let mut domain = |slot: usize| match node.operands.get(slot) {
                    Some(Operand::Node(parent)) => search.domain(*parent),
                    _ => Vec::new(),
                };
                let a = if first || mixed { domain(0) } else { Vec::new() };
                let b = if second || mixed { domain(1) } else { Vec::new() };
                if first {
                    meet(&a, &a);
                }
                if mixed {
                    meet(&a, &b);
                }
                if second {
                    meet(&b, &b);
                }
            }
        }
        Pattern::from_rows(recorded.inputs().len(), pattern)
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.starts.len() - 1
    }

    /// The number of columns.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// The number of positions.
    pub fn stored(&self) -> usize {
        self.indices.len()
    }

    /// The columns of one row, ascending.
    pub fn row(&self, row: usize) -> &[usize] {
        &self.indices[self.starts[row]..self.starts[row + 1]]
    }

    /// Where each row starts among the positions, and where the last one ends.
    pub fn starts(&self) -> &[usize] {
        &self.starts
    }

    /// The column of each position, row by row.
    pub fn indices(&self) -> &[usize] {
        &self.indices
    }

    /// The pattern of the transposed matrix.
    pub fn transpose(&self) -> Pattern {
        let mut starts = vec![0; self.columns + 1];
        for column in &self.indices {
            starts[column + 1] += 1;
        }
        for column in 0..self.columns {
            starts[column + 1] += starts[column];
        }
        let mut next = starts.clone();
        let mut indices = vec![0; self.indices.len()];
        for row in 0..self.rows() {
            for column in self.row(row) {
                indices[next[*column]] = row;
                next[*column] += 1;
            }
        }
        Pattern { columns: self.rows(), starts, indices }
    }

    /// The positions of either pattern.
    ///
    /// # Panics
    /// If the patterns differ in size.
    pub fn union(&self, other: &Pattern) -> Pattern {
        let size = |pattern: &Pattern| (pattern.rows(), pattern.columns);
        assert_eq!(size(self), size(other), "patterns of different sizes have no union");
        Pattern::from_rows(self.columns, (0..self.rows()).map(|row| [self.row(row), other.row(row)].concat()))
    }

    /// The pattern with every position of the diagonal, as factorisations want it.
    pub fn with_diagonal(&self) -> Pattern {
        let diagonal = (0..self.rows()).map(|row| if row < self.columns { vec![row] } else { Vec::new() });
        self.union(&Pattern::from_rows(self.columns, diagonal))
    }

    /// The most positions in one row.
    pub(super) fn longest_row(&self) -> usize {
        self.starts.windows(2).map(|bounds| bounds[1] - bounds[0]).max().unwrap_or(0)
    }
}

impl From<&Triplets> for Pattern {
    /// The pattern of the derivative of a function of tensors.
    fn from(triplets: &Triplets) -> Self {
        let mut rows = vec![Vec::new(); triplets.rows];
        for (row, column, _) in &triplets.entries {
            rows[*row].push(*column);
        }
        Pattern::from_rows(triplets.columns, rows)
    }
}

/// Finds the inputs on which nodes depend, by a depth-first search whose marks are reused.
struct DomainSearch<'r, T> {
    tape: &'r Tape<T>,
    input_number: Vec<usize>,
    visited: Vec<u32>,
    round: u32,
}

impl<'r, T: Real> DomainSearch<'r, T> {
    fn new(tape: &'r Tape<T>, inputs: &[NodeId]) -> Self {
        let mut input_number = vec![usize::MAX; tape.len()];
        for (number, input) in inputs.iter().enumerate() {
            input_number[input.index()] = number;
        }
        DomainSearch { tape, input_number, visited: vec![0; tape.len()], round: 0 }
    }

    /// The inputs on which a node depends, ascending.
    fn domain(&mut self, node: NodeId) -> Vec<usize> {
        self.round += 1;
        let mut domain = Vec::new();
        let mut stack = vec![node];
        while let Some(id) = stack.pop() {
            if std::mem::replace(&mut self.visited[id.index()], self.round) == self.round {
                continue;
            }
            if self.input_number[id.index()] != usize::MAX {
                domain.push(self.input_number[id.index()]);
            }
            stack.extend(self.tape.parents_of(id));
        }
        domain.sort_unstable();
        domain
    }
}

/// Which second derivatives of an operation are not identically zero: in the first argument, mixed,
/// in the second. The table does not say; the rules do, when they are differentiated on the domain
/// that the row names.
fn curvature(operation: Operation) -> [bool; 3] {
    static CURVATURE: OnceLock<Vec<(Operation, [bool; 3])>> = OnceLock::new();
    let rows = CURVATURE.get_or_init(|| {
        let mut probe = Probe(Vec::new());
        visit(&mut probe);
        probe.0
    });
    rows.iter().find(|(row, _)| *row == operation).map_or([false; 3], |(_, curved)| *curved)
}

struct Probe(Vec<(Operation, [bool; 3])>);

impl Probe {
    const POINTS: [f64; 5] = [0.13, 0.29, 0.47, 0.71, 0.89];

    fn point(row: &Row, argument: usize, fraction: f64) -> f64 {
        let range = &row.domain[argument];
        range.start + fraction * (range.end - range.start)
    }
}

impl Visitor for Probe {
    fn unary<R: Unary>(&mut self, row: &Row) {
        let parameter = row.parameter.map_or(0.0, |parameter| parameter.default);
        let curved = Probe::POINTS.iter().any(|fraction| {
            let x = Dual::variable(Probe::point(row, 0, *fraction));
            R::derivative(x, Algebra::unary::<R>(x, parameter), parameter).tangent() != 0.0
        });
        self.0.push((row.operation, [curved, false, false]));
    }

    fn binary<R: Binary>(&mut self, row: &Row) {
        let mut curved = [false; 3];
        for (k, fraction) in Probe::POINTS.iter().enumerate() {
            let a = Dual::<f64, 2>::along(Probe::point(row, 0, *fraction), 0);
            let b = Dual::<f64, 2>::along(Probe::point(row, 1, Probe::POINTS[(2 * k + 1) % 5]), 1);
            let y = Algebra::binary::<R>(a, b);
            let (first, second) = (R::first(a, b, y), R::second(a, b, y));
            curved[0] |= first.tangents[0] != 0.0;
            curved[1] |= first.tangents[1] != 0.0 || second.tangents[0] != 0.0;
            curved[2] |= second.tangents[1] != 0.0;
        }
        self.0.push((row.operation, curved));
    }
}
