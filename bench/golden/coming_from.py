"""The page `docs/coming-from.md` by its first two columns.

    pip install jax torch
    python bench/golden/coming_from.py

Evaluates the cells of PyTorch and JAX, requires that they agree to 1e-9 of the largest number, and writes down what
they are by the cell of Glassgrad, with the distance of the two, for `crates/glassgrad/tests/coming_from.rs`.
Rows with letters of `LETTERS` are left to `page.py`, which compares their derivatives too. A cell of words, or `-`, is skipped. Vectors
of decompositions are compared by magnitude, since their signs are free, and random numbers by their shapes.
"""

import json
import pathlib
import re
import sys
import warnings

import numpy as np
from peers import VERSIONS, jax, jnp, nnf, torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/coming-from.md"
GOLDEN = ROOT / "crates/glassgrad/tests/golden/coming_from.json"
AGREEMENT = 1e-9

# What the rows are about; the test in Rust has the same.
GIVEN = {
    "x": [[1.0, -2.0, 0.5], [3.0, 4.0, -1.5]],
    "y": [[0.5, 1.5, 2.5], [-1.0, 2.0, 1.0]],
    "p": [[0.25, 0.75, 0.5], [0.875, 0.375, 0.625]],
    "v": [1.0, 2.0, -3.0],
    "a": [[4.0, 1.0, 0.5], [1.0, 3.0, -0.25], [0.5, -0.25, 2.0]],
    "i": [2, 0],
    "m": [[True, False, True], [True, True, False]],
    "z": [1.0 + 2.0j, -0.5 + 0.25j, 3.0 - 1.0j],
    "image": [[[float((5 * r + 3 * c) % 7) for c in range(4)] for r in range(4)]],
    "w1": [[[1.0, -1.0], [0.5, 2.0]]],
    "w2": [[[[1.0, 2.0], [-1.0, 0.5]]]],
}




def spread(shape, step, scale):
    """Distinct multiples of a power of two of both signs, none of them 0, in an order that is not sorted."""
    count = int(np.prod(shape))
    return ((2 * (step * np.arange(count) % count) + 1 - count) / scale).reshape(shape).tolist()


# Letters that are in general position: no two elements are equal, and none is near a kink. A row that uses one of them
# is compared also in its derivatives, by `page.py`.
LETTERS = {
    "t": [[0.3125, -1.6875, 0.625], [2.1875, -0.4375, 1.1875]],
    "u": [[-0.8125, 0.6875, 1.4375], [0.9375, -1.3125, 0.875]],
    "b": [[1.25, -0.375, 0.5], [0.25, 1.75, -0.625], [-0.4375, 0.3125, 2.125]],
    "q": spread((2, 3, 4), 11, 16),
    "line": spread((2, 7), 5, 8),
    "photo": spread((2, 5, 6), 7, 32),
    "volume": spread((1, 3, 4, 4), 11, 32),
}
GIVEN |= LETTERS


def f(x):
    return (x**3).sum()


def g(x):
    return x**2 * x[0]


def names(array, **library):
    return {name: array(np.array(numbers)) for name, numbers in GIVEN.items()} | {"f": f, "g": g} | library


def leaves(result):
    """Arrays of numbers: a complex one is two, a tuple as many as it has."""
    if isinstance(result, (tuple, list)) and not all(isinstance(part, (int, float)) for part in result):
        return [leaf for part in result for leaf in leaves(part)]
    if isinstance(result, torch.Tensor):
        # NumPy has no bfloat16.
        result = result.float() if result.dtype == torch.bfloat16 else result.resolve_conj()
    array = np.asarray(result)
    return [array.real, array.imag] if np.iscomplexobj(array) else [array.astype(float)]


def value(cell, scope):
    code = re.fullmatch(r"`([^`]*)`", cell)
    if not code or cell in WORDS:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return leaves(eval(code[1].replace(r"\|", "|"), scope))


# Names of things that are no values.
WORDS = {
    "`with torch.no_grad():`",
    "`torch.autograd.Function`",
    "`jax.custom_vjp`",
    "`torch.autograd.gradcheck`",
    "`jax.test_util.check_grads`",
    "`torch.autograd.detect_anomaly`",
    "`jax_debug_nans`",
    "`torchviz.make_dot`",
    "`jax.make_jaxpr`",
    "`optimizer.step()`",
    "`optax.apply_updates`",
}


def main():
    with_torch = names(torch.from_numpy, torch=torch, F=nnf)
    with_jax = names(jnp.asarray, jax=jax, jnp=jnp, key=jax.random.key(7))
    rows, title = [], ""
    for line in PAGE.read_text().splitlines():
        title = line[3:] if line.startswith("## ") else title
        if not line.startswith("| ") or line.startswith("| PyTorch"):
            continue
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if any(re.search(rf"(?<![\w.]){letter}(?!\w)", cells[2]) for letter in LETTERS):
            continue
        random = title.startswith("Random")
        by_magnitude = re.search(r"\.(qr|qr_complete|svd|svd_full|eigh)\(", cells[2]) is not None
        found = []
        for cell, scope in zip(cells, (with_torch, with_jax)):
            if random and ("Generator" in cell or "key(7)" in cell or "split" in cell or "fold_in" in cell):
                continue
            try:
                answer = value(cell, scope)
            except Exception as error:
                sys.exit(f"{cell}: {error}")
            if answer is not None:
                found.append([abs(leaf) if by_magnitude else leaf for leaf in answer])
        for other in found[1:]:
            shapes = [[leaf.shape for leaf in each] for each in (found[0], other)]
            size = max([1.0] + [abs(leaf).max(initial=0.0) for leaf in other])
            if shapes[0] != shapes[1]:
                sys.exit(f"{cells}: shapes {shapes}")
            if not random and any(abs(one - two).max() > AGREEMENT * size for one, two in zip(found[0], other)):
                sys.exit(f"{cells}: {found[0]} and {other}")
        entry = None
        if found:
            entry = [
                {
                    "shape": list(leaf.shape),
                    "numbers": None if random else leaf.ravel().tolist(),
                    "gap": 0.0 if random else float(abs(leaf - other).max(initial=0.0)),
                }
                for leaf, other in zip(found[0], found[-1])
            ]
        rows.append({"code": re.sub(r"\s", "", cells[2].strip("`").replace(r"\|", "|")), "leaves": entry})
    text = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    GOLDEN.write_text(f'{{"versions": {json.dumps(VERSIONS)}, "rows": [\n{text}\n]}}\n')
    print(f"{len(rows)} rows, {sum(row['leaves'] is not None for row in rows)} with values")


if __name__ == "__main__":
    main()
