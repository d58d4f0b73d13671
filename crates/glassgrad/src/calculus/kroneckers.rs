//! Sums of two Kronecker products: A₁⊗B₁ + A₂⊗B₂.
//!
//! Terms that share a factor on one side are one product, with a sum on the other. If A₁ and A₂ are symmetric and A₂ is
//! definite, there is a Z with A₁ = ZΛZᵀ and A₂ = ±ZZᵀ, and likewise a W for B₂ and B₁; between them the sum is diagonal.

use super::block::{Term, summed};
use super::condition::is_singular;
use super::dense::{Factors, permuted, symmetric_eigen};
use super::solve::Singular;
use super::structure::{Slots, components};
use crate::einsum::Label;
use crate::expr::Tensor;
use crate::shape::Shape;
use crate::sorting::IndirectSort;

/// A factor of a term that stands on one side of a product, and the number in front of it.
#[derive(Clone, Debug)]
struct Piece {
    term: usize,
    factors: Vec<usize>,
    coefficient: f64,
}

/// Two products over one division of rows and columns.
#[derive(Clone, Debug)]
pub(super) struct Pair {
    /// The slots of rows and of columns on either side.
    rows: [Vec<usize>; 2],
    columns: [Vec<usize>; 2],
    /// The sums on the two sides of each product.
    products: [[Vec<Piece>; 2]; 2],
}

/// Terms as two Kronecker products, if they are.
pub(super) fn pair(terms: &[Term], slots: &Slots, shape: &Shape) -> Option<Pair> {
    if terms.len() < 2 || !slots.dependent.is_empty() {
        return None;
    }
    let mut division: Option<[[Vec<usize>; 2]; 2]> = None;
    let mut products: Vec<[Vec<Piece>; 2]> = Vec::new();
    for (number, term) in terms.iter().enumerate() {
        let mut parts = components(term, slots, shape)?;
        parts.indirect_sort_by_key(|part| part.rows.first().copied());
        let [first, second] = <[_; 2]>::try_from(parts).ok()?;
        let own = [[first.rows, second.rows], [first.columns, second.columns]];
        if division.get_or_insert_with(|| own.clone()) != &own {
            return None;
        }
        let piece = |factors: Vec<usize>, coefficient: f64| vec![Piece { term: number, factors, coefficient }];
        products.push([piece(first.factors, term.coefficient), piece(second.factors, 1.0)]);
    }
    while let Some((side, one, other)) = with_common_side(terms, &products) {
        let gone = products.remove(other);
        // The common side stays once, without a number; the numbers go to the other side.
        let number = |product: &[Vec<Piece>; 2]| product[side][0].coefficient;
        let (kept, moved) = (number(&products[one]), number(&gone));
        let product = &mut products[one];
        product[1 - side].iter_mut().for_each(|piece| piece.coefficient *= kept);
        product[1 - side].extend(
            gone[1 - side].iter().map(|piece| Piece { coefficient: piece.coefficient * moved, ..piece.clone() }),
        );
        product[side][0].coefficient = 1.0;
    }
    let [rows, columns] = division?;
    Some(Pair { rows, columns, products: products.try_into().ok()? })
}

/// Two products that have the same single factor on one side.
fn with_common_side(terms: &[Term], products: &[[Vec<Piece>; 2]]) -> Option<(usize, usize, usize)> {
    let mark = |pieces: &[Piece]| -> Option<Vec<(usize, Vec<usize>)>> {
        let [only] = pieces else { return None };
        let term = &terms[only.term];
        let place = |label: &Label| {
            let slots = term.rows.iter().chain(&term.columns);
            slots.enumerate().find(|(_, own)| *own == label).map_or(usize::MAX, |(slot, _)| slot)
        };
        let marks: Vec<(usize, Vec<usize>)> = (only.factors.iter().map(|factor| &term.factors[*factor]))
            .map(|(factor, labels)| (*factor, labels.iter().map(place).collect()))
            .collect();
        // Labels between several factors are not distinguished here.
        (!marks.iter().any(|(_, slots)| slots.contains(&usize::MAX))).then_some(marks)
    };
    for side in [0, 1] {
        for one in 0..products.len() {
            for other in one + 1..products.len() {
                let own = mark(&products[one][side]);
                if own.is_some() && own == mark(&products[other][side]) {
                    return Some((side, one, other));
                }
            }
        }
    }
    None
}

/// What two Kronecker products become between Z and W.
pub(super) struct Diagonalised {
    rows: [Vec<usize>; 2],
    columns: [Vec<usize>; 2],
    sizes: [usize; 2],
    /// The inverses of Z and W, row by row.
    inverses: [Vec<f64>; 2],
    /// The sign and the logarithm of the determinants of Z and W.
    determinants: [(f64, f64); 2],
    /// The diagonal, with the index of Z first.
    diagonal: Vec<f64>,
    /// By how much rounding errors of the entries are amplified, at most about.
    pub(super) condition: f64,
}

impl Diagonalised {
    /// Diagonalises two products, or says that this way does not lead anywhere.
    pub(super) fn of(
        pair: &Pair,
        terms: &[Term],
        factors: &[Tensor],
        shape: &Shape,
    ) -> Result<Option<Diagonalised>, Singular> {
        let size = |slots: &[usize]| slots.iter().map(|slot| shape[*slot]).product::<usize>();
        let sizes = [size(&pair.rows[0]), size(&pair.rows[1])];
        let matrix = |product: usize, side: usize| -> Result<Vec<f64>, Singular> {
            let piece = |piece: &Piece| Term {
                coefficient: piece.coefficient,
                factors: piece.factors.iter().map(|place| terms[piece.term].factors[*place].clone()).collect(),
                ..terms[piece.term].clone()
            };
            let own: Vec<Term> = pair.products[product][side].iter().map(piece).collect();
            let output = |term: &Term| -> Vec<Label> {
                let rows = pair.rows[side].iter().map(|slot| term.rows[*slot]);
                rows.chain(pair.columns[side].iter().map(|slot| term.columns[*slot])).collect()
            };
            let extents: Shape = output(&own[0]).iter().map(|label| own[0].extents[*label]).collect();
            Ok(summed(&own, factors, &extents, output)?)
        };
        let a = [matrix(0, 0)?, matrix(1, 0)?];
        let b = [matrix(0, 1)?, matrix(1, 1)?];
        for first in [0, 1] {
            let left = pencil(&a[first], &a[1 - first], sizes[0]);
            let right = pencil(&b[1 - first], &b[first], sizes[1]);
            let (Some(left), Some(right)) = (left, right) else { continue };
            let diagonal = left
                .values
                .iter()
                .flat_map(|own| right.values.iter().map(move |other| right.sign * own + left.sign * other));
            let diagonal: Vec<f64> = diagonal.collect();
            // Eigenvalues are as exact as the largest of them is.
            let widest = |values: &[f64]| values.iter().fold(0.0_f64, |widest, value| widest.max(value.abs()));
            let least = diagonal.iter().fold(f64::INFINITY, |least, number| least.min(number.abs()));
            let cancelled = (widest(&left.values) + widest(&right.values)) / least;
            let condition = cancelled * (left.condition + right.condition);
            if is_singular(condition, f64::EPSILON) {
                return Err(Singular::Yes("a sum of two generalised eigenvalues vanishes".to_owned()));
            }
            return Ok(Some(Diagonalised {
                rows: pair.rows.clone(),
                columns: pair.columns.clone(),
                sizes,
                inverses: [left.inverse, right.inverse],
                determinants: [left.determinant, right.determinant],
                diagonal,
                condition,
            }));
        }
        Ok(None)
    }

    /// Solves for right-hand sides beside one another along the last axis.
    pub(super) fn solve(&self, right: &mut Vec<f64>, shape: &Shape, count: usize) {
        let rank = shape.rank();
        let others: Vec<usize> = (0..rank)
            .filter(|slot| !self.rows[0].contains(slot) && !self.rows[1].contains(slot))
            .chain([rank])
            .collect();
        let sizes: Vec<usize> = shape.iter().copied().chain([count]).collect();
        let order: Vec<usize> = [&self.rows[0][..], &self.rows[1], &others].concat();
        let beside: usize = others.iter().map(|axis| sizes[*axis]).product();
        let [m, n] = self.sizes;
        let mut x = permuted(right, &sizes, &order);
        let along = |x: &[f64], transposed: bool| {
            let x = multiplied(&self.inverses[0], x, m, transposed);
            let x = permuted(&x, &[m, n, beside], &[1, 0, 2]);
            let x = multiplied(&self.inverses[1], &x, n, transposed);
            permuted(&x, &[n, m, beside], &[1, 0, 2])
        };
        x = along(&x, false);
        for (row, number) in x.chunks_exact_mut(beside.max(1)).zip(&self.diagonal) {
            row.iter_mut().for_each(|element| *element /= number);
        }
        x = along(&x, true);
        let solved: Vec<usize> = [&self.columns[0][..], &self.columns[1], &others].concat();
        let solved_sizes: Vec<usize> = solved.iter().map(|axis| sizes[*axis]).collect();
        let back: Vec<usize> =
            (0..=rank).map(|slot| solved.iter().position(|axis| *axis == slot).unwrap_or(rank)).collect();
        *right = permuted(&x, &solved_sizes, &back);
    }

    /// The orders of rows and columns in which this is a product, and the determinant of that, for one right-hand side.
    pub(super) fn determinant(&self) -> (f64, f64) {
        let [m, n] = self.sizes;
        let start = (1.0, 2.0 * (self.determinants[0].1 * n as f64 + self.determinants[1].1 * m as f64));
        self.diagonal.iter().fold(start, |(sign, log), number| (sign * number.signum(), log + number.abs().ln()))
    }

    pub(super) fn sides(&self) -> (Vec<usize>, Vec<usize>) {
        (self.rows.concat(), self.columns.concat())
    }
}

/// A product of a square matrix, or its transpose, with the other factors.
fn multiplied(matrix: &[f64], x: &[f64], size: usize, transposed: bool) -> Vec<f64> {
    let count = x.len() / size.max(1);
    let mut result = vec![0.0; x.len()];
    for i in 0..size {
        for j in 0..size {
            let factor = if transposed { matrix[j * size + i] } else { matrix[i * size + j] };
            let (row, other) = (&mut result[i * count..(i + 1) * count], &x[j * count..(j + 1) * count]);
            row.iter_mut().zip(other).for_each(|(a, b)| *a += factor * b);
        }
    }
    result
}

/// Z with one = Z diag(values) Zᵀ and other = sign·ZZᵀ.
struct Pencil {
    values: Vec<f64>,
    sign: f64,
    inverse: Vec<f64>,
    determinant: (f64, f64),
    /// The condition number of what is definite.
    condition: f64,
}

fn is_symmetric(matrix: &[f64], size: usize) -> bool {
    let largest = matrix.iter().fold(0.0_f64, |largest, number| largest.max(number.abs()));
    (0..size).all(|i| (0..i).all(|j| (matrix[i * size + j] - matrix[j * size + i]).abs() <= 1e-12 * largest))
}

fn pencil(one: &[f64], other: &[f64], size: usize) -> Option<Pencil> {
    if size == 0 || !is_symmetric(one, size) || !is_symmetric(other, size) {
        return None;
    }
    let sign = other[0].signum();
    // other = ±LLᵀ.
    let mut lower = vec![0.0; size * size];
    for i in 0..size {
        for j in 0..=i {
            let known: f64 = (0..j).map(|k| lower[i * size + k] * lower[j * size + k]).sum();
            let rest = sign * other[i * size + j] - known;
            if i == j {
                if rest.is_nan() || rest <= 1e-12 * (known + rest.abs()) {
                    return None;
                }
                lower[i * size + i] = rest.sqrt();
            } else {
                lower[i * size + j] = rest / lower[j * size + j];
            }
        }
    }
    let factors = Factors::of(size, lower).ok()?;
    let mut scratch = Vec::new();
    // L⁻¹·one·L⁻ᵀ = UΛUᵀ, and Z = LU.
    let mut middle = one.to_vec();
    factors.solve(&mut middle, &mut scratch);
    let mut middle = permuted(&middle, &[size, size], &[1, 0]);
    factors.solve(&mut middle, &mut scratch);
    let (values, vectors) = symmetric_eigen(middle, size)?;
    let mut inverse = vec![0.0; size * size];
    (0..size).for_each(|k| inverse[k * size + k] = 1.0);
    factors.solve(&mut inverse, &mut scratch);
    let inverse = multiplied(&vectors, &inverse, size, true);
    let condition = factors.condition * factors.condition;
    Some(Pencil { values, sign, inverse, determinant: factors.determinant(), condition })
}
