//! Random functions of numbers as data: straight-line code over the rows of the table, choices, branches and loops.

use std::fmt;

use glassgrad::ops::Relation;
use glassgrad::{Algebra, Operation, Real};

use crate::programs::operations::rows;
use crate::random::Random;

/// An operand of a step: a value computed before, inputs first, or a constant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Operand {
    /// The value with this number.
    Value(usize),
    /// A constant.
    Constant(f64),
}

/// One step, which computes one value.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// A row of one argument with its parameter.
    Unary(Operation, f64, Operand),
    /// A row of two arguments.
    Binary(Operation, Operand, Operand),
    /// A choice between two numbers that are both computed: a node of a tape.
    Choose(Relation, [Operand; 2], [Operand; 2]),
    /// A branch of the program, of which one side runs: a guard of a recording.
    Branch(Relation, [Operand; 2], Box<[Step; 2]>),
    /// Halves a number until it is below the bound, a loop whose length depends on values.
    Halve(Operand, f64),
    /// The value of a step whose derivative is zero everywhere, as a constant.
    Detached(Box<Step>),
}

/// The most operands of a step.
pub const OPERANDS: usize = 4;

/// The most rounds of a loop.
const ROUNDS: usize = 6;

/// A random function of several numbers with several results.
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    /// The number of arguments.
    pub inputs: usize,
    /// The steps, each of which may use the values before it.
    pub steps: Vec<Step>,
    /// The numbers of the values that are results.
    pub outputs: Vec<usize>,
}

/// Numbers at which floating-point arithmetic, rules and kinks have special cases.
pub const SPECIAL: [f64; 12] =
    [0.0, -0.0, 1.0, -1.0, 2.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e-310, -1e-160, 1e160, 0.5];

impl Function {
    /// The function of a seed.
    pub fn new(random: &mut Random) -> Function {
        let inputs = 1 + random.below(4);
        let length = match random.below(60) {
            0 => 1500, // Longer than a segment of machine code.
            1..6 => 120,
            _ => 1 + random.below(30),
        };
        let mut function = Function { inputs, steps: Vec::new(), outputs: Vec::new() };
        while function.steps.len() < length {
            function.draw_step(random);
        }
        let values = inputs + function.steps.len();
        function.outputs = (0..1 + random.below(3)).map(|_| random.below(values)).collect();
        function.outputs[0] = values - 1;
        function
    }

    fn draw_operand(&self, random: &mut Random) -> Operand {
        let values = self.inputs + self.steps.len();
        match random.below(10) {
            0 => Operand::Constant(*random.choose(&SPECIAL)),
            1 => Operand::Constant(4.0 * random.unit() - 2.0),
            // Late values more often than early ones, so that functions are deep.
            2..6 => Operand::Value(values - 1 - random.below(values.min(4))),
            _ => Operand::Value(random.below(values)),
        }
    }

    fn push(&mut self, step: Step) -> Operand {
        self.steps.push(step);
        Operand::Value(self.inputs + self.steps.len() - 1)
    }

    fn draw_step(&mut self, random: &mut Random) {
        let relation = *random.choose(&Relation::ALL);
        let pair = |random: &mut Random| [self.draw_operand(random), self.draw_operand(random)];
        let step = match random.below(16) {
            0 => Step::Choose(relation, pair(random), pair(random)),
            1 => {
                let compared = pair(random);
                let sides = [self.draw_row(random), self.draw_row(random)];
                Step::Branch(relation, compared, Box::new(sides))
            }
            2 if random.chance(0.3) => Step::Halve(self.draw_operand(random), 0.5 + random.unit()),
            3..9 => {
                let operation = *random.choose(&[Operation::Add, Operation::Sub, Operation::Mul, Operation::Div]);
                let [a, b] = pair(random);
                Step::Binary(operation, a, b)
            }
            _ => self.draw_row(random),
        };
        self.push(step);
    }

    /// Any row of the table. Arguments are mostly moved into its domain, since NaN would win otherwise.
    fn draw_row(&mut self, random: &mut Random) -> Step {
        let row = random.choose(rows());
        let tame = random.chance(0.85);
        let mut arguments = Vec::new();
        for (centre, radius) in &row.domain {
            let argument = self.draw_operand(random);
            arguments.push(match tame {
                false => argument,
                true => {
                    let bounded = self.push(Step::Unary(Operation::Tanh, 0.0, argument));
                    let scaled = self.push(Step::Binary(Operation::Mul, bounded, Operand::Constant(*radius)));
                    self.push(Step::Binary(Operation::Add, scaled, Operand::Constant(*centre)))
                }
            });
        }
        let parameter = match row.operation.parameter() {
            Some(parameter) if parameter.integer => random.between(-9, 9) as f64,
            _ => row.parameter,
        };
        match arguments[..] {
            [x] => Step::Unary(row.operation, parameter, x),
            [a, b] => Step::Binary(row.operation, a, b),
            _ => unreachable!("rows have one or two arguments"),
        }
    }

    /// The results. Each operand of each step is multiplied by 1 + its number of `noise`, if there is any: uses of one value are
    /// perturbed independently, so that what cancels between them shows its rounding errors, also in derivatives. The outcomes of
    /// all comparisons are appended to `outcomes`.
    pub fn evaluate<T: Real>(&self, x: &[T], noise: &[f64], outcomes: &mut Vec<bool>) -> Vec<T> {
        let mut values = x.to_vec();
        for (place, step) in self.steps.iter().enumerate() {
            let own = noise.get(place * OPERANDS..(place + 1) * OPERANDS).unwrap_or(&[]);
            values.push(run(step, &values, own, outcomes));
        }
        self.outputs.iter().map(|output| values[*output]).collect()
    }

    /// The function in which steps whose derivative is zero everywhere, rows such as rounding and products with the constant 0, are
    /// constants: what they are applied to does not matter to derivatives, also if it is not finite.
    pub fn with_flat_steps(&self) -> Function {
        let is_flat = |operation: &Operation, parameter: f64| {
            let row = rows().iter().find(|row| row.operation == *operation).expect("a row of the table");
            let (centre, radius) = row.domain[0];
            let slope = |k: i32| {
                let x = centre + radius * (f64::from(k) / 7.0 + 0.013);
                operation.apply_unary(x, parameter).and_then(|y| operation.derivative(x, y, parameter))
            };
            (-7..7).all(|k| slope(k) == Some(0.0))
        };
        fn detach(step: &mut Step, is_flat: &dyn Fn(&Operation, f64) -> bool) {
            let detached = match step {
                Step::Unary(operation, parameter, _) => is_flat(operation, *parameter),
                Step::Binary(Operation::Mul, a, b) => *a == Operand::Constant(0.0) || *b == Operand::Constant(0.0),
                Step::Branch(_, _, sides) => {
                    sides.iter_mut().for_each(|side| detach(side, is_flat));
                    false
                }
                _ => false,
            };
            if detached {
                *step = Step::Detached(Box::new(step.clone()));
            }
        }
        let mut flat = self.clone();
        flat.steps.iter_mut().for_each(|step| detach(step, &is_flat));
        flat
    }

    /// Whether a rule contains a step whose derivative is zero everywhere, of which the second derivative is then one that other
    /// engines do not have where an operand of it is not finite.
    pub fn has_flat_rules(&self) -> bool {
        self.steps.iter().any(|step| step.to_string().contains("rem("))
    }

    /// Whether values are computed by other operations than the rows', so that they differ in their last bits: integer powers
    /// are compiled to products.
    pub fn has_integer_powers(&self) -> bool {
        fn is_power(step: &Step) -> bool {
            match step {
                Step::Unary(operation, ..) => *operation == Operation::Powi,
                Step::Branch(_, _, sides) => sides.iter().any(is_power),
                _ => false,
            }
        }
        self.steps.iter().any(is_power)
    }

    /// The function with equal steps merged, as common-subexpression elimination does.
    pub fn merged(&self) -> Function {
        let mut number: Vec<usize> = (0..self.inputs).collect();
        let mut steps: Vec<Step> = Vec::new();
        for step in &self.steps {
            let mut step = step.clone();
            step.map(&|operand| match operand {
                Operand::Value(value) => Operand::Value(number[value]),
                constant => constant,
            });
            if let Step::Binary(Operation::Add | Operation::Mul, a, b) = &mut step
                && a.to_string() > b.to_string()
            {
                std::mem::swap(a, b);
            }
            // As text, since NaN is equal to no constant.
            let text = step.to_string();
            let place = steps.iter().position(|other| other.to_string() == text).unwrap_or(steps.len());
            if place == steps.len() {
                steps.push(step);
            }
            number.push(self.inputs + place);
        }
        let outputs = self.outputs.iter().map(|output| number[*output]).collect();
        Function { inputs: self.inputs, steps, outputs }
    }

    /// A smaller function for which `fails` holds too: steps are removed as long as one can be.
    pub fn reduced(&self, fails: &dyn Fn(&Function) -> bool) -> Function {
        let mut best = self.clone();
        let mut budget = 400;
        loop {
            let before = best.clone();
            if best.outputs.len() > 1 {
                let first = Function { outputs: best.outputs[..1].to_vec(), ..best.clone() };
                if fails(&first) {
                    best = first;
                }
            }
            for place in (0..best.steps.len()).rev() {
                budget -= 1;
                if budget == 0 {
                    return best;
                }
                let candidate = best.without(place);
                if candidate.as_ref().is_some_and(fails) {
                    best = candidate.expect("it fails");
                }
            }
            if best == before {
                return best;
            }
        }
    }

    /// The function without a step, whose first operand takes the place of its value; `None` if that is a constant and a result.
    fn without(&self, place: usize) -> Option<Function> {
        let removed = self.inputs + place;
        let replacement = self.steps[place].operands()[0];
        let renumber = |operand: Operand| match operand {
            Operand::Value(value) if value == removed => replacement,
            Operand::Value(value) if value > removed => Operand::Value(value - 1),
            other => other,
        };
        let mut steps = self.steps.clone();
        steps.remove(place);
        steps.iter_mut().for_each(|step| step.map(&renumber));
        let output = |output: &usize| match renumber(Operand::Value(*output)) {
            Operand::Value(value) => Some(value),
            Operand::Constant(_) => None,
        };
        let outputs = self.outputs.iter().map(output).collect::<Option<Vec<_>>>()?;
        Some(Function { inputs: self.inputs, steps, outputs })
    }
}

impl Step {
    fn operands(&self) -> Vec<Operand> {
        match self {
            Step::Unary(_, _, x) | Step::Halve(x, _) => vec![*x],
            Step::Detached(step) => step.operands(),
            Step::Binary(_, a, b) => vec![*a, *b],
            Step::Choose(_, compared, sides) => [*sides, *compared].concat(),
            Step::Branch(_, compared, sides) => {
                let inside = sides.iter().flat_map(Step::operands);
                inside.chain(*compared).collect()
            }
        }
    }

    fn map(&mut self, to: &dyn Fn(Operand) -> Operand) {
        match self {
            Step::Unary(_, _, x) | Step::Halve(x, _) => *x = to(*x),
            Step::Detached(step) => step.map(to),
            Step::Binary(_, a, b) => (*a, *b) = (to(*a), to(*b)),
            Step::Choose(_, compared, sides) => (*compared, *sides) = (compared.map(to), sides.map(to)),
            Step::Branch(_, compared, sides) => {
                *compared = compared.map(to);
                sides.iter_mut().for_each(|side| side.map(to));
            }
        }
    }
}

fn run<T: Real>(step: &Step, values: &[T], noise: &[f64], outcomes: &mut Vec<bool>) -> T {
    let of = |slot: usize, operand: Operand| match (operand, noise.get(slot)) {
        (Operand::Value(place), None) => values[place],
        (Operand::Value(place), Some(noise)) => values[place] * T::literal(1.0 + noise),
        (Operand::Constant(number), _) => T::literal(number),
    };
    match step {
        Step::Unary(operation, parameter, x) => {
            operation.apply_unary(of(0, *x), *parameter).expect("a row of one argument")
        }
        Step::Detached(step) => {
            let numbers: Vec<f64> = values.iter().map(|value| value.primal()).collect();
            T::literal(run(step, &numbers, noise, outcomes))
        }
        Step::Binary(operation, a, b) => operation.apply_binary(of(0, *a), of(1, *b)).expect("a row of two arguments"),
        Step::Choose(relation, [left, right], [taken, otherwise]) => {
            let (left, right) = (of(0, *left), of(1, *right));
            outcomes.push(relation.holds(left.primal(), right.primal()));
            Algebra::choose(left, *relation, right, of(2, *taken), of(3, *otherwise))
        }
        Step::Branch(relation, [left, right], sides) => {
            let holds = of(0, *left).compare(*relation, of(1, *right));
            outcomes.push(holds);
            run(&sides[usize::from(!holds)], values, noise.get(2..).unwrap_or(&[]), outcomes)
        }
        Step::Halve(x, bound) => {
            let mut x = of(0, *x);
            for _ in 0..ROUNDS {
                let above = x > T::literal(*bound);
                outcomes.push(above);
                if !above {
                    break;
                }
                x *= T::literal(0.5);
            }
            x
        }
    }
}

impl fmt::Display for Operand {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Operand::Value(place) => write!(formatter, "%{place}"),
            Operand::Constant(number) => write!(formatter, "{number:?}"),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Unary(operation, parameter, x) => match operation.parameter() {
                None => write!(formatter, "{}({x})", operation.name()),
                Some(_) => write!(formatter, "{}({x}, {parameter:?})", operation.name()),
            },
            Step::Binary(operation, a, b) => write!(formatter, "{}({a}, {b})", operation.name()),
            Step::Choose(relation, [left, right], [taken, otherwise]) => {
                write!(formatter, "choose({left} {} {right}, {taken}, {otherwise})", relation.symbol())
            }
            Step::Branch(relation, [left, right], sides) => {
                write!(formatter, "if {left} {} {right} {{ {} }} else {{ {} }}", relation.symbol(), sides[0], sides[1])
            }
            Step::Detached(step) => write!(formatter, "detached {step}"),
            Step::Halve(x, bound) => write!(formatter, "while {x} > {bound:?} {{ halve }}"),
        }
    }
}

impl fmt::Display for Function {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "inputs %0 to %{}", self.inputs - 1)?;
        for (place, step) in self.steps.iter().enumerate() {
            writeln!(formatter, "%{} = {step}", self.inputs + place)?;
        }
        let outputs: Vec<String> = self.outputs.iter().map(|output| format!("%{output}")).collect();
        write!(formatter, "return {}", outputs.join(", "))
    }
}
