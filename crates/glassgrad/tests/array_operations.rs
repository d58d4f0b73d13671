//! What people expect of an array library, all of it before the same judges.
//!
//! Each operation is one entry of a list: a function of tensors, the shapes of its arguments, and its definition in
//! plain loops (`array_operations/list.rs`). Every entry is judged by its definition, by finite differences to second order, by the adjoint
//! identity, by every other mode, by `vmap` against a loop, in 32 bits, on no examples, on views, and where it makes
//! sense on integers and on empty axes. A rule that is wrong by 0.1 % must be noticed.

#[path = "judges/closeness.rs"]
mod closeness;
#[allow(dead_code)]
#[path = "judges/differences.rs"]
mod differences;
#[path = "array_operations/list.rs"]
mod list;

use closeness::{agree, size_of_all};
use glassgrad::dtype::DType;
use glassgrad::expr::{Index, s};
use glassgrad::operations::{Complex, Interpolation};
use glassgrad::rng::Key;
use glassgrad::{Tensor, grad, hvp, jacobian, jvp, vjp, vmap};
use list::{Plain, Subject, packed, subjects};

// ------------------------------------------------------------------ arguments and agreement

/// How many roundings two ways of computing may differ by.
const ROUNDINGS: f64 = 256.0;
/// The same for extrapolated differences: a rounding of the values, divided by the smallest step.
const DIFFERENCES: f64 = 1048576.0;

fn numbers(tensor: &Tensor) -> Vec<f64> {
    tensor.to_f64_vec().unwrap_or_else(|error| panic!("{error}"))
}

/// Whether numbers agree, or what does not.
fn compare(what: &str, actual: &[f64], expected: &[f64], roundings: f64) -> Result<(), String> {
    let finite: Vec<f64> = expected.iter().copied().filter(|number| number.is_finite()).collect();
    let size = size_of_all(&finite);
    let close =
        actual.len() == expected.len() && actual.iter().zip(expected).all(|(a, b)| agree(*a, *b, size, roundings));
    if close { Ok(()) } else { Err(format!("{what}: {actual:?} is not {expected:?}")) }
}

fn compare_all(what: &str, actual: &[Tensor], expected: &[Tensor], roundings: f64) -> Result<(), String> {
    for (actual, expected) in actual.iter().zip(expected) {
        let (a, b) = (numbers(actual), numbers(expected));
        if actual.shape() != expected.shape() {
            return Err(format!("{what}: the shape {} is not {}", actual.shape(), expected.shape()));
        }
        compare(what, &a, &b, roundings)?;
    }
    Ok(())
}

/// Numbers between -1 and 1 that are all far apart and not near 0, in random order, exact in 32 bits.
fn arguments(shapes: &[&[usize]], seed: u64) -> Vec<Plain> {
    let counts: Vec<usize> = shapes.iter().map(|shape| shape.iter().product()).collect();
    let total: usize = counts.iter().sum::<usize>().next_multiple_of(2);
    let places = Key::new(seed).permutation(total);
    let number = |place: usize| ((2.0 * place as f64 + 1.0) / total as f64 - 1.0) * 1048576.0;
    let mut elements = places.into_iter().map(|place| number(place).round() / 1048576.0);
    shapes
        .iter()
        .zip(counts)
        .map(|(shape, count)| Plain { shape: shape.to_vec(), elements: elements.by_ref().take(count).collect() })
        .collect()
}

fn tensors(x: &[Plain]) -> Vec<Tensor> {
    x.iter().map(Plain::tensor).collect()
}

fn normal_like(seed: u64, tensor: &Tensor) -> Tensor {
    Tensor::normal(Key::new(seed), tensor.shape()).cast(tensor.dtype())
}

fn directions(seed: u64, x: &[Tensor]) -> Vec<Tensor> {
    x.iter().enumerate().map(|(k, x)| normal_like(seed + k as u64, x)).collect()
}

fn inner(a: &[Tensor], b: &[Tensor]) -> f64 {
    a.iter().zip(b).map(|(a, b)| numbers(&a.inner(b))[0]).sum()
}

/// Flat numbers back in the shapes of some tensors.
fn shaped(flat: &[f64], like: &[Plain]) -> Vec<Tensor> {
    let mut rest = flat;
    like.iter()
        .map(|plain| {
            let (own, others) = rest.split_at(plain.elements.len());
            rest = others;
            Tensor::new(own, &plain.shape[..])
        })
        .collect()
}

fn flat(x: &[Plain]) -> Vec<f64> {
    x.iter().flat_map(|x| x.elements.iter().copied()).collect()
}

fn all_numbers(x: &[Tensor]) -> Vec<f64> {
    x.iter().flat_map(numbers).collect()
}

// ------------------------------------------------------------------ the judges

type Function<'f> = &'f dyn Fn(&[Tensor]) -> Tensor;

/// First derivatives against differences of values.
fn check_first(f: Function<'_>, x: &[Plain]) -> Result<(), String> {
    let points = tensors(x);
    let weights = normal_like(11, &f(&points));
    let loss = |x: &Vec<Tensor>| f(x).inner(&weights);
    let found = all_numbers(&grad(loss)(&points));
    let value = |flat: &[f64]| numbers(&loss(&shaped(flat, x)))[0];
    let start = flat(x);
    let expected: Vec<f64> = (0..start.len()).map(|i| differences::partial(value, &start, i)).collect();
    compare("gradient and differences", &found, &expected, DIFFERENCES)
}

/// Second derivatives of a sum of squares, which is curved also where the operation is linear, in two pairs of modes
/// and against differences of gradients.
fn check_second(f: Function<'_>, x: &[Plain]) -> Result<(), String> {
    let points = tensors(x);
    let weights = normal_like(12, &f(&points));
    let loss = |x: &Vec<Tensor>| (f(x).square() * &weights).sum();
    let along = directions(13, &points);
    let found = all_numbers(&hvp(loss, &points, &along));
    let slope =
        |x: &Vec<Tensor>| grad(loss)(x).iter().zip(&along).map(|(slope, along)| slope.inner(along)).sum::<Tensor>();
    let reverse_twice = all_numbers(&grad(slope)(&points));
    compare("forward over reverse and reverse over reverse", &found, &reverse_twice, ROUNDINGS)?;
    let value = |flat: &[f64]| numbers(&slope(&shaped(flat, x)))[0];
    let start = flat(x);
    let expected: Vec<f64> = (0..start.len()).map(|i| differences::partial(value, &start, i)).collect();
    compare("hessian-vector product and differences", &found, &expected, DIFFERENCES)
}

/// The adjoint identity, and the Jacobian against tangents.
fn check_modes(f: Function<'_>, x: &[Plain]) -> Result<(), String> {
    let points = tensors(x);
    let of = |x: &Vec<Tensor>| f(x);
    let along = directions(14, &points);
    let (value, pullback) = vjp(of, &points);
    let cotangent = normal_like(15, &value);
    let tangent = jvp(of, &points, &along).1;
    let (left, right) = (inner(std::slice::from_ref(&cotangent), &[tangent]), inner(&pullback(&cotangent), &along));
    compare("adjoint identity", &[left], &[right], ROUNDINGS)?;
    for k in 0..points.len() {
        let only = |moving: &Tensor| {
            let mut x = points.clone();
            x[k] = moving.clone();
            f(&x)
        };
        let whole = jacobian(only)(&points[k]);
        let rank = points[k].rank();
        let axes: Vec<isize> = (0..rank).map(|axis| axis as isize - rank as isize).collect();
        let pushed = (whole * &along[k]).sum_over(&axes[..]);
        let tangent = jvp(only, &points[k], &along[k]).1;
        compare_all("jacobian and tangent", &[pushed], &[tangent], ROUNDINGS)?;
    }
    Ok(())
}

/// `vmap` of values and of gradients against a loop, with all arguments, the first alone, and the last alone batched.
fn check_batches(f: Function<'_>, shapes: &[&[usize]]) -> Result<(), String> {
    let examples: Vec<Vec<Tensor>> = (0..3).map(|k| tensors(&arguments(shapes, 20 + k))).collect();
    let stacked = |examples: &[Vec<Tensor>], argument: usize| {
        Tensor::stack(examples.iter().map(|example| &example[argument]).collect::<Vec<_>>(), 0)
    };
    let loss = |x: &Vec<Tensor>| f(x).square().sum();
    let whole: Vec<Tensor> = (0..shapes.len()).map(|argument| stacked(&examples, argument)).collect();
    let values: Vec<Vec<Tensor>> = examples.iter().map(|x| vec![f(x)]).collect();
    compare_all("vmap", &[vmap(|x: &Vec<Tensor>| f(x))(&whole)], &[stacked(&values, 0)], ROUNDINGS)?;
    let slopes: Vec<Vec<Tensor>> = examples.iter().map(grad(loss)).collect();
    let expected: Vec<Tensor> = (0..shapes.len()).map(|argument| stacked(&slopes, argument)).collect();
    compare_all("vmap of the gradient", &vmap(grad(loss))(&whole), &expected, ROUNDINGS)?;
    for argument in [0, shapes.len() - 1] {
        let with = |one: &Tensor| {
            let mut x = examples[0].clone();
            x[argument] = one.clone();
            f(&x)
        };
        let values: Vec<Vec<Tensor>> = examples.iter().map(|x| vec![with(&x[argument])]).collect();
        let batched = vmap(with)(&whole[argument]);
        compare_all("vmap of one argument", &[batched], &[stacked(&values, 0)], ROUNDINGS)?;
    }
    Ok(())
}

#[test]
fn values_are_those_of_the_definitions() {
    for Subject { name, shapes, function, definition, empty, integers } in subjects() {
        let cases = [shapes, empty];
        for shapes in cases.into_iter().filter(|shapes| !shapes.is_empty()) {
            let x = arguments(shapes, 1);
            let (y, expected) = (function(&tensors(&x)), definition(&x));
            let values = numbers(&y);
            assert_eq!(**y.shape(), expected.shape, "{name}");
            assert_eq!(y.dtype(), DType::F64, "{name}");
            compare(name, &values, &expected.elements, ROUNDINGS).unwrap();
            if integers {
                // Small whole numbers, some of them equal.
                let whole: Vec<Plain> = x.iter().map(|x| x.map(|x| (4.0 * x).round())).collect();
                let y = function(&tensors(&whole).iter().map(|x| x.cast(DType::I64)).collect::<Vec<_>>());
                assert_eq!(
                    y.to_vec::<i64>().map(|y| y.iter().map(|y| *y as f64).collect()),
                    Ok(definition(&whole).elements),
                    "{name}"
                );
            }
        }
    }
}

#[test]
fn first_derivatives_are_those_of_differences() {
    for Subject { name, shapes, function, .. } in subjects() {
        check_first(&function, &arguments(shapes, 2)).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

#[test]
fn second_derivatives_are_those_of_differences() {
    for Subject { name, shapes, function, .. } in subjects() {
        check_second(&function, &arguments(shapes, 3)).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

#[test]
fn all_modes_agree() {
    for Subject { name, shapes, function, .. } in subjects() {
        check_modes(&function, &arguments(shapes, 4)).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

#[test]
fn batches_are_loops() {
    for Subject { name, shapes, function, .. } in subjects() {
        check_batches(&function, shapes).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

#[test]
fn a_rule_that_is_wrong_by_a_thousandth_is_noticed() {
    for Subject { name, shapes, function, .. } in subjects().iter().filter(|subject| subject.name != "tile by nothing")
    {
        // The value is right, every derivative is 0.1 % too large.
        let wrong = |x: &[Tensor]| {
            let y = function(x);
            &y + (&y - y.stop_gradient()) * 0.001
        };
        let x = arguments(shapes, 2);
        assert!(check_first(&wrong, &x).is_err(), "{name}: first order");
        assert!(check_second(&wrong, &x).is_err(), "{name}: second order");
    }
}

#[test]
fn derivatives_and_batches_of_nothing_are_nothing() {
    for Subject { name, shapes, function, empty, .. } in subjects() {
        let whole: Vec<Tensor> =
            shapes.iter().map(|shape| Tensor::full([&[0], *shape].concat(), 0.0, DType::F64)).collect();
        let one = function(&tensors(&arguments(shapes, 5)));
        let batched = vmap(|x: &Vec<Tensor>| function(x))(&whole);
        assert_eq!(numbers(&batched).len(), 0, "{name}");
        assert_eq!(batched.shape()[1..], **one.shape(), "{name}");
        let slopes = vmap(grad(|x: &Vec<Tensor>| function(x).square().sum()))(&whole);
        assert!(
            slopes.iter().zip(&whole).all(|(slope, x)| slope.shape() == x.shape() && numbers(slope).is_empty()),
            "{name}"
        );
        let x = tensors(&arguments(empty, 5));
        if !x.is_empty() {
            let slopes = grad(|x: &Vec<Tensor>| function(x).square().sum())(&x);
            let total: usize = x.iter().map(|x| x.shape().elements()).sum();
            assert_eq!(all_numbers(&slopes).len(), total, "{name}");
            let curved = hvp(|x: &Vec<Tensor>| function(x).square().sum(), &x, &x);
            assert_eq!(all_numbers(&curved).len(), total, "{name}");
        }
    }
}

#[test]
fn thirty_two_bits_give_the_same_but_for_their_roundings() {
    let roundings = ROUNDINGS * f64::from(f32::EPSILON) / f64::EPSILON;
    for Subject { name, shapes, function, .. } in subjects() {
        let x = tensors(&arguments(shapes, 6));
        let single: Vec<Tensor> = x.iter().map(|x| x.cast(DType::F32)).collect();
        let loss = |x: &Vec<Tensor>| function(x).square().sum();
        let (y, slopes) = (function(&single), grad(loss)(&single));
        assert_eq!(y.dtype(), DType::F32, "{name}");
        assert!(slopes.iter().all(|slope| slope.dtype() == DType::F32), "{name}");
        compare_all(name, &[y], &[function(&x)], roundings).unwrap();
        compare_all(name, &slopes, &grad(loss)(&x), roundings).unwrap();
    }
}

#[test]
fn views_are_as_good_as_leaves() {
    type View = fn(&Tensor) -> Tensor;
    fn every(x: &Tensor, index: Index) -> Tensor {
        x.slice(&vec![index; x.rank()])
    }
    let reversed: View = |x| x.permute((0..x.rank()).rev().collect::<Vec<_>>());
    let flipped: View = |x| every(x, s(..).step(-1));
    // From elements to a leaf that is seen as them, and how it is seen.
    let views: [(View, View); 3] = [
        (reversed, reversed),
        (flipped, flipped),
        (|x| (0..x.rank()).fold(x.clone(), |x, axis| x.repeat(2, axis as isize)), |x| every(x, s(1..).step(2))),
    ];
    for Subject { name, shapes, function, .. } in subjects() {
        let x = tensors(&arguments(shapes, 7));
        let loss = |x: &Vec<Tensor>| function(x).square().sum();
        for (hide, see) in views {
            let hidden: Vec<Tensor> = x.iter().map(|x| hide(x).detach().unwrap()).collect();
            let seen = |x: &Vec<Tensor>| x.iter().map(see).collect::<Vec<_>>();
            assert_eq!(numbers(&function(&seen(&hidden))), numbers(&function(&x)), "{name}");
            let slopes = grad(|x: &Vec<Tensor>| loss(&seen(x)))(&hidden);
            compare_all(name, &seen(&slopes), &grad(loss)(&x), ROUNDINGS).unwrap();
        }
    }
}

// ------------------------------------------------------------------ conventions

/// All judges at one point.
fn check_at(name: &str, f: Function<'_>, x: &[Plain]) {
    for judged in [check_first(f, x), check_second(f, x), check_modes(f, x)] {
        judged.unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

#[test]
fn products_have_right_derivatives_at_zeros() {
    for zeros in [&[0.5, 0.0, -2.0, 3.0, 1.5][..], &[0.0, 0.5, 0.0, -2.0, 3.0], &[0.0, 0.0, 0.0, 2.0, 5.0]] {
        let x = [Plain { shape: vec![5], elements: zeros.to_vec() }];
        check_at("prod", &|x| x[0].prod(), &x);
        check_at("cumprod", &|x| x[0].cumprod(0), &x);
    }
    let slope = |f: fn(&Tensor) -> Tensor, x: &[f64]| numbers(&grad(f)(&Tensor::from(x)));
    assert_eq!(slope(|x| x.prod(), &[2.0, 0.0, 3.0]), [0.0, 6.0, 0.0]);
    assert_eq!(slope(|x| x.prod(), &[2.0, 0.0, 0.0]), [0.0, 0.0, 0.0]);
    assert_eq!(slope(|x| x.cumprod(0).sum(), &[2.0, 0.0, 3.0, 4.0]), [1.0, 32.0, 0.0, 0.0]);
}

#[test]
fn equal_elements_keep_their_order_and_their_own_derivatives() {
    let x = Tensor::from([2.0, 1.0, 1.0, 3.0]);
    let slope = |f: &dyn Fn(&Tensor) -> Tensor| numbers(&grad(f)(&x));
    assert_eq!(slope(&|x| x.sort(0).slice(&[s(..2)]).sum()), [0.0, 1.0, 1.0, 0.0]);
    assert_eq!(slope(&|x| x.sort(0).slice(&[s(0)])), [0.0, 1.0, 0.0, 0.0]);
    assert_eq!(slope(&|x| x.top_k(3, 0).0.slice(&[s(2)])), [0.0, 1.0, 0.0, 0.0]);
    assert_eq!(slope(&Tensor::median), [0.5, 0.0, 0.5, 0.0]);
    assert_eq!(x.argsort(0).to_vec::<i64>().unwrap(), [1, 2, 0, 3]);
    assert_eq!(x.top_k(4, 0).1.to_vec::<i64>().unwrap(), [3, 0, 1, 2]);
    assert_eq!(x.argmin(0).to_vec::<i64>().unwrap(), [1]);
    // A bound that equals the element takes half.
    assert_eq!(numbers(&grad(|x: &Tensor| x.clip(-1.0, 1.0).sum())(&Tensor::from([1.0, -1.0, 0.0]))), [0.5, 0.5, 1.0]);
}

#[test]
fn what_is_no_number_stands_last_and_is_not_lost() {
    let x = Tensor::from([f64::NAN, 1.0, f64::INFINITY, -0.0, 0.0, f64::NEG_INFINITY]);
    assert_eq!(x.argsort(0).to_vec::<i64>().unwrap(), [5, 3, 4, 1, 2, 0]);
    assert!(numbers(&x.median())[0].is_nan());
    assert!(numbers(&x.quantile(0.0, 0))[0].is_nan());
    assert!(numbers(&x.top_k(1, 0).0)[0].is_nan());
    assert!(numbers(&Tensor::new::<f64>(&[], 0).median())[0].is_nan());
    assert_eq!(numbers(&Tensor::from([1.0, f64::INFINITY, 2.0]).median()), [2.0]);
    assert_eq!(x.is_finite().to_string(), "[false,  true, false,  true,  true, false]");
    assert_eq!(x.is_infinite().to_string(), "[false, false,  true, false, false,  true]");
    assert_eq!(x.is_nan().count_nonzero().to_string(), "1");
    let integers = Tensor::from([i64::MAX, i64::MIN, i64::MAX - 1]);
    assert_eq!(integers.sort(0).to_vec::<i64>().unwrap(), [i64::MIN, i64::MAX - 1, i64::MAX]);
    assert_eq!(integers.argmin(0).to_string(), "1");
    assert_eq!(integers.is_finite().all().to_string(), "true");
    // NaN beside the places that are read or replaced stays there.
    assert_eq!(numbers(&x.with_at(&[&Tensor::from([0_i64, 2, 5])], 7.0)), [7.0, 1.0, 7.0, 0.0, 0.0, 7.0]);
    let slope = grad(|x: &Tensor| x.masked(&x.is_finite()).square().sum())(&x);
    assert_eq!(numbers(&slope), [0.0, 2.0, 0.0, 0.0, 0.0, 0.0]);
}

#[test]
fn truth_values_are_counted() {
    let x = Tensor::from([[0.0, 1.0], [f64::NAN, 2.0]]);
    assert_eq!(x.all_over(1).to_string(), "[false,  true]");
    assert_eq!(x.any_over(0).to_string(), "[true, true]");
    assert_eq!(x.count_nonzero().to_string(), "3");
    assert_eq!(Tensor::zeros(0).all().to_string(), "true");
    assert_eq!(Tensor::zeros(0).any().to_string(), "false");
    assert_eq!(x.nonzero().to_vec::<i64>().unwrap(), [0, 1, 1, 0, 1, 1]);
    assert_eq!(**Tensor::from(2.0).nonzero().shape(), [1, 0]);
    assert_eq!(**Tensor::zeros([2, 3]).nonzero().shape(), [0, 2]);
    let infinite = Tensor::from([f64::INFINITY, f64::NAN, 1.0]);
    assert_eq!(infinite.is_close(&infinite, 1e-9, 1e-9).to_string(), "[ true, false,  true]");
    assert_eq!(Tensor::from(1.0).all_close(f64::INFINITY, 1.0, 0.0).to_string(), "false");
    // Truth values can be sorted, taken, and laid out.
    let truth = Tensor::from([[true, false, true]]);
    assert_eq!(truth.sort(1).to_string(), "[[false,  true,  true]]");
    assert_eq!(truth.tril(1).tile(&[2]).to_string(), "[[ true, false, false,  true, false, false]]");
    assert_eq!(truth.diagonal(2).masked(&truth.diagonal(2)).to_string(), "[true]");
    assert_eq!(truth.argmin(1).to_string(), "[1]");
}

#[test]
fn gradients_of_complex_parameters_point_uphill() {
    let z = Complex::new(Tensor::from([3.0, -1.0]), Tensor::from([4.0, 2.0]));
    // |z|² rises fastest along z itself: the gradient is 2z, not its conjugate.
    let slope = grad(|z: &Complex| z.abs_square().sum())(&z);
    assert_eq!(slope.to_vec().unwrap(), (&z * 2.0).to_vec().unwrap());
    // For a holomorphic function f the gradient of re f is the conjugate of its derivative.
    let slope = grad(|z: &Complex| z.exp().re.sum())(&z);
    compare_all("exp", &[packed(&slope)], &[packed(&z.exp().conj())], ROUNDINGS).unwrap();
    let slope = grad(|z: &Complex| z.abs().sum())(&Complex::real(&Tensor::from([0.0])));
    assert_eq!(numbers(&packed(&slope)), [0.0, 0.0]);
    let slope = grad(|z: &Complex| z.sqrt().re.sum())(&Complex::real(&Tensor::from([4.0, -4.0, 0.0])));
    assert_eq!(numbers(&packed(&slope)), [0.25, 0.0, 0.0, 0.0, 0.25, 0.0]);
    // Numbers whose squares overflow are divided all the same.
    let large = Complex::new(Tensor::from([1e200]), Tensor::from([-1e200]));
    compare_all("quotient", &[packed(&(&large / &large))], &[Tensor::from([[1.0], [0.0]])], ROUNDINGS).unwrap();
    let unequal = Complex { re: Tensor::zeros(2), im: Tensor::zeros(3) };
    assert!(unequal.to_string().contains("the parts have the shapes [2] and [3]"));
}

#[cfg(feature = "fft")]
#[test]
fn transforms_keep_lengths_and_turn_back() {
    for size in [1, 2, 3, 4, 5, 7, 8, 12, 13, 31, 32, 97] {
        let [re, im] = [1, 2].map(|seed| Tensor::normal(Key::new(seed), [2, size]).cast(DType::F64));
        let z = Complex::new(re, im);
        let spectrum = z.fft(1);
        compare_all("round trip", &[packed(&spectrum.ifft(1))], &[packed(&z)], ROUNDINGS).unwrap();
        let energy = [spectrum.abs_square().sum() / size as f64, z.abs_square().sum()].map(|energy| numbers(&energy));
        compare("Parseval", &energy[0], &energy[1], ROUNDINGS).unwrap();
        compare_all("real round trip", &[z.re.rfft(1).irfft(size, 1)], std::slice::from_ref(&z.re), ROUNDINGS).unwrap();
        compare_all("shift", &[z.re.fftshift(1).ifftshift(1)], std::slice::from_ref(&z.re), 0.0).unwrap();
    }
}

#[test]
fn samples_have_their_distributions() {
    let key = Key::new(5);
    let count = 20_000;
    // Six standard deviations of a mean of this many numbers that are 0 or 1.
    let bound = 6.0 * 0.5 / f64::from(count).sqrt();
    let size = count as usize;
    for probability in [0.0, 0.1, 0.5, 1.0] {
        let drawn = Tensor::full(size, probability, DType::F64).bernoulli(key);
        assert!((numbers(&drawn.mean())[0] - probability).abs() <= bound, "bernoulli {probability}");
        let kept = Tensor::ones(size).dropout(key, probability);
        let zeros = size as f64 - numbers(&kept.count_nonzero())[0];
        assert!((zeros / size as f64 - probability).abs() <= bound, "dropout {probability}");
    }
    let logits = Tensor::from([0.1, 0.2, 0.7]).ln().unsqueeze(0).broadcast_to([size, 3]);
    let counts = Tensor::zeros(3).add_at(&[&logits.categorical(key, -1)], 1.0);
    for (count, expected) in numbers(&counts).into_iter().zip([0.1, 0.2, 0.7]) {
        assert!((count / size as f64 - expected).abs() <= bound, "categorical {expected}");
    }
    let x = Tensor::linspace(-3.0, 3.0, 7);
    let unit = |x: &Tensor| x.stochastic_unit(key);
    assert!(numbers(&unit(&x)).iter().all(|y| *y == 0.0 || *y == 1.0));
    compare_all(
        "stochastic unit",
        &[grad(|x: &Tensor| unit(x).sum())(&x), hvp(|x: &Tensor| unit(x).sum(), &x, &x)],
        &[grad(|x: &Tensor| x.sigmoid().sum())(&x), hvp(|x: &Tensor| x.sigmoid().sum(), &x, &x)],
        ROUNDINGS,
    )
    .unwrap();
    let fired = Tensor::full(size, 1.0, DType::F32).stochastic_unit(key).mean();
    assert!((numbers(&fired)[0] - 1.0 / (1.0 + (-1.0_f64).exp())).abs() <= bound);
}

#[test]
fn the_derivative_at_a_knot_is_the_right_sided_one() {
    let (knots, values) = (Tensor::from([0.0, 1.0, 2.0]), Tensor::from([0.0, 1.0, 5.0]));
    let x = Tensor::from([0.0, 1.0, 2.0, f64::NAN]);
    let y = numbers(&x.interp(&knots, &values));
    assert_eq!(y[..3], [0.0, 1.0, 5.0]);
    assert!(y[3].is_nan());
    let slope = grad(|x: &Tensor| x.slice(&[s(..3)]).interp(&knots, &values).sum())(&x);
    assert_eq!(numbers(&slope)[..3], [1.0, 4.0, 4.0]);
    assert_eq!(numbers(&Tensor::from([-1.0, 9.0]).interp(&Tensor::from([0.0]), &Tensor::from([7.0]))), [7.0, 7.0]);
}

// ------------------------------------------------------------------ failures

#[test]
fn failures_pass_through_every_operation() {
    for Subject { name, shapes, function, .. } in subjects() {
        for broken in 0..shapes.len() {
            let mut x = tensors(&arguments(shapes, 8));
            x[broken] = Tensor::zeros(3).reshape(4);
            let error = function(&x).eval().expect_err(name);
            assert_eq!(error.operation(), "reshape", "{name}: {error}");
        }
    }
}

#[test]
fn invalid_arguments_are_errors_and_never_a_panic() {
    let shapes: [&[usize]; 7] = [&[], &[0], &[1], &[2, 0, 3], &[1, 1, 1, 1], &[1 << 62, 1 << 62], &[0, usize::MAX]];
    for Subject { name, shapes: own, function, .. } in subjects() {
        for shape in shapes {
            for dtype in [DType::F64, DType::F32, DType::I64, DType::Bool] {
                for strange in 0..own.len() {
                    // A leaf of truth values takes its memory at once.
                    if dtype == DType::Bool && shape.iter().any(|size| *size > 9) {
                        continue;
                    }
                    let mut x = tensors(&arguments(own, 9));
                    x[strange] = Tensor::full(shape, 1.0, dtype);
                    if let Err(error) = function(&x).eval() {
                        let origin = error.origin().unwrap_or_else(|| panic!("{name}: {error} stands nowhere"));
                        assert!(origin.file().contains("array_operations"), "{name} of {dtype}{shape:?}: {error}");
                    }
                }
            }
        }
    }
}

#[test]
fn errors_say_what_is_wrong_and_where() {
    let (x, i) = (Tensor::from([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), |k: i64| Tensor::from([k]));
    let failures: Vec<(Tensor, &str)> = vec![
        (x.prod_over(2), "prod: there is no axis 2 in the shape [2, 3]"),
        (Tensor::from([true]).prod(), "prod: truth values are not multiplied"),
        (x.cumprod(-3), "cumprod: there is no axis -3"),
        (x.sort(isize::MIN), "sort: there is no axis -9223372036854775808"),
        (Tensor::zeros([0, 2]).argmin(0), "argmin: axis 0 is empty"),
        (x.top_k(usize::MAX, 1).1, "top_k: the 18446744073709551615 largest are asked for on axis 1, which has size 3"),
        (x.quantile(f64::NAN, 0), "quantile: the share NaN is not between 0 and 1"),
        (i(1).median(), "median: it is defined for floating-point numbers, not for i64"),
        (x.take_along(&i(0), 0), "take_along: indices of the shape [1] must have as many axes as [2, 3]"),
        (x.take_along(&Tensor::from([[3_i64]]), 1), "take_along: index 3 is not on axis 1, which has size 3"),
        (x.take_along(&Tensor::from([[i64::MIN]]), 0), "take_along: index -9223372036854775808 is not on axis 0"),
        (x.take_along(&Tensor::from([[0.0]]), 0), "take_along: indices must be i64, not f64"),
        (x.index_at(&[]), "index_at: 0 tensors of indices"),
        (x.index_at(&[&i(0), &i(0), &i(0)]), "index_at: 3 tensors of indices for the axes of the shape [2, 3]"),
        (x.index_at(&[&i(0), &i(-4)]), "index_at: index -4 is not on axis 1, which has size 3"),
        (x.with_at(&[&i(2)], 0.0), "with_at: index 2 is not on axis 0, which has size 2"),
        (
            x.cast(DType::F32).with_at(&[&i(0)], Tensor::from([1.0])),
            "with_at: values of type f64 would lose precision in a tensor of type f32",
        ),
        (x.add_at(&[&i(0)], Tensor::from([1.0, 2.0])), "broadcast_to: the shape [2] does not stretch to [1, 3]"),
        (x.put_along(&Tensor::zeros([3, 1]).cast(DType::I64), 0.0, 1), "put_along: beside axis 1, [2, 3] and [3, 1]"),
        (Tensor::from(1.0).embedding(&i(0)), "embedding: 1 tensors of indices for the axes of the shape []"),
        (x.masked(&x), "masked: the mask must be truth values, not f64"),
        (x.masked(&Tensor::from([true])), "masked: a mask of the shape [1] does not lie on the shape [2, 3]"),
        (x.squeeze(0), "squeeze: axis 0 has size 2, not 1"),
        (x.unsqueeze(4), "unsqueeze: the shape [2, 3] has no place for an axis 4"),
        (x.split(&[usize::MAX, 2], 0)[1].clone(), "split: parts of the sizes [18446744073709551615, 2] do not"),
        (x.chunk(usize::MAX, 0)[0].clone(), "chunk: there is no dividing into 18446744073709551615 parts"),
        (x.chunk(0, 0)[0].clone(), "chunk: there is no dividing into 0 parts"),
        (x.array_split(0, 0)[0].clone(), "array_split: there is no dividing into 0 parts"),
        (i(0).diagonal(0), "diagonal: it takes a matrix"),
        (x.tile(&[usize::MAX, usize::MAX]), "read: an array of the shape"),
        (x.repeat(usize::MAX, 0), "read: an array of the shape"),
        (x.interp(&x, &x), "interp: knots and values must be vectors of one length above 0"),
        (x.interp(&Tensor::from([1.0, 1.0]), &Tensor::from([1.0, 1.0])), "interp: the knots must increase"),
        (x.interpolate(&[1, 2, 3], Interpolation::Nearest), "interpolate: 3 sizes for the 2 axes of [2, 3]"),
        (x.interpolate(&[usize::MAX], Interpolation::Nearest), "interpolate: an axis of size"),
        (Tensor::zeros([0]).interpolate(&[2], Interpolation::Nearest), "interpolate: axis 0 is empty"),
        (x.dropout(Key::new(1), -0.1), "dropout: the rate -0.1 is not between 0 and 1"),
        (x.dropout(Key::new(1), f64::NAN), "dropout: the rate NaN is not between 0 and 1"),
        (i(1).bernoulli(Key::new(1)), "bernoulli: it is defined for floating-point numbers, not for i64"),
        (x.categorical(Key::new(1), 2), "categorical: there is no axis 2"),
        (Tensor::zeros([1 << 62]).dropout(Key::new(1), 0.5), "read: an array of the shape"),
        (Tensor::meshgrid([&x])[0].clone(), "meshgrid: it takes vectors, not the shape [2, 3]"),
        #[cfg(feature = "fft")]
        (x.rfft(1).irfft(6, 1), "irfft: 2 places are those of 2 or 3 real numbers, not of 6"),
        #[cfg(feature = "fft")]
        (Tensor::zeros([2, 0]).rfft(1).re, "rfft: axis 1 is empty"),
        #[cfg(feature = "fft")]
        (Complex::real(&i(1)).fft(0).im, "fft: it is defined for floating-point numbers, not for i64"),
    ];
    for (failed, expected) in failures {
        let error = failed.eval().expect_err(expected);
        assert!(error.to_string().starts_with(expected), "{error}\nis not\n{expected}");
        assert!(error.origin().is_some_and(|origin| origin.file().ends_with("array_operations.rs")), "{error}");
    }
    // Extreme numbers that mean something.
    assert_eq!(numbers(&x.roll(isize::MIN, 1)), numbers(&x.roll(-2, 1)));
    assert_eq!(numbers(&x.tril(isize::MAX)), numbers(&x));
    assert_eq!(numbers(&x.triu(isize::MAX).abs().sum()), [0.0]);
    assert_eq!(**x.diagonal(isize::MIN).shape(), [0]);
    assert_eq!(numbers(&packed(&Complex::real(&Tensor::from([1.0])).powi(i32::MIN))), [1.0, 0.0]);
}

#[test]
fn sizes_that_depend_on_values_are_refused_inside_transforms() {
    let x = Tensor::from([[1.0, -1.0], [2.0, 3.0]]);
    let batched = vmap(|row: &Tensor| row.masked(&row.gt(0.0)))(&x);
    let error = batched.eval().expect_err("the sizes differ");
    assert!(error.to_string().starts_with("masked: its size depends on values that are not known"), "{error}");
    assert!(error.to_string().contains("choose"), "{error}");
    let error = vmap(|row: &Tensor| row.nonzero())(&x).eval().expect_err("the sizes differ");
    assert!(error.to_string().starts_with("nonzero: its size depends on values"), "{error}");
    let scanned = glassgrad::scan(
        |carry: &Tensor, row: &Tensor| (carry + row.masked(&row.gt(0.0)).sum(), ()),
        &Tensor::from(0.0),
        &x,
    );
    assert!(scanned.0.eval().is_err());
    // A mask that all examples share is known.
    let shared = vmap(|row: &Tensor| row.masked(&Tensor::from([false, true])))(&x);
    assert_eq!(numbers(&shared), [-1.0, 3.0]);
    // A mask that could not be computed tells why.
    let error = x.masked(&x.take(&Tensor::from([5_i64]), 0).gt(0.0)).eval().expect_err("there is no row 5");
    assert!(!error.to_string().contains("its size depends"), "{error}");
}
