//! Optimizers: chains of links from the gradient to a step, with a state that is a tree.

use std::panic::Location;
use std::sync::Arc;

use super::link::{Link, Quantity, Step};
use super::partition::Partition;
use super::rule::{self, Inputs, Value};
use super::schedule::Schedule;
use crate::Tree;
use crate::diff::Fallible;
use crate::error::Error;
use crate::expr::Tensor;
use crate::tree::{Path, Tree};

/// The state of an optimizer: a tree, with slots of the type of the parameters.
///
/// ```
/// use glassgrad::{Tensor, optim::Optimizer, tree::Tree};
/// let state = Optimizer::adam(0.1).init(&(Tensor::ones([2]), Tensor::ones([3])));
/// let names: Vec<String> = state.leaves().iter().map(|(path, _)| path.to_string()).collect();
/// assert_eq!(names[..3], ["count", "factor", "slots.0.leaves.0.0"]);
/// assert_eq!(names[3..], ["slots.0.leaves.0.1", "slots.0.leaves.1.0", "slots.0.leaves.1.1"]);
/// ```
#[derive(Clone, Debug, Tree)]
pub struct State<X> {
    /// The number of steps so far, 64-bit.
    pub count: Tensor,
    /// A factor of the learning rate besides its schedule, 64-bit: 1 until it is set. It is part of the state, so
    /// that the rate can be changed during training without planning the program again.
    pub factor: Tensor,
    /// The slots of each link.
    pub slots: Vec<Slots<X>>,
}

/// The slots of one link, in the order in which [`Link::slots`] declares them.
///
/// ```
/// use glassgrad::{Tensor, optim::Optimizer};
/// let state = Optimizer::sgd(0.1).momentum(0.9).init(&Tensor::ones([2]));
/// assert_eq!(state.slots[0].leaves[0].to_string(), "[0, 0]");
/// ```
#[derive(Clone, Debug, Tree)]
pub struct Slots<X> {
    /// Slots with a number for each weight: trees of the type of the parameters.
    pub leaves: Vec<X>,
    /// Slots with one number.
    pub scalars: Vec<Tensor>,
}

/// An optimizer: a rate, and links from the gradient to the step.
///
/// ```
/// use glassgrad::{Tensor, optim::Optimizer, value_and_grad};
/// let loss = |x: &Tensor| (x - 3.0).square().sum();
/// let optimizer = Optimizer::adam(0.1);
/// let mut x = Tensor::from([0.0, 10.0]);
/// let mut state = optimizer.init(&x);
/// for _ in 0..500 {
///     let gradient = glassgrad::grad(loss)(&x);
///     (x, state) = optimizer.update(&x, &gradient, &state);
/// }
/// assert!(loss(&x).item().unwrap() < 1e-6);
/// ```
#[derive(Clone, Debug)]
pub struct Optimizer {
    rate: f64,
    schedule: Schedule,
    links: Vec<Arc<dyn Link + Send + Sync>>,
    /// Leaves under these paths stay as they are.
    frozen: Vec<String>,
    /// Leaves under these paths have another rate, by this factor; the last that fits counts.
    factors: Vec<(String, f64)>,
}

impl Optimizer {
    /// No links: against the gradient, at a rate.
    ///
    /// ```
    /// use glassgrad::{Tensor, optim::Optimizer};
    /// let (x, gradient) = (Tensor::from([1.0]), Tensor::from([2.0]));
    /// let optimizer = Optimizer::new(0.25);
    /// assert_eq!(optimizer.update(&x, &gradient, &optimizer.init(&x)).0.to_string(), "[0.5]");
    /// ```
    pub fn new(rate: f64) -> Optimizer {
        Optimizer { rate, schedule: Schedule::Constant, links: Vec::new(), frozen: Vec::new(), factors: Vec::new() }
    }

    /// The same with one link more at the end.
    ///
    /// ```
    /// use glassgrad::optim::{ClipNorm, Optimizer};
    /// assert_eq!(Optimizer::new(0.1).link(ClipNorm(1.0)).names(), ["clip by norm"]);
    /// ```
    pub fn link(mut self, link: impl Link + Send + Sync + 'static) -> Optimizer {
        self.links.push(Arc::new(link));
        self
    }

    /// The same with one link more in front, which sees the gradient itself.
    ///
    /// ```
    /// use glassgrad::optim::{ClipNorm, Optimizer};
    /// assert_eq!(Optimizer::adam(0.1).link_first(ClipNorm(1.0)).names(), ["clip by norm", "Adam"]);
    /// ```
    pub fn link_first(mut self, link: impl Link + Send + Sync + 'static) -> Optimizer {
        self.links.insert(0, Arc::new(link));
        self
    }

    /// The same with a rate that changes.
    ///
    /// ```
    /// use glassgrad::optim::{Optimizer, Schedule};
    /// let optimizer = Optimizer::sgd(0.1).schedule(Schedule::Exponential { factor: 0.5, every: 1 });
    /// assert_eq!(optimizer.rate_at(3), 0.025);
    /// ```
    pub fn schedule(self, schedule: Schedule) -> Optimizer {
        Optimizer { schedule, ..self }
    }

    /// The same, but leaves under a path stay as they are.
    ///
    /// ```
    /// use glassgrad::{Tensor, optim::Optimizer};
    /// let (x, gradient) = ((Tensor::from([1.0]), Tensor::from([1.0])), (Tensor::from([1.0]), Tensor::from([1.0])));
    /// let optimizer = Optimizer::sgd(1.0).freeze("1");
    /// let (next, _) = optimizer.update(&x, &gradient, &optimizer.init(&x));
    /// assert_eq!((next.0.to_string(), next.1.to_string()), ("[0]".into(), "[1]".into()));
    /// ```
    pub fn freeze(mut self, path: &str) -> Optimizer {
        self.frozen.push(path.to_owned());
        self
    }

    /// The same, but leaves under a path have a rate that differs by a factor.
    ///
    /// ```
    /// use glassgrad::{Tensor, optim::Optimizer};
    /// let (x, gradient) = ((Tensor::from([1.0]), Tensor::from([1.0])), (Tensor::from([1.0]), Tensor::from([1.0])));
    /// let optimizer = Optimizer::sgd(0.5).rate_factor("1", 0.5);
    /// let (next, _) = optimizer.update(&x, &gradient, &optimizer.init(&x));
    /// assert_eq!((next.0.to_string(), next.1.to_string()), ("[0.5]".into(), "[0.75]".into()));
    /// ```
    pub fn rate_factor(mut self, path: &str, factor: f64) -> Optimizer {
        self.factors.push((path.to_owned(), factor));
        self
    }

    /// Whether the leaf at a path is updated: a floating-point one that is not frozen.
    ///
    /// ```
    /// use glassgrad::{Tensor, optim::Optimizer, tree::Tree};
    /// let optimizer = Optimizer::sgd(0.1).freeze("1");
    /// let leaves = (Tensor::ones([2]), Tensor::ones([2])).leaves();
    /// assert!(optimizer.is_trained(&leaves[0].0, &leaves[0].1) && !optimizer.is_trained(&leaves[1].0, &leaves[1].1));
    /// ```
    pub fn is_trained(&self, path: &Path, leaf: &Tensor) -> bool {
        leaf.is_float() && !self.frozen.iter().any(|prefix| path.starts_with(prefix))
    }

    /// The names of the links, from the gradient on.
    ///
    /// ```
    /// use glassgrad::optim::Optimizer;
    /// assert_eq!(Optimizer::adamw(1e-3, 0.01).names(), ["Adam", "weight decay"]);
    /// ```
    pub fn names(&self) -> Vec<&'static str> {
        self.links.iter().map(|link| link.name()).collect()
    }

    /// The slots of all links, in their order.
    ///
    /// ```
    /// use glassgrad::optim::Optimizer;
    /// let symbols: Vec<&str> = Optimizer::adam(1e-3).slots().iter().map(|slot| slot.symbol).collect();
    /// assert_eq!(symbols, ["m", "v"]);
    /// ```
    pub fn slots(&self) -> Vec<super::Slot> {
        self.links.iter().flat_map(|link| link.slots()).collect()
    }

    /// The rate without its schedule.
    ///
    /// ```
    /// use glassgrad::optim::Optimizer;
    /// assert_eq!(Optimizer::adam(1e-3).rate(), 1e-3);
    /// ```
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// The rate of a step, from 1 on.
    ///
    /// ```
    /// use glassgrad::optim::Optimizer;
    /// assert_eq!(Optimizer::sgd(0.5).rate_at(1), 0.5);
    /// ```
    pub fn rate_at(&self, step: u64) -> f64 {
        if self.schedule == Schedule::Constant {
            return self.rate;
        }
        // The factor is a formula of one number, which can always be computed.
        self.rate * self.schedule.factor(&Tensor::from(step as f64)).item().unwrap_or(f64::NAN)
    }

    /// The formulas of all links, with the name of each: `g` is the gradient, `u1` the update after the first link.
    ///
    /// ```
    /// use glassgrad::optim::Optimizer;
    /// let formulas = Optimizer::sgd(0.1).weight_decay(0.01).formulas();
    /// assert_eq!(formulas, [("weight decay", vec!["u1 = g + λ * w".to_owned()])]);
    /// ```
    pub fn formulas(&self) -> Vec<(&'static str, Vec<String>)> {
        super::weight::formulas(&self.links)
    }

    /// The state before the first step.
    ///
    /// ```
    /// use glassgrad::{Tensor, optim::Optimizer};
    /// assert_eq!(Optimizer::sgd(0.1).init(&Tensor::ones([2])).count.item().unwrap(), 0.0);
    /// ```
    pub fn init<X: Tree>(&self, parameters: &X) -> State<X> {
        let trained = Trained::of(self, parameters.leaves());
        let slots = self.initial_slots(&trained).into_iter().map(|slots| slots.grown(&trained, parameters));
        State { count: Tensor::from(0.0), factor: Tensor::from(1.0), slots: slots.collect() }
    }

    /// The slots of all links before the first step.
    fn initial_slots(&self, trained: &Trained) -> Vec<FlatSlots> {
        let slots = self.links.iter().map(|link| {
            let initial = |value: f64| {
                let filled = |leaf: &Tensor| if value == 0.0 { leaf.zeros_like() } else { leaf.full_like(value) };
                trained.leaves.iter().map(filled).collect()
            };
            let (weights, scalars): (Vec<_>, Vec<_>) = link.slots().into_iter().partition(|slot| slot.is_per_weight);
            FlatSlots {
                leaves: weights.iter().map(|slot| initial(slot.initial)).collect(),
                scalars: scalars.iter().map(|slot| Tensor::from(slot.initial)).collect(),
            }
        });
        slots.collect()
    }

    /// The parameters and the state after a step.
    ///
    /// ```
    /// use glassgrad::{Tensor, optim::Optimizer};
    /// let (x, gradient) = (Tensor::from([1.0]), Tensor::from([8.0]));
    /// let optimizer = Optimizer::adam(0.25);
    /// // The first step of Adam is as long as its learning rate.
    /// let (next, state) = optimizer.update(&x, &gradient, &optimizer.init(&x));
    /// assert!((next.item().unwrap() - 0.75).abs() < 1e-8 && state.count.item().unwrap() == 1.0);
    /// ```
    #[track_caller]
    pub fn update<X: Tree>(&self, parameters: &X, gradient: &X, state: &State<X>) -> (X, State<X>) {
        self.update_with_loss(parameters, gradient, None, state)
    }

    /// The same where a link reads the value of the loss, as [`Plateau`](super::Plateau) does.
    ///
    /// ```
    /// use glassgrad::{Tensor, optim::{Optimizer, Plateau}};
    /// let (x, gradient) = (Tensor::from([1.0]), Tensor::from([1.0]));
    /// let optimizer = Optimizer::sgd(0.5).link(Plateau::new(0.5, 0));
    /// let (x, state) = optimizer.update_with_loss(&x, &gradient, Some(&Tensor::from(1.0)), &optimizer.init(&x));
    /// let (x, state) = optimizer.update_with_loss(&x, &gradient, Some(&Tensor::from(1.0)), &state);
    /// // The loss has not fallen: the third step is half as long.
    /// let (x, _) = optimizer.update_with_loss(&x, &gradient, Some(&Tensor::from(1.0)), &state);
    /// assert_eq!(x.to_string(), "[-0.25]");
    /// ```
    #[track_caller]
    pub fn update_with_loss<X: Tree>(
        &self,
        parameters: &X,
        gradient: &X,
        loss: Option<&Tensor>,
        state: &State<X>,
    ) -> (X, State<X>) {
        let trained = Trained::of(self, parameters.leaves());
        let run = self.run(&trained, gradient.leaves(), loss, state.flattened(), None);
        self.after(&trained, parameters, run, state)
    }

    /// The same for one part of the trained leaves: the next parameters are their parts, and so is the state. What links read besides the
    /// weights of the part, such as norms, is computed from all of them.
    #[track_caller]
    pub(crate) fn update_part<X: Tree>(
        &self,
        part: Partition,
        parameters: &X,
        gradient: &X,
        loss: Option<&Tensor>,
        state: &State<X>,
    ) -> (X, State<X>) {
        let trained = Trained::of(self, parameters.leaves());
        let run = self.run(&trained, gradient.leaves(), loss, state.flattened(), Some(part));
        let trained = trained.part(part);
        let parts = parameters.with_leaves(trained.replaced(parameters.flatten(), trained.leaves.clone()));
        self.after(&trained, &parts, run, state)
    }

    /// The parameters and the state after all links.
    #[track_caller]
    fn after<X: Tree>(&self, trained: &Trained, parameters: &X, run: Run, state: &State<X>) -> (X, State<X>) {
        let slots = run.links.iter().map(|seen| seen.flat_slots().grown(trained, parameters)).collect();
        let next = self.next(trained, &run, &state.factor);
        let parameters = parameters.with_leaves(trained.replaced(parameters.flatten(), next));
        (parameters, State { count: run.count, factor: state.factor.clone(), slots })
    }

    /// The gradient, then the update after each link, with its name; then the next parameters. What
    /// [`Optimizer::update_with_loss`] returns is what stands here last, bit for bit.
    ///
    /// ```
    /// use glassgrad::{Tensor, optim::Optimizer};
    /// let (x, gradient) = (Tensor::from([2.0]), Tensor::from([30.0]));
    /// let optimizer = Optimizer::sgd(0.5).clip_norm(3.0).weight_decay(1.0);
    /// let updates = optimizer.updates_by_link(&x, &gradient, None, &optimizer.init(&x));
    /// let shown: Vec<String> = updates.iter().map(|(name, update)| format!("{name} {update}")).collect();
    /// assert_eq!(shown, ["gradient [30]", "clip by norm [3]", "weight decay [5]", "parameters [-0.5]"]);
    /// ```
    #[track_caller]
    pub fn updates_by_link<X: Tree>(
        &self,
        parameters: &X,
        gradient: &X,
        loss: Option<&Tensor>,
        state: &State<X>,
    ) -> Vec<(&'static str, X)> {
        let trained = Trained::of(self, parameters.leaves());
        let run = self.run(&trained, gradient.leaves(), loss, state.flattened(), None);
        let next = self.next(&trained, &run, &state.factor);
        let mut parts = vec![("gradient", gradient.map(Tensor::clone))];
        for seen in run.links {
            parts.push((seen.name, parameters.with_leaves(trained.grown(parameters.flatten(), seen.updates))));
        }
        parts.push(("parameters", parameters.with_leaves(trained.replaced(parameters.flatten(), next))));
        parts
    }

    /// Runs all links on the leaves of a gradient and of a state, or on one part of them, of which the state is.
    #[track_caller]
    pub(super) fn run(
        &self,
        trained: &Trained,
        gradient: Leaves,
        loss: Option<&Tensor>,
        state: FlatState,
        part: Option<Partition>,
    ) -> Run {
        let count = &state.count + 1.0;
        let failed = |error: &Error| {
            let failed = <Tensor as Fallible>::failed(error);
            Run { links: Vec::new(), updates: vec![failed.clone(); trained.leaves.len()], count: failed }
        };
        let own = part.map(|part| trained.part(part));
        let own = own.as_ref().unwrap_or(trained);
        if let Some(error) = self.mismatch(trained, own, &gradient, &state) {
            return failed(&error);
        }
        let origin = Location::caller();
        // Quantities are of all weights, formulas of those of the part.
        let whole_step = Step { count: &count, loss, paths: &trained.paths, parameters: &trained.leaves };
        let step = Step { parameters: &own.leaves, ..whole_step };
        let mut whole = trained.picked(&gradient);
        let mut updates = match part {
            Some(part) => trained.parts(&whole, part),
            None => whole.clone(),
        };
        let mut links = Vec::with_capacity(self.links.len());
        for (link, slots) in self.links.iter().zip(&state.slots) {
            let (mut leaves, mut scalars) = (slots.0.iter(), slots.1.iter());
            let mut slots = Vec::new();
            for slot in link.slots() {
                let value = match slot.is_per_weight {
                    true => leaves.next().map(|tree| Value::Leaves(own.picked(tree))),
                    false => scalars.next().cloned().map(Value::Shared),
                };
                let Some(value) = value else {
                    let message = format!("the state has no slot {:?} of the link {:?}", slot.name, link.name());
                    return failed(&Error::new("update", message).at(origin).help(STATE_HELP));
                };
                slots.push(value);
            }
            let mut quantities = link.quantities(&whole_step, &whole);
            let evaluated = |step: &Step<'_>, updates: &[Tensor], slots: &[Value], quantities: &[Quantity]| {
                rule::evaluate(&**link, &Inputs { step, updates, slots, quantities })
            };
            let has_slots = link.slots().iter().any(|slot| slot.is_per_weight);
            if let Some(part) = part {
                // The whole update is known as long as it is a function of the gradient alone; it is computed only if a link reads it.
                whole = match has_slots {
                    true => vec![<Tensor as Fallible>::failed(&whole_is_apart(link.name()).at(origin)); whole.len()],
                    false => match evaluated(&whole_step, &whole, &slots, &quantities) {
                        Ok(outputs) => outputs.updates,
                        Err(error) => return failed(&error.at(origin)),
                    },
                };
                let own = quantities.into_iter().map(|quantity| part.of_quantity(quantity, &trained.leaves));
                quantities = own.collect();
            }
            match evaluated(&step, &updates, &slots, &quantities) {
                Ok(outputs) => {
                    updates.clone_from(&outputs.updates);
                    links.push(Seen { name: link.name(), updates: outputs.updates, slots: outputs.slots, quantities });
                }
                Err(error) => return failed(&error.at(origin)),
            }
            if part.is_none() {
                whole.clone_from(&updates);
            }
        }
        Run { links, updates, count }
    }

    /// What is wrong with a gradient or a state that does not belong to these parameters and this optimizer.
    #[track_caller]
    fn mismatch(&self, trained: &Trained, own: &Trained, gradient: &Leaves, state: &FlatState) -> Option<Error> {
        if state.slots.len() != self.links.len() {
            let (own, other) = (self.links.len(), state.slots.len());
            let message = format!("the optimizer has {own} links, and its state is one of {other}");
            let error = Error::new("update", message).at(Location::caller());
            return Some(error.help(STATE_HELP));
        }
        if let Some(error) = trained.unlike("gradient", gradient) {
            return Some(error);
        }
        // A loop, as closures do not pass the caller's line on.
        for tree in state.slots.iter().flat_map(|(trees, _)| trees) {
            if let Some(error) = own.unlike("state", tree) {
                return Some(error);
            }
        }
        None
    }

    /// The trained leaves after their updates.
    #[track_caller]
    fn next(&self, trained: &Trained, run: &Run, factor: &Tensor) -> Vec<Tensor> {
        let rate = self.rate_in(&run.count, factor);
        let mut next = Vec::with_capacity(run.updates.len());
        for ((leaf, update), path) in trained.leaves.iter().zip(&run.updates).zip(&trained.paths) {
            next.push(stepped(leaf, update, &self.rate_of(path, &rate)));
        }
        next
    }

    /// The learning rate in a step, 64-bit.
    #[track_caller]
    pub(super) fn rate_in(&self, count: &Tensor, factor: &Tensor) -> Tensor {
        self.schedule.factor(count) * self.rate * factor
    }

    /// The learning rate of a leaf.
    #[track_caller]
    pub(super) fn rate_of(&self, path: &Path, rate: &Tensor) -> Tensor {
        match self.factors.iter().rev().find(|(prefix, _)| path.starts_with(prefix)) {
            Some((_, factor)) => rate * *factor,
            None => rate.clone(),
        }
    }

    pub(super) fn links(&self) -> &[Arc<dyn Link + Send + Sync>] {
        &self.links
    }
}

/// A parameter after its update.
#[track_caller]
pub(super) fn stepped(parameter: &Tensor, update: &Tensor, rate: &Tensor) -> Tensor {
    parameter - update * rate.cast(parameter.dtype())
}

/// The error for a link that reads the updates of all weights where each rank has those of a part.
fn whole_is_apart(name: &str) -> Error {
    let message = format!(
        "the updates behind the link {name:?} are distributed over the ranks, and a link behind it reads all of them"
    );
    Error::new("update", message)
        .help("put that link in front of those with slots, or keep the whole state on every rank")
}

const STATE_HELP: &str = "begin with the state that .init(&parameters) of this optimizer returns";

/// The leaves of a tree with their paths. What is computed from them does not depend on the type of the parameters, so that it is
/// compiled once, and not for every network.
type Leaves = Vec<(Path, Tensor)>;

/// The leaves of a state: its step count, and for each link its trees of slots and its scalars.
pub(super) struct FlatState {
    count: Tensor,
    slots: Vec<(Vec<Leaves>, Vec<Tensor>)>,
}

impl<X: Tree> State<X> {
    pub(super) fn flattened(&self) -> FlatState {
        let slots = self.slots.iter();
        let slots = slots.map(|slots| (slots.leaves.iter().map(Tree::leaves).collect(), slots.scalars.clone()));
        FlatState { count: self.count.clone(), slots: slots.collect() }
    }
}

/// The slots of one link, of the trained leaves alone.
struct FlatSlots {
    leaves: Vec<Vec<Tensor>>,
    scalars: Vec<Tensor>,
}

impl FlatSlots {
    fn grown<X: Tree>(self, trained: &Trained, like: &X) -> Slots<X> {
        let leaves = self.leaves.into_iter().map(|list| like.with_leaves(trained.grown(like.flatten(), list)));
        Slots { leaves: leaves.collect(), scalars: self.scalars }
    }
}

/// What the links of an optimizer computed in a step.
pub(super) struct Run {
    pub(super) links: Vec<Seen>,
    /// The updates after all links.
    pub(super) updates: Vec<Tensor>,
    /// The number of this step.
    pub(super) count: Tensor,
}

/// The inputs and results of a link in a step.
pub(super) struct Seen {
    pub(super) name: &'static str,
    pub(super) updates: Vec<Tensor>,
    /// The slots after the step.
    pub(super) slots: Vec<Value>,
    pub(super) quantities: Vec<Quantity>,
}

impl Seen {
    fn flat_slots(&self) -> FlatSlots {
        let mut flat = FlatSlots { leaves: Vec::new(), scalars: Vec::new() };
        for value in &self.slots {
            match value {
                Value::Leaves(list) => flat.leaves.push(list.clone()),
                Value::Shared(number) => flat.scalars.push(number.clone()),
            }
        }
        flat
    }
}

/// The leaves of a tree that an optimizer updates: floating-point ones that are not frozen.
pub(super) struct Trained {
    pub(super) places: Vec<usize>,
    pub(super) paths: Vec<Path>,
    pub(super) leaves: Vec<Tensor>,
}

impl Trained {
    pub(super) fn of(optimizer: &Optimizer, leaves: Leaves) -> Trained {
        let mut trained = Trained { places: Vec::new(), paths: Vec::new(), leaves: Vec::new() };
        for (place, (path, leaf)) in leaves.into_iter().enumerate() {
            if optimizer.is_trained(&path, &leaf) {
                trained.places.push(place);
                trained.paths.push(path);
                trained.leaves.push(leaf);
            }
        }
        trained
    }

    /// The same with one part of each leaf.
    #[track_caller]
    pub(super) fn part(&self, part: Partition) -> Trained {
        Trained { places: self.places.clone(), paths: self.paths.clone(), leaves: self.parts(&self.leaves, part) }
    }

    /// One part of each of these leaves.
    #[track_caller]
    fn parts(&self, leaves: &[Tensor], part: Partition) -> Vec<Tensor> {
        let mut parts = Vec::with_capacity(leaves.len());
        for leaf in leaves {
            parts.push(part.of(leaf));
        }
        parts
    }

    /// What is wrong with a tree whose leaves are not at the same paths, or have other shapes or types.
    #[track_caller]
    fn unlike(&self, name: &str, all: &Leaves) -> Option<Error> {
        let origin = Location::caller();
        let wrong = |message: String| Some(Error::new("update", message).at(origin));
        for ((place, path), leaf) in self.places.iter().zip(&self.paths).zip(&self.leaves) {
            match all.get(*place) {
                Some((own, found)) if own == path => {
                    let is_alike = found.shape() == leaf.shape() && found.dtype() == leaf.dtype();
                    if !is_alike && found.error().is_none() && leaf.error().is_none() {
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
    fn picked(&self, all: &Leaves) -> Vec<Tensor> {
        self.places.iter().filter_map(|place| all.get(*place).map(|(_, leaf)| leaf.clone())).collect()
    }

    /// All leaves, with these at the places that are trained.
    pub(super) fn replaced(&self, mut all: Vec<Tensor>, leaves: Vec<Tensor>) -> Vec<Tensor> {
        for (place, leaf) in self.places.iter().zip(leaves) {
            all[*place] = leaf;
        }
        all
    }

    /// All leaves, with these at the places that are trained and zeros elsewhere.
    fn grown(&self, mut all: Vec<Tensor>, leaves: Vec<Tensor>) -> Vec<Tensor> {
        let mut places = self.places.iter().peekable();
        for (place, leaf) in all.iter_mut().enumerate() {
            if places.next_if(|trained| **trained == place).is_none() {
                *leaf = leaf.zeros_like();
            }
        }
        self.replaced(all, leaves)
    }
}
