//! Attention by tiles before the plain formula: values, both modes, second derivatives, batching, and memory.

use glassgrad::dtype::DType;
use glassgrad::exec::footprint;
use glassgrad::nn::{Layer, MultiHeadAttention, TransformerBlock};
use glassgrad::operations::Attention;
use glassgrad::rng::Key;
use glassgrad::tree::Tree;
use glassgrad::{Tensor, compile, grad, hvp, jit, jvp, vmap};

type Operands = (Tensor, Tensor, Tensor);

fn normal(seed: u64, shape: &[usize]) -> Tensor {
    Tensor::normal(Key::new(seed), shape).cast(DType::F64)
}

fn assert_close(actual: &Tensor, expected: &Tensor) {
    assert_eq!(actual.shape(), expected.shape());
    let (actual, expected) = (actual.to_f64_vec().unwrap(), expected.to_f64_vec().unwrap());
    let size = expected.iter().fold(1.0_f64, |size, number| size.max(number.abs()));
    // Sums of at most a few hundred terms.
    let worst = actual.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(worst <= 1e3 * f64::EPSILON * size, "{worst}");
}

/// The formula with the whole matrix of scores; a row of the mask that is false throughout gives zeros.
fn plain((q, k, v): &Operands, mask: Option<&Tensor>) -> Tensor {
    let width = *q.shape().last().unwrap() as f64;
    let scores = q.matmul(&k.transpose()) / width.sqrt();
    let Some(mask) = mask else { return scores.softmax(-1).matmul(v) };
    let mask = mask.broadcast_to(scores.shape());
    let weights = mask.choose(&scores, &scores.full_like(-1e300)).softmax(-1);
    mask.choose(&weights, &weights.zeros_like()).matmul(v)
}

fn check(operands: &Operands, config: &Attention, mask: Option<&Tensor>) {
    let tiled = |x: &Operands| x.0.scaled_dot_product_attention(&x.1, &x.2, config);
    assert_close(&tiled(operands), &plain(operands, mask));
    let loss = |y: Tensor| (y.sin() * 2.0 + y.square()).sum();
    let (f, g) = (|x: &Operands| loss(tiled(x)), |x: &Operands| loss(plain(x, mask)));
    let (found, expected) = (grad(f)(operands), grad(g)(operands));
    let like = |seed: u64, tensor: &Tensor| normal(seed, tensor.shape());
    let direction = (like(7, &operands.0), like(8, &operands.1), like(9, &operands.2));
    let (found_second, expected_second) = (hvp(f, operands, &direction), hvp(g, operands, &direction));
    assert_close(&jvp(f, operands, &direction).1, &jvp(g, operands, &direction).1);
    for (found, expected) in [(found, expected), (found_second, expected_second)] {
        assert_close(&found.0, &expected.0);
        assert_close(&found.1, &expected.1);
        assert_close(&found.2, &expected.2);
    }
}

/// Which query sees which key, if the first query stands at `start`.
fn causal(queries: usize, keys: usize, start: usize) -> Tensor {
    Tensor::arange(keys as i64).le(Tensor::arange(queries as i64).unsqueeze(1) + start)
}

#[test]
fn tiles_are_the_formula_to_second_order() {
    // One tile, two that are full, and three of which the last is not.
    for (queries, keys) in [(5, 7), (256, 3), (300, 10)] {
        let operands = (normal(1, &[2, queries, 4]), normal(2, &[2, keys, 4]), normal(3, &[2, keys, 3]));
        check(&operands, &Attention::default(), None);
        check(&operands, &Attention::default().causal(), Some(&causal(queries, keys, 0)));
        check(&operands, &Attention::default().causal_from(2), Some(&causal(queries, keys, 2)));
        let mask = normal(4, &[queries, keys]).gt(0.3);
        check(&operands, &Attention::default().mask(&mask), Some(&mask));
        check(&operands, &Attention::default().mask(&mask).causal(), Some(&mask.and(&causal(queries, keys, 0))));
        let few = Tensor::arange(keys as i64).lt(2);
        check(&operands, &Attention::default().mask(&few), Some(&few));
        let per_head = normal(5, &[2, queries, keys]).gt(0.0);
        check(&operands, &Attention::default().mask(&per_head), Some(&per_head));
    }
}

#[test]
fn numbers_are_added_to_scores_and_the_scale_is_free() {
    let (q, k, v) = (normal(1, &[150, 4]), normal(2, &[6, 4]), normal(3, &[6, 2]));
    let bias = normal(4, &[150, 6]);
    let expected = (q.matmul(&k.transpose()) * 0.3 + &bias).softmax(-1).matmul(&v);
    assert_close(&q.scaled_dot_product_attention(&k, &v, &Attention::default().mask(&bias).scale(0.3)), &expected);
    let slope = |bias: &Tensor| {
        q.scaled_dot_product_attention(&k, &v, &Attention::default().mask(bias).scale(0.3)).square().sum()
    };
    let exact = grad(|bias: &Tensor| (q.matmul(&k.transpose()) * 0.3 + bias).softmax(-1).matmul(&v).square().sum());
    assert_close(&grad(slope)(&bias), &exact(&bias));
}

#[test]
fn groups_of_heads_share_keys() {
    let (q, k, v) = (normal(1, &[2, 6, 140, 4]), normal(2, &[2, 3, 9, 4]), normal(3, &[2, 3, 9, 5]));
    let repeated = (q.clone(), k.repeat(2, 1), v.repeat(2, 1));
    let shared = q.scaled_dot_product_attention(&k, &v, &Attention::default().causal());
    assert_close(&shared, &plain(&repeated, Some(&causal(140, 9, 0))));
    let mask = normal(4, &[6, 1, 9]).gt(0.0);
    let masked = q.scaled_dot_product_attention(&k, &v, &Attention::default().mask(&mask));
    assert_close(&masked, &plain(&repeated, Some(&mask)));
}

#[test]
fn batches_and_compiled_functions_see_the_same() {
    let (q, k, v) = (normal(1, &[3, 150, 4]), normal(2, &[3, 8, 4]), normal(3, &[3, 8, 4]));
    let config = Attention::default().causal();
    let one = |x: &Operands| x.0.scaled_dot_product_attention(&x.1, &x.2, &config);
    let whole = one(&(q.clone(), k.clone(), v.clone()));
    assert_close(&vmap(one)(&(q.clone(), k.clone(), v.clone())), &whole);
    assert_close(&jit(one)(&(q, k, v)), &whole);
}

#[test]
fn memory_of_the_gradient_does_not_hold_the_scores() {
    let bytes = |length: usize| {
        let x = Tensor::normal(Key::new(1), [1, length, 16]);
        let f = |x: &Tensor| x.scaled_dot_product_attention(x, x, &Attention::default().causal()).square().sum();
        footprint(&compile(grad(f)).program(&x).unwrap())
    };
    let (short, long) = (bytes(2048), bytes(4096));
    // Twice the length takes about twice the memory, and less than one matrix of scores in 32 bits.
    assert!(long < 3 * short, "{short} {long}");
    assert!(long < 4 * 4096 * 4096, "{long}");
}

#[test]
fn what_does_not_fit_is_refused() {
    let (q, k) = (normal(1, &[2, 4, 5, 8]), normal(2, &[2, 3, 7, 8]));
    let none = Attention::default();
    let refused = [
        (q.scaled_dot_product_attention(&k, &k, &none), "4 heads of queries do not share 3 heads of keys evenly"),
        (
            q.scaled_dot_product_attention(&normal(3, &[2, 4, 7, 6]), &k, &none),
            "it takes queries [.., heads, queries, width]",
        ),
        (
            q.scaled_dot_product_attention(&normal(3, &[3, 4, 7, 8]), &normal(3, &[3, 4, 7, 8]), &none),
            "the axes before the heads",
        ),
        (
            q.scaled_dot_product_attention(&q, &q, &none.clone().mask(&normal(4, &[2, 2]))),
            "a mask of the shape [2, 2] does not stretch",
        ),
        (
            q.scaled_dot_product_attention(&q, &q, &none.clone().causal_from(Tensor::from([1_i64]))),
            "the place of the first query",
        ),
    ];
    for (tensor, message) in refused {
        let error = tensor.eval().unwrap_err();
        assert_eq!(error.operation(), "scaled_dot_product_attention");
        assert!(error.message().starts_with(message), "{error}");
        assert!(error.origin().unwrap().file().ends_with("attention.rs"), "{error}");
    }
    // No keys at all, and a query that sees none: zeros.
    let empty = normal(1, &[3, 2]).scaled_dot_product_attention(&normal(1, &[0, 2]), &normal(1, &[0, 2]), &none);
    assert_eq!(empty.to_f64_vec().unwrap(), [0.0; 6]);
    let blind = none.mask(&Tensor::from([[true, true], [false, false]]));
    let x = normal(1, &[2, 2]);
    let seen = |x: &Tensor| x.scaled_dot_product_attention(x, x, &blind);
    assert_eq!(seen(&x).to_f64_vec().unwrap()[2..], [0.0, 0.0]);
    assert!(grad(|x: &Tensor| seen(x).sum())(&x).to_f64_vec().unwrap().iter().all(|number| number.is_finite()));
}

#[test]
fn a_cache_continues_sequences() {
    let block = TransformerBlock::new(Key::new(1), 8, 2).causal();
    let x = Tensor::normal(Key::new(2), [3, 6, 8]);
    let whole = block.apply(&x);
    // First four places at once, then one by one.
    let (mut cache, mut found) = (block.attention.cache(3, 6), Vec::new());
    for part in x.split(&[4, 1, 1], 1) {
        let (y, next) = block.apply_cached(&part, &cache);
        found.push(y);
        cache = next;
    }
    let apart = (Tensor::concatenate(&found, 1) - whole).abs().max().item().unwrap();
    assert!(apart < 64.0 * f64::from(f32::EPSILON), "{apart}");
    assert_eq!(cache.length.item().unwrap(), 6.0);
    let (_, full) = block.apply_cached(&x.slice(&[(..).into(), (..1).into()]), &cache);
    assert!(full.keys.eval().unwrap_err().to_string().contains("index 6 is not on axis 0, which has size 6"));
    let uneven = MultiHeadAttention::new(Key::new(1), 10, 3);
    let error = uneven.apply_cached(&Tensor::ones([2, 10]), &uneven.cache((), 4)).0.eval().unwrap_err();
    assert!(error.to_string().starts_with("apply_cached: 3 heads cannot share a width of 10 evenly"), "{error}");
}

#[test]
fn layers_over_long_sequences_attend_by_tiles() {
    let layer = MultiHeadAttention::new(Key::new(5), 8, 2).causal().cast(DType::F64);
    let dense = |layer: &MultiHeadAttention, x: &Tensor| {
        let count = x.shape()[0];
        let all = layer.input.apply(x).reshape([count, 3, 2, 4]);
        let part = |number: isize| all.slice(&[(..).into(), number.into()]);
        let scores = Tensor::einsum("qhd,khd->hqk", [&part(0), &part(1)]) * 0.5;
        let positions = Tensor::arange(count as i64);
        let mask = positions.unsqueeze(1).ge(&positions).broadcast_to([2, count, count]);
        let scores = mask.choose(&scores, &scores.full_like(f64::NEG_INFINITY));
        let mixed = Tensor::einsum("hqk,khd->qhd", [&scores.softmax(-1), &part(2)]);
        layer.output.apply(&mixed.reshape([count, 8]))
    };
    let x = normal(6, &[600, 8]);
    assert_close(&layer.apply(&x), &dense(&layer, &x));
    let tiled = grad(|layer: &MultiHeadAttention| layer.apply(&x).square().sum())(&layer);
    let stored = grad(|layer: &MultiHeadAttention| dense(layer, &x).square().sum())(&layer);
    for ((path, tiled), (_, stored)) in tiled.leaves().iter().zip(stored.leaves()) {
        let distance = (tiled - &stored).abs().max().item().expect("a number");
        let size = stored.abs().max().item().expect("a number");
        assert!(distance <= 1e-12 * size, "{path}: {distance} of {size}");
    }
    let memory = |count: usize| {
        let x = normal(6, &[count, 8]);
        footprint(&compile(grad(|x: &Tensor| layer.apply(x).square().sum())).program(&x).unwrap())
    };
    assert!(memory(4096) < 5 * memory(1024), "{} bytes, and {} for a quarter", memory(4096), memory(1024));
}
