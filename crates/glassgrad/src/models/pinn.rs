//! Physics-informed networks: a network as the solution of a partial differential equation.

use crate::Tree;
use crate::diff::jvp;
use crate::expr::Tensor;
use crate::nn::{Activation, Layer as _, Mlp};
use crate::rng::Key;

/// A network u(x) of points in space that is trained to satisfy Poisson's equation Δu = f inside of a domain, with given values
/// on its boundary.
///
/// ```
/// use glassgrad::{Tensor, models::Pinn, rng::Key};
/// let network = Pinn::new(Key::new(1), &[2, 16, 1]);
/// let points = Tensor::uniform(Key::new(2), [5, 2]);
/// let (u, laplacian) = network.value_and_laplacian(&points);
/// assert_eq!((u.shape().to_string(), laplacian.shape().to_string()), ("[5]".into(), "[5]".into()));
/// ```
#[derive(Clone, Debug, Tree)]
pub struct Pinn {
    /// The network, with tanh: its second derivatives are smooth.
    pub network: Mlp,
}

impl Pinn {
    /// A network with these widths: the dimensions of space first, 1 last.
    pub fn new(key: Key, widths: &[usize]) -> Pinn {
        Pinn { network: Mlp::new(key, widths, Activation::Tanh) }
    }

    /// The values at points `[points, dimensions]`.
    ///
    /// ```
    /// use glassgrad::{Tensor, models::Pinn, rng::Key};
    /// assert_eq!(Pinn::new(Key::new(1), &[3, 8, 1]).apply(&Tensor::ones([5, 3])).shape().to_string(), "[5]");
    /// ```
    #[track_caller]
    pub fn apply(&self, points: &Tensor) -> Tensor {
        self.network.apply(points).squeeze(-1)
    }

    /// The values at points and the Laplacians there, by a second forward derivative along each axis of space: points do not
    /// interact, so that one direction serves all of them.
    #[track_caller]
    pub fn value_and_laplacian(&self, points: &Tensor) -> (Tensor, Tensor) {
        let value = self.apply(points);
        let dimensions = points.shape().last().copied().unwrap_or(0);
        let mut laplacian: Option<Tensor> = None;
        for axis in 0..dimensions {
            let direction = Tensor::from(axis as i64).one_hot(dimensions, points.dtype());
            let direction = direction.broadcast_to(points.shape());
            let first = |points: &Tensor| jvp(|points: &Tensor| self.apply(points), points, &direction).1;
            let second = jvp(first, points, &direction).1;
            laplacian = Some(match laplacian {
                Some(sum) => sum + second,
                None => second,
            });
        }
        (value.clone(), laplacian.unwrap_or_else(|| value.zeros_like()))
    }

    /// The mean squared residual of Δu = f at points inside, plus the mean squared error of u on the boundary.
    ///
    /// ```
    /// use glassgrad::{Tensor, grad, models::Pinn, rng::Key};
    /// let network = Pinn::new(Key::new(1), &[2, 8, 1]);
    /// let (inside, boundary) = (Tensor::uniform(Key::new(2), [6, 2]), Tensor::zeros([4, 2]));
    /// let loss = |network: &Pinn| network.loss(&inside, &Tensor::zeros([6]), &boundary, &Tensor::zeros([4]));
    /// assert!(grad(loss)(&network).network.layers[0].weight.eval().is_ok());
    /// ```
    #[track_caller]
    pub fn loss(&self, inside: &Tensor, source: &Tensor, boundary: &Tensor, values: &Tensor) -> Tensor {
        let (_, laplacian) = self.value_and_laplacian(inside);
        (laplacian - source).square().mean() + (self.apply(boundary) - values).square().mean()
    }
}
