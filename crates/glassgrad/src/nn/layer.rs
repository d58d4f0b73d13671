//! The trait `Layer`, and sequential composition of layers.

use crate::dtype::DType;
use crate::expr::{Keys, Tensor};

/// The input of a layer as it is multiplied with a weight: rounded to 16 bits where the weight is stored in 16 bits, so that mixed
/// precision reaches products whatever type the data have. Otherwise types promote.
#[track_caller]
pub(super) fn narrowed(x: &Tensor, weight: &Tensor) -> Tensor {
    match weight.dtype() {
        dtype @ (DType::F16 | DType::BF16) if x.error().is_none() && x.is_float() => x.cast(dtype),
        _ => x.clone(),
    }
}

/// A map from a tensor to a tensor, with parameters.
///
/// ```
/// use glassgrad::{Tensor, Tree, nn::{Activation, Layer, Linear}, rng::Key};
///
/// /// A custom layer is a struct of tensors and layers.
/// #[derive(Tree)]
/// struct Residual {
///     inner: (Linear, Activation, Linear),
/// }
///
/// impl Layer for Residual {
///     fn apply(&self, x: &Tensor) -> Tensor {
///         x + self.inner.apply(x)
///     }
/// }
///
/// let (first, second) = Key::new(1).split();
/// let layer = Residual { inner: (Linear::new(first, 4, 8), Activation::Tanh, Linear::new(second, 8, 4)) };
/// assert_eq!(layer.apply(&Tensor::ones([5, 4])).shape().to_string(), "[5, 4]");
/// ```
pub trait Layer {
    /// The forward pass in evaluation mode.
    #[track_caller]
    fn apply(&self, x: &Tensor) -> Tensor;

    /// The forward pass in training mode, which may draw random numbers (dropout); by default [`apply`](Self::apply).
    ///
    /// ```
    /// use glassgrad::{Tensor, nn::{Dropout, Layer}, rng::Key};
    /// let (x, half) = (Tensor::ones(100), Dropout::new(0.5));
    /// assert_eq!(half.apply(&x).sum().item().unwrap(), 100.0);
    /// assert_ne!(half.apply_train(&x, &Key::new(1).into()).sum().item().unwrap(), 100.0);
    /// ```
    #[track_caller]
    fn apply_train(&self, x: &Tensor, key: &Keys) -> Tensor {
        let _ = key;
        self.apply(x)
    }
}

impl<L: Layer + ?Sized> Layer for &L {
    #[track_caller]
    fn apply(&self, x: &Tensor) -> Tensor {
        (**self).apply(x)
    }

    #[track_caller]
    fn apply_train(&self, x: &Tensor, key: &Keys) -> Tensor {
        (**self).apply_train(x, key)
    }
}

/// Sequential composition; an empty sequence is the identity.
impl<L: Layer> Layer for [L] {
    #[track_caller]
    fn apply(&self, x: &Tensor) -> Tensor {
        // Loops and no closures, which would not pass the caller's line on.
        let mut x = x.clone();
        for layer in self {
            x = layer.apply(&x);
        }
        x
    }

    #[track_caller]
    fn apply_train(&self, x: &Tensor, key: &Keys) -> Tensor {
        let mut x = x.clone();
        for (number, layer) in self.iter().enumerate() {
            x = layer.apply_train(&x, &key.fold(number as u64));
        }
        x
    }
}

/// Sequential composition.
impl<L: Layer> Layer for Vec<L> {
    #[track_caller]
    fn apply(&self, x: &Tensor) -> Tensor {
        self[..].apply(x)
    }

    #[track_caller]
    fn apply_train(&self, x: &Tensor, key: &Keys) -> Tensor {
        self[..].apply_train(x, key)
    }
}

/// Sequential composition.
impl<L: Layer, const N: usize> Layer for [L; N] {
    #[track_caller]
    fn apply(&self, x: &Tensor) -> Tensor {
        self[..].apply(x)
    }

    #[track_caller]
    fn apply_train(&self, x: &Tensor, key: &Keys) -> Tensor {
        self[..].apply_train(x, key)
    }
}

/// An optional layer: `None` is the identity.
impl<L: Layer> Layer for Option<L> {
    #[track_caller]
    fn apply(&self, x: &Tensor) -> Tensor {
        match self {
            Some(layer) => layer.apply(x),
            None => x.clone(),
        }
    }

    #[track_caller]
    fn apply_train(&self, x: &Tensor, key: &Keys) -> Tensor {
        match self {
            Some(layer) => layer.apply_train(x, key),
            None => x.clone(),
        }
    }
}

macro_rules! in_a_row {
    ($($Name:ident $place:tt),+) => {
        /// Sequential composition.
        impl<$($Name: Layer),+> Layer for ($($Name,)+) {
            #[track_caller]
            fn apply(&self, x: &Tensor) -> Tensor {
                let x = x.clone();
                $(let x = self.$place.apply(&x);)+
                x
            }

            #[track_caller]
            fn apply_train(&self, x: &Tensor, key: &Keys) -> Tensor {
                let x = x.clone();
                $(let x = self.$place.apply_train(&x, &key.fold($place));)+
                x
            }
        }
    };
}

in_a_row!(A 0);
in_a_row!(A 0, B 1);
in_a_row!(A 0, B 1, C 2);
in_a_row!(A 0, B 1, C 2, D 3);
in_a_row!(A 0, B 1, C 2, D 3, E 4);
in_a_row!(A 0, B 1, C 2, D 3, E 4, F 5);
in_a_row!(A 0, B 1, C 2, D 3, E 4, F 5, G 6);
in_a_row!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);
