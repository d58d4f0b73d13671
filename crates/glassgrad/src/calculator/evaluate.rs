//! The value of a matrix expression, for tensors in place of its symbols.

use super::points::{Kind, Leaves, Sizes};
use super::question::Unanswered;
use crate::dtype::DType;
use crate::expr::Tensor;
use crate::lang::matrix::{Declarations, Size, parse};

/// The value of an expression. Sizes are those of the tensors, which must be of 64-bit numbers.
///
/// ```
/// use glassgrad::Tensor;
/// use glassgrad::calculator::evaluate;
/// use glassgrad::lang::matrix::Declarations;
/// let declared = Declarations::read("A: m n, x: n").unwrap();
/// let (a, x) = (Tensor::from([[1.0, 2.0], [3.0, 4.0]]), Tensor::from([1.0, 1.0]));
/// let value = evaluate("A*x", &declared, &[("A", &a), ("x", &x)]).unwrap();
/// assert_eq!(value.to_string(), "[3, 7]");
/// ```
pub fn evaluate(source: &str, declared: &Declarations, values: &[(&str, &Tensor)]) -> Result<Tensor, Unanswered> {
    let expression = parse(source, declared)?;
    let refused = |message: String| Err(Unanswered::Question(message));
    let mut numbers: Vec<(String, usize)> = Vec::new();
    for (name, tensor) in values {
        let Some(shape) = declared.shape(name) else { return refused(format!("'{name}' is not declared")) };
        if shape.len() != tensor.rank() || tensor.dtype() != DType::F64 {
            return refused(format!("'{name}' has {} axes of 64-bit numbers, not {}", shape.len(), tensor.describe()));
        }
        for (size, extent) in shape.iter().zip(tensor.shape().iter()) {
            let known = match size {
                Size::Name(size) => numbers.iter().find(|(known, _)| known == size).map(|(_, number)| *number),
                Size::Number(number) => Some(*number),
                Size::Unknown(_) => None,
            };
            match (known, size) {
                (Some(known), _) if known != *extent => {
                    return refused(format!("the size {size} is {known}, and {extent} in '{name}'"));
                }
                (None, Size::Name(size)) => numbers.push((size.clone(), *extent)),
                _ => {}
            }
        }
    }
    if let Some(missing) = expression.symbols().iter().find(|symbol| !values.iter().any(|(name, _)| name == *symbol)) {
        return refused(format!("'{missing}' has no value"));
    }
    let unknown = expression.types.iter().flat_map(|own| &own.sizes).find(|size| {
        matches!(size, Size::Name(name) if !numbers.iter().any(|(known, _)| known == name) && declared.number(name).is_none())
    });
    if let Some(unknown) = unknown {
        return refused(format!("the size {unknown} has no number"));
    }
    for (name, number) in declared.sizes() {
        if !numbers.iter().any(|(known, _)| *known == name) {
            numbers.push((name, number));
        }
    }
    let mut leaves = Leaves::new(Sizes::new(&numbers), Kind::Normal);
    for (name, tensor) in values {
        leaves.replace(name, (*tensor).clone());
    }
    Ok(leaves.lower(&expression))
}
