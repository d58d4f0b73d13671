//! The formula of a link: written over symbols, evaluated on tensors, printed with names or with numbers.

use super::link::{Link, Quantity, Slot, Step};
use crate::algebra::Literal as _;
use crate::dtype::DType;
use crate::error::Error;
use crate::expr::{IntoTensor as _, Tensor};
use crate::formula::{Formula, Node, Symbol, Symbols};
use crate::ops::{Operation, Relation};

/// The formula of a link while it is written: what it may read, and what it assigns.
///
/// ```
/// use glassgrad::optim::{ClipNorm, Optimizer};
/// let optimizer = Optimizer::sgd(0.5).momentum(0.9).link_first(ClipNorm(2.0));
/// let lines: Vec<String> = optimizer.formulas().iter().flat_map(|(_, lines)| lines.clone()).collect();
/// assert_eq!(lines, ["s = c / max(norm, c)", "u1 = s * g", "v_t = μ * v + u1", "u2 = v_t"]);
/// ```
pub struct Rule<'s> {
    symbols: &'s Symbols,
    /// How each variable is written.
    term: &'s dyn Fn(&Variable) -> Term,
    slots: &'s [Slot],
    /// The symbols of the quantities; all are accepted where they are not known.
    quantities: Option<&'s [&'static str]>,
    has_loss: bool,
    /// The names in the order of their first use, as formulas number them, with the variables that they stand for.
    variables: Vec<(String, Variable)>,
    statements: Vec<Statement<'s>>,
    /// The first name that the link does not declare.
    undeclared: Option<&'static str>,
}

/// The variables of a formula.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Variable {
    Update,
    Parameter,
    Step,
    Loss,
    Constant(&'static str, f64),
    Slot(usize),
    Quantity(&'static str),
    /// The value of a statement before.
    Assigned(usize, Target),
}

/// A variable as it enters a formula.
pub(super) enum Term {
    Number(f64),
    Name(String),
}

/// An assignment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Statement<'s> {
    pub(super) target: Target,
    pub(super) value: Symbol<'s>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Target {
    Slot(usize),
    Local(&'static str),
    Update,
}

/// One number for all weights, in 64 bits, or a tensor for each leaf.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Shared(Tensor),
    Leaves(Vec<Tensor>),
}

impl<'s> Rule<'s> {
    /// The update of the previous link: for the first link, the gradient.
    ///
    /// ```
    /// use glassgrad::optim::Optimizer;
    /// let formulas = Optimizer::sgd(0.1).weight_decay(0.5).formulas();
    /// assert_eq!(formulas[0].1[0], "u1 = g + λ * w");
    /// ```
    pub fn update(&mut self) -> Symbol<'s> {
        self.variable(Variable::Update)
    }

    /// The weight before the step.
    ///
    /// ```
    /// use glassgrad::optim::Optimizer;
    /// let formulas = Optimizer::sgd(0.1).weight_decay(0.5).formulas();
    /// assert_eq!(formulas[0].1[0], "u1 = g + λ * w");
    /// ```
    pub fn parameter(&mut self) -> Symbol<'s> {
        self.variable(Variable::Parameter)
    }

    /// The number of the step, from 1 on.
    ///
    /// ```
    /// use glassgrad::optim::Optimizer;
    /// let formulas = Optimizer::adam(0.1).formulas();
    /// assert_eq!(formulas[0].1[2], "a = 1 / (1 - β1^t)");
    /// ```
    pub fn step(&mut self) -> Symbol<'s> {
        self.variable(Variable::Step)
    }

    /// The value of the loss, where the training loop gives it.
    ///
    /// ```
    /// use glassgrad::optim::{Optimizer, Plateau};
    /// let formulas = Optimizer::sgd(0.1).link(Plateau::new(0.5, 3)).formulas();
    /// assert_eq!(formulas[0].1[1], "k = where(L < q, 0, n + 1)");
    /// ```
    pub fn loss(&mut self) -> Option<Symbol<'s>> {
        self.has_loss.then(|| self.variable(Variable::Loss))
    }

    /// A hyperparameter with its symbol.
    ///
    /// ```
    /// use glassgrad::optim::Optimizer;
    /// let formulas = Optimizer::sgd(0.1).ema(0.9).formulas();
    /// assert_eq!(formulas[0].1[0], "m_t = β * m + (1 - β) * g");
    /// ```
    pub fn constant(&mut self, symbol: &'static str, value: f64) -> Symbol<'s> {
        self.variable(Variable::Constant(symbol, value))
    }

    /// A number that has no symbol.
    ///
    /// ```
    /// use glassgrad::optim::Optimizer;
    /// let formulas = Optimizer::sgd(0.1).ema(0.9).formulas();
    /// assert_eq!(formulas[0].1[0], "m_t = β * m + (1 - β) * g");
    /// ```
    pub fn number(&self, value: f64) -> Symbol<'s> {
        Symbol::literal(value)
    }

    /// The value of a slot before the step.
    ///
    /// ```
    /// use glassgrad::optim::Optimizer;
    /// let formulas = Optimizer::sgd(0.1).momentum(0.9).formulas();
    /// assert_eq!(formulas[0].1[0], "v_t = μ * v + g");
    /// ```
    pub fn slot(&mut self, symbol: &'static str) -> Symbol<'s> {
        let place = self.slots.iter().position(|slot| slot.symbol == symbol);
        self.declared(symbol, place.map(Variable::Slot))
    }

    /// A value that [`Link::quantities`] returns.
    ///
    /// ```
    /// use glassgrad::optim::Optimizer;
    /// let formulas = Optimizer::sgd(0.1).clip_norm(1.0).formulas();
    /// assert_eq!(formulas[0].1[0], "s = c / max(norm, c)");
    /// ```
    pub fn quantity(&mut self, symbol: &'static str) -> Symbol<'s> {
        let is_declared = self.quantities.is_none_or(|own| own.contains(&symbol));
        self.declared(symbol, is_declared.then_some(Variable::Quantity(symbol)))
    }

    /// Assigns the next value of a slot, and returns it.
    ///
    /// ```
    /// use glassgrad::optim::Optimizer;
    /// let formulas = Optimizer::sgd(0.1).momentum(0.9).formulas();
    /// assert_eq!(formulas[0].1[0], "v_t = μ * v + g");
    /// ```
    pub fn set(&mut self, symbol: &'static str, value: Symbol<'s>) -> Symbol<'s> {
        match self.slots.iter().position(|slot| slot.symbol == symbol) {
            Some(place) => self.assign(Target::Slot(place), value),
            None => self.declared(symbol, None),
        }
    }

    /// Gives a value a symbol. What reads no weight is computed once for all, in 64 bits.
    ///
    /// ```
    /// use glassgrad::optim::Optimizer;
    /// let formulas = Optimizer::sgd(0.1).clip_norm(1.0).formulas();
    /// assert_eq!(formulas[0].1[0], "s = c / max(norm, c)");
    /// ```
    pub fn define(&mut self, symbol: &'static str, value: Symbol<'s>) -> Symbol<'s> {
        self.assign(Target::Local(symbol), value)
    }

    fn assign(&mut self, target: Target, value: Symbol<'s>) -> Symbol<'s> {
        self.statements.push(Statement { target, value });
        self.variable(Variable::Assigned(self.statements.len() - 1, target))
    }

    fn declared(&mut self, symbol: &'static str, variable: Option<Variable>) -> Symbol<'s> {
        if let Some(variable) = variable {
            return self.variable(variable);
        }
        self.undeclared.get_or_insert(symbol);
        Symbol::literal(f64::NAN)
    }

    fn variable(&mut self, variable: Variable) -> Symbol<'s> {
        match (self.term)(&variable) {
            Term::Number(value) => Symbol::literal(value),
            Term::Name(name) => {
                let symbol = self.symbols.variable(&name);
                if !self.variables.iter().any(|(own, _)| *own == name) {
                    self.variables.push((name, variable));
                }
                symbol
            }
        }
    }
}

/// What a formula may read besides the update and the weight: slots, quantities where they are known, the loss.
#[derive(Clone, Copy)]
pub(super) struct Declared<'s> {
    pub(super) slots: &'s [Slot],
    pub(super) quantities: Option<&'s [&'static str]>,
    pub(super) has_loss: bool,
}

/// The formula of a link: its statements, the last of which is its update, and its variables by their numbers.
pub(super) struct Written<'s> {
    pub(super) statements: Vec<Statement<'s>>,
    variables: Vec<(String, Variable)>,
}

impl<'s> Written<'s> {
    pub(super) fn of(
        link: &dyn Link,
        symbols: &'s Symbols,
        Declared { slots, quantities, has_loss }: Declared<'s>,
        term: &'s dyn Fn(&Variable) -> Term,
    ) -> Result<Written<'s>, Error> {
        let (variables, statements) = (Vec::new(), Vec::new());
        let mut rule = Rule { symbols, term, slots, quantities, has_loss, variables, statements, undeclared: None };
        let value = link.formula(&mut rule);
        rule.statements.push(Statement { target: Target::Update, value });
        match rule.undeclared {
            None => Ok(Written { statements: rule.statements, variables: rule.variables }),
            Some(symbol) => {
                let link = link.name();
                let message = format!("the formula of the link {link:?} reads {symbol:?}, which it does not declare");
                Err(Error::new("update", message).help("return it from Link::slots or from Link::quantities"))
            }
        }
    }

    /// The value of a statement as text, with squares written as powers.
    pub(super) fn text(&self, statement: &Statement<'s>) -> String {
        let Some(mut formula) = statement.value.to_formula().map(|formula| formula.trimmed()) else {
            return statement.value.to_string();
        };
        for node in &mut formula.nodes {
            if let Node::Unary(Operation::Square, x, _) = *node {
                *node = Node::Unary(Operation::Powi, x, 2.0);
            }
        }
        let symbols = Symbols::new();
        let inputs: Vec<Symbol<'_>> = self.variables.iter().map(|(name, _)| symbols.variable(name)).collect();
        formula.evaluate(&inputs)[0].to_string()
    }
}

/// All that the formula of a link reads in one step.
pub(super) struct Inputs<'i> {
    pub(super) step: &'i Step<'i>,
    pub(super) updates: &'i [Tensor],
    pub(super) slots: &'i [Value],
    pub(super) quantities: &'i [Quantity],
}

/// The results of a link in one step.
pub(super) struct Outputs {
    /// The value of each statement, in their order.
    pub(super) values: Vec<Value>,
    pub(super) updates: Vec<Tensor>,
    pub(super) slots: Vec<Value>,
}

/// Evaluates the formula of a link on tensors.
#[track_caller]
pub(super) fn evaluate(link: &dyn Link, inputs: &Inputs<'_>) -> Result<Outputs, Error> {
    let (symbols, declared) = (Symbols::new(), link.slots());
    let names: Vec<&'static str> = inputs.quantities.iter().map(|quantity| quantity.symbol).collect();
    let term = |variable: &Variable| match variable {
        // Constants enter as numbers, so that what is computed from them alone is computed in 64 bits.
        Variable::Constant(_, value) => Term::Number(*value),
        variable => Term::Name(format!("{variable:?}")),
    };
    let may_read = Declared { slots: &declared, quantities: Some(&names), has_loss: inputs.step.loss.is_some() };
    let Written { statements, variables } = Written::of(link, &symbols, may_read, &term)?;
    let mut outputs = Outputs { values: Vec::new(), updates: Vec::new(), slots: inputs.slots.to_vec() };
    for statement in &statements {
        let value = inputs.value_of(statement.value, &variables, &outputs.values);
        match statement.target {
            Target::Update => outputs.updates = inputs.in_leaves(&value),
            Target::Slot(place) if declared[place].is_per_weight => {
                outputs.slots[place] = Value::Leaves(inputs.in_leaves(&value));
            }
            Target::Slot(place) => match &value {
                Value::Shared(_) => outputs.slots[place] = value.clone(),
                Value::Leaves(_) => {
                    let (slot, link) = (declared[place].name, link.name());
                    let message = format!("the link {link:?} assigns a value for each weight to the number {slot:?}");
                    return Err(Error::new("update", message).help("declare the slot by Slot::per_weight"));
                }
            },
            Target::Local(_) => {}
        }
        outputs.values.push(value);
    }
    Ok(outputs)
}

impl Inputs<'_> {
    #[track_caller]
    fn value_of(&self, symbol: Symbol<'_>, variables: &[(String, Variable)], before: &[Value]) -> Value {
        let Some(formula) = symbol.to_formula().map(|formula| formula.trimmed()) else {
            return Value::Shared(Tensor::from(symbol.as_number().unwrap_or(f64::NAN)));
        };
        let used: Vec<Option<Value>> = (0..variables.len())
            .map(|number| {
                let is_used = formula.nodes.contains(&Node::Variable(number));
                is_used.then(|| self.variable(variables[number].1, before))
            })
            .collect();
        let in_64_bits = |value: &Tensor| value.cast(DType::F64);
        if used.iter().flatten().all(|value| matches!(value, Value::Shared(_))) {
            let input = |number: usize| match &used[number] {
                Some(Value::Shared(value)) => in_64_bits(value),
                _ => Tensor::from(f64::NAN),
            };
            return Value::Shared(apply(&formula, input));
        }
        let mut leaves = Vec::with_capacity(self.updates.len());
        for (place, update) in self.updates.iter().enumerate() {
            let input = |number: usize| match &used[number] {
                Some(Value::Leaves(leaves)) => leaves.get(place).cloned().unwrap_or_else(|| Tensor::from(f64::NAN)),
                Some(Value::Shared(value)) => in_64_bits(value),
                None => Tensor::from(f64::NAN),
            };
            leaves.push(apply(&formula, |number| input(number).cast(update.dtype())));
        }
        Value::Leaves(leaves)
    }

    fn variable(&self, variable: Variable, before: &[Value]) -> Value {
        match variable {
            Variable::Update => Value::Leaves(self.updates.to_vec()),
            Variable::Parameter => Value::Leaves(self.step.parameters.to_vec()),
            Variable::Step => Value::Shared(self.step.count.clone()),
            Variable::Loss => Value::Shared(self.step.loss.cloned().unwrap_or_else(|| Tensor::from(f64::NAN))),
            Variable::Constant(_, value) => Value::Shared(Tensor::from(value)),
            Variable::Slot(place) => self.slots[place].clone(),
            Variable::Quantity(symbol) => match self.quantities.iter().find(|quantity| quantity.symbol == symbol) {
                Some(quantity) => quantity.value.clone(),
                None => Value::Shared(Tensor::from(f64::NAN)),
            },
            Variable::Assigned(place, _) => before[place].clone(),
        }
    }

    /// A tensor of the shape and type of each leaf.
    #[track_caller]
    fn in_leaves(&self, value: &Value) -> Vec<Tensor> {
        let mut leaves = Vec::with_capacity(self.updates.len());
        for (place, update) in self.updates.iter().enumerate() {
            let own = match value {
                Value::Shared(number) => number,
                Value::Leaves(leaves) => &leaves[place],
            };
            leaves.push(own.cast(update.dtype()).broadcast_to(update.shape()));
        }
        leaves
    }
}

/// A formula evaluated on tensors, node by node.
#[track_caller]
fn apply(formula: &Formula, input: impl Fn(usize) -> Tensor) -> Tensor {
    let mut values: Vec<Result<Tensor, f64>> = Vec::with_capacity(formula.nodes.len());
    let beside = formula.nodes.iter().find_map(|node| match node {
        Node::Variable(number) => Some(input(*number)),
        _ => None,
    });
    let beside = beside.unwrap_or_else(|| Tensor::from(0.0));
    for node in &formula.nodes {
        let tensor = |place: usize| match &values[place] {
            Ok(tensor) => tensor.clone(),
            Err(number) => number.into_tensor(&beside),
        };
        let value = match *node {
            Node::Number(number) => Err(number),
            Node::Variable(number) => Ok(input(number)),
            Node::Unary(operation, x, parameter) => Ok(Tensor::apply(operation, parameter, &[&tensor(x)])),
            // A factor that is a number stands last, as in the products that people write in Rust.
            Node::Binary(Operation::Mul, a, b) if values[a].is_err() => Ok(tensor(b) * tensor(a)),
            Node::Binary(operation, a, b) => Ok(Tensor::apply(operation, 0.0, &[&tensor(a), &tensor(b)])),
            Node::Choose(left, relation, right, taken, otherwise) => {
                let (left, right) = (tensor(left), tensor(right));
                let is_taken = match relation {
                    Relation::Less => left.lt(&right),
                    Relation::LessOrEqual => left.le(&right),
                    Relation::Greater => left.gt(&right),
                    Relation::GreaterOrEqual => left.ge(&right),
                    Relation::Equal => left.equal(&right),
                    Relation::NotEqual => left.not_equal(&right),
                };
                Ok(is_taken.choose(&tensor(taken), &tensor(otherwise)))
            }
        };
        values.push(value);
    }
    match values.pop() {
        Some(Ok(tensor)) => tensor,
        Some(Err(number)) => number.into_tensor(&beside),
        None => beside,
    }
}
