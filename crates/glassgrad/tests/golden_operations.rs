//! Operations and compositions on tensors against JAX and PyTorch.
//!
//! The files `golden/*.json` hold for each case the inputs, a weight w, a direction v, and what both peers agree on:
//! the value f(x), the gradient of Σ w·f and the product of its Hessian with v. The tables beside it say what each
//! name is in this engine. A name that only one side knows fails the test. Every case is put through every mode:
//! forward, reverse, both pairs of them, 32 bits, batches, and inputs that lie scattered in memory.

#[path = "judges/closeness.rs"]
mod closeness;
#[cfg(feature = "linalg")]
#[path = "golden/matrices.rs"]
mod matrices;
#[path = "golden/models.rs"]
mod models;
#[path = "golden/page.rs"]
mod page;
#[path = "golden/pointwise.rs"]
mod pointwise;
#[cfg(feature = "fft")]
#[path = "golden/spectra.rs"]
mod spectra;
#[path = "golden/tensors.rs"]
mod tensors;
#[path = "golden/windows.rs"]
mod windows;

use std::collections::BTreeSet;
use std::slice::from_ref;

#[allow(dead_code)]
#[path = "judges/differences.rs"]
mod differences;

use closeness::{agree, size_of_all};
use glassgrad::dtype::DType;
use glassgrad::expr::{Index, s};
use glassgrad::tree::Tree;
use glassgrad::{Tensor, grad, hvp, jvp, vjp, vmap};
use serde_json::Value;

/// A name of the file, and what it is here.
pub(crate) type Entry = (&'static str, Function);
/// A function of the inputs of a case.
type Function = fn(&[Tensor]) -> Tensor;

const TABLES: &[&[Entry]] = &[
    pointwise::ONE_ARGUMENT,
    pointwise::SEVERAL_ARGUMENTS,
    tensors::REDUCTIONS,
    tensors::PRODUCTS,
    tensors::SHAPES,
    models::RECURRENCES,
    models::LOSSES,
    models::LAYERS,
    models::FIELDS,
    windows::ORDERS,
    windows::CONVOLUTIONS,
    windows::INTERPOLATIONS,
    windows::COMPLEX,
    #[cfg(feature = "fft")]
    spectra::SPECTRA,
    #[cfg(feature = "linalg")]
    matrices::MATRICES,
];

/// The files: a feature that is optional has one of its own.
const FILES: &[&str] = &[
    include_str!("golden/operations.json"),
    include_str!("golden/page.json"),
    #[cfg(feature = "fft")]
    include_str!("golden/page_fft.json"),
    #[cfg(feature = "fft")]
    include_str!("golden/spectra.json"),
    #[cfg(feature = "linalg")]
    include_str!("golden/page_linalg.json"),
    #[cfg(feature = "linalg")]
    include_str!("golden/matrices.json"),
];

/// How many roundings of the largest number of a result it may be away from the peers', who differ by as many.
const ROUNDINGS: f64 = 256.0;
/// As many roundings in 32 bits.
const SHORT_ROUNDINGS: f64 = ROUNDINGS * (f32::EPSILON as f64 / f64::EPSILON);

/// As many roundings for extrapolated differences: a rounding of the values, divided by the smallest step.
const DIFFERENCES: f64 = 1048576.0;

/// An entry along the first axis.
pub(crate) fn at(x: &Tensor, place: isize) -> Tensor {
    x.slice(&[s(place)])
}

/// Numbers in the element type of a tensor.
pub(crate) fn constant(beside: &Tensor, numbers: &[f64]) -> Tensor {
    Tensor::new(numbers, numbers.len()).cast(beside.dtype())
}

/// A case of the file.
struct Case {
    name: String,
    inputs: Vec<Tensor>,
    weight: Tensor,
    directions: Vec<Tensor>,
    value: Tensor,
    gradients: Vec<Tensor>,
    products: Vec<Tensor>,
    function: fn(&[Tensor]) -> Tensor,
}

fn numbers(list: &Value) -> Vec<f64> {
    list.as_array().expect("a list").iter().map(|number| number.as_f64().expect("a number")).collect()
}

fn tensor(array: &Value) -> Tensor {
    let shape: Vec<usize> = numbers(&array["shape"]).iter().map(|size| *size as usize).collect();
    match &array["integers"] {
        Value::Null => Tensor::new(&numbers(&array["numbers"]), shape),
        integers => Tensor::new(&numbers(integers).iter().map(|k| *k as i64).collect::<Vec<_>>(), shape),
    }
}

/// All names that are known here: those of the tables, and the rows of the page.
fn entries() -> Vec<(String, Function)> {
    let tables = TABLES.iter().copied().flatten().map(|(name, function)| ((*name).to_owned(), *function));
    let rows = page::rows().into_iter().map(|(code, _, function)| (page::without_spaces(code), function));
    tables.chain(rows).collect()
}

/// All cases of the files with their functions.
fn cases() -> Vec<Case> {
    let known = entries();
    let read = |case: &Value| {
        let name = case["name"].as_str().expect("a name").to_owned();
        let inputs: Vec<Tensor> = case["inputs"].as_array().expect("a list").iter().map(tensor).collect();
        let value = tensor(&case["value"]);
        let like_inputs = |lists: &Value| -> Vec<Tensor> {
            let lists = lists.as_array().expect("a list");
            let shapes = inputs.iter().filter(|input| input.is_float()).map(|input| input.shape().clone());
            assert_eq!(lists.len(), shapes.clone().count(), "{name}");
            shapes.zip(lists).map(|(shape, list)| Tensor::new(&numbers(list), shape)).collect()
        };
        let (_, function) = known.iter().find(|entry| entry.0 == name).unwrap_or_else(|| {
            panic!("the file has a case '{name}' that no table knows: add a closure to tests/golden/*.rs")
        });
        Case {
            weight: Tensor::new(&numbers(&case["weight"]), value.shape().clone()),
            directions: like_inputs(&case["directions"]),
            gradients: like_inputs(&case["gradients"]),
            products: like_inputs(&case["products"]),
            function: *function,
            name,
            inputs,
            value,
        }
    };
    let parse = |file: &&str| -> Value { serde_json::from_str(file).expect("JSON") };
    let files: Vec<Value> = FILES.iter().map(parse).collect();
    files.iter().flat_map(|file| file["cases"].as_array().expect("a list")).map(read).collect()
}

/// Tensors in floating point, which move; integers stay.
fn moving(inputs: &[Tensor]) -> Vec<Tensor> {
    inputs.iter().filter(|input| input.is_float()).cloned().collect()
}

/// All inputs, with these in the places of those in floating point.
fn with_moved(inputs: &[Tensor], moved: &[Tensor]) -> Vec<Tensor> {
    let mut moved = moved.iter();
    let pick = |input: &Tensor| if input.is_float() { moved.next().cloned() } else { Some(input.clone()) };
    inputs.iter().map_while(pick).collect()
}

/// Everything that is computed from a case: the value, and trees of the inputs in floating point.
struct Results {
    value: Tensor,
    gradients: Vec<Tensor>,
    slope: Tensor,
    products: Vec<Tensor>,
    products_in_reverse: Vec<Tensor>,
}

/// Value and derivatives of Σ w·f, each in its own mode, after the inputs were laid out anew.
fn results(case: &Case, dtype: DType, laid_out: fn(&Tensor) -> Tensor) -> Results {
    let in_type = |tensor: &Tensor| if tensor.is_float() { tensor.cast(dtype) } else { tensor.clone() };
    let inputs: Vec<Tensor> = case.inputs.iter().map(in_type).collect();
    let (x, v) = (moving(&inputs), case.directions.iter().map(in_type).collect::<Vec<_>>());
    let weight = in_type(&case.weight);
    let value = |x: &Vec<Tensor>| {
        let whole: Vec<Tensor> = with_moved(&inputs, x).iter().map(laid_out).collect();
        (case.function)(&whole)
    };
    let total = |x: &Vec<Tensor>| (value(x) * &weight).sum();
    Results {
        value: value(&x),
        gradients: grad(total)(&x),
        slope: jvp(total, &x, &v).1,
        products: hvp(total, &x, &v),
        products_in_reverse: grad(|x: &Vec<Tensor>| grad(total)(x).inner_product(&v))(&x),
    }
}

/// What was wrong in a case; a test goes through all cases before it fails.
struct Complaints(Vec<String>);

impl Complaints {
    /// Complains unless two tensors agree but for roundings of the largest number of either list.
    fn unless_near(&mut self, what: &str, actual: &[Tensor], expected: &[Tensor], roundings: f64) {
        for (place, (actual, expected)) in actual.iter().zip(expected).enumerate() {
            let what = if place == 0 { what.to_owned() } else { format!("{what} in input {place}") };
            if actual.error().is_none() && actual.shape() != expected.shape() {
                self.0.push(format!("{what}: the shape is {}, not {}", actual.shape(), expected.shape()));
                continue;
            }
            match (actual.to_f64_vec(), expected.to_f64_vec()) {
                (Ok(a), Ok(b)) => {
                    let size = size_of_all(&b);
                    if !a.iter().zip(&b).all(|(a, b)| agree(*a, *b, size, roundings)) {
                        let distance = a.iter().zip(&b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
                        self.0.push(format!("{what}: {a:?} is not {b:?}, {distance:.1e} away"));
                    }
                }
                (Err(error), _) | (_, Err(error)) => self.0.push(format!("{what}: {error}")),
            }
        }
        if actual.len() != expected.len() {
            self.0.push(format!("{what}: {} tensors, not {}", actual.len(), expected.len()));
        }
    }

    fn compare(&mut self, name: &str, found: &Results, case: &Case, roundings: f64) {
        let slope: f64 = case.gradients.inner_product(&case.directions).item().expect("a number");
        self.unless_near(&format!("{name}: value"), from_ref(&found.value), from_ref(&case.value), roundings);
        self.unless_near(&format!("{name}: gradient"), &found.gradients, &case.gradients, roundings);
        self.unless_near(&format!("{name}: forward"), from_ref(&found.slope), &[Tensor::from(slope)], roundings);
        self.unless_near(&format!("{name}: forward over reverse"), &found.products, &case.products, roundings);
        self.unless_near(
            &format!("{name}: reverse over reverse"),
            &found.products_in_reverse,
            &case.products,
            roundings,
        );
    }

    #[track_caller]
    fn settle(self) {
        assert!(self.0.is_empty(), "{} complaints:\n{}", self.0.len(), self.0.join("\n"));
    }
}

#[test]
fn names_of_file_and_tables_are_the_same() {
    let cases = cases();
    let in_file: BTreeSet<&str> = cases.iter().map(|case| &*case.name).collect();
    let entries = entries();
    let in_tables: BTreeSet<&str> = entries.iter().map(|entry| &*entry.0).collect();
    assert_eq!(in_file.len(), cases.len(), "a name stands twice in the file");
    assert_eq!(in_tables.len(), entries.len(), "a name stands twice in the tables");
    assert_eq!(in_file, in_tables, "run python bench/golden/operations.py and bench/golden/page.py");
    assert!(cases.len() >= 200, "there are {} cases", cases.len());
}

#[test]
fn values_and_derivatives_are_those_of_the_peers() {
    let mut complaints = Complaints(Vec::new());
    for case in cases() {
        complaints.compare(&case.name, &results(&case, DType::F64, Tensor::clone), &case, ROUNDINGS);
    }
    complaints.settle();
}

#[test]
fn in_32_bits_they_are_the_same_but_for_as_many_roundings() {
    let mut complaints = Complaints(Vec::new());
    for case in cases() {
        complaints.compare(&case.name, &results(&case, DType::F32, Tensor::clone), &case, SHORT_ROUNDINGS);
    }
    complaints.settle();
}

/// On a GPU: `cargo test --features cuda --test tensors -- --ignored --nocapture gpu`. Prints which operations ran on the host.
#[cfg(feature = "cuda")]
#[test]
#[ignore = "needs a GPU"]
fn on_a_gpu_values_and_derivatives_are_those_of_the_peers() {
    use glassgrad::exec::Target;
    use glassgrad::opt::program::{CallKind, Step};
    // Most of the time goes into the compilation of kernels, so that several threads share the cases.
    const THREADS: usize = 14;
    let checked = std::sync::atomic::AtomicUsize::new(0);
    let check = |thread: usize| {
        let context = glassgrad::runtime::Context::open(Target::Cuda(0)).expect("a GPU");
        let mut complaints = Complaints(Vec::new());
        let mut on_host = BTreeSet::new();
        context.run(|| {
            for case in cases().iter().skip(thread).step_by(THREADS) {
                let found = results(case, DType::F64, Tensor::clone);
                for tensor in std::iter::once(&found.value).chain(&found.gradients).chain(&found.products) {
                    let Ok(program) = tensor.program() else { continue };
                    let host = program.steps.iter().filter_map(|step| match step {
                        Step::Call(call) if matches!(call.kind, CallKind::Host(_)) => Some(call.kind.describe()),
                        _ => None,
                    });
                    on_host.extend(host);
                }
                let before = complaints.0.len();
                complaints.compare(&case.name, &found, case, ROUNDINGS);
                // A run that is interrupted leaves what it has.
                let number = checked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
                complaints.0[before..].iter().for_each(|complaint| println!("{complaint}"));
                if number.is_multiple_of(50) {
                    println!("{number} cases checked; on the host so far, by one of the threads: {on_host:?}");
                }
            }
        });
        (complaints, on_host)
    };
    let check = &check;
    let found: Vec<(Complaints, BTreeSet<String>)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || check(thread))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    let on_host: BTreeSet<&String> = found.iter().flat_map(|(_, on_host)| on_host).collect();
    println!("{} cases; on the host: {on_host:?}", cases().len());
    Complaints(found.into_iter().flat_map(|(complaints, _)| complaints.0).collect()).settle();
}

/// The slow executor computes by definition, and programs must say the same, whatever the peers say.
#[test]
fn programs_compute_what_the_definition_says() {
    let mut complaints = Complaints(Vec::new());
    for case in cases() {
        for (dtype, roundings) in [(DType::F64, ROUNDINGS), (DType::F32, SHORT_ROUNDINGS)] {
            let found = results(&case, dtype, Tensor::clone);
            let all = std::iter::once(&found.value).chain(&found.gradients).chain(&found.products);
            for (place, tensor) in all.enumerate() {
                // By definition first: what has a value already is not computed again.
                let by_definition = match tensor.eval_by_reference() {
                    Ok(array) => {
                        let numbers: Vec<f64> = (0..array.buffer().len()).map(|k| array.buffer().get(k)).collect();
                        Tensor::new(&numbers, array.shape().clone())
                    }
                    Err(error) => {
                        complaints.0.push(format!("{}: {error}", case.name));
                        continue;
                    }
                };
                let what = format!("{} in {dtype}, tensor {place}", case.name);
                complaints.unless_near(&what, from_ref(tensor), &[by_definition], roundings);
            }
        }
    }
    complaints.settle();
}

#[test]
fn tails_keep_their_digits() {
    let tails: Vec<Case> = cases().into_iter().filter(|case| case.name.ends_with("far out")).collect();
    assert!(tails.len() >= 5, "there are {} cases", tails.len());
    for case in tails {
        let (found, expected) = ((case.function)(&case.inputs).to_f64_vec(), case.value.to_f64_vec());
        for (a, b) in found.expect("a value").iter().zip(&expected.expect("a value")) {
            assert!(agree(*a, *b, b.abs(), ROUNDINGS), "{}: {a:e} is not {b:e}", case.name);
        }
    }
}

#[test]
fn a_gradient_that_is_wrong_by_a_thousandth_is_noticed() {
    for mut case in cases() {
        // Steps are flat, and in the tails a thousandth of the gradient is less than a rounding of 1.
        let flat = case.gradients.iter().all(|gradient| gradient.norm().item().expect("a number") < 1e-9);
        case.weight = &case.weight * 1.001;
        let mut complaints = Complaints(Vec::new());
        let wrong = results(&case, DType::F64, Tensor::clone).gradients;
        complaints.unless_near(&case.name, &wrong, &case.gradients, ROUNDINGS);
        assert!(flat || !complaints.0.is_empty(), "{}", case.name);
    }
}

/// The same tensor, out of the middle of a larger one, backwards and with its axes exchanged twice.
fn scattered(x: &Tensor) -> Tensor {
    let order: Vec<usize> = (0..x.rank()).rev().collect();
    let reversed = x.flip((0..x.rank()).collect::<Vec<_>>()).permute(&order);
    let doubled = Tensor::stack([&reversed, &reversed.zeros_like()], x.rank()).pad(&vec![(1, 2); x.rank() + 1]);
    let mut inside = vec![Index::Range(Some(1), Some(-2), 1); x.rank()];
    inside.push(s(1));
    let taken = doubled.slice(&inside).permute(&order);
    taken.slice(&vec![s(..).step(-1); x.rank()])
}

#[test]
fn inputs_may_lie_scattered_in_memory() {
    let mut complaints = Complaints(Vec::new());
    for case in cases() {
        complaints.compare(&case.name, &results(&case, DType::F64, scattered), &case, ROUNDINGS);
    }
    complaints.settle();
}

/// Gradients of the rows of the page against differences of values, for those who trust no peer.
#[test]
fn gradients_of_the_page_are_those_of_differences() {
    let mut complaints = Complaints(Vec::new());
    let rows: BTreeSet<String> = page::rows().iter().map(|row| page::without_spaces(row.0)).collect();
    for case in cases().into_iter().filter(|case| rows.contains(&case.name)) {
        let x = moving(&case.inputs);
        let total = |x: &Vec<Tensor>| ((case.function)(&with_moved(&case.inputs, x)) * &case.weight).sum();
        let flat: Vec<f64> = x.iter().flat_map(|x| x.to_f64_vec().expect("numbers")).collect();
        let value = |flat: &[f64]| {
            let mut rest = flat;
            let shaped = x.iter().map(|x| {
                let (own, others) = rest.split_at(x.shape().elements());
                rest = others;
                Tensor::new(own, x.shape().clone())
            });
            total(&shaped.collect()).item().expect("a number")
        };
        let expected: Vec<f64> = (0..flat.len()).map(|place| differences::partial(value, &flat, place)).collect();
        let found: Vec<f64> = grad(total)(&x).iter().flat_map(|slope| slope.to_f64_vec().expect("numbers")).collect();
        complaints.unless_near(&case.name, &[Tensor::from(found)], &[Tensor::from(expected)], DIFFERENCES);
    }
    complaints.settle();
}

#[test]
fn forward_and_reverse_are_transposes() {
    let mut complaints = Complaints(Vec::new());
    for case in cases() {
        let function = |x: &Vec<Tensor>| (case.function)(&with_moved(&case.inputs, x));
        let x = moving(&case.inputs);
        let (_, pull) = vjp(function, &x);
        let (_, tangent) = jvp(function, &x, &case.directions);
        let cotangent = case.value.sin() + 0.5;
        let (forward, reverse) = (tangent.inner(&cotangent), pull(&cotangent).inner_product(&case.directions));
        complaints.unless_near(&case.name, &[forward], &[reverse], ROUNDINGS);
    }
    complaints.settle();
}

/// Another input of the same kind: a little smaller, or integers in reverse order.
fn neighbour(x: &Tensor) -> Tensor {
    match x.is_float() {
        true => x * (63.0 / 64.0),
        false => x.reshape(x.shape().elements()).flip([0]).reshape(x.shape().clone()),
    }
}

#[test]
fn a_batch_is_its_examples() {
    let mut complaints = Complaints(Vec::new());
    for case in cases() {
        let value = |x: &Vec<Tensor>| (case.function)(x);
        let slope = |x: &Vec<Tensor>| {
            let total = |moved: &Vec<Tensor>| ((case.function)(&with_moved(x, moved)) * &case.weight).sum();
            hvp(total, &moving(x), &case.directions)
        };
        let other: Vec<Tensor> = case.inputs.iter().map(neighbour).collect();
        let stacked = |a: &[Tensor], b: &[Tensor]| -> Vec<Tensor> {
            a.iter().zip(b).map(|(a, b)| Tensor::stack([a, b], 0)).collect()
        };
        let batch = stacked(&case.inputs, &other);
        let expected = stacked(&[value(&case.inputs)], &[value(&other)]);
        complaints.unless_near(&format!("{}: value", case.name), &[vmap(value)(&batch)], &expected, ROUNDINGS);
        let expected = stacked(&slope(&case.inputs), &slope(&other));
        complaints.unless_near(&format!("{}: products", case.name), &vmap(slope)(&batch), &expected, ROUNDINGS);
    }
    complaints.settle();
}
