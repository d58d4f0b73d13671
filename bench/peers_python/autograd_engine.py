"""The workloads in Autograd, but for the convolutions, of which it has no fast ones."""

import importlib.metadata

import autograd.numpy as np
import numpy
from autograd import grad, hessian, value_and_grad
from autograd.scipy.special import erf

import data
import formulas
from server import Refused, serve


def one_hot(classes, count):
    return numpy.eye(count, dtype=numpy.float32)[classes]


def training(loss, update, parameters, batches):
    """A run is one step for each batch; its value is the sum of the losses before the steps."""
    slope = value_and_grad(loss)
    losses = []

    def run():
        nonlocal parameters
        losses.clear()
        for x, targets in batches:
            value, gradients = slope(parameters, x, targets)
            parameters = update(parameters, gradients)
            losses.append(float(value))

    return run, lambda: sum(losses)


def adam(parameters):
    means = squares = [numpy.zeros_like(parameter) for parameter in parameters]
    steps = 0

    def update(parameters, gradients):
        nonlocal means, squares, steps
        steps += 1
        moved, means, squares = formulas.adam_step(numpy, steps, parameters, means, squares, gradients)
        # The roots of NumPy are of 64 bits, and would make everything so.
        return [p.astype(numpy.float32) for p in moved]

    return update


def derivative(function, point, value):
    last = [None]

    def run():
        last[0] = function(point)

    return run, lambda: value(last[0])


class Workloads:
    @staticmethod
    def iris():
        start, x, classes = data.iris()
        targets = one_hot(classes, 3)
        slope = value_and_grad(lambda p: formulas.iris(np, p, x, targets))
        last = [0.0]

        def run():
            parameters = start
            for _ in range(100):
                last[0], gradients = slope(parameters)
                parameters = [p - 0.05 * g for p, g in zip(parameters, gradients)]

        return run, lambda: float(last[0])

    @staticmethod
    def mnist(batch):
        parameters, x, classes = data.mnist(batch)
        update = lambda parameters, slope: [p - 0.05 * (g + 1e-4 * p) for p, g in zip(parameters, slope)]
        loss = lambda p, x, targets: formulas.mnist(np, p, x, targets)
        return training(loss, update, parameters, [(x, one_hot(classes, 10))])

    @staticmethod
    def elementwise(count):
        x, y = data.elementwise(count)
        return derivative(grad(lambda x: formulas.elementwise(np, x, y)), x, lambda g: data.along([g]))

    @staticmethod
    def lenet():
        raise Refused("Autograd has no fast convolution")

    cnn = lenet

    @staticmethod
    def lstm(lengths):
        parameters, batches = data.lstm(lengths)

        def loss(parameters, x, targets):
            input_weight, state_weight, input_bias, state_bias, weight, bias = parameters
            state = (numpy.zeros((x.shape[1], 64), x.dtype),) * 2
            # One product for each time: the pullback of taking a row of a computed array makes an array of its size.
            for entry in x:
                state = formulas.lstm_step(np, state_weight, state, entry @ input_weight + (input_bias + state_bias))
            return formulas.cross_entropy(np, state[0] @ weight + bias, targets)

        return training(loss, adam(parameters), parameters, [(x, one_hot(c, 10)) for x, c in batches])

    @staticmethod
    def transformer():
        parameters, x = data.transformer()
        return derivative(grad(lambda p: formulas.transformer(np, erf, p, x)), parameters, data.along)

    @staticmethod
    def logistic(n):
        weights, examples, sides = data.logistic(n)
        function = hessian(lambda w: formulas.logistic(np, w, examples, sides))
        return derivative(function, weights, data.curvature_along)

    @staticmethod
    def factorization(n, k):
        u, t, v = data.factorization(n, k)
        function = hessian(lambda u: formulas.factorization(np, u, t, v))
        return derivative(function, u, data.curvature_along)


if __name__ == "__main__":
    serve({"autograd": importlib.metadata.version("autograd"), "numpy": numpy.__version__}, data.workloads(Workloads))
