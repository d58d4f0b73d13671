//! Derivatives of matrix expressions: the calculator, with its answers typeset.

use glassgrad::calculator::{Question, Unanswered, derive};
use glassgrad::formula::mathml;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::answer::{Refusal, short_enough};
use crate::derivation;

/// The most memory that the calculator may use for a question, in bytes.
const LIMIT: u128 = 200_000_000;
/// The longest line that is typeset.
const LONGEST_LINE: usize = 2000;

/// A question to the calculator.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MatrixRequest {
    expression: String,
    /// Differentiate with respect to this symbol.
    wrt: String,
    #[serde(default = "first")]
    order: usize,
    /// Symbols with their sizes, and numbers for sizes.
    #[serde(default)]
    sizes: String,
}

fn first() -> usize {
    1
}

pub(crate) fn answer(asked: &MatrixRequest) -> Result<Value, Refusal> {
    for text in [&asked.expression, &asked.wrt, &asked.sizes] {
        short_enough(text)?;
    }
    let question = Question::new(&asked.expression, asked.wrt.trim()).order(asked.order).limit(LIMIT);
    let question = question.declare(&asked.sizes).map_err(|error| Refusal::new(format!("in the sizes: {error}")))?;
    let derived = derive(&question).map_err(|unanswered| match unanswered {
        Unanswered::Expression(error) => error.into(),
        other => Refusal::new(other.to_string()),
    })?;
    let typeset = |line: &str| if line.len() <= LONGEST_LINE { Some(mathml(line)) } else { None };
    let mut answer = derivation::as_json(&derived);
    let matrix = derived.matrix.as_ref().map(|matrix| match &derived.direction {
        Some(direction) => format!("{direction} -> {matrix}"),
        None => matrix.clone(),
    });
    answer["math"] = json!({
        "expression": typeset(&asked.expression),
        "einstein": typeset(&derived.einstein),
        "matrix": matrix.as_deref().and_then(typeset),
    });
    for (step, own) in answer["steps"].as_array_mut().into_iter().flatten().zip(&derived.steps) {
        step["math"] = json!({ "before": typeset(&own.before), "after": typeset(&own.after) });
    }
    answer["disagreement"] = derivation::disagreement(&derived).into();
    Ok(answer)
}
