//! The glass box of tensors: pictures that are right, planted faults that are found at the right line and explained,
//! and no alarm where all is well.

use glassgrad::array::{Array, Buffer};
use glassgrad::certify::{Suspicion, certify_tensors};
use glassgrad::dtype::DType;
use glassgrad::expr::{Axes, CustomOp, Rule};
use glassgrad::glass::{
    DerivativeOrder, Graph, NonFinite, Verdict, audit, explain_non_finite, independent, non_finite_in,
};
use glassgrad::rng::Key;
use glassgrad::shape::Shape;
use glassgrad::{Tensor, Tree, grad, hessian, jacobian, scan, vmap};

/// Expression (1) of the tensor calculus: Xᵀ((exp(X·w) + 1)⁻¹ ⊙ exp(X·w)).
fn expression_1(x: &Tensor, w: &Tensor) -> Tensor {
    let e = x.matmul(w).exp();
    x.transpose().matmul(&((&e + 1.0).recip() * &e))
}

fn data() -> (Tensor, Tensor) {
    let x = Tensor::from([[1.0, 0.5], [-0.3, 2.0], [0.7, -1.1]]).named("X");
    (x, Tensor::from([0.4, -0.2]).named("w"))
}

/// A text without the places in this file, which move when it is edited.
fn without_places(text: &str) -> String {
    let mut parts = text.split("glass.rs:");
    let mut cleaned = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        cleaned = cleaned.trim_end_matches("crates/glassgrad/tests/").to_owned();
        cleaned += "HERE";
        cleaned += part.trim_start_matches(|character: char| character.is_ascii_digit() || character == ':');
    }
    cleaned.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

mod pictures {
    use super::*;

    #[test]
    fn expression_1_has_the_nodes_of_its_figure() {
        let (x, w) = data();
        let graph = Graph::trace(|w: &Tensor| expression_1(&x, w), &w).with_values().unwrap();
        insta::assert_snapshot!(without_places(&graph.text()), @r#"
        X    input                    f64[3, 2]  -1.1 … 2, mean 0.466667               HERE
        w    input                    f64[2]     -0.2 … 0.4, mean 0.1                  HERE
        v1   einsum ij,j->i (X, w)    f64[3]     -0.52 … 0.5, mean 0.0933333           HERE
        v2   exp(v1)                  f64[3]     0.594521 … 1.64872, mean 1.1977       HERE
        v3   transpose(X)             f64[2, 3]  -1.1 … 2, mean 0.466667               HERE
        v4   v2 + 1                   f64[3]     1.59452 … 2.64872, mean 2.1977        HERE
        v5   recip(v4)                f64[3]     0.377541 … 0.627148, mean 0.476749    HERE
        v6   v5 * v2                  f64[3]     0.372852 … 0.622459, mean 0.523251    HERE
        v7   einsum ij,j->i (v3, v6)  f64[2]     0.34822 … 0.898308, mean 0.623264     HERE
        "#);
        insta::assert_snapshot!(without_places(&graph.dot()), @r#"
        digraph glassgrad {
          rankdir=LR;
          node [shape=box, style=rounded, fontname="sans-serif"];
          n0 [label="X\nf64[3, 2]\n-1.1 … 2, mean 0.466667\nHERE"];
          n1 [label="w\nf64[2]\n-0.2 … 0.4, mean 0.1\nHERE"];
          n2 [label="v1 = einsum ij,j->i (X, w)\nf64[3]\n-0.52 … 0.5, mean 0.0933333\nHERE"];
          n3 [label="v2 = exp(v1)\nf64[3]\n0.594521 … 1.64872, mean 1.1977\nHERE"];
          n4 [label="v3 = transpose(X)\nf64[2, 3]\n-1.1 … 2, mean 0.466667\nHERE"];
          n5 [label="v4 = v2 + 1\nf64[3]\n1.59452 … 2.64872, mean 2.1977\nHERE"];
          n6 [label="v5 = recip(v4)\nf64[3]\n0.377541 … 0.627148, mean 0.476749\nHERE"];
          n7 [label="v6 = v5 * v2\nf64[3]\n0.372852 … 0.622459, mean 0.523251\nHERE"];
          n8 [label="v7 = einsum ij,j->i (v3, v6)\nf64[2]\n0.34822 … 0.898308, mean 0.623264\nHERE"];
          n0 -> n2;
          n1 -> n2;
          n2 -> n3;
          n0 -> n4;
          n3 -> n5;
          n5 -> n6;
          n6 -> n7;
          n3 -> n7;
          n4 -> n8;
          n7 -> n8;
        }
        "#);
        let svg = graph.svg("expression (1)").unwrap();
        assert_eq!(svg.matches("<rect class=\"box").count(), 9);
        assert_eq!(svg.matches("marker-end").count(), 10);
        let json = graph.to_json();
        assert_eq!(json["outputs"][0], "v7");
        assert_eq!(json["nodes"][5]["expression"], "v2 + 1");
        assert_eq!(json["nodes"][5]["inputs"], serde_json::json!(["v2"]));
    }

    #[test]
    fn expression_1_is_differentiated_as_differences_say() {
        let (x, w) = data();
        let slope = jacobian(|w: &Tensor| expression_1(&x, w))(&w).to_vec::<f64>().unwrap();
        let step = 1e-6;
        for column in 0..2 {
            let value = |step: f64| {
                let moved = if column == 0 { [0.4 + step, -0.2] } else { [0.4, -0.2 + step] };
                expression_1(&x, &Tensor::from(moved)).to_vec::<f64>().unwrap()
            };
            for (row, (right, left)) in value(step).iter().zip(value(-step)).enumerate() {
                let difference = (right - left) / (2.0 * step);
                assert!((slope[2 * row + column] - difference).abs() < 1e-9, "{row} {column}");
            }
        }
        let gradient = grad(|w: &Tensor| expression_1(&x, w).sum())(&w);
        let on_graph = Graph::trace(|w: &Tensor| expression_1(&x, w).sum(), &w).with_gradients().unwrap().to_json();
        let numbers = gradient.to_vec::<f64>().unwrap();
        assert_eq!(on_graph["nodes"][1]["gradient"]["largest"], numbers[0].max(numbers[1]));
        assert_eq!(on_graph["nodes"][1]["gradient"]["smallest"], numbers[0].min(numbers[1]));
    }

    #[test]
    fn gradients_on_nodes_are_those_of_the_tape() {
        use glassgrad::scalar::Tape;
        let tape = Tape::new();
        let (a, b) = (tape.input(0.7), tape.input(-1.2));
        let adjoints = tape.reverse((a * b).sin() + b);
        let point = (Tensor::from(0.7), Tensor::from(-1.2));
        let graph = Graph::trace(|(a, b): &(Tensor, Tensor)| (a * b).sin() + b, &point).with_gradients().unwrap();
        let json = graph.to_json();
        let gradient = |k: usize| json["nodes"][k]["gradient"].as_f64().unwrap();
        for (k, input) in [a, b].into_iter().enumerate() {
            assert!((gradient(k) - adjoints.of(input)).abs() < 1e-15);
        }
        assert!((gradient(2) - (0.7_f64 * -1.2).cos()).abs() < 1e-15);
        assert_eq!((gradient(3), gradient(4)), (1.0, 1.0));
    }

    #[test]
    fn derivatives_carry_the_lines_of_what_is_differentiated() {
        let x = Tensor::from([0.5, 0.25]).named("x");
        let line = line!() + 1;
        let f = |x: &Tensor| x.sin().sum();
        for derivative in [grad(f)(&x), hessian(f)(&x), vmap(grad(|x: &Tensor| f(x)))(&x.reshape([2, 1]))] {
            let json = Graph::of(&[&derivative]).to_json();
            for node in json["nodes"].as_array().unwrap().iter().filter(|node| node["operation"] != "input") {
                assert!(node["file"].as_str().unwrap().ends_with("tests/glass.rs"), "{node}");
                assert!(node["line"].as_u64().unwrap() <= u64::from(line + 1), "{node}");
            }
        }
    }

    #[test]
    fn loops_are_pictures_inside() {
        let x = Tensor::from([0.1, 0.2, 0.3]).named("x");
        let run = |x: &Tensor| {
            let step = |sum: &Tensor, x: &Tensor| ((sum * x).sin() + 1.0, sum.exp());
            scan(step, &Tensor::from(0.0), x).1.sum()
        };
        let graph = Graph::trace(run, &x).with_gradients().unwrap();
        insta::assert_snapshot!(without_places(&graph.text()), @r#"
        x          input            f64[3]  0.1 … 0.3, mean 0.2       x̄ 0 … 3.24961, mean 1.0832  HERE
        v5         scan of 3 steps                                                                HERE
          carry1   input            f64[]   0                                                     HERE
          entry1   input            f64[]   0.1                                                   HERE
          v1       carry1 * entry1  f64[]   0                                                     HERE
          v2       sin(v1)          f64[]   0                                                     HERE
          v3       v2 + 1           f64[]   1                                                     HERE
          v4       exp(carry1)      f64[]   1                                                     HERE
        v6         every v4 of v5   f64[3]  1 … 3.3157, mean 2.34466  v̄6 all 1                    HERE
        v7         sum(v6)          f64[]   7.03398                   v̄7 1                        HERE
        "#);
        assert!(graph.dot().contains("subgraph cluster_n1 {"));
        assert_eq!(graph.to_json()["nodes"][1]["body"].as_array().unwrap().len(), 6);
        assert_eq!(graph.svg("a loop").unwrap().matches("<rect class=\"box").count(), 10);
        // The plan has the same boxes, and a loop has its body inside of itself.
        let plan = graph.plan().unwrap();
        let boxes = plan["nodes"].as_array().unwrap();
        let loops: Vec<&serde_json::Value> = boxes.iter().filter(|node| !node["inside"].is_null()).collect();
        assert_eq!((loops.len(), boxes.len() + loops[0]["inside"]["nodes"].as_array().unwrap().len()), (1, 10));
        let number = |of: &serde_json::Value, name: &str| of[name].as_f64().unwrap();
        let (outer, inner) = (loops[0], &loops[0]["inside"]);
        for (begin, length) in [("left", "width"), ("top", "height")] {
            assert!(number(inner, begin) >= number(outer, begin));
            let end = |of: &serde_json::Value| number(of, begin) + number(of, length);
            assert!(end(inner) <= end(outer) + 0.2, "{inner} in {outer}");
        }
    }

    #[derive(Tree)]
    struct Layer {
        weight: Tensor,
        bias: Tensor,
    }

    #[derive(Tree)]
    struct Model {
        layers: Vec<Layer>,
        scale: Tensor,
    }

    fn model() -> Model {
        let layer = |k: f64| Layer { weight: Tensor::from([[k, 0.2], [0.3, -k]]), bias: Tensor::from([k, 0.1]) };
        Model { layers: vec![layer(0.5), layer(0.25), layer(-0.4)], scale: Tensor::from(2.0) }
    }

    fn loss(model: &Model) -> Tensor {
        let mut x = Tensor::from([1.0, -1.0]).named("data");
        for layer in &model.layers {
            x = (x.matmul(&layer.weight) + &layer.bias).tanh();
        }
        (x.softmax(0) * &model.scale).square().sum().named("loss")
    }

    #[test]
    fn structures_collapse_to_their_names_and_lines_to_one() {
        let graph = Graph::trace(loss, &model());
        let labels = graph.labels();
        assert!(labels.contains(&"layers.1.weight".to_owned()) && labels.contains(&"scale".to_owned()));
        let one = graph.clone().collapse("layers.1").labels();
        assert!(one.contains(&"layers.1".to_owned()) && one.contains(&"layers.0.weight".to_owned()));
        let depths = [1, 2].map(|depth| graph.clone().collapse_to_depth(depth).labels());
        assert!(depths[0].contains(&"layers".to_owned()));
        for k in 0..3 {
            assert!(depths[1].contains(&format!("layers.{k}")), "{:?}", depths[1]);
        }
        // The three runs of the layers' line follow directly upon one another, so they are one; the softmax is one.
        let lines = graph.clone().collapse_lines();
        assert!(lines.labels().len() < labels.len() / 2, "{}", lines.text());
        for collapsed in [graph.clone().collapse_to_depth(2), lines] {
            assert!(collapsed.svg("collapsed").is_ok());
            // No group is behind itself: every input stands before what uses it.
            let json = collapsed.to_json();
            let nodes = json["nodes"].as_array().unwrap();
            for (k, node) in nodes.iter().enumerate() {
                for input in node["inputs"].as_array().unwrap() {
                    assert!(nodes[..k].iter().any(|earlier| earlier["name"] == *input), "{collapsed:?}");
                }
            }
        }
    }

    #[test]
    fn a_graph_says_what_it_cannot_show() {
        let x = Tensor::from([1.0, 2.0]);
        let error = Graph::of(&[&x.sum()]).with_gradients().unwrap_err();
        assert!(error.to_string().contains("Graph::trace"), "{error}");
        let error = Graph::trace(|x: &Tensor| x.sin(), &x).with_gradients().unwrap_err();
        assert!(error.to_string().contains("one floating-point number"), "{error}");
        let long = Graph::trace(|x: &Tensor| (0..1001).fold(x.sum(), |y, _| y.sin()), &x);
        assert_eq!(long.svg("long").unwrap_err().nodes, 1003);
    }
}

mod faults {
    use super::*;

    /// The line where what is not finite began, and the whole story.
    fn explained(found: Result<Option<NonFinite>, glassgrad::error::Error>) -> (u32, DerivativeOrder, String) {
        let found = found.unwrap().expect("something is not finite");
        let first = &found.provenance.path[0];
        assert!(first.origin.file().ends_with("tests/glass.rs"), "{found}");
        assert!(!first.value.is_finite());
        (first.origin.line(), found.order, without_places(&found.to_string()))
    }

    #[test]
    fn nothing_divided_by_nothing() {
        let x = Tensor::from([1.0, 0.0, 3.0]).named("x");
        let line = line!() + 2;
        let f = |x: &Tensor| {
            let quotient = x.sin() / x;
            (quotient * 2.0).sum()
        };
        let (found, order, story) = explained(explain_non_finite(f, &x));
        assert_eq!((found, order), (line, DerivativeOrder::Value));
        insta::assert_snapshot!(story, @r#"
        the value is not finite
          began at v2 = v1 / x at HERE
            with NaN at [1], where v1 is 0 and x is 0
          went on to v3 = v2 * 2 at HERE
          went on to v4 = sum(v3) at HERE
          repair: say what 0 / 0 is: let none = x.equal(0.0), then none.choose(0, v1 / none.choose(1, x)), at HERE; tried: all is finite then, and what was finite stays as it was
        "#);
    }

    #[test]
    fn the_logarithm_of_a_negative_number() {
        let x = Tensor::from([[1.0, 2.0], [-3.0, 4.0]]).named("x");
        let line = line!() + 1;
        let f = |x: &Tensor| x.ln().sum_over(0).square().sum();
        let (found, order, story) = explained(explain_non_finite(f, &x));
        assert_eq!((found, order), (line, DerivativeOrder::Value));
        insta::assert_snapshot!(story, @r#"
        the value is not finite
          began at v1 = ln(x) at HERE
            with NaN at [1, 0], where x is -3
          went on to v2 = sum(v1) over 0 at HERE
          went on to v3 = square(v2) at HERE
          went on to v4 = sum(v3) at HERE
        "#);
        let error = f(&x).eval_checked().unwrap_err();
        assert_eq!(error.origin().unwrap().line(), line);
        insta::assert_snapshot!(without_places(&error.to_string()), @r#"
        ln: it produced NaN at [1, 0], where x is -3
          operands: x
          at HERE
          help: it went on through v2 (HERE), v3 (HERE), v4 (HERE)
        "#);
    }

    #[test]
    fn a_naive_softmax_overflows() {
        let logits = Tensor::from([[1000.0_f32, 0.0], [1.0, 2.0]]).named("logits");
        let line = line!() + 2;
        let f = |x: &Tensor| {
            let e = x.exp();
            let p = &e / e.sum_over(Axes::from(1).keep());
            p.square().sum()
        };
        let (found, order, story) = explained(explain_non_finite(f, &logits));
        assert_eq!((found, order), (line, DerivativeOrder::Value));
        insta::assert_snapshot!(story, @r#"
        the value is not finite
          began at v1 = exp(logits) at HERE
            with inf at [0, 0], where logits is 1000
          went on to v4 = v1 / v3 at HERE
          went on to v5 = square(v4) at HERE
          went on to v6 = sum(v5) at HERE
          repair: use logits.softmax(1), which takes the largest element out first, at HERE; tried: all is finite then, and what was finite stays as it was
        "#);
        for (f, advice) in [
            (Box::new(|x: &Tensor| x.exp().sum().ln()) as Box<dyn Fn(&Tensor) -> Tensor>, "logsumexp"),
            (Box::new(|x: &Tensor| (x.exp() + 1.0).ln().sum()), "softplus"),
            (Box::new(|x: &Tensor| x.exp().log1p().sum()), "softplus"),
        ] {
            let repair = explain_non_finite(f, &logits).unwrap().unwrap().repair.unwrap();
            assert!(repair.advice.contains(advice), "{repair}");
        }
    }

    #[test]
    fn a_root_at_zero_in_a_second_derivative() {
        // √x³ has a gradient of 0 at 0; a root of 0 is in its second derivative.
        let x = Tensor::from([4.0, 0.0]).named("x");
        let line = line!() + 1;
        let f = |x: &Tensor| x.powf(1.5).sum();
        assert_eq!(non_finite_in(DerivativeOrder::Gradient, f, &x).unwrap(), None);
        let (found, order, story) = explained(explain_non_finite(f, &x));
        assert_eq!((found, order), (line, DerivativeOrder::SecondDerivative));
        insta::assert_snapshot!(story, @r#"
        the second derivative with respect to x is not finite
          began at v4 = 1.5 * (0.5 * x^(-0.5)), in the derivative of v1 = x^1.5 at HERE
            with inf at [1], where x is 0
          went on to v5 = v3 * v4, in the derivative of v1 = x^1.5 at HERE
          repair: add a small number to the argument of powf: x + 1e-12, at HERE; tried: all is finite then, and what was finite stays as it was
        "#);
        let line = line!() + 1;
        let length = |x: &Tensor| x.square().sum().sqrt();
        let origin = Tensor::from([0.0, 0.0]).named("x");
        for order in [DerivativeOrder::Gradient, DerivativeOrder::SecondDerivative] {
            let (found, _, story) = explained(non_finite_in(order, length, &origin));
            assert_eq!(found, line);
            assert!(story.contains("repair: use norm or norm_over"), "{story}");
        }
    }

    #[test]
    fn an_element_that_is_masked_by_zero() {
        let x = Tensor::from([1.0, 0.0, 3.0]).named("x");
        let line = line!() + 2;
        let f = |x: &Tensor| {
            let logarithm = x.ln();
            (x.gt(0.0).cast(DType::F64) * logarithm).sum()
        };
        let (found, _, story) = explained(explain_non_finite(f, &x));
        assert_eq!(found, line);
        assert!(story.contains("x.gt(0.0).choose(x, 0.5) in place of x"), "{story}");
        // A value that is not used must also not be used in a derivative: x·ln x goes to 0, but its slope does not.
        let entropy = |x: &Tensor| (x * x.ln()).sum();
        let repair = explain_non_finite(entropy, &x).unwrap().unwrap().repair;
        assert!(!repair.as_ref().is_some_and(|repair| repair.advice.contains("choose")), "{repair:?}");
    }

    #[test]
    fn an_infinity_inside_of_a_loop() {
        let x = Tensor::from([1.0, 0.0, 3.0]).named("x");
        let line = line!() + 2;
        let body = |sum: &Tensor, x: &Tensor| {
            let inverse = x.recip();
            (sum + inverse, sum.sin())
        };
        let run = |x: &Tensor| scan(body, &Tensor::from(0.0), x).1.sum();
        let found = explain_non_finite(run, &x).unwrap().unwrap();
        assert_eq!((found.provenance.path[0].origin.line(), &found.provenance.path[0].steps[..]), (line, &[1][..]));
        let line = line!() + 1;
        let body = |sum: &Tensor, x: &Tensor| (sum + x.sqrt(), sum.sin());
        let run = |x: &Tensor| scan(body, &Tensor::from(0.0), x).1.sum();
        let found = explain_non_finite(run, &x).unwrap().unwrap();
        assert_eq!((found.order, found.provenance.path[0].origin.line()), (DerivativeOrder::Gradient, line));
        assert_eq!(found.provenance.path[0].derivative_of.as_deref(), Some("v1 = sqrt(entry1)"));
    }

    #[test]
    fn an_input_that_is_not_finite_and_an_einsum_that_carries_it() {
        let a = Tensor::from([[1.0, 2.0], [f64::NAN, 4.0]]).named("a");
        let found = a.matmul(&Tensor::from([1.0, 1.0])).exp().sum().provenance().unwrap().unwrap();
        assert_eq!((found.path[0].label.as_str(), &found.path[0].index[..]), ("a", &[1, 0][..]));
        let operations: Vec<&str> = found.path.iter().map(|carrier| carrier.operation.as_str()).collect();
        assert_eq!(operations, ["input", "einsum ij,j->i", "exp", "sum"]);
    }

    #[test]
    fn a_derivative_inside_of_the_function() {
        let x = Tensor::from([1.0, 0.0]).named("x");
        let line = line!() + 1;
        let slope = |x: &Tensor| grad(|x: &Tensor| x.sqrt().sum())(x).sum();
        let found = explain_non_finite(slope, &x).unwrap().unwrap();
        assert_eq!((found.order, found.provenance.path[0].origin.line()), (DerivativeOrder::Value, line));
        assert_eq!(found.repair, None);
    }

    #[test]
    fn a_batched_function() {
        let rows = Tensor::from([[1.0, 4.0], [0.0, 9.0]]).named("rows");
        let line = line!() + 1;
        let per_row = |rows: &Tensor| vmap(|row: &Tensor| row.ln().sum())(rows).sum();
        let found = explain_non_finite(per_row, &rows).unwrap().unwrap();
        let first = &found.provenance.path[0];
        assert_eq!((first.operation.as_str(), first.origin.line(), &first.index[..]), ("ln", line, &[1, 0][..]));
        assert!(found.repair.is_some_and(|repair| repair.advice.contains("maximum(1e-12)")));
    }

    #[test]
    fn what_cannot_be_evaluated_is_an_error_and_no_panic() {
        let x = Tensor::from([1.0, 2.0]);
        let fails = |x: &Tensor| x.reshape([3]).sum();
        assert!(explain_non_finite(fails, &x).unwrap_err().to_string().starts_with("reshape"));
        assert!(audit(fails, &x).unwrap_err().to_string().starts_with("reshape"));
        assert!(certify_tensors(fails, &x, Key::new(1)).unwrap_err().to_string().starts_with("reshape"));
        assert!(Graph::trace(fails, &x).with_values().unwrap_err().to_string().starts_with("reshape"));
        assert!(Graph::trace(fails, &x).text().contains("input"));
        assert!(fails(&x).eval_checked().is_err() && fails(&x).provenance().is_err());
        assert!(audit(|x: &Tensor| x.sin(), &x).unwrap_err().to_string().contains("one floating-point number"));
        let empty = Tensor::new::<f64>(&[], [0, 3]);
        assert_eq!(explain_non_finite(|x: &Tensor| x.ln().sum(), &empty).unwrap(), None);
        assert!(Graph::of(&[&empty.ln()]).with_values().unwrap().text().contains("empty"));
    }

    /// A cube whose derivative is stated too large by one percent, or whose second derivative is cut.
    #[derive(Debug)]
    struct Cube {
        factor: f64,
        frozen: bool,
    }

    impl CustomOp for Cube {
        fn name(&self) -> &str {
            "cube"
        }
        fn output(&self, inputs: &[&Tensor]) -> Result<(Shape, DType), String> {
            Ok((inputs[0].shape().clone(), inputs[0].dtype()))
        }
        fn value(&self, inputs: &[Array]) -> Result<Array, String> {
            let x = inputs[0].buffer();
            Ok(Array::new(inputs[0].shape().clone(), Buffer::from_fn(inputs[0].dtype(), x.len(), |k| x.get(k).powi(3))))
        }
        fn rule<'r>(&self, inputs: &'r [Tensor], _: &'r Tensor) -> Rule<'r> {
            let factor = 3.0 * self.factor;
            let x = if self.frozen { inputs[0].stop_gradient() } else { inputs[0].clone() };
            Rule::Pullback(Box::new(move |g| vec![Some(g * x.square() * factor)]))
        }
    }

    #[test]
    fn a_wrong_rule_of_the_users_own() {
        let x = Tensor::from([0.5, -1.5, 0.8]);
        let certified = |cube: fn() -> Cube| {
            let line = line!() + 1;
            let f = |x: &Tensor| (Tensor::custom(cube(), &[&x.tanh()]) * x.exp()).sum();
            (line, certify_tensors(f, &x, Key::new(7)).unwrap())
        };
        let (_, right) = certified(|| Cube { factor: 1.0, frozen: false });
        assert!(right.holds(), "{right:?}");
        let (line, wrong) = certified(|| Cube { factor: 1.01, frozen: false });
        assert!(!wrong.holds() && wrong.first_order_slope.is_some_and(|slope| slope < 1.5));
        let [blame] = &wrong.blame[..] else { panic!("{:?}", wrong.blame) };
        assert_eq!((blame.operation.as_str(), blame.origin.line(), blame.operand), ("cube", line, 0));
        assert_eq!(blame.suspicion, Suspicion::Derivative);
        assert!((blame.stored / blame.expected - 1.01).abs() < 1e-6, "{blame}");
        let (line, frozen) = certified(|| Cube { factor: 1.0, frozen: true });
        assert!(!frozen.holds());
        let [blame] = &frozen.blame[..] else { panic!("{:?}", frozen.blame) };
        assert_eq!((blame.origin.line(), blame.suspicion), (line, Suspicion::SecondDerivative));
        assert!(blame.to_string().starts_with("v2 = cube(v1) at "), "{blame}");
    }

    #[test]
    fn a_wrong_rule_inside_of_a_loop() {
        let line = line!() + 1;
        let body = |sum: &Tensor, x: &Tensor| (sum + Tensor::custom(Cube { factor: 1.1, frozen: false }, &[x]), ());
        let run = |x: &Tensor| scan(body, &Tensor::from(0.0), x).0.sin();
        let certificate = certify_tensors(run, &Tensor::from([0.5, 0.7, -0.3]), Key::new(3)).unwrap();
        assert!(!certificate.holds());
        assert_eq!(certificate.blame[0].origin.line(), line);
    }

    #[derive(Tree)]
    struct Parameters {
        first: Tensor,
        dead: Tensor,
        stopped: Tensor,
        placed: Tensor,
        counted: Tensor,
        flat: Tensor,
        unused: Tensor,
        number: Tensor,
    }

    #[test]
    fn parameters_that_no_derivative_reaches() {
        let vector = |k: f64| Tensor::from([k, 2.0 * k]);
        let parameters = Parameters {
            first: vector(1.0),
            dead: vector(-5.0),
            stopped: vector(1.0),
            placed: vector(1.0),
            counted: vector(1.5),
            flat: vector(1.0),
            unused: vector(1.0),
            number: Tensor::from([1_i64]),
        };
        let start = line!();
        let loss = |p: &Parameters| {
            let dead = p.dead.relu(); // + 2
            let stopped = p.stopped.stop_gradient(); // + 3
            let placed = p.placed.argmax(0).one_hot(2, DType::F64); // + 4
            let counted = p.counted.cast(DType::I64).cast(DType::F64); // + 5
            let flat = p.flat.sign(); // + 6
            (&p.first * (stopped + placed + counted + flat) + dead).sum()
        };
        let report = audit(loss, &parameters).unwrap();
        let verdict = |name: &str| &report.of(name).unwrap().verdict;
        assert_eq!((verdict("first"), verdict("unused")), (&Verdict::Reached, &Verdict::Unused));
        assert_eq!(verdict("number"), &Verdict::NotDifferentiable);
        for (name, word, operation, line) in [
            ("dead", "numerically zero", "relu", 2),
            ("stopped", "cut", "stop_gradient", 3),
            ("placed", "cut", "argmax", 4),
            ("counted", "cut", "cast", 5),
            ("flat", "structurally zero", "sign", 6),
        ] {
            let [cut] = verdict(name).cuts() else { panic!("{name}: {:?}", verdict(name)) };
            assert_eq!((verdict(name).word(), cut.operation.as_str()), (word, operation));
            assert_eq!(cut.origin.line(), start + line, "{name}");
        }
        assert_eq!(verdict("dead").cuts()[0].zeros, Some((2, 2)));
        insta::assert_snapshot!(without_places(&report.to_string()), @r#"
        first     f64[2]  reached             gradient 3 … 7, mean 5
        dead      f64[2]  numerically zero    made zero by relu(dead) at HERE, whose derivative is 0 in 2 of 2 elements
        stopped   f64[2]  cut                 cut by stop_gradient(stopped) at HERE
        placed    f64[2]  cut                 cut by argmax(placed) at HERE
        counted   f64[2]  cut                 cut by cast(counted) at HERE
        flat      f64[2]  structurally zero   flat everywhere: sign(flat) at HERE
        unused    f64[2]  unused              the loss does not use it, or only detached
        number    i64[1]  not differentiable  integers and truth values have no derivative
        "#);
        assert_eq!(report.to_json()["parameters"][1]["by"][0]["line"], start + 2);
    }

    #[test]
    fn a_layer_of_dead_units_behind_others() {
        let parameters = (Tensor::from([[1.0, 2.0], [3.0, 4.0]]), Tensor::from([-9.0, -9.0]));
        let line = line!() + 2;
        let loss = |(weight, bias): &(Tensor, Tensor)| {
            let hidden = (Tensor::from([1.0, 1.0]).matmul(weight) + bias).relu();
            (hidden * 3.0 + 1.0).square().sum()
        };
        let report = audit(loss, &parameters).unwrap();
        for finding in &report.findings {
            let [cut] = finding.verdict.cuts() else { panic!("{finding:?}") };
            assert_eq!((cut.origin.line(), cut.zeros), (line, Some((2, 2))));
        }
    }

    #[test]
    fn what_is_cut_inside_of_a_loop_and_what_is_dead_before_it() {
        let parameters = (Tensor::from(0.5), Tensor::from(-2.0));
        let start = line!();
        let loss = |(a, b): &(Tensor, Tensor)| {
            let dead = b.relu(); // + 2
            let body = |sum: &Tensor, x: &Tensor| {
                let stopped = a.stop_gradient(); // + 4
                (sum + stopped * x + &dead, ())
            };
            scan(body, &Tensor::from(0.0), &Tensor::from([1.0, 2.0])).0
        };
        let report = audit(loss, &parameters).unwrap();
        for (finding, (word, operation, line)) in
            report.findings.iter().zip([("cut", "stop_gradient", 4), ("numerically zero", "relu", 2)])
        {
            let [cut] = finding.verdict.cuts() else { panic!("{report}") };
            assert_eq!((finding.verdict.word(), cut.operation.as_str()), (word, operation), "{report}");
            assert_eq!(cut.origin.line(), start + line);
        }
    }

    #[test]
    fn outputs_that_do_not_depend_on_inputs() {
        let point = (Tensor::from(1.0), vec![Tensor::from(2.0), Tensor::from(3.0)]);
        let f = |(a, b): &(Tensor, Vec<Tensor>)| vec![a * &b[0], b[1].sign() + a];
        let causes: Vec<String> = independent(f, &point).iter().map(ToString::to_string).collect();
        assert_eq!(
            causes,
            [
                "output 0 does not depend on input 1.1",
                "output 1 does not depend on input 1.0",
                "output 1 does not depend on input 1.1"
            ]
        );
    }
}

/// Where all is well, nobody raises an alarm.
mod health {
    use super::*;

    type Function = fn(&Tensor) -> Tensor;

    /// Every composed operation, and rows of every kind, as functions of a 2×3 matrix of positive numbers.
    const HEALTHY: &[(&str, Function)] = &[
        ("sum", |x| x.square().sum_over(0)),
        ("mean", |x| x.exp().mean_over(1)),
        ("var", |x| x.var_over(0)),
        ("std", |x| x.std()),
        ("max", |x| x.max_over(1)),
        ("min", |x| x.min()),
        ("norm", |x| x.norm_over(0)),
        ("logsumexp", |x| x.logsumexp_over(1)),
        ("softmax", |x| x.softmax(1)),
        ("log_softmax", |x| x.log_softmax(0)),
        ("softmax of large numbers", |x| (x * 1e4).softmax(1) + x),
        ("softmax with a mask", |x| (x + Tensor::from([0.0, f64::NEG_INFINITY, 0.0])).softmax(1)),
        ("einsum", |x| Tensor::einsum("ij,kj->ik", [x, x])),
        ("matmul", |x| x.matmul(&x.transpose())),
        ("inner", |x| x.inner(&x.sin())),
        ("outer", |x| x.sum_over(0).outer(&x.sum_over(1))),
        ("kron", |x| x.kron(x)),
        ("trace", |x| x.matmul(&x.transpose()).trace()),
        ("diag", |x| x.sum_over(0).diag()),
        ("permute", |x| x.permute([1, 0]).tanh()),
        ("stack", |x| Tensor::stack([x, &x.cos()], 1)),
        ("concatenate", |x| Tensor::concatenate([x, &x.atan()], 0)),
        ("expand", |x| x.unsqueeze(1).sigmoid()),
        ("pad", |x| x.pad(&[(1, 0), (0, 2)]).square()),
        ("slice", |x| x.slice(&[glassgrad::expr::s(1), glassgrad::expr::s(..).step(-2)]).exp()),
        ("flip", |x| x.flip([1]) * x),
        ("reshape", |x| x.reshape([3, 2]).matmul(x)),
        ("gather", |x| x.take(&Tensor::from([2_i64, 0, 2]), 1).square()),
        ("scatter", |x| x.scatter_add(&Tensor::from([1_i64, 1, 0]), 1, 2).sin()),
        ("choose", |x| x.gt(0.75).choose(&x.ln(), &x.square())),
        ("choose beside a pole", |x| (x * 0.0).gt(0.0).choose(&(x * 0.0).ln(), &x.square())),
        ("clip", |x| x.maximum(0.61).minimum(1.13)),
        ("quotient", |x| x / (x.square() + 1.0)),
        ("powers", |x| x.pow(x) + x.powf(2.5) + x.powi(3) + x.cbrt()),
        ("gelu and others", |x| x.gelu() + x.silu() + x.softplus() + x.mish() + x.elu(1.0)),
        ("special", |x| x.erf() + x.lgamma() + x.digamma() + x.sinc()),
        ("hypot", |x| x.hypot(x.sin()) + x.atan2(x.exp())),
        ("scan", |x| {
            scan(|c: &Tensor, x: &Tensor| ((c * x.sum()).tanh() + x.mean(), c.sin()), &Tensor::from(0.3), x).1
        }),
        ("batched", |x| vmap(|row: &Tensor| row.softmax(0).inner(row))(x)),
        ("nested", |x| grad(|x: &Tensor| x.sin().sum().exp())(x)),
        ("stop", |x| x * x.stop_gradient()),
    ];

    fn point() -> Tensor {
        Tensor::from([[0.5, 0.9, 1.3], [0.7, 1.1, 0.4]]).named("x")
    }

    #[test]
    fn audits_are_healthy() {
        for (name, f) in HEALTHY {
            let report = audit(|x: &Tensor| (f(x) * Tensor::from(1.5)).square().sum(), &point()).unwrap();
            assert!(report.is_healthy(), "{name}: {report}");
            assert_eq!(independent(f, &point()), [], "{name}");
        }
    }

    #[test]
    fn nothing_is_called_not_finite() {
        for (name, f) in HEALTHY {
            assert_eq!(explain_non_finite(f, &point()).unwrap(), None, "{name}");
            assert_eq!(f(&point()).provenance().unwrap(), None, "{name}");
            assert_eq!(f(&point()).eval_checked().unwrap(), f(&point()).eval().unwrap(), "{name}");
        }
    }

    #[test]
    fn derivatives_are_certified() {
        // A value with a stopped factor is no function whose derivative is that of its value.
        for (name, f) in HEALTHY.iter().filter(|(name, _)| !matches!(*name, "stop" | "softmax of large numbers")) {
            for seed in 0..3 {
                let certificate = certify_tensors(f, &point(), Key::new(seed)).unwrap();
                assert!(certificate.holds(), "{name}: {certificate:?}");
            }
        }
    }

    #[test]
    fn a_stopped_factor_is_no_fault_of_a_rule() {
        let certificate = certify_tensors(|x: &Tensor| x * x.stop_gradient(), &point(), Key::new(1)).unwrap();
        assert!(!certificate.holds());
        assert_eq!(certificate.blame, []);
    }

    #[test]
    fn every_node_of_every_derivative_leads_to_a_line_of_the_user() {
        for (name, f) in HEALTHY {
            let x = point().variable();
            let derivative = hessian(|x: &Tensor| f(x).sum())(&x);
            let json = Graph::of(&[&f(&x), &derivative]).to_json();
            let mut nodes: Vec<&serde_json::Value> = json["nodes"].as_array().unwrap().iter().collect();
            while let Some(node) = nodes.pop() {
                assert!(node["file"].as_str().unwrap().ends_with("tests/glass.rs"), "{name}: {node}");
                nodes.extend(node["body"].as_array().unwrap());
            }
        }
    }

    #[test]
    fn every_graph_can_be_shown() {
        for (name, f) in HEALTHY {
            let graph = Graph::trace(|x: &Tensor| f(x).sum(), &point()).with_gradients().unwrap();
            assert!(graph.text().contains("x̄"), "{name}");
            assert!(graph.svg(name).unwrap().ends_with("</svg>\n"), "{name}");
            assert_eq!(graph.dot().matches('{').count(), graph.dot().matches('}').count(), "{name}");
            let derivative = hessian(|x: &Tensor| f(x).sum())(&point());
            assert!(!Graph::of(&[&derivative]).collapse_lines().text().contains("  ?"), "{name}");
        }
    }

    /// The identity, which counts how often it is computed.
    #[derive(Debug)]
    struct Counted(std::sync::Arc<std::sync::atomic::AtomicUsize>);

    impl CustomOp for Counted {
        fn name(&self) -> &str {
            "counted"
        }
        fn output(&self, inputs: &[&Tensor]) -> Result<(Shape, DType), String> {
            Ok((inputs[0].shape().clone(), inputs[0].dtype()))
        }
        fn value(&self, inputs: &[Array]) -> Result<Array, String> {
            self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            Ok(inputs[0].clone())
        }
        fn rule<'r>(&self, _: &'r [Tensor], _: &'r Tensor) -> Rule<'r> {
            Rule::Pullback(Box::new(|g| vec![Some(g.clone())]))
        }
    }

    #[test]
    fn a_checked_read_computes_nothing_twice_while_all_is_well() {
        let count = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let computed = |x: Tensor| {
            let before = count.load(std::sync::atomic::Ordering::Relaxed);
            let outcome = Tensor::custom(Counted(count.clone()), &[&x]).sin().sum().eval_checked();
            (outcome.is_ok(), count.load(std::sync::atomic::Ordering::Relaxed) - before)
        };
        assert_eq!(computed(point()), (true, 1));
        assert!(!computed(point() * f64::INFINITY).0);
    }

    #[test]
    fn looking_changes_nothing() {
        let x = point().variable();
        let y = x.sin().sum();
        let before = y.item().unwrap();
        let _ = Graph::of(&[&y]).with_gradients().unwrap().text();
        let _ = y.provenance().unwrap();
        assert_eq!(y.item().unwrap(), before);
        assert_eq!(y.backward().of(&x).to_string(), point().cos().to_string());
    }
}
