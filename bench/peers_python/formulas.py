"""The functions of the workloads in the words of NumPy, for the engines that speak them.

`np` is `jax.numpy` or `autograd.numpy`. Targets are rows with a one at the class.
"""

import math


def log_softmax(np, logits):
    shifted = logits - np.max(logits, axis=-1, keepdims=True)
    return shifted - np.log(np.sum(np.exp(shifted), axis=-1, keepdims=True))


def cross_entropy(np, logits, targets):
    return -np.sum(log_softmax(np, logits) * targets) / targets.shape[0]


def iris(np, parameters, x, targets):
    w1, b1, w2, b2 = parameters
    return cross_entropy(np, np.tanh(x @ w1 + b1) @ w2 + b2, targets)


def mnist(np, parameters, x, targets):
    w1, b1, w2, b2, w3, b3 = parameters
    first = np.maximum(x @ w1 + b1, 0)
    second = np.maximum(first @ w2 + b2, 0)
    return cross_entropy(np, second @ w3 + b3, targets)


def elementwise(np, x, y):
    return np.sum(np.tanh(x) * y + np.exp(-x))


def logistic(np, weights, examples, sides):
    return np.sum(np.log1p(np.exp(-sides * (examples @ weights))))


def factorization(np, u, t, v):
    return np.sum((t - u @ v.T) ** 2)


def sigmoid(np, x):
    return 0.5 * (np.tanh(0.5 * x) + 1)


def lstm_step(np, state_weight, state, from_input):
    """The state after one time: output and memory."""
    output, memory = state
    i, f, g, o = np.split(from_input + output @ state_weight, 4, axis=-1)
    memory = sigmoid(np, f) * memory + sigmoid(np, i) * np.tanh(g)
    return sigmoid(np, o) * np.tanh(memory), memory


def normalised(np, x, scale, shift):
    centred = x - np.mean(x, axis=-1, keepdims=True)
    variance = np.mean(centred**2, axis=-1, keepdims=True)
    return centred / np.sqrt(variance + 1e-5) * scale + shift


def transformer(np, erf, parameters, x):
    """The mean square of the result of one block."""
    wa, ba, wp, bp, we, be, wc, bc, scale1, shift1, scale2, shift2 = parameters
    batch, places, width = x.shape
    heads = 4
    parts = np.reshape(normalised(np, x, scale1, shift1) @ wa + ba, (batch, places, 3, heads, width // heads))
    queries, keys, values = parts[:, :, 0], parts[:, :, 1], parts[:, :, 2]
    scores = np.einsum("bqhd,bkhd->bhqk", queries, keys) / math.sqrt(width // heads)
    mixed = np.einsum("bhqk,bkhd->bqhd", np.exp(log_softmax(np, scores)), values)
    attended = x + np.reshape(mixed, x.shape) @ wp + bp
    inner = normalised(np, attended, scale2, shift2) @ we + be
    inner = 0.5 * inner * (1 + erf(inner / math.sqrt(2)))
    return np.mean((attended + inner @ wc + bc) ** 2)


def adam_step(np, step, parameters, means, squares, gradients):
    """Parameters and moments after a step of Adam with its usual constants; `step` counts from 1."""
    means = [0.9 * m + 0.1 * g for m, g in zip(means, gradients)]
    squares = [0.999 * v + 0.001 * g * g for v, g in zip(squares, gradients)]
    rate, share = 1e-3 / (1 - 0.9**step), np.sqrt(1 - 0.999**step)
    moved = [p - rate * m / (np.sqrt(v) / share + 1e-8) for p, m, v in zip(parameters, means, squares)]
    return moved, means, squares
