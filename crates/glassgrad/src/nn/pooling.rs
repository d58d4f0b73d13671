//! Max and average pooling, and `Flatten`.

use super::layer::Layer;
use crate::Tree;
use crate::expr::Tensor;
use crate::operations::{PerAxis, Pooling};

/// Max pooling over the last `N` axes.
///
/// ```
/// use glassgrad::{Tensor, nn::{Layer, MaxPool}};
/// assert_eq!(MaxPool::<1>::new(2).apply(&Tensor::from([1.0, 5.0, 2.0, 3.0])).to_string(), "[5, 3]");
/// assert_eq!(MaxPool::<2>::new(2).apply(&Tensor::ones([8, 28, 28])).shape().to_string(), "[8, 14, 14]");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Tree)]
pub struct MaxPool<const N: usize> {
    /// The windows.
    #[tree(static)]
    pub config: Pooling<N>,
}

/// Average pooling over the last `N` axes.
///
/// ```
/// use glassgrad::{Tensor, nn::{AvgPool, Layer}};
/// assert_eq!(AvgPool::<1>::new(2).apply(&Tensor::from([1.0, 5.0, 2.0, 3.0])).to_string(), "[  3, 2.5]");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Tree)]
pub struct AvgPool<const N: usize> {
    /// The windows.
    #[tree(static)]
    pub config: Pooling<N>,
}

macro_rules! pool {
    ($Pool:ident, $pooled:ident) => {
        impl<const N: usize> $Pool<N> {
            /// Windows of this size with a stride of the same size.
            ///
            /// ```
            #[doc = concat!("use glassgrad::{nn::", stringify!($Pool), ", operations::Pooling};")]
            #[doc = concat!("let overlapping = ", stringify!($Pool), "::<2> { config: Pooling::new(3).stride(2) };")]
            #[doc = concat!("assert_ne!(", stringify!($Pool), "::<2>::new(3), overlapping);")]
            /// ```
            pub fn new(size: impl PerAxis<N>) -> Self {
                $Pool { config: Pooling::new(size) }
            }
        }

        impl<const N: usize> Layer for $Pool<N> {
            #[track_caller]
            fn apply(&self, x: &Tensor) -> Tensor {
                x.$pooled(self.config)
            }
        }
    };
}

pool!(MaxPool, max_pool);
pool!(AvgPool, avg_pool);

/// Flattens the last axes into one: the layer between convolutions and linear layers.
///
/// ```
/// use glassgrad::{Tensor, nn::{Flatten, Layer}};
/// assert_eq!(Flatten(3).apply(&Tensor::ones([10, 8, 4, 4])).shape().to_string(), "[10, 128]");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Tree)]
pub struct Flatten(#[tree(static)] pub usize);

impl Layer for Flatten {
    #[track_caller]
    fn apply(&self, x: &Tensor) -> Tensor {
        let kept = x.rank().saturating_sub(self.0);
        let mut shape = x.shape()[..kept].to_vec();
        shape.push(x.shape()[kept..].iter().product());
        x.reshape(shape)
    }
}
