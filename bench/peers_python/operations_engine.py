"""The operations of `bench/run operations` in PyTorch (eager) or JAX (compiled with `jit`).

`operations_engine.py torch ROWS` or `jax ROWS`; ROWS is the list of the program in `bench/operations/`, which states
operands and layouts. Here each operation is a row by the same name: in PyTorch, in JAX.
"""

import json
import pathlib
import sys

import numpy

import data
from server import Refused, serve

ENGINE = sys.argv[1]
SAMPLES = 64

if ENGINE == "torch":
    import torch
    from torch.nn import functional as F

    torch.set_num_threads(2)
    VERSION = {"torch": torch.__version__}
else:
    import jax

    jax.config.update("jax_enable_x64", True)
    import jax.numpy as np
    from jax import lax

    VERSION = {"jax": jax.__version__}


def both(function):
    """An operation that both write alike."""
    return function, function


def convolved(x, kernel, stride=1, padding=0, groups=1):
    spatial = x.ndim - 2
    return lax.conv_general_dilated(x, kernel, (stride,) * spatial, [(padding, padding)] * spatial, feature_group_count=groups)


def transposed_convolution(x, kernel, stride, padding):
    """The adjoint of a convolution: the kernel is flipped, the input dilated by the stride."""
    reach = kernel.shape[-1] - 1 - padding
    flipped = np.flip(kernel, (2, 3)).swapaxes(0, 1)
    return lax.conv_general_dilated(x, flipped, (1, 1), [(reach, reach)] * 2, lhs_dilation=(stride, stride))


def pooled(x, operation, start, size, stride, padding=0):
    window, strides = (1, 1, size, size), (1, 1, stride, stride)
    return lax.reduce_window(x, start, operation, window, strides, [(0, 0)] * 2 + [(padding, padding)] * 2)


def positive_definite(x, eye):
    return x @ x.T + len(x) * eye(len(x), dtype=x.dtype)


def torch_definite(x):
    return positive_definite(x, torch.eye)


def jax_definite(x):
    return positive_definite(x, np.eye)


def lstm_cell(x, h, c, w, u, sigmoid, tanh, split):
    i, f, g, o = split(x @ w + h @ u)
    following = sigmoid(f) * c + sigmoid(i) * tanh(g)
    return sigmoid(o) * tanh(following), following


def attention(q, k, v, causal=False):
    scores = np.einsum("bhqd,bhkd->bhqk", q, k) / np.float32(q.shape[-1] ** 0.5)
    if causal:
        scores = np.where(np.tril(np.ones(scores.shape[-2:], bool)), scores, -np.inf)
    return np.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores), v)


def normalised(x, axes):
    mean, variance = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + np.float32(1e-5))


OPERATIONS = {
    "add": both(lambda x, y: x + y),
    "mul": both(lambda x, y: x * y),
    "div": both(lambda x, y: x / y),
    "multiply_add": (lambda x, y, z: torch.addcmul(z, x, y), lambda x, y, z: x * y + z),
    "maximum": (lambda x, y: torch.maximum(x, y), lambda x, y: np.maximum(x, y)),
    "compare": both(lambda x, y: x > y),
    "where": (lambda x, y: torch.where(x > 0.5, x, y), lambda x, y: np.where(x > 0.5, x, y)),
    "relu": (lambda x: torch.relu(x), lambda x: jax.nn.relu(x)),
    "exp": (lambda x: torch.exp(x), lambda x: np.exp(x)),
    "log": (lambda x: torch.log(x), lambda x: np.log(x)),
    "sin": (lambda x: torch.sin(x), lambda x: np.sin(x)),
    "tanh": (lambda x: torch.tanh(x), lambda x: np.tanh(x)),
    "sigmoid": (lambda x: torch.sigmoid(x), lambda x: jax.nn.sigmoid(x)),
    "gelu": (lambda x: F.gelu(x), lambda x: jax.nn.gelu(x, approximate=False)),
    "softplus": (lambda x: F.softplus(x), lambda x: jax.nn.softplus(x)),
    "erf": (lambda x: torch.erf(x), lambda x: lax.erf(x)),
    "atan": (lambda x: torch.atan(x), lambda x: np.arctan(x)),
    "pow": (lambda x: x**2.5, lambda x: x ** np.float32(2.5)),
    "sqrt": (lambda x: torch.sqrt(x), lambda x: np.sqrt(x)),
    "cast_f64": (lambda x: x.double(), lambda x: x.astype(np.float64)),
    "sum_all": both(lambda x: x.sum()),
    "sum_last": both(lambda x: x.sum(-1)),
    "sum_first": both(lambda x: x.sum(0)),
    "mean_middle": both(lambda x: x.mean(1)),
    "max_last": (lambda x: torch.amax(x, -1), lambda x: x.max(-1)),
    "max_first": (lambda x: torch.amax(x, 0), lambda x: x.max(0)),
    "argmax_last": both(lambda x: x.argmax(-1)),
    "argmax_first": both(lambda x: x.argmax(0)),
    "var_last": (lambda x: x.var(-1, correction=0), lambda x: x.var(-1)),
    "var_all": (lambda x: x.var(correction=0), lambda x: x.var()),
    "norm_all": (lambda x: torch.linalg.vector_norm(x), lambda x: np.linalg.norm(x)),
    "logsumexp_last": (lambda x: torch.logsumexp(x, -1), lambda x: jax.nn.logsumexp(x, -1)),
    "logsumexp_first": (lambda x: torch.logsumexp(x, 0), lambda x: jax.nn.logsumexp(x, 0)),
    "prod_last": both(lambda x: x.prod(-1)),
    "prod_all": both(lambda x: x.prod()),
    "softmax_last": (lambda x: torch.softmax(x, -1), lambda x: jax.nn.softmax(x, -1)),
    "softmax_first": (lambda x: torch.softmax(x, 0), lambda x: jax.nn.softmax(x, 0)),
    "log_softmax": (lambda x: torch.log_softmax(x, -1), lambda x: jax.nn.log_softmax(x, -1)),
    "layer_norm": (lambda x: F.layer_norm(x, x.shape[-1:]), lambda x: normalised(x, -1)),
    "batch_norm": (lambda x: F.batch_norm(x, None, None, training=True), lambda x: normalised(x, (0, 2, 3))),
    "cumsum_last": both(lambda x: x.cumsum(-1)),
    "cumsum_first": both(lambda x: x.cumsum(0)),
    "cumprod_last": both(lambda x: x.cumprod(-1)),
    "cummax_last": (lambda x: x.cummax(-1).values, lambda x: lax.cummax(x, x.ndim - 1)),
    "sort": (lambda x: x.sort(dim=-1, stable=True).values, lambda x: np.sort(x, -1)),
    "argsort": (lambda x: torch.argsort(x, dim=-1, stable=True), lambda x: np.argsort(x, -1)),
    "topk": (lambda x: x.topk(16, -1).values, lambda x: lax.top_k(x, 16)[0]),
    "matmul": both(lambda x, y: x @ y),
    "outer": (lambda x, y: torch.outer(x, y), lambda x, y: np.outer(x, y)),
    "einsum_scores": (lambda x, y: torch.einsum("bqhd,bkhd->bhqk", x, y), lambda x, y: np.einsum("bqhd,bkhd->bhqk", x, y)),
    "einsum_rowwise": (lambda x, y: torch.einsum("ij,ij->i", x, y), lambda x, y: np.einsum("ij,ij->i", x, y)),
    "einsum_chain": (lambda *xs: torch.einsum("ij,jk,kl->il", *xs), lambda *xs: np.einsum("ij,jk,kl->il", *xs)),
    "conv2d_3x3": (lambda x, k: F.conv2d(x, k, padding=1), lambda x, k: convolved(x, k, padding=1)),
    "conv2d_1x1": (lambda x, k: F.conv2d(x, k), lambda x, k: convolved(x, k)),
    "conv2d_stride2": (lambda x, k: F.conv2d(x, k, stride=2, padding=1), lambda x, k: convolved(x, k, 2, 1)),
    "conv2d_depthwise": (lambda x, k: F.conv2d(x, k, padding=1, groups=64), lambda x, k: convolved(x, k, 1, 1, 64)),
    "conv2d_grouped": (lambda x, k: F.conv2d(x, k, padding=1, groups=4), lambda x, k: convolved(x, k, 1, 1, 4)),
    "conv2d_stem": (lambda x, k: F.conv2d(x, k, stride=2, padding=3), lambda x, k: convolved(x, k, 2, 3)),
    "conv_transpose2d": (
        lambda x, k: F.conv_transpose2d(x, k, stride=2, padding=1), lambda x, k: transposed_convolution(x, k, 2, 1)),
    "conv1d": (lambda x, k: F.conv1d(x, k, padding=2), lambda x, k: convolved(x, k, padding=2)),
    "max_pool_2x2": (lambda x: F.max_pool2d(x, 2), lambda x: pooled(x, lax.max, -np.inf, 2, 2)),
    "max_pool_3x3": (lambda x: F.max_pool2d(x, 3, 2, 1), lambda x: pooled(x, lax.max, -np.inf, 3, 2, 1)),
    "avg_pool_2x2": (lambda x: F.avg_pool2d(x, 2), lambda x: pooled(x, lax.add, numpy.float32(0), 2, 2) / 4),
    "avg_pool_3x3": (lambda x: F.avg_pool2d(x, 3, 1, 1), lambda x: pooled(x, lax.add, numpy.float32(0), 3, 1, 1) / 9),
    "avg_pool_global": (lambda x: F.adaptive_avg_pool2d(x, 1).flatten(1), lambda x: x.mean((2, 3))),
    "transpose": (lambda x: x.T.contiguous(), lambda x: x.T),
    "permute_nhwc": (lambda x: x.permute(0, 2, 3, 1).contiguous(), lambda x: x.transpose(0, 2, 3, 1)),
    "slice": (lambda x: x.contiguous(), lambda x: x),
    "flip": (lambda x: x.flip(-1), lambda x: np.flip(x, -1)),
    "roll": (lambda x: x.roll(5, -1), lambda x: np.roll(x, 5, -1)),
    "pad": (lambda x: F.pad(x, (1, 1, 1, 1)), lambda x: np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)])),
    "concatenate_last": (lambda x, y: torch.cat([x, y], -1), lambda x, y: np.concatenate([x, y], -1)),
    "concatenate_first": (lambda x, y: torch.cat([x, y]), lambda x, y: np.concatenate([x, y])),
    "stack_last": (lambda x, y: torch.stack([x, y], -1), lambda x, y: np.stack([x, y], -1)),
    "repeat": (lambda x: x.repeat_interleave(4, 0), lambda x: np.repeat(x, 4, 0)),
    "tril": (lambda x: x.tril(), lambda x: np.tril(x)),
    "embedding": (lambda x, i: F.embedding(i, x), lambda x, i: x[i]),
    "take_columns": (lambda x, i: x.index_select(1, i), lambda x, i: np.take(x, i, 1)),
    "take_along": (lambda x, i: x.gather(1, i), lambda x, i: np.take_along_axis(x, i, 1)),
    "segment_sum": (
        lambda x, i: x.new_zeros(1000, x.shape[1]).index_add(0, i, x), lambda x, i: jax.ops.segment_sum(x, i, 1000)),
    "one_hot": (lambda i: F.one_hot(i, 1000).float(), lambda i: jax.nn.one_hot(i, 1000, dtype=np.float32)),
    "cross_entropy": (
        lambda x, i: F.cross_entropy(x, i),
        lambda x, i: -np.take_along_axis(jax.nn.log_softmax(x), i[:, None], 1).mean()),
    "attention": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v), attention),
    "attention_causal": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), lambda q, k, v: attention(q, k, v, True)),
    "lstm_cell": (
        lambda *xs: lstm_cell(*xs, torch.sigmoid, torch.tanh, lambda g: g.chunk(4, -1)),
        lambda *xs: lstm_cell(*xs, jax.nn.sigmoid, np.tanh, lambda g: np.split(g, 4, -1))),
    "normal": (lambda: torch.randn(1 << 20), lambda key: jax.random.normal(key, 1 << 20, np.float32)),
    "uniform": (lambda: torch.rand(1 << 20), lambda key: jax.random.uniform(key, 1 << 20, np.float32)),
    "cholesky": (lambda x: torch.linalg.cholesky(torch_definite(x)), lambda x: np.linalg.cholesky(jax_definite(x))),
    "solve": (lambda x, y: torch.linalg.solve(torch_definite(x), y), lambda x, y: np.linalg.solve(jax_definite(x), y)),
    "qr": (lambda x: torch.linalg.qr(x), lambda x: np.linalg.qr(x)),
    "svd": (lambda x: torch.linalg.svd(x, full_matrices=False), lambda x: np.linalg.svd(x, full_matrices=False)),
    "eigh": (lambda x: torch.linalg.eigh(torch_definite(x)), lambda x: np.linalg.eigh(jax_definite(x))),
    "fft": (lambda x: torch.fft.fft(x), lambda x: np.fft.fft(x)),
    "rfft": (lambda x: torch.fft.rfft(x), lambda x: np.fft.rfft(x)),
}

DTYPES = {"f32": numpy.float32, "f64": numpy.float64}


def stored(source, operand):
    """The array that holds an operand."""
    if operand["dtype"] == "i64":
        return source.classes(int(numpy.prod(operand["stored"])), int(operand["high"])).reshape(operand["stored"])
    return source.uniform(operand["stored"], operand["low"], operand["high"], DTYPES[operand["dtype"]])


def read(array, operand):
    """The operand in the array that holds it."""
    margin = operand["margin"]
    match operand["layout"]:
        case "transposed":
            return array.swapaxes(-1, -2)
        case "sliced":
            return array[..., margin:-margin]
        case "strided":
            return array[..., ::2]
    return array


def listed(results):
    return list(results) if isinstance(results, (tuple, list)) else [results]


def cotangent(shape, dtype):
    return data.direction(int(numpy.prod(shape))).astype(dtype).reshape(shape)


def digests(results, comparison):
    """The summary of each result by which it is compared; a complex one counts as two."""
    arrays = []
    for result in results:
        array = numpy.asarray(result)
        arrays += [array.real, array.imag] if numpy.iscomplexobj(array) else [array]
    return [digest(array.astype(numpy.float64).ravel(), comparison) for array in arrays]


def digest(numbers, comparison):
    if comparison == "moments":
        return {"count": len(numbers), "norm": 1.0, "along": 0.0, "samples": [numbers.mean(), numbers.var()]}
    if comparison == "magnitudes":
        numbers = numpy.abs(numbers)
    count = min(SAMPLES, len(numbers))
    return {"count": len(numbers), "norm": float(numpy.linalg.norm(numbers)),
            "along": float(numbers @ data.direction(len(numbers))),
            "samples": [float(numbers[k * len(numbers) // count]) for k in range(count)]}


def in_torch(row, function, arrays):
    """PyTorch as it is written: operands are views, results are new tensors."""
    leaves = [torch.tensor(array) for array in arrays]
    last = [None]
    view = lambda: [read(leaf, operand) for leaf, operand in zip(leaves, row["operands"])]
    if not row["gradient"]:
        operands = view()

        def run():
            last[0] = None
            with torch.no_grad():
                last[0] = listed(function(*operands))

        return run, lambda: last[0]
    floats = [leaf.requires_grad_() for leaf in leaves if leaf.is_floating_point()]
    differentiable = lambda: [result for result in listed(function(*view())) if result.is_floating_point()]
    dtype = lambda result: str(result.dtype).removeprefix("torch.")
    cotangents = [torch.tensor(cotangent(result.shape, dtype(result))) for result in differentiable()]

    def run():
        last[0] = None
        last[0] = torch.autograd.grad(differentiable(), floats, cotangents)

    return run, lambda: last[0]


def in_jax(row, function, arrays):
    """JAX under `jit`. Results are written over those of the run before, which are donated."""
    leaves = [np.asarray(array) for array in arrays]
    if not row["operands"]:
        leaves = [jax.random.key(1)]
    is_float = [operand["dtype"] != "i64" for operand in row["operands"]]

    def value(*leaves):
        return listed(function(*(read(leaf, operand) for leaf, operand in zip(leaves, row["operands"])) if row["operands"] else leaves))

    compute = value
    if row["gradient"]:
        differentiable = lambda *leaves: [result for result in value(*leaves) if np.issubdtype(result.dtype, np.floating)]
        shapes = jax.eval_shape(differentiable, *leaves)
        leaves += [np.asarray(cotangent(shape.shape, shape.dtype)) for shape in shapes]

        def compute(*arguments):
            operands, cotangents = arguments[: len(is_float)], list(arguments[len(is_float):])
            chosen = [operand for operand, own in zip(operands, is_float) if own]

            def of(*chosen):
                chosen = iter(chosen)
                return differentiable(*(next(chosen) if own else operand for operand, own in zip(operands, is_float)))

            return list(jax.vjp(of, *chosen)[1](cotangents))

    step = jax.jit(lambda before, *leaves: compute(*leaves), donate_argnums=0, keep_unused=True)
    last = [[np.zeros(shape.shape, shape.dtype) for shape in jax.eval_shape(compute, *leaves)]]

    def run():
        last[0] = step(last[0], *leaves)
        jax.block_until_ready(last[0])

    return run, lambda: last[0]


class Rows(dict):
    """Workloads by the names of rows."""

    def __init__(self, rows):
        super().__init__({row["name"]: lambda row=row: self.make(row) for row in rows})

    @staticmethod
    def make(row):
        if row["operation"] not in OPERATIONS:
            raise Refused(f"there is no operation '{row['operation']}' in this engine")
        source = data.Source()
        arrays = [stored(source, operand) for operand in row["operands"]]
        which, prepare = (0, in_torch) if ENGINE == "torch" else (1, in_jax)
        run, results = prepare(row, OPERATIONS[row["operation"]][which], arrays)
        numbers = (lambda: [result.detach() for result in results()]) if ENGINE == "torch" else results
        return run, lambda: 0.0, lambda: {"digests": digests(numbers(), row["comparison"])}


if __name__ == "__main__":
    serve(VERSION, Rows(json.loads(pathlib.Path(sys.argv[2]).read_text())["rows"]))
