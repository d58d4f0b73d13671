//! Random functions of tensors, made of everything that a graph can hold.

use glassgrad::dtype::DType;
use glassgrad::expr::s;
use glassgrad::rng::Key;
use glassgrad::{Tensor, scan};

use super::random::Random;

/// What a random function is made of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Made {
    /// Steps that are smooth everywhere, so that finite differences and all modes must agree.
    #[allow(dead_code, reason = "not every test has a use for it")]
    Smoothly,
    /// Also steps with kinks and jumps, values without history, and loops.
    #[allow(dead_code, reason = "not every test has a use for it")]
    OfEverything,
}

/// A random function from vectors of three numbers to vectors of three numbers: products of many factors, views of
/// views, zeros and ones, sums, choices.
pub(crate) fn random_function(seed: u64, length: usize, dtype: DType, made: Made) -> impl Fn(&Tensor) -> Tensor {
    move |x| {
        let mut random = Random::new(seed);
        let mut pool: Vec<Tensor> = vec![x.clone()];
        for step in 0..length {
            let mut pick = || pool[random.next() as usize % pool.len()].clone();
            let (a, b) = (pick(), pick());
            let constant = Tensor::normal(Key::new(seed.wrapping_add(step as u64)), [3, 3]).cast(dtype);
            let constant = constant.detach().expect("random numbers") * 0.5;
            let kind = random.next();
            let next = match made {
                Made::Smoothly => smooth_step(kind, &a, &b, &constant),
                Made::OfEverything if kind.is_multiple_of(4) => other_step(kind / 4, &a, &b, &constant),
                Made::OfEverything => smooth_step(kind / 4, &a, &b, &constant),
            };
            pool.push(next);
        }
        let last = pool.len().saturating_sub(3);
        pool[last..].iter().cloned().sum::<Tensor>().tanh()
    }
}

fn smooth_step(kind: u64, a: &Tensor, b: &Tensor, constant: &Tensor) -> Tensor {
    let dtype = a.dtype();
    match kind % 31 {
        0 => a + b + a.zeros_like(),
        1 => -(-(a - b)),
        2 => a.tanh() * b,
        3 => a.sin() * b.ones_like() * Tensor::full([3], 0.5, dtype).exp(),
        4 => a.sigmoid() / (1.5 + b.cos()),
        5 => constant.matmul(constant).matmul(&constant.transpose()).matmul(a),
        6 => a.softmax(0),
        7 => a.tanh().outer(&b.sin()).matmul(constant).diag(),
        8 => a.flip([0]).flip([0]).slice(&[s(1..)]).pad(&[(1, 0)]),
        9 => a.take(&Tensor::from([1_i64, 2, 1]), 0),
        10 => a.scatter_add(&Tensor::from([0_i64, 2, 0]), 0, 3),
        11 => Tensor::concatenate([&a.slice(&[s(1..)]), &b.slice(&[s(..1)])], 0),
        12 => a.pad(&[(1, 1)]).slice(&[s(..).step(-2)]),
        13 => a.mean() + b.tanh(),
        14 => a.broadcast_to([3, 3]).transpose().sum_over(1) * 0.3,
        15 => (a.square() + 1.0).ln(),
        16 => a.logsumexp() * b.sin(),
        17 => (a.square().sum() + 1.0).sqrt() * b * 0.3,
        18 => Tensor::einsum("ij,i,jk,k->j", [constant, &a.sin(), constant, &b.tanh()]),
        19 => a.tanh().pow(2.0) + a.atan2(2.0 + b.cos()),
        20 => Tensor::stack([a, b], 1).permute([1, 0]).permute([1, 0]).sum_over(1),
        21 => a.reshape([3, 1]).reshape([1, 3]).matmul(constant).reshape([3]),
        22 => constant.slice(&[s(0)]).gt(0.0).not().not().choose(&a.gelu(), &b.erf()),
        23 => a.lt(b).choose(&a.sin(), &a.sin()),
        24 => a.outer(b).outer(&b.sin()).sum_over([0, 2]).tanh(),
        25 => a.diag().matmul(constant).matmul(&b.diag()).sum_over(0),
        26 => a.softplus().sqrt(),
        27 => a.cast(DType::F64).cast(dtype).exp().recip() * a.exp().recip(),
        28 => a.slice(&[s(..).step(-2)]).pad(&[(0, 1)]),
        29 => Tensor::stack([a, b], 1).permute([1, 0]).sum_over(0),
        _ => a.flip([0]),
    }
}

fn other_step(kind: u64, a: &Tensor, b: &Tensor, constant: &Tensor) -> Tensor {
    match kind % 5 {
        0 => (a.square() + 1.0).ln().stop_gradient() + b,
        1 => a.gt(0.0).not().not().choose(&a.gelu(), &b.erf()),
        2 => (a.max() + b.min()) * b.cos(),
        3 => a.gt(0.2).choose(&(a.square() + 0.1).ln(), &b.zeros_like()) + a.gt(0.2).cast(a.dtype()),
        _ => {
            let body = |state: &Tensor, x: &Tensor| {
                let next = (constant.matmul(constant).matmul(state) * 0.5 + x * b + 0.0 * state).tanh();
                (next.clone(), next.sum() + b.sum())
            };
            let (last, sums) = scan(body, a, &Tensor::stack([a, b, &a.sin()], 0));
            last + sums.slice(&[s(..3)])
        }
    }
}
