"""Hessians in PyTorch, as its documentation would write them: `torch.func.hessian`."""

import torch
from torch.func import hessian
from torch.nn import functional as F

import experiments
from server import serve

torch.set_num_threads(2)


def logistic(weights, examples, sides):
    return torch.log1p(torch.exp(-sides * (examples @ weights))).sum()


def factorization(u, t, v):
    return ((t - u @ v.T) ** 2).sum()


def joint(factors, t):
    u, v = factors[: len(t)], factors[len(t):]
    return factorization(u, t, v) + experiments.RIDGE * (factors**2).sum()


def network(hidden, weights, targets):
    for weight in weights[:-1]:
        hidden = F.relu(hidden @ weight)
    return -(F.log_softmax(hidden @ weights[-1], dim=-1) * targets).sum() / experiments.SAMPLES


FUNCTIONS = {"logistic": logistic, "factorization": factorization, "joint": joint, "network": network}


def tensors(tree):
    return [torch.tensor(array) for array in tree] if isinstance(tree, list) else torch.tensor(tree)


class Engine:
    numbers = staticmethod(torch.Tensor.numpy)

    @staticmethod
    def hessian(problem, point, others):
        point, others = tensors(point), [tensors(other) for other in others]
        second = hessian(lambda x: FUNCTIONS[problem](x, *others))
        return lambda: second(point).reshape(point.numel(), point.numel())

    @staticmethod
    def factor(matrix):
        return torch.linalg.cholesky(matrix)

    @staticmethod
    def solve(matrix, gradient, definite):
        right = torch.from_numpy(gradient.reshape(-1, 1))
        if definite:
            return torch.cholesky_solve(right, torch.linalg.cholesky(matrix))
        return torch.linalg.solve(matrix, right)


if __name__ == "__main__":
    experiments.limit_memory(experiments.most_bytes())
    serve({"torch": torch.__version__}, experiments.Workloads(Engine))
