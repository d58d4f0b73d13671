//! One weight in one step: the formula of each link with its symbols and with its numbers.

use std::sync::Arc;

use super::link::{Link, Quantity, Slot, Step};
use super::optimizer::{Optimizer, Slots, State, Trained, stepped};
use super::rule::{self, Declared, Inputs, Target, Term, Value, Variable, Written};
use crate::Tree;
use crate::error::Error;
use crate::expr::{Index, Tensor};
use crate::formula::Symbols;
use crate::tree::Tree;

/// All that the update of one weight reads, as tensors of rank 0.
///
/// ```
/// use glassgrad::{Tensor, optim::Optimizer};
/// let (x, gradient) = (Tensor::from([2.0, 5.0]), Tensor::from([30.0, 40.0]));
/// let optimizer = Optimizer::sgd(0.5).clip_norm(5.0);
/// let step = optimizer.weight_step(&x, &gradient, None, &optimizer.init(&x), "", &[1]).unwrap();
/// assert_eq!((step.inputs.weight.item().unwrap(), step.inputs.quantities[0][0].item().unwrap()), (5.0, 50.0));
/// ```
#[derive(Clone, Debug, Tree)]
pub struct WeightInputs {
    /// The weight before the step.
    pub weight: Tensor,
    /// Its gradient.
    pub gradient: Tensor,
    /// The learning rate of this weight in this step, 64-bit.
    pub rate: Tensor,
    /// The number of the step, from 1 on, 64-bit.
    pub count: Tensor,
    /// The value of the loss, if it was given.
    pub loss: Option<Tensor>,
    /// The slots of each link.
    pub slots: Vec<Slots<Tensor>>,
    /// What each link reads that is no pointwise function of the weight.
    pub quantities: Vec<Vec<Tensor>>,
}

/// One weight in one step of an optimizer, see [`Optimizer::weight_step`].
///
/// ```
/// use glassgrad::{Tensor, optim::Optimizer};
/// let (x, gradient) = (Tensor::from([1.0]), Tensor::from([0.5]));
/// let optimizer = Optimizer::sgd(0.5).momentum(0.9);
/// let step = optimizer.weight_step(&x, &gradient, None, &optimizer.init(&x), "", &[0]).unwrap();
/// assert_eq!(step.inputs.gradient.item().unwrap(), 0.5);
/// ```
#[derive(Clone, Debug)]
pub struct WeightStep {
    /// The inputs of the update.
    pub inputs: WeightInputs,
    links: Vec<Arc<dyn Link + Send + Sync>>,
    /// The symbols of the quantities of each link.
    symbols: Vec<Vec<&'static str>>,
    /// Whether each of them is one number for all weights.
    are_shared: Vec<Vec<bool>>,
}

/// The update of one weight by one link.
///
/// ```
/// use glassgrad::{Tensor, optim::Optimizer};
/// let (x, gradient) = (Tensor::from([1.0]), Tensor::from([0.5]));
/// let optimizer = Optimizer::sgd(0.1).momentum(0.9);
/// let step = optimizer.weight_step(&x, &gradient, None, &optimizer.init(&x), "", &[0]).unwrap();
/// let explained = step.explain(|number| number.to_string()).unwrap();
/// assert_eq!(explained[0].lines[0].to_string(), "v_t = μ * v + g = 0.9 * 0 + 0.5 = 0.5");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct LinkStep {
    /// The name of the link.
    pub name: &'static str,
    /// The statements of its formula; the last one is the update.
    pub lines: Vec<Line>,
    /// The slots that have a number for each weight.
    pub slots: Vec<SlotStep>,
    /// The update after this link.
    pub update: f64,
}

/// A slot of one weight in one step.
///
/// ```
/// use glassgrad::{Tensor, optim::Optimizer};
/// let (x, gradient) = (Tensor::from([1.0]), Tensor::from([0.5]));
/// let optimizer = Optimizer::sgd(0.1).momentum(0.9);
/// let step = optimizer.weight_step(&x, &gradient, None, &optimizer.init(&x), "", &[0]).unwrap();
/// let velocity = &step.explain(|number| number.to_string()).unwrap()[0].slots[0];
/// assert_eq!((velocity.slot.name, velocity.before, velocity.after), ("velocity", 0.0, 0.5));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct SlotStep {
    /// Its declaration.
    pub slot: Slot,
    /// Its value before the step.
    pub before: f64,
    /// Its value after the step.
    pub after: f64,
}

/// One statement of a formula for one weight: `target = formula = numbers = value`.
///
/// ```
/// use glassgrad::optim::Line;
/// let line = Line { target: "u1".into(), formula: "g + λ * w".into(), numbers: "1 + 0.5 * 2".into(), value: 2.0, shown: "2".into() };
/// assert_eq!(line.to_string(), "u1 = g + λ * w = 1 + 0.5 * 2 = 2");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// The assigned variable, such as `m_t`.
    pub target: String,
    /// The formula in symbols.
    pub formula: String,
    /// The formula with the numbers of this weight.
    pub numbers: String,
    /// Its value.
    pub value: f64,
    /// Its value as text.
    pub shown: String,
}

impl std::fmt::Display for Line {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Line { target, formula, numbers, shown, .. } = self;
        write!(formatter, "{target} = {formula}")?;
        // A formula that is one symbol has no calculation to show.
        if numbers != shown { write!(formatter, " = {numbers} = {shown}") } else { write!(formatter, " = {shown}") }
    }
}

impl Optimizer {
    /// One weight in a step: the element of the leaf at a path, by its index.
    ///
    /// ```
    /// use glassgrad::{Tensor, optim::Optimizer};
    /// let (x, gradient) = (Tensor::from([2.0, 5.0]), Tensor::from([30.0, 40.0]));
    /// let optimizer = Optimizer::adam(0.5);
    /// let state = optimizer.init(&x);
    /// let step = optimizer.weight_step(&x, &gradient, None, &state, "", &[1]).unwrap();
    /// let next = optimizer.update(&x, &gradient, &state).0.to_vec::<f64>().unwrap();
    /// assert_eq!(step.next(&step.inputs).item().unwrap(), next[1]);
    /// assert!(optimizer.weight_step(&x, &gradient, None, &state, "", &[2]).is_err());
    /// ```
    #[track_caller]
    pub fn weight_step<X: Tree>(
        &self,
        parameters: &X,
        gradient: &X,
        loss: Option<&Tensor>,
        state: &State<X>,
        path: &str,
        index: &[usize],
    ) -> Result<WeightStep, Error> {
        let trained = Trained::of(self, parameters.leaves());
        let Some(leaf) = trained.paths.iter().position(|own| own.to_string() == path) else {
            let paths: Vec<String> = trained.paths.iter().map(ToString::to_string).take(20).collect();
            let error = Error::new("weight_step", format!("the optimizer trains no parameter {path:?}"));
            return Err(error.help(format!("it trains {}", paths.join(", "))));
        };
        let shape = trained.leaves[leaf].shape().clone();
        if index.len() != shape.len() || index.iter().zip(&shape[..]).any(|(place, extent)| place >= extent) {
            let message = format!("{path} has the shape {shape} and no element {index:?}");
            return Err(Error::new("weight_step", message));
        }
        let indices: Vec<Index> = index.iter().map(|place| Index::At(*place as isize)).collect();
        let element = |tensor: &Tensor| if tensor.rank() == 0 { tensor.clone() } else { tensor.slice(&indices) };
        let of_leaf = |tree: &X| element(&tree.flatten()[trained.places[leaf]]);
        let run = self.run(&trained, gradient.leaves(), loss, state.flattened(), None);
        let mut quantities: Vec<Vec<Tensor>> = Vec::new();
        let (mut symbols, mut are_shared) = (Vec::new(), Vec::new());
        for seen in &run.links {
            symbols.push(seen.quantities.iter().map(|quantity| quantity.symbol).collect());
            let is_shared = |quantity: &Quantity| matches!(quantity.value, Value::Shared(_));
            are_shared.push(seen.quantities.iter().map(is_shared).collect());
            let value = |quantity: &Quantity| match &quantity.value {
                Value::Shared(number) => number.clone(),
                Value::Leaves(leaves) => leaves.get(leaf).map_or_else(|| Tensor::from(f64::NAN), element),
            };
            quantities.push(seen.quantities.iter().map(value).collect());
        }
        let count = run.count;
        let slots = state
            .slots
            .iter()
            .map(|slots| Slots { leaves: slots.leaves.iter().map(of_leaf).collect(), scalars: slots.scalars.clone() });
        let inputs = WeightInputs {
            weight: of_leaf(parameters),
            gradient: of_leaf(gradient),
            rate: self.rate_of(&trained.paths[leaf], &self.rate_in(&count, &state.factor)),
            count,
            loss: loss.cloned(),
            slots: slots.collect(),
            quantities,
        };
        Ok(WeightStep { inputs: inputs.realise()?, links: self.links().to_vec(), symbols, are_shared })
    }
}

impl WeightStep {
    /// The weight after the step, from inputs like [`WeightStep::inputs`]: the function whose graph shows the step.
    ///
    /// ```
    /// use glassgrad::{Tensor, optim::Optimizer};
    /// let (x, gradient) = (Tensor::from([1.0]), Tensor::from([0.5]));
    /// let optimizer = Optimizer::sgd(0.5).momentum(0.9);
    /// let step = optimizer.weight_step(&x, &gradient, None, &optimizer.init(&x), "", &[0]).unwrap();
    /// assert_eq!(step.next(&step.inputs).item().unwrap(), 0.75);
    /// ```
    #[track_caller]
    pub fn next(&self, inputs: &WeightInputs) -> Tensor {
        let mut update = inputs.gradient.clone();
        for place in 0..self.links.len() {
            match self.evaluated(place, &update, inputs) {
                Ok((outputs, _)) => update = outputs.updates[0].clone(),
                Err(error) => return <Tensor as crate::diff::Fallible>::failed(&error),
            }
        }
        stepped(&inputs.weight, &update, &inputs.rate)
    }

    /// The inputs with their names: the weight, its gradient, slots and quantities.
    ///
    /// ```
    /// use glassgrad::{Tensor, optim::Optimizer};
    /// let (x, gradient) = (Tensor::from([1.0]), Tensor::from([0.5]));
    /// let optimizer = Optimizer::sgd(0.5).momentum(0.9);
    /// let step = optimizer.weight_step(&x, &gradient, None, &optimizer.init(&x), "", &[0]).unwrap();
    /// assert_eq!(step.named_inputs().slots[0].leaves[0].name(), Some("velocity"));
    /// ```
    pub fn named_inputs(&self) -> WeightInputs {
        let mut inputs = self.inputs.clone();
        inputs.weight = inputs.weight.named("weight");
        inputs.gradient = inputs.gradient.named("gradient");
        inputs.rate = inputs.rate.named("learning rate");
        inputs.count = inputs.count.named("step");
        inputs.loss = inputs.loss.map(|loss| loss.named("loss"));
        for ((link, slots), (quantities, symbols)) in
            self.links.iter().zip(&mut inputs.slots).zip(inputs.quantities.iter_mut().zip(&self.symbols))
        {
            let (weights, scalars): (Vec<_>, Vec<_>) = link.slots().into_iter().partition(|slot| slot.is_per_weight);
            for (tensor, slot) in slots.leaves.iter_mut().zip(weights).chain(slots.scalars.iter_mut().zip(scalars)) {
                *tensor = tensor.clone().named(slot.name);
            }
            for (tensor, symbol) in quantities.iter_mut().zip(symbols) {
                *tensor = tensor.clone().named(symbol);
            }
        }
        inputs
    }

    /// The formula of each link for this weight, with numbers written by a function.
    ///
    /// ```
    /// use glassgrad::{Tensor, optim::Optimizer};
    /// let (x, gradient) = (Tensor::from([1.0]), Tensor::from([0.5]));
    /// let optimizer = Optimizer::sgd(0.5).momentum(0.9);
    /// let step = optimizer.weight_step(&x, &gradient, None, &optimizer.init(&x), "", &[0]).unwrap();
    /// assert_eq!(step.explain(|number| number.to_string()).unwrap()[0].update, 0.5);
    /// ```
    pub fn explain(&self, write: impl Fn(f64) -> String) -> Result<Vec<LinkStep>, Error> {
        let mut update = self.inputs.gradient.clone();
        let mut explained = Vec::new();
        for (place, link) in self.links.iter().enumerate() {
            let given = update.item()?;
            let (outputs, before) = self.evaluated(place, &update, &self.inputs)?;
            let number = |value: &Value| match value {
                Value::Shared(number) => number.item(),
                Value::Leaves(leaves) => leaves[0].item(),
            };
            let values = outputs.values.iter().map(number).collect::<Result<Vec<f64>, Error>>()?;
            let slots = link.slots();
            let before = before.iter().map(number).collect::<Result<Vec<f64>, Error>>()?;
            let quantities: Vec<f64> =
                self.inputs.quantities[place].iter().map(Tensor::item).collect::<Result<_, Error>>()?;
            let (weight, count) = (self.inputs.weight.item()?, self.inputs.count.item()?);
            let loss = self.inputs.loss.as_ref().map_or(Ok(f64::NAN), Tensor::item)?;
            let shown = |variable: &Variable| {
                Term::Name(write(match variable {
                    Variable::Update => given,
                    Variable::Parameter => weight,
                    Variable::Step => count,
                    Variable::Loss => loss,
                    Variable::Constant(_, value) => *value,
                    Variable::Slot(place) => before[*place],
                    Variable::Quantity(symbol) => {
                        let own = self.symbols[place].iter().position(|own| own == symbol);
                        own.map_or(f64::NAN, |own| quantities[own])
                    }
                    Variable::Assigned(place, _) => values[*place],
                }))
            };
            let declared = Declared {
                slots: &slots,
                quantities: Some(&self.symbols[place]),
                has_loss: self.inputs.loss.is_some(),
            };
            let formulas = written(&**link, place, declared)?;
            let symbols = Symbols::new();
            let numbers = Written::of(&**link, &symbols, declared, &shown)?;
            let lines = formulas.into_iter().zip(&numbers.statements).zip(&values);
            let lines = lines.map(|(((target, formula), statement), value)| Line {
                target,
                formula,
                numbers: numbers.text(statement),
                value: *value,
                shown: write(*value),
            });
            let after = outputs.slots.iter().map(number).collect::<Result<Vec<f64>, Error>>()?;
            let steps = slots.iter().zip(before.iter().zip(after)).filter(|(slot, _)| slot.is_per_weight);
            update = outputs.updates[0].realise()?;
            explained.push(LinkStep {
                name: link.name(),
                lines: lines.collect(),
                slots: steps.map(|(slot, (before, after))| SlotStep { slot: *slot, before: *before, after }).collect(),
                update: update.item()?,
            });
        }
        Ok(explained)
    }

    /// What a link computes for the weight, and its slots before the step.
    #[track_caller]
    fn evaluated(
        &self,
        place: usize,
        update: &Tensor,
        inputs: &WeightInputs,
    ) -> Result<(rule::Outputs, Vec<Value>), Error> {
        let (link, parameters) = (&self.links[place], [inputs.weight.clone()]);
        let step = Step { count: &inputs.count, loss: inputs.loss.as_ref(), paths: &[], parameters: &parameters };
        let (mut leaves, mut scalars) = (inputs.slots[place].leaves.iter(), inputs.slots[place].scalars.iter());
        let missing = || Error::new("update", "the inputs have too few slots");
        let slots = link.slots().into_iter().map(|slot| match slot.is_per_weight {
            true => leaves.next().map(|leaf| Value::Leaves(vec![leaf.clone()])).ok_or_else(missing),
            false => scalars.next().cloned().map(Value::Shared).ok_or_else(missing),
        });
        let slots = slots.collect::<Result<Vec<Value>, Error>>()?;
        let quantities: Vec<Quantity> = self.symbols[place]
            .iter()
            .zip(&self.are_shared[place])
            .zip(&inputs.quantities[place])
            .map(|((symbol, is_shared), value)| match is_shared {
                true => Quantity::shared(symbol, value.clone()),
                false => Quantity::per_leaf(symbol, vec![value.clone()]),
            })
            .collect();
        let updates = [update.clone()];
        let inputs = Inputs { step: &step, updates: &updates, slots: &slots, quantities: &quantities };
        Ok((rule::evaluate(&**link, &inputs)?, slots))
    }
}

/// The statements of a link of this place in the chain, as targets and formulas.
fn written(link: &dyn Link, place: usize, declared: Declared<'_>) -> Result<Vec<(String, String)>, Error> {
    let target = |target: Target| match target {
        Target::Slot(slot) => format!("{}_t", declared.slots[slot].symbol),
        Target::Local(symbol) => symbol.to_owned(),
        Target::Update => format!("u{}", place + 1),
    };
    let name = |variable: &Variable| {
        Term::Name(match variable {
            Variable::Update if place == 0 => "g".to_owned(),
            Variable::Update => format!("u{place}"),
            Variable::Parameter => "w".to_owned(),
            Variable::Step => "t".to_owned(),
            Variable::Loss => "L".to_owned(),
            Variable::Constant(symbol, _) | Variable::Quantity(symbol) => (*symbol).to_owned(),
            Variable::Slot(slot) => declared.slots[*slot].symbol.to_owned(),
            Variable::Assigned(_, assigned) => target(*assigned),
        })
    };
    let symbols = Symbols::new();
    let formula = Written::of(link, &symbols, declared, &name)?;
    Ok(formula.statements.iter().map(|statement| (target(statement.target), formula.text(statement))).collect())
}

/// The formulas of links, with their names.
pub(super) fn formulas(links: &[Arc<dyn Link + Send + Sync>]) -> Vec<(&'static str, Vec<String>)> {
    let of_link = |(place, link): (usize, &Arc<dyn Link + Send + Sync>)| {
        let slots = link.slots();
        let lines = match written(&**link, place, Declared { slots: &slots, quantities: None, has_loss: true }) {
            Ok(lines) => lines.into_iter().map(|(target, formula)| format!("{target} = {formula}")).collect(),
            Err(error) => vec![error.to_string()],
        };
        (link.name(), lines)
    };
    links.iter().enumerate().map(of_link).collect()
}
