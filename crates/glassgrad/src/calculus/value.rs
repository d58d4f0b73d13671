//! Structured derivatives as values.

use std::fmt;
use std::sync::Arc;

#[cfg(all(feature = "glass", feature = "linalg"))]
use super::block::numbers;
use super::block::{Layout, Term, array};
use super::derivative::Derivative;
use super::plan::Plan;
use super::storage::Held;
use super::structure::{self, Structure};
use super::triplets::Triplets;
use super::verify::Factorisation;
use crate::error::Error;
use crate::expr::Tensor;
use crate::tree::Tree;

/// The Hessian of a function at a point, compressed: see [`hessian`](super::hessian).
///
/// ```
/// use glassgrad::{Tensor, calculus};
/// let h = calculus::hessian(|x: &Tensor| x.powi(3).sum()).at(&Tensor::from([1.0, 2.0])).unwrap();
/// assert_eq!(h.matvec(&Tensor::from([1.0, 10.0])).unwrap().to_string(), "[  6, 120]");
/// assert_eq!(h.solve(&Tensor::from([6.0, 6.0])).unwrap().to_string(), "[  1, 0.5]");
/// ```
pub struct Hessian<X> {
    /// The structure of arguments.
    model: Arc<X>,
    held: Held,
}

/// The Jacobian of a function at a point, compressed: see [`jacobian`](super::jacobian).
///
/// ```
/// use glassgrad::{Tensor, calculus};
/// let j = calculus::jacobian(|x: &Tensor| x.sin()).at(&Tensor::from([0.0])).unwrap();
/// assert_eq!(j.matvec(&Tensor::from([2.0])).unwrap().to_string(), "[2]");
/// ```
pub struct Jacobian<X, Y> {
    /// The structures of arguments and results.
    arguments: Arc<X>,
    results: Arc<Y>,
    held: Held,
}

/// A Hessian that was factored, for as many right-hand sides as are needed.
///
/// ```
/// use glassgrad::{Tensor, calculus};
/// let h = calculus::hessian(|x: &Tensor| x.square().sum()).at(&Tensor::from([1.0, 2.0])).unwrap();
/// let factored = h.factor().unwrap();
/// assert_eq!(factored.solve(&Tensor::from([2.0, 4.0])).unwrap().to_string(), "[1, 2]");
/// ```
pub struct Factored<'h, X> {
    hessian: &'h Hessian<X>,
    system: Factorisation,
}

impl<'f, X: Tree + 'f> Derivative<'f, X, X, Hessian<X>> {
    /// The Hessian at a point.
    ///
    /// ```
    /// use glassgrad::{Tensor, calculus};
    /// let curvature = calculus::hessian(|x: &Tensor| x.powi(4).sum());
    /// assert_eq!(curvature.at(&Tensor::from([1.0])).unwrap().trace().unwrap(), 12.0);
    /// assert_eq!(curvature.at(&Tensor::from([2.0])).unwrap().trace().unwrap(), 48.0);
    /// ```
    #[track_caller]
    pub fn at(&self, x: &X) -> Result<Hessian<X>, Error> {
        let (plan, factors) = self.computed(x)?;
        Ok(Hessian::of(&plan, factors))
    }

    /// The value, the gradient and the Hessian at a point, computed together.
    ///
    /// ```
    /// use glassgrad::{Tensor, calculus};
    /// let f = calculus::hessian(|x: &Tensor| x.powi(3).sum());
    /// let (value, gradient, hessian) = f.with_gradient_at(&Tensor::from([2.0])).unwrap();
    /// assert_eq!((value.item(), gradient.item(), hessian.trace()), (Ok(8.0), Ok(12.0), Ok(12.0)));
    /// ```
    #[track_caller]
    pub fn with_gradient_at(&self, x: &X) -> Result<(Tensor, X, Hessian<X>), Error> {
        let (plan, mut factors) = self.computed_with_gradient(x)?;
        let mut beside = factors.split_off(plan.layout.factors);
        let gradient = plan.results.with_leaves(beside.split_off(1));
        Ok((beside.remove(0), gradient, Hessian::of(&plan, factors)))
    }
}

impl<'f, X: Tree + 'f, Y: Tree + 'f> Derivative<'f, X, Y, Jacobian<X, Y>> {
    /// The Jacobian at a point.
    ///
    /// ```
    /// use glassgrad::{Tensor, calculus};
    /// let jacobian = calculus::jacobian(|x: &Tensor| x.square()).at(&Tensor::from([1.0, 3.0])).unwrap();
    /// assert_eq!(jacobian.diag().unwrap().to_string(), "[2, 6]");
    /// ```
    #[track_caller]
    pub fn at(&self, x: &X) -> Result<Jacobian<X, Y>, Error> {
        let (plan, factors) = self.computed(x)?;
        let held = Held { layout: Arc::clone(&plan.layout), factors };
        Ok(Jacobian { arguments: Arc::clone(&plan.arguments), results: Arc::clone(&plan.results), held })
    }
}

/// What Hessians and Jacobians have in common.
macro_rules! shared_methods {
    () => {
        /// The trace.
        ///
        /// ```
        /// use glassgrad::{Tensor, calculus};
        /// let h = calculus::hessian(|x: &Tensor| x.square().sum()).at(&Tensor::zeros([5, 5])).unwrap();
        /// assert_eq!(h.trace().unwrap(), 50.0);
        /// ```
        pub fn trace(&self) -> Result<f64, Error> {
            self.held.trace()
        }

        /// The logarithm of the determinant: NaN if it is negative, and an error if the system is singular, or cannot be distinguished
        /// from a singular one in the precision of its entries.
        ///
        /// ```
        /// use glassgrad::{Tensor, calculus};
        /// let h = calculus::hessian(|x: &Tensor| x.square().sum()).at(&Tensor::zeros(4)).unwrap();
        /// assert!((h.logdet().unwrap() - 16.0_f64.ln()).abs() < 1e-12);
        /// ```
        pub fn logdet(&self) -> Result<f64, Error> {
            Factorisation::of(&self.held, "logdet")?.log_determinant()
        }

        /// The dense array: the axes of rows and then those of columns, or, for trees of several leaves, one matrix. If
        /// that takes more than the limit of memory, it is an error, and nothing is materialised.
        ///
        /// ```
        /// use glassgrad::{Tensor, calculus};
        /// let h = calculus::hessian(|x: &Tensor| x.square().sum()).at(&Tensor::zeros(2)).unwrap();
        /// assert_eq!(h.to_dense().unwrap().to_string(), "[[2, 0],\n [0, 2]]");
        /// ```
        pub fn to_dense(&self) -> Result<Tensor, Error> {
            self.held.dense()
        }

        /// The elements that can differ from zero, as a list of coordinates: the structure of the derivative without its zeros. If the
        /// list takes more than the limit of memory, it is an error.
        ///
        /// ```
        /// use glassgrad::scalar::SparseMatrix;
        /// use glassgrad::{Tensor, calculus};
        /// let h = calculus::hessian(|x: &Tensor| x.powi(4).sum()).at(&Tensor::from([1.0, 2.0])).unwrap();
        /// let sparse = SparseMatrix::from(&h.triplets().unwrap());
        /// assert_eq!((sparse.stored(), sparse.get(1, 1)), (2, 48.0));
        /// ```
        pub fn triplets(&self) -> Result<Triplets, Error> {
            self.held.triplets()
        }

        /// The largest element of the product of the magnitudes of all factors with those of a direction, by which rounding
        /// errors of the product with that direction are measured.
        #[cfg(all(feature = "glass", feature = "linalg"))]
        pub(crate) fn magnitude(&self, direction: &X) -> Result<f64, Error> {
            let vectors = Held::leaves("magnitude", direction, &self.held.layout.columns)?;
            let arrays = Tensor::eval_all(&vectors.iter().collect::<Vec<_>>())?;
            let vector: Vec<f64> = arrays.iter().flat_map(|array| numbers(array).into_owned()).collect();
            let absolute: Vec<f64> = vector.iter().map(|number| number.abs()).collect();
            let sizes = self.held.in_double().magnitudes().apply(&absolute)?;
            Ok(sizes.into_iter().filter(|size| size.is_finite()).fold(0.0, f64::max))
        }

        /// The bytes that are held.
        ///
        /// ```
        /// use glassgrad::{Tensor, calculus};
        /// let h = calculus::hessian(|x: &Tensor| x.square().sum()).at(&Tensor::zeros([100, 100])).unwrap();
        /// assert_eq!(h.bytes(), 0); // 2·δ needs nothing but its number
        /// ```
        pub fn bytes(&self) -> usize {
            self.held.bytes()
        }

        /// The bytes that the dense array would take.
        ///
        /// ```
        /// use glassgrad::{Tensor, calculus};
        /// let h = calculus::hessian(|x: &Tensor| x.square().sum()).at(&Tensor::zeros(10)).unwrap();
        /// assert_eq!(h.dense_bytes(), 400);
        /// ```
        pub fn dense_bytes(&self) -> u128 {
            self.held.layout.dense_bytes()
        }

        /// The structure that `solve` uses.
        ///
        /// ```
        /// use glassgrad::{Tensor, calculus};
        /// let h = calculus::hessian(|x: &Tensor| x.square().sum()).at(&Tensor::zeros(10)).unwrap();
        /// assert_eq!(h.structure().to_string(), "diagonal");
        /// ```
        pub fn structure(&self) -> Structure {
            self.held.structure()
        }

        /// What is held, in Einstein notation: slots of rows and columns have letters from i on, in this order.
        ///
        /// ```
        /// use glassgrad::{Tensor, calculus};
        /// let h = calculus::hessian(|x: &Tensor| x.square().sum()).at(&Tensor::zeros(10)).unwrap();
        /// assert_eq!(h.expression(), "2·δ_ij");
        /// ```
        pub fn expression(&self) -> String {
            structure::expression(&self.held.layout)
        }
    };
}

impl<X: Tree> Hessian<X> {
    fn of(plan: &Plan<X, X>, factors: Vec<Tensor>) -> Hessian<X> {
        Hessian { model: Arc::clone(&plan.arguments), held: Held { layout: Arc::clone(&plan.layout), factors } }
    }

    /// The Hessian plus a multiple of the identity. Its structure stays: blocks stay blocks, and what has low rank is
    /// corrected by it.
    ///
    /// ```
    /// use glassgrad::{Tensor, calculus};
    /// let h = calculus::hessian(|x: &Tensor| x.sum().square()).at(&Tensor::from([0.0, 0.0])).unwrap();
    /// assert!(h.solve(&Tensor::from([1.0, 1.0])).is_err());
    /// assert_eq!(h.shifted(1.0).solve(&Tensor::from([5.0, 5.0])).unwrap().to_string(), "[1, 1]");
    /// ```
    pub fn shifted(&self, shift: f64) -> Hessian<X> {
        let mut layout = (*self.held.layout).clone();
        for (leaf, place) in self.held.layout.rows.iter().enumerate() {
            layout.blocks[leaf][leaf].push(Term::unit(&place.shape, shift));
        }
        let held = Held { layout: Arc::new(layout), factors: self.held.factors.clone() };
        Hessian { model: Arc::clone(&self.model), held }
    }

    /// The Hessian plus a multiple of a diagonal matrix, whose numbers are given for all leaves in order.
    pub(crate) fn damped(&self, damping: f64, weights: &[f64]) -> Hessian<X> {
        let (mut layout, mut factors) = ((*self.held.layout).clone(), self.held.factors.clone());
        let mut rest = weights;
        for (leaf, place) in self.held.layout.rows.iter().enumerate() {
            let (own, after) = rest.split_at(place.shape.elements().min(rest.len()));
            rest = after;
            let unit = Term::unit(&place.shape, damping);
            let text = format!("{}·D", unit.text);
            layout.blocks[leaf][leaf].push(Term { factors: vec![(factors.len(), unit.rows.clone())], text, ..unit });
            factors.push(Tensor::leaf(array(place.shape.clone(), place.dtype, own.to_vec())));
        }
        layout.factors = factors.len();
        Hessian { model: Arc::clone(&self.model), held: Held { layout: Arc::new(layout), factors } }
    }

    pub(super) fn held(&self) -> &Held {
        &self.held
    }

    /// The product with a direction.
    ///
    /// ```
    /// use glassgrad::{Tensor, calculus};
    /// let h = calculus::hessian(|x: &Tensor| x.prod()).at(&Tensor::from([2.0, 3.0])).unwrap();
    /// assert_eq!(h.matvec(&Tensor::from([1.0, 5.0])).unwrap().to_string(), "[5, 1]");
    /// ```
    pub fn matvec(&self, direction: &X) -> Result<X, Error> {
        let vectors = Held::leaves("matvec", direction, &self.held.layout.columns)?;
        Held::tree(&*self.model, &self.held.layout.rows, self.held.product(&vectors, false)).realise()
    }

    /// The product with a direction from the left, which for a symmetric matrix is the same.
    ///
    /// ```
    /// use glassgrad::{Tensor, calculus};
    /// let h = calculus::hessian(|x: &Tensor| x.prod()).at(&Tensor::from([2.0, 3.0])).unwrap();
    /// assert_eq!(h.rmatvec(&Tensor::from([1.0, 5.0])).unwrap().to_string(), "[5, 1]");
    /// ```
    pub fn rmatvec(&self, direction: &X) -> Result<X, Error> {
        let vectors = Held::leaves("rmatvec", direction, &self.held.layout.rows)?;
        Held::tree(&*self.model, &self.held.layout.columns, self.held.product(&vectors, true)).realise()
    }

    /// The diagonal.
    ///
    /// ```
    /// use glassgrad::{Tensor, calculus};
    /// let h = calculus::hessian(|x: &Tensor| x.powi(3).sum()).at(&Tensor::from([1.0, 2.0])).unwrap();
    /// assert_eq!(h.diag().unwrap().to_string(), "[ 6, 12]");
    /// ```
    pub fn diag(&self) -> Result<X, Error> {
        Held::tree(&*self.model, &self.held.layout.columns, self.held.diagonal("diag")?).realise()
    }

    /// The direction that this Hessian maps to a gradient. The residual of every solution is checked, and refined where the
    /// structured factorisation is inaccurate; where that does not help, the dense matrix is factored. A system that is
    /// singular, or that cannot be distinguished from a singular one in the precision of its entries, is an error that says so.
    ///
    /// A system that is too large to be factored is solved by products with vectors. If such a system is singular but has a
    /// solution for this right-hand side, that is returned without an error.
    ///
    /// ```
    /// use glassgrad::{Tensor, calculus};
    /// let h = calculus::hessian(|x: &Tensor| x.powi(3).sum()).at(&Tensor::from([1.0, 0.0])).unwrap();
    /// let error = h.solve(&Tensor::from([1.0, 1.0])).unwrap_err();
    /// assert!(error.to_string().starts_with("solve: the system is singular"));
    /// ```
    pub fn solve(&self, gradient: &X) -> Result<X, Error> {
        self.factor()?.solve(gradient)
    }

    /// Factors the system once, for many right-hand sides.
    ///
    /// ```
    /// use glassgrad::{Tensor, calculus};
    /// let h = calculus::hessian(|x: &Tensor| x.exp().sum()).at(&Tensor::from([0.0, 0.0])).unwrap();
    /// assert_eq!(h.factor().unwrap().describe(), "element by element");
    /// ```
    pub fn factor(&self) -> Result<Factored<'_, X>, Error> {
        Ok(Factored { hessian: self, system: Factorisation::of(&self.held, "solve")? })
    }

    shared_methods!();
}

impl<X: Tree> Factored<'_, X> {
    /// The solution for a right-hand side.
    ///
    /// ```
    /// use glassgrad::{Tensor, calculus};
    /// let h = calculus::hessian(|x: &Tensor| x.square().sum()).at(&Tensor::from([0.0])).unwrap();
    /// assert_eq!(h.factor().unwrap().solve(&Tensor::from([8.0])).unwrap().to_string(), "[4]");
    /// ```
    pub fn solve(&self, right: &X) -> Result<X, Error> {
        let Hessian { model, held } = self.hessian;
        let right = Held::leaves("solve", right, &held.layout.rows)?;
        Ok(Held::tree(&**model, &held.layout.columns, self.system.solve(&right, &held.layout.columns)?))
    }

    /// The logarithm of the determinant, NaN if it is negative.
    ///
    /// ```
    /// use glassgrad::{Tensor, calculus};
    /// let h = calculus::hessian(|x: &Tensor| x.square().sum()).at(&Tensor::from([0.0])).unwrap();
    /// assert_eq!(h.factor().unwrap().logdet().unwrap(), 2.0_f64.ln());
    /// ```
    pub fn logdet(&self) -> Result<f64, Error> {
        self.system.log_determinant()
    }

    /// How the system is solved, in a few words.
    ///
    /// ```
    /// use glassgrad::{Tensor, calculus};
    /// let h = calculus::hessian(|x: &Tensor| x.square().sum()).at(&Tensor::from([0.0])).unwrap();
    /// assert_eq!(h.factor().unwrap().describe(), "element by element");
    /// ```
    pub fn describe(&self) -> &'static str {
        self.system.describe()
    }
}

impl<X: Tree, Y: Tree> Jacobian<X, Y> {
    /// The product with a tangent of the argument.
    ///
    /// ```
    /// use glassgrad::{Tensor, calculus};
    /// let j = calculus::jacobian(|x: &Tensor| x.square()).at(&Tensor::from([1.0, 3.0])).unwrap();
    /// assert_eq!(j.matvec(&Tensor::from([1.0, 1.0])).unwrap().to_string(), "[2, 6]");
    /// ```
    pub fn matvec(&self, tangent: &X) -> Result<Y, Error> {
        let vectors = Held::leaves("matvec", tangent, &self.held.layout.columns)?;
        Held::tree(&*self.results, &self.held.layout.rows, self.held.product(&vectors, false)).realise()
    }

    /// The product with a cotangent of the result.
    ///
    /// ```
    /// use glassgrad::{Tensor, calculus};
    /// let j = calculus::jacobian(|x: &Tensor| x.cumsum(0)).at(&Tensor::from([1.0, 3.0])).unwrap();
    /// assert_eq!(j.rmatvec(&Tensor::from([1.0, 1.0])).unwrap().to_string(), "[2, 1]");
    /// ```
    pub fn rmatvec(&self, cotangent: &Y) -> Result<X, Error> {
        let vectors = Held::leaves("rmatvec", cotangent, &self.held.layout.rows)?;
        Held::tree(&*self.arguments, &self.held.layout.columns, self.held.product(&vectors, true)).realise()
    }

    /// The diagonal, if results have the shapes of arguments.
    ///
    /// ```
    /// use glassgrad::{Tensor, calculus};
    /// let j = calculus::jacobian(|x: &Tensor| x.sum()).at(&Tensor::from([1.0, 3.0])).unwrap();
    /// assert!(j.diag().is_err());
    /// ```
    pub fn diag(&self) -> Result<X, Error> {
        Held::tree(&*self.arguments, &self.held.layout.columns, self.held.diagonal("diag")?).realise()
    }

    /// The tangent of the argument that leads to this one of the result. A singular system is an error that says so.
    ///
    /// ```
    /// use glassgrad::{Tensor, calculus};
    /// let a = Tensor::from([[2.0, 0.0], [1.0, 1.0]]);
    /// let j = calculus::jacobian(|x: &Tensor| a.matmul(x)).at(&Tensor::from([0.0, 0.0])).unwrap();
    /// assert_eq!(j.solve(&Tensor::from([2.0, 3.0])).unwrap().to_string(), "[1, 2]");
    /// ```
    pub fn solve(&self, result: &Y) -> Result<X, Error> {
        let system = Factorisation::of(&self.held, "solve")?;
        let right = Held::leaves("solve", result, &self.held.layout.rows)?;
        let found = system.solve(&right, &self.held.layout.columns)?;
        Ok(Held::tree(&*self.arguments, &self.held.layout.columns, found))
    }

    /// JᵀJ, the Hessian of half the sum of squares without the curvature of what is squared, from the same factors.
    ///
    /// ```
    /// use glassgrad::{Tensor, calculus};
    /// let j = calculus::jacobian(|x: &Tensor| x.square()).at(&Tensor::from([1.0, 3.0])).unwrap();
    /// assert_eq!(j.gram().diag().unwrap().to_string(), "[ 4, 36]");
    /// ```
    pub fn gram(&self) -> Hessian<X> {
        let Layout { columns, blocks, limit, factors, .. } = &*self.held.layout;
        let block = |one: usize, other: usize| -> Vec<Term> {
            let pairs =
                blocks.iter().flat_map(|row| row[one].iter().flat_map(|a| row[other].iter().map(move |b| (a, b))));
            pairs.map(|(a, b)| a.transposed_times(b)).collect()
        };
        let count = columns.len();
        let blocks = (0..count).map(|one| (0..count).map(|other| block(one, other)).collect()).collect();
        let (rows, columns) = (columns.clone(), columns.clone());
        let layout = Layout { rows, columns, blocks, symmetric: true, limit: *limit, factors: *factors };
        let held = Held { layout: Arc::new(layout), factors: self.held.factors.clone() };
        Hessian { model: Arc::clone(&self.arguments), held }
    }

    shared_methods!();
}

/// What is held in Einstein notation, its structure, and how many bytes it takes.
impl<X: Tree> fmt::Display for Hessian<X> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.held.write(formatter)
    }
}

/// What is held in Einstein notation, its structure, and how many bytes it takes.
impl<X: Tree, Y: Tree> fmt::Display for Jacobian<X, Y> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.held.write(formatter)
    }
}
