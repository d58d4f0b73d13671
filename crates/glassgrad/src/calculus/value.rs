//! Structured derivatives as values.

use std::fmt;
use std::sync::Arc;

use super::block::{Layout, Place, Term, array, numbers};
use super::derivative::{Derivative, Plan};
use super::structure::{self, Structure};
use super::system::{System, dense_block};
use crate::dtype::DType;
use crate::error::Error;
use crate::expr::Tensor;
use crate::opt::contract::metric;
use crate::shape::Shape;
use crate::tree::Tree;

/// What is held, and where it belongs. Leaves of trees are lists here.
struct Held {
    layout: Arc<Layout>,
    factors: Vec<Tensor>,
}

impl Held {
    /// The leaves of a tree that take part, which must have the shapes and types of the places.
    fn leaves<T: Tree>(operation: &str, tree: &T, places: &[Place]) -> Result<Vec<Tensor>, Error> {
        let leaves = tree.flatten();
        let mut found = Vec::new();
        for place in places {
            let Some(leaf) = leaves.get(place.leaf) else {
                let message = format!("there is no leaf {:?} in what it is applied to", place.path);
                return Err(Error::new(operation, message));
            };
            if let Some(error) = leaf.error() {
                return Err(error.clone());
            }
            if leaf.shape() != &place.shape || leaf.dtype() != place.dtype {
                let message =
                    format!("leaf {:?} must be {}{}, not {}", place.path, place.dtype, place.shape, leaf.describe());
                return Err(Error::new(operation, message).at(leaf.origin()));
            }
            found.push(leaf.clone());
        }
        Ok(found)
    }

    /// A tree of some shape with these leaves at their places and zeros elsewhere.
    fn tree<T: Tree>(model: &T, places: &[Place], tensors: Vec<Tensor>) -> T {
        let mut leaves: Vec<Tensor> =
            model.flatten().iter().map(|leaf| Tensor::full(leaf.shape().clone(), 0.0, leaf.dtype())).collect();
        places.iter().zip(tensors).for_each(|(place, tensor)| leaves[place.leaf] = tensor);
        model.with_leaves(leaves)
    }

    /// The product with vectors, one for each column.
    fn product(&self, vectors: &[Tensor], transposed: bool) -> Vec<Tensor> {
        let Layout { rows, columns, blocks, .. } = &*self.layout;
        let (results, operands) = if transposed { (columns, rows) } else { (rows, columns) };
        let one = |(result, place): (usize, &Place)| {
            let mut parts = Vec::new();
            for (operand, vector) in vectors.iter().enumerate().take(operands.len()) {
                let (row, column) = if transposed { (operand, result) } else { (result, operand) };
                for term in &blocks[row][column] {
                    let (output, labels) =
                        if transposed { (&term.columns, &term.rows) } else { (&term.rows, &term.columns) };
                    parts.push(term.contracted(&self.factors, &[(vector, labels)], output, place.dtype));
                }
            }
            match &parts[..] {
                [] => Tensor::full(place.shape.clone(), 0.0, place.dtype),
                parts => Tensor::add_all("add", &parts.iter().collect::<Vec<_>>()),
            }
        };
        results.iter().enumerate().map(one).collect()
    }

    /// The diagonal, leaf by leaf.
    fn diagonal(&self, operation: &str) -> Result<Vec<Tensor>, Error> {
        self.square(operation)?;
        let one = |(leaf, place): (usize, &Place)| {
            let terms = self.layout.blocks[leaf][leaf].iter().map(Term::diagonal);
            let parts: Vec<Tensor> =
                terms.map(|term| term.contracted(&self.factors, &[], &term.rows, place.dtype)).collect();
            match &parts[..] {
                [] => Tensor::full(place.shape.clone(), 0.0, place.dtype),
                parts => Tensor::add_all("add", &parts.iter().collect::<Vec<_>>()),
            }
        };
        Ok(self.layout.rows.iter().enumerate().map(one).collect())
    }

    fn square(&self, operation: &str) -> Result<(), Error> {
        let Layout { rows, columns, .. } = &*self.layout;
        if rows.len() == columns.len() && rows.iter().zip(columns).all(|(row, column)| row.shape == column.shape) {
            return Ok(());
        }
        let shapes =
            |places: &[Place]| places.iter().map(|place| place.shape.to_string()).collect::<Vec<_>>().join(", ");
        let message = format!("rows of the shapes {} are not columns of the shapes {}", shapes(rows), shapes(columns));
        Err(Error::new(operation, message))
    }

    fn trace(&self) -> Result<f64, Error> {
        self.square("trace")?;
        let mut total = 0.0;
        for leaf in 0..self.layout.rows.len() {
            for term in self.layout.blocks[leaf][leaf].iter().map(Term::traced) {
                total += term.contracted(&self.factors, &[], &[], self.layout.rows[leaf].dtype).item()?;
            }
        }
        Ok(total)
    }

    fn bytes(&self) -> usize {
        self.factors.iter().map(|factor| factor.shape().elements() * factor.dtype().bytes()).sum()
    }

    fn dense(&self) -> Result<Tensor, Error> {
        let Layout { rows, columns, limit, .. } = &*self.layout;
        let bytes = self.layout.dense_bytes();
        if bytes > *limit {
            let message = format!("the dense array takes {}", metric(bytes, "B"));
            return Err(Error::new("to_dense", message)
                .help(format!("the limit is {}; raise it with .limit(bytes)", metric(*limit, "B"))));
        }
        let dtype = rows.first().map_or(DType::F64, |place| place.dtype);
        if let ([row], [column]) = (&rows[..], &columns[..]) {
            let block = dense_block(&self.layout, &self.factors, 0, 0)?;
            return Ok(Tensor::leaf(array(row.shape.followed_by(&column.shape), dtype, block)));
        }
        let width: usize = columns.iter().map(|place| place.shape.elements()).sum();
        let mut matrix: Vec<f64> = Vec::new();
        for (row, place) in rows.iter().enumerate() {
            let height = place.shape.elements();
            let blocks = (0..columns.len()).map(|column| dense_block(&self.layout, &self.factors, row, column));
            let blocks = blocks.collect::<Result<Vec<_>, Error>>()?;
            for line in 0..height {
                for (block, column) in blocks.iter().zip(columns) {
                    let count = column.shape.elements();
                    matrix.extend_from_slice(&block[line * count..(line + 1) * count]);
                }
            }
        }
        let height = if width == 0 { 0 } else { matrix.len() / width };
        Ok(Tensor::leaf(array(Shape::from([height, width]), dtype, matrix)))
    }

    fn factor(&self, operation: &str) -> Result<System, Error> {
        System::of(&self.layout, &self.factors).map_err(|singular| singular.into_error(operation, self.layout.limit))
    }

    /// The solution for one right-hand side with numbers for each row.
    fn solve(&self, system: &System, right: &[Tensor]) -> Result<Vec<Tensor>, Error> {
        let arrays = Tensor::eval_all(&right.iter().collect::<Vec<_>>())?;
        let right: Vec<Vec<f64>> = arrays.iter().map(|array| numbers(array).into_owned()).collect();
        let columns = &self.layout.columns;
        let apply = |vector: &[f64]| -> Result<Vec<f64>, Error> {
            let mut rest = vector;
            let mut leaves = Vec::new();
            for place in columns {
                let (own, after) = rest.split_at(place.shape.elements());
                leaves.push(Tensor::leaf(array(place.shape.clone(), place.dtype, own.to_vec())));
                rest = after;
            }
            let product = self.product(&leaves, false);
            let arrays = Tensor::eval_all(&product.iter().collect::<Vec<_>>())?;
            Ok(arrays.iter().flat_map(|array| numbers(array).into_owned()).collect())
        };
        let found = system.solve(&self.layout, right, &apply);
        let found = found.map_err(|singular| singular.into_error("solve", self.layout.limit))?;
        let leaf =
            |(place, numbers): (&Place, Vec<f64>)| Tensor::leaf(array(place.shape.clone(), place.dtype, numbers));
        Ok(columns.iter().zip(found).map(leaf).collect())
    }

    fn log_determinant(system: &System) -> Result<f64, Error> {
        match system.determinant() {
            Some((sign, logarithm)) => Ok(if sign < 0.0 { f64::NAN } else { logarithm }),
            None => Err(Error::new("logdet", "the system is too large to be factored")
                .help("raise the limit of memory with .limit(bytes)")),
        }
    }

    fn structure(&self) -> Structure {
        let Layout { rows, columns, blocks, .. } = &*self.layout;
        let of = |row: usize, column: usize| {
            structure::structure(&blocks[row][column], &rows[row].shape, &columns[column].shape)
        };
        match (rows.len(), columns.len()) {
            (1, 1) => of(0, 0),
            (height, width) => {
                Structure::Leaves((0..height).map(|row| (0..width).map(|column| of(row, column)).collect()).collect())
            }
        }
    }

    fn write(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (held, dense) = (metric(self.bytes() as u128, "B"), metric(self.layout.dense_bytes(), "B"));
        write!(formatter, "{}\n{}; dense {dense}, held {held}", structure::expression(&self.layout), self.structure())
    }
}

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
    system: System,
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
    /// let slope = calculus::jacobian(|x: &Tensor| x.square()).at(&Tensor::from([1.0, 3.0])).unwrap();
    /// assert_eq!(slope.diag().unwrap().to_string(), "[2, 6]");
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

        /// The logarithm of the determinant: NaN if it is negative, and an error if the system is singular.
        ///
        /// ```
        /// use glassgrad::{Tensor, calculus};
        /// let h = calculus::hessian(|x: &Tensor| x.square().sum()).at(&Tensor::zeros(4)).unwrap();
        /// assert!((h.logdet().unwrap() - 16.0_f64.ln()).abs() < 1e-12);
        /// ```
        pub fn logdet(&self) -> Result<f64, Error> {
            Held::log_determinant(&self.held.factor("logdet")?)
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

    /// The direction that this Hessian maps to a gradient. A singular system is an error that says so.
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
        Ok(Factored { hessian: self, system: self.held.factor("solve")? })
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
        Ok(Held::tree(&**model, &held.layout.columns, held.solve(&self.system, &right)?))
    }

    /// The logarithm of the determinant, NaN if it is negative.
    ///
    /// ```
    /// use glassgrad::{Tensor, calculus};
    /// let h = calculus::hessian(|x: &Tensor| x.square().sum()).at(&Tensor::from([0.0])).unwrap();
    /// assert_eq!(h.factor().unwrap().logdet().unwrap(), 2.0_f64.ln());
    /// ```
    pub fn logdet(&self) -> Result<f64, Error> {
        Held::log_determinant(&self.system)
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
        let system = self.held.factor("solve")?;
        let right = Held::leaves("solve", result, &self.held.layout.rows)?;
        let found = self.held.solve(&system, &right)?;
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
