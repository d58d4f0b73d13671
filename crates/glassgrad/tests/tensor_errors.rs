//! What a tensor that could not be says: the operation, the operands, and the user's line.

use std::collections::BTreeMap;

use glassgrad::diff::vmap_axes;
use glassgrad::dtype::DType;
use glassgrad::error::Error;
use glassgrad::expr::{Index, s};
use glassgrad::tree::Tree as _;
use glassgrad::{Tensor, grad, hessian, hvp, jacobian, jvp, value_and_grad, vjp, vmap};

/// The message of a tensor that has no value; places in this file lose their numbers.
fn message(tensor: &Tensor) -> String {
    text(&tensor.eval().expect_err("there is no value"))
}

fn text(error: &Error) -> String {
    let text = error.to_string();
    let file = file!();
    let lines = text.lines().map(|line| match line.split_once(file) {
        Some((before, numbers)) if numbers.starts_with(':') => format!("{before}tests/tensor_errors.rs:LINE"),
        _ => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Messages of several tensors, one after another.
fn messages(tensors: &[Tensor]) -> String {
    tensors.iter().map(message).collect::<Vec<_>>().join("\n\n")
}

/// A tensor of a shape, with numbers from 0.
fn x(shape: &[usize]) -> Tensor {
    let count: usize = shape.iter().product();
    Tensor::arange(count as f64).reshape(shape)
}

fn whole(elements: &[i64]) -> Tensor {
    Tensor::from(elements)
}

// ------------------------------------------------------------------ shapes

#[test]
fn matmul() {
    insta::assert_snapshot!(messages(&[
        x(&[2, 3]).named("x").matmul(&x(&[4, 5]).named("weight")),
        x(&[3]).matmul(&x(&[2])),
        x(&[2, 2, 3]).matmul(&x(&[3, 3, 2])),
        x(&[]).matmul(&x(&[2])),
    ]));
}

#[test]
fn broadcasting() {
    insta::assert_snapshot!(messages(&[
        x(&[2, 3]) + x(&[2]),
        x(&[2, 3]) - x(&[4, 3]),
        x(&[2, 3]) * x(&[2]),
        x(&[2, 3]) / x(&[2]),
        x(&[2]).pow(x(&[3])),
        x(&[2]).lt(x(&[3])),
        x(&[2]).gt(0.0).choose(&x(&[2]), &x(&[3])),
        x(&[2, 3]).broadcast_to([3, 2]),
    ]));
}

#[test]
fn einsum() {
    let (a, b) = (x(&[2, 3]), x(&[4, 5]));
    insta::assert_snapshot!(messages(&[
        Tensor::einsum("ij,jk", [&a, &b]),
        Tensor::einsum("ij,jk->ik", [&a]),
        Tensor::einsum("ij->ik", [&a]),
        Tensor::einsum("ij,jk->ik", [&a, &b]),
        Tensor::einsum("ijk->i", [&a]),
        Tensor::einsum("i1->i", [&a]),
        Tensor::einsum("ij->i=5", [&a]),
        Tensor::einsum_labels(&[(&a, &[0])], &[0]),
        Tensor::einsum_labels(&[(&a, &[0, 0])], &[0]),
        Tensor::einsum_labels(&[(&a, &[0, 1])], &[2]),
        Tensor::einsum_labels(&[(&a, &[0, usize::MAX])], &[usize::MAX - 1]),
        a.trace(),
        x(&[2]).trace(),
        a.kron(&x(&[2])),
    ]));
}

#[test]
fn concatenation() {
    let (a, b) = (x(&[2, 3]), x(&[4, 5]));
    insta::assert_snapshot!(messages(&[
        Tensor::concatenate([&a, &b], 0),
        Tensor::concatenate([&a, &x(&[3])], 0),
        Tensor::concatenate([&a, &a], 2),
        Tensor::concatenate(Vec::<Tensor>::new(), 0),
        Tensor::concatenate([&a, &a], -3),
        Tensor::stack([&a, &b], 0),
        Tensor::stack([&a, &a], 3),
    ]));
}

#[test]
fn reshaping() {
    insta::assert_snapshot!(messages(&[
        x(&[6]).reshape([4]),
        x(&[6]).reshape([0, 6]),
        x(&[2]).unsqueeze(2),
        Tensor::new(&[1.0, 2.0, 3.0], [2, 2]),
        x(&[2, 3]).permute([0, 0]),
        x(&[2, 3]).permute([0]),
        x(&[2, 3]).permute([1, 2]),
        x(&[2, 3]).pad(&[(1, 1)]),
        x(&[2, 3]).flip([2]),
    ]));
}

#[test]
fn slices() {
    let a = x(&[2, 3]);
    insta::assert_snapshot!(messages(&[
        a.slice(&[s(2)]),
        a.slice(&[s(..), s(-4)]),
        a.slice(&[s(0), s(0), s(0)]),
        a.slice(&[s(..).step(0)]),
        a.slice(&[Index::Rest, Index::Rest]),
    ]));
    // Ranges that leave the axis are cut to it, as in NumPy.
    assert_eq!(a.slice(&[s(..), s(1..99)]).shape().to_string(), "[2, 2]");
    assert_eq!(a.slice(&[s(5..)]).shape().to_string(), "[0, 3]");
}

#[test]
fn gathering() {
    let table = x(&[3, 2]);
    insta::assert_snapshot!(messages(&[
        table.take(&whole(&[0, 3]), 0),
        table.take(&whole(&[-4]), 0),
        table.take(&Tensor::from([0.0, 1.0]), 0),
        table.take(&whole(&[0]), 2),
        table.scatter_add(&whole(&[0, 1]), 0, 3),
        table.scatter_add(&whole(&[0, 1]), usize::MAX, 3),
        x(&[2, 2]).scatter_add(&whole(&[0, 5]), 0, 3),
        Tensor::from([0.5]).one_hot(3, DType::F64),
    ]));
}

#[test]
fn reductions() {
    let a = x(&[2, 3]);
    insta::assert_snapshot!(messages(&[
        a.sum_over(2),
        a.mean_over(-3),
        a.max_over(5),
        a.argmax(2),
        a.var_over(2),
        a.norm_over(2),
        a.softmax(2),
        a.log_softmax(-3),
        a.logsumexp_over(4),
        x(&[0]).max(),
        x(&[0]).min(),
        x(&[2, 0]).max_over(1),
        x(&[0]).argmax(0),
    ]));
}

// ------------------------------------------------------------------ types

#[test]
fn types() {
    let single = Tensor::from([1.0_f32]);
    let truth = Tensor::from([true, false]);
    insta::assert_snapshot!(messages(&[
        single.take(&single, 0),
        single.one_hot(2, DType::F32),
        single.with_at(&[&whole(&[0])], Tensor::from([1.0_f64])),
        whole(&[1, 2]).masked_fill(&truth, 0.5),
        whole(&[1, 2]).full_like(0.5),
        single.bitwise_and(1),
        &truth * &truth,
        &truth + &truth,
        &truth - &truth,
        -&truth,
        whole(&[1]).and(&whole(&[1])),
        single.choose(&single, &single),
    ]));
}

#[test]
fn reading_what_is_not_there() {
    let pair = Tensor::from([1.0, 2.0]).named("pair");
    let errors = [
        text(&pair.item().expect_err("two elements")),
        text(&x(&[0]).item().expect_err("no element")),
        text(&pair.to_vec::<f32>().expect_err("they are f64")),
        text(&pair.to_vec::<i64>().expect_err("they are f64")),
        text(&Tensor::zeros([1 << 20, 1 << 20]).eval().expect_err("too many")),
        text(&x(&[2]).pad(&[(usize::MAX, 1)]).eval().expect_err("too many")),
    ];
    insta::assert_snapshot!(errors.join("\n\n"));
}

// ------------------------------------------------------------------ transforms

#[test]
fn transforms() {
    let vector = Tensor::from([1.0, 2.0]);
    let uneven = (x(&[2, 3]), x(&[3, 3]));
    let pullback = vjp(|x: &Tensor| x.sin(), &vector).1;
    insta::assert_snapshot!(messages(&[
        grad(|x: &Tensor| x * 2.0)(&vector),
        grad(|x: &Tensor| x.argmax(0))(&vector),
        grad(|x: &Tensor| x.clone())(&vector),
        value_and_grad(|x: &Tensor| x.square())(&vector).1,
        hessian(|x: &Tensor| x.square())(&vector),
        (&vector.variable() * 2.0).backward().of(&vector),
        vmap(|p: &(Tensor, Tensor)| p.0.sum() + p.1.sum())(&uneven),
        vmap(|x: &Tensor| x.sum())(&Tensor::from(1.0)),
        pullback(&Tensor::from([1.0, 2.0, 3.0])),
        pullback(&Tensor::from([1.0_f32, 2.0])),
        jvp(|x: &Tensor| x.sin(), &vector, &Tensor::from(1.0)).1,
        jacobian(|x: &Tensor| x.argmax(0))(&vector),
        vjp(|x: &Tensor| vec![x.sin()], &vector).1(&Vec::new()),
        jvp(|x: &Vec<Tensor>| x[0].sin(), &vec![vector.clone()], &Vec::new()).1,
        hvp(|x: &Tensor| x.sin().sum(), &vector, &x(&[3])),
    ]));
}

#[test]
fn results_of_vmap_have_a_bounded_number_of_axes() {
    let rows = vmap_axes(|x: &Tensor| x * 2.0, 0, 5)(&x(&[2, 3]));
    assert!(rows.eval().expect_err("no such axis").to_string().starts_with("vmap: there is no axis 5"));
    let columns = vmap_axes(|x: &Tensor| x.sum(), 3, 0)(&x(&[2, 3]));
    assert_eq!(columns.error().map(Error::operation), Some("vmap"));
}

/// Asserts that an error was caused at a line of this file.
#[track_caller]
fn caused_at(error: &Error, operation: &str, line: u32) {
    let origin = error.origin().unwrap_or_else(|| panic!("a place: {error}"));
    assert_eq!((error.operation(), origin.file(), origin.line()), (operation, file!(), line), "{error}");
}

#[test]
fn the_first_cause_is_named_however_far_away() {
    let (cause, line) = (x(&[2, 3]).matmul(&x(&[4, 5])), line!());
    let second = x(&[2]) + x(&[3]);
    let mut y = cause.clone();
    for _ in 0..10 {
        y = (y.tanh() * 2.0 + 1.0).softmax(0).sum().reshape([1]).slice(&[s(0)]);
    }
    for far in [
        y.clone(),
        &y + &second,
        1.0 - &y,
        Tensor::concatenate([&x(&[2]), &y], 0),
        Tensor::stack([&y, &second], 0),
        Tensor::einsum("i,i->", [&y, &second]),
        y.permute([0, 1]).pad(&[(1, 1)]).transpose().diag().trace(),
        y.outer(&second).kron(&y).unsqueeze(7),
        y.take(&whole(&[9]), 3).scatter_add(&y, 1, 1).one_hot(2, DType::F32),
        y.max().min().mean().var().std().norm().logsumexp(),
        y.gt(0.0).choose(&second, &y),
        y.gt(0.0).and(&y.lt(1.0)).not(),
        y.flip([4]).cast(DType::I64).broadcast_to([9]).stop_gradient(),
        y.variable().zeros_like().ones_like(),
        y.argmax(3).max_over(2).sum_over(1),
        (-&y).abs() % 2.0,
    ] {
        caused_at(&far.item().expect_err("the first cause"), "matmul", line);
        caused_at(far.error().expect("it is known without reading"), "matmul", line);
    }
    let both = Tensor::eval_all(&[&x(&[2]), &y]).expect_err("one has no value");
    caused_at(&both, "matmul", line);
    assert!(y.to_string().starts_with("error: matmul: 3 columns meet 4 rows"), "{y}");
}

#[test]
fn causes_inside_library_compositions_are_at_the_line_of_the_user() {
    let a = x(&[2, 3]);
    let at = |tensor: &Tensor, operation: &str, line: u32| {
        caused_at(tensor.error().unwrap_or_else(|| panic!("{tensor:?} failed")), operation, line);
    };
    at(&a.softmax(2), "softmax", line!());
    at(&a.log_softmax(2), "log_softmax", line!());
    at(&a.logsumexp_over(2), "logsumexp", line!());
    at(&a.var_over(2), "var", line!());
    at(&a.std_over(2), "std", line!());
    at(&a.norm_over(2), "norm", line!());
    at(&a.min_over(2), "min", line!());
    at(&a.sum_over(2), "sum", line!());
    at(&a.mean_over(2), "mean", line!());
    at(&a.max_over(2), "max", line!());
    at(&a.argmax(2), "argmax", line!());
    at(&x(&[0]).max(), "max", line!());
    at(&x(&[2, 0]).max_over(1), "max", line!());
    at(&-Tensor::from([true]), "neg", line!());
    at(&a.matmul(&a), "matmul", line!());
    at(&a.inner(&x(&[2])), "inner", line!());
    at(&a.kron(&x(&[2])), "kron", line!());
    at(&a.trace(), "trace", line!());
    at(&a.diag(), "diag", line!());
    at(&Tensor::from([true]).outer(&Tensor::from([true])), "outer", line!());
    at(&a.slice(&[s(7)]), "slice", line!());
    at(&Tensor::stack([&a, &a], 3), "stack", line!());
    at(&Tensor::stack([&a, &x(&[2])], 0), "stack", line!());
    at(&(&a - x(&[2])), "sub", line!());
    at(&(1.0 - &a + x(&[2])), "add", line!());
    at(&-(&a * x(&[2])), "mul", line!());
    at(&a.maximum(x(&[2])), "max", line!());
    at(&a.lt(x(&[2])), "compare", line!());
    let mut sum = a.clone();
    sum += x(&[2]);
    at(&sum, "add", line!() - 1);
}

#[test]
fn causes_that_show_when_values_are_read_are_at_the_line_that_asked() {
    let (taken, line) = (x(&[3]).take(&whole(&[3]), 0), line!());
    assert!(taken.error().is_none(), "the index is not known before values are");
    let error = (taken.exp() + 1.0).sum().item().expect_err("out of range");
    caused_at(&error, "gather", line);
    let error = grad(|x: &Tensor| (x * &taken).sum())(&Tensor::from([1.0])).to_f64_vec().expect_err("out of range");
    caused_at(&error, "gather", line);
    // Reading again says the same.
    assert_eq!(taken.eval().expect_err("out of range").to_string(), taken.eval().expect_err("still").to_string());
}

#[test]
fn causes_in_what_a_transform_makes_are_at_the_line_that_asked() {
    let (table, places) = (x(&[2, 3, 2]), Tensor::from([[0_i64, 1], [3, 0]]));
    let at = |tensor: &Tensor, operation: &str, line: u32| {
        caused_at(&tensor.eval().expect_err("out of range"), operation, line);
    };
    let (own, line) = (|p: &(Tensor, Tensor)| p.0.take(&p.1, 0), line!());
    at(&vmap(own)(&(table.clone(), places.clone())), "gather", line);
    let (shared_table, line) = (|places: &Tensor| x(&[3]).take(places, 0), line!());
    at(&vmap(shared_table)(&places), "gather", line);
    let (shared_places, line) = (|table: &Tensor| table.take(&whole(&[5]), 0), line!());
    at(&vmap(shared_places)(&table), "gather", line);
    // The gather itself is never computed here: its derivative is a scatter.
    at(&grad(|x: &Tensor| shared_places(x).sum())(&x(&[3, 2])), "scatter_add", line);
    at(&jvp(shared_places, &x(&[3, 2]), &x(&[3, 2])).1, "gather", line);
    let (scattered, line) = (|p: &(Tensor, Tensor)| p.0.scatter_add(&p.1, 0, 3), line!());
    at(&vmap(scattered)(&(x(&[2, 2]), places.clone())), "scatter_add", line);
    at(&vmap(|entries: &Tensor| scattered(&(entries.clone(), whole(&[0, 7]))))(&x(&[2, 2])), "scatter_add", line);
    at(&grad(|entries: &Tensor| scattered(&(entries.clone(), whole(&[0, 7]))).sum())(&x(&[2])), "gather", line);
}

#[test]
fn sums_and_trees_that_do_not_fit_name_a_line_of_the_user() {
    let line = line!() + 1;
    let summands = [Tensor::zeros([2]), Tensor::zeros([3])];
    caused_at(summands.into_iter().sum::<Tensor>().error().expect("they do not fit"), "add", line);
    let (a, b) = ((x(&[2]), x(&[3])), (x(&[2]), x(&[4])));
    caused_at(a.add(&b).1.error().expect("they do not fit"), "add", line!());
    caused_at(a.inner_product(&b).error().expect("they do not fit"), "inner", line!());
    let (one, none) = (vec![x(&[2])], Vec::new());
    caused_at(one.add(&none)[0].error().expect("they differ"), "add", line!());
    caused_at(none.add(&one)[0].error().expect("they differ"), "add", line!());
    caused_at(one.zip(&none, |a, b| a * b)[0].error().expect("they differ"), "zip", line!());
    caused_at(one.inner_product(&none).error().expect("they differ"), "inner_product", line!());
    let (first, second) = (BTreeMap::from([("a", x(&[]))]), BTreeMap::from([("b", x(&[]))]));
    let error = first.add(&second)["a"].item().expect_err("they differ").to_string();
    assert!(error.starts_with("add: the trees differ: one has a leaf \"a\" and the other has not"), "{error}");
}

#[test]
fn failures_pass_through_transforms() {
    let vector = Tensor::from([1.0, 2.0]);
    let line = line!() + 1;
    let bad = |x: &Tensor| x.matmul(&Tensor::from([1.0, 2.0, 3.0])).exp();
    let failed = [
        grad(bad)(&vector),
        value_and_grad(bad)(&vector).0,
        value_and_grad(bad)(&vector).1,
        jacobian(bad)(&vector),
        hessian(bad)(&vector),
        jvp(bad, &vector, &vector).0,
        jvp(bad, &vector, &vector).1,
        hvp(bad, &vector, &vector),
        vjp(bad, &vector).0,
        vjp(bad, &vector).1(&Tensor::from(1.0)),
        vmap(bad)(&x(&[4, 2])),
        vmap(grad(bad))(&x(&[4, 2])),
        grad(|x: &Tensor| vmap(bad)(&x.reshape([1, 2])).sum())(&vector),
    ];
    for tensor in &failed {
        caused_at(&tensor.eval().expect_err("it failed"), "matmul", line);
    }
    let variable = vector.variable();
    caused_at(&bad(&variable).backward().of(&variable).eval().expect_err("it failed"), "matmul", line);
}

#[test]
fn failed_arguments_pass_through_transforms() {
    let (failed, line) = (x(&[2]).reshape([3]), line!());
    let f = |x: &Tensor| x.sin().sum();
    for tensor in [
        grad(f)(&failed),
        hessian(f)(&failed),
        jacobian(f)(&failed),
        vmap(f)(&failed),
        jvp(f, &x(&[2]), &failed).1,
        vjp(f, &x(&[2])).1(&failed),
        vmap(|p: &(Tensor, Tensor)| &p.0 + &p.1)(&(x(&[2]), failed.clone())),
    ] {
        caused_at(&tensor.eval().expect_err("it failed"), "reshape", line);
    }
}

#[test]
fn results_with_a_question_mark_inside_grad() {
    let line = line!() + 2;
    let f = |x: &Tensor| -> Result<Tensor, Error> {
        let wrong = x.reshape([7]);
        let value = wrong.eval()?;
        Ok(x.sum() * value.buffer().get(0))
    };
    let vector = Tensor::from([1.0, 2.0]);
    caused_at(&grad(f)(&vector).eval().expect_err("it failed"), "reshape", line);
    caused_at(&value_and_grad(f)(&vector).0.eval().expect_err("it failed"), "reshape", line);
    caused_at(&hessian(f)(&vector).eval().expect_err("it failed"), "reshape", line);
    caused_at(&vmap(f)(&x(&[3, 2])).eval().expect_err("it failed"), "reshape", line);
    let parts = |x: &Tensor| -> Result<(Tensor, [Tensor; 2]), Error> {
        let wrong = x.matmul(&Tensor::from([1.0, 2.0, 3.0]));
        wrong.item()?;
        Ok((x.clone(), [x.clone(), x.clone()]))
    };
    let (first, [second, third]) = vjp(parts, &vector).0;
    for part in [first, second, third] {
        assert_eq!(part.error().map(Error::operation), Some("matmul"));
    }
    // Where nothing fails, the result is that of the function.
    let fine = |x: &Tensor| -> Result<Tensor, Error> { Ok(x.sum() * x.sum().item()?) };
    assert_eq!(grad(fine)(&vector).to_string(), "[3, 3]");
}

#[test]
fn errors_are_errors_of_the_standard_library() {
    fn read() -> Result<f64, Box<dyn std::error::Error>> {
        Ok(x(&[2]).item()?)
    }
    assert!(read().expect_err("two elements").to_string().starts_with("item: the tensor has 2 elements"));
}

#[test]
fn composed_operations_are_reported_by_the_name_that_was_called() {
    use glassgrad::nn::{BatchNorm, Layer as _, LayerNorm, Lstm, Recurrent, Statistics};
    use glassgrad::rng::Key;

    let matrix = x(&[2, 3]).named("x");
    insta::assert_snapshot!(messages(&[
        matrix.softmax(5),
        matrix.log_softmax(5),
        matrix.min_over(5),
        matrix.var_over(5),
        Tensor::stack([&matrix, &x(&[3, 2])], 0),
        matrix.trace(),
        matrix.diag(),
        BatchNorm::new(4).normalize(&x(&[5, 3, 2]).named("images"), &Statistics::new(4)).0,
        BatchNorm::new(4).predict(&x(&[5]).named("images"), &Statistics::new(4)),
        LayerNorm::new(4).apply(&matrix.cast(DType::F32)),
        Recurrent::new(Lstm::new(Key::new(1), 4, 8)).apply(&Tensor::ones([5, 2, 3]).named("sequences")),
        Tensor::from([true, false]).named("left") * Tensor::from([true, false]).named("right"),
        Tensor::from([1.0_f32, 2.0]).named("logits") - Tensor::from([1_i64, 2, 3]).named("targets"),
    ]));
    // An operand that failed before keeps its own error.
    let failed = matrix.reshape([7]);
    assert_eq!(failed.softmax(0).eval().expect_err("failed").operation(), "reshape");
}
