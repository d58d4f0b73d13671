//! The three ways to differentiate, side by side.

use glassgrad::formula::mathml;
use serde_json::Value;

use super::explore::ExploreRequest;
use crate::answer::Refusal;
use crate::comparison::Comparison;

/// The longest symbolic derivative that is typeset; a longer one is given by its size.
const LONGEST_FORMULA: usize = 600;
/// The seed of the directions of the certificate.
const SEED: u64 = 0;

pub(crate) fn answer(asked: &ExploreRequest) -> Result<Value, Refusal> {
    let mut problem = asked.problem()?;
    let index = asked.index(&problem)?;
    problem.expression = problem.expression.result(index).unwrap_or(problem.expression);
    let mut compared = Comparison::of(&problem, SEED)?.as_json(&problem);
    for way in compared["derivatives"].as_array_mut().into_iter().flatten() {
        let typeset = match way["formula"].as_str() {
            Some(formula) if formula.len() <= LONGEST_FORMULA => mathml(formula),
            Some(formula) => format!("<math><mtext>a formula of {} characters</mtext></math>", formula.len()),
            None => continue,
        };
        way["math"] = typeset.into();
        way["name"] = mathml(way["variable"].as_str().unwrap_or_default()).into();
    }
    Ok(compared)
}
