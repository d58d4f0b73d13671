//! The rows: operation, what is measured, operands, function.

use glassgrad::operations::{Attention, Complex, Convolution, Pooling};
use glassgrad::{Tensor, loss};

use crate::row::{Comparison, Layout, Operand, Results, Row};

/// Elements of an array that stays in the second-level cache.
const SMALL: usize = 1 << 16;
/// Elements of an array that does not.
const LARGE: usize = 1 << 22;
/// The side of a square matrix of as many.
const SIDE: usize = 1 << 11;

/// What is measured of an operation.
#[derive(Clone, Copy)]
enum Of {
    Value,
    Gradient,
    Both,
}

use Comparison::{Elements, Magnitudes, Moments};
use Layout::{Sliced, Strided, Transposed};
use Of::{Both, Gradient, Value};

fn x(shape: &[usize]) -> Operand {
    Operand::new(shape)
}

/// A square matrix larger than the caches.
fn matrix() -> Operand {
    x(&[SIDE, SIDE])
}

fn indices(shape: &[usize], bound: usize) -> Operand {
    Operand::indices(shape, bound)
}

/// The operands of pointwise functions: in the cache and out of it.
fn vectors(low: f64, high: f64) -> Vec<Vec<Operand>> {
    [SMALL, LARGE].map(|size| vec![x(&[size]).within(low, high)]).to_vec()
}

/// Rows of one operation for several lists of operands; the last two parameters of `row!` are the names and the formula.
macro_rules! row {
    ($rows:ident, $name:literal, $of:expr, $comparison:expr, [$([$($operand:expr),*]),*], |$($x:ident),*| $body:expr) => {
        row!($rows, $name, $of, $comparison, vec![$(vec![$($operand),*]),*], (_key) |$($x),*| $body)
    };
    ($rows:ident, $name:literal, $of:expr, [$([$($operand:expr),*]),*], |$($x:ident),*| $body:expr) => {
        row!($rows, $name, $of, Elements, vec![$(vec![$($operand),*]),*], (_key) |$($x),*| $body)
    };
    ($rows:ident, $name:literal, $of:expr, $lists:expr, |$($x:ident),*| $body:expr) => {
        row!($rows, $name, $of, Elements, $lists, (_key) |$($x),*| $body)
    };
    ($rows:ident, $name:literal, $of:expr, $comparison:expr, $lists:expr, ($key:ident) |$($x:ident),*| $body:expr) => {
        for operands in $lists {
            let gradients: &[bool] = match $of {
                Value => &[false],
                Gradient => &[true],
                Both => &[false, true],
            };
            $rows.extend(gradients.iter().map(|gradient| Row {
                operation: $name,
                operands: operands.clone(),
                gradient: *gradient,
                comparison: $comparison,
                function: |operands, $key| {
                    let [$($x),*] = operands else { unreachable!("a row states as many operands as its function has") };
                    Results::list($body)
                },
            }));
        }
    };
}

/// All rows.
pub(crate) fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    pointwise(&mut rows);
    reductions(&mut rows);
    scans(&mut rows);
    products(&mut rows);
    convolutions(&mut rows);
    movement(&mut rows);
    networks(&mut rows);
    factorisations(&mut rows);
    rows
}

fn pointwise(rows: &mut Vec<Row>) {
    let pair = |size: usize| vec![x(&[size]), x(&[size])];
    row!(rows, "add", Both, [pair(SMALL), pair(LARGE)], |x, y| x + y);
    row!(
        rows,
        "add",
        Value,
        [
            [matrix().laid_out(Transposed), matrix()],
            [matrix().laid_out(Sliced), matrix().laid_out(Sliced)],
            [matrix().laid_out(Strided), matrix()],
            [x(&[4096, 1024]), x(&[1024])],
            [x(&[4096, 1024]), x(&[4096, 1])],
            [x(&[LARGE]).f64(), x(&[LARGE]).f64()]
        ],
        |x, y| x + y
    );
    row!(rows, "add", Gradient, [[x(&[4096, 1024]), x(&[1024])]], |x, y| x + y);
    row!(rows, "mul", Value, [pair(SMALL), pair(LARGE)], |x, y| x * y);
    row!(rows, "mul", Both, [[matrix().laid_out(Transposed), matrix().laid_out(Transposed)]], |x, y| x * y);
    row!(rows, "div", Value, [[x(&[LARGE]), x(&[LARGE]).within(1.0, 2.0)]], |x, y| x / y);
    row!(rows, "multiply_add", Value, [[x(&[LARGE]), x(&[LARGE]), x(&[LARGE])]], |x, y, z| x * y + z);
    row!(rows, "maximum", Both, [pair(LARGE)], |x, y| x.maximum(y));
    row!(rows, "compare", Value, [pair(LARGE)], |x, y| x.gt(y));
    row!(rows, "where", Both, [pair(LARGE)], |x, y| x.gt(0.5).choose(x, y));
    row!(rows, "relu", Both, vectors(-2.0, 2.0), |x| x.relu());
    row!(rows, "exp", Both, vectors(-2.0, 2.0), |x| x.exp());
    row!(rows, "exp", Value, [[matrix().laid_out(Transposed)], [matrix().laid_out(Strided)]], |x| x.exp());
    row!(rows, "exp", Value, [[x(&[LARGE]).f64()]], |x| x.exp());
    row!(rows, "log", Value, vectors(0.1, 4.0), |x| x.ln());
    row!(rows, "sin", Value, vectors(-4.0, 4.0), |x| x.sin());
    row!(rows, "tanh", Both, vectors(-2.0, 2.0), |x| x.tanh());
    row!(rows, "sigmoid", Both, vectors(-2.0, 2.0), |x| x.sigmoid());
    row!(rows, "gelu", Both, vectors(-2.0, 2.0), |x| x.gelu());
    row!(rows, "softplus", Both, [[x(&[LARGE])]], |x| x.softplus());
    row!(rows, "erf", Value, vectors(-2.0, 2.0), |x| x.erf());
    row!(rows, "atan", Value, vectors(-2.0, 2.0), |x| x.atan());
    row!(rows, "pow", Value, vectors(0.1, 4.0), |x| x.powf(2.5));
    row!(rows, "sqrt", Value, [[x(&[LARGE]).within(0.1, 4.0)]], |x| x.sqrt());
    row!(rows, "cast_f64", Value, [[x(&[LARGE])]], |x| x.cast(glassgrad::dtype::DType::F64));
}

fn reductions(rows: &mut Vec<Row>) {
    let tall = || x(&[4096, 1024]);
    row!(rows, "sum_all", Value, [[x(&[SMALL])], [x(&[LARGE])], [x(&[LARGE]).f64()]], |x| x.sum());
    row!(rows, "sum_last", Both, [[tall()]], |x| x.sum_over(-1));
    row!(rows, "sum_last", Value, [[x(&[SMALL, 8])], [matrix().laid_out(Transposed)]], |x| x.sum_over(-1));
    row!(rows, "sum_first", Value, [[tall()], [x(&[256, 256])]], |x| x.sum_over(0));
    row!(rows, "mean_middle", Value, [[x(&[64, 256, 256])]], |x| x.mean_over(1));
    row!(rows, "max_last", Both, [[tall()]], |x| x.max_over(-1));
    row!(rows, "max_first", Value, [[tall()]], |x| x.max_over(0));
    row!(rows, "argmax_last", Value, [[tall()]], |x| x.argmax(-1));
    row!(rows, "argmax_first", Value, [[tall()]], |x| x.argmax(0));
    row!(rows, "var_last", Both, [[tall()]], |x| x.var_over(-1));
    row!(rows, "var_all", Value, [[x(&[LARGE])]], |x| x.var());
    row!(rows, "norm_all", Value, [[x(&[LARGE])]], |x| x.norm());
    row!(rows, "logsumexp_last", Both, [[tall()]], |x| x.logsumexp_over(-1));
    row!(rows, "logsumexp_first", Value, [[tall()]], |x| x.logsumexp_over(0));
    row!(rows, "prod_last", Both, [[x(&[1024, 1024]).within(0.9, 1.1)]], |x| x.prod_over(-1));
    row!(rows, "prod_all", Value, [[x(&[SMALL]).within(0.99, 1.01)]], |x| x.prod());
    row!(rows, "softmax_last", Both, [[x(&[256, 64])], [tall()]], |x| x.softmax(-1));
    row!(rows, "softmax_last", Value, [[x(&[64, 32768])]], |x| x.softmax(-1));
    row!(rows, "softmax_first", Value, [[x(&[1024, 1024])]], |x| x.softmax(0));
    row!(rows, "log_softmax", Both, [[tall()]], |x| x.log_softmax(-1));
    row!(rows, "layer_norm", Both, [[tall()]], |x| x.layer_norm(-1, 1e-5));
    row!(rows, "batch_norm", Both, [[x(&[32, 64, 28, 28])]], |x| {
        let (mean, variance) = (x.mean_over([0, 2, 3]), x.var_over([0, 2, 3]));
        (x - mean.reshape([64, 1, 1])) * (variance + 1e-5).rsqrt().reshape([64, 1, 1])
    });
}

fn scans(rows: &mut Vec<Row>) {
    row!(rows, "cumsum_last", Both, [[x(&[1024, 1024])]], |x| x.cumsum(-1));
    row!(rows, "cumsum_last", Value, [[x(&[1, SMALL])]], |x| x.cumsum(-1));
    row!(rows, "cumsum_first", Value, [[x(&[1024, 1024])]], |x| x.cumsum(0));
    row!(rows, "cumprod_last", Both, [[x(&[1024, 1024]).within(0.99, 1.01)]], |x| x.cumprod(-1));
    row!(rows, "cummax_last", Value, [[x(&[1024, 1024])]], |x| x.cummax(-1));
    row!(rows, "sort", Both, [[x(&[256, 4096])]], |x| x.sort(-1));
    row!(rows, "sort", Value, [[x(&[SMALL])], [x(&[4096, 16])]], |x| x.sort(-1));
    row!(rows, "argsort", Value, [[x(&[256, 4096])]], |x| x.argsort(-1));
    row!(rows, "topk", Value, [[x(&[256, 4096])]], |x| x.top_k(16, -1).0);
}

fn products(rows: &mut Vec<Row>) {
    let square = |size: usize| vec![x(&[size, size]), x(&[size, size])];
    row!(rows, "matmul", Both, [square(64), square(1024)], |x, y| x.matmul(y));
    row!(
        rows,
        "matmul",
        Value,
        [
            [x(&[256, 256]), x(&[256, 256])],
            [x(&[8192, 64]), x(&[64, 64])],
            [x(&[64, 8192]), x(&[8192, 64])],
            [x(&[4, 1024]), x(&[1024, 4096])],
            [x(&[16, 1024]), x(&[1024, 4096])],
            [x(&[1024, 1024]).laid_out(Transposed), x(&[1024, 1024])],
            [x(&[1024, 1024]), x(&[1024, 1024]).laid_out(Transposed)],
            [x(&[512, 512]).f64(), x(&[512, 512]).f64()],
            [x(&[SIDE, SIDE]), x(&[SIDE])],
            [x(&[SIDE, SIDE]).laid_out(Transposed), x(&[SIDE])]
        ],
        |x, y| x.matmul(y)
    );
    row!(rows, "matmul", Both, [[x(&[64, 128, 64]), x(&[64, 64, 128])]], |x, y| x.matmul(y));
    row!(rows, "matmul", Value, [[x(&[1024, 16, 16]), x(&[1024, 16, 16])]], |x, y| x.matmul(y));
    row!(rows, "matmul", Gradient, [[x(&[4, 1024]), x(&[1024, 4096])]], |x, y| x.matmul(y));
    row!(rows, "outer", Value, [[x(&[SIDE]), x(&[SIDE])]], |x, y| x.outer(y));
    row!(rows, "einsum_scores", Both, [[x(&[8, 128, 8, 64]), x(&[8, 128, 8, 64])]], |x, y| {
        Tensor::einsum("bqhd,bkhd->bhqk", [x, y])
    });
    row!(rows, "einsum_rowwise", Value, [[matrix(), matrix()]], |x, y| Tensor::einsum("ij,ij->i", [x, y]));
    row!(rows, "einsum_chain", Value, [[x(&[512, 512]), x(&[512, 16]), x(&[16, 512])]], |x, y, z| {
        Tensor::einsum("ij,jk,kl->il", [x, y, z])
    });
}

fn convolutions(rows: &mut Vec<Row>) {
    let images = || x(&[16, 64, 32, 32]);
    row!(rows, "conv2d_3x3", Both, [[images(), x(&[64, 64, 3, 3])]], |x, k| {
        x.conv2d(k, Convolution::default().padding(1))
    });
    row!(rows, "conv2d_3x3", Value, [[x(&[1, 128, 56, 56]), x(&[128, 128, 3, 3])]], |x, k| {
        x.conv2d(k, Convolution::default().padding(1))
    });
    row!(rows, "conv2d_1x1", Both, [[x(&[16, 128, 28, 28]), x(&[128, 128, 1, 1])]], |x, k| {
        x.conv2d(k, Convolution::default())
    });
    row!(rows, "conv2d_stride2", Both, [[images(), x(&[128, 64, 3, 3])]], |x, k| {
        x.conv2d(k, Convolution::default().padding(1).stride(2))
    });
    row!(rows, "conv2d_depthwise", Both, [[images(), x(&[64, 1, 3, 3])]], |x, k| {
        x.conv2d(k, Convolution::default().padding(1).groups(64))
    });
    row!(rows, "conv2d_grouped", Both, [[images(), x(&[64, 16, 3, 3])]], |x, k| {
        x.conv2d(k, Convolution::default().padding(1).groups(4))
    });
    row!(rows, "conv2d_stem", Both, [[x(&[8, 3, 112, 112]), x(&[64, 3, 7, 7])]], |x, k| {
        x.conv2d(k, Convolution::default().padding(3).stride(2))
    });
    row!(rows, "conv_transpose2d", Both, [[x(&[16, 64, 16, 16]), x(&[64, 32, 4, 4])]], |x, k| {
        x.conv_transpose2d(k, Convolution::default().padding(1).stride(2))
    });
    row!(rows, "conv1d", Both, [[x(&[16, 64, 512]), x(&[64, 64, 5])]], |x, k| {
        x.conv1d(k, Convolution::default().padding(2))
    });
    let pooled = || x(&[16, 32, 56, 56]);
    row!(rows, "max_pool_2x2", Both, [[pooled()]], |x| x.max_pool2d(Pooling::new(2)));
    row!(rows, "max_pool_3x3", Both, [[pooled()]], |x| x.max_pool2d(Pooling::new(3).stride(2).padding(1)));
    row!(rows, "avg_pool_2x2", Both, [[pooled()]], |x| x.avg_pool2d(Pooling::new(2)));
    row!(rows, "avg_pool_3x3", Both, [[pooled()]], |x| x.avg_pool2d(Pooling::new(3).stride(1).padding(1)));
    row!(rows, "avg_pool_global", Value, [[pooled()]], |x| x.mean_over([2, 3]));
}

fn movement(rows: &mut Vec<Row>) {
    row!(rows, "transpose", Value, [[matrix()], [x(&[256, 256])], [x(&[1024, 1024]).f64()]], |x| x.transpose());
    row!(rows, "permute_nhwc", Value, [[x(&[16, 64, 32, 32])]], |x| x.permute([0, 2, 3, 1]));
    row!(rows, "slice", Value, [[matrix().laid_out(Sliced)], [matrix().laid_out(Strided)]], |x| x.clone());
    row!(rows, "flip", Value, [[matrix()]], |x| x.flip(-1));
    row!(rows, "roll", Value, [[matrix()]], |x| x.roll(5, -1));
    row!(rows, "pad", Both, [[x(&[16, 64, 32, 32])]], |x| x.pad(&[(0, 0), (0, 0), (1, 1), (1, 1)]));
    row!(rows, "concatenate_last", Both, [[x(&[4096, 512]), x(&[4096, 512])]], |x, y| Tensor::concatenate([x, y], -1));
    row!(rows, "concatenate_first", Value, [[x(&[LARGE / 2]), x(&[LARGE / 2])]], |x, y| Tensor::concatenate([x, y], 0));
    row!(rows, "stack_last", Value, [[x(&[LARGE / 2]), x(&[LARGE / 2])]], |x, y| Tensor::stack([x, y], -1));
    row!(rows, "repeat", Value, [[x(&[1024, 1024])]], |x| x.repeat(4, 0));
    row!(rows, "tril", Value, [[matrix()]], |x| x.tril(0));
    row!(rows, "embedding", Both, [[x(&[10000, 256]), indices(&[4096], 10000)]], |x, i| x.embedding(i));
    row!(rows, "take_columns", Value, [[x(&[1024, 1024]), indices(&[512], 1024)]], |x, i| x.take(i, 1));
    row!(rows, "take_along", Both, [[x(&[1024, 1024]), indices(&[1024, 256], 1024)]], |x, i| x.take_along(i, 1));
    row!(rows, "segment_sum", Both, [[x(&[SMALL, 64]), indices(&[SMALL], 1000)]], |x, i| x.segment_sum(i, 1000));
    row!(rows, "one_hot", Value, [[indices(&[4096], 1000)]], |i| i.one_hot(1000, glassgrad::dtype::DType::F32));
}

fn networks(rows: &mut Vec<Row>) {
    row!(rows, "cross_entropy", Both, [[x(&[4096, 1000]), indices(&[4096], 1000)]], |x, classes| {
        loss::cross_entropy(x, classes).mean()
    });
    let heads = || x(&[4, 8, 256, 64]);
    row!(rows, "attention", Both, [[heads(), heads(), heads()]], |q, k, v| {
        q.scaled_dot_product_attention(k, v, &Attention::default())
    });
    row!(rows, "attention_causal", Both, [[heads(), heads(), heads()]], |q, k, v| {
        q.scaled_dot_product_attention(k, v, &Attention::default().causal())
    });
    let state = || x(&[64, 256]);
    row!(
        rows,
        "lstm_cell",
        Both,
        [[state(), state(), state(), x(&[256, 1024]).within(-0.06, 0.06), x(&[256, 1024]).within(-0.06, 0.06)]],
        |x, h, c, w, u| {
            let gates = x.matmul(w) + h.matmul(u);
            let parts = gates.chunk(4, -1);
            let next = parts[1].sigmoid() * c + parts[0].sigmoid() * parts[2].tanh();
            (parts[3].sigmoid() * next.tanh(), next)
        }
    );
    let none = || vec![vec![]];
    row!(rows, "normal", Value, Moments, none(), (key) | | Tensor::normal(key, [1 << 20]));
    row!(rows, "uniform", Value, Moments, none(), (key) | | Tensor::uniform(key, [1 << 20]));
}

fn factorisations(rows: &mut Vec<Row>) {
    row!(rows, "cholesky", Both, [[x(&[128, 128])], [x(&[512, 512]).f64()]], |x| positive_definite(x).cholesky());
    row!(rows, "solve", Both, [[x(&[128, 128]), x(&[128, 8])], [x(&[512, 512]).f64(), x(&[512, 8]).f64()]], |x, y| {
        positive_definite(x).solve(y)
    });
    row!(rows, "qr", Value, Magnitudes, [[x(&[128, 64]).f64()]], |x| x.qr());
    row!(rows, "svd", Value, Magnitudes, [[x(&[64, 64]).f64()]], |x| x.svd());
    row!(rows, "eigh", Value, Magnitudes, [[x(&[64, 64]).f64()]], |x| positive_definite(x).eigh());
    row!(rows, "fft", Value, [[x(&[256, 1024])]], |x| Complex::real(x).fft(-1));
    row!(rows, "rfft", Value, [[x(&[256, 1024])]], |x| x.rfft(-1));
}

/// A symmetric positive definite matrix of a square one.
fn positive_definite(x: &Tensor) -> Tensor {
    let size = x.shape()[0];
    x.matmul(&x.transpose()) + Tensor::eye(size).cast(x.dtype()) * size as f64
}
