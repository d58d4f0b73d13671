"""The workloads in PyTorch, as its documentation would write them: eager, or with `--compiled` through torch.compile."""

import sys

import torch
from torch import nn
from torch.func import hessian
from torch.nn import functional as F

import data
from server import serve

torch.set_num_threads(2)
COMPILED = "--compiled" in sys.argv[1:]


def compiled(function):
    return torch.compile(function) if COMPILED else function


def linear(weight, bias):
    """A layer with these parameters; PyTorch holds the transpose of the weights."""
    layer = nn.Linear(*weight.shape)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor(weight.T))
        layer.bias.copy_(torch.tensor(bias))
    return layer


def convolution(kernel, bias, padding=0):
    layer = nn.Conv2d(kernel.shape[1], kernel.shape[0], kernel.shape[2], padding=padding)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor(kernel))
        layer.bias.copy_(torch.tensor(bias))
    return layer


def training(model, optimizer, batches):
    """A run is one step for each batch; its value is the sum of the losses before the steps."""
    losses = [0.0]
    loss_of = compiled(lambda x, classes: F.cross_entropy(model(x), classes))
    step = compiled(optimizer.step)

    def run():
        losses.clear()
        for x, classes in batches:
            optimizer.zero_grad()
            loss = loss_of(x, classes)
            loss.backward()
            step()
            losses.append(loss.item())

    return run, lambda: sum(losses)


def descent(function, optimizer, arguments):
    """A run is one step of a loss of these arguments; its value is the loss before it."""
    last = [0.0]
    loss_of, step = compiled(function), compiled(optimizer.step)

    def run():
        optimizer.zero_grad()
        loss = loss_of(*arguments)
        loss.backward()
        step()
        last[0] = loss.item()

    return run, lambda: last[0]


class Block(nn.Module):
    """A block of a GPT whose heads have the size 64."""

    def __init__(self, layers):
        super().__init__()
        self.attention, self.projection, self.expansion, self.contraction = (linear(*layer) for layer in layers)
        width = self.projection.in_features
        self.heads, self.norms = width // 64, nn.ModuleList(nn.LayerNorm(width) for _ in range(2))

    def forward(self, x, mask=None, cache=None, places=None):
        parts = self.attention(self.norms[0](x)).view(*x.shape[:2], 3, self.heads, 64)
        queries, keys, values = parts.permute(2, 0, 3, 1, 4)
        if cache is not None:
            for part, new in zip(cache, (keys, values)):
                part.index_copy_(2, places, new)
            keys, values = cache
        mixed = F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask, is_causal=mask is None)
        x = x + self.projection(mixed.transpose(1, 2).reshape(x.shape))
        return x + self.contraction(F.gelu(self.expansion(self.norms[1](x)), approximate="tanh"))


class Gpt(nn.Module):
    """A GPT with tied embeddings."""

    def __init__(self, characters, positions, blocks):
        super().__init__()
        self.characters, self.positions = (nn.Parameter(torch.tensor(table)) for table in (characters, positions))
        self.blocks, self.norm = nn.ModuleList(map(Block, blocks)), nn.LayerNorm(positions.shape[1])

    def forward(self, tokens):
        x = F.embedding(tokens, self.characters) + self.positions
        for block in self.blocks:
            x = block(x)
        return self.norm(x) @ self.characters.T

    def cached(self, tokens, places, cache):
        """The logits of tokens at these places, whose keys and values are written into the cache."""
        x = F.embedding(tokens, self.characters) + self.positions[places]
        mask = torch.arange(128) <= places[:, None]
        for block, parts in zip(self.blocks, cache):
            x = block(x, mask, parts, places)
        return self.norm(x) @ self.characters.T


def mixed(function):
    """A function in mixed precision: products in bf16, what it returns in 32 bits."""

    def run(*arguments):
        with torch.autocast("cpu", torch.bfloat16):
            outputs = function(*arguments)
        return outputs.float()

    return run


def gpt_training(wrapped):
    characters, positions, blocks, tokens, classes = data.character_gpt()
    model = Gpt(characters, positions, blocks)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.01)
    logits = wrapped(lambda tokens: model(tokens).flatten(0, 1))
    return training(logits, optimizer, [(torch.tensor(tokens), torch.tensor(classes))])


def resnet18(stem, blocks, last, images, classes):
    """ResNet-18 with batch statistics; images and classes are passed on."""
    weight, bias = last

    def convolved(kernel, stride=1):
        outputs, inputs, size, _ = kernel.shape
        layer = nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False)
        with torch.no_grad():
            layer.weight.copy_(torch.tensor(kernel))
        return nn.Sequential(layer, nn.BatchNorm2d(outputs, track_running_stats=False))

    class Block(nn.Module):
        def __init__(self, stride, first, second, shortcut):
            super().__init__()
            self.first, self.second = convolved(first, stride), convolved(second)
            self.shortcut = nn.Identity() if shortcut is None else convolved(shortcut, stride)

        def forward(self, x):
            return F.relu(self.second(F.relu(self.first(x))) + self.shortcut(x))

    stages = [Block(stride, *kernels) for stride, kernels in blocks]
    model = nn.Sequential(convolved(stem), nn.ReLU(), *stages, nn.AdaptiveAvgPool2d(1), nn.Flatten(), linear(weight, bias))
    return model, images, classes


class Workloads:
    @staticmethod
    def iris():
        (w1, b1, w2, b2), x, classes = data.iris()
        x, classes = torch.tensor(x), torch.tensor(classes)
        last = [0.0]
        # A network that is compiled is compiled once; its weights are set anew for each run.
        model = nn.Sequential(linear(w1, b1), nn.Tanh(), linear(w2, b2))
        start = [parameter.detach().clone() for parameter in model.parameters()]
        loss_of = compiled(lambda x, classes: F.cross_entropy(model(x), classes))

        def run():
            with torch.no_grad():
                for parameter, first in zip(model.parameters(), start):
                    parameter.copy_(first)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
            for _ in range(100):
                optimizer.zero_grad()
                loss = loss_of(x, classes)
                loss.backward()
                optimizer.step()
            last[0] = loss.item()

        return run, lambda: last[0]

    @staticmethod
    def mnist(batch):
        (w1, b1, w2, b2, w3, b3), x, classes = data.mnist(batch)
        model = nn.Sequential(linear(w1, b1), nn.ReLU(), linear(w2, b2), nn.ReLU(), linear(w3, b3))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, weight_decay=1e-4)
        return training(model, optimizer, [(torch.tensor(x), torch.tensor(classes))])

    @staticmethod
    def elementwise(count):
        x, y = map(torch.tensor, data.elementwise(count))
        x.requires_grad_()
        function = compiled(lambda x: (torch.tanh(x) * y + torch.exp(-x)).sum())

        def run():
            x.grad = None
            function(x).backward()

        return run, lambda: data.along([x.grad])

    @staticmethod
    def lenet():
        (k1, c1, k2, c2, w1, b1, w2, b2), x, classes = data.lenet()
        model = nn.Sequential(
            convolution(k1, c1), nn.ReLU(), nn.MaxPool2d(2), convolution(k2, c2), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), linear(w1, b1), nn.ReLU(), linear(w2, b2))
        optimizer = torch.optim.Adam(model.parameters())
        return training(model, optimizer, [(torch.tensor(x), torch.tensor(classes))])

    @staticmethod
    def cnn():
        (k1, c1, k2, c2, w1, b1, w2, b2), x, classes = data.cnn()
        convolutions = nn.Sequential(
            convolution(k1, c1, 1), nn.ReLU(), nn.MaxPool2d(2), convolution(k2, c2, 1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten())
        hidden, output = nn.Sequential(linear(w1, b1), nn.ReLU()), linear(w2, b2)
        optimizer = torch.optim.Adam([*convolutions.parameters(), *hidden.parameters(), *output.parameters()])

        def model(x):
            images, first, second = x
            return output(hidden(convolutions(images) * first) * second)

        return training(model, optimizer, [([torch.tensor(array) for array in x], torch.tensor(classes))])

    @staticmethod
    def lstm(lengths):
        (input_weight, state_weight, input_bias, state_bias, weight, bias), batches = data.lstm(lengths)
        memory, last = nn.LSTM(32, 64), linear(weight, bias)
        with torch.no_grad():
            memory.weight_ih_l0.copy_(torch.tensor(input_weight.T))
            memory.weight_hh_l0.copy_(torch.tensor(state_weight.T))
            memory.bias_ih_l0.copy_(torch.tensor(input_bias))
            memory.bias_hh_l0.copy_(torch.tensor(state_bias))
        optimizer = torch.optim.Adam([*memory.parameters(), *last.parameters()])
        batches = [(torch.tensor(x), torch.tensor(classes)) for x, classes in batches]
        return training(lambda x: last(memory(x)[0][-1]), optimizer, batches)

    @staticmethod
    def transformer():
        (wa, ba, wp, bp, we, be, wc, bc, *norms), x = data.transformer()
        layers = [linear(wa, ba), linear(wp, bp), linear(we, be), linear(wc, bc)]
        scales = [nn.Parameter(torch.tensor(array)) for array in norms]
        x = torch.tensor(x)

        def block(x):
            attention, projection, expansion, contraction = layers
            batch, places, width = x.shape
            parts = attention(F.layer_norm(x, (width,), scales[0], scales[1])).view(batch, places, 3, 4, width // 4)
            queries, keys, values = parts.permute(2, 0, 3, 1, 4)
            mixed = F.scaled_dot_product_attention(queries, keys, values)
            attended = x + projection(mixed.transpose(1, 2).reshape(x.shape))
            inner = F.gelu(expansion(F.layer_norm(attended, (width,), scales[2], scales[3])))
            return (attended + contraction(inner)).square().mean()

        function = compiled(block)
        parameters = [parameter for layer in layers for parameter in layer.parameters()] + scales

        def run():
            for parameter in parameters:
                parameter.grad = None
            function(x).backward()

        def value():
            transposed = [gradient for layer in layers for gradient in (layer.weight.grad.T, layer.bias.grad)]
            return data.along(transposed + [scale.grad for scale in scales])

        return run, value

    @staticmethod
    def resnet18():
        model, images, classes = resnet18(*data.resnet18())
        optimizer = torch.optim.SGD(model.parameters(), lr=0.003, momentum=0.9)
        return training(model, optimizer, [(torch.tensor(images), torch.tensor(classes))])

    @staticmethod
    def resnet18_bf16():
        model, images, classes = resnet18(*data.resnet18())
        optimizer = torch.optim.SGD(model.parameters(), lr=0.003, momentum=0.9)
        return training(mixed(model), optimizer, [(torch.tensor(images), torch.tensor(classes))])

    @staticmethod
    def character_gpt():
        return gpt_training(lambda function: function)

    @staticmethod
    def character_gpt_bf16():
        return gpt_training(mixed)

    @staticmethod
    def generation():
        characters, positions, blocks, tokens = data.generation()
        model, tokens, last = Gpt(characters, positions, blocks), torch.tensor(tokens), [None]
        logits = compiled(lambda tokens: model(tokens)[0])

        @torch.inference_mode()
        def run():
            for place in range(64, 80):
                context = F.pad(tokens[: place + 1], (0, 127 - place))
                last[0] = logits(context[None])[place]

        return run, lambda: data.along([last[0]])

    @staticmethod
    def generation_cached():
        characters, positions, blocks, tokens = data.generation()
        model, tokens, last = Gpt(characters, positions, blocks), torch.tensor(tokens), [None]
        step = compiled(model.cached)
        with torch.inference_mode():
            prompt = [[torch.zeros(1, 6, 128, 64) for _ in range(2)] for _ in blocks]
            step(tokens[None, :64], torch.arange(64), prompt)

        @torch.inference_mode()
        def run():
            cache = [[part.clone() for part in parts] for parts in prompt]
            for place in range(64, 80):
                last[0] = step(tokens[None, place : place + 1], torch.tensor([place]), cache)[0, -1]

        return run, lambda: data.along([last[0]])

    @staticmethod
    def lstm_3x256():
        layers, last, sequences, classes = data.lstm_3x256()
        memory, output = nn.LSTM(256, 256, num_layers=3), linear(*last)
        with torch.no_grad():
            for number, arrays in enumerate(layers):
                for name, array in zip(["weight_ih", "weight_hh", "bias_ih", "bias_hh"], arrays):
                    getattr(memory, f"{name}_l{number}").copy_(torch.tensor(array.T))
        optimizer = torch.optim.Adam([*memory.parameters(), *output.parameters()])
        return training(lambda x: output(memory(x)[0][-1]), optimizer, [(torch.tensor(sequences), torch.tensor(classes))])

    @staticmethod
    def vae():
        layers, images, noise = data.vae()
        encoder, mean, variance, hidden, output = layers = nn.ModuleList(linear(*layer) for layer in layers)
        images, noise = torch.tensor(images), torch.tensor(noise)

        def loss(images, noise):
            features = F.relu(encoder(images))
            m, v = mean(features), variance(features)
            logits = output(F.relu(hidden(m + torch.exp(0.5 * v) * noise)))
            wrong = F.binary_cross_entropy_with_logits(logits, images, reduction="sum")
            return (wrong - 0.5 * torch.sum(1 + v - m**2 - v.exp())) / len(images)

        return descent(loss, torch.optim.Adam(layers.parameters()), (images, noise))

    @staticmethod
    def pinn():
        layers, arrays = data.pinn()
        layers = [linear(*layer) for layer in layers]
        network = nn.Sequential(*(module for layer in layers for module in (layer, nn.Tanh())))[:-1]

        def loss(inside, right, boundary, values):
            points = inside.requires_grad_()
            (slopes,) = torch.autograd.grad(network(points).sum(), points, create_graph=True)
            second = [torch.autograd.grad(slopes[:, k].sum(), points, create_graph=True)[0][:, k] for k in range(2)]
            return F.mse_loss(sum(second), right) + F.mse_loss(network(boundary)[:, 0], values)

        return descent(loss, torch.optim.Adam(network.parameters()), [torch.tensor(array) for array in arrays])

    @staticmethod
    def graph():
        layers, last, nodes, (sources, targets), classes = data.graph()
        own = nn.ModuleList(linear(*layer) for layer, _ in layers)
        messages = nn.ParameterList(nn.Parameter(torch.tensor(weight)) for _, weight in layers)
        output, count = linear(*last), len(nodes)

        def loss(x, sources, targets, classes):
            degree = torch.zeros(count).index_add(0, targets, torch.ones(len(targets))).clamp(min=1.0)[:, None]
            for layer, weight in zip(own, messages):
                mean = torch.zeros(count, 64).index_add(0, targets, x[sources]) / degree
                x = F.relu(layer(x) + mean @ weight)
            return F.cross_entropy(output(x), classes)

        parameters = [*own.parameters(), *messages, *output.parameters()]
        arrays = [torch.tensor(array) for array in (nodes, sources, targets, classes)]
        return descent(loss, torch.optim.Adam(parameters), arrays)

    @staticmethod
    def logistic(n):
        weights, examples, sides = map(torch.tensor, data.logistic(n))
        return curvature(lambda w: torch.log1p(torch.exp(-sides * (examples @ w))).sum(), weights)

    @staticmethod
    def factorization(n, k):
        u, t, v = map(torch.tensor, data.factorization(n, k))
        return curvature(lambda u: ((t - u @ v.T) ** 2).sum(), u)


def curvature(function, point):
    last = [None]
    second = compiled(hessian(function))

    def run():
        last[0] = second(point)

    return run, lambda: data.curvature_along(last[0])


if __name__ == "__main__":
    serve({"torch": torch.__version__}, data.workloads(Workloads))
