"""The rows of `docs/coming-from.md` that have derivatives, by PyTorch and JAX.

    pip install jax torch
    python bench/golden/page.py

A row whose cell of Glassgrad uses a letter of `LETTERS` is a case like those of `operations.py`: value, gradient and
Hessian product of the weighted sum, with respect to every letter in floating point, by both peers where both have the
operation. The name of a case is its cell of Glassgrad without spaces; its inputs are its letters in alphabetical
order. `crates/glassgrad/tests/golden/page.rs` has the same expressions.
"""

import re
import sys

import numpy as np
import oracles
from coming_from import GIVEN, LETTERS, PAGE
from operations import CASES, TESTS, computed, given, written
from peers import jax, jnp, nnf, torch

TRIGAMMA = "its trigamma is off by 1e-9"

# Rows for which one peer is no reference, and why.
NO_REFERENCE = {
    "t.bessel_j(0)": ("torch", "no derivative of bessel_j0"),
    "t.bessel_j(1)": ("torch", "no derivative of bessel_j1"),
    "Beta{alpha:t.exp(),beta:u.exp()}.log_probability(&p)": ("torch", TRIGAMMA),
    "Beta{alpha:p.clone(),beta:u.exp()}.kl_divergence(&Beta{alpha:t.exp(),beta:p.clone()})": ("torch", TRIGAMMA),
    "Dirichlet{concentration:t.exp()}.kl_divergence(&Dirichlet{concentration:u.exp()})": ("torch", TRIGAMMA),
    "Gamma{concentration:p.clone(),rate:u.exp()}.kl_divergence(&Gamma{concentration:t.exp(),rate:p.clone()})": (
        "torch",
        TRIGAMMA,
    ),
    "loss::cosine_embedding(&t,&u,&Tensor::from([1.0,-1.0]).cast(t.dtype()),-0.9)": (
        "torch",
        "adds 1e-12 to squared lengths",
    ),
    "loss::ctc(&photo.move_axis(0,1).log_softmax(-1),&Tensor::from([[1_i64,2,2],[3,1,0]]),&Tensor::from([5_i64,4]),&Tensor::from([3_i64,2]),0)": (
        "torch",
        "no second derivative of ctc_loss",
    ),
    "(2.0*&t).hardsigmoid()": ("torch", "no second derivative of hardsigmoid"),
    "t.floor_divide(&u)": ("torch", "no derivative of floor_divide"),
}


def rows():
    """The cells of the rows that have derivatives, their letters, and the title of their section."""
    title = ""
    for line in PAGE.read_text().splitlines():
        title = line[3:] if line.startswith("## ") else title
        if line.startswith("| ") and not line.startswith("| PyTorch"):
            cells = [cell.strip().replace(r"\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            letters = sorted(name for name in GIVEN if re.search(rf"(?<![\w.]){name}(?!\w)", cells[2]))
            if any(letter in LETTERS for letter in letters):
                yield cells, letters, title


def function(cells, letters):
    scopes = {
        "torch": {"torch": torch, "F": nnf} | oracles.TORCH,
        "jax": {"jax": jax, "jnp": jnp} | oracles.JAX,
    }
    code = dict(zip(("torch", "jax"), cells))

    def value(peer, *inputs):
        return eval(code[peer.name].strip("`"), scopes[peer.name] | dict(zip(letters, inputs)))

    return value


def main():
    files = {"page.json": [], "page_linalg.json": [], "page_fft.json": []}
    for cells, letters, title in rows():
        name = re.sub(r"\s", "", cells[2].strip("`"))
        without = NO_REFERENCE.get(name, ("", ""))[0]
        peers = [peer for peer, cell in zip(("torch", "jax"), cells) if cell != "-" and peer != without]
        assert peers and name not in CASES, name
        inputs = [given(np.array(GIVEN[letter])) for letter in letters]
        CASES[name] = (inputs, function(cells, letters), peers[0] if len(peers) == 1 else None)
        # Features of the library that are optional have files of their own.
        feature = next((feature for feature in ("linalg", "fft") if f"`{feature}`" in title), None)
        files[f"page_{feature}.json" if feature else "page.json"].append(name)
    failures = []
    for name in CASES:
        try:
            computed(name)
        except (Exception, SystemExit) as error:
            failures.append(f"{name}: {error}")
    if failures:
        sys.exit("\n".join(failures))
    for file, names in files.items():
        written(TESTS / file, names, "python bench/golden/page.py")


if __name__ == "__main__":
    main()
