//! Compositions: recurrences, losses, layers, and small models from the sciences.

use std::f64::consts::{LN_2, PI, SQRT_2};

use glassgrad::expr::{Axes, s};
use glassgrad::{Tensor, scan};

use super::tensors::cross;
use super::{Entry, at, constant};

pub(crate) const RECURRENCES: &[Entry] = &[
    ("scan running sum", |x| running(|sum, x| sum + x, &at(&x[0], 0).zeros_like(), &x[0]).square()),
    ("scan running product", |x| running(|product, x| product * x, &at(&x[0], 0).ones_like(), &x[0])),
    ("scan running sum of rows", |x| running(|sum, x| sum + x.sin(), &at(&x[0], 0).zeros_like(), &x[0])),
    ("scan moving average", |x| running(|m, y| &x[1] * m + (1.0 - &x[1]) * y, &x[1].zeros_like(), &x[0])),
    ("scan running logsumexp", |x| {
        let larger = |a: &Tensor, b: &Tensor| Tensor::stack([a, b], 0).logsumexp();
        running(larger, &(at(&x[0], 0).zeros_like() - 1000.0), &x[0])
    }),
    ("scan horner", |x| last(|y, c| y * &x[1] + c, &x[1].zeros_like(), &x[0])),
    ("scan backwards", |x| running(|m, y| &x[1] * m + y.square(), &x[1].zeros_like(), &x[0].flip([0]))),
    ("scan rnn", |x| running(|h, row| rnn(h, row, x), &x[3].zeros_like(), &x[0])),
    ("unrolled rnn", |x| (0..3).fold(x[3].zeros_like(), |h, k| rnn(&h, &at(&x[0], k), x))),
    ("scan lstm", |x| {
        let start = (at(&x[3], 0).zeros_like(), at(&x[3], 0).zeros_like());
        scan(|state, row| (lstm(state, row, x), lstm(state, row, x).0), &start, &x[0]).1
    }),
    ("unrolled lstm", |x| {
        let start = (at(&x[3], 0).zeros_like(), at(&x[3], 0).zeros_like());
        (0..2).fold(start, |state, k| lstm(&state, &at(&x[0], k), x)).0
    }),
    ("scan gru", |x| running(|h, row| gru(h, row, x), &at(&x[3], 0).zeros_like(), &x[0])),
    ("unrolled gru", |x| (0..2).fold(at(&x[3], 0).zeros_like(), |h, k| gru(&h, &at(&x[0], k), x))),
    ("hidden markov likelihood", |x| {
        let start = x[0].softmax(-1) * at(&x[2], 0);
        last(|state, seen| state.matmul(&x[1].softmax(-1)) * seen, &start, &x[2].slice(&[s(1..)])).sum().ln()
    }),
    ("random field normaliser", |x| {
        let step = |state: &Tensor, scores: &Tensor| (state.unsqueeze(1) + &x[1]).logsumexp_over(0) + scores;
        last(step, &(&x[0] + at(&x[2], 0)), &x[2].slice(&[s(1..)])).logsumexp()
    }),
    ("scan euler", |x| last(|y, _| y + 0.1 * x[1].matmul(y).tanh(), &x[0], &Tensor::zeros(4))),
    ("runge kutta of hunters", |x| {
        let rate = |k| at(&x[1], k);
        let slope = |y: &Tensor| {
            let (prey, hunters) = (at(y, 0), at(y, 1));
            let meetings = &prey * &hunters;
            Tensor::stack([&(rate(0) * prey - rate(1) * &meetings), &(rate(2) * meetings - rate(3) * hunters)], 0)
        };
        (0..3).fold(x[0].clone(), |y, _| {
            let a = slope(&y);
            let b = slope(&(&y + 0.1 * &a));
            let c = slope(&(&y + 0.1 * &b));
            let d = slope(&(&y + 0.2 * &c));
            y + 0.2 / 6.0 * (a + 2.0 * b + 2.0 * c + d)
        })
    }),
    ("leapfrog pendulum", |x| {
        let step = |(q, v): &(Tensor, Tensor), _: &Tensor| {
            let half = v - 0.05 * q.sin();
            let q = q + 0.1 * &half;
            let v = half - 0.05 * q.sin();
            ((q, v), ())
        };
        let (q, v) = scan(step, &(x[0].clone(), x[1].clone()), &Tensor::zeros(4)).0;
        Tensor::concatenate([&q, &v], 0)
    }),
    ("power iteration", |x| {
        (0..4).fold(x[1].clone(), |y, _| {
            let y = x[0].matmul(&y);
            &y / y.norm()
        })
    }),
    ("newton square root", |x| last(|y, _| 0.5 * (y + &x[0] / y), &x[0], &Tensor::zeros(5))),
    ("logistic map", |x| last(|y, _| &x[1] * y * (1.0 - y), &x[0], &Tensor::zeros(5))),
    ("kalman filter", |x| {
        let step = |(mean, spread): &(Tensor, Tensor), seen: &Tensor| {
            let spread = spread + at(&x[1], 0);
            let gain = &spread / (&spread + at(&x[1], 1));
            let mean = mean + &gain * (seen - mean);
            ((mean.clone(), (1.0 - gain) * spread), mean)
        };
        let zero = at(&x[0], 0).zeros_like();
        scan(step, &(zero.clone(), zero.ones_like()), &x[0]).1
    }),
];

/// All states of a loop.
fn running(step: impl Fn(&Tensor, &Tensor) -> Tensor, start: &Tensor, sequence: &Tensor) -> Tensor {
    scan(|state: &Tensor, entry: &Tensor| (step(state, entry), step(state, entry)), start, sequence).1
}

/// The last state of a loop.
fn last(step: impl Fn(&Tensor, &Tensor) -> Tensor, start: &Tensor, sequence: &Tensor) -> Tensor {
    scan(|state: &Tensor, entry: &Tensor| (step(state, entry), ()), start, sequence).0
}

/// One step; `x` is the sequence, the weights of inputs and of states, and the bias.
fn rnn(h: &Tensor, row: &Tensor, x: &[Tensor]) -> Tensor {
    (row.matmul(&x[1]) + h.matmul(&x[2]) + &x[3]).tanh()
}

/// One step, with the weights of the gates input, forget, candidate and output along the first axis.
fn lstm((h, c): &(Tensor, Tensor), row: &Tensor, x: &[Tensor]) -> (Tensor, Tensor) {
    let gate = |k| row.matmul(&at(&x[1], k)) + h.matmul(&at(&x[2], k)) + at(&x[3], k);
    let c = gate(1).sigmoid() * c + gate(0).sigmoid() * gate(2).tanh();
    (gate(3).sigmoid() * c.tanh(), c)
}

/// One step, with the weights of the gates reset, update and candidate along the first axis.
fn gru(h: &Tensor, row: &Tensor, x: &[Tensor]) -> Tensor {
    let own = |k| h.matmul(&at(&x[2], k)) + at(&x[3], k);
    let reset = (row.matmul(&at(&x[1], 0)) + own(0)).sigmoid();
    let update = (row.matmul(&at(&x[1], 1)) + own(1)).sigmoid();
    let candidate = (row.matmul(&at(&x[1], 2)) + reset * own(2)).tanh();
    (1.0 - &update) * candidate + update * h
}

pub(crate) const LOSSES: &[Entry] = &[
    ("mean squared error", |x| (&x[0] - &x[1]).square().mean()),
    ("mean absolute error", |x| (&x[0] - &x[1]).abs().mean()),
    ("kl divergence", |x| (x[0].softmax(-1) * (x[0].log_softmax(-1) - x[1].log_softmax(-1))).sum()),
    ("jensen shannon", |x| {
        let part = |a: &Tensor, b: &Tensor| (a * (2.0 * a / (a + b)).ln()).sum();
        (part(&x[0], &x[1]) + part(&x[1], &x[0])) / 2.0
    }),
    ("hinge", |x| (1.0 - &x[1] * &x[0]).relu().mean()),
    ("squared hinge", |x| (1.0 - &x[1] * &x[0]).relu().square().mean()),
    ("logistic loss", |x| (-&x[1] * &x[0]).softplus().mean()),
    ("log cosh loss", |x| {
        let error = &x[0] - &x[1];
        ((2.0 * &error).softplus() - error - LN_2).mean()
    }),
    ("pinball loss", |x| (0.3 * (&x[1] - &x[0])).maximum(-0.7 * (&x[1] - &x[0])).mean()),
    ("focal loss", |x| {
        let hard = (1.0 - x[0].softmax(-1)).square() * x[0].log_softmax(-1);
        (-x[1].one_hot(4, x[0].dtype()) * hard).sum_over(1).mean()
    }),
    ("contrastive loss", |x| -(2.0 * &x[0]).matmul(&x[1].transpose()).log_softmax(1).diag().mean()),
    ("dice loss", |x| {
        let y = x[0].sigmoid();
        1.0 - (2.0 * (&y * &x[1]).sum() + 1.0) / (y.sum() + x[1].sum() + 1.0)
    }),
    ("label smoothing", |x| {
        let truth = 0.9 * x[1].one_hot(4, x[0].dtype()) + 0.025;
        -(truth * x[0].log_softmax(-1)).sum_over(1).mean()
    }),
    ("weight decay", |x| 0.5 * x[0].square().sum() + 0.1 * x[1].abs().sum()),
    ("cauchy loss", |x| (&x[0] / &x[1]).square().log1p().sum()),
    ("gaussian kl", |x| 0.5 * (x[1].exp() + x[0].square() - 1.0 - &x[1]).sum()),
    ("evidence bound", |x| {
        let (mean, spread) = (x[0].matmul(&x[1]), x[0].matmul(&x[2]));
        let code = &mean + (0.5 * &spread).exp() * &x[4];
        let error = (&x[0] - code.matmul(&x[3])).square().sum();
        error + 0.5 * (spread.exp() + mean.square() - 1.0 - spread).sum()
    }),
    ("policy surrogate", |x| {
        let chosen = (x[1].one_hot(4, x[0].dtype()) * x[0].log_softmax(-1)).sum_over(1);
        -(&x[2] * chosen).mean()
    }),
    ("clipped surrogate", |x| {
        let ratio = (3.0 * &x[0]).exp();
        -(&ratio * &x[1]).minimum(ratio.maximum(0.8).minimum(1.2) * &x[1]).mean()
    }),
    ("logistic regression", |x| {
        let score = x[0].matmul(&x[1]) + &x[2];
        (score.softplus() - &x[3] * score).mean()
    }),
    ("poisson regression", |x| {
        let score = x[0].matmul(&x[1]);
        (score.exp() - &x[2] * score).mean()
    }),
    ("proportional hazards", |x| {
        let score = x[0].matmul(&x[1]);
        let at_risk = running(|sum, x| sum + x, &at(&score, 0).zeros_like(), &score.exp().flip([0])).flip([0]);
        -(score - at_risk.ln()).sum()
    }),
    ("student likelihood", |x| {
        let n = &x[1];
        let constant = ((n + 1.0) / 2.0).lgamma() - (n / 2.0).lgamma() - 0.5 * (n * PI).ln();
        (constant - (n + 1.0) / 2.0 * (x[0].square() / n).log1p()).sum()
    }),
    ("gamma likelihood", |x| (&x[1] * x[2].ln() - x[1].lgamma() + (&x[1] - 1.0) * x[0].ln() - &x[2] * &x[0]).sum()),
    ("dirichlet likelihood", |x| x[1].sum().lgamma() - x[1].lgamma().sum() + ((&x[1] - 1.0) * x[0].ln()).sum()),
    ("gaussian mixture", |x| {
        let distance = (x[0].unsqueeze(1) - &x[2]) * (-&x[3]).exp();
        -(x[1].log_softmax(-1) - 0.5 * distance.square() - &x[3]).logsumexp_over(1).sum()
    }),
    ("huber", |x| {
        let error = (&x[0] - &x[1]).abs();
        error.lt(0.7).choose(&(0.5 * error.square()), &(0.7 * (&error - 0.35))).mean()
    }),
    ("smooth absolute error", |x| {
        let error = (&x[0] - &x[1]).abs();
        error.lt(1.0).choose(&(0.5 * error.square()), &(&error - 0.5)).mean()
    }),
    ("cross entropy", |x| -(x[1].one_hot(4, x[0].dtype()) * x[0].log_softmax(-1)).sum_over(1).mean()),
    ("cross entropy of large logits", |x| -(x[1].one_hot(3, x[0].dtype()) * x[0].log_softmax(-1)).sum_over(1).mean()),
    ("negative log likelihood", |x| -(x[1].one_hot(4, x[0].dtype()) * x[0].ln()).sum_over(1).mean()),
    ("binary cross entropy", |x| -(&x[1] * x[0].ln() + (1.0 - &x[1]) * (-&x[0]).log1p()).mean()),
    ("binary cross entropy with logits", |x| (x[0].softplus() - &x[1] * &x[0]).mean()),
    ("gaussian likelihood", |x| (0.5 * (x[2].ln() + (&x[0] - &x[1]).square() / &x[2])).mean()),
    ("poisson likelihood", |x| (x[0].exp() - &x[1] * &x[0]).mean()),
    ("cosine embedding", |x| (1.0 - (&x[0] * &x[1]).sum_over(1) / x[0].norm_over(1) / x[1].norm_over(1)).mean()),
    ("triplet margin", |x| (2.0 + (&x[0] - &x[1]).norm_over(1) - (&x[0] - &x[2]).norm_over(1)).relu().mean()),
];

pub(crate) const LAYERS: &[Entry] = &[
    ("linear", |x| x[0].matmul(&x[1]) + &x[2]),
    ("tanh network", |x| (x[0].matmul(&x[1]) + &x[2]).tanh().matmul(&x[3]) + &x[4]),
    ("relu network", |x| (x[0].matmul(&x[1]) + &x[2]).relu().matmul(&x[3])),
    ("gelu network with cross entropy", |x| {
        let logits = x[0].matmul(&x[1]).gelu().matmul(&x[2]);
        -(x[3].one_hot(3, logits.dtype()) * logits.log_softmax(-1)).sum_over(1).mean()
    }),
    ("residual block", |x| &x[0] + x[0].matmul(&x[1]).silu().matmul(&x[2])),
    ("gated unit", |x| x[0].matmul(&x[1]) * x[0].matmul(&x[2]).sigmoid()),
    ("highway", |x| {
        let gate = x[0].matmul(&x[2]).sigmoid();
        &gate * x[0].matmul(&x[1]).tanh() + (1.0 - &gate) * &x[0]
    }),
    ("swish gated block", |x| (x[0].matmul(&x[1]).silu() * x[0].matmul(&x[2])).matmul(&x[3])),
    ("layer norm", |x| standardised(&x[0], -1) * &x[1] + &x[2]),
    ("batch norm", |x| standardised(&x[0], 0) * &x[1] + &x[2]),
    ("root mean square norm", |x| &x[0] / (x[0].square().mean_over(Axes::from(-1).keep()) + 1e-6).sqrt() * &x[1]),
    ("weight norm", |x| ((&x[1] / x[0].norm_over(1)).unsqueeze(1) * &x[0]).matmul(&x[2])),
    ("attention", |x| attention(&x[0], &x[1..], &x[0].literal(0.0))),
    ("causal attention", |x| {
        let rows = Tensor::arange(3.0).unsqueeze(1).broadcast_to([3, 3]);
        let ahead = rows.lt(rows.transpose()).cast(x[0].dtype());
        attention(&x[0], &x[1..], &(ahead * -1e9))
    }),
    ("two heads of attention", |x| {
        let part = |k| x[0].matmul(&at(&x[1], k)).reshape([3, 2, 2]).permute([1, 0, 2]);
        let scores = Tensor::einsum("hqd,hkd->hqk", [&part(0), &part(1)]) / SQRT_2;
        Tensor::einsum("hqk,hkd->hqd", [&scores.softmax(-1), &part(2)]).permute([1, 0, 2]).reshape([3, 4])
    }),
    ("linear attention", |x| x[0].softmax(-1).matmul(&x[1].softmax(0).transpose().matmul(&x[2]))),
    ("transformer block", |x| {
        let norm = |x: &Tensor, scale: Tensor, shift: Tensor| standardised(x, -1) * scale + shift;
        let scale = |k| at(&x[6], k);
        let y = &x[0] + attention(&norm(&x[0], scale(0), scale(1)), &x[1..4], &x[0].literal(0.0));
        &y + norm(&y, scale(2), scale(3)).matmul(&x[4]).gelu().matmul(&x[5])
    }),
    ("rotary positions", |x| {
        let angle = constant(&x[0], &[0.0, 0.0, 1.0, 0.1, 2.0, 0.2]).reshape([3, 2]);
        let (a, b) = (x[0].slice(&[s(..), s(..2)]), x[0].slice(&[s(..), s(2..)]));
        let turned = [&a * angle.cos() - &b * angle.sin(), &a * angle.sin() + &b * angle.cos()];
        Tensor::concatenate([&turned[0], &turned[1]], 1).square()
    }),
    ("squeeze and excite", |x| &x[0] * x[0].mean_over(0).matmul(&x[1]).relu().matmul(&x[2]).sigmoid()),
    ("mixture of experts", |x| {
        let experts = Tensor::einsum("bi,eio->beo", [&x[0], &x[2]]).tanh();
        Tensor::einsum("be,beo->bo", [&x[0].matmul(&x[1]).softmax(-1), &experts])
    }),
    ("factorisation machine", |x| {
        let pairs = x[0].matmul(&x[1]).square() - x[0].square().matmul(&x[1].square());
        x[0].matmul(&x[2]) + 0.5 * pairs.sum()
    }),
    ("graph convolution", |x| x[2].matmul(&x[0]).matmul(&x[1]).relu()),
    ("hopfield energy", |x| 0.5 * x[0].matmul(&x[0]) - (2.0 * x[1].matmul(&x[0])).logsumexp() / 2.0),
    ("deep linear network", |x| (x[0].matmul(&x[1].matmul(&x[2].matmul(&x[3]))) - 1.0).square().sum()),
    ("radial basis network", |x| (-(x[0].unsqueeze(1) - &x[1]).square().sum_over(-1) * &x[2]).exp().matmul(&x[3])),
    ("maxout", |x| Tensor::einsum("bi,kio->bko", [&x[0], &x[1]]).max_over(1)),
    ("group norm", |x| {
        standardised(&x[0].reshape([2, 2, 4]), 2).reshape([2, 4, 2]) * x[1].unsqueeze(1) + x[2].unsqueeze(1)
    }),
    ("instance norm", |x| standardised(&x[0], 2)),
];

/// Zero mean and unit variance along an axis.
fn standardised(x: &Tensor, axis: isize) -> Tensor {
    let axes = Axes::from(axis).keep();
    (x - x.mean_over(axes.clone())) / (x.var_over(axes) + 1e-5).sqrt()
}

/// A head of attention with matrices for queries, keys and values, and a mask that is added to the scores.
fn attention(x: &Tensor, weights: &[Tensor], mask: &Tensor) -> Tensor {
    let scores = x.matmul(&weights[0]).matmul(&x.matmul(&weights[1]).transpose());
    let width = weights[0].shape()[1] as f64;
    (scores / width.sqrt() + mask).softmax(-1).matmul(&x.matmul(&weights[2]))
}

pub(crate) const FIELDS: &[Entry] = &[
    ("rosenbrock", |x| {
        let (here, next) = (x[0].slice(&[s(..-1)]), x[0].slice(&[s(1..)]));
        (100.0 * (next - here.square()).square() + (1.0 - here).square()).sum()
    }),
    ("rastrigin", |x| (x[0].square() - 10.0 * (2.0 * PI * &x[0]).cos() + 10.0).sum()),
    ("ackley", |x| -20.0 * (-0.2 * x[0].square().mean().sqrt()).exp() - (2.0 * PI * &x[0]).cos().mean().exp()),
    ("himmelblau", |x| {
        let (a, b) = (at(&x[0], 0), at(&x[0], 1));
        (a.square() + &b - 11.0).square() + (a + b.square() - 7.0).square()
    }),
    ("beale", |x| {
        let (a, b) = (at(&x[0], 0), at(&x[0], 1));
        let term = |number: f64, n: i32| (number - &a + &a * b.powi(n)).square();
        term(1.5, 1) + term(2.25, 2) + term(2.625, 3)
    }),
    ("styblinski tang", |x| (x[0].powi(4) - 16.0 * x[0].square() + 5.0 * &x[0]).sum() / 2.0),
    ("levy", |x| {
        let y = x[0].slice(&[s(..-1)]);
        (((&y - 1.0) / 4.0).square() * (1.0 + 10.0 * (PI * (&y + 3.0) / 4.0).sin().square())).sum()
    }),
    ("michalewicz", |x| {
        let number = constant(&x[0], &[1.0, 2.0, 3.0]);
        -(x[0].sin() * (number * x[0].square() / PI).sin().powi(8)).sum()
    }),
    ("pendulum energy", |x| 0.5 * x[2].square() * x[1].square() - 9.81 * &x[2] * x[0].cos()),
    ("kepler energy", |x| 0.5 * x[1].square().sum() - 1.0 / x[0].norm()),
    ("lennard jones", |x| {
        let own = Tensor::eye(3).cast(x[0].dtype()) * 1e3;
        let squares = (x[0].unsqueeze(1) - &x[0]).square().sum_over(-1) + own;
        (squares.powi(-6) - squares.powi(-3)).sum() / 2.0
    }),
    ("black scholes", |x| {
        let spread = &x[2] * x[3].sqrt();
        let d = ((&x[0] / &x[1]).ln() + 0.5 * spread.square()) / &spread;
        let below = |x: Tensor| 0.5 * (x / -SQRT_2).erfc();
        &x[0] * below(d.clone()) - &x[1] * below(d - spread)
    }),
    ("ideal gas work", |x| &x[2] * (&x[1] / &x[0]).ln()),
    ("van der waals", |x| &x[1] / (&x[0] - 0.1) - 0.5 / x[0].square()),
    ("planck law", |x| x[0].powi(3) / (&x[0] / &x[1]).expm1()),
    ("arrhenius", |x| &x[0] * (-&x[1] / &x[2]).exp()),
    ("michaelis menten", |x| &x[1] * &x[0] / (&x[2] + &x[0])),
    ("hill equation", |x| x[0].pow(&x[2]) / (x[1].pow(&x[2]) + x[0].pow(&x[2]))),
    ("great circle", |x| {
        let haversine = |a: Tensor| (a / 2.0).sin().square();
        let chord = haversine(&x[2] - &x[0]) + x[0].cos() * x[2].cos() * haversine(&x[3] - &x[1]);
        2.0 * chord.sqrt().asin()
    }),
    ("spherical to cartesian", |x| {
        let plane = &x[0] * x[1].sin();
        Tensor::stack([&(&plane * x[2].cos()), &(&plane * x[2].sin()), &(&x[0] * x[1].cos())], 0)
    }),
    ("quaternion rotation", |x| {
        let unit = &x[0] / x[0].norm();
        let (w, v) = (at(&unit, 0), unit.slice(&[s(1..)]));
        let turn = 2.0 * cross(&v, &x[1]);
        &x[1] + w * &turn + cross(&v, &turn)
    }),
    ("relativistic energy", |x| (x[0].square().sum() + x[1].square()).sqrt()),
    ("lens equation", |x| (x[1].recip() - x[0].recip()).recip()),
    ("softened gravity", |x| {
        let distance = ((x[0].unsqueeze(1) - &x[0]).square().sum_over(-1) + 0.1).sqrt();
        -(x[1].outer(&x[1]) / distance).sum() / 2.0
    }),
    ("ising mean field", |x| {
        let entropy = |m: Tensor| &m * (&m / 2.0).ln();
        0.5 * (entropy(1.0 + &x[0]) + entropy(1.0 - &x[0])).sum() - 0.5 * x[0].matmul(&x[1]).matmul(&x[0])
    }),
    ("fourier series", |x| {
        let angle = x[0].outer(&constant(&x[0], &[1.0, 2.0, 3.0]));
        angle.cos().matmul(&x[1]) + angle.sin().matmul(&x[2])
    }),
    ("bezier curve", |x| {
        let (t, u) = (&x[0], 1.0 - &x[0]);
        let basis = [u.powi(3), 3.0 * t * u.square(), 3.0 * t.square() * &u, t.powi(3)];
        Tensor::stack(basis.each_ref(), 1).matmul(&x[1])
    }),
    ("lagrange interpolation", |x| {
        let (y, x) = (|k| at(&x[0], k), &x[1]);
        y(0) * (x - 1.0) * (x - 2.0) / 2.0 - y(1) * x * (x - 2.0) + y(2) * x * (x - 1.0) / 2.0
    }),
    ("simpson rule", |x| (constant(&x[0], &[1.0, 4.0, 2.0, 4.0, 1.0]) * (&x[1] * &x[0]).sin().exp()).sum() / 12.0),
];
