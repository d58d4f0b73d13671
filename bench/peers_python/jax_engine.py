"""The workloads in JAX, each compiled with `jit` as one function."""

import functools

import jax

jax.config.update("jax_enable_x64", True)

import jax.numpy as np
import numpy

import data
import formulas
from server import serve


def one_hot(classes, count):
    return jax.nn.one_hot(classes, count, dtype=np.float32)


def arrays(list_of_arrays):
    return [np.asarray(array) for array in list_of_arrays]


def adam(loss, parameters, batches):
    """A run is one step for each batch; its value is the sum of the losses before the steps."""

    @functools.partial(jax.jit, donate_argnums=(1, 2, 3))
    def step(number, parameters, means, squares, x, targets):
        value, gradients = jax.value_and_grad(loss)(parameters, x, targets)
        return value, *formulas.adam_step(np, number, parameters, means, squares, gradients)

    zeros = lambda: [np.zeros_like(parameter) for parameter in parameters]
    state = [[np.array(parameter) for parameter in parameters], zeros(), zeros()]
    steps, losses = [0], []

    def run():
        nonlocal state
        losses.clear()
        for x, targets in batches:
            steps[0] += 1
            value, *state = step(np.float32(steps[0]), *state, x, targets)
            losses.append(value)
        jax.block_until_ready((losses, state))

    return run, lambda: float(sum(losses))


def convolved(parameters, x, padding):
    """Twice a convolution with ReLU and pooling; each image as one row."""
    k1, c1, k2, c2 = parameters
    windows = (1, 1, 2, 2)
    for kernel, bias in [(k1, c1), (k2, c2)]:
        x = jax.lax.conv_general_dilated(x, kernel, (1, 1), padding) + bias[:, None, None]
        x = jax.lax.reduce_window(np.maximum(x, 0), -np.inf, jax.lax.max, windows, windows, "VALID")
    return x.reshape(len(x), -1)


def gpt_state(characters, positions, blocks):
    """The parameters of the character GPT: embeddings, layers and normalisations of each block, the last one."""
    norm = lambda: [np.ones(384, np.float32), np.zeros(384, np.float32)]
    layers = [([[np.array(array) for array in layer] for layer in block], [norm(), norm()]) for block in blocks]
    return np.array(characters), np.array(positions), layers, norm()


def gpt_block(x, layer, attend):
    """A block; a function makes of queries, keys and values what the heads return."""
    (attention, projection, expansion, contraction), norms = layer
    normalised = lambda x, parameters: formulas.normalised(np, x, *parameters)
    parts = (normalised(x, norms[0]) @ attention[0] + attention[1]).reshape(*x.shape[:2], 3, 6, 64)
    mixed = attend(*parts.transpose(2, 0, 3, 1, 4)).transpose(0, 2, 1, 3).reshape(x.shape)
    x = x + mixed @ projection[0] + projection[1]
    inner = jax.nn.gelu(normalised(x, norms[1]) @ expansion[0] + expansion[1], approximate=True)
    return x + inner @ contraction[0] + contraction[1]


def attended(queries, keys, values, hidden):
    scores = np.where(hidden, np.float32(-1e30), queries @ keys.swapaxes(-1, -2) * np.float32(0.125))
    return jax.nn.softmax(scores) @ values


def gpt(parameters, tokens):
    """The logits behind each of 128 tokens."""
    characters, positions, layers, last = parameters
    x, hidden = characters[tokens] + positions, np.triu(np.ones((128, 128), bool), 1)
    for layer in layers:
        x = gpt_block(x, layer, lambda q, k, v: attended(q, k, v, hidden))
    return formulas.normalised(np, x, *last) @ characters.T


def gpt_cached(parameters, tokens, start, cache):
    """The logits behind new tokens, the first at `start`, and the extended cache."""
    characters, positions, layers, last = parameters
    places = start + np.arange(tokens.shape[1])
    x, hidden = characters[tokens] + positions[places], np.arange(128) > places[:, None]
    extended = []

    def attend(queries, *new):
        number = len(extended)
        held = [jax.lax.dynamic_update_slice(old, part, (0, 0, start, 0)) for old, part in zip(cache[number:], new)]
        extended.extend(held)
        return attended(queries, *held, hidden)

    for layer in layers:
        x = gpt_block(x, layer, attend)
    return formulas.normalised(np, x, *last) @ characters.T, extended


class Workloads:
    @staticmethod
    def iris():
        parameters, x, classes = data.iris()
        start, x, targets = arrays(parameters), np.asarray(x), one_hot(classes, 3)
        last = [None]

        @jax.jit
        def step(parameters):
            value, gradients = jax.value_and_grad(lambda p: formulas.iris(np, p, x, targets))(parameters)
            return value, [p - 0.05 * g for p, g in zip(parameters, gradients)]

        def run():
            parameters = start
            for _ in range(100):
                last[0], parameters = step(parameters)
            jax.block_until_ready(parameters)

        return run, lambda: float(last[0])

    @staticmethod
    def mnist(batch):
        parameters, x, classes = data.mnist(batch)
        state, x, targets = [np.array(parameter) for parameter in parameters], np.asarray(x), one_hot(classes, 10)
        last = [None]

        @functools.partial(jax.jit, donate_argnums=0)
        def step(parameters, x, targets):
            value, gradients = jax.value_and_grad(lambda p: formulas.mnist(np, p, x, targets))(parameters)
            return value, [p - 0.05 * (g + 1e-4 * p) for p, g in zip(parameters, gradients)]

        def run():
            nonlocal state
            last[0], state = step(state, x, targets)
            jax.block_until_ready(state)

        return run, lambda: float(last[0])

    @staticmethod
    def elementwise(count):
        x, y = arrays(data.elementwise(count))
        return derivative(jax.jit(jax.grad(lambda x: formulas.elementwise(np, x, y))), x, lambda g: data.along([g]))

    @staticmethod
    def lenet():
        parameters, x, classes = data.lenet()

        def loss(parameters, x, targets):
            *convolutions, w1, b1, w2, b2 = parameters
            hidden = np.maximum(convolved(convolutions, x, "VALID") @ w1 + b1, 0)
            return formulas.cross_entropy(np, hidden @ w2 + b2, targets)

        return adam(loss, parameters, [(np.asarray(x), one_hot(classes, 10))])

    @staticmethod
    def cnn():
        parameters, x, classes = data.cnn()

        def loss(parameters, x, targets):
            *convolutions, w1, b1, w2, b2 = parameters
            images, first, second = x
            hidden = np.maximum((convolved(convolutions, images, "SAME") * first) @ w1 + b1, 0)
            return formulas.cross_entropy(np, (hidden * second) @ w2 + b2, targets)

        return adam(loss, parameters, [(arrays(x), one_hot(classes, 10))])

    @staticmethod
    def lstm(lengths):
        parameters, batches = data.lstm(lengths)

        def loss(parameters, x, targets):
            input_weight, state_weight, input_bias, state_bias, weight, bias = parameters
            from_inputs = x @ input_weight + (input_bias + state_bias)
            zeros = np.zeros((x.shape[1], 64), x.dtype)
            step = lambda state, entry: (formulas.lstm_step(np, state_weight, state, entry), None)
            (output, _), _ = jax.lax.scan(step, (zeros, zeros), from_inputs)
            return formulas.cross_entropy(np, output @ weight + bias, targets)

        return adam(loss, parameters, [(np.asarray(x), one_hot(classes, 10)) for x, classes in batches])

    @staticmethod
    def transformer():
        parameters, x = data.transformer()
        x = np.asarray(x)
        function = jax.jit(jax.grad(lambda p: formulas.transformer(np, jax.lax.erf, p, x)))
        return derivative(function, arrays(parameters), data.along)

    @staticmethod
    def resnet18():
        stem, blocks, last, images, classes = data.resnet18()
        norm = lambda kernel: (np.ones(len(kernel), np.float32), np.zeros(len(kernel), np.float32))
        convolution = lambda kernel: None if kernel is None else (np.array(kernel), *norm(kernel))
        strides = [stride for stride, _ in blocks]
        state = (convolution(stem), [[convolution(kernel) for kernel in kernels] for _, kernels in blocks], arrays(last))
        images, targets = np.asarray(images), one_hot(classes, 10)

        def convolved(parameters, x, stride=1):
            kernel, scale, shift = parameters
            width = kernel.shape[2] // 2
            x = jax.lax.conv_general_dilated(x, kernel, (stride, stride), [(width, width)] * 2)
            mean, variance = (f(x, (0, 2, 3), keepdims=True) for f in (np.mean, np.var))
            return (x - mean) / np.sqrt(variance + 1e-5) * scale[:, None, None] + shift[:, None, None]

        def loss(parameters):
            stem, blocks, (weight, bias) = parameters
            x = jax.nn.relu(convolved(stem, images))
            for stride, (first, second, shortcut) in zip(strides, blocks):
                residual = convolved(second, jax.nn.relu(convolved(first, x, stride)))
                x = jax.nn.relu(residual + (x if shortcut is None else convolved(shortcut, x, stride)))
            return formulas.cross_entropy(np, x.mean((2, 3)) @ weight + bias, targets)

        @functools.partial(jax.jit, donate_argnums=(0, 1))
        def step(parameters, velocities):
            value, gradients = jax.value_and_grad(loss)(parameters)
            velocities = jax.tree.map(lambda v, g: 0.9 * v + g, velocities, gradients)
            return value, jax.tree.map(lambda p, v: p - 0.003 * v, parameters, velocities), velocities

        return steps(step, state, jax.tree.map(np.zeros_like, state))

    @staticmethod
    def character_gpt():
        *parameters, tokens, classes = data.character_gpt()
        state, tokens, targets = gpt_state(*parameters), np.asarray(tokens), one_hot(classes, 65)

        def loss(parameters):
            return formulas.cross_entropy(np, gpt(parameters, tokens).reshape(-1, 65), targets)

        @functools.partial(jax.jit, donate_argnums=(0, 1))
        def step(parameters, moments):
            number, means, squares = moments
            value, gradients = jax.value_and_grad(loss)(parameters)
            number = number + 1
            means = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, means, gradients)
            squares = jax.tree.map(lambda s, g: 0.999 * s + 0.001 * g * g, squares, gradients)
            first, second = 1 - 0.9**number, 1 - 0.999**number
            update = lambda p, m, s: p * (1 - 3e-6) - 3e-4 * (m / first) / (np.sqrt(s / second) + 1e-8)
            return value, jax.tree.map(update, parameters, means, squares), (number, means, squares)

        zeros = lambda: jax.tree.map(np.zeros_like, state)
        return steps(step, state, (np.zeros((), np.float32), zeros(), zeros()))

    @staticmethod
    def generation():
        *parameters, tokens = data.generation()
        state, last = gpt_state(*parameters), [None]
        logits = jax.jit(lambda parameters, tokens, place: gpt(parameters, tokens)[0, place])

        def run():
            for place in range(64, 80):
                context = np.asarray(numpy.pad(tokens[: place + 1], (0, 127 - place))[None])
                last[0] = jax.block_until_ready(logits(state, context, place))

        return run, lambda: data.along([last[0]])

    @staticmethod
    def generation_cached():
        *parameters, tokens = data.generation()
        state, tokens, last = gpt_state(*parameters), np.asarray(tokens), [None]
        empty = [np.zeros((1, 6, 128, 64), np.float32)] * 12
        step = jax.jit(gpt_cached)
        _, prompt = step(state, tokens[None, :64], 0, empty)

        def run():
            cache = prompt
            for place in range(64, 80):
                logits, cache = step(state, tokens[None, place : place + 1], place, cache)
                last[0] = jax.block_until_ready(logits[0, -1])

        return run, lambda: data.along([last[0]])

    @staticmethod
    def lstm_3x256():
        layers, last, sequences, classes = data.lstm_3x256()

        def loss(parameters, x, targets):
            for k in range(3):
                input_weight, state_weight, input_bias, state_bias = parameters[4 * k : 4 * k + 4]
                from_inputs = x @ input_weight + (input_bias + state_bias)
                zeros = np.zeros((32, 256), x.dtype)
                step = lambda state, entry: (lambda s: (s, s[0]))(formulas.lstm_step(np, state_weight, state, entry))
                _, x = jax.lax.scan(step, (zeros, zeros), from_inputs)
            return formulas.cross_entropy(np, x[-1] @ parameters[12] + parameters[13], targets)

        parameters = [array for layer in layers for array in layer] + [*last]
        return adam(loss, parameters, [(np.asarray(sequences), one_hot(classes, 10))])

    @staticmethod
    def vae():
        layers, images, noise = data.vae()

        def loss(parameters, x, noise):
            (we, be, wm, bm, wv, bv, wd, bd, wo, bo) = parameters
            features = jax.nn.relu(x @ we + be)
            mean, variance = features @ wm + bm, features @ wv + bv
            logits = jax.nn.relu((mean + np.exp(0.5 * variance) * noise) @ wd + bd) @ wo + bo
            wrong = np.sum(jax.nn.softplus(logits) - logits * x)
            return (wrong - 0.5 * np.sum(1 + variance - mean**2 - np.exp(variance))) / len(x)

        return adam(loss, [array for layer in layers for array in layer], [(np.asarray(images), np.asarray(noise))])

    @staticmethod
    def pinn():
        layers, (inside, right, boundary, values) = data.pinn()

        def network(parameters, x):
            for weight, bias in zip(parameters[:-2:2], parameters[1:-2:2]):
                x = np.tanh(x @ weight + bias)
            return (x @ parameters[-2] + parameters[-1])[..., 0]

        def loss(parameters, points, wanted):
            (inside, boundary), (right, values) = points, wanted
            laplacian = 0.0
            for k in range(2):
                direction = np.zeros_like(inside).at[:, k].set(1.0)
                slope = lambda x: jax.jvp(lambda x: network(parameters, x), (x,), (direction,))[1]
                laplacian = laplacian + jax.jvp(slope, (inside,), (direction,))[1]
            return np.mean((laplacian - right) ** 2) + np.mean((network(parameters, boundary) - values) ** 2)

        batch = (arrays([inside, boundary]), arrays([right, values]))
        return adam(loss, [array for layer in layers for array in layer], [batch])

    @staticmethod
    def graph():
        layers, last, nodes, (sources, targets), classes = data.graph()
        sources, targets, count = np.asarray(sources), np.asarray(targets), len(nodes)
        degree = np.maximum(jax.ops.segment_sum(np.ones(len(targets), np.float32), targets, count), 1)[:, None]

        def loss(parameters, x, wanted):
            for k in range(2):
                weight, bias, messages = parameters[3 * k : 3 * k + 3]
                mean = jax.ops.segment_sum(x[sources], targets, count) / degree
                x = jax.nn.relu(x @ weight + bias + mean @ messages)
            return formulas.cross_entropy(np, x @ parameters[6] + parameters[7], wanted)

        parameters = [array for layer, weight in layers for array in (*layer, weight)] + [*last]
        return adam(loss, parameters, [(np.asarray(nodes), one_hot(classes, 10))])

    @staticmethod
    def logistic(n):
        weights, examples, sides = arrays(data.logistic(n))
        function = jax.jit(jax.hessian(lambda w: formulas.logistic(np, w, examples, sides)))
        return derivative(function, weights, data.curvature_along)

    @staticmethod
    def factorization(n, k):
        u, t, v = arrays(data.factorization(n, k))
        function = jax.jit(jax.hessian(lambda u: formulas.factorization(np, u, t, v)))
        return derivative(function, u, data.curvature_along)


def steps(step, parameters, remembered):
    """A run is one step of a compiled function of parameters and what the optimizer remembers, both donated."""
    last = [None]

    def run():
        nonlocal parameters, remembered
        last[0], parameters, remembered = step(parameters, remembered)
        jax.block_until_ready((last[0], parameters, remembered))

    return run, lambda: float(last[0])


def derivative(function, point, value):
    last = [None]

    def run():
        last[0] = jax.block_until_ready(function(point))

    return run, lambda: value(last[0])


if __name__ == "__main__":
    serve({"jax": jax.__version__}, data.workloads(Workloads))
