"""The first steps of `glassgrad train iris` in PyTorch, in 64 bits: losses, and the gradients of the first step.

    python bench/golden/iris_torch.py > crates/glassgrad-cli/tests/golden/iris_torch.json

Split, standardisation and first weights are made here anew from the seed (Philox 4x32, ten rounds), so that
nothing but the table of irises is shared with the program.
"""

import json
import math
import pathlib
import sys

import torch

SEED, EPOCHS, RATE = 0, 10, 0.05
FEATURES, HIDDEN, CLASSES = 4, 10, 3
MASK = 0xFFFFFFFF
IRIS = pathlib.Path(__file__).resolve().parents[2] / "crates/glassgrad/examples/data/iris.csv"


def philox(key, counter):
    key = [key & MASK, key >> 32]
    for _ in range(10):
        first, second = counter[0] * 0xD2511F53, counter[2] * 0xCD9E8D57
        counter = [
            (second >> 32) ^ counter[1] ^ key[0],
            second & MASK,
            (first >> 32) ^ counter[3] ^ key[1],
            first & MASK,
        ]
        key = [(key[0] + 0x9E3779B9) & MASK, (key[1] + 0xBB67AE85) & MASK]
    return counter


def fold(key, number):
    a, b, _, _ = philox(key, [number & MASK, number >> 32, 0, 0x80000000])
    return a | b << 32


def bits(key, index):
    a, b, _, _ = philox(key, [index & MASK, index >> 32, 0, 0])
    return a | b << 32


def uniform(key, index):
    return (bits(key, index) >> 11) / 2**53


def permutation(key, count):
    order = list(range(count))
    for last in range(count - 1, 0, -1):
        chosen = bits(key, last) * (last + 1) >> 64
        order[last], order[chosen] = order[chosen], order[last]
    return order


def irises(seed):
    rows = [[float(cell) for cell in line.split(",")] for line in IRIS.read_text().splitlines()[1:]]
    flowers = torch.tensor(rows, dtype=torch.float64)
    training = permutation(fold(seed, 0), len(rows))[: len(rows) * 4 // 5]
    features, classes = flowers[training, :-1], flowers[training, -1].long()
    return (features - features.mean(0)) / features.std(0, correction=0), classes


def first_weights(seed):
    key = fold(seed, 1)

    def layer(number, rows, columns, inputs):
        own, bound = fold(key, number), 1 / math.sqrt(inputs)
        numbers = [bound * (2 * uniform(own, k) - 1) for k in range(rows * columns)]
        return torch.tensor(numbers, dtype=torch.float64).reshape(rows, columns).requires_grad_()

    return {
        "hidden_weight": layer(0, FEATURES, HIDDEN, FEATURES),
        "hidden_bias": layer(1, 1, HIDDEN, FEATURES),
        "output_weight": layer(2, HIDDEN, CLASSES, HIDDEN),
        "output_bias": layer(3, 1, CLASSES, HIDDEN),
    }


def main():
    features, classes = irises(SEED)
    weights = first_weights(SEED)
    losses, gradients = [], None
    for _ in range(EPOCHS):
        hidden = torch.tanh(features @ weights["hidden_weight"] + weights["hidden_bias"])
        logits = hidden @ weights["output_weight"] + weights["output_bias"]
        loss = torch.nn.functional.cross_entropy(logits, classes, reduction="sum")
        slopes = torch.autograd.grad(loss, list(weights.values()))
        losses.append(loss.item())
        if gradients is None:
            gradients = {name: slope.flatten().tolist() for name, slope in zip(weights, slopes)}
        weights = {
            name: (weight - RATE * slope).detach().requires_grad_()
            for (name, weight), slope in zip(weights.items(), slopes)
        }
    result = {"torch": torch.__version__, "seed": SEED, "lr": RATE, "losses": losses, "gradients": gradients}
    json.dump(result, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
