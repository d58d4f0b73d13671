//! Trees: structures of tensors as vector spaces with named leaves.
//!
//! A tensor is a tree of one leaf; tuples, arrays, vectors, options, boxes and maps of trees are trees;
//! `#[derive(Tree)]` makes one of any struct or enum. Gradients and updates then have the user's own type.

mod check;
mod containers;
mod definition;
mod path;

pub(crate) use check::{checked_map, inconsistent};
pub use definition::Definition;
pub use path::{Branch, Path, Segment};

use crate::dtype::DType;
use crate::error::Error;
use crate::expr::Tensor;
use crate::rng::Key;

/// A structure of tensors.
///
/// Implementations say how to visit and how to rebuild the leaves, in one fixed order, and what else decides on the
/// structure; everything else follows.
///
/// ```
/// use glassgrad::Tensor;
/// use glassgrad::tree::Tree;
/// let pair = (Tensor::from([1.0, 2.0]), vec![Tensor::from(3.0)]);
/// let paths: Vec<String> = pair.leaves().iter().map(|(path, _)| path.to_string()).collect();
/// assert_eq!(paths, ["0", "1.0"]);
/// let doubled = pair.add(&pair);
/// assert_eq!(doubled.0.to_string(), "[2, 4]");
/// assert_eq!(pair.inner_product(&doubled).item().unwrap(), 28.0);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tree of tensors",
    label = "not a `Tree`",
    note = "trees are tensors, and tuples, arrays, `Vec`, `Option`, `Box` and maps of trees",
    note = "for a struct or an enum of trees write `#[derive(Tree)]`, and `#[tree(static)]` in front of fields that hold no tensors",
    note = "the argument of a closure needs a type: `grad(|x: &Tensor| ..)`, `grad(|(w, b): &(Tensor, Tensor)| ..)`"
)]
pub trait Tree: Sized {
    /// Shows every leaf with its path.
    fn visit(&self, branch: &Branch<'_>, visitor: &mut dyn FnMut(&Branch<'_>, &Tensor));

    /// The same structure with every leaf replaced.
    fn rebuild(&self, branch: &Branch<'_>, leaf: &mut dyn FnMut(&Branch<'_>, &Tensor) -> Tensor) -> Self;

    /// Adds everything but the tensors to a definition: which parts there are, which variant it is, and every static
    /// value. [`compile`](crate::compile::compile) plans anew for arguments with another definition.
    ///
    /// ```
    /// use glassgrad::{Tensor, tree::{Definition, Tree}};
    /// let none: Option<Tensor> = None;
    /// assert_ne!(Definition::of(&none).finish(), Definition::of(&Some(Tensor::from(1.0))).finish());
    /// ```
    fn define(&self, definition: &mut Definition);

    /// Hands out every leaf with its path, to be replaced where it stands; everything else stays. Without an own
    /// implementation the structure is allocated anew; those here and derived ones ask for no memory.
    ///
    /// ```
    /// use glassgrad::{Tensor, tree::{Branch, Tree}};
    /// let mut pair = (Tensor::from(4.0), vec![Tensor::from(9.0)]);
    /// pair.visit_mut(&Branch::root(), &mut |_, leaf| *leaf = leaf.sqrt());
    /// assert_eq!((pair.0.item(), pair.1[0].item()), (Ok(2.0), Ok(3.0)));
    /// ```
    fn visit_mut(&mut self, branch: &Branch<'_>, visitor: &mut dyn FnMut(&Branch<'_>, &mut Tensor)) {
        *self = self.rebuild(branch, &mut |branch, leaf| {
            let mut leaf = leaf.clone();
            visitor(branch, &mut leaf);
            leaf
        });
    }

    /// All leaves with their paths.
    ///
    /// ```
    /// use glassgrad::{Tensor, tree::Tree};
    /// let pair = (Tensor::from(1.0), [Tensor::from(2.0)]);
    /// assert_eq!(pair.leaves()[1].0.to_string(), "1.0");
    /// ```
    fn leaves(&self) -> Vec<(Path, Tensor)> {
        let mut leaves = Vec::new();
        self.visit(&Branch::root(), &mut |branch, leaf| leaves.push((branch.path(), leaf.clone())));
        leaves
    }

    /// The leaves without their paths.
    ///
    /// ```
    /// use glassgrad::{Tensor, tree::Tree};
    /// assert_eq!((Tensor::from(1.0), vec![Tensor::from(2.0)]).flatten().len(), 2);
    /// ```
    fn flatten(&self) -> Vec<Tensor> {
        let mut leaves = Vec::new();
        self.visit(&Branch::root(), &mut |_, leaf| leaves.push(leaf.clone()));
        leaves
    }

    /// The same structure with these leaves, in the order of [`Tree::flatten`]; missing ones stay.
    ///
    /// ```
    /// use glassgrad::{Tensor, tree::Tree};
    /// let pair = (Tensor::from(1.0), Tensor::from(2.0));
    /// let turned = pair.with_leaves(vec![pair.1.clone(), pair.0.clone()]);
    /// assert_eq!((turned.0.item(), turned.1.item()), (Ok(2.0), Ok(1.0)));
    /// ```
    fn with_leaves(&self, leaves: Vec<Tensor>) -> Self {
        let mut leaves = leaves.into_iter();
        self.rebuild(&Branch::root(), &mut |_, leaf| leaves.next().unwrap_or_else(|| leaf.clone()))
    }

    /// Applies a function to every leaf.
    ///
    /// ```
    /// use glassgrad::{Tensor, tree::Tree};
    /// let roots = [Tensor::from(4.0), Tensor::from(9.0)].map(|leaf| leaf.sqrt());
    /// assert_eq!(roots.flatten()[1].item().unwrap(), 3.0);
    /// ```
    fn map(&self, mut function: impl FnMut(&Tensor) -> Tensor) -> Self {
        self.rebuild(&Branch::root(), &mut |_, leaf| function(leaf))
    }

    /// Applies a function to every leaf and its path.
    ///
    /// ```
    /// use glassgrad::{Tensor, tree::Tree};
    /// let pair = (Tensor::from(1.0), Tensor::from(2.0));
    /// let named = pair.map_with_path(|path, leaf| leaf.clone().named(&path.to_string()));
    /// assert_eq!(named.1.name(), Some("1"));
    /// ```
    fn map_with_path(&self, mut function: impl FnMut(&Path, &Tensor) -> Tensor) -> Self {
        self.rebuild(&Branch::root(), &mut |branch, leaf| function(&branch.path(), leaf))
    }

    /// Combines two trees of one structure leaf by leaf. If the structures differ, every leaf is a failed tensor.
    ///
    /// ```
    /// use glassgrad::{Tensor, tree::Tree};
    /// let (a, b) = ((Tensor::from(2.0), Tensor::from(3.0)), (Tensor::from(5.0), Tensor::from(2.0)));
    /// assert_eq!(a.zip(&b, |a, b| a.pow(b)).1.item().unwrap(), 9.0);
    /// ```
    #[track_caller]
    fn zip(&self, other: &Self, mut function: impl FnMut(&Tensor, &Tensor) -> Tensor) -> Self {
        match pairs("zip", self, other) {
            Ok(pairs) => self.with_leaves(pairs.iter().map(|(a, b)| function(a, b)).collect()),
            Err(failed) => failed_tree(self, other, &failed),
        }
    }

    /// The sum of two trees of one structure.
    ///
    /// ```
    /// use glassgrad::{Tensor, tree::Tree};
    /// let (one, none) = (vec![Tensor::from(1.0)], vec![]);
    /// assert_eq!(one.add(&one)[0].item().unwrap(), 2.0);
    /// assert!(one.add(&none)[0].error().is_some());
    /// ```
    #[track_caller]
    fn add(&self, other: &Self) -> Self {
        match pairs("add", self, other) {
            Ok(pairs) => {
                // A loop, because closures do not pass the caller's line on.
                let mut sums = Vec::new();
                for (a, b) in &pairs {
                    sums.push(a + b);
                }
                self.with_leaves(sums)
            }
            Err(failed) => failed_tree(self, other, &failed),
        }
    }

    /// The tree times a number.
    ///
    /// ```
    /// use glassgrad::{Tensor, tree::Tree};
    /// let halves = (Tensor::from([1.0]), Tensor::from([3.0_f32])).scale(0.5);
    /// assert_eq!(halves.1.to_vec::<f32>().unwrap(), [1.5]);
    /// ```
    fn scale(&self, factor: f64) -> Self {
        self.map(|leaf| leaf * factor)
    }

    /// The sum of the products of all corresponding elements.
    ///
    /// ```
    /// use glassgrad::{Tensor, tree::Tree};
    /// let x = (Tensor::from([3.0, 0.0]), Tensor::from(4.0));
    /// assert_eq!(x.inner_product(&x).item().unwrap(), 25.0);
    /// ```
    #[track_caller]
    fn inner_product(&self, other: &Self) -> Tensor {
        match pairs("inner_product", self, other) {
            Ok(pairs) => {
                let mut sum: Option<Tensor> = None;
                for (a, b) in &pairs {
                    let product = a.inner(b);
                    sum = Some(match sum {
                        Some(sum) => sum + product,
                        None => product,
                    });
                }
                sum.unwrap_or_else(|| Tensor::zeros(()))
            }
            Err(failed) => failed,
        }
    }

    /// The same structure with its floating-point leaves in another floating-point type; integers and truth values stay.
    ///
    /// ```
    /// use glassgrad::{dtype::DType, nn::Linear, rng::Key, tree::Tree};
    /// let layer = Linear::new(Key::new(1), 2, 3).cast(DType::F64);
    /// assert_eq!(layer.weight.dtype(), DType::F64);
    /// ```
    #[track_caller]
    fn cast(&self, dtype: DType) -> Self {
        let origin = std::panic::Location::caller();
        self.map(|leaf| match leaf.is_float() && !dtype.is_float() {
            true => {
                let error = Error::new("cast", format!("the leaves of a tree are floating-point numbers, not {dtype}"));
                Tensor::refused_at(error.help("cast to DType::F16, BF16, F32 or F64"), &[leaf], origin)
            }
            false if leaf.is_float() => leaf.cast(dtype),
            false => leaf.clone(),
        })
    }

    /// Zeros of the same structure.
    ///
    /// ```
    /// use glassgrad::{Tensor, tree::Tree};
    /// let momentum = Tree::zeros_like(&vec![Tensor::from([1.0, 2.0])]);
    /// assert_eq!(momentum[0].to_string(), "[0, 0]");
    /// ```
    fn zeros_like(&self) -> Self {
        self.map(Tensor::zeros_like)
    }

    /// Random numbers with the standard normal distribution in the same structure.
    ///
    /// ```
    /// use glassgrad::{Tensor, rng::Key, tree::Tree};
    /// let x = vec![Tensor::zeros([2]), Tensor::zeros([2])].random_like(Key::new(1));
    /// assert_ne!(x[0].to_vec::<f32>().unwrap(), x[1].to_vec::<f32>().unwrap());
    /// ```
    fn random_like(&self, key: Key) -> Self {
        let mut number = 0;
        self.map(|leaf| {
            number += 1;
            Tensor::normal(key.fold(number), leaf.shape()).cast(leaf.dtype())
        })
    }

    /// The leaves for which a condition holds stay as they are; the others become constants through which
    /// no derivative passes.
    ///
    /// ```
    /// use glassgrad::{Tensor, grad, tree::Tree};
    /// let loss = |p: &(Tensor, Tensor)| {
    ///     let (body, head) = p.freeze_except(|path| path.starts_with("1"));
    ///     body * head
    /// };
    /// let gradient = grad(loss)(&(Tensor::from(2.0), Tensor::from(3.0)));
    /// assert_eq!((gradient.0.item(), gradient.1.item()), (Ok(0.0), Ok(2.0)));
    /// ```
    fn freeze_except(&self, mut trained: impl FnMut(&Path) -> bool) -> Self {
        self.map_with_path(|path, leaf| if trained(path) { leaf.clone() } else { leaf.stop_gradient() })
    }

    /// One tree with the leaves for which a condition holds and zeros elsewhere, and one with the others.
    ///
    /// ```
    /// use glassgrad::{Tensor, tree::Tree};
    /// let (first, rest) = (Tensor::from(1.0), Tensor::from(2.0)).partition(|path| path.starts_with("0"));
    /// assert_eq!((first.1.item(), rest.1.item()), (Ok(0.0), Ok(2.0)));
    /// ```
    fn partition(&self, mut condition: impl FnMut(&Path) -> bool) -> (Self, Self) {
        let chosen: Vec<bool> = self.leaves().iter().map(|(path, _)| condition(path)).collect();
        let part = |selected: bool| {
            let mut chosen = chosen.iter();
            self.map(|leaf| if chosen.next() == Some(&selected) { leaf.clone() } else { leaf.zeros_like() })
        };
        (part(true), part(false))
    }

    /// Computes all leaves together, and returns them as leaves without history.
    ///
    /// ```
    /// use glassgrad::{Tensor, expr::Op, tree::Tree};
    /// let x = vec![Tensor::from(2.0).exp()].realise().unwrap();
    /// assert_eq!(x[0].op(), &Op::Leaf);
    /// ```
    fn realise(&self) -> Result<Self, Error> {
        let leaves = self.flatten();
        let values = Tensor::eval_all(&leaves.iter().collect::<Vec<_>>())?;
        Ok(self.with_leaves(values.into_iter().map(Tensor::leaf).collect()))
    }

    /// The number of elements in all leaves.
    ///
    /// ```
    /// use glassgrad::{Tensor, tree::Tree};
    /// assert_eq!((Tensor::zeros([2, 3]), Tensor::zeros(4)).element_count(), 10);
    /// ```
    fn element_count(&self) -> usize {
        self.flatten().iter().map(|leaf| leaf.shape().elements()).sum()
    }
}

/// The leaves of two trees side by side, or a failed tensor if the structures differ.
#[track_caller]
fn pairs<T: Tree>(operation: &str, one: &T, other: &T) -> Result<Vec<(Tensor, Tensor)>, Tensor> {
    let (a, b) = (one.leaves(), other.leaves());
    let unpaired = match a.iter().zip(&b).find(|(a, b)| a.0 != b.0) {
        Some((a, _)) => Some(&a.0),
        None => a.get(b.len()).or_else(|| b.get(a.len())).map(|(path, _)| path),
    };
    if let Some(path) = unpaired {
        let message =
            format!("the trees differ: one has a leaf {path:?} and the other has not", path = path.to_string());
        return Err(Tensor::refused(Error::new(operation, message), &[]));
    }
    Ok(a.into_iter().zip(b).map(|((_, a), (_, b))| (a, b)).collect())
}

/// A tree whose every leaf is this failed tensor, like that of two which has more leaves: without any, the
/// failure would be lost.
fn failed_tree<T: Tree>(one: &T, other: &T, failed: &Tensor) -> T {
    let like = if one.flatten().len() >= other.flatten().len() { one } else { other };
    like.map(|_| failed.clone())
}
