//! Symbols without declarations: their shapes as far as the expression determines them.
//!
//! A symbol that begins with a capital letter is a matrix, any other a vector, or a number where only that fits. Sizes are unified by the
//! uses of the symbols, and those that stay free are named m, n, k and so on.

use super::declare::{Declarations, Size};
use super::parser::{free_names, parts};
use super::types::symbol_sizes;
use crate::lang::{Span, SyntaxError};
use crate::sorting::IndirectSort;

/// Names of inferred sizes, in their order.
const NAMES: [&str; 10] = ["m", "n", "k", "l", "p", "q", "r", "s", "u", "v"];
/// The most symbols that may be numbers: every selection of them is tried.
const MOST: usize = 8;

/// The declarations, with a shape for every symbol of an expression if none is declared.
pub(crate) fn inferred(source: &str, declared: &Declarations) -> Result<Declarations, SyntaxError> {
    if declared.names().next().is_some() {
        return Ok(declared.clone());
    }
    let names = free_names(source, declared)?;
    let is_matrix = |name: &str| name.starts_with(char::is_uppercase);
    let small: Vec<&str> = names.iter().map(String::as_str).filter(|name| !is_matrix(name)).collect();
    let attempt = |numbers: &[&str]| {
        let rank = |name: &str| match (is_matrix(name), numbers.contains(&name)) {
            (true, _) => 2,
            (false, true) => 0,
            (false, false) => 1,
        };
        shaped(source, declared, &names.iter().map(|name| (name.clone(), rank(name))).collect::<Vec<_>>())
    };
    let first = match attempt(&[]) {
        Ok(found) => return Ok(found),
        Err(error) => error,
    };
    if small.len() > MOST {
        return Err(first);
    }
    let mut selections: Vec<u32> = (1..1_u32 << small.len()).collect();
    selections.indirect_sort_by_key(|selection| selection.count_ones());
    let mut found: Vec<(Vec<&str>, Declarations)> = Vec::new();
    for selection in selections {
        let numbers: Vec<&str> =
            small.iter().enumerate().filter(|(place, _)| selection >> place & 1 == 1).map(|(_, name)| *name).collect();
        // As few numbers as possible.
        if found.first().is_some_and(|(fewest, _)| fewest.len() < numbers.len()) {
            break;
        }
        if let Ok(declared) = attempt(&numbers) {
            found.push((numbers, declared));
        }
    }
    match &mut found[..] {
        [] => Err(first),
        [(_, declared)] => Ok(std::mem::take(declared)),
        several => {
            let choices: Vec<String> = several.iter().map(|(numbers, _)| numbers.join(" and ")).collect();
            let message =
                format!("the expression does not determine which symbol is a number: {}", choices.join(", or "));
            let whole = Span { start: 0, end: source.len() };
            let help = format!("declare them with --sizes: \"{}:\" is a number, \"{0}: n\" a vector", several[0].0[0]);
            Err(SyntaxError::new(source, whole, message).help(help))
        }
    }
}

/// The declarations with symbols of these ranks, and sizes that follow from their uses.
fn shaped(source: &str, declared: &Declarations, ranks: &[(String, usize)]) -> Result<Declarations, SyntaxError> {
    let mut open = declared.clone();
    let mut unknowns = 0;
    for (name, rank) in ranks {
        let sizes = (unknowns..unknowns + rank).map(Size::Unknown).collect();
        unknowns += rank;
        open.add(name, sizes);
    }
    let (syntax, spans) = parts(source, &open)?;
    let sizes = symbol_sizes(source, &syntax, &spans, &open, unknowns)?;
    let mut closed = declared.clone();
    let mut named: Vec<(usize, String)> = Vec::new();
    let is_taken = |name: &str| declared.number(name).is_some() || ranks.iter().any(|(own, _)| own == name);
    let mut free = NAMES.iter().filter(|name| !is_taken(name));
    for ((name, _), sizes) in ranks.iter().zip(sizes) {
        let mut shape = Vec::new();
        for size in sizes {
            shape.push(match size {
                Size::Unknown(number) => match named.iter().find(|(known, _)| *known == number) {
                    Some((_, name)) => Size::Name(name.clone()),
                    None => {
                        let Some(own) = free.next() else {
                            let whole = Span { start: 0, end: source.len() };
                            let error =
                                SyntaxError::new(source, whole, "the expression has more sizes than are inferred");
                            return Err(error.help("declare its symbols with --sizes"));
                        };
                        named.push((number, (*own).to_owned()));
                        Size::Name((*own).to_owned())
                    }
                },
                known => known,
            });
        }
        closed.add(name, shape);
    }
    Ok(closed)
}

#[cfg(test)]
mod tests {
    use super::inferred;
    use crate::lang::matrix::Declarations;

    fn of(source: &str) -> String {
        match inferred(source, &Declarations::default()) {
            Ok(declared) => declared.to_string(),
            Err(error) => error.to_string().lines().next().unwrap_or_default().to_owned(),
        }
    }

    #[test]
    fn sizes_follow_from_uses() {
        assert_eq!(of("norm2(A*x - b)^2"), "A: m n, x: n, b: m");
        assert_eq!(of("x'*A*x"), "x: m, A: m m");
        assert_eq!(of("logdet(X)"), "X: m m");
        assert_eq!(of("norm2(T - U*V')^2"), "T: m n, U: m k, V: n k");
        assert_eq!(of("sum(A^T*x)"), "A: m n, x: m");
        assert_eq!(of("softmax(A*x)"), "A: m n, x: n");
    }

    #[test]
    fn numbers_are_inferred_where_only_they_fit() {
        // A vector fits beside a number, so it is one.
        assert_eq!(of("x'*x + t"), "x: m, t: n");
        assert_eq!(of("t^2 + sum(x)"), "t:, x: m");
        assert_eq!(of("t*x"), "the expression does not determine which symbol is a number: t, or x");
        assert_eq!(of("A*x + inv(B)"), "A: m m, x:, B: m m");
        assert_eq!(of("inv(x)"), "inv needs a matrix, not a vector of ?");
    }

    #[test]
    fn declared_symbols_are_not_inferred() {
        let declared = Declarations::read("x: n").unwrap();
        assert_eq!(inferred("x'*y", &declared).unwrap().to_string(), "x: n");
        let sized = Declarations::read("n=3").unwrap();
        assert_eq!(inferred("sum(x)/n", &sized).unwrap().to_string(), "x: m, n=3");
    }
}
