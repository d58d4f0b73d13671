"""First losses and gradients of whole networks by PyTorch, in 64 bits.

    pip install torch safetensors transformers
    python bench/golden/networks.py

Parameters and data are hashes of their position (SplitMix64), rounded to multiples of 2⁻¹² and hence exact, so that the
file holds losses and gradients only. Names and layouts are those of this engine: matrices are [inputs, outputs].
`gpt2.safetensors` is what `transformers` saves of a small GPT-2, and the logits that it computes are in the file.

`crates/glassgrad/tests/networks.rs` compares them, in 64 bits to 1e-10 and in 32 bits to 1e-5.
"""

import json
import math
import pathlib

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

OUTPUT = pathlib.Path(__file__).resolve().parents[2] / "crates/glassgrad/tests/golden/networks.json"
torch.set_default_dtype(torch.float64)


def unit(stream, count):
    """Numbers from 0 up to but not including 1."""
    with np.errstate(over="ignore"):
        z = (np.arange(1, count + 1, dtype=np.uint64) + np.uint64(stream << 40)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((z ^ (z >> np.uint64(31))) >> np.uint64(11)) / 2**53


class Source:
    """Draws arrays, each from a stream of its own."""

    def __init__(self):
        self.stream = 0

    def uniform(self, *shape, low=-1.0, high=1.0):
        self.stream += 1
        numbers = low + (high - low) * unit(self.stream, math.prod(shape))
        return torch.tensor(np.round(numbers * 4096) / 4096).reshape(shape)

    def classes(self, *shape, count):
        self.stream += 1
        return torch.tensor((unit(self.stream, math.prod(shape)) * count).astype(np.int64)).reshape(shape)


def numbers(tensor):
    return tensor.detach().reshape(-1).tolist()


NETWORKS = {}
same, turned = (lambda tensor: tensor), (lambda tensor: tensor.transpose(0, 1))


def fill(module, names, source):
    """Parameters from streams in the order of the names, in the layout of this engine."""
    own = dict(module.named_parameters())
    assert {theirs for _, theirs, _ in names} == set(own), set(own) ^ {theirs for _, theirs, _ in names}
    for _, theirs, change in names:
        shape = change(own[theirs]).shape
        with torch.no_grad():
            own[theirs].copy_(change(source.uniform(*shape, low=-0.5, high=0.5)))
    return own


def network(name, module, names, source, loss, **more):
    """The loss and the gradients of a network whose parameters are filled."""
    own = dict(module.named_parameters())
    value = loss()
    value.backward()
    NETWORKS[name] = {
        "loss": value.item(),
        "parameters": [ours for ours, _, _ in names],
        "gradients": {ours: numbers(change(own[theirs].grad)) for ours, theirs, change in names},
        **more,
    }


def linear(ours, theirs, bias=True):
    names = [(f"{ours}.weight", f"{theirs}.weight", turned)]
    return names + ([(f"{ours}.bias", f"{theirs}.bias", same)] if bias else [])


def norm(ours, theirs):
    return [(f"{ours}.scale", f"{theirs}.weight", same), (f"{ours}.shift", f"{theirs}.bias", same)]


# ------------------------------------------------------------------ GPT


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.expand, self.contract = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, positions, width = x.shape
        parts = self.qkv(self.norm1(x)).view(batch, positions, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(x.shape))
        return x + self.contract(F.gelu(self.expand(self.norm2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, vocabulary, context, width, layers, heads):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.norm(x) @ self.tokens.weight.T


def gpt_names(layers):
    names = [("tokens.weight", "tokens.weight", same), ("positions.weight", "positions.weight", same)]
    for k in range(layers):
        ours, theirs = f"blocks.{k}", f"blocks.{k}"
        names += norm(f"{ours}.attention_norm", f"{theirs}.norm1") + linear(f"{ours}.attention.input", f"{theirs}.qkv")
        names += linear(f"{ours}.attention.output", f"{theirs}.out") + norm(f"{ours}.linear_norm", f"{theirs}.norm2")
        names += linear(f"{ours}.linear.0", f"{theirs}.expand") + linear(f"{ours}.linear.2", f"{theirs}.contract")
    return names + norm("norm", "norm")


def gpt():
    source, module, names = Source(), Gpt(13, 7, 8, 2, 2), gpt_names(2)
    own = fill(module, names, source)
    tokens, targets = source.classes(3, 6, count=13), source.classes(3, 6, count=13)
    loss = lambda: F.cross_entropy(module(tokens).flatten(0, 1), targets.flatten())
    network("gpt", module, names, source, loss)
    # AdamW with decay groups, clipping, warm-up and a cosine: the losses of ten steps.
    groups = [{"params": [p for p in own.values() if p.dim() >= 2], "weight_decay": 0.1},
              {"params": [p for p in own.values() if p.dim() < 2], "weight_decay": 0.0}]
    rate, warm, steps = 0.01, 3, 10
    optimizer, losses = torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.95)), []
    for step in range(1, steps + 1):
        part = min(max((step - warm - 1) / (steps - warm), 0.0), 1.0)
        factor = step / warm if step <= warm else 0.1 + 0.45 * (1 + math.cos(math.pi * part))
        for group in optimizer.param_groups:
            group["lr"] = rate * factor
        optimizer.zero_grad()
        value = loss()
        value.backward()
        length = torch.sqrt(sum((p.grad**2).sum() for p in own.values()))
        for parameter in own.values():
            parameter.grad /= torch.clamp(length, min=1.0)
        optimizer.step()
        losses.append(value.item())
    NETWORKS["gpt"]["losses"] = losses


def hugging_face():
    """A small GPT-2 as `transformers` saves it, and the logits that it computes."""
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(1)
    config = GPT2Config(vocab_size=17, n_positions=8, n_embd=8, n_layer=2, n_head=2, resid_pdrop=0.0, embd_pdrop=0.0,
                        attn_pdrop=0.0, initializer_range=0.5)
    model = GPT2LMHeadModel(config).float().eval()
    folder = OUTPUT.parent / "gpt2"
    model.save_pretrained(folder, safe_serialization=True)
    (folder / "model.safetensors").rename(OUTPUT.with_name("gpt2.safetensors"))
    for leftover in folder.iterdir():
        leftover.unlink()
    folder.rmdir()
    tokens = Source().classes(2, 7, count=17)
    return {"tokens": numbers(tokens), "logits": numbers(model(tokens).logits.double())}


# ------------------------------------------------------------------ ResNet


class Basic(nn.Module):
    def __init__(self, channels, outputs, stride):
        super().__init__()
        self.a = nn.Conv2d(channels, outputs, 3, stride, 1, bias=False)
        self.b = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.m, self.n = nn.BatchNorm2d(outputs), nn.BatchNorm2d(outputs)
        self.s = None
        if stride != 1 or channels != outputs:
            self.s = nn.Sequential(nn.Conv2d(channels, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        return F.relu(self.n(self.b(F.relu(self.m(self.a(x))))) + (x if self.s is None else self.s(x)))


def resnet():
    stem, bn = nn.Conv2d(2, 3, 3, 1, 1, bias=False), nn.BatchNorm2d(3)
    blocks, output = nn.ModuleList([Basic(3, 3, 1), Basic(3, 4, 2)]), nn.Linear(4, 3)
    module = nn.ModuleDict({"stem": stem, "bn": bn, "blocks": blocks, "output": output})

    def layer(ours, weight, norms):
        return [(f"{ours}.convolution.weight", weight, same)] + norm(f"{ours}.norm", norms)

    names = layer("stem", "stem.weight", "bn")
    for k, block in enumerate(blocks):
        names += layer(f"blocks.{k}.first", f"blocks.{k}.a.weight", f"blocks.{k}.m")
        names += layer(f"blocks.{k}.second", f"blocks.{k}.b.weight", f"blocks.{k}.n")
        names += layer(f"blocks.{k}.shortcut", f"blocks.{k}.s.0.weight", f"blocks.{k}.s.1") if block.s else []
    names += linear("output", "output")
    source = Source()
    fill(module, names, source)
    images, classes = source.uniform(4, 2, 6, 6), source.classes(4, count=3)

    def logits():
        x = F.relu(bn(stem(images)))
        for block in blocks:
            x = block(x)
        return output(x.mean((2, 3)))

    network("resnet", module, names, source, lambda: F.cross_entropy(logits(), classes))
    NETWORKS["resnet"]["statistics"] = {"mean": numbers(blocks[1].s[1].running_mean),
                                        "variance": numbers(blocks[1].s[1].running_var)}
    module.eval()
    NETWORKS["resnet"]["prediction"] = numbers(logits())


# ------------------------------------------------------------------ the others


def vae():
    module = nn.ModuleDict({"e": nn.Linear(10, 6), "m": nn.Linear(6, 3), "v": nn.Linear(6, 3), "d": nn.Linear(3, 6),
                            "o": nn.Linear(6, 10)})
    names = linear("encoder", "e") + linear("mean", "m") + linear("log_variance", "v")
    names += linear("decoder.0", "d") + linear("decoder.2", "o")
    source = Source()
    fill(module, names, source)
    x, noise = source.uniform(4, 10, low=0.0), source.uniform(4, 3)

    def loss():
        hidden = F.relu(module["e"](x))
        mean, variance = module["m"](hidden), module["v"](hidden)
        logits = module["o"](F.relu(module["d"](mean + torch.exp(0.5 * variance) * noise)))
        divergence = -0.5 * (1 + variance - mean**2 - variance.exp()).sum(-1)
        return (F.binary_cross_entropy_with_logits(logits, x, reduction="none").sum(-1) + divergence).mean()

    network("vae", module, names, source, loss)


def graph():
    layers = [(nn.Linear(4, 5), nn.Linear(4, 5, bias=False)), (nn.Linear(5, 5), nn.Linear(5, 5, bias=False))]
    module = nn.ModuleDict({"layers": nn.ModuleList(nn.ModuleList(pair) for pair in layers), "o": nn.Linear(5, 3)})
    names = []
    for k in range(2):
        names += linear(f"layers.{k}.own", f"layers.{k}.0") + linear(f"layers.{k}.neighbours", f"layers.{k}.1", False)
    names += linear("output", "o")
    source = Source()
    fill(module, names, source)
    nodes = source.uniform(6, 4)
    sources, targets, classes = (source.classes(n, count=c) for n, c in [(12, 6), (12, 6), (6, 3)])
    degree = torch.zeros(6).index_add(0, targets, torch.ones(12)).clamp(min=1.0)

    def loss():
        x = nodes
        for own, neighbours in layers:
            messages = torch.zeros(6, x.shape[1]).index_add(0, targets, x[sources]) / degree[:, None]
            x = F.relu(own(x) + neighbours(messages))
        return F.cross_entropy(module["o"](x), classes)

    network("graph", module, names, source, loss)


def pinn():
    module = nn.Sequential(nn.Linear(2, 6), nn.Tanh(), nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 1))
    names = [pair for k in range(3) for pair in linear(f"network.layers.{k}", str(2 * k))]
    source = Source()
    fill(module, names, source)
    inside, boundary = source.uniform(7, 2), source.uniform(4, 2)
    right, values = source.uniform(7), source.uniform(4)

    def loss():
        points = inside.clone().requires_grad_()
        (slopes,) = torch.autograd.grad(module(points).sum(), points, create_graph=True)
        laplacian = sum(torch.autograd.grad(slopes[:, k].sum(), points, create_graph=True)[0][:, k] for k in range(2))
        return ((laplacian - right) ** 2).mean() + ((module(boundary)[:, 0] - values) ** 2).mean()

    network("pinn", module, names, source, loss)


def diffusion():
    blocks = [nn.ModuleList([nn.Linear(4, 6), nn.Linear(6, 6), nn.Linear(6, 6)]) for _ in range(3)]
    module = nn.ModuleDict({"i": nn.Linear(5, 6), "b": nn.ModuleList(blocks), "o": nn.Linear(6, 5)})
    names = linear("input", "i")
    for k in range(3):
        names += linear(f"blocks.{k}.0", f"b.{k}.0") + linear(f"blocks.{k}.1.0", f"b.{k}.1")
        names += linear(f"blocks.{k}.1.2", f"b.{k}.2")
    names += linear("output", "o")
    source = Source()
    fill(module, names, source)
    x, noise, steps = source.uniform(4, 5), source.uniform(4, 5), source.classes(4, count=8)
    kept = torch.cumprod(1 - torch.linspace(0.05, 0.4, 8), 0)
    frequencies = 10_000.0 ** (-torch.arange(2) / 2)

    def loss():
        share = kept[steps][:, None]
        angles = steps[:, None] * frequencies
        embedded = torch.cat([angles.sin(), angles.cos()], -1)
        h = module["i"](share.sqrt() * x + (1 - share).sqrt() * noise)
        for time, first, second in blocks:
            h = h + second(F.silu(first(F.silu(h + time(embedded)))))
        return F.mse_loss(module["o"](F.silu(h)), noise)

    network("diffusion", module, names, source, loss)


def lstm():
    cells, output = nn.LSTM(3, 4, num_layers=3), nn.Linear(4, 3)
    module = nn.ModuleDict({"l": cells, "o": output})
    names = []
    for k in range(3):
        for ours, theirs, change in [("input_weight", "weight_ih", turned), ("state_weight", "weight_hh", turned),
                                     ("input_bias", "bias_ih", same), ("state_bias", "bias_hh", same)]:
            names.append((f"0.{k}.cell.{ours}", f"l.{theirs}_l{k}", change))
    names += linear("1", "o")
    source = Source()
    fill(module, names, source)
    x, classes = source.uniform(5, 2, 3), source.classes(2, count=3)
    network("lstm", module, names, source, lambda: F.cross_entropy(output(cells(x)[0][-1]), classes))


if __name__ == "__main__":
    for make in (gpt, resnet, vae, graph, pinn, diffusion, lstm):
        make()
    golden = {"made by": f"bench/golden/networks.py, PyTorch {torch.__version__}", "networks": NETWORKS,
              "hugging face": hugging_face()}
    OUTPUT.write_text(json.dumps(golden, separators=(",", ":")) + "\n")
    print(f"{OUTPUT.name}: {', '.join(NETWORKS)}")
