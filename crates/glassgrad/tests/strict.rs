//! Arguments that have no right answer are errors, and integers are exact.

use glassgrad::array::{Array, Buffer};
use glassgrad::certify::{Suspicion, certify_tensors};
use glassgrad::dtype::DType;
use glassgrad::expr::{CustomOp, Index, Rule, s};
use glassgrad::nn::{Gru, Layer, Lstm, Recurrent, Rnn};
use glassgrad::ops::{Binary, Row, Unary, Visitor, visit};
use glassgrad::rng::Key;
use glassgrad::shape::Shape;
use glassgrad::{Algebra, Tensor, checkpoint, compile, grad, hvp, jvp, loss, scan, vmap};

/// A rule that gives cotangents of all inputs.
type Pullback = fn(&Tensor) -> Vec<Option<Tensor>>;

/// The name of a loss, and the loss.
type Loss = (&'static str, fn(&Tensor, &Tensor) -> Tensor);

fn refused(tensor: &Tensor) -> String {
    let error = tensor.eval().expect_err("an error").to_string();
    assert_eq!(tensor.eval_by_reference().expect_err("an error").to_string(), error);
    error
}

fn integers(tensor: &Tensor) -> Vec<i64> {
    let found = tensor.to_vec::<i64>().expect("integers");
    assert_eq!(tensor.eval_by_reference().expect("integers").buffer(), &Buffer::I64(found.clone()));
    found
}

// ------------------------------------------------------------------ custom operations

/// An operation whose promises are chosen by a test.
#[derive(Clone, Debug)]
struct Lying {
    pullback: Pullback,
    batched: Option<fn(&Tensor) -> Tensor>,
}

impl CustomOp for Lying {
    fn name(&self) -> &str {
        "lying"
    }
    fn output(&self, inputs: &[&Tensor]) -> Result<(Shape, DType), String> {
        Ok((inputs[0].shape().clone(), inputs[0].dtype()))
    }
    fn value(&self, inputs: &[Array]) -> Result<Array, String> {
        Ok(inputs[0].clone())
    }
    fn rule<'r>(&self, _: &'r [Tensor], _: &'r Tensor) -> Rule<'r> {
        Rule::Pullback(Box::new(self.pullback))
    }
    fn batched(&self, inputs: &[Tensor], _: &[bool]) -> Option<Tensor> {
        self.batched.map(|batched| batched(&inputs[0]))
    }
}

#[test]
fn results_of_custom_rules_are_checked() {
    let x = Tensor::from([1.0, 2.0, 3.0]);
    let pullbacks: [(Pullback, &str); 5] = [
        (|_| vec![Some(Tensor::full(77, 1.0, DType::F64))], "f64[77]"),
        (|g| vec![Some(g.cast(DType::F32))], "f32[3]"),
        (|g| vec![Some(g.sum())], "f64[]"),
        (|g| vec![Some(g.clone()), Some(g.clone())], "2 cotangents for 1 inputs"),
        (|_| vec![], "0 cotangents for 1 inputs"),
    ];
    for (pullback, reason) in pullbacks {
        let f = |x: &Tensor| Tensor::custom(Lying { pullback, batched: None }, &[x]).sum();
        for error in [
            grad(f)(&x).eval().unwrap_err(),
            jvp(f, &x, &x).1.eval().unwrap_err(),
            hvp(f, &x, &x).eval().unwrap_err(),
            compile(grad(f)).call(&x).unwrap_err(),
            grad(|x: &Tensor| checkpoint(f)(x))(&x).eval().unwrap_err(),
            grad(|x: &Tensor| scan(|c: &Tensor, _: &Tensor| (c + f(c), ()), x, &Tensor::zeros(2)).0.sum())(&x)
                .eval()
                .unwrap_err(),
        ] {
            assert_eq!(error.operation(), "lying");
            assert!(error.to_string().contains(reason), "{error}");
        }
    }
    let batches: [fn(&Tensor) -> Tensor; 3] = [|x| x.sum(), |x| x.cast(DType::F32), |x| x.slice(&[s(1..)])];
    for batched in batches {
        let f =
            |x: &Tensor| Tensor::custom(Lying { pullback: |g| vec![Some(g.clone())], batched: Some(batched) }, &[x]);
        let error = vmap(f)(&Tensor::ones([4, 3]).cast(DType::F64)).eval().unwrap_err();
        assert_eq!(error.operation(), "lying");
    }
    let honest = |x: &Tensor| Tensor::custom(Lying { pullback: |g| vec![Some(g.clone())], batched: None }, &[x]).sum();
    assert_eq!(grad(honest)(&x).to_string(), "[1, 1, 1]");
}

#[test]
fn a_rule_that_is_not_linear_is_named() {
    let pullbacks: [Pullback; 3] = [|g| vec![Some(g * g.abs())], |g| vec![Some(g + 1.0)], |g| vec![Some(g.relu())]];
    for pullback in pullbacks {
        let f = |x: &Tensor| (Tensor::custom(Lying { pullback, batched: None }, &[&x.sin()]) * x).exp();
        let certificate = certify_tensors(f, &Tensor::from([0.3, -0.7]), Key::new(1)).unwrap();
        assert!(!certificate.holds());
        let [blame] = &certificate.blame[..] else { panic!("{certificate}") };
        assert_eq!((blame.operation.as_str(), blame.suspicion), ("lying", Suspicion::Linearity));
        assert!(certificate.to_string().contains("is not linear"), "{certificate}");
    }
    let f = |x: &Tensor| Tensor::custom(Lying { pullback: |g| vec![Some(g.clone())], batched: None }, &[x]).exp();
    assert!(certify_tensors(f, &Tensor::from([0.3, -0.7]), Key::new(1)).unwrap().holds());
}

// ------------------------------------------------------------------ losses

#[test]
fn labels_that_are_no_classes_are_errors() {
    let logits = Tensor::from([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]]);
    let losses: [Loss; 4] = [
        ("cross_entropy", loss::cross_entropy),
        ("nll", loss::nll),
        ("cross_entropy_of_probabilities", loss::cross_entropy_of_probabilities),
        ("one_hot", |logits, targets| targets.one_hot(3, logits.dtype())),
    ];
    for (name, loss) in losses {
        for (label, position) in [(3_i64, 1), (-1, 0), (i64::MAX, 1), (i64::MIN, 0)] {
            let mut labels = [0_i64, 2];
            labels[position] = label;
            let labels = Tensor::from(labels);
            let error = refused(&loss(&logits, &labels));
            assert!(error.starts_with(&format!("{name}: ")), "{error}");
            assert!(error.contains(&format!("class {label} at position [{position}]")), "{error}");
            assert!(error.contains("3 classes") && error.contains("from 0 to 2"), "{error}");
            let slope = grad(|logits: &Tensor| loss(logits, &labels).sum())(&logits);
            assert!(name == "one_hot" || slope.eval().is_err(), "{name}: a gradient of {label}");
            let step = compile(|(logits, labels): &(Tensor, Tensor)| loss(logits, labels));
            assert!(step.call(&(logits.clone(), labels)).is_err());
        }
        assert!(loss(&logits, &Tensor::from([2_i64, 0])).eval().is_ok());
    }
    let error = refused(&loss::cross_entropy(&logits, &Tensor::from([0_i64, 3])));
    assert!(error.contains("strict.rs"), "{error}");
    let stack = Tensor::zeros([2, 2, 3]);
    let error = refused(&loss::cross_entropy(&stack, &Tensor::from([[0_i64, 1], [2, 9]])));
    assert!(error.contains("class 9 at position [1, 1]"), "{error}");
}

#[test]
fn losses_do_not_broadcast() {
    let losses: [Loss; 5] = [
        ("mse", loss::mse),
        ("huber", |p, t| loss::huber(p, t, 1.0)),
        ("hinge", loss::hinge),
        ("binary_cross_entropy", loss::binary_cross_entropy),
        ("binary_cross_entropy_of_probabilities", loss::binary_cross_entropy_of_probabilities),
    ];
    for (name, loss) in losses {
        for (predictions, targets) in [(&[4][..], &[4, 1][..]), (&[4, 1], &[4]), (&[2, 3], &[3]), (&[2, 3], &[1, 3])] {
            let error = refused(&loss(&Tensor::ones(predictions), &Tensor::ones(targets)));
            assert!(error.starts_with(&format!("{name}: ")), "{error}");
            for shape in [predictions, targets] {
                assert!(error.contains(&Shape::from(shape).to_string()), "{error}");
            }
        }
        assert_eq!(loss(&Tensor::ones([2, 3]), &Tensor::ones([2, 3])).shape().to_vec(), [2, 3]);
        assert_eq!(loss(&Tensor::ones([2, 3]), &Tensor::from(1.0_f32)).shape().to_vec(), [2, 3]);
    }
}

#[test]
fn recurrent_layers_take_batches_of_sequences() {
    let key = Key::new(1);
    let layers: [&dyn Fn(&Tensor) -> Tensor; 3] =
        [&|x| Recurrent::new(Rnn::new(key, 3, 4)).apply(x), &|x| Recurrent::new(Lstm::new(key, 3, 4)).apply(x), &|x| {
            Recurrent::new(Gru::new(key, 3, 4)).apply(x)
        }];
    for layer in layers {
        let error = refused(&layer(&Tensor::ones([5, 3])));
        assert!(error.contains("[time, batch, inputs]") && error.contains("[5, 3]"), "{error}");
        assert!(error.contains("unsqueeze"), "{error}");
        assert!(layer(&Tensor::ones([5, 2, 2, 3])).eval().is_err());
        assert_eq!(layer(&Tensor::ones([5, 2, 3])).eval().unwrap().shape().to_vec(), [5, 2, 4]);
    }
    let layer = Recurrent::new(Rnn::new(key, 3, 4));
    for lengths in [Tensor::from([1_i64]), Tensor::from([1_i64, 2, 3]), Tensor::from([1.0, 2.0]), Tensor::from(3_i64)] {
        assert!(layer.run_lengths(&Tensor::ones([5, 2, 3]), &lengths).0.eval().is_err());
    }
}

// ------------------------------------------------------------------ integers

const EXTREMES: [i64; 8] = [i64::MIN, i64::MIN + 1, -1, 0, 1, (1 << 53) + 1, i64::MAX - 1, i64::MAX];

#[test]
fn integers_are_exact_up_to_their_limits() {
    let x = Tensor::from(EXTREMES);
    assert_eq!(integers(&Tensor::from([i64::MIN, 5]).min()), [i64::MIN]);
    assert_eq!(integers(&Tensor::from([[i64::MIN, 5], [i64::MAX, 7]]).min_over(1)), [i64::MIN, 7]);
    assert_eq!(integers(&Tensor::from([[i64::MIN, 5], [i64::MAX, 7]]).max_over(1)), [5, i64::MAX]);
    assert_eq!(integers(&x.argmin(0)), [0]);
    assert_eq!(integers(&x.flip([0]).sort(0)), EXTREMES);
    assert_eq!(integers(&x.flip([0]).top_k(2, 0).0), [i64::MAX, i64::MAX - 1]);
    for (place, number) in EXTREMES.iter().enumerate() {
        let hits: Vec<bool> = (0..EXTREMES.len()).map(|k| k == place).collect();
        assert_eq!(x.equal(*number).to_vec::<bool>().unwrap(), hits, "{number}");
        assert_eq!(x.lt(*number).cast(DType::I64).sum().to_vec::<i64>().unwrap(), [place as i64], "{number}");
        assert_eq!(integers(&(&x - *number)), EXTREMES.map(|x| x.wrapping_sub(*number)), "{number}");
        assert_eq!(integers(&(&x + *number)), EXTREMES.map(|x| x.wrapping_add(*number)), "{number}");
        assert_eq!(integers(&(&x * *number)), EXTREMES.map(|x| x.wrapping_mul(*number)), "{number}");
        assert_eq!(integers(&x.clip(*number, i64::MAX)), EXTREMES.map(|x| x.max(*number)), "{number}");
        assert_eq!(integers(&x.clip(i64::MIN, *number)), EXTREMES.map(|x| x.min(*number)), "{number}");
        assert_eq!(integers(&Tensor::full(2, *number, DType::I64)), [*number; 2]);
        assert_eq!(integers(&x.full_like(*number)), [*number; 8]);
        assert_eq!(integers(&Tensor::from([1_i64]).pad_with(&[(1, 0)], *number)), [*number, 1]);
        assert_eq!(integers(&(Tensor::full(2, *number, DType::I64) * 1 + 0)), [*number; 2]);
    }
    assert_eq!(integers(&x.cast(DType::I64)), EXTREMES);
    assert_eq!(integers(&x.cumsum(0)).last(), Some(&EXTREMES.iter().fold(0_i64, |sum, x| sum.wrapping_add(*x))));
}

#[test]
fn numbers_that_a_type_does_not_have_are_errors() {
    let whole = Tensor::from([1_i64, 2]);
    for number in [0.5, f64::NAN, f64::INFINITY, 1e300, -1e300, 9.3e18] {
        for tensor in [
            Tensor::full(2, number, DType::I64),
            whole.full_like(number),
            whole.pad_with(&[(1, 1)], number),
            Tensor::full(2, number, DType::Bool),
        ] {
            let error = refused(&tensor);
            assert!(error.contains("no element of the type"), "{error}");
        }
        assert!(Tensor::full(2, number, DType::F32).eval().is_ok());
    }
    assert!(Tensor::full(2, 2, DType::Bool).eval().is_err());
    assert_eq!(Tensor::full(2, 1, DType::Bool).to_vec::<bool>().unwrap(), [true; 2]);
    assert_eq!(integers(&Tensor::full(1, i64::MIN as f64, DType::I64)), [i64::MIN]);
}

// ------------------------------------------------------------------ slices and axes

/// The places that `range(n)[start:stop:step]` of Python names.
fn python_slice(n: isize, start: Option<isize>, stop: Option<isize>, step: isize) -> Vec<i64> {
    let bounded = |place: isize| {
        let place = if place < 0 { place + n } else { place };
        if step > 0 { place.clamp(0, n) } else { place.clamp(-1, n - 1) }
    };
    let (first, last) = if step > 0 { (0, n) } else { (n - 1, -1) };
    let (mut place, stop) = (start.map_or(first, bounded), stop.map_or(last, bounded));
    let mut places = Vec::new();
    while (step > 0 && place < stop) || (step < 0 && place > stop) {
        places.push(place as i64);
        place += step;
    }
    places
}

#[test]
fn slices_are_those_of_numpy() {
    // From NumPy itself: np.arange(10)[8:2:-2], [2:8:-2], [:3:-1], [3::-1], [-2:-5:-1].
    let of = |n: usize, index| integers(&Tensor::arange(n as i64).slice(&[index]));
    assert_eq!(of(10, Index::Range(Some(8), Some(2), -2)), [8, 6, 4]);
    assert_eq!(of(10, Index::Range(Some(2), Some(8), -2)), [0; 0]);
    assert_eq!(of(10, s(..3).step(-1)), [9, 8, 7, 6, 5, 4]);
    assert_eq!(of(10, s(3..).step(-1)), [3, 2, 1, 0]);
    assert_eq!(of(10, Index::Range(Some(-2), Some(-5), -1)), [8, 7, 6]);
    for n in 0..6_isize {
        let bounds = || std::iter::once(None).chain((-8..=8).map(Some)).chain([Some(isize::MIN), Some(isize::MAX)]);
        for start in bounds() {
            for stop in bounds() {
                for step in [-7, -3, -2, -1, 1, 2, 3, 7] {
                    let expected = python_slice(n, start, stop, step);
                    let found = of(n as usize, Index::Range(start, stop, step));
                    assert_eq!(found, expected, "range({n})[{start:?}:{stop:?}:{step}]");
                }
            }
        }
    }
    assert_eq!(of(4, s(usize::MAX..)), [0; 0]);
    assert_eq!(of(4, s(..usize::MAX)), [0, 1, 2, 3]);
    assert_eq!(of(4, s(1..=usize::MAX)), [1, 2, 3]);
    assert_eq!(of(4, s(1..=isize::MAX)), [1, 2, 3]);
    assert_eq!(of(4, s(..=isize::MAX)), [0, 1, 2, 3]);
    assert_eq!(of(4, s(isize::MIN..)), [0, 1, 2, 3]);
    let (first, last) = (1, -1);
    assert_eq!(of(4, s(first..=last)), [1, 2, 3]);
    assert_eq!(of(4, s(..).step(isize::MIN)), [3]);
}

#[test]
fn axes_are_named_once() {
    let x = Tensor::ones([2, 3]);
    for tensor in [x.sum_over([0, 0]), x.mean_over([1, -1]), x.max_over([0, -2]), x.logsumexp_over([0, 0])] {
        let error = refused(&tensor);
        assert!(error.contains("named twice"), "{error}");
    }
    assert!(refused(&x.flip([1, 1])).contains("named twice"));
    assert!(x.permute([0, 0]).eval().is_err());
}

// ------------------------------------------------------------------ exact values of the table

/// Where the scalar engine gives an integer, an infinity or NaN at a point, the kernels give the same.
#[test]
fn kernels_are_exact_where_the_scalar_engine_is() {
    struct Compare(Vec<String>);
    impl Visitor for Compare {
        fn unary<R: Unary>(&mut self, row: &Row) {
            let parameter = row.parameter.map_or(0.0, |parameter| parameter.default);
            for x in [0.0, -0.0, 1.0, -1.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN] {
                let Some(exact) = row.operation.apply_unary(x, parameter) else { continue };
                if exact.is_finite() && exact.fract() != 0.0 {
                    continue;
                }
                for dtype in [DType::F64, DType::F32] {
                    // Several elements, so that vector kernels run.
                    let many = Tensor::full(37, x, dtype);
                    let y = Tensor::apply(row.operation, parameter, &[&many]).to_f64_vec().expect("numbers");
                    if y.iter().any(|y| *y != exact && !(y.is_nan() && exact.is_nan())) {
                        self.0.push(format!("{}({x}) = {} in {dtype}, not {exact}", row.operation.name(), y[0]));
                    }
                }
            }
        }
        fn binary<R: Binary>(&mut self, _: &Row) {}
    }
    let mut compare = Compare(Vec::new());
    visit(&mut compare);
    assert_eq!(compare.0, [""; 0]);
    assert_eq!(Tensor::from([0.0]).erfc().to_vec::<f64>().unwrap(), [Algebra::erfc(0.0_f64)]);
}

// ------------------------------------------------------------------ sizes

#[test]
fn sizes_beyond_memory_are_errors() {
    for tensor in [
        Tensor::linspace(0.0, 1.0, 1 << 45),
        Tensor::linspace(0.0, 1.0, usize::MAX),
        Tensor::arange(1_i64 << 45),
        Tensor::arange(f64::INFINITY),
        Tensor::full(1 << 45, 1.0, DType::Bool),
        Tensor::zeros([1 << 20, 1 << 25]),
        Tensor::zeros([1 << 14, 1 << 19]) + 1.0,
        Tensor::ones([3]).adaptive_avg_pool1d(usize::MAX),
        Tensor::ones([3]).adaptive_max_pool1d(usize::MAX),
        Tensor::ones([3, 3]).adaptive_avg_pool2d([usize::MAX, 2]),
        Tensor::ones([3]).pad(&[(usize::MAX, 1)]),
        Tensor::ones([3]).repeat(usize::MAX, 0),
        Tensor::ones([3]).tile(&[usize::MAX]),
        Tensor::eye(1 << 32),
        Tensor::from([0_i64]).one_hot(1 << 50, DType::F32),
        Tensor::ones([3]).scatter_add(&Tensor::from([0_i64, 1, 2]), 0, 1 << 50),
        Tensor::ones([1, 1]).broadcast_to([1 << 31, 1 << 31]),
        Tensor::uniform(Key::new(1), 1 << 45),
        Tensor::normal(Key::new(1), [1 << 40, 1 << 40]),
    ] {
        assert!(tensor.eval().is_err(), "{tensor:?}");
    }
    let error = Tensor::linspace(0.0, 1.0, 1 << 45).eval().unwrap_err().to_string();
    assert!(error.contains("256.0 TiB") && error.contains("smaller shapes"), "{error}");
}

/// The maximum of truth values is whether any holds.
#[test]
fn the_maximum_of_truth_values() {
    let x = Tensor::from([[false, false, false], [true, false, false], [false, true, true]]);
    for (found, expected) in [
        (x.max_over(1), vec![false, true, true]),
        (x.max_over(0), vec![true, true, true]),
        (Tensor::from([false, false]).max(), vec![false]),
        (x.min_over(1), vec![false, false, false]),
        (x.min_over(0), vec![false, false, false]),
    ] {
        assert_eq!(found.to_vec::<bool>().unwrap(), expected);
        assert_eq!(found.eval_by_reference().unwrap(), found.eval().unwrap());
    }
}
