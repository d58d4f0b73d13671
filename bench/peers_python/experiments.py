"""The numbers of the experiments of `commands/bench/experiments`, and how an engine answers for them by name.

A name is a problem, a question and a size: `factorization/solve/1000`. Problems draw their arrays in the order of
`problems.rs`. An engine says how it makes a Hessian and what it does with one; the rest is here.
"""

import resource
import sys

import numpy as np

import data
from server import Refused

RANK, JOINT_RANK = 10, 5
RIDGE = 5.0
LAYERS, SAMPLES, CLASSES = 10, 64, 10


def symmetric(source, shape, bound):
    return source.uniform(shape, -bound, bound, np.float64)


def logistic(n):
    """The point, the gradient, and the data: examples and their sides."""
    source = data.Source()
    examples = symmetric(source, (2 * n, n), 1.0)
    sides = np.sign(symmetric(source, (2 * n,), 1.0))
    return symmetric(source, (n,), 0.1), symmetric(source, (n,), 1.0), (examples, sides)


def factorization(n):
    """U, the gradient, and the data: T and V."""
    source = data.Source()
    t, v, u, gradient = (symmetric(source, (n, columns), 1.0) for columns in (n, RANK, RANK, RANK))
    return u, gradient, (t, v)


def joint(n):
    """U above V in one matrix, the gradient alike, and the data: T."""
    source = data.Source()
    t, *parts = (symmetric(source, (n, columns), 1.0) for columns in [n] + 4 * [JOINT_RANK])
    return np.concatenate(parts[:2]), np.concatenate(parts[2:]), (t,)


def network(n):
    """The activations, the gradient, and the data: weights and targets."""
    source = data.Source()
    bound = np.sqrt(6.0 / n)
    weights = [symmetric(source, (n, CLASSES if layer + 1 == LAYERS else n), bound) for layer in range(LAYERS)]
    targets = np.eye(CLASSES)[source.classes(SAMPLES, CLASSES)]
    return source.uniform((SAMPLES, n), 0.0, 1.0, np.float64), symmetric(source, (SAMPLES, n), 1.0), (weights, targets)


PROBLEMS = {"logistic": logistic, "factorization": factorization, "joint": joint, "network": network}


def limit_memory(bytes_at_once):
    """What a process may hold. Libraries themselves take a gigabyte or two."""
    bound = bytes_at_once + 2 * 2**30
    resource.setrlimit(resource.RLIMIT_DATA, (bound, bound))


class Workloads:
    """The experiments of an engine, by name.

    The engine has `hessian(problem, point, data)`, which returns a function without arguments that computes the matrix;
    `by_sample` of the same kind, if it has that; `factor(matrix)` and `solve(matrix, gradient, definite)`; and
    `numbers(array)` for NumPy.
    """

    def __init__(self, engine):
        self.engine = engine

    def __contains__(self, name):
        match name.split("/"):
            case [problem, "by_sample", _]:
                return problem == "network" and hasattr(self.engine, "by_sample")
            case [problem, question, _]:
                return problem in PROBLEMS and question in ("held", "factor", "solve", "step")
        return False

    def __getitem__(self, name):
        problem, question, size = name.split("/")
        return lambda: self.made(problem, question, int(size))

    def made(self, problem, question, size):
        engine = self.engine
        point, gradient, others = PROBLEMS[problem](size)
        step = data.direction(point.size)
        last = [None]
        if question == "by_sample":
            compute = engine.by_sample(point, others)
            value = lambda: by_sample_along(engine.numbers(last[0]), step)
        else:
            hessian = engine.hessian(problem, point, others)
            if question == "held":
                compute, value = hessian, lambda: data.curvature_along(engine.numbers(last[0]))
            elif question == "step":
                compute = lambda: engine.solve(hessian(), gradient, definite=False)
                value = lambda: float(engine.numbers(last[0]).ravel() @ step)
            else:
                matrix = hessian()
                if question == "factor":
                    compute = lambda: engine.factor(matrix)
                    value = lambda: 2.0 * float(np.log(np.abs(np.diagonal(engine.numbers(last[0])))).sum())
                else:
                    compute = lambda: engine.solve(matrix, gradient, definite=True)
                    value = lambda: float(engine.numbers(last[0]).ravel() @ step)

        def run():
            last[0] = compute()

        return run, value


def by_sample_along(blocks, step):
    steps = step.reshape(blocks.shape[:2])
    return float(np.einsum("si,sij,sj->", steps, blocks, steps))


def most_bytes():
    """The limit that the command line gives, in bytes."""
    return int(sys.argv[sys.argv.index("--limit") + 1]) if "--limit" in sys.argv else 8 * 10**9


def refuse_above(limit, needed):
    if needed > limit:
        raise Refused(f"would need {needed / 1e9:.1f} GB")
