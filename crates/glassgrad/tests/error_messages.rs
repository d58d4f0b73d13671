//! Forty mistakes, and what one reads then: the call that was made, its operands by name, its line, and a remedy.

use glassgrad::dtype::DType;
use glassgrad::error::Error;
use glassgrad::expr::s;
use glassgrad::loss;
use glassgrad::nn::{Conv2d, Embedding, Layer, LayerNorm, Linear, MultiHeadAttention, RmsNorm};
use glassgrad::operations::{Attention, Convolution, Padding, Pooling, SparseMatrix};
use glassgrad::optim::Optimizer;
use glassgrad::rng::Key;
use glassgrad::{Tensor, cond, fori_loop, grad, hessian, jit, jvp, scan, vjp, vmap, while_loop};

fn x(shape: &[usize]) -> Tensor {
    Tensor::arange(shape.iter().product::<usize>() as f64).reshape(shape)
}

fn whole(elements: &[i64]) -> Tensor {
    Tensor::from(elements)
}

/// The line of a call, the name that was called, and what it made.
type Mistake = (u32, &'static str, Tensor);

// One mistake a line, so that `line!` is the line of the call.
#[rustfmt::skip]
fn mistakes() -> Vec<Mistake> {
    let (a, b) = (x(&[2, 3]).named("a"), x(&[4, 5]).named("b"));
    let image = x(&[1, 4, 4]).named("image");
    let key = Key::new(1);
    let both = |p: &(Tensor, Tensor)| (&p.0 * &p.1).sum();
    vec![
        (line!(), "add", &a + &b),
        (line!(), "sub", &a - whole(&[1, 2])),
        (line!(), "div", &a / &b),
        (line!(), "matmul", a.matmul(&b)),
        (line!(), "matmul", Linear::new(key, 4, 2).apply(&a)),
        (line!(), "reshape", a.reshape([4, -1])),
        (line!(), "reshape", a.reshape([-1, -1])),
        (line!(), "sum", a.sum_over([0, 2])),
        (line!(), "softmax", a.softmax(-3)),
        (line!(), "permute", a.permute([0, 0])),
        (line!(), "concatenate", Tensor::concatenate([&a, &b], 0)),
        (line!(), "stack", Tensor::stack([&a, &b], -1)),
        (line!(), "einsum", Tensor::einsum("ij,jk->ik", [&a, &b])),
        (line!(), "einsum", Tensor::einsum("...i,...i->...", [&a, &x(&[3, 3])])),
        (line!(), "slice", a.slice(&[s(5)])),
        (line!(), "take", a.take(&a, 0)),
        (line!(), "take_along", a.take_along(&whole(&[0]), 1)),
        (line!(), "with_at", a.cast(DType::F32).with_at(&[&whole(&[0])], a.slice(&[s(0)]))),
        (line!(), "masked_fill", whole(&[1, 2]).masked_fill(&Tensor::from([true, false]), 0.5)),
        (line!(), "choose", a.choose(&a, &a)),
        (line!(), "mul", Tensor::from([true]) * Tensor::from([true])),
        (line!(), "one_hot", a.one_hot(3, DType::F32)),
        (line!(), "broadcast_to", a.broadcast_to([3, 3])),
        (line!(), "squeeze", a.squeeze(0)),
        (line!(), "top_k", a.top_k(7, 1).0),
        (line!(), "conv2d", image.conv2d(&x(&[2, 3, 2, 2]), Convolution::default())),
        (line!(), "conv2d", Conv2d::new(key, 3, 8, 3, Convolution::default()).apply(&image)),
        (line!(), "max_pool2d", image.max_pool2d(Pooling::new(5))),
        (line!(), "pad_by", image.pad_by(&[(1, 1)], Padding::Reflect)),
        (line!(), "scaled_dot_product_attention", a.scaled_dot_product_attention(&b, &b, &Attention::default())),
        (line!(), "attention", MultiHeadAttention::new(key, 6, 4).apply(&x(&[2, 6]))),
        (line!(), "embedding", Embedding::new(key, 10, 4).apply(&a)),
        (line!(), "layer_norm", LayerNorm::new(4).apply(&a)),
        (line!(), "RmsNorm", RmsNorm::new(4).apply(&a)),
        (line!(), "mse", loss::mse(&a, &b)),
        (line!(), "cross_entropy", loss::cross_entropy(&a, &whole(&[0, 1, 2]))),
        (line!(), "grad", grad(|x: &Tensor| x * 2.0)(&a)),
        (line!(), "hessian", hessian(|x: &Tensor| x.argmax(0))(&x(&[3]))),
        (line!(), "vmap", vmap(both)(&(x(&[2]), x(&[3])))),
        (line!(), "jvp", jvp(|x: &Tensor| x.sum(), &a, &b).1),
        (line!(), "vjp", vjp(|x: &Tensor| x.square(), &a).1(&b)),
        (line!(), "scan", scan(|c: &Tensor, _: &Tensor| (c.sum(), ()), &a, &b).0),
        (line!(), "cond", cond(&a.gt(0.0), Tensor::clone, Tensor::clone, &a)),
        (line!(), "while_loop", vmap(|x: &Tensor| while_loop(|x: &Tensor| x.gt(1.0), |x: &Tensor| x / 2, x))(&x(&[3]))),
        (line!(), "scan", fori_loop(0..3, |_: &Tensor, x: &Tensor| x.unsqueeze(0), &a)),
        (line!(), "matmul", jit(|x: &Tensor| x.matmul(x))(&a)),
        (line!(), "matmul", SparseMatrix::from_coo(&[0], &[0], Tensor::ones(1), [2, 2]).matmul(&b)),
        (line!(), "full", Tensor::full(2, 0.5, DType::I64)),
        (line!(), "new", Tensor::new(&[1.0, 2.0], [3])),
        (line!(), "update", Optimizer::sgd(0.1).update(&a, &b, &Optimizer::sgd(0.1).init(&a)).0),
    ]
}

/// The message without the numbers of its place.
fn text(error: &Error) -> String {
    let lines = error.to_string();
    let lines = lines.lines().map(|line| match line.split_once(file!()) {
        Some((before, numbers)) if numbers.starts_with(':') => format!("{before}tests/error_messages.rs:LINE"),
        _ => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn every_mistake_names_the_call_and_its_line() {
    let (mut messages, mut complaints) = (Vec::new(), Vec::new());
    for (line, name, tensor) in mistakes() {
        let Err(error) = tensor.eval() else {
            complaints.push(format!("line {line}: {name} has a value"));
            continue;
        };
        let here = error.origin().is_some_and(|at| at.file() == file!() && at.line() == line);
        if error.operation() != name || !here {
            complaints.push(format!("line {line}: {name} is reported as\n{error}"));
        }
        messages.push(text(&error));
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n\n"));
    assert!(messages.len() >= 40);
    insta::assert_snapshot!(messages.join("\n\n"));
}
