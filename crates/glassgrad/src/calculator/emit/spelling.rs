//! The spelling of the rows of the table in each language.

use super::Language;
use crate::formula::number;
use crate::ops::{Operation, Relation};

/// A number that no language takes for an integer.
pub(super) fn literal(value: f64) -> String {
    let text = number(value);
    let text = if text.contains(['.', 'e', 'n', 'i']) { text } else { format!("{text}.0") };
    if value < 0.0 { format!("({text})") } else { text }
}

/// An operation of one argument, or why it has no spelling.
pub(super) fn unary(language: Language, operation: Operation, x: &str, parameter: f64) -> Option<String> {
    use Operation as O;
    let p = literal(parameter);
    // First what all languages write in terms of others.
    let call = |operation: Operation, x: &str| unary(language, operation, x, 0.0);
    let choice = |relation: Relation, threshold: &str, taken: &str, otherwise: &str| {
        choose(language, relation, &[x.to_owned(), threshold.to_owned(), taken.to_owned(), otherwise.to_owned()])
    };
    match operation {
        O::Neg => return Some(format!("(-{x})")),
        O::Recip => return Some(format!("(1.0 / {x})")),
        O::Square => return Some(format!("({x} * {x})")),
        O::Rsqrt => return Some(format!("(1.0 / {})", call(O::Sqrt, x)?)),
        O::Sigmoid => return Some(format!("(1.0 / (1.0 + {}))", call(O::Exp, &format!("(-{x})"))?)),
        O::Softplus => {
            let (positive, size) = (call(O::Relu, x)?, call(O::Abs, x)?);
            let small = call(O::Exp, &format!("(-{size})"))?;
            return Some(format!("({positive} + {})", call(O::Log1p, &small)?));
        }
        O::LogSigmoid => return Some(format!("(-{})", call(O::Softplus, &format!("(-{x})"))?)),
        O::Softsign => return Some(format!("({x} / (1.0 + {}))", call(O::Abs, x)?)),
        O::Silu => return Some(format!("({x} * {})", call(O::Sigmoid, x)?)),
        O::Mish => return Some(format!("({x} * {})", call(O::Tanh, &call(O::Softplus, x)?)?)),
        O::Relu => return Some(choice(Relation::Greater, "0.0", x, "0.0")),
        O::LeakyRelu => return Some(choice(Relation::Greater, "0.0", x, &format!("{p} * {x}"))),
        O::Elu => {
            let below = format!("{p} * {}", call(O::Expm1, x)?);
            return Some(choice(Relation::Greater, "0.0", x, &below));
        }
        O::Step => return Some(choice(Relation::GreaterOrEqual, &p, "1.0", "0.0")),
        O::Sign => {
            let below = choice(Relation::Less, "0.0", "(-1.0)", "0.0");
            return Some(choice(Relation::Greater, "0.0", "1.0", &below));
        }
        _ => {}
    }
    let same = operation.name();
    let x = &receiver(language, x);
    Some(match language {
        Language::Rust => match operation {
            O::Sqrt
            | O::Cbrt
            | O::Exp
            | O::Exp2
            | O::Ln
            | O::Log2
            | O::Log10
            | O::Sin
            | O::Cos
            | O::Tan
            | O::Asin
            | O::Acos
            | O::Atan
            | O::Sinh
            | O::Cosh
            | O::Tanh
            | O::Asinh
            | O::Acosh
            | O::Atanh
            | O::Abs
            | O::Floor
            | O::Ceil
            | O::Round => format!("{x}.{same}()"),
            O::Expm1 => format!("{x}.exp_m1()"),
            O::Log1p => format!("{x}.ln_1p()"),
            O::Powf => format!("{x}.powf({p})"),
            O::Powi => format!("{x}.powi({})", parameter as i32),
            _ => return None,
        },
        Language::C => match operation {
            O::Sqrt
            | O::Cbrt
            | O::Exp
            | O::Exp2
            | O::Expm1
            | O::Log2
            | O::Log10
            | O::Log1p
            | O::Sin
            | O::Cos
            | O::Tan
            | O::Asin
            | O::Acos
            | O::Atan
            | O::Sinh
            | O::Cosh
            | O::Tanh
            | O::Asinh
            | O::Acosh
            | O::Atanh
            | O::Erf
            | O::Erfc
            | O::Lgamma
            | O::Floor
            | O::Ceil
            | O::Round => format!("{same}({x})"),
            O::Abs => format!("fabs({x})"),
            O::Ln => format!("log({x})"),
            O::Powf | O::Powi => format!("pow({x}, {p})"),
            _ => return None,
        },
        Language::Numpy | Language::Jax => {
            let library = library(language);
            match operation {
                O::Sqrt
                | O::Cbrt
                | O::Exp
                | O::Exp2
                | O::Expm1
                | O::Log2
                | O::Log10
                | O::Log1p
                | O::Sin
                | O::Cos
                | O::Tan
                | O::Sinh
                | O::Cosh
                | O::Tanh
                | O::Abs
                | O::Floor
                | O::Ceil
                | O::Sinc => {
                    format!("{library}.{same}({x})")
                }
                O::Ln => format!("{library}.log({x})"),
                O::Asin | O::Acos | O::Atan | O::Asinh | O::Acosh | O::Atanh => {
                    format!("{library}.arc{}({x})", &same[1..])
                }
                O::Round => {
                    format!("({library}.sign({x}) * {library}.floor({library}.abs({x}) + 0.5))")
                }
                O::Powf | O::Powi => format!("{x} ** {p}"),
                O::Erf | O::Erfc | O::Digamma if language == Language::Jax => format!("jax.scipy.special.{same}({x})"),
                O::Lgamma if language == Language::Jax => format!("jax.scipy.special.gammaln({x})"),
                O::Polygamma if language == Language::Jax => format!("jax.scipy.special.polygamma({}, {x})", parameter),
                _ => return None,
            }
        }
    })
}

/// An expression that a method call or a comparison may follow: a cast of Rust stands in parentheses.
fn receiver(language: Language, text: &str) -> String {
    match language {
        Language::Rust if text.ends_with(" as f64") => format!("({text})"),
        Language::Rust | Language::C | Language::Numpy | Language::Jax => text.to_owned(),
    }
}

/// An operation of two arguments.
pub(super) fn binary(language: Language, operation: Operation, a: &str, b: &str) -> Option<String> {
    use Operation as O;
    let a = &receiver(language, a);
    Some(match (operation, language) {
        (O::Add, _) => format!("({a} + {b})"),
        (O::Sub, _) => format!("({a} - {b})"),
        (O::Mul, _) => format!("({a} * {b})"),
        (O::Div, _) => format!("({a} / {b})"),
        (O::Pow, Language::Rust) => format!("{a}.powf({b})"),
        (O::Pow, Language::C) => format!("pow({a}, {b})"),
        (O::Pow, _) => format!("{a} ** {b}"),
        (O::Max, Language::Rust) => format!("{a}.max({b})"),
        (O::Min, Language::Rust) => format!("{a}.min({b})"),
        (O::Max, Language::C) => format!("fmax({a}, {b})"),
        (O::Min, Language::C) => format!("fmin({a}, {b})"),
        (O::Max, _) => format!("{}.maximum({a}, {b})", library(language)),
        (O::Min, _) => format!("{}.minimum({a}, {b})", library(language)),
        (O::Atan2 | O::Hypot, Language::Rust) => format!("{a}.{operation}({b})"),
        (O::Atan2 | O::Hypot, Language::C) => format!("{operation}({a}, {b})"),
        (O::Atan2, _) => format!("{}.arctan2({a}, {b})", library(language)),
        (O::Hypot, _) => format!("{}.hypot({a}, {b})", library(language)),
        _ => return None,
    })
}

/// A choice by a comparison.
pub(super) fn choose(language: Language, relation: Relation, operands: &[String]) -> String {
    let (left, right, taken, otherwise) = (&operands[0], &operands[1], &operands[2], &operands[3]);
    let symbol = relation.symbol();
    match language {
        Language::Rust => {
            let (taken, otherwise, left) = (bare(taken), bare(otherwise), receiver(language, left));
            format!("(if {left} {symbol} {right} {{ {taken} }} else {{ {otherwise} }})")
        }
        Language::C => format!("({left} {symbol} {right} ? {taken} : {otherwise})"),
        Language::Numpy | Language::Jax => {
            format!("{}.where({left} {symbol} {right}, {taken}, {otherwise})", library(language))
        }
    }
}

/// The name of the array library of a language.
pub(super) fn library(language: Language) -> &'static str {
    if language == Language::Jax { "jnp" } else { "np" }
}

/// The same without parentheses around all of it.
pub(super) fn bare(text: &str) -> &str {
    let Some(inner) = text.strip_prefix('(').and_then(|text| text.strip_suffix(')')) else { return text };
    let mut depth = 0_i32;
    for character in inner.chars() {
        depth += i32::from(character == '(') - i32::from(character == ')');
        if depth < 0 {
            return text;
        }
    }
    inner
}
