"""Glassgrad beside PyTorch and JAX on one GPU: the same work on the same numbers, one table from one run.

Glassgrad runs as a process that answers `prepare NAME` and `run`; PyTorch is measured eagerly and as a replayed CUDA graph, JAX
as a compiled step and, for training, as a loop inside one compiled function. Times are medians of rounds, each a batch of
runs back to back that ends with a synchronisation. Products are in full 32-bit precision everywhere (no TF32). Engines whose first losses differ from
Glassgrad's are marked. `bench/run gpu` starts this program.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

# Otherwise JAX reserves most of the GPU's memory, and the others run out of it.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "peers_python"))

import numpy  # noqa: E402

import data  # noqa: E402
import formulas  # noqa: E402

WORKLOADS = {
    "iris_step": "Iris MLP 4-10-3 tanh, full batch 120, SGD, step",
    "mnist_64": "MNIST MLP 784-1568-392-10, SGD and weight decay, step, batch 64",
    "mnist_512": "the same, batch 512",
    "mlp_4096": "MLP 4096-4096-4096-4096-1000, step, batch 4096",
    "elementwise_67108864": "gradient of Σ tanh(x)·y + exp(-x), 64 Mi f32",
    "logistic_hessian_1000": "dense Hessian of logistic regression, n = 1000, m = 2n, f64",
    "logistic_hessian_4000": "the same, n = 4000",
    "lenet": "LeNet-like CNN, Adam, step, batch 64",
    "lstm": "LSTM 32→64, T = 50, Adam, step, batch 32",
    "transformer": "Transformer block d = 128, 4 heads, T = 64, batch 16, gradient",
}
ENGINES = ["glassgrad", "torch eager", "torch graph", "jax", "jax loop"]
TURN = 0.1


def wide(width, batch):
    """The parameters, inputs and classes of a network of four layers of one width."""
    source = data.Source()
    sizes = [width] * 4 + [1000]
    parameters = [array for pair in zip(sizes, sizes[1:]) for array in source.layer(*pair)]
    return parameters, source.uniform((batch, width), 0.0, 1.0), source.classes(batch, 1000)


def perceptron(name):
    """Parameters, inputs, classes, activation and weight decay of a workload that is a multilayer perceptron."""
    if name == "iris_step":
        return *data.iris(), "tanh", 0.0
    if name == "mlp_4096":
        return *wide(4096, 4096), "relu", 1e-4
    return *data.mnist(int(name.split("_")[1])), "relu", 1e-4


def timed(run, synchronise, rounds):
    """The median seconds of a run."""
    for _ in range(3):
        run()
    synchronise()
    start = time.perf_counter()
    run()
    synchronise()
    count = max(3, min(1000, int(TURN / max(time.perf_counter() - start, 1e-9))))
    seconds = []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(count):
            run()
        synchronise()
        seconds.append((time.perf_counter() - start) / count)
    return statistics.median(seconds)


class Glassgrad:
    """The program as a server."""

    def __init__(self, program, device, options=()):
        command = [program, "bench", "--serve", "--device", device, *options]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        text = self.process.stdout.readline()
        answer = json.loads(text) if text else {"error": "the process ended"}
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer

    def measure(self, name, rounds):
        first = self.ask(f"prepare {name}")
        return statistics.median(self.ask("run")["seconds"] for _ in range(rounds)), first["values"][0]


def torch_workload(name):
    """A step that leaves its loss in a tensor, and whether the loss may be compared; or None if there is none."""
    import torch
    from torch.nn import functional as F

    import torch_engine

    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    device = "cuda"

    def training(model, optimizer, x, classes):
        x, classes = torch.tensor(x, device=device), torch.tensor(classes, device=device)

        def step():
            optimizer.zero_grad(set_to_none=True)
            loss = F.cross_entropy(model(x), classes)
            loss.backward()
            optimizer.step()
            return loss

        return step

    if name in ("iris_step", "mnist_64", "mnist_512", "mlp_4096"):
        parameters, x, classes, activation, decay = perceptron(name)
        layers = []
        for weight, bias in zip(parameters[::2], parameters[1::2]):
            layers += [torch_engine.linear(weight, bias), torch.nn.Tanh() if activation == "tanh" else torch.nn.ReLU()]
        model = torch.nn.Sequential(*layers[:-1]).to(device)
        return training(model, torch.optim.SGD(model.parameters(), lr=0.05, weight_decay=decay), x, classes)
    if name == "lenet":
        (k1, c1, k2, c2, w1, b1, w2, b2), x, classes = data.lenet()
        convolution, linear, nn = torch_engine.convolution, torch_engine.linear, torch.nn
        model = nn.Sequential(
            convolution(k1, c1), nn.ReLU(), nn.MaxPool2d(2), convolution(k2, c2), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), linear(w1, b1), nn.ReLU(), linear(w2, b2)).to(device)
        return training(model, torch.optim.Adam(model.parameters(), capturable=True), x, classes)
    if name == "lstm":
        (input_weight, state_weight, input_bias, state_bias, weight, bias), [(x, classes)] = data.lstm([50])
        memory, last = torch.nn.LSTM(32, 64), torch_engine.linear(weight, bias)
        with torch.no_grad():
            for target, source in [(memory.weight_ih_l0, input_weight.T), (memory.weight_hh_l0, state_weight.T),
                                   (memory.bias_ih_l0, input_bias), (memory.bias_hh_l0, state_bias)]:
                target.copy_(torch.tensor(source))
        memory, last = memory.to(device), last.to(device)
        optimizer = torch.optim.Adam([*memory.parameters(), *last.parameters()], capturable=True)
        return training(lambda x: last(memory(x)[0][-1]), optimizer, x, classes)
    if name.startswith("elementwise"):
        x, y = (torch.tensor(array, device=device) for array in data.elementwise(int(name.split("_")[1])))
        x.requires_grad_()

        def gradient():
            x.grad = None
            loss = (torch.tanh(x) * y + torch.exp(-x)).sum()
            loss.backward()
            return loss

        return gradient
    if name.startswith("logistic"):
        from torch.func import hessian

        weights, examples, sides = (torch.tensor(array, device=device) for array in data.logistic(int(name.split("_")[2])))
        function = hessian(lambda w: torch.log1p(torch.exp(-sides * (examples @ w))).sum())
        return lambda: function(weights)
    return None


def torch_graph(step):
    """The step captured as a CUDA graph."""
    import torch

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def jax_workload(name):
    """(a run, the first loss or None, a run of a loop of steps or None, the steps of that loop)."""
    import jax
    import jax.numpy as np

    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_default_matmul_precision", "highest")
    import jax_engine

    def training(step, state):
        """A state that is updated in place, and a loop of a hundred steps."""
        compiled = jax.jit(step, donate_argnums=0)
        looped = jax.jit(lambda s: jax.lax.fori_loop(0, 100, lambda _, s: step(s)[1], s))
        first = float(jax.jit(step)(state)[0])
        held = [jax.tree.map(np.copy, state), state]

        def run():
            loss, held[0] = compiled(held[0])
            return loss

        return run, first, lambda: looped(held[1]), 100

    if name in ("iris_step", "mnist_64", "mnist_512", "mlp_4096"):
        parameters, x, classes, activation, decay = perceptron(name)
        x, targets = np.asarray(x), jax_engine.one_hot(classes, parameters[-1].shape[0])
        act = np.tanh if activation == "tanh" else jax.nn.relu

        def loss(parameters):
            hidden = x
            for layer in range(0, len(parameters), 2):
                hidden = hidden @ parameters[layer] + parameters[layer + 1]
                hidden = act(hidden) if layer + 2 < len(parameters) else hidden
            return formulas.cross_entropy(np, hidden, targets)

        def step(parameters):
            value, gradients = jax.value_and_grad(loss)(parameters)
            return value, [p - 0.05 * (g + decay * p) for p, g in zip(parameters, gradients)]

        return training(step, jax_engine.arrays(parameters))
    if name in ("lenet", "lstm"):
        if name == "lenet":
            parameters, x, classes = data.lenet()

            def loss(parameters, x, targets):
                *convolutions, w1, b1, w2, b2 = parameters
                hidden = np.maximum(jax_engine.convolved(convolutions, x, "VALID") @ w1 + b1, 0)
                return formulas.cross_entropy(np, hidden @ w2 + b2, targets)
        else:
            parameters, [(x, classes)] = data.lstm([50])

            def loss(parameters, x, targets):
                input_weight, state_weight, input_bias, state_bias, weight, bias = parameters
                from_inputs = x @ input_weight + (input_bias + state_bias)
                zeros = np.zeros((x.shape[1], 64), x.dtype)
                advance = lambda state, entry: (formulas.lstm_step(np, state_weight, state, entry), None)
                (output, _), _ = jax.lax.scan(advance, (zeros, zeros), from_inputs)
                return formulas.cross_entropy(np, output @ weight + bias, targets)
        x, targets = np.asarray(x), jax_engine.one_hot(classes, 10)

        def step(state):
            number, parameters, means, squares = state
            value, gradients = jax.value_and_grad(loss)(parameters, x, targets)
            return value, [number + 1, *formulas.adam_step(np, number, parameters, means, squares, gradients)]

        zeros = [np.zeros_like(parameter) for parameter in parameters]
        return training(step, [np.float32(1), jax_engine.arrays(parameters), zeros, list(zeros)])
    if name.startswith("elementwise"):
        x, y = jax_engine.arrays(data.elementwise(int(name.split("_")[1])))
        function = jax.jit(jax.grad(lambda x: formulas.elementwise(np, x, y)))
        return lambda: function(x), None, None, 0
    if name.startswith("logistic"):
        weights, examples, sides = jax_engine.arrays(data.logistic(int(name.split("_")[2])))
        function = jax.jit(jax.hessian(lambda w: formulas.logistic(np, w, examples, sides)))
        return lambda: function(weights), None, None, 0
    if name == "transformer":
        parameters, x = data.transformer()
        x = np.asarray(x)
        function = jax.jit(jax.grad(lambda p: formulas.transformer(np, jax.lax.erf, p, x)))
        held = jax_engine.arrays(parameters)
        return lambda: function(held), None, None, 0
    return None


def close(ours, theirs):
    return ours is None or theirs is None or abs(ours - theirs) <= 1e-4 * max(abs(ours), abs(theirs))


def measure(name, glassgrad, rounds, engines, report):
    """Seconds of each engine by name, or why there are none."""
    outcome, expected = {}, None

    def attempt(engine, measured):
        report(f"{name}: {engine}")
        try:
            seconds, first = measured()
            outcome[engine] = seconds if close(expected, first) else f"first loss {first:.6g}, Glassgrad {expected:.6g}"
            return first
        except Exception as error:  # Whatever a peer raises is its row's text.
            outcome[engine] = str(error).split("\n")[0][:80]

    is_training = not name.startswith(("elementwise", "logistic", "transformer"))
    if glassgrad is not None:
        expected = attempt("glassgrad", lambda: glassgrad.measure(name, rounds))
        expected = expected if is_training else None
    if "torch" in engines:
        import torch

        made = torch_workload(name)
        if made is not None:
            def eager():
                first = made()
                first = float(first.detach()) if is_training else None
                return timed(made, torch.cuda.synchronize, rounds), first

            attempt("torch eager", eager)
            if not name.startswith("logistic"):
                attempt("torch graph", lambda: (timed(torch_graph(made), torch.cuda.synchronize, rounds), None))
        del made
        torch.cuda.empty_cache()
    if "jax" in engines:
        import jax

        made = jax_workload(name)
        if made is not None:
            run, first, loop, count = made
            last = [None]

            def keep(function):
                def call():
                    last[0] = function()
                return call

            wait = lambda: jax.block_until_ready(last[0])
            attempt("jax", lambda: (timed(keep(run), wait, rounds), first))
            if loop is not None:
                attempt("jax loop", lambda: (timed(keep(loop), wait, rounds) / count, None))
        del made
    return outcome


def shown(seconds):
    if not isinstance(seconds, float):
        return "-" if seconds is None else "failed"
    for unit, scale in [("s", 1.0), ("ms", 1e3)]:
        if seconds * scale >= 1.0:
            return f"{seconds * scale:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--glassgrad", default=None, help="the program glassgrad; without it the peers alone are measured")
    parser.add_argument("--device", default="cuda:0", help="the device of Glassgrad")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", action="append", choices=list(WORKLOADS), help="a workload, instead of all; may be repeated")
    parser.add_argument("--engine", action="append", choices=["torch", "jax"], help="a peer, instead of both; may be repeated")
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--json", type=pathlib.Path, help="write the times to this file")
    options = parser.parse_args()
    engines = [] if options.no_peers else options.engine or ["torch", "jax"]
    glassgrad = Glassgrad(options.glassgrad, options.device) if options.glassgrad else None
    started = time.perf_counter()
    report = lambda text: print(f"{time.perf_counter() - started:6.1f} s  {text}", file=sys.stderr, flush=True)
    all_times = {}
    print("| work | " + " | ".join(ENGINES) + " |\n|---|" + "--:|" * len(ENGINES), flush=True)
    for name in options.only or WORKLOADS:
        outcome = measure(name, glassgrad, options.rounds, engines, report)
        all_times[name] = outcome
        row = [WORKLOADS[name], *(shown(outcome.get(engine)) for engine in ENGINES)]
        print("| " + " | ".join(row) + " |", flush=True)
        for engine, reason in outcome.items():
            if isinstance(reason, str):
                report(f"{name}: {engine}: {reason}")
        if options.json:
            options.json.write_text(json.dumps(all_times, indent=1))
    if glassgrad is not None:
        glassgrad.process.kill()


if __name__ == "__main__":
    main()
