"""The demonstration of micrograd, as micrograd does it."""

import importlib.metadata

from micrograd.engine import Value
from micrograd.nn import MLP

import data
from server import serve


class Workloads:
    @staticmethod
    def moons():
        points, weights = data.moons()
        model = MLP(2, [16, 16, 1])
        for layer in model.layers:
            for neuron in layer.neurons:
                for weight in neuron.w:
                    weight.data = float(next(weights))
                neuron.b.data = 0.0
        last = [0.0]

        def run():
            margins = [(1 + -side * model([Value(number) for number in point])).relu() for point, side in points]
            decay = 1e-4 * sum(parameter * parameter for parameter in model.parameters())
            loss = sum(margins) * (1.0 / len(margins)) + decay
            model.zero_grad()
            loss.backward()
            for parameter in model.parameters():
                parameter.data -= 0.1 * parameter.grad
            last[0] = loss.data

        return run, lambda: last[0]


if __name__ == "__main__":
    serve({"micrograd": importlib.metadata.version("micrograd")}, data.workloads(Workloads))
