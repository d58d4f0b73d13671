//! Optimisers: chains of links from the gradient to a step, with a state that is a tree.

use std::fmt;
use std::panic::Location;
use std::sync::Arc;

use super::schedule::Schedule;
use crate::Tree;
use crate::diff::Fallible;
use crate::error::Error;
use crate::expr::Tensor;
use crate::tree::{Path, Tree};

/// One link of an optimiser: it changes the updates of all leaves, which begin as the gradient, and may remember things.
///
/// ```
/// use glassgrad::optim::{Link, Memory, Optimiser, Step};
/// use glassgrad::{Tensor, grad, tree::Tree};
///
/// /// A rule of one's own: only the sign of the slope counts.
/// #[derive(Debug)]
/// struct Sign;
///
/// impl Link for Sign {
///     fn name(&self) -> &'static str {
///         "sign"
///     }
///     fn update(&self, _: &Step<'_>, updates: Vec<Tensor>, _: &mut Memory) -> Vec<Tensor> {
///         updates.iter().map(Tensor::sign).collect()
///     }
/// }
///
/// let optimiser = Optimiser::new(0.25).link(Sign);
/// let mut x = Tensor::from([3.0, -1.0]);
/// let mut state = optimiser.start(&x);
/// for _ in 0..4 {
///     let slope = grad(|x: &Tensor| x.square().sum())(&x);
///     (x, state) = optimiser.update(&x, &slope, &state);
/// }
/// assert_eq!(x.to_string(), "[2, 0]");
/// ```
pub trait Link: fmt::Debug {
    /// What it is called where updates are taken apart.
    fn name(&self) -> &'static str;

    /// What it remembers before the first step.
    fn start(&self, parameters: &[Tensor]) -> Memory {
        let _ = parameters;
        Memory::default()
    }

    /// The next updates, from those of the link before.
    fn update(&self, step: &Step<'_>, updates: Vec<Tensor>, memory: &mut Memory) -> Vec<Tensor>;
}

/// What a link remembers: tensors for each leaf, and numbers.
///
/// ```
/// use glassgrad::{Tensor, optim::Memory};
/// let memory = Memory::zeros(2, &[Tensor::ones([3])]);
/// assert_eq!((memory.leaves.len(), memory.leaves[1][0].to_string()), (2, "[0, 0, 0]".into()));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// Lists of a tensor for each leaf.
    pub leaves: Vec<Vec<Tensor>>,
    /// Numbers.
    pub numbers: Vec<Tensor>,
}

impl Memory {
    /// So many lists of zeros.
    ///
    /// ```
    /// use glassgrad::optim::Memory;
    /// assert!(Memory::zeros(1, &[]).leaves[0].is_empty());
    /// ```
    pub fn zeros(count: usize, parameters: &[Tensor]) -> Memory {
        let zeros = || parameters.iter().map(Tensor::zeros_like).collect();
        Memory { leaves: (0..count).map(|_| zeros()).collect(), numbers: Vec::new() }
    }
}

/// What a link may know of a step.
///
/// ```
/// use glassgrad::optim::Optimiser;
/// // A step knows the parameters: weight decay adds a part of them to the updates.
/// assert_eq!(Optimiser::sgd(0.1).weight_decay(0.01).names(), ["weight decay"]);
/// ```
pub struct Step<'s> {
    /// How many steps there are with this one, 64-bit.
    pub count: &'s Tensor,
    /// The value of the loss, if it was given.
    pub loss: Option<&'s Tensor>,
    /// The names of the leaves.
    pub paths: &'s [Path],
    /// The leaves.
    pub parameters: &'s [Tensor],
}

/// The state of an optimiser: a tree, with memories of the type of the parameters.
///
/// ```
/// use glassgrad::{Tensor, optim::Optimiser, tree::Tree};
/// let state = Optimiser::adam(0.1).start(&(Tensor::ones([2]), Tensor::ones([3])));
/// let names: Vec<String> = state.leaves().iter().map(|(path, _)| path.to_string()).collect();
/// assert_eq!(names[..3], ["count", "factor", "memories.0.leaves.0.0"]);
/// assert_eq!(names[3..], ["memories.0.leaves.0.1", "memories.0.leaves.1.0", "memories.0.leaves.1.1"]);
/// ```
#[derive(Clone, Debug, Tree)]
pub struct State<X> {
    /// How many steps were made, 64-bit.
    pub count: Tensor,
    /// What the rate is multiplied with besides its schedule, 64-bit: 1 until someone changes it. It is part of the state, so
    /// that the rate can be changed while a program trains, without planning it again.
    pub factor: Tensor,
    /// What each link remembers.
    pub memories: Vec<Remembered<X>>,
}

/// What one link remembers, in the type of the parameters.
///
/// ```
/// use glassgrad::{Tensor, optim::Optimiser};
/// let state = Optimiser::sgd(0.1).momentum(0.9).start(&Tensor::ones([2]));
/// assert_eq!(state.memories[0].leaves[0].to_string(), "[0, 0]");
/// ```
#[derive(Clone, Debug, Tree)]
pub struct Remembered<X> {
    /// Trees of the type of the parameters.
    pub leaves: Vec<X>,
    /// Numbers.
    pub numbers: Vec<Tensor>,
}

/// An optimiser: a rate, and links from the gradient to the step.
///
/// ```
/// use glassgrad::{Tensor, optim::Optimiser, value_and_grad};
/// let loss = |x: &Tensor| (x - 3.0).square().sum();
/// let optimiser = Optimiser::adam(0.1);
/// let mut x = Tensor::from([0.0, 10.0]);
/// let mut state = optimiser.start(&x);
/// for _ in 0..500 {
///     let slope = glassgrad::grad(loss)(&x);
///     (x, state) = optimiser.update(&x, &slope, &state);
/// }
/// assert!(loss(&x).item().unwrap() < 1e-6);
/// ```
#[derive(Clone, Debug)]
pub struct Optimiser {
    rate: f64,
    schedule: Schedule,
    links: Vec<Arc<dyn Link + Send + Sync>>,
    /// Leaves under these paths stay as they are.
    frozen: Vec<String>,
    /// Leaves under these paths have another rate, by this factor; the last that fits counts.
    factors: Vec<(String, f64)>,
}

impl Optimiser {
    /// No links: against the gradient, at a rate.
    ///
    /// ```
    /// use glassgrad::{Tensor, optim::Optimiser};
    /// let (x, slope) = (Tensor::from([1.0]), Tensor::from([2.0]));
    /// let optimiser = Optimiser::new(0.25);
    /// assert_eq!(optimiser.update(&x, &slope, &optimiser.start(&x)).0.to_string(), "[0.5]");
    /// ```
    pub fn new(rate: f64) -> Optimiser {
        Optimiser { rate, schedule: Schedule::Constant, links: Vec::new(), frozen: Vec::new(), factors: Vec::new() }
    }

    /// The same with one link more at the end.
    ///
    /// ```
    /// use glassgrad::optim::{ClipNorm, Optimiser};
    /// assert_eq!(Optimiser::new(0.1).link(ClipNorm(1.0)).names(), ["clip by norm"]);
    /// ```
    pub fn link(mut self, link: impl Link + Send + Sync + 'static) -> Optimiser {
        self.links.push(Arc::new(link));
        self
    }

    /// The same with one link more in front, which sees the gradient itself.
    ///
    /// ```
    /// use glassgrad::optim::{ClipNorm, Optimiser};
    /// assert_eq!(Optimiser::adam(0.1).link_first(ClipNorm(1.0)).names(), ["clip by norm", "adam"]);
    /// ```
    pub fn link_first(mut self, link: impl Link + Send + Sync + 'static) -> Optimiser {
        self.links.insert(0, Arc::new(link));
        self
    }

    /// The same with a rate that changes.
    ///
    /// ```
    /// use glassgrad::optim::{Optimiser, Schedule};
    /// let optimiser = Optimiser::sgd(0.1).schedule(Schedule::Exponential { factor: 0.5, every: 1 });
    /// assert_eq!(optimiser.rate_at(3), 0.025);
    /// ```
    pub fn schedule(self, schedule: Schedule) -> Optimiser {
        Optimiser { schedule, ..self }
    }

    /// The same, but leaves under a path stay as they are.
    ///
    /// ```
    /// use glassgrad::{Tensor, optim::Optimiser};
    /// let (x, slope) = ((Tensor::from([1.0]), Tensor::from([1.0])), (Tensor::from([1.0]), Tensor::from([1.0])));
    /// let optimiser = Optimiser::sgd(1.0).freeze("1");
    /// let (moved, _) = optimiser.update(&x, &slope, &optimiser.start(&x));
    /// assert_eq!((moved.0.to_string(), moved.1.to_string()), ("[0]".into(), "[1]".into()));
    /// ```
    pub fn freeze(mut self, path: &str) -> Optimiser {
        self.frozen.push(path.to_owned());
        self
    }

    /// The same, but leaves under a path have a rate that differs by a factor.
    ///
    /// ```
    /// use glassgrad::{Tensor, optim::Optimiser};
    /// let (x, slope) = ((Tensor::from([1.0]), Tensor::from([1.0])), (Tensor::from([1.0]), Tensor::from([1.0])));
    /// let optimiser = Optimiser::sgd(0.5).rate_factor("1", 0.5);
    /// let (moved, _) = optimiser.update(&x, &slope, &optimiser.start(&x));
    /// assert_eq!((moved.0.to_string(), moved.1.to_string()), ("[0.5]".into(), "[0.75]".into()));
    /// ```
    pub fn rate_factor(mut self, path: &str, factor: f64) -> Optimiser {
        self.factors.push((path.to_owned(), factor));
        self
    }

    /// What the links are called, from the gradient on.
    ///
    /// ```
    /// use glassgrad::optim::Optimiser;
    /// assert_eq!(Optimiser::adamw(1e-3, 0.01).names(), ["adam", "weight decay"]);
    /// ```
    pub fn names(&self) -> Vec<&'static str> {
        self.links.iter().map(|link| link.name()).collect()
    }

    /// The rate without its schedule.
    ///
    /// ```
    /// use glassgrad::optim::Optimiser;
    /// assert_eq!(Optimiser::adam(1e-3).rate(), 1e-3);
    /// ```
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// The rate of a step, from 1 on.
    ///
    /// ```
    /// use glassgrad::optim::Optimiser;
    /// assert_eq!(Optimiser::sgd(0.5).rate_at(1), 0.5);
    /// ```
    pub fn rate_at(&self, step: u64) -> f64 {
        if self.schedule == Schedule::Constant {
            return self.rate;
        }
        // The factor is a formula of one number, which can always be computed.
        self.rate * self.schedule.factor(&Tensor::from(step as f64)).item().unwrap_or(f64::NAN)
    }

    /// The state before the first step.
    ///
    /// ```
    /// use glassgrad::{Tensor, optim::Optimiser};
    /// assert_eq!(Optimiser::sgd(0.1).start(&Tensor::ones([2])).count.item().unwrap(), 0.0);
    /// ```
    pub fn start<X: Tree>(&self, parameters: &X) -> State<X> {
        let trained = Trained::of(self, parameters);
        let memories = self.links.iter().map(|link| {
            let Memory { leaves, numbers } = link.start(&trained.leaves);
            Remembered { leaves: leaves.into_iter().map(|list| trained.grown(parameters, list)).collect(), numbers }
        });
        State { count: Tensor::from(0.0), factor: Tensor::from(1.0), memories: memories.collect() }
    }

    /// The parameters and the state after a step.
    ///
    /// ```
    /// use glassgrad::{Tensor, optim::Optimiser};
    /// let (x, slope) = (Tensor::from([1.0]), Tensor::from([8.0]));
    /// let optimiser = Optimiser::adam(0.25);
    /// // The first step of Adam is as long as its rate.
    /// let (moved, state) = optimiser.update(&x, &slope, &optimiser.start(&x));
    /// assert!((moved.item().unwrap() - 0.75).abs() < 1e-8 && state.count.item().unwrap() == 1.0);
    /// ```
    #[track_caller]
    pub fn update<X: Tree>(&self, parameters: &X, gradient: &X, state: &State<X>) -> (X, State<X>) {
        self.update_knowing(parameters, gradient, None, state)
    }

    /// The same where a link asks for the value of the loss, as [`Plateau`](super::Plateau) does.
    ///
    /// ```
    /// use glassgrad::{Tensor, optim::{Optimiser, Plateau}};
    /// let (x, slope) = (Tensor::from([1.0]), Tensor::from([1.0]));
    /// let optimiser = Optimiser::sgd(0.5).link(Plateau::new(0.5, 0));
    /// let (x, state) = optimiser.update_knowing(&x, &slope, Some(&Tensor::from(1.0)), &optimiser.start(&x));
    /// let (x, state) = optimiser.update_knowing(&x, &slope, Some(&Tensor::from(1.0)), &state);
    /// // The loss has not fallen: the third step is half as long.
    /// let (x, _) = optimiser.update_knowing(&x, &slope, Some(&Tensor::from(1.0)), &state);
    /// assert_eq!(x.to_string(), "[-0.25]");
    /// ```
    #[track_caller]
    pub fn update_knowing<X: Tree>(
        &self,
        parameters: &X,
        gradient: &X,
        loss: Option<&Tensor>,
        state: &State<X>,
    ) -> (X, State<X>) {
        let trained = Trained::of(self, parameters);
        let mut memories = Vec::new();
        let (updates, count) = self.run(&trained, gradient, loss, state, |_, _, memory| {
            let Memory { leaves, numbers } = memory;
            let leaves = leaves.iter().map(|list| trained.grown(parameters, list.clone())).collect();
            memories.push(Remembered { leaves, numbers: numbers.clone() });
        });
        let moved = self.moved(&trained, &updates, &count, &state.factor);
        (trained.replaced(parameters, moved), State { count, factor: state.factor.clone(), memories })
    }

    /// A step taken apart: the gradient, then what each link makes of it, with its name; then the next parameters. What
    /// [`Optimiser::update`] does is what stands here last, bit for bit.
    ///
    /// ```
    /// use glassgrad::{Tensor, optim::Optimiser};
    /// let (x, slope) = (Tensor::from([2.0]), Tensor::from([30.0]));
    /// let optimiser = Optimiser::sgd(0.5).clip_norm(3.0).weight_decay(1.0);
    /// let parts = optimiser.take_apart(&x, &slope, &optimiser.start(&x));
    /// let told: Vec<String> = parts.iter().map(|(name, update)| format!("{name} {update}")).collect();
    /// assert_eq!(told, ["gradient [30]", "clip by norm [3]", "weight decay [5]", "parameters [-0.5]"]);
    /// ```
    #[track_caller]
    pub fn take_apart<X: Tree>(&self, parameters: &X, gradient: &X, state: &State<X>) -> Vec<(&'static str, X)> {
        let trained = Trained::of(self, parameters);
        let mut parts = vec![("gradient", gradient.map(Tensor::clone))];
        let (updates, count) = self.run(&trained, gradient, None, state, |name, updates, _| {
            parts.push((name, trained.grown(parameters, updates.to_vec())));
        });
        let moved = self.moved(&trained, &updates, &count, &state.factor);
        parts.push(("parameters", trained.replaced(parameters, moved)));
        parts
    }

    /// The updates after all links, and the number of this step; a function sees what each link makes and remembers.
    #[track_caller]
    fn run<X: Tree>(
        &self,
        trained: &Trained,
        gradient: &X,
        loss: Option<&Tensor>,
        state: &State<X>,
        mut visit: impl FnMut(&'static str, &[Tensor], &Memory),
    ) -> (Vec<Tensor>, Tensor) {
        let count = &state.count + 1.0;
        if let Some(error) = self.mismatch(trained, gradient, state) {
            let failed = <Tensor as Fallible>::failed(&error);
            return (vec![failed.clone(); trained.leaves.len()], failed);
        }
        let step = Step { count: &count, loss, paths: &trained.paths, parameters: &trained.leaves };
        let mut updates = trained.picked(gradient);
        for (link, remembered) in self.links.iter().zip(&state.memories) {
            let leaves = remembered.leaves.iter().map(|tree| trained.picked(tree)).collect();
            let mut memory = Memory { leaves, numbers: remembered.numbers.clone() };
            updates = link.update(&step, updates, &mut memory);
            visit(link.name(), &updates, &memory);
        }
        (updates, count)
    }

    /// What is wrong with a gradient or a state that does not belong to these parameters and this optimizer.
    #[track_caller]
    fn mismatch<X: Tree>(&self, trained: &Trained, gradient: &X, state: &State<X>) -> Option<Error> {
        if state.memories.len() != self.links.len() {
            let (own, other) = (self.links.len(), state.memories.len());
            let message = format!("the optimizer has {own} links, and its state is one of {other}");
            let error = Error::new("update", message).at(Location::caller());
            return Some(error.help("begin with the state that .start(&parameters) of this optimizer returns"));
        }
        trained.unlike("gradient", gradient, true).or_else(|| {
            // What a link remembers of a parameter may have another shape.
            let mut remembered = state.memories.iter().flat_map(|memory| &memory.leaves);
            remembered.find_map(|tree| trained.unlike("state", tree, false))
        })
    }

    /// The trained leaves after their updates.
    #[track_caller]
    fn moved(&self, trained: &Trained, updates: &[Tensor], count: &Tensor, factor: &Tensor) -> Vec<Tensor> {
        let rate = self.schedule.factor(count) * self.rate * factor;
        let mut moved = Vec::with_capacity(updates.len());
        for ((leaf, update), path) in trained.leaves.iter().zip(updates).zip(&trained.paths) {
            let own = self.factors.iter().rev().find(|(prefix, _)| path.starts_with(prefix));
            let rate = own.map_or_else(|| rate.clone(), |(_, factor)| &rate * *factor);
            moved.push(leaf - update * rate.cast(leaf.dtype()));
        }
        moved
    }
}

/// The leaves of a tree that an optimiser moves: those that can move a little, and are not frozen.
struct Trained {
    places: Vec<usize>,
    paths: Vec<Path>,
    leaves: Vec<Tensor>,
}

impl Trained {
    fn of<X: Tree>(optimiser: &Optimiser, tree: &X) -> Trained {
        let mut trained = Trained { places: Vec::new(), paths: Vec::new(), leaves: Vec::new() };
        for (place, (path, leaf)) in tree.leaves().into_iter().enumerate() {
            if leaf.is_float() && !optimiser.frozen.iter().any(|prefix| path.starts_with(prefix)) {
                trained.places.push(place);
                trained.paths.push(path);
                trained.leaves.push(leaf);
            }
        }
        trained
    }

    /// What is wrong with a tree whose leaves are not at the same paths, or have other shapes or types, if that matters.
    #[track_caller]
    fn unlike<X: Tree>(&self, name: &str, tree: &X, with_shapes: bool) -> Option<Error> {
        let all = tree.leaves();
        let wrong = |message: String| Some(Error::new("update", message).at(Location::caller()));
        for ((place, path), leaf) in self.places.iter().zip(&self.paths).zip(&self.leaves) {
            match all.get(*place) {
                Some((own, found)) if own == path => {
                    let is_alike = found.shape() == leaf.shape() && found.dtype() == leaf.dtype();
                    if with_shapes && !is_alike && found.error().is_none() && leaf.error().is_none() {
                        let (expected, found) = (leaf.describe(), found.describe());
                        return wrong(format!("the {name} of the parameter {path} is {found}, and it is {expected}"));
                    }
                }
                _ => return wrong(format!("the {name} has no leaf {:?}, which is trained", path.to_string())),
            }
        }
        None
    }

    /// The leaves of another tree at the same places.
    fn picked<X: Tree>(&self, tree: &X) -> Vec<Tensor> {
        let all = tree.flatten();
        self.places.iter().filter_map(|place| all.get(*place).cloned()).collect()
    }

    /// A tree with these leaves at the places that are trained, and with those of another elsewhere.
    fn replaced<X: Tree>(&self, tree: &X, leaves: Vec<Tensor>) -> X {
        let mut all = tree.flatten();
        for (place, leaf) in self.places.iter().zip(leaves) {
            all[*place] = leaf;
        }
        tree.with_leaves(all)
    }

    /// A tree with these leaves, and with zeros elsewhere.
    fn grown<X: Tree>(&self, like: &X, leaves: Vec<Tensor>) -> X {
        self.replaced(&like.map(Tensor::zeros_like), leaves)
    }
}
