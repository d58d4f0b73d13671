//! Derivatives of matrix expressions as JSON, and whether the ways to compute them agree.

use glassgrad::calculator::{Derived, Step};
use serde_json::{Value, json};

/// Above this, a derivative that disagrees with another way to compute it is a failure.
const TOLERANCE: f64 = 1e-5;

/// The check that disagrees with the derivative, if any.
pub fn disagreement(derived: &Derived) -> Option<String> {
    let agreement = derived.agreement;
    let worst_step = derived.steps.iter().map(|step| step.deviation).fold(0.0, f64::max);
    let found = [
        ("finite differences", Some(agreement.finite_differences)),
        ("nested modes", Some(agreement.nested)),
        ("the matrix notation", agreement.matrix),
        ("a step of the derivation", Some(worst_step)),
    ];
    let (what, deviation) =
        found.into_iter().find(|(_, deviation)| deviation.is_some_and(|own| own > TOLERANCE || own.is_nan()))?;
    let deviation = deviation.unwrap_or_default();
    if !deviation.is_finite() {
        return Some("at none of the random points that were tried the derivative is finite".to_owned());
    }
    Some(format!("the derivative and {what} deviate by {deviation:.0e}; the point may be near a kink or a singularity"))
}

/// The derivative with its notations, checks and steps.
pub fn as_json(derived: &Derived) -> Value {
    let steps: Vec<Value> = derived.steps.iter().map(step_json).collect();
    let sizes: serde_json::Map<String, Value> =
        derived.sizes.iter().map(|(name, number)| (name.clone(), Value::from(*number))).collect();
    let number = |bytes: u128| u64::try_from(bytes).map_or_else(|_| Value::from(bytes as f64), Value::from);
    json!({
        "declared": derived.declared,
        "shape": derived.shape.to_string(),
        "derivative": derived.heading,
        "einstein": derived.einstein,
        "ricci": derived.ricci,
        "matrix": derived.matrix,
        "direction": derived.direction,
        "latex": derived.latex,
        "sizes": sizes,
        "held": derived.held.iter().map(|(array, axes)| json!({ "array": array, "axes": axes })).collect::<Vec<_>>(),
        "structure": derived.structure.to_string(),
        "held_bytes": number(derived.held_bytes),
        "dense_bytes": number(derived.dense_bytes),
        "agreement": {
            "finite_differences": derived.agreement.finite_differences,
            "nested": derived.agreement.nested,
            "matrix": derived.agreement.matrix,
        },
        "steps": steps,
    })
}

fn step_json(step: &Step) -> Value {
    json!({
        "rule": step.rule,
        "before": step.before,
        "after": step.after,
        "flops_before": step.flops_before as f64,
        "flops_after": step.flops_after as f64,
        "deviation": step.deviation,
    })
}
