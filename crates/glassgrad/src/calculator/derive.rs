//! One question and its answer: the derivative in every notation, the steps that led to it, what is held, and how far it is
//! from other ways to compute it.

use super::check::{self, Agreement, KINDS, Point, deviation_beside, magnitudes, summed, tensors};
use super::indexed::{Expression, Names, What};
use super::points::{Kind, Leaves};
use super::problem::Problem;
use super::question::{Question, Unanswered};
use super::read::Reader;
use super::recognise;
use super::written::{Index, Notation, letter, written};
use crate::calculus::{self, Opened, Part, Structure};
use crate::einsum::Einsum;
use crate::lang::matrix::{Type, parse};
use crate::opt::contract::flops;

/// Differences that agree so well need no other point.
const CLOSE: f64 = 1e-8;

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
    /// The largest difference between both sides, relative to the largest sum of magnitudes that an element comes from.
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
    /// The symbols with their shapes, declared or inferred, and the given numbers of sizes.
    pub declared: String,
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
    /// What is held at these sizes: arrays in Einstein notation, with the numbers of their axes.
    pub held: Vec<(String, Vec<usize>)>,
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
    let question = question.inferred()?;
    let problem = Problem::understand(&question)?;
    let planned = problem.planned()?;
    let written = problem.written()?;
    let mut agreement = problem.agreement()?;
    agreement.matrix = problem.matrix_deviation(&written)?;
    let held_bytes = planned.explanation.candidates.iter().find(|candidate| candidate.chosen);
    Ok(Derived {
        declared: question.declarations().to_string(),
        shape: problem.expression.shape().clone(),
        heading: problem.heading(),
        einstein: written.einstein,
        ricci: written.ricci,
        matrix: written.matrix,
        direction: written.direction,
        latex: written.latex,
        steps: written.steps,
        sizes: problem.numbers.clone(),
        held: problem.held(&planned)?,
        structure: planned.structure,
        held_bytes: held_bytes.map_or(0, |candidate| candidate.held_bytes),
        dense_bytes: planned.explanation.dense_bytes,
        agreement,
    })
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
    /// The largest sum of magnitudes that an element of it comes from.
    scale: f64,
    kind: Kind,
}

impl Problem<'_> {
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
        let (values, sizes) = (tensors(&opened.parts), magnitudes(&opened.parts));
        let mut steps: Vec<Step> = Vec::new();
        for step in &opened.steps {
            let sides = [&step.before, &step.after];
            let text = sides.map(|side| self.side(&opened.parts, &parts, side, &names));
            let [before, after] = text;
            // Some steps are taken more than once, and some only order factors.
            let known = |known: &Step| known.before == before && known.after == after;
            if before == after || steps.iter().any(known) {
                continue;
            }
            let costs = sides.map(|side| self.flops(&opened.parts, side));
            let numbers = [summed(&values, &step.before)?, summed(&values, &step.after)?];
            let scale = [summed(&sizes, &step.before)?, summed(&sizes, &step.after)?].concat();
            let scale = scale.into_iter().filter(|size| size.is_finite()).fold(0.0, f64::max);
            steps.push(Step {
                rule: rule(step.rule, &opened.parts, &step.before),
                before,
                after,
                flops_before: costs[0],
                flops_after: costs[1],
                deviation: deviation_beside(&numbers[0], &numbers[1], scale),
            });
        }
        let dense = match opened.terms.is_empty() {
            true => vec![0.0; shape.iter().product()],
            false => summed(&values, &opened.terms)?,
        };
        let scale = match opened.terms.is_empty() {
            true => 0.0,
            false => summed(&sizes, &opened.terms)?.into_iter().filter(|size| size.is_finite()).fold(0.0, f64::max),
        };
        Ok(Written {
            einstein: write(Notation::Einstein),
            ricci: write(Notation::Ricci),
            matrix: matrix.map(|found| found.text()),
            direction,
            latex,
            steps,
            dense,
            scale,
            kind,
        })
    }

    pub(super) fn zero_shape(&self) -> Vec<usize> {
        let own = |sizes: &Type| sizes.sizes.iter().map(|size| self.small.number(size)).collect::<Vec<usize>>();
        let first = if self.question.order == 1 { self.expression.shape() } else { &self.variable };
        [own(first), own(&self.variable)].concat()
    }

    /// One side of a step in Einstein notation, with products as they were put down.
    fn side(&self, parts: &[Part], read: &[Expression], side: &[usize], names: &Names) -> String {
        let whole = |part: &usize| match &parts[*part] {
            Part::Product(einsum, operands) => {
                let operands: Vec<Expression> = operands.iter().map(|operand| read[*operand].clone()).collect();
                Expression::unmultiplied(einsum, &operands)
            }
            _ => read[*part].clone(),
        };
        let shape = read[side[0]].shape.clone();
        let sum = Expression::sum(&shape, side.iter().map(whole));
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

    /// The arrays that are held, at the sizes that were asked for.
    fn held(&self, planned: &calculus::Planned) -> Result<Vec<(String, Vec<usize>)>, Unanswered> {
        let (names, symbols) = (self.sizes.names(), self.sizes.symbols());
        let mut reader = Reader::new(&names, &symbols);
        let mut found = Vec::new();
        for factor in &planned.factors {
            let read = reader.tensor(factor)?;
            let slots: Vec<Index> =
                (0..factor.rank()).map(|slot| Index { letter: letter(slot), upper: false }).collect();
            found.push((written(&read, &slots, Notation::Einstein, &names), factor.shape().to_vec()));
        }
        Ok(found)
    }

    /// The matrix notation, and the name of the direction if it is a map.
    fn matrix(
        &self,
        whole: &Expression,
        ranks: [usize; 2],
        names: &Names,
    ) -> (Option<recognise::Recognised>, Option<String>) {
        if ranks[0] + ranks[1] <= 2 {
            return (recognise::matrix(whole, names), None);
        }
        let name = self.direction_name();
        let applied = applied(whole, ranks[0], &name, names);
        match recognise::matrix(&applied, names) {
            Some(found) => (Some(found), Some(name)),
            None => (None, None),
        }
    }

    /// dX, or the first such name that is not taken.
    pub(super) fn direction_name(&self) -> String {
        let mut name = format!("d{}", self.question.wrt);
        while self.question.declared.names().any(|known| known == name) || self.question.declared.is_size(&name) {
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
            // Near a singularity finite differences are inaccurate; another kind of point is tried.
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
        Ok(Some(deviation_beside(&found, &expected, written.scale)))
    }
}

/// What a step did: products that dissolve have deltas, ones, or neither.
fn rule(name: &'static str, parts: &[Part], before: &[usize]) -> &'static str {
    let [only] = before else { return name };
    let Part::Product(_, operands) = &parts[*only] else { return name };
    let inner = operands.iter().filter_map(|operand| match &parts[*operand] {
        Part::Product(einsum, _) => Some(einsum),
        _ => None,
    });
    let (mut deltas, mut ones) = (false, false);
    for einsum in inner {
        let repeats = |slot: usize| einsum.output[..slot].contains(&einsum.output[slot]);
        deltas |= (0..einsum.output.len()).any(repeats);
        ones |= einsum.output.iter().any(|label| !einsum.operands.iter().any(|own| own.contains(label)));
    }
    match (name, deltas, ones) {
        ("contract a Kronecker delta", false, true) => "drop a factor of ones",
        ("contract a Kronecker delta", false, false) => "flatten nested products",
        _ => name,
    }
}

/// A derivative whose first axes are rows, applied to a direction.
pub(super) fn applied(whole: &Expression, rows: usize, direction: &str, names: &Names) -> Expression {
    let shape = &whole.shape;
    let direction = Expression::factor(What::Symbol(direction.to_owned()), &shape[rows..]);
    let all: Vec<usize> = (0..shape.len()).collect();
    let einsum = Einsum::new(vec![all.clone(), all[rows..].to_vec()], all[..rows].to_vec(), shape.clone());
    // Each term by itself, so that they are not one factor.
    let terms = whole.terms.iter().map(|term| {
        let own = Expression { shape: shape.clone(), terms: vec![term.clone()] };
        Expression::product(&einsum, &[own, direction.clone()], names)
    });
    Expression::sum(&shape[..rows], terms)
}
