"""JAX and PyTorch under one set of names, so that a case is written once and computed twice.

A name that both spell alike is looked up in `jax.numpy` or `torch`; those that they spell differently are below.
"""

import jax
import jax.numpy as jnp
import numpy as np
import torch
import torch.nn.functional as nnf

jax.config.update("jax_enable_x64", True)
torch.set_default_dtype(torch.float64)
# The fused kernel of attention has no second derivative, the plain formula has.
torch.backends.cuda.enable_flash_sdp(False)
torch.set_num_threads(1)

# What the peers spell differently: the name here, in JAX, in PyTorch.
SPELLINGS = {
    "ln": (jnp.log, torch.log),
    "asin": (jnp.arcsin, torch.asin),
    "acos": (jnp.arccos, torch.acos),
    "atan": (jnp.arctan, torch.atan),
    "asinh": (jnp.arcsinh, torch.asinh),
    "acosh": (jnp.arccosh, torch.acosh),
    "atanh": (jnp.arctanh, torch.atanh),
    "atan2": (jnp.arctan2, torch.atan2),
    "rsqrt": (jax.lax.rsqrt, torch.rsqrt),
    "cbrt": (jnp.cbrt, lambda x: torch.sign(x) * torch.abs(x) ** (1 / 3)),
    "sigmoid": (jax.nn.sigmoid, torch.sigmoid),
    "log_sigmoid": (jax.nn.log_sigmoid, nnf.logsigmoid),
    "softplus": (jax.nn.softplus, lambda x: torch.logaddexp(x, torch.zeros_like(x))),
    "softsign": (jax.nn.soft_sign, nnf.softsign),
    "relu": (jax.nn.relu, torch.relu),
    "leaky_relu": (jax.nn.leaky_relu, nnf.leaky_relu),
    "elu": (jax.nn.elu, nnf.elu),
    "gelu": (lambda x: jax.nn.gelu(x, approximate=False), nnf.gelu),
    "gelu_tanh": (lambda x: jax.nn.gelu(x, approximate=True), lambda x: nnf.gelu(x, approximate="tanh")),
    "silu": (jax.nn.silu, nnf.silu),
    "mish": (jax.nn.mish, nnf.mish),
    "erf": (jax.scipy.special.erf, torch.special.erf),
    "erfc": (jax.scipy.special.erfc, torch.special.erfc),
    "lgamma": (jax.scipy.special.gammaln, torch.lgamma),
    "digamma": (jax.scipy.special.digamma, torch.digamma),
    "polygamma": (lambda n, x: jax.scipy.special.polygamma(n, x), torch.special.polygamma),
    "power": (jnp.power, torch.pow),
    "rem": (jnp.fmod, torch.fmod),
    "max": (jnp.max, torch.amax),
    "min": (jnp.min, torch.amin),
    "var": (jnp.var, lambda x, axis=None: torch.var(x, axis, correction=0)),
    "std": (jnp.std, lambda x, axis=None: torch.std(x, axis, correction=0)),
    "norm": (jnp.linalg.norm, lambda x, axis=None: torch.linalg.vector_norm(x, dim=axis)),
    "logsumexp": (
        jax.scipy.special.logsumexp,
        lambda x, axis=None: torch.logsumexp(x, tuple(range(x.ndim)) if axis is None else axis),
    ),
    "softmax": (jax.nn.softmax, torch.softmax),
    "log_softmax": (jax.nn.log_softmax, torch.log_softmax),
    "permute": (jnp.permute_dims, torch.permute),
    "pad": (jnp.pad, lambda x, widths: nnf.pad(x, [width for pair in reversed(widths) for width in pair])),
    # Entries along an axis by indices, whose axes take the place of that axis.
    "gather": (
        jnp.take,
        lambda x, i, axis: x[(slice(None),) * axis + (i,)],
    ),
    # Rows added up where a vector of indices says.
    "scatter_rows": (
        lambda x, i, size: jnp.zeros((size, *x.shape[1:])).at[i].add(x),
        lambda x, i, size: torch.zeros(size, *x.shape[1:]).index_add(0, i, x),
    ),
    "one_hot": (lambda i, size: jax.nn.one_hot(i, size), lambda i, size: nnf.one_hot(i, size).double()),
    "take_along": (jnp.take_along_axis, torch.take_along_dim),
    "stop_gradient": (jax.lax.stop_gradient, lambda x: x.detach()),
    "expand": (jnp.expand_dims, torch.unsqueeze),
    "flip_each": (lambda x, axis: jnp.flip(x, axis), lambda x, axis: torch.flip(x, (axis,))),
    "roll": (jnp.roll, lambda x, shift, axis: torch.roll(x, shift, axis)),
    "repeat": (jnp.repeat, lambda x, count, axis: torch.repeat_interleave(x, count, dim=axis)),
    "sort": (jnp.sort, lambda x, axis: torch.sort(x, dim=axis).values),
    "median": (lambda x, axis: jnp.median(x, axis), lambda x, axis: torch.quantile(x, 0.5, dim=axis)),
    "quantile": (lambda x, q, axis: jnp.quantile(x, q, axis), lambda x, q, axis: torch.quantile(x, q, dim=axis)),
    "prod_over": (jnp.prod, lambda x, axis: torch.prod(x, axis)),
    "top_k": (lambda x, k: jax.lax.top_k(x, k)[0], lambda x, k: torch.topk(x, k).values),
    "solve_triangular": (
        lambda a, b, lower: jax.scipy.linalg.solve_triangular(a, b, lower=lower),
        lambda a, b, lower: torch.linalg.solve_triangular(a, b, upper=not lower),
    ),
    "expm": (jax.scipy.linalg.expm, torch.linalg.matrix_exp),
    "logdet": (lambda a: jnp.linalg.slogdet(a)[1], torch.logdet),
    "lstsq": (lambda a, b: jnp.linalg.lstsq(a, b)[0], lambda a, b: torch.linalg.lstsq(a, b).solution),
    "matrix_power": (jnp.linalg.matrix_power, torch.linalg.matrix_power),
    "eigh": (lambda a: tuple(jnp.linalg.eigh(a)), lambda a: tuple(torch.linalg.eigh(a))),
    "svd": (
        lambda a: tuple(jnp.linalg.svd(a, full_matrices=False)),
        lambda a: tuple(torch.linalg.svd(a, full_matrices=False)),
    ),
    "qr": (lambda a: tuple(jnp.linalg.qr(a)), lambda a: tuple(torch.linalg.qr(a))),
    "lu": (lambda a: jax.scipy.linalg.lu(a), lambda a: tuple(torch.linalg.lu(a))),
    "cross": (jnp.cross, torch.linalg.cross),
    "diagonal": (jnp.diagonal, torch.diagonal),
}


class Peer:
    def __init__(self, name, module, place):
        self.name, self.module, self.place = name, module, place

    def __getattr__(self, name):
        return SPELLINGS[name][self.place] if name in SPELLINGS else getattr(self.module, name)

    def constant(self, numbers):
        return self.module.asarray(numbers, dtype=self.module.float64)


JAX, TORCH = Peer("jax", jnp, 0), Peer("torch", torch, 1)
VERSIONS = {"jax": jax.__version__, "torch": torch.__version__}


def by_jax(function, inputs, weigh, directions):
    """Value, gradients and Hessian-vector products of the weighted sum of a function, by JAX."""
    floats = [k for k, x in enumerate(inputs) if x.dtype == np.float64]

    def whole(moving):
        full = [jnp.asarray(x) for x in inputs]
        for k, x in zip(floats, moving):
            full[k] = x
        return function(JAX, *full)

    moving = [jnp.asarray(inputs[k]) for k in floats]
    value = whole(moving)
    weight = jnp.asarray(weigh(value.shape))
    slope = jax.grad(lambda moving: jnp.sum(weight * whole(moving)))
    gradients, products = jax.jvp(slope, (moving,), ([jnp.asarray(v) for v in directions],))
    return [np.asarray(value)], list(map(np.asarray, gradients)), list(map(np.asarray, products))


def by_torch(function, inputs, weigh, directions):
    """Value, gradients and Hessian-vector products of the weighted sum of a function, by PyTorch."""
    tensors = [torch.tensor(x, requires_grad=x.dtype == np.float64) for x in inputs]
    moving = [x for x in tensors if x.requires_grad]
    value = function(TORCH, *tensors)
    weight = torch.tensor(weigh(tuple(value.shape)))

    def differentiated(number, create_graph=False):
        if not number.requires_grad:
            return [torch.zeros_like(x) for x in moving]
        return torch.autograd.grad(number, moving, create_graph=create_graph, materialize_grads=True)

    gradients = differentiated((weight * value).sum(), create_graph=True)
    slope = sum((gradient * torch.tensor(v)).sum() for gradient, v in zip(gradients, directions))
    products = differentiated(slope)
    plain = lambda tensors: [x.numpy(force=True) for x in tensors]
    return plain([value]), plain(gradients), plain(products)
