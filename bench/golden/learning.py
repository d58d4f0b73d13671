"""Layers, losses, optimizers and schedules by PyTorch.

    pip install torch safetensors
    python bench/golden/learning.py

Every layer has seeded weights and inputs, in 64 bits. The file holds what it makes of them, and the gradient of
Σ w·output, with a seeded w, with respect to its weights and its inputs. Optimizers make ten steps from a seeded point with
seeded gradients, of two tensors. The names of weights and their layouts are those of this engine: matrices are
[inputs, outputs]. Numbers are multiples of 2⁻¹², hence exact.

`crates/glassgrad/tests/learning.rs` says what each name is in this engine.
"""

import json
import pathlib

import numpy as np
import torch
from torch import nn
from torch.nn import functional

SEED = 20260
OUTPUT = pathlib.Path(__file__).resolve().parents[2] / "crates/glassgrad/tests/golden/learning.json"
torch.set_default_dtype(torch.float64)
random = np.random.default_rng(SEED)


def draw(*shape, low=-1.0, high=1.0):
    numbers = np.round(random.uniform(low, high, shape) * 4096) / 4096
    return torch.tensor(numbers)


def stored(tensor):
    tensor = tensor.detach()
    kind = "i64" if tensor.dtype == torch.int64 else "f64"
    return {"type": kind, "shape": list(tensor.shape), "numbers": tensor.reshape(-1).tolist()}


def filled(module):
    for parameter in module.parameters():
        parameter.data = draw(*parameter.shape, low=-0.8, high=0.8)
    return module


LAYERS = {}


def turned(matrix):
    return matrix.transpose(0, 1)


def same(tensor):
    return tensor


def layer(name, module, names, inputs, call=None):
    """What a module makes of inputs. Names are pairs of this engine's and PyTorch's, with a change of layout."""
    filled(module)
    inputs = [x.clone().requires_grad_(x.is_floating_point()) for x in inputs]
    output = call(module, *inputs) if call else module(*inputs)
    weight = draw(*output.shape)
    (output * weight).sum().backward()
    own = dict(module.named_parameters())
    LAYERS[name] = {
        "parameters": {ours: stored(change(own[theirs])) for ours, theirs, change in names},
        "gradients": {ours: stored(change(own[theirs].grad)) for ours, theirs, change in names},
        "inputs": [stored(x) for x in inputs],
        "input_gradients": [stored(x.grad) if x.grad is not None else None for x in inputs],
        "output": stored(output),
        "weight": stored(weight),
    }


linear = [("weight", "weight", turned), ("bias", "bias", same)]
plain = [("weight", "weight", same), ("bias", "bias", same)]
scaled = [("scale", "weight", same), ("shift", "bias", same)]


def recurrent(prefix="cell."):
    return [
        (prefix + "input_weight", "weight_ih_l0", turned),
        (prefix + "state_weight", "weight_hh_l0", turned),
        (prefix + "input_bias", "bias_ih_l0", same),
        (prefix + "state_bias", "bias_hh_l0", same),
    ]


layer("linear", nn.Linear(4, 3), linear, [draw(5, 4)])
layer("linear without bias", nn.Linear(4, 3, bias=False), linear[:1], [draw(2, 5, 4)])
layer(
    "mlp",
    nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 2)),
    [
        (f"layers.{ours}.{part}", f"{theirs}.{part}", change)
        for ours, theirs in enumerate([0, 2, 4])
        for part, change in [("weight", turned), ("bias", same)]
    ],
    [draw(6, 3)],
)
layer("conv1d", nn.Conv1d(4, 6, 3, stride=2, padding=1, dilation=2, groups=2), plain, [draw(2, 4, 11)])
layer("conv2d", nn.Conv2d(3, 4, (3, 2), stride=(1, 2), padding=(1, 0)), plain, [draw(2, 3, 6, 7)])
layer("max pool", nn.MaxPool2d(2), [], [draw(2, 3, 6, 4)])
layer("overlapping max pool", nn.MaxPool2d(3, stride=2, padding=1), [], [draw(2, 3, 7, 6)])
layer("avg pool", nn.AvgPool1d(3, stride=2, padding=1), [], [draw(2, 3, 9)])
layer("layer norm", nn.LayerNorm(5), scaled, [draw(3, 2, 5)])
layer("embedding", nn.Embedding(7, 3), plain[:1], [torch.tensor([[1, 6, 0], [1, 1, 3]])])
layer("prelu", nn.PReLU(3), [("slope", "weight", same)], [draw(2, 3, 4)])
layer("rnn", nn.RNN(3, 4), recurrent(), [draw(5, 2, 3)], lambda module, x: module(x)[0])
layer("lstm", nn.LSTM(3, 4), recurrent(), [draw(5, 2, 3)], lambda module, x: module(x)[0])
layer("gru", nn.GRU(3, 4), recurrent(), [draw(5, 2, 3)], lambda module, x: module(x)[0])


def lengths(module, x, counts):
    packed = nn.utils.rnn.pack_padded_sequence(x, counts, enforce_sorted=False)
    return nn.utils.rnn.pad_packed_sequence(module(packed)[0])[0]


layer("lstm of mixed lengths", nn.LSTM(3, 4), recurrent(), [draw(5, 3, 3), torch.tensor([2, 5, 3])], lengths)
layer("gru of mixed lengths", nn.GRU(3, 4), recurrent(), [draw(5, 3, 3), torch.tensor([5, 1, 4])], lengths)

attention_names = [
    ("input.weight", "in_proj_weight", turned),
    ("input.bias", "in_proj_bias", same),
    ("output.weight", "out_proj.weight", turned),
    ("output.bias", "out_proj.bias", same),
]


def attend(causal):
    def call(module, x):
        places = x.shape[1]
        hidden = torch.triu(torch.ones(places, places, dtype=torch.bool), 1) if causal else None
        return module(x, x, x, need_weights=False, attn_mask=hidden)[0]

    return call


layer("attention", nn.MultiheadAttention(6, 2, batch_first=True), attention_names, [draw(2, 4, 6)], attend(False))
layer("causal attention", nn.MultiheadAttention(6, 3, batch_first=True), attention_names, [draw(2, 4, 6)], attend(True))
layer(
    "transformer block",
    nn.TransformerEncoderLayer(6, 2, 24, dropout=0.0, activation="gelu", batch_first=True, norm_first=True),
    [("attention." + ours, "self_attn." + theirs, change) for ours, theirs, change in attention_names]
    + [("attention_norm." + ours, "norm1." + theirs, change) for ours, theirs, change in scaled]
    + [("linear_norm." + ours, "norm2." + theirs, change) for ours, theirs, change in scaled]
    + [("linear.0." + ours, "linear1." + theirs, change) for ours, theirs, change in linear]
    + [("linear.2." + ours, "linear2." + theirs, change) for ours, theirs, change in linear],
    [draw(2, 4, 6)],
)
for name, function in {
    "identity": nn.Identity(),
    "sigmoid": nn.Sigmoid(),
    "tanh": nn.Tanh(),
    "relu": nn.ReLU(),
    "leaky relu": nn.LeakyReLU(0.125),
    "elu": nn.ELU(1.5),
    "gelu": nn.GELU(),
    "silu": nn.SiLU(),
    "softplus": nn.Softplus(),
    "softmax": nn.Softmax(-1),
    "log softmax": nn.LogSoftmax(-1),
}.items():
    layer(name, function, [], [draw(3, 5, low=-3.0, high=3.0)])

# Batch normalisation: two batches in training, one in prediction.
norm = filled(nn.BatchNorm2d(3))
BATCH_NORM = {"scale": stored(norm.weight), "shift": stored(norm.bias), "steps": []}
for _ in range(2):
    x, weight = draw(4, 3, 2, 2).requires_grad_(), draw(4, 3, 2, 2)
    y = norm(x)
    norm.zero_grad()
    (y * weight).sum().backward()
    BATCH_NORM["steps"].append(
        {
            "input": stored(x),
            "weight": stored(weight),
            "output": stored(y),
            "input_gradient": stored(x.grad),
            "scale_gradient": stored(norm.weight.grad),
            "mean": stored(norm.running_mean.clone()),
            "variance": stored(norm.running_var.clone()),
        }
    )
norm.eval()
x = draw(2, 3, 2, 2)
BATCH_NORM["prediction"] = {"input": stored(x), "output": stored(norm(x))}

# ------------------------------------------------------------------ losses

LOSSES = {}


def loss(name, function, prediction, target):
    prediction = prediction.clone().requires_grad_()
    mean = function(prediction, target, "mean")
    (slope,) = torch.autograd.grad(mean, prediction)
    LOSSES[name] = {
        "prediction": stored(prediction),
        "target": stored(target),
        "mean": mean.item(),
        "sum": function(prediction, target, "sum").item(),
        "gradient": stored(slope),
    }


classes = torch.tensor([2, 0, 1, 1])
loss("mse", lambda p, t, r: functional.mse_loss(p, t, reduction=r), draw(4, 3), draw(4, 3))
loss("huber", lambda p, t, r: functional.huber_loss(p, t, delta=0.5, reduction=r), draw(9), draw(9))
loss("cross entropy", lambda p, t, r: functional.cross_entropy(p, t, reduction=r), draw(4, 3, low=-4, high=4), classes)
loss(
    "cross entropy of probabilities as targets",
    lambda p, t, r: functional.cross_entropy(p, t, reduction=r),
    draw(4, 3),
    torch.softmax(draw(4, 3), -1),
)
loss("nll", lambda p, t, r: functional.nll_loss(p, t, reduction=r), draw(4, 3), classes)
loss(
    "binary cross entropy",
    lambda p, t, r: functional.binary_cross_entropy_with_logits(p, t, reduction=r),
    draw(6, low=-3, high=3),
    draw(6, low=0, high=1),
)
loss(
    "binary cross entropy of probabilities",
    lambda p, t, r: functional.binary_cross_entropy(p, t, reduction=r),
    draw(6, low=0.1, high=0.9),
    draw(6, low=0, high=1),
)
loss(
    "hinge",
    lambda p, t, r: getattr(torch, r)(torch.clamp(1 - p * t, min=0)),
    draw(6, low=-2, high=2),
    torch.sign(draw(6)),
)

# ------------------------------------------------------------------ optimizers

START = [draw(3, 2), draw(4)]
GRADIENTS = [[draw(3, 2, low=-2, high=2), draw(4, low=-2, high=2)] for _ in range(10)]
VALUES = [3.0, 2.0, 2.5, 2.4, 1.9, 1.95, 1.94, 1.93, 1.92, 1.91]


def steps(make, schedule=None, clip=None):
    parameters = [nn.Parameter(x.clone()) for x in START]
    optimizer = make(parameters)
    scheduler = schedule(optimizer) if schedule else None
    points = []
    for gradients, value in zip(GRADIENTS, VALUES):
        for parameter, gradient in zip(parameters, gradients):
            parameter.grad = gradient.clone()
        if clip:
            clip(parameters)
        optimizer.step()
        if isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau):
            scheduler.step(value)
        elif scheduler:
            scheduler.step()
        points.append([stored(parameter) for parameter in parameters])
    return points


def by_norm(parameters):
    """To the length 1. PyTorch's own function divides by the length and a millionth, and is shorter by that."""
    length = torch.sqrt(sum((p.grad**2).sum() for p in parameters))
    for parameter in parameters:
        parameter.grad = parameter.grad / torch.clamp(length, min=1.0)


o, s = torch.optim, torch.optim.lr_scheduler
OPTIMIZERS = {
    "sgd": steps(lambda p: o.SGD(p, 0.1)),
    "sgd with decay": steps(lambda p: o.SGD(p, 0.1, weight_decay=0.05)),
    "momentum": steps(lambda p: o.SGD(p, 0.1, momentum=0.9)),
    "momentum with decay": steps(lambda p: o.SGD(p, 0.1, momentum=0.9, weight_decay=0.05)),
    "ema": steps(lambda p: o.SGD(p, 0.1 * 0.25, momentum=0.75)),
    "nesterov": steps(lambda p: o.SGD(p, 0.1, momentum=0.9, nesterov=True)),
    "rmsprop": steps(lambda p: o.RMSprop(p, 0.01)),
    "rmsprop with momentum": steps(lambda p: o.RMSprop(p, 0.01, alpha=0.9, momentum=0.5)),
    "adagrad": steps(lambda p: o.Adagrad(p, 0.1)),
    "adam": steps(lambda p: o.Adam(p, 0.01)),
    "adam with decay": steps(lambda p: o.Adam(p, 0.01, weight_decay=0.05)),
    "adamw": steps(lambda p: o.AdamW(p, 0.01, weight_decay=0.05)),
    "clip by norm": steps(lambda p: o.SGD(p, 0.1), clip=by_norm),
    "clip by value": steps(lambda p: o.SGD(p, 0.1), clip=lambda p: nn.utils.clip_grad_value_(p, 0.5)),
    "groups": steps(lambda p: o.SGD([{"params": p[:1]}, {"params": p[1:], "lr": 0.025}], 0.1)),
    "linear": steps(lambda p: o.SGD(p, 0.1), lambda x: s.LinearLR(x, 1.0, 0.75, 4)),
    "step": steps(lambda p: o.SGD(p, 0.1), lambda x: s.StepLR(x, 3, 0.5)),
    "exponential": steps(lambda p: o.SGD(p, 0.1), lambda x: s.ExponentialLR(x, 0.9)),
    "cosine": steps(lambda p: o.SGD(p, 0.1), lambda x: s.CosineAnnealingLR(x, 10, 0.01)),
    "plateau": steps(lambda p: o.SGD(p, 0.1), lambda x: s.ReduceLROnPlateau(x, factor=0.5, patience=1)),
}

# ------------------------------------------------------------------ irises

TABLE = pathlib.Path(__file__).resolve().parents[2] / "crates/glassgrad/examples/data/iris.csv"
EPOCHS, RATE = 100, 0.5


def irises():
    """A network of 4-10-3 with tanh on all irises: the first gradients, and the curve of the mean loss."""
    rows = [[float(cell) for cell in line.split(",")] for line in TABLE.read_text().splitlines()[1:]]
    table = torch.tensor(rows)
    features, kinds = table[:, :4], table[:, 4].long()
    features = (features - features.mean(0)) / features.std(0, correction=0)
    network = filled(nn.Sequential(nn.Linear(4, 10), nn.Tanh(), nn.Linear(10, 3)))
    names = [(f"layers.{k}.{part}", f"{2 * k}.{part}") for k in range(2) for part in ["weight", "bias"]]
    own = dict(network.named_parameters())

    def laid_out(tensor):
        return stored(turned(tensor) if tensor.dim() == 2 else tensor)

    result = {"features": stored(features), "classes": stored(kinds), "rate": RATE, "losses": []}
    result["start"] = {ours: laid_out(own[theirs]) for ours, theirs in names}
    optimizer = torch.optim.SGD(network.parameters(), RATE)
    for epoch in range(EPOCHS):
        optimizer.zero_grad()
        mean = functional.cross_entropy(network(features), kinds)
        mean.backward()
        if epoch == 0:
            result["gradients"] = {ours: laid_out(own[theirs].grad) for ours, theirs in names}
        optimizer.step()
        result["losses"].append(mean.item())
    return result


def convolutional():
    """A file as PyTorch's users save it, what the network in it makes of an image, and the image."""
    from safetensors.torch import save_file

    network = filled(nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(18, 3))).float()
    save_file(network.state_dict(), OUTPUT.with_name("pytorch.safetensors"), {"format": "pt"})
    image = draw(1, 1, 5, 5).float()
    return {"input": stored(image.double()), "output": stored(network(image).double())}


if __name__ == "__main__":
    golden = {
        "pytorch file": convolutional(),
        "irises": irises(),
        "made by": f"bench/golden/learning.py, PyTorch {torch.__version__}",
        "layers": LAYERS,
        "batch norm": BATCH_NORM,
        "losses": LOSSES,
        "start": [stored(x) for x in START],
        "gradients": [[stored(x) for x in both] for both in GRADIENTS],
        "values": VALUES,
        "optimizers": OPTIMIZERS,
    }
    OUTPUT.write_text(json.dumps(golden, separators=(",", ":")) + "\n")
    print(f"{OUTPUT.name}: {len(LAYERS)} layers, {len(LOSSES)} losses, {len(OPTIMIZERS)} optimizers")
