//! One question and its answer: the derivative in every notation, the steps that led to it, what is held, and how far it is
//! from other ways to compute it.

use std::fmt;

use super::check::{self, Agreement, KINDS, Point, deviation, summed, tensors};
use super::indexed::Expression;
use super::points::{Kind, Leaves, Sizes};
use super::read::Reader;
use super::recognise;
use super::written::{Index, Notation, letter, written};
use crate::calculus::{self, Opened, Part, Structure};
use crate::diff::pullback;
use crate::einsum::Einsum;
use crate::error::Error;
use crate::expr::Tensor;
use crate::lang::SyntaxError;
use crate::lang::matrix::{Declarations, MatrixExpression, Type, parse};
use crate::opt::contract::{flops, metric};

/// How many bytes derivatives and what leads to them may take, unless something else is said: 1 GB.
const LIMIT: u128 = 1_000_000_000;

/// Differences that agree so well need no other point.
const CLOSE: f64 = 1e-8;

/// What is asked: an expression, the symbol to differentiate by, how often, and the declared symbols.
///
/// ```
/// use glassgrad::calculator::{Question, derive};
/// let question = Question::new("norm2(A*x - b)^2", "x").declare("A: m n, x: n, b: m").unwrap();
/// assert_eq!(derive(&question).unwrap().matrix.as_deref(), Some("2*A'*(A*x - b)"));
/// assert_eq!(derive(&question.order(2)).unwrap().matrix.as_deref(), Some("2*A'*A"));
/// ```
#[derive(Clone, Debug)]
pub struct Question {
    source: String,
    wrt: String,
    order: usize,
    declared: Declarations,
    limit: u128,
}

impl Question {
    /// The gradient or Jacobian of an expression by a symbol.
    ///
    /// ```
    /// use glassgrad::calculator::{Question, derive};
    /// let question = Question::new("a'*x", "x").declare("a: n, x: n").unwrap();
    /// assert_eq!(derive(&question).unwrap().einstein, "a_i");
    /// ```
    pub fn new(source: &str, wrt: &str) -> Question {
        Question {
            source: source.to_owned(),
            wrt: wrt.to_owned(),
            order: 1,
            declared: Declarations::default(),
            limit: LIMIT,
        }
    }

    /// The same question with more declared symbols and sizes: see [`Declarations`].
    ///
    /// ```
    /// use glassgrad::calculator::Question;
    /// assert!(Question::new("a'*x", "x").declare("a: n, a: n").is_err());
    /// ```
    pub fn declare(mut self, text: &str) -> Result<Question, SyntaxError> {
        self.declared.extend(text)?;
        Ok(self)
    }

    /// The same question with one more declared symbol, as in `T=n,k`.
    ///
    /// ```
    /// use glassgrad::calculator::{Question, derive};
    /// let question = Question::new("tr(X)", "X").declare_shape("X=n,n").unwrap();
    /// assert_eq!(derive(&question).unwrap().einstein, "δ_ij");
    /// ```
    pub fn declare_shape(mut self, text: &str) -> Result<Question, SyntaxError> {
        self.declared.extend_shape(text)?;
        Ok(self)
    }

    /// The same question for the derivative of this order: 1 or 2.
    ///
    /// ```
    /// use glassgrad::calculator::{Question, derive};
    /// let question = Question::new("x'*x", "x").declare("x: n").unwrap().order(2);
    /// assert_eq!(derive(&question).unwrap().einstein, "2·δ_ij");
    /// ```
    pub fn order(mut self, order: usize) -> Question {
        self.order = order;
        self
    }

    /// The same question with another limit, in bytes, on what may be materialised.
    ///
    /// ```
    /// use glassgrad::calculator::{Question, derive};
    /// let question = Question::new("x'*x", "x").declare("x: n, n=1000").unwrap().limit(100);
    /// assert!(derive(&question).unwrap_err().to_string().contains("8 kB"));
    /// ```
    pub fn limit(mut self, bytes: u128) -> Question {
        self.limit = bytes;
        self
    }
}

/// Why there is no answer.
///
/// ```
/// use glassgrad::calculator::{Question, derive};
/// let error = derive(&Question::new("a'*x", "x")).unwrap_err();
/// assert!(error.to_string().starts_with("'a' is not declared"));
/// ```
#[derive(Clone, Debug)]
pub enum Unanswered {
    /// Something is wrong with the expression, at a place.
    Expression(SyntaxError),
    /// Something is wrong with what is asked about it.
    Question(String),
    /// The derivative could not be made or computed.
    Derivative(Error),
}

impl fmt::Display for Unanswered {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unanswered::Expression(error) => error.fmt(formatter),
            Unanswered::Question(message) => formatter.write_str(message),
            Unanswered::Derivative(error) => error.fmt(formatter),
        }
    }
}

impl std::error::Error for Unanswered {}

impl From<SyntaxError> for Unanswered {
    fn from(error: SyntaxError) -> Unanswered {
        Unanswered::Expression(error)
    }
}

impl From<Error> for Unanswered {
    fn from(error: Error) -> Unanswered {
        Unanswered::Derivative(error)
    }
}

/// One step of the derivation, in Einstein notation, with the FLOPs that computing either side takes at the sizes that were
/// asked for, and how far both sides are apart at a random point.
///
/// ```
/// use glassgrad::calculator::{Question, derive};
/// let question = Question::new("norm2(A*x - b)^2", "x").declare("A: m n, x: n, b: m").unwrap().order(2);
/// let steps = derive(&question).unwrap().steps;
/// assert!(!steps.is_empty() && steps.iter().all(|step| step.deviation < 1e-12));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// What was done.
    pub rule: &'static str,
    /// The expression before.
    pub before: String,
    /// The expression after.
    pub after: String,
    /// The FLOPs of the expression before.
    pub flops_before: u128,
    /// The FLOPs of the expression after.
    pub flops_after: u128,
    /// The largest difference between both sides, relative to the largest element.
    pub deviation: f64,
}

/// A derivative, written down and checked.
///
/// ```
/// use glassgrad::calculator::{Question, derive};
/// let question = Question::new("sum(exp(A*x))", "x").declare("A: m n, x: n, m=50, n=20").unwrap().order(2);
/// let derived = derive(&question).unwrap();
/// assert_eq!(derived.einstein, "A_ki A_kj exp(A_kl x_l)");
/// assert_eq!(derived.matrix.as_deref(), Some("A'*diag(exp(A*x))*A"));
/// assert_eq!(derived.dense_bytes, 8 * 20 * 20);
/// ```
#[derive(Clone, Debug)]
pub struct Derived {
    /// What the expression is, such as `number` or `vector of m`.
    pub shape: Type,
    /// What the derivative is, by its indices, such as `∂²f/∂x_i∂x_j`.
    pub heading: String,
    /// In Einstein notation: what is not on the left is summed over.
    pub einstein: String,
    /// With upper and lower indices.
    pub ricci: String,
    /// In matrix notation, in the language of expressions, if it has one. With more than two indices, it is the map that the
    /// derivative applies to a direction: [`Derived::direction`] names it.
    pub matrix: Option<String>,
    /// The name of the direction that the matrix notation is written for, where it is a map.
    pub direction: Option<String>,
    /// In LaTeX: the matrix notation if there is one, and otherwise the indices.
    pub latex: String,
    /// How it was found.
    pub steps: Vec<Step>,
    /// The numbers of the sizes.
    pub sizes: Vec<(String, usize)>,
    /// What is held, in Einstein notation, at these sizes.
    pub held: String,
    /// The structure of what is held.
    pub structure: Structure,
    /// The bytes that are held.
    pub held_bytes: u128,
    /// The bytes of the dense array.
    pub dense_bytes: u128,
    /// How far it is from other ways to compute it.
    pub agreement: Agreement,
}

/// Answers a question.
///
/// ```
/// use glassgrad::calculator::{Question, derive};
/// let question = Question::new("logdet(X)", "X").declare("X: n n").unwrap();
/// let derived = derive(&question).unwrap();
/// assert_eq!(derived.matrix.as_deref(), Some("inv(X)'"));
/// assert_eq!(derived.einstein, "inv(X)_ji");
/// ```
pub fn derive(question: &Question) -> Result<Derived, Unanswered> {
    let problem = Problem::understand(question)?;
    let planned = problem.planned()?;
    let written = problem.written()?;
    let mut agreement = problem.agreement()?;
    agreement.matrix = problem.matrix_deviation(&written)?;
    let held_bytes = planned.explanation.candidates.iter().find(|candidate| candidate.chosen);
    Ok(Derived {
        shape: problem.expression.shape().clone(),
        heading: problem.heading(),
        einstein: written.einstein,
        ricci: written.ricci,
        matrix: written.matrix,
        direction: written.direction,
        latex: written.latex,
        steps: written.steps,
        sizes: problem.numbers.clone(),
        held: planned.explanation.expression,
        structure: planned.structure,
        held_bytes: held_bytes.map_or(0, |candidate| candidate.held_bytes),
        dense_bytes: planned.explanation.dense_bytes,
        agreement,
    })
}

/// A question that was understood.
struct Problem<'q> {
    question: &'q Question,
    expression: MatrixExpression,
    /// The type of the symbol to differentiate by.
    variable: Type,
    numbers: Vec<(String, usize)>,
    sizes: Sizes,
    /// Small sizes that tell the names of extents.
    small: Sizes,
}

/// A derivative in every notation.
struct Written {
    einstein: String,
    ricci: String,
    matrix: Option<String>,
    direction: Option<String>,
    latex: String,
    steps: Vec<Step>,
    /// The whole derivative at small sizes, as numbers.
    dense: Vec<f64>,
    kind: Kind,
}

impl<'q> Problem<'q> {
    fn understand(question: &'q Question) -> Result<Problem<'q>, Unanswered> {
        let Question { source, wrt, order, declared, limit } = question;
        let expression = parse(source, declared)?;
        let Some(variable) = declared.shape(wrt).map(Type::of) else {
            let names: Vec<&str> = declared.names().collect();
            let message = format!("--wrt {wrt}: there is no such symbol; declared are {}", names.join(", "));
            return Err(Unanswered::Question(message));
        };
        if !expression.symbols().contains(&wrt.as_str()) {
            let used = expression.symbols().join(", ");
            let message = format!("--wrt {wrt}: the expression does not depend on it; its symbols are {used}");
            return Err(Unanswered::Question(message));
        }
        if !(1..=2).contains(order) {
            let message = format!("--order {order}: the first and the second derivative are given");
            return Err(Unanswered::Question(message));
        }
        if *order == 2 && !expression.shape().is_number() {
            let message = format!("the second derivative needs a number, and this is a {}", expression.shape());
            let error = SyntaxError::new(source, expression.span(), message);
            return Err(error.help("sum it, or ask for its first derivative with --order 1").into());
        }
        let numbers = declared.sizes();
        let sizes = Sizes::new(&numbers);
        // Nothing is made before all that is written is known to fit.
        for (place, own) in expression.types.iter().enumerate() {
            let elements =
                own.sizes.iter().fold(8_u128, |total, size| total.saturating_mul(sizes.number(size) as u128));
            if elements > *limit {
                let message = format!("this {own} takes {}", metric(elements, "B"));
                let error = SyntaxError::new(source, expression.spans[place], message);
                let limit = metric(*limit, "B");
                return Err(error
                    .help(format!("the limit is {limit}; raise it with --limit, or give smaller --sizes"))
                    .into());
            }
        }
        let small = sizes.told_apart(&expression, 0);
        Ok(Problem { question, expression, variable, numbers, sizes, small })
    }

    /// The variable, and what is differentiated by it to get what is asked for.
    fn traced(&self, leaves: &mut Leaves) -> (Tensor, Tensor) {
        let shape: Vec<usize> = self.variable.sizes.iter().map(|size| leaves.sizes.number(size)).collect();
        let variable = leaves.symbol(&self.question.wrt, &shape).wrapped();
        leaves.replace(&self.question.wrt, variable.clone());
        let value = leaves.lower(&self.expression);
        if self.question.order == 1 {
            return (variable, value);
        }
        let gradient = pullback(&[(&value, Tensor::from(1.0))], &[&variable], &[]).remove(0);
        let gradient = gradient.unwrap_or_else(|| Tensor::full(variable.shape().clone(), 0.0, variable.dtype()));
        (variable, gradient)
    }

    /// What will be held, before anything is computed.
    fn planned(&self) -> Result<calculus::Planned, Unanswered> {
        let Question { limit, order, source, .. } = self.question;
        let mut leaves = Leaves::new(self.sizes.clone(), Kind::Placeholders);
        let (variable, output) = self.traced(&mut leaves);
        if let Some(error) = output.error() {
            return Err(error.clone().into());
        }
        let planned = calculus::planned(&output, &variable, *order == 2, *limit)?;
        let held = planned.explanation.candidates.iter().find(|candidate| candidate.chosen).map_or(0, |c| c.held_bytes);
        if held > *limit {
            let message = format!("the derivative of this takes {} also when it is compressed", metric(held, "B"));
            let error = SyntaxError::new(source, self.expression.span(), message);
            let limit = metric(*limit, "B");
            return Err(error
                .help(format!("the limit is {limit}; raise it with --limit, or give smaller --sizes"))
                .into());
        }
        Ok(planned)
    }

    /// The ranks of what is differentiated and of what it is differentiated by.
    fn ranks(&self) -> (usize, usize) {
        (self.expression.shape().sizes.len(), self.variable.sizes.len())
    }

    /// The indices of the derivative. Those of a vector stand above, the first of a matrix above and the second below;
    /// those of what is differentiated by change sides.
    fn slots(&self) -> Vec<Index> {
        let (value, variable) = self.ranks();
        let mut slots: Vec<Index> = Vec::new();
        let mut add = |count: usize, turned: bool| {
            for axis in 0..count {
                slots.push(Index { letter: letter(slots.len()), upper: (axis == 0) != turned });
            }
        };
        if self.question.order == 1 {
            add(value, false);
            add(variable, true);
        } else {
            add(variable, true);
            add(variable, true);
        }
        slots
    }

    fn heading(&self) -> String {
        let slots = self.slots();
        let wrt = &self.question.wrt;
        let indexed = |name: &str, slots: &[Index]| match slots {
            [] => name.to_owned(),
            _ => format!("{name}_{}", slots.iter().map(|slot| slot.letter.as_str()).collect::<String>()),
        };
        let (value, variable) = self.ranks();
        match self.question.order {
            1 => format!("∂{}/∂{}", indexed("f", &slots[..value]), indexed(wrt, &slots[value..])),
            _ => format!("∂²f/∂{}∂{}", indexed(wrt, &slots[..variable]), indexed(wrt, &slots[variable..])),
        }
    }

    /// The derivative at small sizes, at the first kind of point where it is finite, written down.
    fn written(&self) -> Result<Written, Unanswered> {
        let mut last = None;
        for kind in KINDS {
            let mut leaves = Leaves::new(self.small.clone(), kind);
            let (variable, output) = self.traced(&mut leaves);
            let opened = calculus::opened(&output, &variable, self.question.order == 2, self.question.limit)?;
            let found = self.written_at(&opened, kind)?;
            if found.dense.iter().all(|element| element.is_finite()) {
                return Ok(found);
            }
            last = Some(found);
        }
        last.ok_or_else(|| Unanswered::Question("there is no derivative".to_owned()))
    }

    fn written_at(&self, opened: &Opened, kind: Kind) -> Result<Written, Unanswered> {
        let (names, symbols) = (self.small.names(), self.small.symbols());
        let mut reader = Reader::new(&names, &symbols);
        // All is read before anything is computed: what has a value lets go of what it was computed from.
        let parts = reader.parts(&opened.parts)?;
        let (value, variable) = self.ranks();
        let ranks = if self.question.order == 1 { [value, variable] } else { [variable, variable] };
        let shape: Vec<usize> = match opened.terms.first() {
            Some(first) => parts[*first].shape.clone(),
            None => self.zero_shape(),
        };
        let whole = Expression::sum(&shape, opened.terms.iter().map(|term| parts[*term].clone()));
        let slots = self.slots();
        let write = |notation: Notation| written(&whole, &slots, notation, &names);
        let (matrix, direction) = self.matrix(&whole, ranks, &names);
        let latex = match &matrix {
            Some(found) => found.latex(),
            None => write(Notation::Latex),
        };
        let made = tensors(&opened.parts);
        let mut steps = Vec::new();
        for step in &opened.steps {
            let sides = [&step.before, &step.after];
            let text = sides.map(|side| self.side(&parts, side, &names));
            let [before, after] = text;
            if before == after {
                continue;
            }
            let costs = sides.map(|side| self.flops(&opened.parts, side));
            let numbers = [summed(&made, &step.before)?, summed(&made, &step.after)?];
            steps.push(Step {
                rule: step.rule,
                before,
                after,
                flops_before: costs[0],
                flops_after: costs[1],
                deviation: deviation(&numbers[0], &numbers[1]),
            });
        }
        let dense = match opened.terms.is_empty() {
            true => vec![0.0; shape.iter().product()],
            false => summed(&made, &opened.terms)?,
        };
        Ok(Written {
            einstein: write(Notation::Einstein),
            ricci: write(Notation::Ricci),
            matrix: matrix.map(|found| found.text()),
            direction,
            latex,
            steps,
            dense,
            kind,
        })
    }

    fn zero_shape(&self) -> Vec<usize> {
        let own = |sizes: &Type| sizes.sizes.iter().map(|size| self.small.number(size)).collect::<Vec<usize>>();
        let first = if self.question.order == 1 { self.expression.shape() } else { &self.variable };
        [own(first), own(&self.variable)].concat()
    }

    /// One side of a step in Einstein notation.
    fn side(&self, parts: &[Expression], side: &[usize], names: &super::indexed::Names) -> String {
        let shape = parts[side[0]].shape.clone();
        let sum = Expression::sum(&shape, side.iter().map(|part| parts[*part].clone()));
        let slots: Vec<Index> = (0..shape.len()).map(|slot| Index { letter: letter(slot), upper: false }).collect();
        written(&sum, &slots, Notation::Einstein, names)
    }

    /// The FLOPs of one side of a step, at the sizes that were asked for.
    fn flops(&self, parts: &[Part], side: &[usize]) -> u128 {
        let names = self.small.names();
        let real = |einsum: &Einsum| {
            let extents = einsum.extents.iter().map(|extent| self.sizes.number(&names.size(*extent))).collect();
            flops(&Einsum { extents, ..einsum.clone() })
        };
        let own = |part: &usize| match &parts[*part] {
            Part::Product(einsum, _) => real(einsum),
            _ => 0,
        };
        side.iter().map(own).fold(0, u128::saturating_add)
    }

    /// The matrix notation, and the name of the direction if it is a map.
    fn matrix(
        &self,
        whole: &Expression,
        ranks: [usize; 2],
        names: &super::indexed::Names,
    ) -> (Option<recognise::Recognised>, Option<String>) {
        if ranks[0] + ranks[1] <= 2 {
            return (recognise::matrix(whole, names), None);
        }
        let name = self.direction_name();
        let shape = &whole.shape;
        let columns = &shape[ranks[0]..];
        let direction = Expression::factor(super::indexed::What::Symbol(name.clone()), columns);
        let all: Vec<usize> = (0..shape.len()).collect();
        let einsum = Einsum::new(vec![all.clone(), all[ranks[0]..].to_vec()], all[..ranks[0]].to_vec(), shape.clone());
        // Each term by itself, so that they are not one factor.
        let applied = whole.terms.iter().map(|term| {
            let own = Expression { shape: shape.clone(), terms: vec![term.clone()] };
            Expression::product(&einsum, &[own, direction.clone()], names)
        });
        let applied = Expression::sum(&shape[..ranks[0]], applied);
        match recognise::matrix(&applied, names) {
            Some(found) => (Some(found), Some(name)),
            None => (None, None),
        }
    }

    /// dX, or the first such name that is not taken.
    fn direction_name(&self) -> String {
        let mut name = format!("d{}", self.question.wrt);
        while self.question.declared.names().any(|known| known == name) {
            name.insert(0, 'd');
        }
        name
    }

    /// How far the structured derivative is from others, at the sizes that were asked for.
    fn agreement(&self) -> Result<Agreement, Unanswered> {
        let shape: Vec<usize> = self.variable.sizes.iter().map(|size| self.sizes.number(size)).collect();
        let limit = usize::try_from(self.question.limit).unwrap_or(usize::MAX);
        let mut best: Result<Agreement, Unanswered> =
            Err(Unanswered::Question("there is no point at which it is finite".to_owned()));
        for kind in KINDS {
            let point = Point::new(&self.expression, &self.sizes, &self.question.wrt, shape.clone(), kind);
            let found = point.agreement(self.question.order, limit).map_err(Unanswered::from);
            let better = match (&found, &best) {
                (Ok(found), Ok(best)) => found.finite_differences < best.finite_differences,
                (found, best) => found.is_ok() || best.is_err(),
            };
            if better {
                best = found;
            }
            // Near a singularity differences tell little, and another kind of point tells more.
            if matches!(&best, Ok(best) if best.finite_differences < CLOSE) {
                break;
            }
        }
        best
    }

    /// How far the matrix notation is from the derivative, when it is read back and evaluated at small sizes.
    fn matrix_deviation(&self, written: &Written) -> Result<Option<f64>, Unanswered> {
        let Some(matrix) = &written.matrix else { return Ok(None) };
        let mut declared = self.question.declared.clone();
        let mut leaves = Leaves::new(self.small.clone(), written.kind);
        let mut expected = written.dense.clone();
        if let Some(direction) = &written.direction {
            let sizes: Vec<String> = self.variable.sizes.iter().map(ToString::to_string).collect();
            declared.extend(&format!("{direction}: {}", sizes.join(" ")))?;
            let shape: Vec<usize> = self.variable.sizes.iter().map(|size| self.small.number(size)).collect();
            let along = check::numbers(&leaves.symbol(direction, &shape))?;
            let rows = expected.chunks(along.len());
            expected = rows.map(|row| row.iter().zip(&along).map(|(a, b)| a * b).sum()).collect();
        }
        let read = parse(matrix, &declared)?;
        let found = check::numbers(&leaves.lower(&read))?;
        Ok(Some(deviation(&found, &expected)))
    }
}
