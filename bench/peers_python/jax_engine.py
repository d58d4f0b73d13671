"""The workloads in JAX, each compiled with `jit` as one function."""

import jax

jax.config.update("jax_enable_x64", True)

import jax.numpy as np

import data
import formulas
from server import serve


def one_hot(classes, count):
    return jax.nn.one_hot(classes, count, dtype=np.float32)


def arrays(list_of_arrays):
    return [np.asarray(array) for array in list_of_arrays]


def adam(loss, parameters, batches):
    """A run is one step for each batch; its value is the sum of the losses before the steps."""

    @jax.jit
    def step(number, parameters, means, squares, x, targets):
        value, gradients = jax.value_and_grad(loss)(parameters, x, targets)
        return value, *formulas.adam_step(np, number, parameters, means, squares, gradients)

    zeros = [np.zeros_like(parameter) for parameter in parameters]
    state = [arrays(parameters), zeros, zeros]
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
        state, x, targets = arrays(parameters), np.asarray(x), one_hot(classes, 10)
        last = [None]

        @jax.jit
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
    def logistic(n):
        weights, examples, sides = arrays(data.logistic(n))
        function = jax.jit(jax.hessian(lambda w: formulas.logistic(np, w, examples, sides)))
        return derivative(function, weights, data.curvature_along)

    @staticmethod
    def factorization(n, k):
        u, t, v = arrays(data.factorization(n, k))
        function = jax.jit(jax.hessian(lambda u: formulas.factorization(np, u, t, v)))
        return derivative(function, u, data.curvature_along)


def derivative(function, point, value):
    last = [None]

    def run():
        last[0] = jax.block_until_ready(function(point))

    return run, lambda: value(last[0])


if __name__ == "__main__":
    serve({"jax": jax.__version__}, data.workloads(Workloads))
