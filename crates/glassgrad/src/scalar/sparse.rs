//! Sparse Jacobians and Hessians: the pattern is read off the tape, columns that do not meet share
//! a colour, and one sweep serves all columns of a colour.

use std::sync::OnceLock;

use crate::algebra::c;
use crate::ops::{Algebra, Binary, Operation, Real, Row, Unary, Visitor, visit};
use crate::scalar::tape::Operand;
use crate::scalar::{Dual, Matrix, NodeId, Recorded, Tape, Var};

/// How many colours of a Hessian are computed in one recording.
const LANES: usize = 8;

/// A sparse matrix in compressed rows.
#[derive(Clone, Debug, PartialEq)]
pub struct SparseMatrix<T = f64> {
    /// The number of columns.
    pub columns: usize,
    /// Where each row starts in `indices` and `values`, and where the last one ends.
    pub starts: Vec<usize>,
    /// The column of each stored element, ascending within a row.
    pub indices: Vec<usize>,
    /// The stored elements.
    pub values: Vec<T>,
    /// How many sweeps it took.
    pub colours: usize,
}

impl<T: Real> SparseMatrix<T> {
    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.starts.len() - 1
    }

    /// The number of stored elements.
    pub fn stored(&self) -> usize {
        self.values.len()
    }

    /// The stored elements of one row, as pairs of column and value.
    pub fn row(&self, row: usize) -> impl Iterator<Item = (usize, T)> + '_ {
        let range = self.starts[row]..self.starts[row + 1];
        self.indices[range.clone()].iter().copied().zip(self.values[range].iter().copied())
    }

    /// One element; zero where none is stored.
    pub fn get(&self, row: usize, column: usize) -> T {
        let range = self.starts[row]..self.starts[row + 1];
        let found = self.indices[range.clone()].binary_search(&column);
        found.map_or_else(|_| c(0.0), |place| self.values[range.start + place])
    }

    /// The product with a vector.
    pub fn matvec(&self, vector: &[T]) -> Vec<T> {
        (0..self.rows()).map(|row| self.row(row).map(|(column, value)| value * vector[column]).sum()).collect()
    }

    /// The matrix with its zeros.
    pub fn to_dense(&self) -> Matrix<T> {
        let mut dense = Matrix::zeros(self.rows(), self.columns);
        for row in 0..self.rows() {
            for (column, value) in self.row(row) {
                dense[(row, column)] = value;
            }
        }
        dense
    }
}

/// The columns that each row may touch.
type Pattern = Vec<Vec<usize>>;

/// The Jacobian of a function with `results` results, compressed: it costs as many sweeps as the
/// pattern needs colours, by columns forwards or by rows in reverse, whichever is fewer.
///
/// ```
/// use glassgrad::scalar::sparse_jacobian;
/// // A difference operator: every column meets only its neighbours.
/// let n = 1000;
/// let x: Vec<f64> = (0..n).map(|k| k as f64).collect();
/// let jacobian = sparse_jacobian(|x, y| for k in 1..x.len() { y[k] = x[k].square() - x[k - 1]; }, &x, n);
/// assert_eq!((jacobian.stored(), jacobian.colours), (2 * (n - 1), 2));
/// assert_eq!(jacobian.row(7).collect::<Vec<_>>(), [(6, -1.0), (7, 14.0)]);
/// ```
pub fn sparse_jacobian<T: Real>(
    function: impl for<'t> FnOnce(&[Var<'t, T>], &mut [Var<'t, T>]),
    x: &[T],
    results: usize,
) -> SparseMatrix<T> {
    let recorded = Recorded::several(function, x, results);
    let mut search = DomainSearch::new(recorded.tape(), recorded.inputs());
    let pattern: Pattern = recorded
        .outputs()
        .iter()
        .map(|output| match output {
            Operand::Node(id) => search.domain(*id),
            Operand::Constant(_) => Vec::new(),
        })
        .collect();
    let transposed = transpose(&pattern, x.len());
    let (by_column, column_colours) = colour_disjoint(&transposed, &pattern);
    let (by_row, row_colours) = colour_disjoint(&pattern, &transposed);
    let sweep = |lines: &[usize], colour: usize| -> Vec<T> {
        lines.iter().map(|line| c(if *line == colour { 1.0 } else { 0.0 })).collect()
    };
    let forward = column_colours <= row_colours;
    let compressed: Vec<Vec<T>> = if forward {
        (0..column_colours).map(|colour| recorded.jvp(&sweep(&by_column, colour))).collect()
    } else {
        (0..row_colours).map(|colour| recorded.vjp(&sweep(&by_row, colour))).collect()
    };
    let element = |row: usize, column: usize| {
        if forward { compressed[by_column[column]][row] } else { compressed[by_row[row]][column] }
    };
    assemble(&pattern, x.len(), column_colours.min(row_colours), element)
}

/// The Hessian of a function, compressed: symmetric columns are coloured so that every element can
/// be read directly, from itself or from its mirror image, and eight colours are computed at once.
///
/// ```
/// use glassgrad::scalar::sparse_hessian;
/// // An arrowhead: dense first row and column, diagonal otherwise. Two colours suffice.
/// let hessian = sparse_hessian(|x| x.iter().map(|xk| x[0] * *xk * *xk).sum(), &[1.0; 500]);
/// assert_eq!((hessian.stored(), hessian.colours), (3 * 499 + 1, 2));
/// ```
pub fn sparse_hessian<T: Real>(
    function: impl for<'t> Fn(&[Var<'t, Dual<T, LANES>>]) -> Var<'t, Dual<T, LANES>>,
    x: &[T],
) -> SparseMatrix<T> {
    let still: Vec<_> = x.iter().map(|x| Dual::constant(*x)).collect();
    let recorded = Recorded::new(&function, &still);
    let pattern = hessian_pattern(&recorded);
    let (colour_of, colours) = colour_star(&pattern);
    let mut tape = recorded.into_tape();
    let mut compressed: Vec<Vec<T>> = vec![vec![c(0.0); x.len()]; colours];
    for start in (0..colours).step_by(LANES) {
        let seeded: Vec<_> =
            x.iter().zip(&colour_of).map(|(x, colour)| Dual::along(*x, colour.wrapping_sub(start))).collect();
        let recorded = Recorded::on(tape, &function, &seeded);
        for (row, partial) in recorded.gradient().into_iter().enumerate() {
            for (lane, curvature) in partial.tangents.into_iter().enumerate().take(colours - start) {
                compressed[start + lane][row] = curvature;
            }
        }
        tape = recorded.into_tape();
    }
    let alone = |row: usize, column: usize| {
        pattern[row].iter().filter(|other| colour_of[**other] == colour_of[column]).count() == 1
    };
    assemble(&pattern, x.len(), colours, |row, column| {
        // A star colouring guarantees that one of the two mirror images stands alone.
        if alone(row, column) { compressed[colour_of[column]][row] } else { compressed[colour_of[row]][column] }
    })
}

fn assemble<T: Real>(
    pattern: &Pattern,
    columns: usize,
    colours: usize,
    element: impl Fn(usize, usize) -> T,
) -> SparseMatrix<T> {
    let mut starts = vec![0];
    let mut indices = Vec::new();
    let mut values = Vec::new();
    for (row, touched) in pattern.iter().enumerate() {
        indices.extend(touched);
        values.extend(touched.iter().map(|column| element(row, *column)));
        starts.push(indices.len());
    }
    SparseMatrix { columns, starts, indices, values, colours }
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
            stack.extend(self.tape.node(id).parents().map(|(parent, _)| parent));
        }
        domain.sort_unstable();
        domain
    }
}

/// The pairs of inputs that meet in an operation with a second derivative.
fn hessian_pattern<T: Real>(recorded: &Recorded<T>) -> Pattern {
    let mut pattern: Pattern = vec![Vec::new(); recorded.inputs().len()];
    let Operand::Node(output) = recorded.outputs()[0] else {
        return pattern;
    };
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
        let node = tape.node(id);
        let [first, mixed, second] = curvature(node.operation);
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
    for row in &mut pattern {
        row.sort_unstable();
        row.dedup();
    }
    pattern
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

fn transpose(pattern: &Pattern, columns: usize) -> Pattern {
    let mut transposed = vec![Vec::new(); columns];
    for (row, touched) in pattern.iter().enumerate() {
        for column in touched {
            transposed[*column].push(row);
        }
    }
    transposed
}

/// Greedily gives lines that touch a common crossing line different colours.
fn colour_disjoint(lines: &Pattern, crossing: &Pattern) -> (Vec<usize>, usize) {
    let mut colour_of = vec![usize::MAX; lines.len()];
    let mut forbidden_for = Vec::new(); // For each colour, the last line to which it was forbidden.
    for line in most_touched_first(lines) {
        for other in lines[line].iter().flat_map(|crossed| &crossing[*crossed]) {
            if colour_of[*other] != usize::MAX {
                forbidden_for[colour_of[*other]] = line;
            }
        }
        colour_of[line] = lowest_allowed(&mut forbidden_for, line);
    }
    (colour_of, forbidden_for.len())
}

/// Greedily colours a symmetric pattern so that neighbours differ and no path of four nodes uses
/// only two colours: then each element or its mirror image is alone in its compressed column.
fn colour_star(pattern: &Pattern) -> (Vec<usize>, usize) {
    let mut colour_of = vec![usize::MAX; pattern.len()];
    let mut forbidden_for = Vec::new();
    for node in most_touched_first(pattern) {
        for neighbour in pattern[node].iter().filter(|neighbour| **neighbour != node) {
            let colour = colour_of[*neighbour];
            if colour != usize::MAX {
                forbidden_for[colour] = node;
            }
            for second in pattern[*neighbour].iter().filter(|second| **second != node && **second != *neighbour) {
                let second_colour = colour_of[*second];
                if second_colour == usize::MAX || forbidden_for[second_colour] == node {
                    continue;
                }
                let closes_path =
                    || pattern[*second].iter().any(|third| third != neighbour && colour_of[*third] == colour);
                if colour == usize::MAX || closes_path() {
                    forbidden_for[second_colour] = node;
                }
            }
        }
        colour_of[node] = lowest_allowed(&mut forbidden_for, node);
    }
    (colour_of, forbidden_for.len())
}

fn most_touched_first(pattern: &Pattern) -> Vec<usize> {
    let mut order: Vec<usize> = (0..pattern.len()).collect();
    order.sort_by_key(|line| std::cmp::Reverse(pattern[*line].len()));
    order
}

fn lowest_allowed(forbidden_for: &mut Vec<usize>, line: usize) -> usize {
    let free = forbidden_for.iter().position(|last| *last != line);
    free.unwrap_or_else(|| {
        forbidden_for.push(usize::MAX);
        forbidden_for.len() - 1
    })
}
