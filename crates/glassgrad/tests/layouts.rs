//! Products of matrices read their factors where they lie: transposes, reshapes, slices and batches are strides, and
//! no loop copies anything before a product.

use glassgrad::dtype::DType;
use glassgrad::exec::Target;
use glassgrad::expr::s;
use glassgrad::opt::graph::Graph;
use glassgrad::opt::lower::lower;
use glassgrad::opt::passes::optimise;
use glassgrad::opt::program::{Program, Step};
use glassgrad::rng::Key;
use glassgrad::{Tensor, grad, hessian};

fn normal(seed: u64, shape: &[usize]) -> Tensor {
    Tensor::normal(Key::new(seed), shape).detach().expect("random numbers")
}

fn program(tensors: &[&Tensor]) -> Program {
    lower(&optimise(Graph::of(tensors).expect("a graph").0), Target::Cpu.capabilities())
}

/// The steps by kind: loops, products, and others.
fn kinds(program: &Program) -> [usize; 3] {
    let count = |kind: fn(&Step) -> bool| program.steps.iter().filter(|step| kind(step)).count();
    let (loops, products) =
        (count(|step| matches!(step, Step::Loop(_))), count(|step| matches!(step, Step::Contract(_))));
    [loops, products, program.steps.len() - loops - products]
}

/// One product and nothing else, and the value by definition.
fn assert_one_product(what: &str, tensor: &Tensor) {
    let program = program(&[tensor]);
    assert_eq!(kinds(&program), [0, 1, 0], "{what}\n{program}");
    let (expected, actual) = (tensor.eval_by_reference().expect("a value"), tensor.eval().expect("a value"));
    for place in 0..expected.buffer().len() {
        let (expected, actual) = (expected.buffer().get(place), actual.buffer().get(place));
        assert!((expected - actual).abs() <= 1e-4 * (1.0 + expected.abs()), "{what}: {actual} is not {expected}");
    }
}

#[test]
fn transposed_factors() {
    let (x, y) = (normal(1, &[5, 7]), normal(2, &[6, 7]));
    assert_one_product("x yᵀ", &x.matmul(&y.transpose()));
    assert_one_product("(y xᵀ)ᵀ without its copy", &Tensor::einsum("ik,jk->ij", [&x, &y]));
    let (x, y) = (normal(1, &[7, 5]), normal(2, &[7, 6]));
    assert_one_product("xᵀ y", &x.transpose().matmul(&y));
    assert_one_product("xᵀ x", &x.transpose().matmul(&x));
    assert_one_product("xᵀ yᵀ", &x.transpose().matmul(&normal(3, &[4, 7]).transpose()));
    // A factor that comes from a rule goes into the product; a number of the user is an input, and takes a loop.
    assert_one_product("-xᵀ y", &-x.transpose().matmul(&y));
    // A product that is asked for transposed is written transposed.
    assert_one_product("(xᵀ y)ᵀ", &x.transpose().matmul(&y).transpose());
}

#[test]
fn batched_products() {
    let (queries, keys) = (normal(1, &[2, 3, 5, 4]), normal(2, &[2, 3, 6, 4]));
    assert_one_product("bhqd,bhkd->bhqk", &Tensor::einsum("bhqd,bhkd->bhqk", [&queries, &keys]));
    let (weights, values) = (normal(3, &[2, 3, 5, 6]), normal(4, &[2, 3, 6, 4]));
    assert_one_product("bhqk,bhkd->bhqd", &weights.matmul(&values));
    // Heads beside one another in memory, as a linear layer leaves them.
    let (queries, keys) = (normal(1, &[2, 5, 12]), normal(2, &[2, 6, 12]));
    let heads = |x: &Tensor, length: usize| x.reshape([2, length, 3, 4]).permute([0, 2, 1, 3]);
    let scores = heads(&queries, 5).matmul(&heads(&keys, 6).permute([0, 1, 3, 2]));
    assert_one_product("heads of queries and keys", &scores);
    // Back to rows of all heads: written where they belong.
    let joined = weights.matmul(&heads(&keys, 6)).permute([0, 2, 1, 3]).reshape([2, 5, 12]);
    assert_one_product("heads put together again", &joined);
    assert_one_product("bij,jk->bik", &normal(5, &[3, 4, 5]).matmul(&normal(6, &[5, 6])));
}

#[test]
fn products_of_views() {
    let (x, y) = (normal(1, &[8, 9]), normal(2, &[9, 8]));
    assert_one_product("rows and columns", &x.slice(&[s(1..5), s(2..8)]).matmul(&y.slice(&[s(3..9), s(..4)])));
    assert_one_product("every second", &x.slice(&[s(..).step(2), s(..)]).matmul(&y.slice(&[s(..), s(..).step(3)])));
    assert_one_product("backwards", &x.flip([1]).matmul(&y.flip([0])));
    assert_one_product("reshaped", &normal(3, &[2, 4, 9]).reshape([8, 9]).matmul(&y));
    assert_one_product("reshaped and transposed", &normal(3, &[9, 2, 4]).reshape([9, 8]).transpose().matmul(&y));
    assert_one_product("a part of a batch", &normal(4, &[3, 8, 9]).slice(&[s(1)]).matmul(&y));
    assert_one_product("unfolded and folded", &x.reshape([2, 4, 9]).matmul(&y).reshape([8, 8]));
}

/// In the gradient of a network every product is one step, and the loops between them compute something.
#[test]
fn weight_gradients_of_layers() {
    let sizes = [6, 10, 8, 4];
    let weights: Vec<Tensor> = sizes.windows(2).map(|pair| normal(pair[0] as u64, &[pair[0], pair[1]])).collect();
    let given = normal(9, &[16, 6]);
    let gradient = grad(move |weights: &Vec<Tensor>| {
        let mut x = given.clone();
        for weights in weights {
            x = x.matmul(weights).tanh();
        }
        x.square().sum()
    })(&weights);
    // Three layers forward, three gradients of weights, two of what lies between.
    assert_products_alone(&gradient, 8);
}

/// Asserts that a program consists of `count` products and fused loops, without data movement.
fn assert_products_alone(tensors: &[Tensor], count: usize) {
    let program = program(&tensors.iter().collect::<Vec<_>>());
    let [_, products, others] = kinds(&program);
    assert_eq!((products, others), (count, 0), "{program}");
    for step in &program.steps {
        if let Step::Loop(fused) = step {
            let sums = fused.stores.iter().any(|store| store.reduction.is_some());
            assert!(sums || !fused.code.is_empty(), "a loop that only copies\n{program}");
        }
    }
}

/// Attention with heads, from the projections to the joined heads, and its gradient for all weights.
#[test]
fn attention_and_its_gradients() {
    let (batch, length, heads, width) = (2, 5, 3, 4);
    let all = heads * width;
    let weights: Vec<Tensor> = (0..4).map(|k| normal(k, &[all, all])).collect();
    let given = normal(9, &[batch, length, all]);
    let gradient = grad(move |weights: &Vec<Tensor>| {
        let split = |x: Tensor| x.reshape([batch, length, heads, width]).permute([0, 2, 1, 3]);
        let [queries, keys, values] = [0, 1, 2].map(|k| split(given.matmul(&weights[k])));
        let scores = queries.matmul(&keys.permute([0, 1, 3, 2])).softmax(3);
        let joined = scores.matmul(&values).permute([0, 2, 1, 3]).reshape([batch, length, all]);
        joined.matmul(&weights[3]).square().sum()
    })(&weights);
    // Forward: three projections, scores, values, the last; backward: two for each of scores, values and the last, and
    // one for each projection.
    assert_products_alone(&gradient, 6 + 2 * 3 + 3);
}

/// Beyond the size of small products: factors and results that lie along rows, along columns, and backwards.
#[test]
fn large_products_in_every_layout() {
    let laid_out: [fn(&Tensor) -> Tensor; 4] = [Tensor::clone, |x| x.flip([0]), |x| x.flip([1]), |x| x.flip([0, 1])];
    for dtype in [DType::F32, DType::F64] {
        let [a, b] = [normal(1, &[60, 70]), normal(2, &[70, 80])].map(|x| x.cast(dtype).detach().expect("numbers"));
        let [at, bt] = [&a, &b].map(|x| x.transpose().detach().expect("numbers"));
        for first in [a.clone(), at.transpose()] {
            for second in [b.clone(), bt.transpose()] {
                for [one, other] in laid_out.iter().flat_map(|one| laid_out.iter().map(move |other| [one, other])) {
                    let product = one(&first).matmul(&other(&second));
                    for result in [product.clone(), product.transpose() + 0.0] {
                        let expected = result.eval_by_reference().expect("a value");
                        let actual = result.eval().expect("a value");
                        for place in 0..expected.buffer().len() {
                            let (expected, actual) = (expected.buffer().get(place), actual.buffer().get(place));
                            assert!((expected - actual).abs() <= 1e-4 * (1.0 + expected.abs()), "{actual}, {expected}");
                        }
                    }
                }
            }
        }
    }
}

/// XᵀX, and XᵀDX with a diagonal D, are computed up to the diagonal and mirrored; what only looks like them is not.
/// The Hessian of logistic regression, XᵀDX, as differentiation leaves it: D in a sum of products.
fn logistic_hessian(x: &Tensor, sides: &Tensor) -> Tensor {
    let weights = Tensor::full([x.shape()[1]], 0.01, DType::F64);
    hessian(|w: &Tensor| (-(sides.reshape([x.shape()[0]]) * x.matmul(w))).exp().log1p().sum())(&weights)
}

#[test]
fn products_that_are_their_own_transposes_are_computed_by_half() {
    let normal = |key: u64, shape: &[usize]| normal(key, shape).cast(DType::F64).detach().expect("numbers");
    let is_symmetric = |tensor: &Tensor| {
        let program = tensor.program().unwrap();
        program.steps.iter().any(|step| matches!(step, Step::Contract(product) if product.symmetric))
    };
    for size in [7, 64, 203] {
        let (x, y, d) = (normal(1, &[150, size]), normal(2, &[150, size]), normal(3, &[150, 1]));
        let cases = [
            ("a matrix with itself", x.transpose().matmul(&x), true),
            ("rows", x.matmul(&x.transpose()), true),
            ("with weights", (&x * &d).transpose().matmul(&x), true),
            ("with weights on both sides", (&x * &d).transpose().matmul(&(&x * d.sin())), true),
            ("with weights in a sum", (&x * &d + &x * d.cos()).transpose().matmul(&x), true),
            ("with weights of weights", ((&x * &d) * d.sin() + &x - (&x * &d) * d.cos()).transpose().matmul(&x), true),
            ("logistic regression", logistic_hessian(&x, &d), true),
            ("a multiple", x.transpose().matmul(&x) * -0.5, true),
            ("another matrix", x.transpose().matmul(&y), false),
            ("another in part", (&x * &y).transpose().matmul(&x), false),
        ];
        for (what, product, symmetric) in cases {
            assert_eq!(is_symmetric(&product), symmetric, "{what}, {size}");
            let found = product.to_vec::<f64>().unwrap();
            let exact = product.eval_by_reference().unwrap();
            let columns = product.shape()[1];
            for (place, found_here) in found.iter().enumerate() {
                let wanted = exact.buffer().get(place);
                assert!((found_here - wanted).abs() <= 1e-11 * (1.0 + wanted.abs()), "{what}, {size}");
                if symmetric && size >= 64 {
                    assert_eq!(*found_here, found[place % columns * columns + place / columns], "{what}, {size}");
                }
            }
        }
    }
}

/// Products behind the derivative of a choice are products of matrices too, and where something is not finite they follow
/// the definition: what was not taken contributes exactly zero.
#[test]
fn zeros_win_in_products_of_matrices() {
    for dtype in [DType::F32, DType::F64] {
        for (rows, inner, columns) in [(3, 4, 5), (40, 33, 50), (70, 130, 60)] {
            let numbers = |seed: u64, shape: &[usize]| normal(seed, shape).cast(dtype).detach().expect("numbers");
            let x = numbers(1, &[rows, inner]);
            for spoiled in [None, Some(f64::NAN), Some(f64::INFINITY)] {
                // One element of the weight is not finite, and what it makes is not taken.
                let mut weights = numbers(2, &[inner, columns]).to_f64_vec().expect("numbers");
                if let Some(number) = spoiled {
                    weights[columns + 1] = number;
                }
                let weight = Tensor::new(&weights, [inner, columns]).cast(dtype).detach().expect("numbers");
                let taken = Tensor::arange(columns as i64).not_equal(1);
                let loss = |(x, weight): &(Tensor, Tensor)| {
                    let made = x.matmul(weight);
                    taken.broadcast_to(made.shape()).choose(&made.square(), &made.zeros_like()).sum()
                };
                let slopes = grad(loss)(&(x.clone(), weight.clone()));
                for slope in [&slopes.0, &slopes.1] {
                    let strong = |step: &Step| matches!(step, Step::Contract(product) if product.masked != [false; 2]);
                    assert!(program(&[slope]).steps.iter().any(strong), "it is a product of matrices");
                    let exact = slope.eval_by_reference().expect("a value");
                    let found = slope.to_f64_vec().expect("a value");
                    let largest = (0..found.len()).map(|k| exact.buffer().get(k).abs()).fold(1.0, f64::max);
                    let tolerance = largest * if dtype == DType::F32 { 1e-5 } else { 1e-13 };
                    for (place, found) in found.iter().enumerate() {
                        let wanted = exact.buffer().get(place);
                        assert!(wanted.is_finite(), "zeros win by definition");
                        assert!((found - wanted).abs() <= tolerance, "{rows}×{inner}×{columns}, {spoiled:?}, {place}");
                    }
                }
            }
        }
    }
}
