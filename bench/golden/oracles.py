"""Definitions of operations that a peer does not have, written from their definition, for `page.py`."""

import itertools

import numpy as np
from peers import jax, jnp, torch


def huber(difference, delta):
    """Half the square up to delta, a line beyond."""
    distance = jnp.abs(difference)
    return jnp.where(distance < delta, 0.5 * distance**2, delta * (distance - 0.5 * delta))


def collapsed(path):
    """A path of classes without repetitions and blanks."""
    return [label for label, _ in itertools.groupby(path) if label != 0]


def ctc(logs, targets, times):
    """The negative log-likelihood of each target: the sum over all paths that collapse to it, one by one."""
    losses = []
    for number, (target, time) in enumerate(zip(targets, times)):
        paths = [path for path in itertools.product(range(logs.shape[2]), repeat=time) if collapsed(path) == target]
        scores = logs[jnp.arange(time)[None], number, jnp.array(paths)].sum(1)
        losses.append(-jax.scipy.special.logsumexp(scores))
    return jnp.stack(losses)


def cosine(x, y):
    """The cosine of the angle between two vectors."""
    return (x @ y) / jnp.linalg.norm(x) / jnp.linalg.norm(y)


def rotary_jax(x, base, start):
    """Rotary position embedding, each pair as a complex number times a unit."""
    half = x.shape[-1] // 2
    angle = jnp.outer(start + jnp.arange(x.shape[-2]), base ** (-jnp.arange(half) / half))
    rotated = jax.lax.complex(x[..., :half], x[..., half:]) * jnp.exp(1j * angle)
    return jnp.concatenate([rotated.real, rotated.imag], -1)


def rotary_torch(x, base, start):
    """The same by matrices of rotation, one for each pair."""
    half = x.shape[-1] // 2
    rows = []
    for place in range(x.shape[-2]):
        parts = [None] * (2 * half)
        for k in range(half):
            angle = torch.tensor((start + place) * base ** (-k / half))
            c, s = torch.cos(angle), torch.sin(angle)
            a, b = x[..., place, k], x[..., place, k + half]
            parts[k], parts[k + half] = c * a - s * b, s * a + c * b
        rows.append(torch.stack(parts, -1))
    return torch.stack(rows, -2)


def by_eigenvalues_torch(f):
    """A function of a matrix with distinct eigenvalues by its eigenvalues and vectors."""

    def of(a):
        values, vectors = torch.linalg.eig(a)
        return (vectors * f(values) @ torch.linalg.inv(vectors)).real

    return of


def logm_jax(a):
    """The logarithm by its integral ∫ (a - 1)(s(a - 1) + 1)⁻¹ ds over [0, 1], by Gauss and Legendre."""
    x = a - jnp.eye(a.shape[0])
    nodes, weights = np.polynomial.legendre.leggauss(60)
    terms = [w / 2 * jnp.linalg.solve((s + 1) / 2 * x + jnp.eye(a.shape[0]), x) for s, w in zip(nodes, weights)]
    return sum(terms)


def sqrtm_jax(a):
    """The square root by Newton's method for x² = a, with as many steps as it takes from the identity."""
    x, y = a, jnp.eye(a.shape[0])
    for _ in range(12):
        x, y = (x + jnp.linalg.inv(y)) / 2, (y + jnp.linalg.inv(x)) / 2
    return x


def attention(q, k, v, causal=False):
    """Scaled dot-product attention of [heads, places, width]; fewer heads of keys are shared by groups."""
    k, v = (jnp.repeat(x, q.shape[0] // x.shape[0], axis=0) for x in (k, v))
    scores = q @ jnp.swapaxes(k, 1, 2) / jnp.sqrt(q.shape[-1])
    if causal:
        scores = jnp.where(jnp.tril(jnp.ones(scores.shape[1:], bool)), scores, -jnp.inf)
    return jax.nn.softmax(scores, axis=-1) @ v


def pair(z):
    """Real and imaginary part along a new first axis."""
    return jnp.stack([z.real, z.imag])


def bessel_j(x, n):
    """The Bessel function by its integral over a period, by the trapezoidal rule."""
    angle = jnp.arange(64) * (2 * jnp.pi / 64)
    return jnp.cos(n * angle - x[..., None] * jnp.sin(angle)).mean(-1)


def bessel_i(x, n):
    """The modified Bessel function by its integral over a period, by the trapezoidal rule."""
    angle = jnp.arange(64) * (2 * jnp.pi / 64)
    return (jnp.exp(x[..., None] * jnp.cos(angle)) * jnp.cos(n * angle)).mean(-1)


gammaln, digamma = jax.scipy.special.gammaln, jax.scipy.special.digamma


def beta_logpdf(x, a, b):
    """The logarithm of the density of a beta variate by gamma functions."""
    return (a - 1) * jnp.log(x) + (b - 1) * jnp.log1p(-x) - gammaln(a) - gammaln(b) + gammaln(a + b)


def kl_gamma(a, r, b, s):
    """The divergence of gamma distributions: E[ln f - ln g] by E[ln z] = ψ(a) - ln r and E[z] = a/r."""
    mean_log, mean = digamma(a) - jnp.log(r), a / r
    log_density = lambda a, r: a * jnp.log(r) - gammaln(a) + (a - 1) * mean_log - r * mean
    return log_density(a, r) - log_density(b, s)


def kl_dirichlet(a, b):
    """The divergence of Dirichlet distributions by E[ln p] = ψ(a) - ψ(Σa)."""
    mean_log = digamma(a) - digamma(a.sum(-1, keepdims=True))
    log_density = lambda c: gammaln(c.sum(-1)) - gammaln(c).sum(-1) + ((c - 1) * mean_log).sum(-1)
    return log_density(a) - log_density(b)


distributions = torch.distributions
NAMES = ["Gamma", "Beta", "Dirichlet", "Laplace", "Normal", "Bernoulli", "Categorical", "Poisson", "MultivariateNormal"]

# Names in the cells of a peer, beside its own.
TORCH = {
    "rotary": rotary_torch,
    "sqrtm": by_eigenvalues_torch(torch.sqrt),
    "logm": by_eigenvalues_torch(torch.log),
    "kl": distributions.kl_divergence,
} | {name: getattr(distributions, name) for name in NAMES}
JAX = {"huber": huber, "ctc": ctc, "cosine": cosine, "rotary": rotary_jax, "sqrtm": sqrtm_jax, "logm": logm_jax, "pair": pair}
JAX |= {"attention": attention}
JAX |= {"bessel_j": bessel_j, "bessel_i": bessel_i, "beta_logpdf": beta_logpdf, "kl_gamma": kl_gamma, "kl_dirichlet": kl_dirichlet}
