"""Hessians in JAX, as its documentation would write them: `jax.hessian`, compiled as one function."""

import jax

jax.config.update("jax_enable_x64", True)

import jax.numpy as np
import jax.scipy.linalg as linalg

import experiments
import formulas
from server import serve

LIMIT = experiments.most_bytes()


def joint(np, factors, t):
    u, v = factors[: t.shape[0]], factors[t.shape[0]:]
    return formulas.factorization(np, u, t, v) + experiments.RIDGE * np.sum(factors**2)


def network(np, hidden, weights, targets):
    for weight in weights[:-1]:
        hidden = jax.nn.relu(hidden @ weight)
    return formulas.cross_entropy(np, hidden @ weights[-1], targets)


FUNCTIONS = {
    "logistic": formulas.logistic, "factorization": formulas.factorization, "joint": joint, "network": network,
}


def compiled(function, *arguments):
    """The function compiled for its arguments, unless XLA says that it would need too much."""
    arguments = jax.tree.map(np.asarray, arguments)
    program = jax.jit(function).lower(*arguments).compile()
    if (needed := program.memory_analysis()) is not None:
        parts = (needed.argument_size_in_bytes, needed.output_size_in_bytes, needed.temp_size_in_bytes)
        experiments.refuse_above(LIMIT, sum(parts))
    return lambda: jax.block_until_ready(program(*arguments))


def factored_and_solved(definite):
    def solve(matrix, gradient):
        if definite:
            return linalg.cho_solve(linalg.cho_factor(matrix), gradient)
        return linalg.solve(matrix, gradient)

    return jax.jit(solve)


class Engine:
    numbers = staticmethod(np.asarray)
    solvers = {definite: factored_and_solved(definite) for definite in (True, False)}
    cholesky = staticmethod(jax.jit(np.linalg.cholesky))

    @staticmethod
    def hessian(problem, point, others):
        second = jax.hessian(lambda x, *others: FUNCTIONS[problem](np, x, *others))
        return compiled(lambda x, *others: second(x, *others).reshape(x.size, x.size), point, *others)

    @staticmethod
    def by_sample(point, others):
        """What someone writes who knows that samples do not meet: a Hessian for each of them."""
        weights, targets = others
        alone = lambda x, weights, target: network(np, x[None], weights, target[None]) / experiments.SAMPLES
        return compiled(jax.vmap(jax.hessian(alone), in_axes=(0, None, 0)), point, weights, targets)

    @classmethod
    def factor(cls, matrix):
        return jax.block_until_ready(cls.cholesky(matrix))

    @classmethod
    def solve(cls, matrix, gradient, definite):
        return jax.block_until_ready(cls.solvers[definite](matrix, gradient.ravel()))


if __name__ == "__main__":
    experiments.limit_memory(LIMIT)
    serve({"jax": jax.__version__}, experiments.Workloads(Engine))
