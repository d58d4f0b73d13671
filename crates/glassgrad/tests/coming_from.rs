//! The page of names in PyTorch, JAX and Glassgrad: its last column is run, row by row, and gives what the others give.
//!
//! `golden/coming_from.json` holds what PyTorch and JAX answer; `bench/golden/coming_from.py` makes it from the page. Rows
//! with derivatives are `golden/page.rs`, and `golden_operations.rs` compares them.

#[path = "judges/closeness.rs"]
mod closeness;
#[path = "golden/page.rs"]
mod page;

use closeness::{agree, size_of_all};
use glassgrad::array::{Array, Buffer};
use glassgrad::certify::certify_tensors;
use glassgrad::diff::{laplacian, vmap_axes};
use glassgrad::dtype::DType;
use glassgrad::error::Error;
use glassgrad::expr::{Axes, CustomOp, Index, Rule, s};
use glassgrad::glass::Graph;
#[cfg(feature = "linalg")]
use glassgrad::operations::linalg::Triangle;
#[cfg(feature = "fft")]
use glassgrad::operations::{Complex, Norm};
use glassgrad::operations::{Convolution, Interpolation, Pooling};
use glassgrad::rng::Key;
use glassgrad::shape::Shape;
use glassgrad::tree::Tree;
use glassgrad::view::Window;
use glassgrad::{
    Tensor, cond, grad, hessian, hvp, jacfwd, jacobian, jacrev, jit, jvp, linearize, no_grad, scan, value_and_grad,
    vjp, vmap,
};
use serde_json::Value;

const PAGE: &str = include_str!("../../../docs/coming-from.md");
const GOLDEN: &str = include_str!("golden/coming_from.json");

/// How many roundings of the largest number an answer may be away: decompositions and special functions have tens.
const ROUNDINGS: f64 = 256.0;

/// Shape and elements of each tensor of an answer.
type Leaves = Vec<(Vec<usize>, Vec<f64>)>;

/// What a row can answer.
trait Answer {
    fn leaves(&self) -> Leaves;
}

macro_rules! trees {
    ($($Type:ty),*) => {$(
        impl Answer for $Type {
            fn leaves(&self) -> Leaves {
                let leaf = |leaf: &Tensor| (leaf.shape().to_vec(), leaf.to_f64_vec().expect("a value"));
                self.flatten_tree().iter().map(leaf).collect()
            }
        }
    )*};
}
trees!(Tensor, (Tensor, Tensor), (Tensor, Tensor, Tensor), Vec<Tensor>);
#[cfg(feature = "fft")]
trees!(Complex);

/// The leaves of a tree, by a name that tensors do not give another meaning.
trait FlattenTree {
    fn flatten_tree(&self) -> Vec<Tensor>;
}

impl<T: Tree> FlattenTree for T {
    fn flatten_tree(&self) -> Vec<Tensor> {
        Tree::flatten(self)
    }
}

/// One number.
fn number(number: f64) -> Leaves {
    vec![(vec![], vec![number])]
}

impl Answer for usize {
    fn leaves(&self) -> Leaves {
        number(*self as f64)
    }
}

impl Answer for bool {
    fn leaves(&self) -> Leaves {
        number(f64::from(u8::from(*self)))
    }
}

impl Answer for Result<f64, Error> {
    fn leaves(&self) -> Leaves {
        number(*self.as_ref().expect("a value"))
    }
}

impl Answer for Result<Vec<f64>, Error> {
    fn leaves(&self) -> Leaves {
        let numbers = self.as_ref().expect("a value");
        vec![(vec![numbers.len()], numbers.clone())]
    }
}

impl Answer for Vec<usize> {
    fn leaves(&self) -> Leaves {
        vec![(vec![self.len()], self.iter().map(|size| *size as f64).collect())]
    }
}

/// Keys have no number that others have.
impl Answer for Key {
    fn leaves(&self) -> Leaves {
        vec![]
    }
}

impl Answer for (Key, Key) {
    fn leaves(&self) -> Leaves {
        vec![]
    }
}

/// Twice a tensor, as an operation of the user's own.
#[derive(Debug)]
struct Doubled;

impl CustomOp for Doubled {
    fn name(&self) -> &str {
        "doubled"
    }
    fn output(&self, inputs: &[&Tensor]) -> Result<(Shape, DType), String> {
        Ok((inputs[0].shape().clone(), inputs[0].dtype()))
    }
    fn value(&self, inputs: &[Array]) -> Result<Array, String> {
        let x = inputs[0].buffer();
        Ok(Array::new(inputs[0].shape().clone(), Buffer::from_fn(x.dtype(), x.len(), |k| 2.0 * x.get(k))))
    }
    fn rule<'r>(&self, _: &'r [Tensor], _: &'r Tensor) -> Rule<'r> {
        Rule::Pullback(Box::new(|g| vec![Some(g * 2.0)]))
    }
}

fn f(x: &Tensor) -> Tensor {
    x.powi(3).sum()
}

fn g(x: &Tensor) -> Tensor {
    x.square() * x.slice(&[s(0)])
}

macro_rules! rows {
    ($all:ident; $($code:expr;)*) => {
        $($all.push((stringify!($code), Answer::leaves(&$code)));)*
    };
}

/// Every row of the page: its text, and what it answers. What the letters are, `bench/golden/coming_from.py` says too.
fn rows() -> Vec<(&'static str, Leaves)> {
    let x = Tensor::from([[1.0, -2.0, 0.5], [3.0, 4.0, -1.5]]);
    let y = Tensor::from([[0.5, 1.5, 2.5], [-1.0, 2.0, 1.0]]);
    let p = Tensor::from([[0.25, 0.75, 0.5], [0.875, 0.375, 0.625]]);
    let v = Tensor::from([1.0, 2.0, -3.0]);
    let a = Tensor::from([[4.0, 1.0, 0.5], [1.0, 3.0, -0.25], [0.5, -0.25, 2.0]]);
    let i = Tensor::from([2_i64, 0]);
    let m = Tensor::from([[true, false, true], [true, true, false]]);
    #[cfg(feature = "fft")]
    let z = Complex::new(Tensor::from([1.0, -0.5, 3.0]), Tensor::from([2.0, 0.25, -1.0]));
    let pixels: Vec<f64> = (0..16).map(|k| f64::from((5 * (k / 4) + 3 * (k % 4)) % 7)).collect();
    let image = Tensor::new(&pixels, [1, 4, 4]);
    let w1 = Tensor::from([[[1.0, -1.0], [0.5, 2.0]]]);
    let w2 = Tensor::new(&[1.0, 2.0, -1.0, 0.5], [1, 1, 2, 2]);
    let key = Key::new(7);
    let mut all = Vec::new();
    // Making tensors.
    rows! { all;
        Tensor::from([1.0, 2.0]);
        Tensor::new(&[1.0, 2.0, 3.0, 4.0], [2, 2]);
        Tensor::zeros([2, 3]);
        Tensor::ones([2, 3]);
        Tensor::full(2, 7.0, DType::F64);
        x.zeros_like();
        x.ones_like();
        x.full_like(7.0);
        Tensor::eye(3);
        Tensor::arange(4_i64);
        Tensor::linspace(0.0, 1.0, 5);
        Tensor::logspace(0.0, 2.0, 3);
        Tensor::meshgrid([&v, &v]);
        i.one_hot(4, DType::F64);
        v.diag();
    }
    // Reading them.
    rows! { all;
        x.sum().item();
        x.to_vec::<f64>();
        x.shape().to_vec();
        x.rank();
        x.cast(DType::F32);
        x.cast(DType::F16);
        x.cast(DType::BF16);
        x.cast(DType::I32);
        x.abs().cast(DType::U8);
        Tensor::full([2, 3], 0.5, DType::BF16);
        x.stop_gradient();
        x.clone();
    }
    // Element by element.
    rows! { all;
        &x + &y;
        &x * &y;
        &x / &y;
        &x % &y;
        x.powi(3);
        p.powf(2.5);
        p.pow(&y);
        x.square();
        p.sqrt();
        p.rsqrt();
        x.cbrt();
        x.recip();
        x.exp();
        x.exp2();
        x.expm1();
        p.ln();
        p.log2();
        p.log10();
        p.log1p();
        x.sin();
        x.tan();
        p.asin();
        x.atan();
        x.atan2(&y);
        x.hypot(&y);
        x.tanh();
        p.atanh();
        x.abs();
        x.sign();
        x.floor();
        x.ceil();
        x.sinc();
        x.erf();
        p.lgamma();
        p.digamma();
        p.polygamma(1);
    }
    // Activations.
    rows! { all;
        x.sigmoid();
        x.log_sigmoid();
        x.softplus();
        x.softsign();
        x.relu();
        x.leaky_relu(0.1);
        x.elu(1.0);
        x.gelu();
        x.gelu_tanh();
        x.silu();
        x.mish();
        x.softmax(1);
        x.log_softmax(-1);
    }
    // Comparing and choosing.
    rows! { all;
        x.gt(&y);
        x.equal(3.0);
        x.gt(0.0).and(&x.lt(2.0));
        m.not();
        m.choose(&x, &y);
        x.maximum(&y);
        x.minimum(&y);
        x.clip(-1.0, 1.0);
        x.is_nan();
        x.is_finite();
        x.is_close(&y, 1e-5, 1.5);
        x.all_close(&x, 1e-5, 1e-8);
        m.all();
        m.any_over(0);
        m.count_nonzero();
    }
    // Reductions.
    rows! { all;
        x.sum();
        x.sum_over(0);
        x.sum_over([0, 1]);
        x.mean_over(Axes::from(1).keep());
        x.var();
        x.std_over(0);
        x.prod();
        x.max_over(1);
        x.min();
        x.argmax(1);
        x.argmin(1);
        x.norm();
        x.logsumexp_over(1);
        x.cumsum(1);
        x.cumprod(1);
        x.diff(1);
    }
    // Shapes.
    rows! { all;
        x.reshape([3, 2]);
        x.flatten();
        x.transpose();
        x.permute([1, 0]);
        x.move_axis(0, -1);
        x.swap_axes(0, 1);
        x.unsqueeze(1);
        x.slice(&[s(..1)]).squeeze(0);
        v.broadcast_to([2, 3]);
        Tensor::concatenate([&x, &y], 0);
        Tensor::stack([&x, &y], 0);
        x.split(&[1, 2], 1);
        x.array_split(2, 0);
        x.chunk(2, 1);
        x.reshape([-1, 2]);
        x.take(&i, -1);
        &i / 2;
        &i * x.slice(&[s(..), s(..2)]);
        &m * &x;
        m.sum();
        m.cast(DType::F64).mean();
        x.tile(&[2, 1]);
        x.repeat(2, 1);
        x.roll(1, 1);
        x.flip([1]);
        x.pad(&[(0, 0), (1, 2)]);
        v.pad_with(&[(1, 1)], 9.0);
        a.tril(0);
        a.triu(1);
        a.diagonal(0);
    }
    // Indexing.
    rows! { all;
        x.slice(&[s(0)]);
        x.slice(&[s(..), s(-1)]);
        x.slice(&[s(..), s(..).step(2)]);
        x.slice(&[Index::Rest, Index::NewAxis]);
        x.take(&i, 1);
        a.index_at(&[&i, &i]);
        a.embedding(&i);
        x.take_along(&x.argsort(1), 1);
        v.with_at(&[&i], 0.0);
        v.add_at(&[&i], 1.0);
        x.masked(&m);
        m.nonzero();
        Tensor::ones(2).scatter_add(&i, 0, 4);
    }
    // Order.
    rows! { all;
        x.sort(1);
        x.argsort(1);
        v.top_k(2, 0);
        x.quantile(0.3, 1);
        x.median();
        x.interp(&Tensor::arange(3.0), &v);
    }
    // Products.
    rows! { all;
        x.matmul(&v);
        v.inner(&v);
        v.outer(&v);
        a.kron(&x);
        a.trace();
        Tensor::einsum("ij,jk,k->i", [&x, &a, &v]);
    }
    // Windows, images and signals.
    rows! { all;
        v.windows(0, &[Window::new(2)]);
        x.conv1d(&w1, Convolution::default());
        image.conv2d(&w2, Convolution::default().padding(1));
        image.conv2d(&w2, Convolution::default().stride(2));
        image.conv_transpose2d(&w2, Convolution::default());
        image.max_pool2d(Pooling::new(2));
        image.avg_pool2d(Pooling::new(2));
        image.adaptive_avg_pool2d(2);
        image.interpolate(&[2, 2], Interpolation::Nearest);
        image.interpolate(&[6, 6], Interpolation::Linear { align_corners: false });
    }
    // Complex numbers and Fourier transforms.
    #[cfg(feature = "fft")]
    rows! { all;
        Complex::new(v.clone(), v.clone());
        &z * &z;
        z.conj();
        z.abs();
        z.arg();
        z.exp();
        z.fft(-1);
        z.ifft_norm(-1, Norm::Ortho);
        x.rfft(-1);
        z.irfft(4, -1);
        v.fftshift(0);
    }
    // Linear algebra.
    #[cfg(feature = "linalg")]
    rows! { all;
        a.solve(&v);
        a.solve_triangular(&a, Triangle::lower());
        a.inv();
        x.pinv();
        x.transpose().lstsq(&v);
        a.det();
        a.slogdet();
        a.logdet();
        a.cholesky();
        a.qr();
        x.transpose().qr_complete();
        a.lu().2;
        a.eigh();
        x.svd();
        x.svd_full();
        a.schur().0.diagonal(0).sort(0);
        x.spectral_norm();
        x.nuclear_norm();
        a.expm();
        a.matrix_power(3);
    }
    // Random numbers.
    rows! { all;
        Key::new(7);
        key.split();
        key.fold(3);
        Tensor::uniform(key, [2, 3]);
        Tensor::normal(key, [2, 3]);
        p.bernoulli(key);
        x.categorical(key, -1);
        Tensor::permutation(key, 5);
        x.shuffle(key, 0);
        x.dropout(key, 0.5);
    }
    // Differentiation.
    rows! { all;
        grad(f)(&v);
        value_and_grad(f)(&v);
        vjp(g, &v).1(&v);
        jvp(g, &v, &v);
        linearize(g, &v).1(&v);
        jacobian(g)(&v);
        jacrev(g)(&v);
        jacfwd(g)(&v);
        laplacian(f)(&v);
        cond(&v.sum().gt(0.0), Tensor::sin, Tensor::cos, &v);
        jit(f)(&v);
        hessian(f)(&v);
        hvp(f, &v, &v);
        vmap(f)(&x);
        vmap_axes(f, 1, 0)(&x);
        vmap(grad(f))(&x);
        no_grad(f)(&v);
        { let w = v.variable(); f(&w).backward().of(&w) };
        scan(|c: &Tensor, e: &Tensor| (c + e, c.clone()), &Tensor::from(0.0), &v);
        (x.clone(), v.clone()).map(|leaf| leaf * 2.0);
        Tensor::custom(Doubled, &[&x]);
        certify_tensors(g, &v, key).unwrap().holds();
        v.sqrt().eval_checked().is_err();
        Graph::trace(f, &v).text().len();
        v.add(&grad(f)(&v).scale(-0.1));
    }
    // Rows of later additions.
    rows! { all;
        image.max_pool_with_indices(Pooling::<2>::new(3).stride(1).padding(1));
    }
    rows! { all;
        i.floor_divide(-2);
        i.remainder(-3);
        i.bitwise_and(3);
        i.bitwise_or(1);
        i.bitwise_xor(3);
        i.bitwise_not();
        i.shift_left(2);
        i.shift_right(1);
    }
    rows! { all;
        x.norm_p(0.0, 1);
        x.argmax(Axes::from(1).keep());
        x.max_with_index(1);
    }
    rows! { all;
        x.argsort_descending(1);
        x.median_with_index(1);
        i.unique();
        v.sort(0).searchsorted(&x, false);
        v.sort(0).searchsorted(&x, true);
        x.histogram(4, -2.0, 4.0);
        i.bincount(4);
    }
    all
}

/// The last column of the page, of the sections that are built.
fn column() -> Vec<String> {
    let sections = PAGE.split("\n## ").skip(1).filter(|section| {
        let title = section.lines().next().expect("a title");
        (cfg!(feature = "fft") || !title.contains("`fft`")) && (cfg!(feature = "linalg") || !title.contains("`linalg`"))
    });
    let lines = sections.flat_map(str::lines).filter(|line| line.starts_with("| ") && !line.starts_with("| PyTorch"));
    let last = |line: &str| {
        // A bar that stands in code is escaped.
        let line = line.replace("\\|", "\u{0}");
        let cell = line.trim_matches('|').split('|').nth(2).expect("three columns").trim().trim_matches('`').to_owned();
        page::without_spaces(&cell.replace('\u{0}', "|"))
    };
    lines.map(last).collect()
}

#[test]
fn the_page_says_what_is_run() {
    let values = rows().into_iter().map(|(code, _)| page::without_spaces(code));
    let derivatives = page::rows().into_iter().map(|row| page::without_spaces(row.0));
    let listed: Vec<String> = values.chain(derivatives).collect();
    assert!(listed.len() >= 120, "only {} rows", listed.len());
    let sorted = |mut list: Vec<String>| {
        list.sort();
        list
    };
    let (listed, cells) = (sorted(listed), sorted(column()));
    let without = |list: &[String], other: &[String]| -> Vec<String> {
        list.iter().filter(|code| !other.contains(code)).cloned().collect()
    };
    assert_eq!(without(&listed, &cells), Vec::<String>::new(), "run by a test, but not on the page");
    assert_eq!(without(&cells, &listed), Vec::<String>::new(), "on the page, but run by no test");
    assert_eq!(listed, cells, "a row stands twice");
}

#[test]
fn every_row_answers_as_pytorch_and_jax() {
    let golden: Value = serde_json::from_str(GOLDEN).expect("JSON");
    let golden = golden["rows"].as_array().expect("a list");
    let mut compared = 0;
    for (code, answer) in rows() {
        let code = page::without_spaces(code);
        let row = golden.iter().find(|row| row["code"] == code.as_str());
        let row = row.unwrap_or_else(|| panic!("'{code}' is new: run bench/golden/coming_from.py"));
        let Some(expected) = row["leaves"].as_array() else { continue };
        assert_eq!(answer.len(), expected.len(), "{code}");
        // The signs of vectors of decompositions are free.
        let signless =
            [".qr(", ".qr_complete(", ".svd(", ".svd_full(", ".eigh("].iter().any(|name| code.contains(name));
        for ((shape, numbers), leaf) in answer.iter().zip(expected) {
            assert_eq!(serde_json::json!(shape), leaf["shape"], "{code}");
            let Some(list) = leaf["numbers"].as_array() else { continue };
            let list: Vec<f64> = list.iter().map(|number| number.as_f64().expect("a number")).collect();
            // Where the peers differ, such as in polygamma, ours may be as far from the first of them as the other is.
            let gap = leaf["gap"].as_f64().expect("a number");
            let (size, roundings) = (size_of_all(&list), ROUNDINGS + gap / f64::EPSILON);
            let same = numbers
                .iter()
                .zip(&list)
                .all(|(number, other)| agree(if signless { number.abs() } else { *number }, *other, size, roundings));
            assert!(same, "{code}: {numbers:?} here, {list:?} by PyTorch and JAX");
            compared += 1;
        }
    }
    assert!(compared > 150, "only {compared} answers were compared");
}
