"""The numbers that every engine works on: those of `glassgrad bench`, element by element.

Element k of stream s is the hash SplitMix64 of 2^40 s + k. Arrays are drawn in the order in which the Rust workloads
draw them, each from a stream of its own, so that all engines must find the same results.
"""

import csv
import functools
import pathlib

import numpy as np

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "crates/glassgrad/examples/data"
DIRECTION_STREAM = 1000


def unit(stream, count):
    """Numbers from 0 up to but not including 1."""
    with np.errstate(over="ignore"):
        z = (np.arange(1, count + 1, dtype=np.uint64) + np.uint64(stream << 40)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((z ^ (z >> np.uint64(31))) >> np.uint64(11)) / 2**53


def direction(count):
    """The direction along which derivatives are told."""
    return 2.0 * unit(DIRECTION_STREAM, count) - 1.0


class Source:
    """Draws arrays, each from a stream of its own."""

    def __init__(self):
        self.streams = 0

    def next_stream(self):
        self.streams += 1
        return self.streams

    def uniform(self, shape, low, high, dtype=np.float32):
        numbers = unit(self.next_stream(), int(np.prod(shape)))
        return (low + (high - low) * numbers).astype(dtype).reshape(shape)

    def layer(self, inputs, outputs):
        """Weights and biases."""
        bound = 1.0 / np.sqrt(inputs)
        return self.uniform((inputs, outputs), -bound, bound), self.uniform((outputs,), -bound, bound)

    def mask(self, shape, rate):
        """What dropout multiplies with."""
        numbers = unit(self.next_stream(), int(np.prod(shape))).reshape(shape)
        return np.where(numbers < rate, 0.0, 1.0 / (1.0 - rate)).astype(np.float32)

    def classes(self, count, classes):
        return (unit(self.next_stream(), count) * classes).astype(np.int64)


def iris():
    """Features and species of the 120 training flowers, and the parameters of the network."""
    rows = np.loadtxt(EXAMPLES / "iris.csv", delimiter=",", skiprows=1)
    rows = rows[np.arange(len(rows)) % 5 != 4]
    source = Source()
    return [*source.layer(4, 10), *source.layer(10, 3)], rows[:, :4].astype(np.float32), rows[:, 4].astype(np.int64)


def mnist(batch):
    source = Source()
    parameters = [*source.layer(784, 1568), *source.layer(1568, 392), *source.layer(392, 10)]
    return parameters, source.uniform((batch, 784), 0.0, 1.0), source.classes(batch, 10)


def elementwise(count):
    source = Source()
    return source.uniform((count,), -2.0, 2.0), source.uniform((count,), -2.0, 2.0)


def lenet():
    source = Source()
    parameters = []
    for outputs, inputs in [(8, 1), (16, 8)]:
        bound = 1.0 / np.sqrt(25 * inputs)
        parameters += [source.uniform((outputs, inputs, 5, 5), -bound, bound), source.uniform((outputs,), -bound, bound)]
    parameters += [*source.layer(256, 120), *source.layer(120, 10)]
    return parameters, source.uniform((64, 1, 28, 28), 0.0, 1.0), source.classes(64, 10)


def cnn():
    """The parameters, the images with the mask of each dropout, and the classes."""
    source = Source()
    parameters = []
    for outputs, inputs in [(16, 1), (32, 16)]:
        bound = 1.0 / np.sqrt(9 * inputs)
        parameters += [source.uniform((outputs, inputs, 3, 3), -bound, bound), source.uniform((outputs,), -bound, bound)]
    parameters += [*source.layer(1568, 128), *source.layer(128, 10)]
    images, classes = source.uniform((128, 1, 28, 28), 0.0, 1.0), source.classes(128, 10)
    return parameters, [images, source.mask((128, 1568), 0.25), source.mask((128, 128), 0.25)], classes


def lstm(lengths):
    """The weights and biases of inputs, of states and of the last layer; and for each length sequences and classes."""
    source = Source()
    bound = 1.0 / np.sqrt(64)
    shapes = [(32, 256), (64, 256), (256,), (256,)]
    parameters = [source.uniform(shape, -bound, bound) for shape in shapes] + [*source.layer(64, 10)]
    batches = [(source.uniform((length, 32, 32), 0.0, 1.0), source.classes(32, 10)) for length in lengths]
    return parameters, batches


def resnet18(batch=32):
    """The kernels and normalisations in the order of the blocks, the last layer; images and classes."""
    source = Source()

    def convolved(inputs, outputs, size):
        bound = 1.0 / np.sqrt(inputs * size * size)
        return source.uniform((outputs, inputs, size, size), -bound, bound)

    stem, blocks, inputs = convolved(3, 64, 3), [], 64
    for outputs, stride in RESNET_STAGES:
        for first_stride in (stride, 1):
            block = [convolved(inputs, outputs, 3), convolved(outputs, outputs, 3)]
            block.append(convolved(inputs, outputs, 1) if inputs != outputs else None)
            blocks.append((first_stride, block))
            inputs = outputs
    last = source.layer(512, 10)
    return stem, blocks, last, source.uniform((batch, 3, 32, 32), -1.0, 1.0), source.classes(batch, 10)


# The channels of each stage of ResNet-18, and the stride of its first block.
RESNET_STAGES = [(64, 1), (128, 2), (256, 2), (512, 2)]


def gpt_parameters(vocabulary=65, context=128, width=384, layers=6):
    """The embeddings of tokens and positions and the layers of each block, and a source of the rest."""
    source = Source()
    tokens, positions = (source.uniform((count, width), -0.05, 0.05) for count in (vocabulary, context))
    sizes = [(width, 3 * width), (width, width), (width, 4 * width), (4 * width, width)]
    return tokens, positions, [[source.layer(*size) for size in sizes] for _ in range(layers)], source


def character_gpt():
    """The embeddings of characters and positions, the layers of each block, the tokens and what follows each of them."""
    characters, positions, blocks, source = gpt_parameters()
    tokens = source.classes(8 * 128, 65).reshape(8, 128)
    return characters, positions, blocks, tokens, source.classes(8 * 128, 65)


def generation():
    """The parameters of the character GPT, and the tokens of a prompt of 64 and of 16 behind it."""
    characters, positions, blocks, source = gpt_parameters()
    return characters, positions, blocks, source.classes(80, 65)


def lstm_3x256():
    """The arrays of each layer, the last layer, the sequences and their classes."""
    source = Source()
    shapes = [(256, 1024), (256, 1024), (1024,), (1024,)]
    layers = [[source.uniform(shape, -1 / 16, 1 / 16) for shape in shapes] for _ in range(3)]
    last = source.layer(256, 10)
    return layers, last, source.uniform((100, 32, 256), -1.0, 1.0), source.classes(32, 10)


def vae():
    """The layers of encoder, mean, variance and decoder; images and noise."""
    source = Source()
    sizes = [(784, 400), (400, 20), (400, 20), (20, 400), (400, 784)]
    layers = [source.layer(*size) for size in sizes]
    return layers, source.uniform((128, 784), 0.0, 1.0), source.uniform((128, 20), -1.0, 1.0)


def pinn():
    """The layers; points inside with the right-hand side, points of the boundary with the values there."""
    source = Source()
    layers = [source.layer(*size) for size in [(2, 64), (64, 64), (64, 64), (64, 1)]]
    return layers, [source.uniform(shape, -1.0, 1.0) for shape in [(4096, 2), (4096,), (256, 2), (256,)]]


def graph():
    """The projections of own features and of messages, the last layer; features, both ends of edges, classes."""
    source = Source()
    layers = [(source.layer(64, 64), source.uniform((64, 64), -1 / 8, 1 / 8)) for _ in range(2)]
    last = source.layer(64, 10)
    nodes = source.uniform((20_000, 64), -1.0, 1.0)
    edges = [source.classes(200_000, 20_000) for _ in range(2)]
    return layers, last, nodes, edges, source.classes(20_000, 10)


def transformer():
    """Attention, projection, expansion, contraction, and twice the scale and shift of a normalisation; the input."""
    source = Source()
    parameters = []
    for inputs, outputs in [(128, 384), (128, 128), (128, 512), (512, 128)]:
        parameters += source.layer(inputs, outputs)
    for _ in range(2):
        parameters += [source.uniform((128,), 0.5, 1.5), source.uniform((128,), -0.5, 0.5)]
    return parameters, source.uniform((16, 64, 128), -1.0, 1.0)


def logistic(n):
    """Weights, examples and their sides."""
    source = Source()
    examples = source.uniform((2 * n, n), -1.0, 1.0, np.float64)
    sides = np.sign(source.uniform((2 * n,), -1.0, 1.0, np.float64))
    return source.uniform((n,), -0.1, 0.1, np.float64), examples, sides


def factorization(n, k):
    """U, T and V."""
    source = Source()
    t, v, u = (source.uniform((n, columns), -1.0, 1.0, np.float64) for columns in (n, k, k))
    return u, t, v


def moons():
    """The points with their sides, and a source of weights."""
    with (EXAMPLES / "moons_micrograd_seed1337_n100_noise0.1.csv").open() as file:
        rows = list(csv.DictReader(file))
    points = [([float(row["x0"]), float(row["x1"])], 2.0 * float(row["label"]) - 1.0) for row in rows]
    return points, iter(2.0 * unit(1, 1000) - 1.0)


def along(gradients):
    """The derivative along the direction, from gradients in the order and layout of the parameters."""
    numbers = np.concatenate([np.asarray(gradient, dtype=np.float64).ravel() for gradient in gradients])
    return float(numbers @ direction(numbers.size))


def curvature_along(hessian):
    """The second derivative along the direction."""
    hessian = np.asarray(hessian)
    size = int(np.sqrt(hessian.size))
    step = direction(size)
    return float(step @ hessian.reshape(size, size) @ step)


# The workloads of one size.
SINGLE = ["iris", "lenet", "cnn", "transformer", "moons", "resnet18", "resnet18_bf16", "character_gpt", "character_gpt_bf16",
          "generation", "generation_cached",
          "lstm_3x256", "vae", "pinn", "graph"]


def workloads(engine):
    """The workloads of a class by name: its methods, with their sizes filled in."""
    found = {name: getattr(engine, name) for name in SINGLE if hasattr(engine, name)}
    if "iris" in found:
        found["iris_define_by_run"] = found["iris"]
    sized = [("mnist", "mnist_{}", [(64,), (128,), (512,)]),
             ("elementwise", "elementwise_{}", [(1_000,), (1_000_000,)]),
             ("logistic", "logistic_hessian_{}", [(100,), (500,), (1000,)]),
             ("factorization", "factorization_hessian_{}", [(50, 5), (100, 5)])]
    for method, name, sizes in sized:
        if hasattr(engine, method):
            found |= {name.format(size[0]): functools.partial(getattr(engine, method), *size) for size in sizes}
    if hasattr(engine, "lstm"):
        found["lstm"] = functools.partial(engine.lstm, [50])
        found["lstm_lengths"] = functools.partial(engine.lstm, [30, 40, 50])
    return found
