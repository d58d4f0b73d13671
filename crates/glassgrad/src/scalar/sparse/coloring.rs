//! Colorings: columns or rows of one color share a sweep.

use super::Pattern;
use crate::scalar::Mode;

/// How the lines of a matrix are grouped so that every element can be read from a compressed matrix with a column, or row,
/// for each color. It depends on the pattern alone, and serves every matrix that has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coloring {
    pub(super) kind: Kind,
    pub(super) color_of: Vec<usize>,
    count: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Columns of one color have no row in common: forward mode.
    Columns,
    /// Rows of one color have no column in common: reverse mode.
    Rows,
    /// A star coloring of a symmetric pattern. For each position, whether the element is read from its own column's
    /// color rather than from its mirror image.
    Star { direct: Vec<bool> },
}

impl Coloring {
    /// Colors the columns of a Jacobian (forward mode), its rows (reverse mode), or whichever promises fewer colors.
    ///
    /// The longest row is a lower bound on the number of colors of columns, and the longest column on that of rows. With
    /// [`Mode::Auto`] the smaller bound is colored first, and the other only if its bound is below the colors found.
    pub fn jacobian(pattern: &Pattern, mode: Mode) -> Self {
        let transposed = pattern.transpose();
        let columns = || Coloring::disjoint(Kind::Columns, &transposed, pattern);
        let rows = || Coloring::disjoint(Kind::Rows, pattern, &transposed);
        let (column_bound, row_bound) = (pattern.longest_row(), transposed.longest_row());
        match mode {
            Mode::Forward => columns(),
            Mode::Reverse => rows(),
            Mode::Auto if column_bound <= row_bound => {
                let found = columns();
                if row_bound < found.count { found.fewer(rows()) } else { found }
            }
            Mode::Auto => {
                let found = rows();
                if column_bound < found.count { found.fewer(columns()) } else { found }
            }
        }
    }

    /// A star coloring of the symmetric pattern of a Hessian: neighbours differ, and no path of four nodes uses
    /// only two colors. Then each element or its mirror image is alone in its compressed column.
    ///
    /// # Panics
    /// If the pattern is not square.
    pub fn star(pattern: &Pattern) -> Self {
        assert_eq!(pattern.rows(), pattern.columns(), "a star coloring needs a symmetric pattern");
        let (color_of, count) = color_star(pattern);
        let mut uses = vec![0_usize; count];
        let mut direct = Vec::with_capacity(pattern.stored());
        for row in 0..pattern.rows() {
            pattern.row(row).iter().for_each(|column| uses[color_of[*column]] += 1);
            direct.extend(pattern.row(row).iter().map(|column| uses[color_of[*column]] == 1));
            pattern.row(row).iter().for_each(|column| uses[color_of[*column]] = 0);
        }
        Coloring { kind: Kind::Star { direct }, color_of, count }
    }

    /// The number of colors, which is the number of sweeps.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The color of each column, or of each row if rows are colored.
    pub fn color_of(&self) -> &[usize] {
        &self.color_of
    }

    /// Whether rows share sweeps, which are reverse sweeps.
    pub fn is_by_rows(&self) -> bool {
        self.kind == Kind::Rows
    }

    fn fewer(self, other: Self) -> Self {
        if other.count < self.count { other } else { self }
    }

    /// Greedily gives lines that touch a common crossing line different colors.
    fn disjoint(kind: Kind, lines: &Pattern, crossing: &Pattern) -> Self {
        let mut color_of = vec![usize::MAX; lines.rows()];
        let mut forbidden_for = Vec::new(); // For each color, the last line to which it was forbidden.
        for line in longest_first(lines) {
            for other in lines.row(line).iter().flat_map(|crossed| crossing.row(*crossed)) {
                if color_of[*other] != usize::MAX {
                    forbidden_for[color_of[*other]] = line;
                }
            }
            color_of[line] = lowest_allowed(&mut forbidden_for, line);
        }
        Coloring { kind, color_of, count: forbidden_for.len() }
    }
}

fn color_star(pattern: &Pattern) -> (Vec<usize>, usize) {
    let mut color_of = vec![usize::MAX; pattern.rows()];
    let mut forbidden_for = Vec::new();
    for node in longest_first(pattern) {
        for neighbour in pattern.row(node).iter().filter(|neighbour| **neighbour != node) {
            let color = color_of[*neighbour];
            if color != usize::MAX {
                forbidden_for[color] = node;
            }
            for second in pattern.row(*neighbour).iter().filter(|second| **second != node && **second != *neighbour) {
                let second_color = color_of[*second];
                if second_color == usize::MAX || forbidden_for[second_color] == node {
                    continue;
                }
                let closes_path =
                    || pattern.row(*second).iter().any(|third| third != neighbour && color_of[*third] == color);
                if color == usize::MAX || closes_path() {
                    forbidden_for[second_color] = node;
                }
            }
        }
        color_of[node] = lowest_allowed(&mut forbidden_for, node);
    }
    (color_of, forbidden_for.len())
}

fn longest_first(pattern: &Pattern) -> Vec<usize> {
    let mut order: Vec<usize> = (0..pattern.rows()).collect();
    order.sort_by_key(|line| std::cmp::Reverse(pattern.row(*line).len()));
    order
}

fn lowest_allowed(forbidden_for: &mut Vec<usize>, line: usize) -> usize {
    let free = forbidden_for.iter().position(|last| *last != line);
    free.unwrap_or_else(|| {
        forbidden_for.push(usize::MAX);
        forbidden_for.len() - 1
    })
}
