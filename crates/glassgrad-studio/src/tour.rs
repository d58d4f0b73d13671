//! The guided tour: ten lessons from a derivative on paper to Newton's method, each with an exercise that the library checks.

use glassgrad::formula::{mathml, number};
use glassgrad::lang::{Expression, parse};
use glassgrad::rng::Key;
use glassgrad::scalar::gradient;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::answer::{Refusal, short_enough};
use crate::problem::{Problem, number_of};

/// A lesson: what it says, formulas that are typeset, where to try it, and an exercise.
struct Lesson {
    title: &'static str,
    text: &'static [&'static str],
    formulas: &'static [&'static str],
    /// A page of the studio in a state that shows it, and what to do there.
    link: (&'static str, &'static str),
    exercise: &'static str,
    expected: Expected,
    /// The explanation after the right answer.
    because: &'static str,
}

/// The right answer, which the library computes.
enum Expected {
    /// The value of an expression.
    Value(&'static str),
    /// The derivative of an expression in a variable, at a point, of an order.
    Derivative(&'static str, &'static str, &'static [(&'static str, f64)], usize),
    /// Any formula of the derivative of an expression in a variable.
    Formula(&'static str, &'static str),
}

use Expected::{Derivative, Formula, Value as Number};

/// A number is right if it deviates by less: answers may be rounded to three digits.
const ROUNDING: f64 = 5e-3;
/// A formula is right if it deviates by less, relatively, at each of some points.
const TOLERANCE: f64 = 1e-9;
const POINTS: usize = 6;

const SURVEY: &str = "ln(x1) + x1*x2 - sin(x2)";

const LESSONS: [Lesson; 10] = [
    Lesson {
        title: "A derivative by hand",
        text: &[
            "The derivative of a function at a point is the slope of its tangent there: how fast the value changes when the input changes a little.",
            "For a power the rule is short: multiply by the exponent, and lower the exponent by one.",
        ],
        formulas: &["f = x^2", "∂f / ∂x = 2*x"],
        link: ("#/explore?e=x%5E2&at=x:3", "Move the slider of x and watch the tangent: at x = 3 its slope is 6"),
        exercise: "What is the derivative of x³ at x = 2?",
        expected: Derivative("x^3", "x", &[("x", 2.0)], 1),
        because: "The derivative of x³ is 3x², and 3·2² = 12.",
    },
    Lesson {
        title: "The chain rule",
        text: &[
            "A function of a function changes by the product of both rates: the outer derivative at the inner value, times the inner derivative.",
            "Automatic differentiation is this rule and nothing else, applied to one operation after another.",
        ],
        formulas: &["f = sin(x^2)", "v = x^2", "∂f / ∂x = cos(v)*(2*x)"],
        link: (
            "#/explore?e=sin(x%5E2)&at=x:1&mode=forward",
            "Step through the sweep: each edge of the graph carries a local partial derivative",
        ),
        exercise: "Write the derivative of exp(3*x^2) as a formula in x.",
        expected: Formula("exp(3*x^2)", "x"),
        because: "The outer derivative is exp(3x²) again, the inner one 6x.",
    },
    Lesson {
        title: "Forward mode",
        text: &[
            "Forward mode carries a tangent with every value: its derivative with respect to one chosen input. It needs one sweep for each input.",
            "The chosen input has the tangent 1, the others 0; every operation computes its tangent from those of its operands.",
        ],
        formulas: &["v2 = x1*x2", "v̇2 = ẋ1*x2 + x1*ẋ2"],
        link: (
            "#/explore?e=ln(x1)%20%2B%20x1*x2%20-%20sin(x2)&at=x1:2,x2:5&mode=forward&wrt=x1",
            "Step through the forward sweep from x₁, and look at v₂",
        ),
        exercise: "In ln(x1) + x1*x2 − sin(x2) at x1 = 2, x2 = 5: what is the tangent of v2 = x1*x2 with respect to x1?",
        expected: Derivative("x1*x2", "x1", &[("x1", 2.0), ("x2", 5.0)], 1),
        because: "With respect to x1 the tangents of the inputs are 1 and 0, so it is 1·5 + 2·0 = 5.",
    },
    Lesson {
        title: "Reverse mode",
        text: &[
            "Reverse mode goes backwards from the result. The adjoint of a node is the derivative of the result with respect to it; the result itself has the adjoint 1.",
            "Every operation hands its adjoint, times its local partial derivatives, to its operands. Where a value is used twice, the contributions are added.",
        ],
        formulas: &["x̄2 = v̄2*x1 + v̄3*cos(x2)"],
        link: (
            "#/explore?e=ln(x1)%20%2B%20x1*x2%20-%20sin(x2)&at=x1:2,x2:5",
            "Step through the reverse sweep: x₂ receives two contributions",
        ),
        exercise: "What is the adjoint of x2 in ln(x1) + x1*x2 − sin(x2) at x1 = 2, x2 = 5, to three digits?",
        expected: Derivative(SURVEY, "x2", &[("x1", 2.0), ("x2", 5.0)], 1),
        because: "It is x1 − cos(x2) = 2 − cos(5).",
    },
    Lesson {
        title: "Why reverse",
        text: &[
            "A loss has one value and thousands or millions of weights. Forward mode needs a sweep for each of them.",
            "One reverse sweep gives the whole gradient, at the cost of a few evaluations, for any number of inputs. The price is memory: values are kept for the way back.",
        ],
        formulas: &[],
        link: (
            "#/explore?e=(a*b)*(b%20%2B%201)*(c%20-%20a)&at=a:2,b:3,c:5",
            "One reverse sweep fills in the derivatives with respect to a, b and c",
        ),
        exercise: "A loss depends on 1,000 weights. How many forward sweeps give its gradient?",
        expected: Number("1000"),
        because: "One for each weight, where a single reverse sweep is enough.",
    },
    Lesson {
        title: "Higher orders",
        text: &[
            "A derivative is a function again and can be differentiated again. The second derivative measures curvature.",
            "The Taylor polynomial has the same value and the same derivatives at a point; each order follows the function a little further.",
        ],
        formulas: &["f = f0 + f1*x + (f2 / 2)*x^2"],
        link: (
            "#/explore?e=cos(x)&at=x:0&order=4",
            "Raise the order, and watch the Taylor polynomial follow the cosine",
        ),
        exercise: "What is the second derivative of x⁴ at x = 1?",
        expected: Derivative("x^4", "x", &[("x", 1.0)], 2),
        because: "The first derivative is 4x³, the second 12x².",
    },
    Lesson {
        title: "A neuron",
        text: &[
            "A neuron multiplies its inputs by weights, adds a bias, and applies an activation function, here the hyperbolic tangent.",
            "Training needs the derivative with respect to the weight, not the input: it says how to change the weight.",
        ],
        formulas: &["y = tanh(w*x + b)"],
        link: (
            "#/explore?e=tanh(w*x%20%2B%20b)&at=w:0.5,x:2,b:-1&wrt=w",
            "Look at the adjoint of w, and at the plot along w",
        ),
        exercise: "Write the derivative of tanh(w*x + b) with respect to w as a formula.",
        expected: Formula("tanh(w*x + b)", "w"),
        because: "The derivative of tanh is 1 − tanh², and the inner derivative with respect to w is x.",
    },
    Lesson {
        title: "A network",
        text: &[
            "Layers of neurons, one after another, are a multilayer perceptron. A linear layer from m to n units has m·n weights and n biases.",
            "Training lowers the loss: a gradient by reverse mode, a small step against it, and so on. The decision boundary bends until the classes are apart.",
        ],
        formulas: &[],
        link: ("#/train?data=moons", "Start the training, and watch the boundary, the units and the weights"),
        exercise: "How many parameters has the network with layers of 2, 16, 16 and 2 units?",
        expected: Number("(2*16 + 16) + (16*16 + 16) + (16*2 + 2)"),
        because: "48 + 272 + 34 = 354, as the page says above the diagram.",
    },
    Lesson {
        title: "Vanishing gradients",
        text: &[
            "The adjoint of an early layer is a product of the derivatives of all later ones. The derivative of the sigmoid is at most 1/4, so that the product shrinks with every layer.",
            "Other activations, initializations and connections past layers keep gradients alive.",
        ],
        formulas: &["∂sigmoid(x) / ∂x = sigmoid(x)*(1 - sigmoid(x))"],
        link: (
            "#/train?data=moons&layers=8,8,8,8,8,8&activation=sigmoid",
            "Start, and compare the gradient norms of the first and the last layer",
        ),
        exercise: "At most how large is the product of the derivatives of ten sigmoids? (A formula is an answer too.)",
        expected: Number("(1/4)^10"),
        because: "(1/4)¹⁰ is less than a millionth.",
    },
    Lesson {
        title: "Newton's method",
        text: &[
            "Where the tangent crosses zero is a better guess for a root. Repeating this doubles the number of correct digits with every step.",
            "To minimise a function the same is done with its derivative, which needs second derivatives.",
        ],
        formulas: &["y = x - f / d"],
        link: ("#/explore?e=x%5E2%20-%202&at=x:1", "Look where the tangent at x = 1 crosses zero"),
        exercise: "Newton's method for x² − 2 = 0 begins at x = 1. Where is it after two steps, to three digits?",
        expected: Number("1.5 - (1.5^2 - 2) / (2*1.5)"),
        because: "The first step leads to 1.5, the second to 17/12, and √2 is 1.41421….",
    },
];

/// The lessons, for the page and for programs. Answers are not among them.
pub(crate) fn as_json() -> Value {
    let lesson = |lesson: &Lesson| {
        json!({
            "title": lesson.title, "text": lesson.text, "exercise": lesson.exercise,
            "formulas": lesson.formulas.iter().map(|line| mathml(line)).collect::<Vec<_>>(),
            "link": lesson.link.0, "task": lesson.link.1,
            "kind": if matches!(lesson.expected, Formula(..)) { "formula" } else { "number" },
        })
    };
    json!({ "lessons": LESSONS.iter().map(lesson).collect::<Vec<Value>>() })
}

/// An answer to an exercise.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Attempt {
    /// The number of the lesson, from 1 on.
    lesson: usize,
    answer: String,
}

/// Whether an answer is right, and why.
pub(crate) fn check(attempt: &Attempt) -> Result<Value, Refusal> {
    let lesson = attempt.lesson.checked_sub(1).and_then(|place| LESSONS.get(place));
    let lesson = lesson.ok_or_else(|| Refusal::new(format!("there are lessons 1 to {}", LESSONS.len())))?;
    let text = attempt.answer.trim();
    short_enough(text)?;
    if text.is_empty() {
        return Err(Refusal::new("write an answer first"));
    }
    let wrong = match &lesson.expected {
        Formula(expression, variable) => formula_error(text, expression, variable)?,
        expected => number_error(text, value_of(expected)?)?,
    };
    Ok(match wrong {
        None => json!({ "right": true, "message": lesson.because }),
        Some(message) => json!({ "right": false, "message": message }),
    })
}

/// The number that is right.
fn value_of(expected: &Expected) -> Result<f64, Refusal> {
    match expected {
        Number(expression) => number_of(expression).map_err(Refusal::new),
        Derivative(expression, variable, at, order) => {
            let expression = parse(expression)?;
            let place = place_of(&expression, variable);
            let point = expression.variables().iter().map(|name| value_at(at, name)).collect();
            Ok(Problem { expression, point }.derivatives(0, place, *order)[*order])
        }
        Formula(..) => unreachable!("a formula is compared at several points"),
    }
}

fn value_at(at: &[(&str, f64)], name: &str) -> f64 {
    let found = at.iter().find(|(own, _)| *own == name);
    found.map_or_else(|| unreachable!("the lesson gives no value of {name}"), |(_, value)| *value)
}

fn place_of(expression: &Expression, variable: &str) -> usize {
    let place = expression.variables().iter().position(|name| name == variable);
    place.unwrap_or_else(|| unreachable!("the lesson differentiates by {variable}, which its expression does not have"))
}

/// What is wrong with a number, if anything is.
fn number_error(text: &str, expected: f64) -> Result<Option<String>, Refusal> {
    let given = number_of(text).map_err(|reason| Refusal::new(format!("a number is expected: {reason}")))?;
    let error = (given - expected).abs();
    if error <= ROUNDING * expected.abs() {
        return Ok(None);
    }
    Ok(Some(match (given, expected) {
        (given, expected) if (given + expected).abs() <= ROUNDING * expected.abs() => {
            "The sign is wrong; the size is right.".to_owned()
        }
        (given, expected) if error <= 0.05 * expected.abs() => {
            format!("{} is close, but not close enough.", number(given))
        }
        (given, _) => format!("{} is not right; try it on the page that the link opens.", number(given)),
    }))
}

/// What is wrong with a formula of a derivative, if anything is: a point where both differ.
fn formula_error(text: &str, expression: &str, variable: &str) -> Result<Option<String>, Refusal> {
    let (given, expression) = (parse(text)?, parse(expression)?);
    let names = expression.variables();
    if let Some(other) = given.variables().iter().find(|name| !names.contains(name)) {
        return Ok(Some(format!("The formula has the variable {other}, and the function has {}.", names.join(", "))));
    }
    let place = place_of(&expression, variable);
    for number_of_point in 0..POINTS {
        let key = Key::new(17).fold(number_of_point as u64);
        let point: Vec<f64> = (0..names.len()).map(|k| (20.0 * key.uniform(k as u64)).round() / 10.0 - 1.0).collect();
        let exact = gradient(|x| expression.evaluate(x)[0], &point)[place];
        let inputs: Vec<f64> = given
            .variables()
            .iter()
            .map(|name| names.iter().position(|own| own == name).map_or(f64::NAN, |place| point[place]))
            .collect();
        let own = given.evaluate(&inputs)[0];
        if (own - exact).abs() <= TOLERANCE * exact.abs().max(1.0) {
            continue;
        }
        let at: Vec<String> =
            names.iter().zip(&point).map(|(name, value)| format!("{name} = {}", number(*value))).collect();
        let shown = |value: f64| number((value * 1e4).round() / 1e4);
        return Ok(Some(format!(
            "At {} the formula is {}, and the derivative is {}.",
            at.join(", "),
            shown(own),
            shown(exact)
        )));
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(lesson: usize, answer: &str) -> (bool, String) {
        let attempt = Attempt { lesson, answer: answer.to_owned() };
        let got = check(&attempt).unwrap_or_else(|refusal| refusal.as_json());
        let message = got["message"].as_str().or(got["error"]["message"].as_str());
        (got["right"] == true, message.expect("a message").to_owned())
    }

    #[test]
    fn right_answers_are_right_and_others_are_not() {
        let right =
            ["12", "6*x*exp(3*x^2)", "5", "1.716", "1000", "12", "x*(1 - tanh(w*x+b)^2)", "354", "1/4^10", "17/12"];
        for (place, answer) in right.iter().enumerate() {
            let (is_right, message) = checked(place + 1, answer);
            assert!(is_right, "lesson {}: {answer}: {message}", place + 1);
        }
        let wrong = ["6", "exp(3*x^2)", "2", "2.28", "1", "4", "1 - tanh(w*x+b)^2", "288", "0.25", "1.5"];
        for (place, answer) in wrong.iter().enumerate() {
            assert!(!checked(place + 1, answer).0, "lesson {}: {answer}", place + 1);
        }
        assert_eq!(checked(1, "-12").1, "The sign is wrong; the size is right.");
        assert!(checked(2, "x/cosh(w*x)^2").1.contains("the variable w"));
        assert!(checked(2, "exp(3*x^2)").1.contains("the derivative is"));
        // Another formula of the same function.
        assert!(checked(7, "x / cosh(b + w*x)^2").0);
        for (answer, message) in [("", "write an answer"), ("many", "a number is expected"), ("6*x*exp(", "")] {
            assert!(!checked(1, answer).0 && checked(1, answer).1.contains(message), "{answer}");
        }
        assert!(check(&Attempt { lesson: 11, answer: "1".to_owned() }).is_err());
        assert!(check(&Attempt { lesson: 0, answer: "1".to_owned() }).is_err());
    }

    #[test]
    fn lessons_are_typeset_and_hold_no_answers() {
        let lessons = as_json();
        assert_eq!(lessons["lessons"].as_array().map(Vec::len), Some(10));
        let text = lessons.to_string();
        assert!(!text.contains("expected") && !text.contains("17/12"), "{text}");
        for lesson in lessons["lessons"].as_array().expect("lessons") {
            assert!(lesson["link"].as_str().is_some_and(|link| link.starts_with("#/")), "{lesson}");
            for line in lesson["formulas"].as_array().expect("formulas") {
                assert!(line.as_str().is_some_and(|line| line.starts_with("<math>")), "{line}");
            }
        }
    }
}
