"""Operations and compositions on tensors with their values, gradients and Hessian-vector products by JAX and PyTorch.

    pip install jax torch
    python bench/golden/operations.py

Each case is a function of small arrays. With a seeded weight w and a seeded direction v, the file holds f(x), the
gradient of Σ w·f(x) and the product of its Hessian with v, with respect to every floating-point input. Both peers
compute all of it and must agree to 1e-9 of the largest number; a case that only one can do says why. Inputs are
multiples of 2⁻¹², hence exact also in 32 bits, and depend on the name of their case alone.

The tables in `crates/glassgrad/tests/golden/*.rs` say what each name is in this engine.
"""

import json
import pathlib
import sys
import zlib

import numpy as np
from peers import VERSIONS, by_jax, by_torch, jax, jnp, nnf, torch

SEED = 20240
AGREEMENT = 1e-9
TESTS = pathlib.Path(__file__).resolve().parents[2] / "crates/glassgrad/tests/golden"
CASES = {}

# ------------------------------------------------------------------ inputs


def grid(x):
    return np.round(np.asarray(x) * 4096) / 4096


def uniform(low, high, *shape):
    return lambda random: grid(random.uniform(low, high, shape))


def normal(*shape):
    """Numbers of both signs that keep a distance from 0, where many functions have a kink."""
    return lambda random: grid(random.choice([-1.0, 1.0], shape) * random.uniform(0.1, 1.6, shape))


def positive(*shape):
    return uniform(0.3, 2.5, *shape)


def unit(*shape):
    return uniform(0.1, 0.9, *shape)


def integers(high, *shape):
    return lambda random: random.integers(0, high, shape)


def given(numbers):
    return lambda random: np.asarray(numbers)


def definite(size, *lead):
    """Symmetric positive definite matrices."""

    def made(random):
        a = np.round(random.uniform(-1, 1, (*lead, size, size)) * 64) / 64
        return a @ np.swapaxes(a, -1, -2) + np.eye(size)

    return made


def regular(size, *lead):
    """Matrices far from singular ones."""
    return lambda random: grid(random.uniform(-1, 1, (*lead, size, size)) + 2.0 * np.eye(size))


# ------------------------------------------------------------------ cases


def both(name, inputs, function):
    """A case that both peers compute, by a function of a peer and the inputs."""
    assert name not in CASES, name
    CASES[name] = (inputs, function, None)


def each(name, inputs, in_jax, in_torch):
    """A case that both peers compute, each in its own words."""
    both(name, inputs, lambda p, *x: (in_jax if p.name == "jax" else in_torch)(*x))


def only(peer, why, name, inputs, function):
    """A case that one peer cannot do."""
    assert peer in ("jax", "torch") and why
    both(name, inputs, function)
    CASES[name] = (inputs, function, peer)


def pointwise():
    for name, domain, function in [
        ("neg", normal(2, 3), lambda p, x: -x),
        ("recip", positive(2, 3), lambda p, x: 1 / x),
        ("square", normal(2, 3), lambda p, x: x**2),
        ("sqrt", positive(2, 3), lambda p, x: p.sqrt(x)),
        ("rsqrt", positive(2, 3), lambda p, x: p.rsqrt(x)),
        ("cbrt", normal(2, 3), lambda p, x: p.cbrt(x)),
        ("powi 3", normal(2, 3), lambda p, x: x**3),
        ("powi -2", normal(2, 3), lambda p, x: x**-2),
        ("powi 7", normal(2, 3), lambda p, x: x**7),
        ("powf 2.5", positive(2, 3), lambda p, x: x**2.5),
        ("powf -0.5", positive(2, 3), lambda p, x: x**-0.5),
        ("exp", normal(2, 3), lambda p, x: p.exp(x)),
        ("exp2", normal(2, 3), lambda p, x: p.exp2(x)),
        ("expm1", normal(2, 3), lambda p, x: p.expm1(x)),
        ("ln", positive(2, 3), lambda p, x: p.ln(x)),
        ("log2", positive(2, 3), lambda p, x: p.log2(x)),
        ("log10", positive(2, 3), lambda p, x: p.log10(x)),
        ("log1p", uniform(-0.7, 2, 2, 3), lambda p, x: p.log1p(x)),
        ("sin", normal(2, 3), lambda p, x: p.sin(x)),
        ("cos", normal(2, 3), lambda p, x: p.cos(x)),
        ("tan", uniform(-1.2, 1.2, 2, 3), lambda p, x: p.tan(x)),
        ("asin", uniform(-0.9, 0.9, 2, 3), lambda p, x: p.asin(x)),
        ("acos", uniform(-0.9, 0.9, 2, 3), lambda p, x: p.acos(x)),
        ("atan", normal(2, 3), lambda p, x: p.atan(x)),
        ("sinh", normal(2, 3), lambda p, x: p.sinh(x)),
        ("cosh", normal(2, 3), lambda p, x: p.cosh(x)),
        ("tanh", normal(2, 3), lambda p, x: p.tanh(x)),
        ("asinh", normal(2, 3), lambda p, x: p.asinh(x)),
        ("acosh", uniform(1.2, 4, 2, 3), lambda p, x: p.acosh(x)),
        ("atanh", uniform(-0.9, 0.9, 2, 3), lambda p, x: p.atanh(x)),
        ("sigmoid", normal(2, 3), lambda p, x: p.sigmoid(x)),
        ("log_sigmoid", normal(2, 3), lambda p, x: p.log_sigmoid(x)),
        ("softplus", normal(2, 3), lambda p, x: p.softplus(x)),
        ("softsign", normal(2, 3), lambda p, x: p.softsign(x)),
        ("relu", normal(2, 3), lambda p, x: p.relu(x)),
        ("leaky_relu 0.1", normal(2, 3), lambda p, x: p.leaky_relu(x, 0.1)),
        ("elu 1.5", normal(2, 3), lambda p, x: p.elu(x, 1.5)),
        ("gelu", normal(2, 3), lambda p, x: p.gelu(x)),
        ("gelu_tanh", normal(2, 3), lambda p, x: p.gelu_tanh(x)),
        ("silu", normal(2, 3), lambda p, x: p.silu(x)),
        ("mish", normal(2, 3), lambda p, x: p.mish(x)),
        ("erf", normal(2, 3), lambda p, x: p.erf(x)),
        ("erfc", normal(2, 3), lambda p, x: p.erfc(x)),
        ("lgamma", positive(2, 3), lambda p, x: p.lgamma(x)),
        ("digamma", positive(2, 3), lambda p, x: p.digamma(x)),
        ("polygamma 1", positive(2, 3), lambda p, x: p.polygamma(1, x)),
        ("polygamma 2", positive(2, 3), lambda p, x: p.polygamma(2, x)),
        ("sinc", normal(2, 3), lambda p, x: p.sinc(x)),
        ("abs", normal(2, 3), lambda p, x: p.abs(x)),
        ("sign", normal(2, 3), lambda p, x: p.sign(x)),
        ("floor", normal(2, 3), lambda p, x: p.floor(x)),
        ("ceil", normal(2, 3), lambda p, x: p.ceil(x)),
        ("round", normal(2, 3), lambda p, x: p.round(x)),
        # Where conventions decide and the peers agree with one another.
        ("relu with zeros", given([[0.0, 1.5, -1.0], [2.0, 0.0, -0.5]]), lambda p, x: p.relu(x)),
        ("sigmoid far out", given([-700.0, -30.0, 30.0, 700.0]), lambda p, x: p.sigmoid(x)),
        ("softplus far out", given([-700.0, -30.0, 30.0, 700.0]), lambda p, x: p.softplus(x)),
        ("log_sigmoid far out", given([-700.0, -30.0, 30.0, 700.0]), lambda p, x: p.log_sigmoid(x)),
        ("tanh far out", given([-30.0, -12.0, 12.0, 30.0]), lambda p, x: p.tanh(x)),
        ("expm1 near 0", given([2.0**-40, -(2.0**-30), 0.0]), lambda p, x: p.expm1(x)),
        ("log1p near 0", given([2.0**-40, -(2.0**-30), 0.0]), lambda p, x: p.log1p(x)),
        ("powi 0", given([0.0, -1.5, 2.0]), lambda p, x: x**0),
        ("powi 2 at 0", given([0.0, -1.5, 2.0]), lambda p, x: x**2),
        ("erfc far out", given([3.0, 5.0, 9.0, -5.0]), lambda p, x: p.erfc(x)),
        # Compositions.
        ("damped wave", normal(2, 3), lambda p, x: p.sin(3 * x) * p.exp(-(x**2))),
        ("normal density", normal(2, 3), lambda p, x: p.exp(-(x**2) / 2) / (2 * np.pi) ** 0.5),
        ("ln cosh", normal(2, 3), lambda p, x: p.ln(p.cosh(x))),
        ("rational", normal(2, 3), lambda p, x: (x**3 - 2 * x + 1) / (x**2 + 2)),
        ("x to the x", positive(2, 3), lambda p, x: x**x),
        ("three tanh", normal(2, 3), lambda p, x: p.tanh(2 * p.tanh(1.5 * p.tanh(x)))),
        ("logit", unit(2, 3), lambda p, x: p.ln(x / (1 - x))),
        ("inverse softplus", positive(2, 3), lambda p, x: x + p.ln(-p.expm1(-x))),
        ("smooth abs", normal(2, 3), lambda p, x: p.sqrt(x**2 + 0.01)),
        ("horner", normal(2, 3), lambda p, x: ((2 * x - 3) * x + 0.5) * x - 1),
        ("sine of a reciprocal", positive(2, 3), lambda p, x: p.sin(1 / x)),
        ("binary entropy", unit(2, 3), lambda p, x: -x * p.ln(x) - (1 - x) * p.ln(1 - x)),
        ("beta function", positive(2, 3), lambda p, x: p.exp(2 * p.lgamma(x) - p.lgamma(2 * x))),
        ("probit", normal(2, 3), lambda p, x: p.ln(0.5 * p.erfc(-x / 2**0.5))),
        ("clip", normal(2, 3), lambda p, x: p.clip(x, -0.75, 0.75)),
        ("clip to the power", normal(2, 3), lambda p, x: p.clip(x, -0.75, 0.75) ** 3),
        ("relu to the third", normal(2, 3), lambda p, x: p.relu(x) ** 3),
        ("hard sigmoid", normal(2, 3), lambda p, x: p.clip(x / 3 + 0.5, 0.0, 1.0)),
        ("sawtooth", positive(2, 3), lambda p, x: (x - p.floor(x)) ** 2),
        ("stopped", normal(2, 3), lambda p, x: x * p.stop_gradient(p.sin(x))),
        ("inverse tangent identity", positive(2, 3), lambda p, x: p.atan(x) * p.atan(1 / x)),
    ]:
        both(name, [domain], function)
    why = "PyTorch's second derivative of sinc at 0 is not a number"
    only("jax", why, "sinc at 0", [given([0.0, 0.5, 1.0, -1.0])], lambda p, x: jnp.sinc(x))
    why = "its derivatives are needed, and only JAX differentiates an elementwise gradient in one line"
    slope = jax.vmap(jax.vmap(jax.grad(jnp.sinc)))
    only("jax", why, "sinc_derivative 1", [normal(2, 3)], lambda p, x: slope(x))


def several_arguments():
    for name, inputs, function in [
        ("add", [normal(2, 3), normal(2, 3)], lambda p, a, b: a + b),
        ("sub", [normal(2, 3), normal(2, 3)], lambda p, a, b: a - b),
        ("mul", [normal(2, 3), normal(2, 3)], lambda p, a, b: a * b),
        ("div", [normal(2, 3), normal(2, 3)], lambda p, a, b: a / b),
        ("pow", [positive(2, 3), normal(2, 3)], lambda p, a, b: a**b),
        ("atan2", [normal(2, 3), normal(2, 3)], lambda p, a, b: p.atan2(a, b)),
        ("hypot", [normal(2, 3), normal(2, 3)], lambda p, a, b: p.hypot(a, b)),
        ("maximum", [normal(2, 3), normal(2, 3)], lambda p, a, b: p.maximum(a, b)),
        ("minimum", [normal(2, 3), normal(2, 3)], lambda p, a, b: p.minimum(a, b)),
        ("rem", [uniform(2.1, 2.9, 2, 3), uniform(0.8, 0.95, 2, 3)], lambda p, a, b: p.rem(a, b)),
        ("maximum with ties", [given([1.0, 2.0, -1.0]), given([1.0, 0.5, -1.0])], lambda p, a, b: p.maximum(a, b)),
        ("minimum with ties", [given([1.0, 2.0, -1.0]), given([1.0, 0.5, -1.0])], lambda p, a, b: p.minimum(a, b)),
        ("add a row", [normal(2, 3), normal(3)], lambda p, a, b: a + b),
        ("sub a column", [normal(2, 3), normal(2, 1)], lambda p, a, b: a - b),
        ("mul column and row", [normal(2, 1), normal(1, 3)], lambda p, a, b: a * b),
        ("div by a number", [normal(2, 3), positive()], lambda p, a, b: a / b),
        ("div of a number", [normal(), positive(2, 3)], lambda p, a, b: a / b),
        ("pow by a row", [positive(2, 3), normal(3)], lambda p, a, b: a**b),
        ("hypot of column and row", [normal(2, 1), normal(3)], lambda p, a, b: p.hypot(a, b)),
        ("atan2 of row and column", [normal(3), normal(2, 1)], lambda p, a, b: p.atan2(a, b)),
        ("maximum of column and row", [normal(3, 1), normal(1, 4)], lambda p, a, b: p.maximum(a, b)),
        ("mul in three ranks", [normal(2, 1, 3), normal(4, 1)], lambda p, a, b: a * b),
        ("add in three ranks", [normal(2, 2, 2), normal(2, 1)], lambda p, a, b: a + p.sin(b)),
        ("sub of one element", [normal(2, 3), normal(1, 1)], lambda p, a, b: (a - b) ** 2),
        ("numbers on the left", [positive(2, 3)], lambda p, x: (2 - x) * (3 / x)),
        ("logaddexp", [normal(2, 3), normal(2, 3)], lambda p, a, b: p.logaddexp(a, b)),
        ("geometric mean", [positive(2, 3), positive(2, 3)], lambda p, a, b: p.sqrt(a * b)),
        ("harmonic mean", [positive(2, 3), positive(2, 3)], lambda p, a, b: 2 / (1 / a + 1 / b)),
        ("log of a base", [positive(2, 3), uniform(1.5, 3, 2, 3)], lambda p, a, b: p.ln(a) / p.ln(b)),
        ("log beta", [positive(2, 3), positive(2, 3)], lambda p, a, b: p.lgamma(a) + p.lgamma(b) - p.lgamma(a + b)),
        ("polar to plane", [positive(2, 3), normal(2, 3)], lambda p, r, t: p.stack([r * p.cos(t), r * p.sin(t)])),
        ("complex product", [normal(2, 3), normal(2, 3)], lambda p, a, b: p.stack([a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]])),
        ("lerp", [normal(2, 3), normal(2, 3), unit(3)], lambda p, a, b, t: a + t * (b - a)),
        ("fused multiply add", [normal(2, 3), normal(3), normal(2, 1)], lambda p, a, b, c: a * b + c),
        ("median of three", [normal(2, 3), normal(2, 3), normal(2, 3)], lambda p, a, b, c: p.maximum(p.minimum(a, b), p.minimum(p.maximum(a, b), c))),
        ("where", [normal(2, 3), normal(2, 3)], lambda p, a, b: p.where(a > 0, a * b, p.exp(b))),
        ("where by a third", [normal(2, 3), normal(2, 3), normal(3)], lambda p, a, b, c: p.where(c > 0, a**2, p.sin(b))),
        ("where with both conditions", [normal(2, 3), normal(2, 3)], lambda p, a, b: p.where((a > 0) & ~(b > 0), a / b, a * b)),
    ]:
        both(name, inputs, function)


def reductions():
    x = normal(2, 3, 2)
    for name, inputs, function in [
        ("sum", [x], lambda p, x: p.sum(x)),
        ("sum over 0", [x], lambda p, x: p.sum(x, 0)),
        ("sum over -1", [x], lambda p, x: p.sum(x, -1)),
        ("sum over 0 and 2", [x], lambda p, x: p.sum(x, (0, 2))),
        ("sum over 1 kept", [x], lambda p, x: p.sum(x, 1, keepdims=True) * x),
        ("sum of squares", [x], lambda p, x: p.sum(x**2)),
        ("mean", [x], lambda p, x: p.mean(x)),
        ("mean over 1", [x], lambda p, x: p.mean(x, 1)),
        ("mean over 0 and 1", [x], lambda p, x: p.mean(x**3, (0, 1))),
        ("var", [x], lambda p, x: p.var(x)),
        ("var over 1", [x], lambda p, x: p.var(x, 1)),
        ("var over 0 and 2", [x], lambda p, x: p.var(x, (0, 2))),
        ("std", [x], lambda p, x: p.std(x)),
        ("std over 1", [x], lambda p, x: p.std(x, 1)),
        ("max", [x], lambda p, x: p.max(x)),
        ("max over 0", [x], lambda p, x: p.max(x, 0)),
        ("max over -2", [x], lambda p, x: p.max(x, -2) ** 2),
        ("max over 0 and 2", [x], lambda p, x: p.max(x, (0, 2)) ** 2),
        ("max with ties", [given([[1.0, 2.0, 2.0], [-1.0, -1.0, -1.0]])], lambda p, x: p.max(x, 1)),
        ("min", [x], lambda p, x: p.min(x)),
        ("min over 1", [x], lambda p, x: p.min(x, 1) ** 3),
        ("min with ties", [given([[1.0, 2.0, 1.0], [-1.0, -1.0, -1.0]])], lambda p, x: p.min(x, 1)),
        ("range", [x], lambda p, x: p.max(x, 1) - p.min(x, 1)),
        ("norm", [x], lambda p, x: p.norm(x.reshape(-1))),
        ("norm over 1", [x], lambda p, x: p.norm(x, axis=1)),
        ("norm over 0 and 2", [x], lambda p, x: p.sqrt(p.sum(x**2, (0, 2)))),
        ("one norm", [x], lambda p, x: p.sum(p.abs(x), 1)),
        ("four norm", [x], lambda p, x: p.sum(x**4, 1) ** 0.25),
        ("logsumexp", [x], lambda p, x: p.logsumexp(x)),
        ("logsumexp over 1", [x], lambda p, x: p.logsumexp(x, axis=1)),
        ("logsumexp over 0 and 2", [x], lambda p, x: p.logsumexp(x, axis=(0, 2))),
        ("logsumexp of large numbers", [given([[700.0, 701.0, 699.5], [-800.0, -800.5, -801.0]])], lambda p, x: p.logsumexp(x, axis=1)),
        ("softmax over 0", [x], lambda p, x: p.softmax(x, 0)),
        ("softmax over -1", [x], lambda p, x: p.softmax(x, -1)),
        ("softmax of large numbers", [given([[700.0, 701.0, 699.5], [-800.0, -800.5, -801.0]])], lambda p, x: p.softmax(x, -1)),
        ("softmax with a temperature", [normal(2, 4), positive()], lambda p, x, t: p.softmax(x / t, -1)),
        ("log_softmax over 1", [x], lambda p, x: p.log_softmax(x, 1)),
        ("log_softmax of large numbers", [given([[700.0, 701.0, 699.5], [-800.0, -800.5, -801.0]])], lambda p, x: p.log_softmax(x, -1)),
        ("entropy of softmax", [normal(2, 4)], lambda p, x: -p.sum(p.softmax(x, -1) * p.log_softmax(x, -1), -1)),
        ("softmax of softmax", [normal(2, 4)], lambda p, x: p.softmax(5 * p.softmax(x, -1), 0)),
        ("normalised", [normal(2, 4)], lambda p, x: x / p.norm(x, axis=1)[:, None]),
        ("standardised", [normal(4, 3)], lambda p, x: (x - p.mean(x, 0)) / p.std(x, 0)),
        ("weighted mean", [normal(2, 4), positive(4)], lambda p, x, w: p.sum(x * w, 1) / p.sum(w)),
        ("skewness", [normal(6)], lambda p, x: p.mean(((x - p.mean(x)) / p.std(x)) ** 3)),
        ("covariance", [normal(4, 3)], lambda p, x: (x - p.mean(x, 0)).T @ (x - p.mean(x, 0)) / 4),
        ("correlation", [normal(5), normal(5)], lambda p, a, b: p.mean((a - p.mean(a)) * (b - p.mean(b))) / p.std(a) / p.std(b)),
        ("log mean exp", [normal(2, 4)], lambda p, x: p.logsumexp(x, axis=1) - np.log(4)),
        ("smooth maximum", [normal(2, 4)], lambda p, x: p.sum(x * p.softmax(3 * x, -1), -1)),
    ]:
        both(name, inputs, function)


def products():
    e = lambda notation: lambda p, *x: p.einsum(notation, *x)
    m = lambda p, a, b: p.matmul(a, b)
    for name, inputs, function in [
        ("einsum ij,jk->ik", [normal(2, 3), normal(3, 2)], e("ij,jk->ik")),
        ("einsum ij->ji", [normal(2, 3)], e("ij->ji")),
        ("einsum ii->", [normal(3, 3)], e("ii->")),
        ("einsum ii->i", [normal(3, 3)], e("ii->i")),
        ("einsum iij->j", [normal(3, 3, 2)], e("iij->j")),
        ("einsum ijij->ij", [normal(2, 3, 2, 3)], e("ijij->ij")),
        ("einsum ij->", [normal(2, 3)], e("ij->")),
        ("einsum ijk->k", [normal(2, 3, 2)], e("ijk->k")),
        ("einsum ijk->kij", [normal(2, 3, 2)], e("ijk->kij")),
        ("einsum i,j->ij", [normal(3), normal(2)], e("i,j->ij")),
        ("einsum i,i->", [normal(4), normal(4)], e("i,i->")),
        ("einsum ij,j->i", [normal(2, 3), normal(3)], e("ij,j->i")),
        ("einsum ij,ij->", [normal(2, 3), normal(2, 3)], e("ij,ij->")),
        ("einsum ij,ij->i", [normal(2, 3), normal(2, 3)], e("ij,ij->i")),
        ("einsum ij,kj->ik", [normal(2, 3), normal(4, 3)], e("ij,kj->ik")),
        ("einsum ij,ji->", [normal(2, 3), normal(3, 2)], e("ij,ji->")),
        ("einsum i,ij,j->", [normal(3), normal(3, 2), normal(2)], e("i,ij,j->")),
        ("einsum i,j,k->ijk", [normal(2), normal(3), normal(2)], e("i,j,k->ijk")),
        ("einsum bij,bjk->bik", [normal(2, 2, 3), normal(2, 3, 2)], e("bij,bjk->bik")),
        ("einsum bqd,bkd->bqk", [normal(2, 2, 3), normal(2, 3, 3)], e("bqd,bkd->bqk")),
        ("einsum abc,cd->abd", [normal(2, 2, 3), normal(3, 2)], e("abc,cd->abd")),
        ("einsum ab,bc,cd->ad", [normal(2, 3), normal(3, 2), normal(2, 3)], e("ab,bc,cd->ad")),
        ("einsum ijk,jl,km->ilm", [normal(2, 2, 3), normal(2, 3), normal(3, 2)], e("ijk,jl,km->ilm")),
        ("einsum ii,ij->j", [normal(3, 3), normal(3, 2)], e("ii,ij->j")),
        ("einsum i,i,i->i", [normal(4), normal(4), normal(4)], e("i,i,i->i")),
        ("einsum ijkl,kl->ij", [normal(2, 2, 2, 3), normal(2, 3)], e("ijkl,kl->ij")),
        ("einsum i->ii", [normal(3)], lambda p, x: p.diag(x)),
        ("einsum i->ij=3", [normal(2)], lambda p, x: p.broadcast_to(x[:, None], (2, 3))),
        ("einsum of one tensor twice", [normal(3, 3)], lambda p, x: p.einsum("ij,jk->ik", x, x)),
        ("einsum of one tensor three times", [normal(3)], lambda p, x: p.einsum("i,j,k->ijk", x, x, x)),
        ("matmul 1 1", [normal(3), normal(3)], m),
        ("matmul 2 1", [normal(2, 3), normal(3)], m),
        ("matmul 1 2", [normal(2), normal(2, 3)], m),
        ("matmul 2 2", [normal(2, 3), normal(3, 4)], m),
        ("matmul 3 1", [normal(2, 2, 3), normal(3)], m),
        ("matmul 1 3", [normal(3), normal(2, 3, 2)], m),
        ("matmul 3 2", [normal(2, 2, 3), normal(3, 2)], m),
        ("matmul 2 3", [normal(2, 3), normal(2, 3, 2)], m),
        ("matmul 3 3", [normal(2, 2, 3), normal(2, 3, 2)], m),
        ("matmul 4 3", [normal(2, 1, 2, 3), normal(2, 3, 2)], m),
        ("matmul stretched", [normal(1, 2, 3), normal(3, 3, 2)], m),
        ("inner", [normal(2, 3), normal(2, 3)], lambda p, a, b: p.sum(a * b)),
        ("outer", [normal(3), normal(4)], lambda p, a, b: p.outer(a, b)),
        ("outer of matrices", [normal(2, 2), normal(2, 3)], lambda p, a, b: p.einsum("ij,kl->ijkl", a, b)),
        ("kron", [normal(2, 2), normal(2, 3)], lambda p, a, b: p.kron(a, b)),
        ("trace", [normal(3, 3)], lambda p, x: p.trace(x)),
        ("diag of a matrix", [normal(3, 3)], lambda p, x: p.diag(x)),
        ("diag of a vector", [normal(4)], lambda p, x: p.diag(x)),
        ("gram matrix", [normal(2, 3)], lambda p, x: x @ x.T),
        ("quadratic form", [normal(3, 3), normal(3)], lambda p, a, x: x @ a @ x),
        ("third power of a matrix", [normal(3, 3)], lambda p, a: a @ a @ a),
        ("trace of a power", [normal(3, 3)], lambda p, a: p.trace(a @ a @ a @ a)),
        ("squared distances", [normal(3, 2), normal(4, 2)], lambda p, a, b: p.sum((a[:, None] - b[None]) ** 2, -1)),
        ("rbf kernel", [normal(3, 2), positive(2)], lambda p, x, l: p.exp(-0.5 * p.sum(((x[:, None] - x[None]) / l) ** 2, -1))),
        ("cosine similarities", [normal(3, 2), normal(2, 2)], lambda p, a, b: (a / p.norm(a, axis=1)[:, None]) @ (b / p.norm(b, axis=1)[:, None]).T),
        ("frobenius distance", [normal(2, 3), normal(2, 2), normal(2, 3)], lambda p, x, u, v: p.sum((x - u @ v) ** 2)),
        ("rayleigh quotient", [normal(3, 3), normal(3)], lambda p, a, x: (x @ a @ x) / (x @ x)),
        ("commutator", [normal(2, 2), normal(2, 2)], lambda p, a, b: a @ b - b @ a),
        ("bilinear layer", [normal(2, 3), normal(2, 3, 2), normal(2, 2)], lambda p, x, w, y: p.einsum("bi,oij,bj->bo", x, w, y)),
        ("tensor train", [normal(2, 3), normal(3, 2, 2), normal(2, 3)], lambda p, a, b, c: p.einsum("ia,ajb,bk->ijk", a, b, c)),
        ("householder", [normal(3, 2), normal(3)], lambda p, x, v: x - 2 * p.outer(v, v @ x) / (v @ v)),
        ("chain of squares", [normal(2, 2)], lambda p, a: p.tanh(a @ p.tanh(a @ p.tanh(a)))),
    ]:
        both(name, inputs, function)


def shapes():
    x = normal(3, 4)
    for name, inputs, function in [
        ("reshape", [normal(2, 3, 2)], lambda p, x: p.reshape(x, (3, 4)) ** 2),
        ("reshape to a vector", [normal(2, 3)], lambda p, x: p.reshape(x, (6,)) ** 3),
        ("permute", [normal(2, 3, 2)], lambda p, x: p.permute(x, (2, 0, 1)) ** 2),
        ("transpose", [x], lambda p, x: x.T**2),
        ("expand", [x], lambda p, x: p.expand(x, 1) * x),
        ("broadcast_to", [normal(3, 1)], lambda p, x: p.broadcast_to(x, (2, 3, 2)) ** 2),
        ("slice a row", [x], lambda p, x: x[1] ** 2),
        ("slice a column", [x], lambda p, x: x[:, -1] ** 2),
        ("slice ranges", [x], lambda p, x: x[1:, :-1] ** 2),
        ("slice steps", [normal(5, 4)], lambda p, x: x[::2, 1::2] ** 2),
        ("slice backwards", [x], lambda p, x: p.flip(x, (0, 1))[:, ::2] ** 2),
        ("slice a new axis", [normal(3)], lambda p, x: x[:, None] * x[None, :]),
        ("neighbours", [normal(6)], lambda p, x: (x[1:] - x[:-1]) ** 2),
        ("second differences", [normal(6)], lambda p, x: (x[2:] - 2 * x[1:-1] + x[:-2]) ** 2),
        ("pad", [normal(2, 3)], lambda p, x: p.pad(x, ((1, 0), (2, 1))) ** 2 + 1),
        ("pad and shift", [normal(5)], lambda p, x: x * p.pad(x, ((2, 0),))[:-2]),
        ("concatenate over 0", [normal(2, 3), normal(1, 3)], lambda p, a, b: p.concatenate([a, b**2], 0)),
        ("concatenate over 1", [normal(2, 1), normal(2, 3)], lambda p, a, b: p.concatenate([p.sin(a), b, a * b], 1)),
        ("concatenate with itself", [normal(2, 2)], lambda p, x: p.concatenate([x, x**2, x**3], 1)),
        ("stack over 0", [normal(3), normal(3)], lambda p, a, b: p.stack([a, a * b, b], 0)),
        ("stack over 1", [normal(2, 2), normal(2, 2)], lambda p, a, b: p.stack([a * b, b], 1)),
        ("stack over -1", [normal(2, 2), normal(2, 2)], lambda p, a, b: p.stack([a**2, b / a], -1)),
        ("gather over 0", [x, given([2, 0, 2])], lambda p, x, i: p.gather(x, i, 0) ** 2),
        ("gather over 1", [x, given([3, 3, 1])], lambda p, x, i: p.gather(x, i, 1) ** 2),
        ("gather by a matrix", [x, given([[0, 2], [1, 1]])], lambda p, x, i: p.gather(x, i, 0) ** 2),
        ("gather one", [x, given(1)], lambda p, x, i: p.gather(x, i.reshape(1), 0)[0] ** 2),
        ("scatter_add over 0", [normal(4, 2), given([1, 0, 1, 2])], lambda p, x, i: p.scatter_rows(x, i, 4) ** 2),
        ("scatter_add over 1", [normal(2, 4), given([1, 0, 1, 2])], lambda p, x, i: p.scatter_rows(x.T, i, 3).T ** 2),
        ("scatter_add by a matrix", [normal(2, 2), given([[1, 0], [1, 2]])], lambda p, x, i: p.scatter_rows(x.reshape(-1), i.reshape(-1), 3) ** 2),
        ("segment softmax", [normal(5), given([0, 1, 0, 1, 1])], lambda p, x, i: p.exp(x) / p.gather(p.scatter_rows(p.exp(x), i, 2), i, 0)),
        ("flip over 0", [x], lambda p, x: p.flip(x, (0,)) * x),
        ("flip over both", [x], lambda p, x: p.flip(x, (0, 1)) * x),
        ("one_hot product", [x, given([2, 0, 3])], lambda p, x, i: p.sum(p.one_hot(i, 4) * x**2, 1)),
        ("one_hot matmul", [normal(3, 2), given([2, 0, 2, 1])], lambda p, x, i: p.one_hot(i, 3) @ x**2),
        ("argmax chosen", [normal(3, 4)], lambda p, x: p.sum(p.one_hot(p.argmax(x, 1), 4) * x**2, 1)),
        ("masked mean", [x], lambda p, x: p.sum(p.where(x > 0, x, 0 * x)) / p.sum(p.where(x > 0, 0 * x + 1, 0 * x))),
        ("rotated", [normal(5)], lambda p, x: x * p.concatenate([x[2:], x[:2]], 0)),
        ("checkerboard", [normal(4, 4)], lambda p, x: x[::2, ::2] * x[1::2, 1::2] - x[::2, 1::2] * x[1::2, ::2]),
        ("blocks", [normal(2, 2), normal(2, 1), normal(1, 2)], lambda p, a, b, c: p.concatenate([p.concatenate([a, b], 1), p.concatenate([c, c[:, :1] * b[:1]], 1)], 0) ** 2),
        ("interleaved", [normal(4), normal(4)], lambda p, a, b: p.reshape(p.stack([a * b, a - b], 1), (8,))),
        ("moving average", [normal(6)], lambda p, x: ((x[:-2] + x[1:-1] + x[2:]) / 3) ** 2),
        ("correlation of windows", [normal(6), normal(3)], lambda p, x, k: x[:-2] * k[0] + x[1:-1] * k[1] + x[2:] * k[2]),
        ("patches", [normal(4, 4)], lambda p, x: p.permute(p.reshape(x, (2, 2, 2, 2)), (0, 2, 1, 3)).reshape(4, 4) ** 2),
        ("heads", [normal(2, 6)], lambda p, x: p.permute(p.reshape(x, (2, 3, 2)), (1, 0, 2)) * p.mean(x)),
        ("total variation", [normal(3, 4)], lambda p, x: p.sum(p.sqrt((x[1:, :-1] - x[:-1, :-1]) ** 2 + (x[:-1, 1:] - x[:-1, :-1]) ** 2 + 0.01))),
        ("laplacian", [normal(4, 4)], lambda p, x: (x[2:, 1:-1] + x[:-2, 1:-1] + x[1:-1, 2:] + x[1:-1, :-2] - 4 * x[1:-1, 1:-1]) ** 2),
        ("embedding of words", [normal(4, 2), given([1, 3, 1])], lambda p, e, i: p.mean(p.tanh(p.gather(e, i, 0)), 0)),
        ("antisymmetric part", [normal(3, 3)], lambda p, x: (x - x.T) ** 2 / 2),
        ("determinant of two by two", [normal(2, 2)], lambda p, x: x[0, 0] * x[1, 1] - x[0, 1] * x[1, 0]),
        ("cross product", [normal(3), normal(3)], lambda p, a, b: p.cross(a, b)),
    ]:
        both(name, inputs, function)


def recurrences():
    def loop(step, state, sequence):
        outputs = []
        for k in range(len(sequence)):
            state = step(state, sequence[k])
            outputs.append(state)
        return outputs

    def lstm(p, x, w, u, b):
        h, c, outputs = 0 * b[0], 0 * b[0], []
        for k in range(len(x)):
            i, f, g, o = (x[k] @ w[j] + h @ u[j] + b[j] for j in range(4))
            c = p.sigmoid(f) * c + p.sigmoid(i) * p.tanh(g)
            h = p.sigmoid(o) * p.tanh(c)
            outputs.append(h)
        return p.stack(outputs)

    def gru(p, x, w, u, b):
        h, outputs = 0 * b[0], []
        for k in range(len(x)):
            r = p.sigmoid(x[k] @ w[0] + h @ u[0] + b[0])
            z = p.sigmoid(x[k] @ w[1] + h @ u[1] + b[1])
            n = p.tanh(x[k] @ w[2] + r * (h @ u[2] + b[2]))
            h = (1 - z) * n + z * h
            outputs.append(h)
        return p.stack(outputs)

    def rnn(p, x, w, u, b):
        return p.stack(loop(lambda h, x: p.tanh(x @ w + h @ u + b), 0 * b, x))

    def markov(p, start, moves, seen):
        state = p.softmax(start, -1) * seen[0]
        for k in range(1, len(seen)):
            state = (state @ p.softmax(moves, -1)) * seen[k]
        return p.ln(p.sum(state))

    def field(p, start, moves, scores):
        state = start + scores[0]
        for k in range(1, len(scores)):
            state = p.logsumexp(state[:, None] + moves, axis=0) + scores[k]
        return p.logsumexp(state)

    def euler(p, y, a):
        for _ in range(4):
            y = y + 0.1 * p.tanh(a @ y)
        return y

    def hunters(p, y, rates):
        slope = lambda y: p.stack([rates[0] * y[0] - rates[1] * y[0] * y[1], rates[2] * y[0] * y[1] - rates[3] * y[1]])
        for _ in range(3):
            a = slope(y)
            b = slope(y + 0.1 * a)
            c = slope(y + 0.1 * b)
            y = y + 0.2 / 6 * (a + 2 * b + 2 * c + slope(y + 0.2 * c))
        return y

    def leapfrog(p, q, v):
        for _ in range(4):
            v = v - 0.05 * p.sin(q)
            q = q + 0.1 * v
            v = v - 0.05 * p.sin(q)
        return p.concatenate([q, v], 0)

    def power(p, a, x):
        for _ in range(4):
            x = a @ x
            x = x / p.norm(x)
        return x

    def newton(p, a):
        x = a
        for _ in range(5):
            x = 0.5 * (x + a / x)
        return x

    def logistic(p, x, r):
        for _ in range(5):
            x = r * x * (1 - x)
        return x

    def filtered(p, seen, noise):
        mean, spread, outputs = 0 * seen[0], 0 * seen[0] + 1, []
        for k in range(len(seen)):
            spread = spread + noise[0]
            gain = spread / (spread + noise[1])
            mean, spread = mean + gain * (seen[k] - mean), (1 - gain) * spread
            outputs.append(mean)
        return p.stack(outputs)

    x, w, u, b = normal(3, 2), normal(2, 3), normal(3, 3), normal(3)
    for name, inputs, function in [
        ("scan running sum", [normal(5)], lambda p, x: p.cumsum(x, 0) ** 2),
        ("scan running product", [normal(5)], lambda p, x: p.cumprod(x, 0)),
        ("scan running sum of rows", [normal(3, 2)], lambda p, x: p.cumsum(p.sin(x), 0)),
        ("scan moving average", [normal(5), unit()], lambda p, x, a: p.stack(loop(lambda m, x: a * m + (1 - a) * x, 0 * a, x))),
        ("scan running logsumexp", [normal(5)], lambda p, x: p.ln(p.cumsum(p.exp(x), 0))),
        ("scan horner", [normal(5), normal()], lambda p, c, x: loop(lambda y, c: y * x + c, 0 * x, c)[-1]),
        ("scan backwards", [normal(4), unit()], lambda p, x, a: p.stack(loop(lambda m, x: a * m + x**2, 0 * a, p.flip(x, (0,))))),
        ("scan rnn", [x, w, u, b], rnn),
        ("unrolled rnn", [x, w, u, b], lambda p, x, w, u, b: rnn(p, x, w, u, b)[-1]),
        ("scan lstm", [normal(3, 2), normal(4, 2, 2), normal(4, 2, 2), normal(4, 2)], lstm),
        ("unrolled lstm", [normal(2, 2), normal(4, 2, 2), normal(4, 2, 2), normal(4, 2)], lambda p, *all: lstm(p, *all)[-1]),
        ("scan gru", [normal(3, 2), normal(3, 2, 2), normal(3, 2, 2), normal(3, 2)], gru),
        ("unrolled gru", [normal(2, 2), normal(3, 2, 2), normal(3, 2, 2), normal(3, 2)], lambda p, *all: gru(p, *all)[-1]),
        ("hidden markov likelihood", [normal(3), normal(3, 3), unit(4, 3)], markov),
        ("random field normaliser", [normal(3), normal(3, 3), normal(4, 3)], field),
        ("scan euler", [normal(3), normal(3, 3)], euler),
        ("runge kutta of hunters", [positive(2), unit(4)], hunters),
        ("leapfrog pendulum", [normal(2), normal(2)], leapfrog),
        ("power iteration", [definite(3), normal(3)], power),
        ("newton square root", [positive(4)], newton),
        ("logistic map", [unit(3), uniform(2.5, 3.5)], logistic),
        ("kalman filter", [normal(4), positive(2)], filtered),
    ]:
        both(name, inputs, function)


def losses():
    for name, inputs, function in [
        ("mean squared error", [normal(3, 2), normal(3, 2)], lambda p, y, t: p.mean((y - t) ** 2)),
        ("mean absolute error", [normal(3, 2), normal(3, 2)], lambda p, y, t: p.mean(p.abs(y - t))),
        ("kl divergence", [normal(2, 3), normal(2, 3)], lambda p, a, b: p.sum(p.softmax(a, -1) * (p.log_softmax(a, -1) - p.log_softmax(b, -1)))),
        ("jensen shannon", [unit(2, 3), unit(2, 3)], lambda p, a, b: p.sum(a * p.ln(2 * a / (a + b)) + b * p.ln(2 * b / (a + b))) / 2),
        ("hinge", [normal(6), given([1.0, -1.0, 1.0, 1.0, -1.0, -1.0])], lambda p, y, t: p.mean(p.relu(1 - t * y))),
        ("squared hinge", [normal(6), given([1.0, -1.0, 1.0, 1.0, -1.0, -1.0])], lambda p, y, t: p.mean(p.relu(1 - t * y) ** 2)),
        ("logistic loss", [normal(6), given([1.0, -1.0, 1.0, 1.0, -1.0, -1.0])], lambda p, y, t: p.mean(p.softplus(-t * y))),
        ("log cosh loss", [normal(6), normal(6)], lambda p, y, t: p.mean(p.softplus(2 * (y - t)) - (y - t) - np.log(2))),
        ("pinball loss", [normal(6), normal(6)], lambda p, y, t: p.mean(p.maximum(0.3 * (t - y), -0.7 * (t - y)))),
        ("focal loss", [normal(3, 4), given([2, 0, 3])], lambda p, y, i: p.mean(p.sum(-p.one_hot(i, 4) * (1 - p.softmax(y, -1)) ** 2 * p.log_softmax(y, -1), 1))),
        ("contrastive loss", [normal(3, 2), normal(3, 2)], lambda p, a, b: -p.mean(p.diag(p.log_softmax(2 * a @ b.T, 1)))),
        ("dice loss", [normal(6), given([1.0, 0.0, 1.0, 1.0, 0.0, 0.0])], lambda p, y, t: 1 - (2 * p.sum(p.sigmoid(y) * t) + 1) / (p.sum(p.sigmoid(y)) + p.sum(t) + 1)),
        ("label smoothing", [normal(3, 4), given([2, 0, 3])], lambda p, y, i: -p.mean(p.sum((0.9 * p.one_hot(i, 4) + 0.025) * p.log_softmax(y, -1), 1))),
        ("weight decay", [normal(2, 3), normal(3)], lambda p, w, b: 0.5 * p.sum(w**2) + 0.1 * p.sum(p.abs(b))),
        ("cauchy loss", [normal(6), positive()], lambda p, x, c: p.sum(p.log1p((x / c) ** 2))),
        ("gaussian kl", [normal(4), normal(4)], lambda p, m, s: 0.5 * p.sum(p.exp(s) + m**2 - 1 - s)),
        ("evidence bound", [normal(2, 3), normal(3, 2), normal(3, 2), normal(2, 3), normal(2, 2)], lambda p, x, m, s, d, e: p.sum((x - (x @ m + p.exp(0.5 * (x @ s)) * e) @ d) ** 2) + 0.5 * p.sum(p.exp(x @ s) + (x @ m) ** 2 - 1 - x @ s)),
        ("policy surrogate", [normal(3, 4), given([2, 0, 3]), normal(3)], lambda p, y, i, a: -p.mean(a * p.sum(p.one_hot(i, 4) * p.log_softmax(y, -1), 1))),
        ("clipped surrogate", [uniform(-0.1, 0.1, 5), normal(5)], lambda p, r, a: -p.mean(p.minimum(p.exp(3 * r) * a, p.clip(p.exp(3 * r), 0.8, 1.2) * a))),
        ("logistic regression", [normal(4, 3), normal(3), normal(), given([1.0, 0.0, 0.0, 1.0])], lambda p, x, w, b, t: p.mean(p.softplus(x @ w + b) - t * (x @ w + b))),
        ("poisson regression", [normal(4, 3), normal(3), given([1.0, 0.0, 2.0, 3.0])], lambda p, x, w, t: p.mean(p.exp(x @ w) - t * (x @ w))),
        ("proportional hazards", [normal(4, 2), normal(2)], lambda p, x, w: -p.sum(x @ w - p.ln(p.flip(p.cumsum(p.flip(p.exp(x @ w), (0,)), 0), (0,))))),
        ("student likelihood", [normal(6), positive()], lambda p, x, n: p.sum(p.lgamma((n + 1) / 2) - p.lgamma(n / 2) - 0.5 * p.ln(n * np.pi) - (n + 1) / 2 * p.log1p(x**2 / n))),
        ("dirichlet likelihood", [unit(4), positive(4)], lambda p, x, a: p.lgamma(p.sum(a)) - p.sum(p.lgamma(a)) + p.sum((a - 1) * p.ln(x))),
        ("gaussian mixture", [normal(5), normal(3), normal(3), normal(3)], lambda p, x, w, m, s: -p.sum(p.logsumexp(p.log_softmax(w, -1) - 0.5 * ((x[:, None] - m) * p.exp(-s)) ** 2 - s, axis=1))),
    ]:
        both(name, inputs, function)
    why = "PyTorch's trigamma has an error of 1e-9"
    only("jax", why, "gamma likelihood", [positive(5), positive(), positive()], lambda p, x, a, b: p.sum(a * p.ln(b) - p.lgamma(a) + (a - 1) * p.ln(x) - b * x))
    pair = [normal(3, 2), normal(3, 2)]
    each("huber", pair, lambda y, t: jnp.mean(jnp.where(abs(y - t) < 0.7, 0.5 * (y - t) ** 2, 0.7 * (abs(y - t) - 0.35))), lambda y, t: nnf.huber_loss(y, t, delta=0.7))
    each("smooth absolute error", pair, lambda y, t: jnp.mean(jnp.where(abs(y - t) < 1, 0.5 * (y - t) ** 2, abs(y - t) - 0.5)), nnf.smooth_l1_loss)
    labels = given([2, 0, 3])
    chosen = lambda y, i: jnp.take_along_axis(y, i[:, None], 1)
    each("cross entropy", [normal(3, 4), labels], lambda y, i: -jnp.mean(chosen(jax.nn.log_softmax(y, -1), i)), nnf.cross_entropy)
    each("cross entropy of large logits", [given([[800.0, 0.0, -800.0], [1.0, 900.0, 899.0]]), given([0, 2])], lambda y, i: -jnp.mean(chosen(jax.nn.log_softmax(y, -1), i)), nnf.cross_entropy)
    each("negative log likelihood", [unit(3, 4), labels], lambda y, i: -jnp.mean(chosen(jnp.log(y), i)), lambda y, i: nnf.nll_loss(torch.log(y), i))
    truth = given([1.0, 0.0, 1.0, 1.0, 0.0, 0.0])
    each("binary cross entropy", [unit(6), truth], lambda y, t: -jnp.mean(t * jnp.log(y) + (1 - t) * jnp.log1p(-y)), lambda y, t: -(t * torch.log(y) + (1 - t) * torch.log1p(-y)).mean())
    each("binary cross entropy with logits", [normal(6), truth], lambda y, t: jnp.mean(jax.nn.softplus(y) - t * y), nnf.binary_cross_entropy_with_logits)
    each("gaussian likelihood", [normal(6), normal(6), positive(6)], lambda y, t, v: jnp.mean(0.5 * (jnp.log(v) + (y - t) ** 2 / v)), nnf.gaussian_nll_loss)
    each("poisson likelihood", [normal(6), positive(6)], lambda y, t: jnp.mean(jnp.exp(y) - t * y), nnf.poisson_nll_loss)
    each("cosine embedding", [normal(2, 3), normal(2, 3)], lambda a, b: jnp.mean(1 - jnp.sum(a * b, 1) / jnp.linalg.norm(a, axis=1) / jnp.linalg.norm(b, axis=1)), lambda a, b: 1 - nnf.cosine_similarity(a, b, eps=0.0).mean())
    each("triplet margin", [normal(2, 3), normal(2, 3), normal(2, 3)], lambda a, b, c: jnp.mean(jax.nn.relu(2 + jnp.linalg.norm(a - b, axis=1) - jnp.linalg.norm(a - c, axis=1))), lambda a, b, c: nnf.triplet_margin_loss(a, b, c, margin=2.0, eps=0.0))


def layers():
    def attention(p, x, q, k, v, causal=False):
        scores = (x @ q) @ (x @ k).T / q.shape[1] ** 0.5
        if causal:
            scores = scores + p.constant(np.triu(np.full((len(x), len(x)), -1e9), 1))
        return p.softmax(scores, -1) @ (x @ v)

    def layer_norm(p, x, g, b):
        return (x - p.mean(x, -1, keepdims=True)) / p.sqrt(p.expand(p.var(x, -1), -1) + 1e-5) * g + b

    def block(p, x, q, k, v, a, b, g):
        y = x + attention(p, layer_norm(p, x, g[0], g[1]), q, k, v)
        return y + p.gelu(layer_norm(p, y, g[2], g[3]) @ a) @ b

    def rotary(p, x):
        angle = p.constant(np.outer(np.arange(3), [1.0, 0.1]))
        a, b = x[:, :2], x[:, 2:]
        return p.concatenate([a * p.cos(angle) - b * p.sin(angle), a * p.sin(angle) + b * p.cos(angle)], 1)

    def heads(p, x, w):
        q, k, v = (p.permute(p.reshape(x @ w[j], (3, 2, 2)), (1, 0, 2)) for j in range(3))
        scores = p.softmax(p.einsum("hqd,hkd->hqk", q, k) / 2**0.5, -1)
        return p.reshape(p.permute(p.einsum("hqk,hkd->hqd", scores, v), (1, 0, 2)), (3, 4))

    x = normal(3, 2)
    for name, inputs, function in [
        ("linear", [x, normal(2, 4), normal(4)], lambda p, x, w, b: x @ w + b),
        ("tanh network", [x, normal(2, 4), normal(4), normal(4, 1), normal(1)], lambda p, x, w, b, u, c: p.tanh(x @ w + b) @ u + c),
        ("relu network", [x, normal(2, 4), normal(4), normal(4, 2)], lambda p, x, w, b, u: p.relu(x @ w + b) @ u),
        ("gelu network with cross entropy", [x, normal(2, 4), normal(4, 3), given([2, 0, 1])], lambda p, x, w, u, i: -p.mean(p.sum(p.one_hot(i, 3) * p.log_softmax(p.gelu(x @ w) @ u, -1), 1))),
        ("residual block", [x, normal(2, 2), normal(2, 2)], lambda p, x, w, u: x + p.silu(x @ w) @ u),
        ("gated unit", [x, normal(2, 3), normal(2, 3)], lambda p, x, w, u: (x @ w) * p.sigmoid(x @ u)),
        ("highway", [x, normal(2, 2), normal(2, 2)], lambda p, x, w, u: p.sigmoid(x @ u) * p.tanh(x @ w) + (1 - p.sigmoid(x @ u)) * x),
        ("swish gated block", [x, normal(2, 3), normal(2, 3), normal(3, 2)], lambda p, x, a, b, c: (p.silu(x @ a) * (x @ b)) @ c),
        ("layer norm", [normal(2, 4), normal(4), normal(4)], layer_norm),
        ("batch norm", [normal(4, 3), normal(3), normal(3)], lambda p, x, g, b: (x - p.mean(x, 0)) / p.sqrt(p.var(x, 0) + 1e-5) * g + b),
        ("root mean square norm", [normal(2, 4), normal(4)], lambda p, x, g: x / p.sqrt(p.mean(x**2, -1, keepdims=True) + 1e-6) * g),
        ("weight norm", [normal(2, 3), positive(2), normal(3)], lambda p, v, g, x: (g / p.norm(v, axis=1))[:, None] * v @ x),
        ("attention", [normal(3, 2), normal(2, 2), normal(2, 2), normal(2, 3)], attention),
        ("causal attention", [normal(3, 2), normal(2, 2), normal(2, 2), normal(2, 3)], lambda p, *all: attention(p, *all, causal=True)),
        ("two heads of attention", [normal(3, 4), normal(3, 4, 4)], heads),
        ("linear attention", [normal(3, 2), normal(3, 2), normal(3, 2)], lambda p, q, k, v: (p.softmax(q, -1) @ (p.softmax(k, 0).T @ v))),
        ("transformer block", [normal(2, 3), normal(3, 2), normal(3, 2), normal(3, 3), normal(3, 2), normal(2, 3), positive(4, 3)], block),
        ("rotary positions", [normal(3, 4)], lambda p, x: rotary(p, x) ** 2),
        ("squeeze and excite", [normal(2, 3), normal(3, 2), normal(2, 3)], lambda p, x, w, u: x * p.sigmoid(p.relu(p.mean(x, 0) @ w) @ u)),
        ("mixture of experts", [x, normal(2, 3), normal(3, 2, 2)], lambda p, x, g, w: p.einsum("be,beo->bo", p.softmax(x @ g, -1), p.tanh(p.einsum("bi,eio->beo", x, w)))),
        ("factorisation machine", [normal(3), normal(3, 2), normal(3)], lambda p, x, v, w: x @ w + 0.5 * p.sum((x @ v) ** 2 - x**2 @ v**2)),
        ("graph convolution", [normal(3, 2), normal(2, 2), given([[0.5, 0.5, 0.0], [0.25, 0.5, 0.25], [0.0, 0.5, 0.5]])], lambda p, x, w, a: p.relu(a @ x @ w)),
        ("hopfield energy", [normal(4), normal(3, 4)], lambda p, x, m: 0.5 * (x @ x) - p.logsumexp(2 * m @ x) / 2),
        ("deep linear network", [normal(2, 2), normal(2, 2), normal(2, 2), normal(2)], lambda p, a, b, c, x: p.sum((a @ (b @ (c @ x)) - 1) ** 2)),
        ("radial basis network", [normal(2, 2), normal(3, 2), positive(3), normal(3)], lambda p, x, m, s, w: p.exp(-p.sum((x[:, None] - m) ** 2, -1) * s) @ w),
        ("maxout", [normal(3, 2), normal(4, 2, 3)], lambda p, x, w: p.max(p.einsum("bi,kio->bko", x, w), 1)),
    ]:
        both(name, inputs, function)
    each("group norm", [normal(2, 4, 2), normal(4), normal(4)], lambda x, g, b: jnp.reshape((lambda y: (y - y.mean(2, keepdims=True)) / jnp.sqrt(y.var(2, keepdims=True) + 1e-5))(x.reshape(2, 2, 4)), (2, 4, 2)) * g[:, None] + b[:, None], lambda x, g, b: nnf.group_norm(x, 2, g, b))
    each("instance norm", [normal(2, 2, 4)], lambda x: (x - x.mean(2, keepdims=True)) / jnp.sqrt(x.var(2, keepdims=True) + 1e-5), nnf.instance_norm)


def fields():
    """Small models from the sciences and optimisation's test functions."""
    def pendulum(p, q, v, l):
        return 0.5 * l**2 * v**2 - 9.81 * l * p.cos(q)

    def black_scholes(p, s, k, v, t):
        d = (p.ln(s / k) + 0.5 * v**2 * t) / (v * p.sqrt(t))
        cdf = lambda x: 0.5 * p.erfc(-x / 2**0.5)
        return s * cdf(d) - k * cdf(d - v * p.sqrt(t))

    def lennard_jones(p, x):
        r2 = p.sum((x[:, None] - x[None]) ** 2, -1) + p.constant(np.eye(3) * 1e3)
        return p.sum(1 / r2**6 - 1 / r2**3) / 2

    def quaternion(p, q, x):
        w, v = q[0] / p.norm(q), q[1:] / p.norm(q)
        t = 2 * p.cross(v, x)
        return x + w * t + p.cross(v, t)

    for name, inputs, function in [
        ("rosenbrock", [normal(5)], lambda p, x: p.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)),
        ("rastrigin", [normal(4)], lambda p, x: p.sum(x**2 - 10 * p.cos(2 * np.pi * x) + 10)),
        ("ackley", [normal(4)], lambda p, x: -20 * p.exp(-0.2 * p.sqrt(p.mean(x**2))) - p.exp(p.mean(p.cos(2 * np.pi * x)))),
        ("himmelblau", [normal(2)], lambda p, x: (x[0] ** 2 + x[1] - 11) ** 2 + (x[0] + x[1] ** 2 - 7) ** 2),
        ("beale", [normal(2)], lambda p, x: (1.5 - x[0] + x[0] * x[1]) ** 2 + (2.25 - x[0] + x[0] * x[1] ** 2) ** 2 + (2.625 - x[0] + x[0] * x[1] ** 3) ** 2),
        ("styblinski tang", [normal(4)], lambda p, x: p.sum(x**4 - 16 * x**2 + 5 * x) / 2),
        ("levy", [normal(3)], lambda p, x: p.sum(((x[:-1] - 1) / 4) ** 2 * (1 + 10 * p.sin(np.pi * (x[:-1] + 3) / 4) ** 2))),
        ("michalewicz", [positive(3)], lambda p, x: -p.sum(p.sin(x) * p.sin(p.constant([1.0, 2.0, 3.0]) * x**2 / np.pi) ** 8)),
        ("pendulum energy", [normal(3), normal(3), positive()], pendulum),
        ("kepler energy", [positive(2), normal(2)], lambda p, q, v: 0.5 * p.sum(v**2) - 1 / p.norm(q)),
        ("lennard jones", [lambda random: grid([[0.0, 0.0], [1.1, 0.1], [0.4, 1.2]] + random.uniform(-0.1, 0.1, (3, 2)))], lennard_jones),
        ("black scholes", [positive(3), positive(3), unit(3), positive(3)], black_scholes),
        ("ideal gas work", [positive(3), positive(3), positive()], lambda p, a, b, t: t * p.ln(b / a)),
        ("van der waals", [uniform(2, 4, 3), positive(3)], lambda p, v, t: t / (v - 0.1) - 0.5 / v**2),
        ("planck law", [positive(4), positive()], lambda p, n, t: n**3 / p.expm1(n / t)),
        ("arrhenius", [positive(3), positive(3), positive(3)], lambda p, a, e, t: a * p.exp(-e / t)),
        ("michaelis menten", [positive(4), positive(), positive()], lambda p, s, v, k: v * s / (k + s)),
        ("hill equation", [positive(4), positive(), positive()], lambda p, s, k, n: s**n / (k**n + s**n)),
        ("great circle", [unit(3), normal(3), unit(3), normal(3)], lambda p, a, l, b, m: 2 * p.asin(p.sqrt(p.sin((b - a) / 2) ** 2 + p.cos(a) * p.cos(b) * p.sin((m - l) / 2) ** 2))),
        ("spherical to cartesian", [positive(3), unit(3), normal(3)], lambda p, r, t, f: p.stack([r * p.sin(t) * p.cos(f), r * p.sin(t) * p.sin(f), r * p.cos(t)])),
        ("quaternion rotation", [normal(4), normal(3)], quaternion),
        ("relativistic energy", [normal(3), positive()], lambda p, q, m: p.sqrt(p.sum(q**2) + m**2)),
        ("lens equation", [uniform(2, 3, 3), uniform(0.5, 1.5, 3)], lambda p, u, f: 1 / (1 / f - 1 / u)),
        ("softened gravity", [normal(3, 2), positive(3)], lambda p, x, m: -p.sum(m[:, None] * m / p.sqrt(p.sum((x[:, None] - x[None]) ** 2, -1) + 0.1)) / 2),
        ("ising mean field", [uniform(-0.8, 0.8, 4), normal(4, 4)], lambda p, m, j: -0.5 * m @ j @ m + 0.5 * p.sum((1 + m) * p.ln((1 + m) / 2) + (1 - m) * p.ln((1 - m) / 2))),
        ("fourier series", [normal(4), normal(3), normal(3)], lambda p, t, a, b: p.cos(p.outer(t, p.constant([1.0, 2.0, 3.0]))) @ a + p.sin(p.outer(t, p.constant([1.0, 2.0, 3.0]))) @ b),
        ("bezier curve", [unit(4), normal(4, 2)], lambda p, t, c: p.stack([(1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t**2 * (1 - t), t**3], 1) @ c),
        ("lagrange interpolation", [normal(3), normal()], lambda p, y, x: y[0] * (x - 1) * (x - 2) / 2 - y[1] * x * (x - 2) + y[2] * x * (x - 1) / 2),
        ("simpson rule", [normal(5), positive()], lambda p, x, w: p.sum(p.constant([1.0, 4.0, 2.0, 4.0, 1.0]) * p.exp(p.sin(w * x))) / 12),
    ]:
        both(name, inputs, function)


def orders():
    """Products, running sums, orders, and copies along axes."""
    x = normal(3, 4)
    for name, inputs, function in [
        ("prod", [normal(2, 3)], lambda p, x: p.prod(x)),
        ("prod over 0", [x], lambda p, x: p.prod_over(x, 0)),
        ("prod over -1", [x], lambda p, x: p.prod_over(x, -1)),
        ("prod with a zero", [given([[1.5, 0.0, -2.0], [0.0, 3.0, 0.0]])], lambda p, x: p.prod_over(x, 1)),
        ("cumsum over 0", [x], lambda p, x: p.cumsum(x, 0) ** 2),
        ("cumsum over -1", [x], lambda p, x: p.cumsum(x**2, -1)),
        ("cumprod over 1", [x], lambda p, x: p.cumprod(x, 1)),
        ("cumprod over 0", [normal(4, 2)], lambda p, x: p.cumprod(x, 0) ** 2),
        ("sort over -1", [x], lambda p, x: p.sort(x, -1) ** 2),
        ("sort over 0", [x], lambda p, x: p.sort(x, 0) ** 3),
        ("top_k", [x], lambda p, x: p.top_k(x, 2) ** 2),
        ("median over 1 of five", [normal(2, 5)], lambda p, x: p.median(x, 1) ** 2),
        ("median over 0 of four", [normal(4, 2)], lambda p, x: p.median(x, 0) ** 2),
        ("median of all", [normal(2, 3)], lambda p, x: p.median(x.reshape(-1), 0) ** 2),
        ("quantile 0.3", [normal(2, 6)], lambda p, x: p.quantile(x, 0.3, 1) ** 2),
        ("quantile 1", [normal(6)], lambda p, x: p.quantile(x, 1.0, 0) ** 2),
        ("argmin chosen", [x], lambda p, x: p.sum(p.one_hot(p.argmin(x, 1), 4) * x**3, 1)),
        ("take_along 1", [x, given([[1, 3, 3], [0, 0, 2], [2, 1, 0]])], lambda p, x, i: p.take_along(x, i, 1) ** 2),
        ("take_along 0", [x, given([[1, 2, 0, 0], [2, 2, 1, 0]])], lambda p, x, i: p.take_along(x, i, 0) ** 2),
        ("tile", [normal(2, 3)], lambda p, x: p.tile(x, (2, 3)) ** 2),
        ("repeat over 0", [normal(2, 3)], lambda p, x: p.repeat(x, 3, 0) ** 2),
        ("repeat over 1", [normal(2, 3)], lambda p, x: p.repeat(x, 2, 1) ** 3),
        ("roll over 0", [x], lambda p, x: x * p.roll(x, 1, 0)),
        ("roll over 1 backwards", [x], lambda p, x: x * p.roll(x, -3, 1)),
        ("tril", [x], lambda p, x: p.tril(x) ** 2),
        ("tril 1", [x], lambda p, x: p.tril(x, 1) ** 2),
        ("tril -1", [normal(2, 3, 3)], lambda p, x: p.tril(x, -1) ** 2),
        ("triu", [x], lambda p, x: p.triu(x) ** 2),
        ("triu 1", [x], lambda p, x: p.triu(x, 1) ** 2),
        ("meshgrid", [normal(3), normal(2)], lambda p, a, b: (lambda g: g[0] ** 2 * g[1])(p.meshgrid(a, b, indexing="ij"))),
        ("embedding", [normal(4, 2), given([[1, 3], [1, 0]])], lambda p, e, i: p.gather(e, i, 0) ** 2),
        ("smallest gaps of sorted", [normal(6)], lambda p, x: p.sort(x, 0)[1:] - p.sort(x, 0)[:-1]),
        ("ranked loss", [normal(6), normal(6)], lambda p, x, w: p.sum(p.sort(x, 0) * w)),
        ("diff", [x], lambda p, x: p.diff(x, 1, 0) ** 2),
        ("diagonal 1", [x], lambda p, x: p.diagonal(x, 1) ** 2),
        ("swap_axes", [normal(2, 3, 2)], lambda p, x: p.permute(x, (2, 1, 0)) * x),
        ("move_axis", [normal(2, 3, 2)], lambda p, x: p.permute(x, (1, 2, 0)) ** 2),
        ("split", [normal(5)], lambda p, x: x[:2] * x[3:]),
        ("clip between tensors", [normal(2, 3), uniform(-1, -0.5, 3), uniform(0.5, 1, 3)], lambda p, x, a, b: p.minimum(p.maximum(x, a), b) ** 2),
        ("index_at", [x, given([0, 2, 2]), given([3, 1, 1])], lambda p, x, i, j: x[i, j] ** 2),
    ]:
        both(name, inputs, function)
    i, j = given([0, 2, 2]), given([3, 1, 0])
    each("with_at", [x, i, j, normal(3)], lambda x, i, j, v: x.at[i, j].set(v) ** 2, lambda x, i, j, v: x.index_put((i, j), v) ** 2)
    j = given([3, 1, 1])
    each("add_at", [x, i, j, normal(3)], lambda x, i, j, v: x.at[i, j].add(v) ** 2, lambda x, i, j, v: x.index_put((i, j), v, accumulate=True) ** 2)
    i = given([[1, 3], [0, 2], [2, 1]])
    each("put_along", [x, i, normal(3, 2)], lambda x, i, v: jnp.put_along_axis(x, i, v, 1, inplace=False) ** 2, lambda x, i, v: x.scatter(1, i, v) ** 2)
    i = given([[1, 1], [0, 2], [2, 2]])
    each("add_along", [x, i, normal(3, 2)], lambda x, i, v: x.at[jnp.arange(3)[:, None], i].add(v) ** 2, lambda x, i, v: x.scatter_add(1, i, v) ** 2)
    each("pad_with", [normal(2, 3)], lambda x: jnp.pad(x, ((1, 0), (0, 2)), constant_values=1.5) ** 2, lambda x: nnf.pad(x, (0, 2, 1, 0), value=1.5) ** 2)
    why = "PyTorch has no interpolation in a table"
    only("jax", why, "interp", [uniform(0.1, 2.9, 4), given([0.0, 1.0, 2.5, 3.0]), normal(4)], lambda p, x, k, v: jnp.interp(x, k, v) ** 2)


def windows():
    """Convolutions, pooling and interpolation: images have axes example, channel, places."""

    def convolved(x, k, stride=1, padding=0, dilation=1, groups=1):
        rank = x.ndim - 2
        return jax.lax.conv_general_dilated(x, k, (stride,) * rank, ((padding, padding),) * rank, rhs_dilation=(dilation,) * rank, feature_group_count=groups)

    def spread(x, k, stride=1, padding=0, output_padding=0, dilation=1):
        """A transposed convolution by its definition, as the compiler behind JAX breaks off on its derivatives."""
        sizes = [(n - 1) * stride + dilation * (m - 1) + 1 for n, m in zip(x.shape[2:], k.shape[2:])]
        y = jnp.zeros((x.shape[0], k.shape[1], *(size + output_padding for size in sizes)))
        for offsets in np.ndindex(*k.shape[2:]):
            places = tuple(slice(dilation * o, dilation * o + stride * (n - 1) + 1, stride) for o, n in zip(offsets, x.shape[2:]))
            y = y.at[(..., *places)].add(jnp.einsum("ni...,io->no...", x, k[(..., *offsets)]))
        kept = tuple(slice(padding, size - padding + output_padding) for size in sizes)
        return y[(..., *kept)]

    for suffix, options in [
        ("", {}),
        (" stride 2", {"stride": 2}),
        (" padding 1", {"padding": 1}),
        (" dilation 2", {"dilation": 2}),
        (" groups 2", {"groups": 2}),
        (" stride 2 padding 2 dilation 2", {"stride": 2, "padding": 2, "dilation": 2}),
    ]:
        inner = 2 // options.get("groups", 1)
        each("conv1d" + suffix, [normal(2, 2, 6), normal(4, inner, 3)], lambda x, k, o=options: convolved(x, k, **o), lambda x, k, o=options: nnf.conv1d(x, k, **o))
        each("conv2d" + suffix, [normal(1, 2, 5, 6), normal(2, inner, 2, 3)], lambda x, k, o=options: convolved(x, k, **o), lambda x, k, o=options: nnf.conv2d(x, k, **o))
    for suffix, options in [
        ("", {}),
        (" stride 2", {"stride": 2}),
        (" stride 2 padding 1", {"stride": 2, "padding": 1}),
        (" stride 3 padding 1 output padding 1", {"stride": 3, "padding": 1, "output_padding": 1}),
        (" dilation 2", {"dilation": 2}),
    ]:
        each("conv_transpose1d" + suffix, [normal(2, 2, 4), normal(2, 3, 3)], lambda x, k, o=options: spread(x, k, **o), lambda x, k, o=options: nnf.conv_transpose1d(x, k, **o))
        each("conv_transpose2d" + suffix, [normal(1, 2, 3, 2), normal(2, 2, 2, 3)], lambda x, k, o=options: spread(x, k, **o), lambda x, k, o=options: nnf.conv_transpose2d(x, k, **o))

    def pieces(x, size, stride, padding=0, fill=0.0):
        """All windows over the last axis, along a new last axis."""
        x = jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(padding, padding)], constant_values=fill)
        return jnp.stack([x[..., k : k + size] for k in range(0, x.shape[-1] - size + 1, stride)], -2)

    def pieces2(x, size, stride, padding=0, fill=0.0):
        rows = pieces(jnp.swapaxes(x, -1, -2), size, stride, padding, fill)
        return pieces(jnp.moveaxis(rows, -3, -1), size, stride, padding, fill).swapaxes(-2, -3).reshape(*x.shape[:2], rows.shape[-2], -1, size * size)

    def shares(size, count):
        return [(k * size // count, -(-(k + 1) * size // count)) for k in range(count)]

    line, image = [normal(1, 2, 7)], [normal(1, 2, 4, 4)]
    each("max_pool1d", line, lambda x: pieces(x, 2, 2).max(-1) ** 2, lambda x: nnf.max_pool1d(x, 2) ** 2)
    each("max_pool1d overlapping", line, lambda x: pieces(x, 3, 2, 1, -jnp.inf).max(-1) ** 2, lambda x: nnf.max_pool1d(x, 3, 2, 1) ** 2)
    each("max_pool2d", image, lambda x: pieces2(x, 2, 2).max(-1) ** 2, lambda x: nnf.max_pool2d(x, 2) ** 2)
    each("max_pool2d overlapping", image, lambda x: pieces2(x, 3, 1).max(-1) ** 2, lambda x: nnf.max_pool2d(x, 3, 1) ** 2)
    each("avg_pool1d", line, lambda x: pieces(x, 2, 2).mean(-1) ** 2, lambda x: nnf.avg_pool1d(x, 2) ** 2)
    each("avg_pool1d padded", line, lambda x: pieces(x, 3, 2, 1).mean(-1) ** 2, lambda x: nnf.avg_pool1d(x, 3, 2, 1) ** 2)
    each("avg_pool2d", image, lambda x: pieces2(x, 2, 2).mean(-1) ** 2, lambda x: nnf.avg_pool2d(x, 2) ** 2)
    each("avg_pool2d overlapping", image, lambda x: pieces2(x, 3, 1).mean(-1) ** 2, lambda x: nnf.avg_pool2d(x, 3, 1) ** 2)
    each("adaptive_avg_pool1d", line, lambda x: jnp.stack([x[..., a:b].mean(-1) for a, b in shares(7, 3)], -1) ** 2, lambda x: nnf.adaptive_avg_pool1d(x, 3) ** 2)
    each("adaptive_max_pool1d", line, lambda x: jnp.stack([x[..., a:b].max(-1) for a, b in shares(7, 3)], -1) ** 2, lambda x: nnf.adaptive_max_pool1d(x, 3) ** 2)
    square = [normal(1, 2, 4, 3)]
    each("adaptive_avg_pool2d", square, lambda x: jnp.stack([jnp.stack([x[..., a:b, c:d].mean((-1, -2)) for c, d in shares(3, 2)], -1) for a, b in shares(4, 3)], -2) ** 2, lambda x: nnf.adaptive_avg_pool2d(x, (3, 2)) ** 2)
    each("adaptive_max_pool2d", square, lambda x: jnp.stack([jnp.stack([x[..., a:b, c:d].max((-1, -2)) for c, d in shares(3, 2)], -1) for a, b in shares(4, 3)], -2) ** 2, lambda x: nnf.adaptive_max_pool2d(x, (3, 2)) ** 2)
    resized = lambda x, shape, how: jax.image.resize(x, (*x.shape[:2], *shape), how, antialias=False) ** 2
    each("interpolate linear 1d", [normal(1, 2, 4)], lambda x: resized(x, (7,), "linear"), lambda x: nnf.interpolate(x, size=7, mode="linear") ** 2)
    each("interpolate nearest 1d", [normal(1, 2, 4)], lambda x: jnp.repeat(x, 2, 2) ** 2, lambda x: nnf.interpolate(x, size=8, mode="nearest") ** 2)
    each("interpolate linear 2d", [normal(1, 1, 3, 4)], lambda x: resized(x, (5, 6), "linear"), lambda x: nnf.interpolate(x, size=(5, 6), mode="bilinear") ** 2)
    each("interpolate nearest 2d", [normal(1, 1, 2, 3)], lambda x: jnp.repeat(jnp.repeat(x, 2, 2), 3, 3) ** 2, lambda x: nnf.interpolate(x, size=(4, 9), mode="nearest") ** 2)


def parts(p, z):
    return p.stack([p.real(z), p.imag(z)])


def complex_of(p, a, b):
    return a + 1j * b


def complex_numbers():
    for name, inputs, function in [
        ("complex exp", [normal(3), normal(3)], lambda p, a, b: parts(p, p.exp(complex_of(p, a, b)))),
        ("complex ln", [normal(3), normal(3)], lambda p, a, b: parts(p, p.ln(complex_of(p, a, b)))),
        ("complex sqrt", [normal(3), normal(3)], lambda p, a, b: parts(p, p.sqrt(complex_of(p, a, b)))),
        ("complex sin", [normal(3), normal(3)], lambda p, a, b: parts(p, p.sin(complex_of(p, a, b)))),
        ("complex cube", [normal(3), normal(3)], lambda p, a, b: parts(p, complex_of(p, a, b) ** 3)),
        ("complex quotient", [normal(3), normal(3), normal(3), normal(3)], lambda p, a, b, c, d: parts(p, complex_of(p, a, b) / complex_of(p, c, d))),
        ("complex abs and arg", [normal(3), normal(3)], lambda p, a, b: p.stack([p.abs(complex_of(p, a, b)), p.angle(complex_of(p, a, b))])),
        ("complex matmul", [normal(2, 3), normal(2, 3), normal(3, 2), normal(3, 2)], lambda p, a, b, c, d: parts(p, complex_of(p, a, b) @ complex_of(p, c, d))),
    ]:
        both(name, inputs, function)


def spectra():
    for name, inputs, function in [
        ("fft", [normal(2, 4), normal(2, 4)], lambda p, a, b: parts(p, p.fft.fft(complex_of(p, a, b)))),
        ("fft of six", [normal(6), normal(6)], lambda p, a, b: parts(p, p.fft.fft(complex_of(p, a, b))) ** 2),
        ("fft of five", [normal(5), normal(5)], lambda p, a, b: parts(p, p.fft.fft(complex_of(p, a, b)))),
        ("ifft", [normal(2, 4), normal(2, 4)], lambda p, a, b: parts(p, p.fft.ifft(complex_of(p, a, b)))),
        ("rfft", [normal(2, 6)], lambda p, x: parts(p, p.fft.rfft(x)) ** 2),
        ("rfft of five", [normal(5)], lambda p, x: parts(p, p.fft.rfft(x)) ** 2),
        ("irfft of six", [normal(4), normal(4)], lambda p, a, b: p.fft.irfft(complex_of(p, a, b), 6) ** 2),
        ("irfft of five", [normal(3), normal(3)], lambda p, a, b: p.fft.irfft(complex_of(p, a, b), 5) ** 2),
        ("fft2", [normal(3, 4), normal(3, 4)], lambda p, a, b: parts(p, p.fft.fft2(complex_of(p, a, b))) ** 2),
        ("ifft2", [normal(2, 4), normal(2, 4)], lambda p, a, b: parts(p, p.fft.ifft2(complex_of(p, a, b)))),
        ("power spectrum", [normal(8)], lambda p, x: p.real(p.fft.rfft(x)) ** 2 + p.imag(p.fft.rfft(x)) ** 2),
        ("convolution by spectra", [normal(6), normal(6)], lambda p, a, b: p.fft.irfft(p.fft.rfft(a) * p.fft.rfft(b), 6)),
        ("spectral low pass", [normal(8)], lambda p, x: p.fft.irfft(p.fft.rfft(x) * p.constant([1.0, 1.0, 0.5, 0.0, 0.0]), 8) ** 2),
    ]:
        both(name, inputs, function)


def matrices():
    """Linear algebra. What is unique only up to signs or order enters through what is unique."""
    lower = lambda size: lambda random: grid(np.tril(random.uniform(-1, 1, (size, size))) + 2 * np.eye(size))
    symmetric = lambda a: (a + a.swapaxes(-1, -2)) / 2
    positive_qr = lambda p, a: (lambda q, r: (q * p.sign(p.diagonal(r)), r * p.sign(p.diagonal(r))[:, None]))(*p.qr(a))

    for name, inputs, function in [
        ("solve", [regular(3), normal(3, 2)], lambda p, a, b: p.linalg.solve(a, b)),
        ("solve for a vector", [regular(3), normal(3)], lambda p, a, b: p.linalg.solve(a, b)),
        ("solve of a stack", [regular(2, 2), normal(2, 2, 3)], lambda p, a, b: p.linalg.solve(a, b)),
        ("solve_triangular lower", [lower(3), normal(3, 2)], lambda p, a, b: p.solve_triangular(p.tril(a), b, True)),
        ("solve_triangular upper", [lower(3), normal(3, 2)], lambda p, a, b: p.solve_triangular(p.triu(a.T), b, False)),
        ("inv", [regular(3)], lambda p, a: p.linalg.inv(a)),
        ("inv of a stack", [regular(2, 3)], lambda p, a: p.linalg.inv(a)),
        ("cholesky", [definite(3)], lambda p, a: p.linalg.cholesky(symmetric(a))),
        ("cholesky of a stack", [definite(2, 2)], lambda p, a: p.linalg.cholesky(symmetric(a))),
        ("qr orthogonal", [regular(3)], lambda p, a: positive_qr(p, a)[0]),
        ("qr triangular", [regular(3)], lambda p, a: positive_qr(p, a)[1]),
        ("qr of a tall matrix", [normal(4, 2)], lambda p, a: positive_qr(p, a)[0] @ p.constant([[1.0, 0.5], [0.0, 2.0]])),
        ("svd values", [normal(3, 4)], lambda p, a: p.svd(a)[1]),
        ("svd polar factor", [regular(3)], lambda p, a: (lambda u, s, v: u @ v)(*p.svd(a))),
        ("svd of a tall matrix", [normal(4, 2)], lambda p, a: (lambda u, s, v: (u * p.ln(s)) @ v)(*p.svd(a))),
        ("nuclear norm", [normal(3, 2)], lambda p, a: p.sum(p.svd(a)[1])),
        ("spectral norm", [normal(3, 3)], lambda p, a: p.svd(a)[1][0]),
        ("eigh values", [regular(3)], lambda p, a: p.eigh(symmetric(a))[0]),
        ("eigh squared vectors", [regular(3)], lambda p, a: p.eigh(symmetric(a))[1] ** 2),
        ("matrix logarithm by eigh", [definite(3)], lambda p, a: (lambda l, v: (v * p.ln(l)) @ v.T)(*p.eigh(symmetric(a)))),
        ("lstsq", [normal(4, 2), normal(4, 2)], lambda p, a, b: p.lstsq(a, b)),
        ("det", [regular(3)], lambda p, a: p.linalg.det(a)),
        ("det of a stack", [regular(2, 3)], lambda p, a: p.linalg.det(a)),
        ("logdet", [definite(3)], lambda p, a: p.logdet(a)),
        ("slogdet", [lambda random: -regular(3)(random)], lambda p, a: p.linalg.slogdet(a)[1]),
        ("expm", [normal(3, 3)], lambda p, a: p.expm(a)),
        ("expm of a rotation", [normal()], lambda p, t: p.expm(t * p.constant([[0.0, -1.0], [1.0, 0.0]]))),
        ("pinv", [normal(4, 2)], lambda p, a: p.linalg.pinv(a)),
        ("matrix_power 4", [normal(3, 3)], lambda p, a: p.matrix_power(a, 4)),
        ("matrix_power -2", [regular(2)], lambda p, a: p.matrix_power(a, -2)),
        ("lu factors", [regular(3)], lambda p, a: p.stack(list(p.lu(a)[1:]))),
        ("gaussian process likelihood", [normal(4), normal(4), positive()], lambda p, x, y, l: (lambda k: 0.5 * y @ p.linalg.solve(k, y) + 0.5 * p.logdet(k))(p.exp(-((x[:, None] - x) ** 2) / l) + 0.5 * p.eye(4, dtype=p.float64))),
        ("multivariate normal", [normal(3), definite(3)], lambda p, x, a: (lambda c: 0.5 * p.sum(p.solve_triangular(c, x[:, None], True) ** 2) + p.sum(p.ln(p.diagonal(c))))(p.linalg.cholesky(symmetric(a)))),
        ("ridge regression", [normal(4, 2), normal(4), positive()], lambda p, x, y, l: p.linalg.solve(x.T @ x + l * p.eye(2, dtype=p.float64), x.T @ y)),
        ("kalman gain", [definite(2), definite(2), normal(2, 2)], lambda p, s, r, h: s @ h.T @ p.linalg.inv(h @ s @ h.T + r)),
    ]:
        both(name, inputs, function)


# ------------------------------------------------------------------ writing


def computed(name):
    inputs, function, peer = CASES[name]
    random = np.random.default_rng([SEED, zlib.crc32(name.encode())])
    inputs = [made(random) for made in inputs]
    directions = [grid(random.uniform(-1, 1, x.shape)) for x in inputs if x.dtype == np.float64]
    seed = random.integers(1 << 30)
    weigh = lambda shape: grid(np.random.default_rng(seed).uniform(-1, 1, shape))
    peers = {"jax": by_jax, "torch": by_torch}
    found = [peers[one](function, inputs, weigh, directions) for one in peers if peer in (None, one)]
    for ours, theirs in zip(*found) if len(found) == 2 else []:
        for a, b in zip(ours, theirs):
            size = max(1e-6, np.max(np.abs(a), initial=0))
            distance = np.max(np.abs(a - b), initial=0) / size
            if a.shape != b.shape or not distance <= AGREEMENT:
                sys.exit(f"{name}: the peers differ by {distance:.1e} of {size:.3g}\njax   {a.tolist()}\ntorch {b.tolist()}")
    (value,), gradients, products = found[0]
    if not all(np.all(np.isfinite(array)) for array in [value, *gradients, *products]):
        sys.exit(f"{name}: not all numbers are finite")
    array = lambda x: {"shape": list(x.shape), ("integers" if x.dtype == np.int64 else "numbers"): x.reshape(-1).tolist()}
    flat = lambda arrays: [x.reshape(-1).tolist() for x in arrays]
    return {
        "name": name,
        "peers": peer or "jax and torch",
        "inputs": [array(x) for x in inputs],
        "weight": weigh(value.shape).reshape(-1).tolist(),
        "directions": flat(directions),
        "value": array(value),
        "gradients": flat(gradients),
        "products": flat(products),
    }


def written(path, names, command="python bench/golden/operations.py"):
    header = {"peers": VERSIONS, "seed": SEED, "command": command}
    lines = ",\n".join(json.dumps(computed(name), separators=(",", ":")) for name in names)
    path.write_text(json.dumps(header)[:-1] + f', "cases": [\n{lines}\n]}}\n')
    print(f"{path.name}: {len(names)} cases, {path.stat().st_size} bytes")


# Features of the library that are optional have files of their own.
FILES = {
    "operations.json": [pointwise, several_arguments, reductions, products, shapes, recurrences, losses, layers, fields]
    + [orders, windows, complex_numbers],
    "spectra.json": [spectra],
    "matrices.json": [matrices],
}


def main():
    for file, sections in FILES.items():
        before = set(CASES)
        for section in sections:
            section()
        written(TESTS / file, [name for name in CASES if name not in before])


if __name__ == "__main__":
    main()
