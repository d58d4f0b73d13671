"""Random programs of the fuzzer before PyTorch, in double precision.

    bench/run fuzz [--count N] [--seed S] [--python PATH]

The fuzzer exports programs with outputs, gradients of their weighted sum, and how far rounding can move each number. This
script reads the text of each program, runs it in PyTorch, and compares. Operations that PyTorch does not have, or for which
it has another convention, are skipped and counted. The exit status is 1 if a number differs.
"""

import argparse
import collections
import json
import math
import re
import sys

import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)

DTYPES = {"f32": torch.float64, "f64": torch.float64, "i64": torch.int64, "bool": torch.bool}
KINDS = [torch.float64, torch.float64, torch.int64, torch.bool]
MISSING = -(2**63)


class Unsupported(Exception):
    """An operation without a counterpart."""


# ------------------------------------------------------------------ reading programs


def parse_data(text):
    head, elements = text.split(":", 1)
    dtype, shape = re.fullmatch(r"(\w+)\[([\d,]*)\]", head).groups()
    shape = [int(size) for size in shape.split(",") if size]
    if elements.startswith("drawn"):
        raise Unsupported("drawn")
    convert = float if dtype in ("f32", "f64") else int
    numbers = [convert(number) for number in elements.split(",") if number]
    tensor = torch.tensor(numbers, dtype=DTYPES[dtype]).reshape(shape)
    # Inputs of 32 bits are rounded to them before they are widened.
    return tensor if dtype != "f32" else tensor.to(torch.float64)


def parse(text):
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    inputs, position = [], 0
    while lines[position].startswith("input "):
        name, data = lines[position][6:].split(" data=")
        inputs.append((name, parse_data(data)))
        position += 1

    def block(position, end):
        instructions = []
        while not lines[position].startswith(end):
            line = lines[position]
            results, operation, operands, rest = re.match(r"(\S+) = (\w+)\(([^)]*)\)(.*)", line).groups()
            one = {"results": results.split(","), "operation": operation, "integers": [], "reals": [], "text": ""}
            one["operands"] = [name for name in operands.split(",") if name]
            words = rest.split()
            position += 1
            for place, word in enumerate(words):
                key, _, value = word.partition("=")
                if word == "{":
                    inner, position = block(position, "yield")
                    one["block"] = (words[place + 1 :], *inner)
                    position += 1
                    break
                if key == "integers":
                    one[key] = [int(number) for number in value.split(",")]
                elif key == "reals":
                    one[key] = [float(number) for number in value.split(",")]
                elif key == "text":
                    one[key] = value
                elif key == "data":
                    one[key] = parse_data(value)
            instructions.append(one)
        returned = lines[position].split()[1:]
        return (instructions, returned), position + 1

    return inputs, block(position, "return")[0]


# ------------------------------------------------------------------ rows of the table


def gelu_tanh(x):
    return F.gelu(x, approximate="tanh")


# Without polygamma: the trigamma function of PyTorch 2.15 is off by 3e-10 at 1/2, where its value is π²/2.
ROWS = {
    "neg": lambda p, x: -x,
    "recip": lambda p, x: 1 / x,
    "square": lambda p, x: x * x,
    "powi": lambda p, x: x ** int(p),
    "powf": lambda p, x: x**p,
    "ln": lambda p, x: torch.log(x),
    "cbrt": lambda p, x: torch.sign(x) * torch.abs(x) ** (1 / 3),
    "sinc": lambda p, x: torch.sinc(x),
    # Flat almost everywhere, and with the convention of a zero derivative at jumps.
    "sign": lambda p, x: torch.sign(x),
    "step": lambda p, x: (x >= p).to(x.dtype),
    "rem": lambda p, a, b: torch.fmod(a, b),
    # Halves away from zero.
    "round": lambda p, x: torch.sign(x) * torch.floor(torch.abs(x) + 0.5),
    "silu": lambda p, x: x * torch.sigmoid(x),
    "gelu": lambda p, x: F.gelu(x),
    "gelu_tanh": lambda p, x: gelu_tanh(x),
    "mish": lambda p, x: x * torch.tanh(F.softplus(x)),
    "softplus": lambda p, x: F.softplus(x, threshold=1000),
    "softsign": lambda p, x: x / (1 + torch.abs(x)),
    "log_sigmoid": lambda p, x: F.logsigmoid(x),
    "leaky_relu": lambda p, x: F.leaky_relu(x, p),
    "elu": lambda p, x: F.elu(x, p),
    "relu": lambda p, x: F.relu(x),
    "add": lambda p, a, b: a + b,
    "sub": lambda p, a, b: a - b,
    "mul": lambda p, a, b: a * b,
    "div": lambda p, a, b: a / b,
    "pow": lambda p, a, b: a**b,
    "atan2": lambda p, a, b: torch.atan2(a, b),
    "hypot": lambda p, a, b: torch.hypot(a, b),
    "max": lambda p, a, b: torch.maximum(a, b),
    "min": lambda p, a, b: torch.minimum(a, b),
}
for name in (
    "sqrt rsqrt exp exp2 expm1 log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh abs floor ceil "
    "sigmoid erf erfc lgamma digamma"
).split():
    ROWS[name] = lambda p, x, function=getattr(torch, name): function(x)


def row(one, x):
    if one["text"] not in ROWS:
        raise Unsupported("row " + one["text"])
    reals = one["reals"]
    if len(reals) < 2 + 2 * len(x):
        return ROWS[one["text"]](reals[0], *x)
    inside = [torch.tanh(x) * reals[3 + 2 * k] + reals[2 + 2 * k] for k, x in enumerate(x)]
    return ROWS[one["text"]](reals[0], *inside) * reals[1]


# ------------------------------------------------------------------ operations


def axes_of(one, x):
    keep, *axes = one["integers"]
    return [axis % x.dim() for axis in axes], bool(keep)


def reduce_with(function):
    """A reduction over some axes; over none it is the identity but for its function."""

    def apply(one, x):
        axes, keep = axes_of(one, x)
        return function(x, axes, keep)

    return apply


def over_none(x, axes):
    return x.unsqueeze(-1) if not axes else x


def extreme(function):
    return lambda x, axes, keep: function(x, dim=axes, keepdim=keep) if axes else x.clone()


def product_over(x, axes, keep):
    for axis in sorted(axes, reverse=True):
        x = torch.prod(x, dim=axis, keepdim=keep)
    return x


def sliced(one, x):
    axis = 0
    for kind, start, end, step in zip(*[iter(one["integers"])] * 4):
        if kind == 2:
            x = x.unsqueeze(axis)
            axis += 1
            continue
        size = x.shape[axis]
        if kind == 0:
            x = x.select(axis, start)
            continue
        place = lambda number: None if number == MISSING else number
        chosen = list(range(size))[slice(place(start), place(end), step)]
        x = x.index_select(axis, torch.tensor(chosen, dtype=torch.int64))
        axis += 1
    return x


def resized(one, x):
    shape = one["integers"]
    wanted, flat = math.prod(shape), x.reshape(-1)
    if wanted > flat.numel():
        flat = flat.repeat(-(-wanted // max(flat.numel(), 1)))
    return flat[:wanted].reshape(shape)


def padded(one, x):
    widths = list(zip(*[iter(one["integers"])] * 2))
    flat = [width for pair in reversed(widths) for width in pair]
    return F.pad(x, flat, value=one["reals"][0] if one["reals"] else 0)


def windowed(one, x):
    axis, *numbers = one["integers"]
    windows = list(zip(*[iter(numbers)] * 5))
    for place, (size, stride, dilation, before, after) in enumerate(windows):
        along = axis + place
        flat = [0] * (2 * (x.dim() - along - 1)) + [before, after]
        x = F.pad(x, flat)
        extent = (size - 1) * dilation + 1
        x = x.unfold(along, extent, stride)[..., ::dilation]
    return x


def pooled(axes):
    def apply(one, x):
        size, stride, padding, kind = one["integers"]
        lead = x.shape[: x.dim() - axes]
        flat = x.reshape([max(math.prod(lead), 0), 1, *x.shape[x.dim() - axes :]])
        if kind <= 1:
            raise Unsupported("max pooling shares derivatives of ties")
        pool = F.avg_pool1d if axes == 1 else F.avg_pool2d
        if 2 * padding > size:
            raise Unsupported("padding beyond half of the window")
        made = pool(flat, size, stride, padding, count_include_pad=kind == 2)
        return made.reshape([*lead, *made.shape[2:]])

    return apply


def convolved(function):
    def apply(one, x, w):
        stride, padding, dilation, groups = one["integers"]
        return function(x, w, stride=stride, padding=padding, dilation=dilation, groups=groups)

    return apply


def einsum(one, *operands):
    inputs, output = one["text"].split("->")
    if "=" in output or len(set(output)) < len(output):
        raise Unsupported("einsum with a new or repeated output label")
    if operands[0].dtype == torch.int64 and any(x.numel() == 0 for x in operands):
        raise Unsupported("einsum of no integers")
    return torch.einsum(f"{inputs}->{output}", *operands)


def attention(q, k, v, causal):
    scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    if causal:
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
        scores = torch.where(seen, scores, -torch.inf)
    return torch.softmax(scores, -1) @ v


def conditioned(x):
    size = x.shape[-1]
    return torch.tanh(x) * 0.5 + torch.eye(size) * size


def symmetric(x):
    return (conditioned(x) + conditioned(x).mT) * 0.5


def along(x, axis, size):
    index = [slice(None)] * x.dim()
    index[axis] = size
    return tuple(index)


def scattered(one, x, indices):
    axis, size = one["integers"]
    rank = indices.dim()
    shape = [*x.shape[:axis], size, *x.shape[axis + rank :]]
    flat = x.reshape([*x.shape[:axis], indices.numel(), *x.shape[axis + rank :]])
    return torch.zeros(shape, dtype=x.dtype).index_add(axis, indices.reshape(-1), flat)


def gathered(one, x, indices):
    axis = one["integers"][0]
    flat = x.index_select(axis, indices.reshape(-1))
    return flat.reshape([*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]])


def changed_at(one, x, indices, values):
    places = indices % max(x.shape[0], 1)
    if one["integers"][0] == 0:
        if len(set(places.reshape(-1).tolist())) < places.numel():
            raise Unsupported("a place is written twice")
        return x.index_put((places,), values)
    return x.index_put((places,), values, accumulate=True)


def changed_along(one, x, indices, values):
    axis, kind = one["integers"]
    places = indices % max(x.shape[axis], 1)
    if kind == 0:
        raise Unsupported("places are written twice")
    return x.scatter_add(axis, places, values)


def triangle(one, x):
    kind, offset = one["integers"]
    if kind == 2:
        return torch.diagonal(x, offset, -2, -1)
    return (torch.tril if kind == 0 else torch.triu)(x, offset)


def fourier(one, x):
    axis, kind = one["integers"]
    made = torch.fft.rfft(x, dim=axis)
    return [made.real, made.imag] if kind == 0 else torch.fft.irfft(made, n=x.shape[axis], dim=axis)


def is_what(one, x):
    return [torch.isnan, torch.isfinite, torch.isinf][one["integers"][0]](x)


def all_any(one, x):
    axes, keep = axes_of(one, x)
    kind = int(one["reals"][0])
    if kind == 2:
        return torch.sum(x, dim=axes, keepdim=keep) if axes else x.to(torch.int64)
    function = torch.all if kind == 0 else torch.any
    for axis in sorted(axes, reverse=True):
        x = function(x, dim=axis, keepdim=keep)
    return x


def converted(one, x):
    dtype = KINDS[one["integers"][0]]
    if x.is_floating_point() and dtype == torch.int64 and not bool((x.abs() < 1e9).all()):
        raise Unsupported("conversion of what no integer is")
    return x.to(dtype)


RELATIONS = [torch.lt, torch.le, torch.gt, torch.ge, torch.eq, torch.ne]


def compared(one, a, b):
    return RELATIONS[one["integers"][0]](a, b)


def stop(one, x):
    return x.detach()


def folded(one, x):
    """The transpose of windows along one axis: elements are added up where windows read them."""
    axis, length, size, stride, dilation, before, after = one["integers"]
    places = torch.arange(x.shape[axis])[:, None] * stride + torch.arange(size)[None, :] * dilation
    x = torch.movedim(x, axis, -2)
    whole = torch.zeros([*x.shape[:-2], length + before + after], dtype=x.dtype)
    whole = whole.index_add(-1, places.reshape(-1), x.reshape([*x.shape[:-2], -1]))
    return torch.movedim(whole[..., before : before + length], -1, axis)


def at_largest(one, x):
    axis = one["integers"][0]
    return torch.take_along_dim(x, torch.argmax(x, dim=axis, keepdim=True), dim=axis)


def top_k(one, x):
    axis, k = one["integers"]
    order = torch.argsort(x, dim=axis, descending=True, stable=True).narrow(axis, 0, k)
    return [torch.take_along_dim(x, order, dim=axis), order]


OPERATIONS = {
    "fold": folded,
    "at_largest": at_largest,
    "top_k": top_k,
    "argmax": lambda one, x: [torch.argmax, torch.argmin][one["integers"][1]](x, dim=one["integers"][0]),
    "quantile": lambda one, x: torch.quantile(x, one["reals"][0], dim=one["integers"][0]),
    "outer": lambda one, a, b: torch.tensordot(a, b, dims=0) if one["integers"][0] == 0 else torch.kron(a, b),
    "constant": lambda one: one["data"],
    "full": lambda one: torch.full(one["integers"][1:], one["reals"][0], dtype=KINDS[one["integers"][0]]),
    "row": lambda one, *x: row(one, x),
    "squash": lambda one, x: torch.tanh(x * one["reals"][0]),
    "add": lambda one, a, b: a + b,
    "sub": lambda one, a, b: a - b,
    "mul": lambda one, a, b: a * b,
    "div": lambda one, a, b: a / (b * b + 1),
    "affine": lambda one, x: x * one["reals"][0] + one["reals"][1]
    if x.is_floating_point()
    else x * int(one["reals"][0]) + int(one["reals"][1]),
    "neg": lambda one, x: -x,
    "compare": compared,
    "logic": lambda one, a, b: [a & b, a | b, ~a & b][min(one["integers"][0], 2)],
    "choose": lambda one, c, a, b: torch.where(c, a, b),
    "cast": converted,
    "is": is_what,
    "clip": lambda one, x: torch.minimum(torch.maximum(x, torch.tensor(one["reals"][0])), torch.tensor(one["reals"][1])),
    "stop_gradient": stop,
    "resize": resized,
    "reshape": lambda one, x: x.reshape(one["integers"]),
    "broadcast_to": lambda one, x: x.expand(one["integers"]),
    "permute": lambda one, x: x.permute(one["integers"]),
    "move_axis": lambda one, x: (torch.movedim if one["integers"][0] == 0 else torch.swapaxes)(x, *one["integers"][1:]),
    "unsqueeze": lambda one, x: x.unsqueeze(one["integers"][0]),
    "squeeze": lambda one, x: x.squeeze(one["integers"][0]),
    "flip": lambda one, x: torch.flip(x, one["integers"]),
    "roll": lambda one, x: torch.roll(x, one["integers"][0], one["integers"][1]),
    "tile": lambda one, x: x.repeat(one["integers"]),
    "repeat": lambda one, x: torch.repeat_interleave(x, one["integers"][0], dim=one["integers"][1]),
    "slice": sliced,
    "pad": padded,
    "windows": windowed,
    "concatenate": lambda one, *x: torch.cat(x, dim=one["integers"][0]),
    "stack": lambda one, *x: torch.stack(x, dim=one["integers"][0]),
    "split": lambda one, x: list(torch.split(x, one["integers"][1:], dim=one["integers"][0])),
    "triangle": triangle,
    "diff": lambda one, x: torch.diff(x, dim=one["integers"][0]),
    "sum": reduce_with(lambda x, axes, keep: torch.sum(x, dim=axes, keepdim=keep) if axes else x.clone()),
    "mean": reduce_with(lambda x, axes, keep: torch.mean(x, dim=axes, keepdim=keep) if axes else x.clone()),
    "var": reduce_with(
        lambda x, axes, keep: torch.var(x, dim=axes, keepdim=keep, correction=0) if axes else torch.zeros_like(x) * x
    ),
    "norm": reduce_with(
        lambda x, axes, keep: torch.linalg.vector_norm(x, dim=axes, keepdim=keep) if axes else torch.abs(x)
    ),
    "max": reduce_with(extreme(torch.amax)),
    "min": reduce_with(extreme(torch.amin)),
    "prod": reduce_with(product_over),
    "logsumexp": reduce_with(lambda x, axes, keep: torch.logsumexp(x, dim=axes, keepdim=keep) if axes else x.clone()),
    "all_any": all_any,
    "softmax": lambda one, x: (F.softmax if one["integers"][1] == 0 else F.log_softmax)(x, dim=one["integers"][0]),
    "cumsum": lambda one, x: torch.cumsum(x, dim=one["integers"][0]),
    "cumprod": lambda one, x: torch.cumprod(x, dim=one["integers"][0]),
    "sort": lambda one, x: torch.sort(x, dim=one["integers"][0], stable=True).values,
    "argsort": lambda one, x: torch.argsort(x, dim=one["integers"][0], stable=True),
    "einsum": einsum,
    "matmul": lambda one, a, b: torch.matmul(a, b),
    "promoted": lambda one, a, b: (a + b, a - b, a * b)[one["integers"][0]],
    "attention": lambda one, q, k, v: attention(q, k, v, one["integers"][0] == 1),
    "conv1d": convolved(F.conv1d),
    "conv2d": convolved(F.conv2d),
    "conv_transpose1d": convolved(F.conv_transpose1d),
    "conv_transpose2d": convolved(F.conv_transpose2d),
    "pool1d": pooled(1),
    "pool2d": pooled(2),
    "gather": gathered,
    "scatter_add": scattered,
    "index_at": lambda one, x, *indices: x[indices],
    "with_at": changed_at,
    "embedding": lambda one, x, indices: x[indices],
    "take_along": lambda one, x, indices: torch.take_along_dim(
        x, indices % max(x.shape[one["integers"][0]], 1), dim=one["integers"][0]
    ),
    "put_along": changed_along,
    "one_hot": lambda one, x: F.one_hot(x, one["integers"][0]).to(KINDS[one["integers"][1]]),
    "solve": lambda one, a, b: torch.linalg.solve(conditioned(a), b),
    "inv": lambda one, x: torch.linalg.inv(conditioned(x)),
    "det": lambda one, x: torch.linalg.det(conditioned(x)),
    "slogdet": lambda one, x: list(torch.linalg.slogdet(conditioned(x))),
    "cholesky": lambda one, x: torch.linalg.cholesky(symmetric(x)),
    "expm": lambda one, x: torch.linalg.matrix_exp(torch.tanh(x) * 0.5),
    "fft": fourier,
}

# ------------------------------------------------------------------ transforms, by their definition


def fresh(x):
    """The same value to differentiate by: connected to the outer graph, if there is one."""
    if not x.is_floating_point():
        return x
    return x * 1 if x.requires_grad else x.detach().requires_grad_()


def gradients(loss, x):
    wanted = [one for one in x if one.is_floating_point()]
    found = iter([])
    if wanted and loss.requires_grad:
        found = iter(torch.autograd.grad(loss, wanted, create_graph=True, allow_unused=True))
    made = []
    for one in x:
        gradient = next(found, None) if one.is_floating_point() else None
        made.append(torch.zeros_like(one) if gradient is None else gradient)
    return made


def tangent(y, x, v):
    """The derivative along a direction by differentiating the pullback, which is linear in the cotangent."""
    w = torch.zeros_like(y).requires_grad_()
    pulled = gradients((y * w).sum(), x)
    total = sum(((g * v).sum() for g, v in zip(pulled, v)), torch.zeros(()))
    if not total.requires_grad:
        return torch.zeros_like(y)
    found = torch.autograd.grad(total, w, create_graph=True, allow_unused=True)[0]
    return torch.zeros_like(y) if found is None else found


def transform(one, operands, environment):
    names, instructions, returned = one["block"]

    def call(arguments):
        return run(instructions, returned, {**environment, **dict(zip(names, arguments))})

    operation, integers = one["operation"], one["integers"]
    if operation in ("checkpoint", "compile"):
        return call(operands)
    if operation == "no_grad":
        return [result.detach() for result in call(operands)]
    if operation == "scan":
        carries = integers[0]
        state, sequences, stacks = operands[:carries], operands[carries:], []
        if sequences[0].shape[0] == 0:
            raise Unsupported("a loop of no steps")
        for step in range(sequences[0].shape[0]):
            results = call([*state, *[sequence[step] for sequence in sequences]])
            state, outputs = results[:carries], results[carries:]
            stacks.append(outputs)
        return [*state, *[torch.stack(outputs) for outputs in zip(*stacks)]]
    if operation == "vmap":
        axis, out_axis = integers
        if operands[0].shape[axis] == 0:
            raise Unsupported("a map over nothing")
        examples = [call([x.select(axis, k) for x in operands]) for k in range(operands[0].shape[axis])]
        return [torch.stack(results, dim=out_axis) for results in zip(*examples)]
    if operation == "update":
        states, steps = integers
        state, data, rest = operands[:states], operands[states:], []
        for _ in range(max(steps, 1)):
            results = call([*state, *data])
            state, rest = results[:states], results[states:]
        return [*state, *rest]
    if operation in ("grad", "value_and_grad", "within"):
        x = [fresh(operand) for operand in operands]
        value = call(x)[0].sum()
        found = gradients(value, x)
        return [value, *found] if operation == "value_and_grad" else found
    if operation in ("jvp", "linearize"):
        half = len(operands) // 2
        x = [fresh(operand) for operand in operands[:half]]
        value = call(x)[0]
        return [value, tangent(value, x, operands[half:])]
    if operation == "vjp":
        x = [fresh(operand) for operand in operands[:-1]]
        value = call(x)[0]
        return [value, *gradients((value * operands[-1]).sum(), x)]
    if operation == "hvp":
        half = len(operands) // 2
        x = [fresh(operand) for operand in operands[:half]]
        first = gradients(call(x)[0].sum(), x)
        return [tangent(first[k], x, operands[half:]) for k in range(half)]
    if operation == "jacobian":
        x = fresh(operands[0])
        value = call([x])[0]
        rows = [gradients(element, [x])[0] for element in value.reshape(-1)]
        rows = torch.stack(rows) if rows else torch.zeros([0, *x.shape])
        return [rows.reshape([*value.shape, *x.shape])]
    raise Unsupported(operation)


def run(instructions, returned, environment):
    environment = dict(environment)
    for one in instructions:
        operands = [environment[name] for name in one["operands"]]
        if "block" in one:
            results = transform(one, operands, environment)
        elif one["operation"] in OPERATIONS:
            results = OPERATIONS[one["operation"]](one, *operands)
        else:
            raise Unsupported(one["operation"])
        results = list(results) if isinstance(results, (list, tuple)) else [results]
        environment.update(zip(one["results"], results))
        for result in results:
            COUNTS[one["operation"] + (" " + one["text"] if one["operation"] == "row" else "")] += 1
    return [environment[name] for name in returned]


COUNTS = collections.Counter()

# ------------------------------------------------------------------ comparison


def check(case):
    inputs, (instructions, returned) = parse(case["program"])
    leaves = [tensor.requires_grad_() if tensor.is_floating_point() else tensor for _, tensor in inputs]
    outputs = run(instructions, returned, {name: leaf for (name, _), leaf in zip(inputs, leaves)})
    loss = torch.zeros(())
    for output, weights in zip(outputs, case["weights"]):
        if output.is_floating_point():
            loss = loss + (output * torch.tensor(weights).reshape(output.shape)).sum()
    found = [gradient for gradient in gradients(loss, leaves) if gradient.is_floating_point()]
    for place, (actual, expected) in enumerate(zip(outputs + found, case["results"], strict=True)):
        what = f"output {place}" if place < len(outputs) else f"gradient {place - len(outputs)}"
        if list(actual.shape) != expected["shape"]:
            return f"{what}: the shape {list(actual.shape)} instead of {expected['shape']}"
        numbers = actual.detach().to(torch.float64).reshape(-1).tolist()
        for k, (ours, theirs, tolerance) in enumerate(zip(expected["numbers"], numbers, expected["tolerance"])):
            ours, tolerance = float(ours), float(tolerance)
            if math.isinf(tolerance) or ours == theirs or (math.isnan(ours) and math.isnan(theirs)):
                continue
            if not (math.isfinite(ours) and math.isfinite(theirs)):
                return f"{what}, element {k}: {ours} here, {theirs} in PyTorch"
            # Their functions are other ones: a few units in the last place, which the perturbations cover.
            if abs(ours - theirs) > tolerance + 64 * sys.float_info.epsilon * abs(ours):
                return f"{what}, element {k}: {ours} here, {theirs} in PyTorch, tolerance {tolerance}"
    return None


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("file", help="what tools/fuzz --export has written")
    options = arguments.parse_args()
    agreed, skipped, failed = 0, collections.Counter(), 0
    for line in open(options.file, encoding="utf-8"):
        case = json.loads(line)
        try:
            message = check(case)
        except Unsupported as reason:
            skipped[str(reason)] += 1
            continue
        except Exception as error:  # what PyTorch refuses
            skipped[f"PyTorch: {str(error).splitlines()[0][:70]}"] += 1
            continue
        if message is None:
            agreed += 1
        else:
            failed += 1
            print(f"seed {case['seed']}: {message}\n{case['program']}")
    print(f"{agreed} programs agree with PyTorch {torch.__version__}, {failed} do not, {sum(skipped.values())} are skipped:")
    for reason, count in skipped.most_common():
        print(f"  {count:5}  {reason}")
    print(f"{len(COUNTS)} operations and rows were run in PyTorch")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
