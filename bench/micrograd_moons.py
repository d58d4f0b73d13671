"""A training step of micrograd's demonstration, beside the same step in Glassgrad.

Both train a network of 2, 16, 16 and 1 neurons on the same 100 points, from the same weights, with
hinge loss, a weight decay of 1e-4 and plain gradient descent. They take turns, and the losses must
agree. Python's garbage collector takes most of micrograd's time, so a step is also timed without
it; what earlier steps left behind is collected between the steps, outside the time.

Usage, from the root of the repository:

    bench/run micrograd
"""

import argparse
import csv
import gc
import json
import pathlib
import statistics
import subprocess
import sys
import time

try:
    from micrograd.engine import Value
    from micrograd.nn import MLP
except ImportError:
    sys.exit("error: micrograd is not installed in this Python; `bench/run` makes an environment that has it")

ROOT = pathlib.Path(__file__).resolve().parent.parent
DATA = ROOT / "crates/glassgrad/examples/data/moons_micrograd_seed1337_n100_noise0.1.csv"
LEARNING_RATE = 0.1
WEIGHT_DECAY = 1e-4


def read_points():
    """Each point, and its side: -1 or 1."""
    with DATA.open() as file:
        rows = list(csv.DictReader(file))
    return [([float(row["x0"]), float(row["x1"])], 2.0 * float(row["label"]) - 1.0) for row in rows]


def centred_numbers(state):
    """Knuth's linear congruential generator: numbers between -1 and 1, the same as in the Rust program."""
    while True:
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        yield (state >> 11) / 2**52 - 1.0


def make_model():
    """Weights between -1 and 1, biases 0."""
    model = MLP(2, [16, 16, 1])
    numbers = centred_numbers(1337)
    for layer in model.layers:
        for neuron in layer.neurons:
            for weight in neuron.w:
                weight.data = next(numbers)
            neuron.b.data = 0.0
    return model


def step(model, points):
    """One step of gradient descent over all points; returns the loss before it."""
    margins = []
    for point, side in points:
        score = model([Value(coordinate) for coordinate in point])
        margins.append((1 + -side * score).relu())
    decay = WEIGHT_DECAY * sum(parameter * parameter for parameter in model.parameters())
    loss = sum(margins) * (1.0 / len(margins)) + decay
    model.zero_grad()
    loss.backward()
    for parameter in model.parameters():
        parameter.data -= LEARNING_RATE * parameter.grad
    return loss.data


def timed_step(model, points, collector):
    """The loss before a step, and its time with or without the garbage collector."""
    gc.collect()
    if not collector:
        gc.disable()
    start = time.perf_counter()
    loss = step(model, points)
    seconds = time.perf_counter() - start
    gc.enable()
    return loss, seconds


def run_glassgrad(command):
    """The report of `peers moons --json`."""
    outcome = subprocess.run([*command, "moons", "--json"], stdout=subprocess.PIPE, text=True, check=False)
    if outcome.returncode != 0:
        sys.exit(f"error: `{' '.join(command)} moons --json` failed with status {outcome.returncode}")
    return json.loads(outcome.stdout)


def compare_losses(ours, theirs):
    worst = max(abs(a - b) for a, b in zip(ours, theirs))
    if not worst < 1e-9:
        sys.exit(f"error: the losses of micrograd and Glassgrad differ by {worst:.1e}, so they do different work")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=11, help="turns of each (default 11)")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")
    parser.add_argument("command", nargs="+", help="the command that runs the program `peers`")
    options = parser.parse_args()

    points, model = read_points(), make_model()
    losses = []
    times = {"micrograd": [], "micrograd_without_collector": [], "glassgrad_record": [], "glassgrad_replay": []}
    for _ in range(options.rounds):
        for name, collector in [("micrograd", True), ("micrograd_without_collector", False)]:
            loss, seconds = timed_step(model, points, collector)
            losses.append(loss)
            times[name].append(seconds)
        report = run_glassgrad(options.command)
        times["glassgrad_record"].append(report["record_seconds"])
        times["glassgrad_replay"].append(report["replay_seconds"])
        compare_losses(losses, report["losses"])

    medians = {name: statistics.median(seconds) for name, seconds in times.items()}
    if options.json:
        print(json.dumps({"rounds": options.rounds, "seconds": medians}))
    else:
        print_table(medians, options.rounds)


def print_table(medians, rounds):
    """Times, and how many times longer micrograd takes than Glassgrad."""
    print("# A training step on the moons, micrograd and Glassgrad\n")
    print(f"Medians of {rounds} turns; the losses agree to 1e-9.\n")
    print("| library | time | × Glassgrad, record | × Glassgrad, replay |")
    print("|---|--:|--:|--:|")
    for name, seconds in medians.items():
        record, replay = seconds / medians["glassgrad_record"], seconds / medians["glassgrad_replay"]
        print(f"| {name.replace('_', ' ')} | {1e3 * seconds:.3f} ms | {record:.1f} | {replay:.1f} |")


if __name__ == "__main__":
    main()
