//! Systems of linear equations, and the inverse.

use std::panic::Location;

use glassgrad_linalg::Matrix;

use super::batched::{MatrixOperation, Origin, sizes, square, square_size};
use super::factor::{Lu, NOISE};
use super::matrices::{as_column, identity};
use crate::einsum::Einsum;
use crate::expr::{Index, Op, Rule, Tensor, s};
use crate::shape::Shape;

/// a⁻¹b, under the name of the operation that needs it.
#[derive(Clone, Debug)]
pub(super) struct Solve {
    pub(super) name: &'static str,
}

impl MatrixOperation for Solve {
    fn name(&self) -> &'static str {
        self.name
    }

    fn shape(&self, inputs: &[(usize, usize)]) -> Result<(usize, usize), String> {
        right_hand_side(inputs)
    }

    fn compute(&self, inputs: &[Matrix], epsilon: f64) -> Result<Matrix, String> {
        let factors = Lu::regular(&inputs[0], epsilon);
        Ok(factors.map_err(|predicate| predicate + "; pinv and lstsq take such matrices")?.solve(&inputs[1]))
    }

    /// a·x = b: da·x + a·dx = db, so the cotangent of b is a⁻ᵀg, and that of a is -a⁻ᵀg·xᵀ.
    fn rule<'r>(&self, inputs: &'r [Tensor], x: &'r Tensor) -> Rule<'r> {
        let name = self.name;
        Rule::Pullback(Box::new(move |g| {
            let of_b = Solve { name }.on(&[&inputs[0].transpose(), g], x.origin());
            vec![Some(-of_b.matmul(&x.transpose())), Some(of_b)]
        }))
    }

    fn meaning(&self) -> String {
        "solve".to_owned()
    }

    /// The solution is the inverse times the right-hand side. The inverse of a transpose is that of the matrix, transposed,
    /// so that both are known to be one.
    fn as_product(&self, inputs: &[Tensor], input: usize, origin: Origin) -> Option<Tensor> {
        let matrix = &inputs[0];
        let turned = match (matrix.op(), &matrix.inputs()[..]) {
            (Op::Einsum(einsum), [before])
                if before.rank() == matrix.rank()
                    && **einsum == Einsum::permutation(before.shape(), &transposition(before.rank())) =>
            {
                inverse(self.name, before, origin).transpose()
            }
            _ => inverse(self.name, matrix, origin),
        };
        (input == 1).then(|| turned.matmul(&inputs[1]))
    }

    fn batched(&self, inputs: &[Tensor], with_axis: &[bool], origin: Origin) -> Tensor {
        match with_axis {
            [false, true] => with_more_columns(&inputs[1], |b| self.clone().on(&[&inputs[0], b], origin)),
            _ => self.as_one_stack(inputs, with_axis, origin),
        }
    }
}

/// The order of axes that exchanges the last two.
fn transposition(rank: usize) -> Vec<usize> {
    (0..rank - 2).chain([rank - 1, rank - 2]).collect()
}

/// The shape of the solution of a system, which is that of its right-hand side.
fn right_hand_side(inputs: &[(usize, usize)]) -> Result<(usize, usize), String> {
    let (size, (rows, columns)) = (square(inputs[0])?, inputs[1]);
    if rows == size {
        Ok((rows, columns))
    } else {
        Err(format!("{size} equations meet a right-hand side of {rows} rows"))
    }
}

/// Many right-hand sides of one system are one with more columns, for one factorisation.
fn with_more_columns(b: &Tensor, solve: impl Fn(&Tensor) -> Tensor) -> Tensor {
    let (rank, shape) = (b.rank(), b.shape());
    let (examples, count) = (shape[0], shape[rank - 1]);
    let order: Vec<usize> = (1..rank - 1).chain([0, rank - 1]).collect();
    let back: Vec<usize> = [rank - 2].into_iter().chain(0..rank - 2).chain([rank - 1]).collect();
    let equations = &shape[1..rank - 1];
    let wide = b.permute(&order).reshape(Shape::from(equations).followed_by(&[examples * count]));
    solve(&wide).reshape(Shape::from(equations).followed_by(&[examples, count])).permute(&back)
}

/// Which triangle of a matrix is meant, and how it is read. Nothing outside of it is.
///
/// ```
/// use glassgrad::Tensor;
/// use glassgrad::operations::linalg::Triangle;
/// let l = Tensor::from([[2.0, f64::NAN], [1.0, 4.0]]);
/// let b = Tensor::from([2.0, 9.0]);
/// assert_eq!(l.solve_triangular(&b, Triangle::lower()).to_string(), "[1, 2]");
/// assert_eq!(l.solve_triangular(&b, Triangle::lower().unit()).to_string(), "[2, 7]");
/// assert_eq!(l.solve_triangular(&b, Triangle::lower().transposed()).to_string(), "[-0.125,   2.25]");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Triangle {
    upper: bool,
    transposed: bool,
    unit: bool,
}

impl Triangle {
    /// The diagonal and what is below.
    ///
    /// ```
    /// use glassgrad::{Tensor, operations::linalg::Triangle};
    /// let (a, b) = (Tensor::from([[2.0, 1.0], [4.0, 2.0]]), Tensor::from([2.0, 8.0]));
    /// assert_eq!(a.solve_triangular(&b, Triangle::lower()).to_string(), "[1, 2]");
    /// ```
    pub fn lower() -> Triangle {
        Triangle { upper: false, transposed: false, unit: false }
    }

    /// The diagonal and what is above.
    ///
    /// ```
    /// use glassgrad::{Tensor, operations::linalg::Triangle};
    /// let (a, b) = (Tensor::from([[2.0, 1.0], [4.0, 2.0]]), Tensor::from([2.0, 8.0]));
    /// assert_eq!(a.solve_triangular(&b, Triangle::upper()).to_string(), "[-1,  4]");
    /// ```
    pub fn upper() -> Triangle {
        Triangle { upper: true, ..Triangle::lower() }
    }

    /// The same triangle, and its transpose is solved with.
    ///
    /// ```
    /// use glassgrad::{Tensor, operations::linalg::Triangle};
    /// let (a, b) = (Tensor::from([[2.0, 1.0], [4.0, 2.0]]), Tensor::from([2.0, 8.0]));
    /// assert_eq!(a.solve_triangular(&b, Triangle::lower().transposed()).to_string(), "[-7,  4]");
    /// ```
    pub fn transposed(self) -> Triangle {
        Triangle { transposed: !self.transposed, ..self }
    }

    /// The same triangle with ones on the diagonal, whatever stands there.
    ///
    /// ```
    /// use glassgrad::{Tensor, operations::linalg::Triangle};
    /// let (a, b) = (Tensor::from([[2.0, 1.0], [4.0, 2.0]]), Tensor::from([2.0, 8.0]));
    /// assert_eq!(a.solve_triangular(&b, Triangle::lower().unit()).to_string(), "[2, 0]");
    /// ```
    pub fn unit(self) -> Triangle {
        Triangle { unit: true, ..self }
    }

    /// Whether the elements above the diagonal are read, and not those below.
    pub(super) fn is_upper(self) -> bool {
        self.upper
    }

    /// The elements of a matrix that are read, and zeros elsewhere.
    #[track_caller]
    fn of(self, matrix: &Tensor) -> Tensor {
        let inward = isize::from(self.unit);
        if self.upper { matrix.triu(inward) } else { matrix.tril(-inward) }
    }
}

/// t⁻¹b for a triangle, under the name of the operation that needs it.
#[derive(Clone, Debug)]
pub(super) struct SolveTriangular {
    pub(super) name: &'static str,
    pub(super) triangle: Triangle,
    /// Whether the triangle was computed by a decomposition, and zeros on its diagonal were rounded.
    pub(super) computed: bool,
}

impl MatrixOperation for SolveTriangular {
    fn name(&self) -> &'static str {
        self.name
    }

    fn shape(&self, inputs: &[(usize, usize)]) -> Result<(usize, usize), String> {
        right_hand_side(inputs)
    }

    /// What is not finite goes its way, and nothing outside of the triangle is looked at.
    fn is_defined(&self, _: &[Matrix]) -> bool {
        true
    }

    fn compute(&self, inputs: &[Matrix], epsilon: f64) -> Result<Matrix, String> {
        let (t, mut x) = (&inputs[0], inputs[1].clone());
        let Triangle { upper, transposed, unit } = self.triangle;
        let vanishes = |k: usize| {
            let rounding = if self.computed { NOISE * epsilon * t.column(k).fold(0.0, f64::hypot) } else { 0.0 };
            t[(k, k)].abs() <= rounding
        };
        if let Some(place) = (0..t.rows()).filter(|_| !unit).find(|k| vanishes(*k)) {
            return Err(format!("is singular: its diagonal is zero at place {place}"));
        }
        glassgrad_linalg::solve_triangular(t, glassgrad_linalg::Triangle { upper, transposed, unit }, &mut x);
        Ok(x)
    }

    /// As for every system, but only the triangle moves.
    fn rule<'r>(&self, inputs: &'r [Tensor], x: &'r Tensor) -> Rule<'r> {
        let operation = self.clone();
        Rule::Pullback(Box::new(move |g| {
            let triangle = operation.triangle;
            let adjoint = SolveTriangular { triangle: triangle.transposed(), ..operation.clone() };
            let of_b = adjoint.on(&[&inputs[0], g], x.origin());
            let product = if triangle.transposed { x.matmul(&of_b.transpose()) } else { of_b.matmul(&x.transpose()) };
            vec![Some(-triangle.of(&product)), Some(of_b)]
        }))
    }

    fn batched(&self, inputs: &[Tensor], with_axis: &[bool], origin: Origin) -> Tensor {
        match with_axis {
            [false, true] => with_more_columns(&inputs[1], |b| self.clone().on(&[&inputs[0], b], origin)),
            _ => self.as_one_stack(inputs, with_axis, origin),
        }
    }
}

/// x·t⁻¹ for the triangle of a decomposition.
pub(super) fn divided(name: &'static str, x: &Tensor, t: &Tensor, triangle: Triangle, origin: Origin) -> Tensor {
    let system = SolveTriangular { name, triangle: triangle.transposed(), computed: true };
    system.on(&[t, &x.transpose()], origin).transpose()
}

/// The solution for a right-hand side that may be a vector, which then is a matrix of one column on the way.
pub(super) fn for_vector_or_matrix(b: &Tensor, solve: impl FnOnce(&Tensor) -> Tensor) -> Tensor {
    if b.error().is_some() || b.rank() != 1 {
        return solve(b);
    }
    solve(&as_column(b)).slice(&[Index::Rest, s(0)])
}

/// Systems of linear equations.
impl Tensor {
    /// The x with `self`·x = b, where b is a vector or, with more axes, a stack of matrices; leading axes
    /// broadcast. A singular matrix is an error.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let a = Tensor::from([[2.0, 1.0], [1.0, 3.0]]);
    /// assert_eq!(a.solve(&Tensor::from([5.0, 10.0])).to_string(), "[1, 3]");
    /// let flat = Tensor::from([[1.0, 2.0], [2.0, 4.0]]);
    /// let error = flat.solve(&Tensor::from([5.0, 10.0])).eval().unwrap_err();
    /// assert!(error.to_string().starts_with("solve: the matrix is singular: pivot 1 vanishes"));
    /// ```
    #[track_caller]
    pub fn solve(&self, b: &Tensor) -> Tensor {
        let origin = Location::caller();
        for_vector_or_matrix(b, |b| Solve { name: "solve" }.on(&[self, b], origin))
    }

    /// [`Tensor::solve`] for stacks of vectors: of matrices `[.., n, n]` and vectors `[.., n]`, whose leading axes
    /// broadcast.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let matrices = Tensor::from([[[2.0, 0.0], [0.0, 4.0]], [[1.0, 0.0], [0.0, 5.0]]]);
    /// let vectors = Tensor::from([[2.0, 4.0], [3.0, 10.0]]);
    /// assert_eq!(matrices.solve_vectors(&vectors).to_string(), "[[1, 1],\n [3, 2]]");
    /// ```
    #[track_caller]
    pub fn solve_vectors(&self, b: &Tensor) -> Tensor {
        self.solve(&b.unsqueeze(-1)).squeeze(-1).composed_as("solve_vectors", &[self, b])
    }

    /// The x with t·x = b for a triangle t of `self`, of which nothing else is read. A zero on its diagonal is an
    /// error. See [`Triangle`] for an example.
    ///
    /// ```
    /// use glassgrad::{Tensor, operations::linalg::Triangle};
    /// let (a, b) = (Tensor::from([[2.0, 1.0], [4.0, 2.0]]), Tensor::from([2.0, 8.0]));
    /// let x = a.solve_triangular(&b, Triangle::lower());
    /// assert_eq!(a.tril(0).matmul(&x).to_string(), "[2, 8]");
    /// ```
    #[track_caller]
    pub fn solve_triangular(&self, b: &Tensor, triangle: Triangle) -> Tensor {
        let origin = Location::caller();
        let operation = SolveTriangular { name: "solve_triangular", triangle, computed: false };
        for_vector_or_matrix(b, |b| operation.on(&[self, b], origin))
    }

    /// The inverse of each matrix. To solve equations, [`Tensor::solve`] is quicker and more accurate.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let a = Tensor::from([[2.0, 0.0], [1.0, 4.0]]);
    /// assert_eq!(a.inv().to_string(), "[[   0.5,      0],\n [-0.125,   0.25]]");
    /// ```
    #[track_caller]
    pub fn inv(&self) -> Tensor {
        inverse("inv", self, Location::caller())
    }

    /// The product of `exponent` factors `self`; of none it is the identity, and a negative number counts factors of
    /// the inverse.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let fibonacci = Tensor::from([[1.0, 1.0], [1.0, 0.0]]);
    /// assert_eq!(fibonacci.matrix_power(10).to_string(), "[[89, 55],\n [55, 34]]");
    /// assert_eq!(fibonacci.matrix_power(-1).to_string(), "[[ 0,  1],\n [ 1, -1]]");
    /// ```
    #[track_caller]
    pub fn matrix_power(&self, exponent: i32) -> Tensor {
        let origin = Location::caller();
        let size = match square_size("matrix_power", self, origin) {
            Ok(size) => size,
            Err(failed) => return failed,
        };
        let mut square = if exponent < 0 { inverse("matrix_power", self, origin) } else { self.clone() };
        let mut power: Option<Tensor> = None;
        let mut left = exponent.unsigned_abs();
        while left > 0 {
            if left % 2 == 1 {
                power = Some(power.map_or_else(|| square.clone(), |power| power.matmul(&square)));
            }
            left /= 2;
            if left > 0 {
                square = square.matmul(&square);
            }
        }
        power.unwrap_or_else(|| identity(size, size, self.dtype()).broadcast_to(self.shape()))
    }
}

/// a⁻¹, under the name of the operation that needs it.
pub(super) fn inverse(name: &'static str, matrix: &Tensor, origin: Origin) -> Tensor {
    match sizes(name, matrix, origin) {
        Ok((_, size)) => Solve { name }.on(&[matrix, &identity(size, size, matrix.dtype())], origin),
        Err(failed) => failed,
    }
}
