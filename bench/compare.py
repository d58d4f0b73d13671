"""Glassgrad beside other engines on the same work: rounds alternate between processes that stay warm.

Each engine is a process that answers lines on its standard output: `prepare NAME` makes a workload ready, runs it a few
times and tells what came out; `run` times it once more. Engines whose results differ from Glassgrad's are not timed.
`bench/run all` starts this program with everything that it needs.
"""

import argparse
import datetime
import json
import math
import os
import pathlib
import platform
import select
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PYTHON = ROOT / "bench/peers_python"

WORKLOADS = {
    "iris": "Iris MLP 4-10-3 tanh, full batch 120, SGD, 100 epochs",
    "iris_define_by_run": "the same; Glassgrad builds the graph of every step anew, as PyTorch does",
    "mnist_64": "MNIST MLP 784-1568-392-10, SGD and weight decay, step, batch 64",
    "mnist_128": "the same, batch 128",
    "mnist_512": "the same, batch 512",
    "elementwise_1000": "gradient of Σ tanh(x)·y + exp(-x), 1,000 f32",
    "elementwise_1000000": "the same, 1,000,000 f32",
    "lenet": "LeNet-like CNN, Adam, step, batch 64",
    "cnn": "CNN 16-32-128 with padding and dropout, Adam, step, batch 128",
    "lstm": "LSTM 32→64, T = 50, Adam, step, batch 32",
    "lstm_lengths": "the same, three steps with T = 30, 40, 50",
    "transformer": "Transformer block d = 128, 4 heads, T = 64, batch 16, forwards and backwards",
    "logistic_hessian_100": "dense Hessian of logistic regression, n = 100, m = 2n, f64",
    "logistic_hessian_500": "the same, n = 500",
    "logistic_hessian_1000": "the same, n = 1000",
    "factorization_hessian_50": "dense Hessian of ‖T - UVᵀ‖² in U, (n, k) = (50, 5), f64",
    "factorization_hessian_100": "the same, (n, k) = (100, 5)",
    "moons": "scalar MLP 2-16-16-1 on two moons, step, 100 points",
}

# Whole networks as people train them: `bench/run networks`.
NETWORKS = {
    "resnet18": "ResNet-18 (CIFAR), SGD with momentum, step, batch 32",
    "resnet18_bf16": "the same in mixed precision (bf16)",
    "character_gpt": "character GPT 6×384, 6 heads, AdamW, step, 8×128 tokens",
    "character_gpt_bf16": "the same in mixed precision (bf16)",
    "generation_cached": "16 tokens of that GPT, KV cache, context 128",
    "generation": "the same, the whole context for each token",
    "lstm_3x256": "LSTM 3×256, T = 100, Adam, step, batch 32",
    "vae": "VAE 784-400-20, Adam, step, batch 128",
    "pinn": "PINN 2-64-64-64-1, Laplacian, Adam, step, 4096 points",
    "graph": "graph network, width 64, 20k nodes, 200k edges, Adam, step",
}

# The workloads of 64 bits; results of the others agree to fewer digits.
EXACT = ("logistic", "factorization", "moons", "network", "joint")
# An engine that is slow has fewer rounds: (seconds of a run, rounds).
SLOW = [(20.0, 1), (2.0, 3), (0.5, 7)]
# Threads of a library may spin for a while after their work. They must not disturb whose turn is next.
PAUSE = 0.03
THREADS = 2
# On a machine that others use: one thread, and the time that a process had a processor instead of the clock.
BUSY_HELP = "for a machine that other programs use: one thread, and processor time instead of the clock"
# The name of another build of Glassgrad that is measured beside this one.
BASELINE = "Glassgrad (baseline)"


class Refused(Exception):
    """Why an engine has no time for a workload."""


class Engine:
    """A process, started anew if it died."""

    threads = THREADS
    # Whether times are those that the process had a processor.
    processor_time = False

    def __init__(self, name, command, workloads, patience):
        self.name, self.command, self.workloads, self.patience = name, command, workloads, patience
        self.process = None
        self.log = ROOT / "target/bench" / f"{name.replace(' ', '_')}.log"

    def ask(self, line):
        """The answer to a line."""
        if self.process is None:
            self.start()
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
            ready, _, _ = select.select([self.process.stdout], [], [], self.patience)
            text = self.process.stdout.readline() if ready else None
        except BrokenPipeError:
            text = ""
        if not text:
            self.stop()
            raise Refused(f"no answer in {self.patience:g} s" if text is None else f"the process ended: {self.last_words()}")
        answer = json.loads(text)
        if "error" in answer:
            raise Refused(answer["error"])
        return answer

    def turn(self):
        """The seconds of one run of what was prepared."""
        if not Engine.processor_time:
            return self.ask("run")["seconds"]
        before, start = self.processor_seconds(), time.perf_counter()
        seconds = self.ask("run")["seconds"]
        return seconds * min(1.0, (self.processor_seconds() - before) / (time.perf_counter() - start))

    def processor_seconds(self):
        """How long the threads of the process have run."""
        tasks = pathlib.Path(f"/proc/{self.process.pid}/task").glob("*/schedstat")
        return sum(1e-9 * int(task.read_text().split()[0]) for task in tasks)

    def start(self):
        threads = {name: str(Engine.threads) for name in THREAD_VARIABLES}
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, cwd=ROOT,
                env=os.environ | threads)

    def last_words(self):
        lines = self.log.read_text().split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "without a word")

    def stop(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


THREAD_VARIABLES = ["OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "GLASSGRAD_THREADS"]


def tolerance(workload):
    """How closely results must agree, relatively: what sums of many terms leave of the digits, in 64 bits, in 32 or in 16."""
    if workload.endswith("_bf16"):
        return 2e-2
    return 1e-8 if workload.startswith(EXACT) else 1e-4


def disagreement(workload, ours, theirs):
    """In what the values of two engines differ, if they do."""
    bound = tolerance(workload)
    for step, (a, b) in enumerate(zip(ours["values"], theirs["values"], strict=True), 1):
        if not abs(a - b) <= bound * max(abs(a), abs(b)):
            return f"run {step} gives {b:.9g}, but Glassgrad {a:.9g}"
    return None


def race(workload, engines, rounds, report, disagreement=disagreement):
    """What was measured of each engine, and why others were not, by name."""
    outcome, active, ours = {}, [], None
    for engine in engines:
        if workload not in engine.workloads:
            continue
        report(f"{workload}: preparing {engine.name}")
        try:
            answer = engine.ask(f"prepare {workload}")
            if ours is None and engine.name == "glassgrad":
                ours = answer
            if ours is not None and (reason := disagreement(workload, ours, answer)):
                raise Refused(reason)
        except (Refused, OSError, ValueError) as reason:
            outcome[engine.name] = {"reason": str(reason)}
            continue
        outcome[engine.name] = {"first_seconds": answer["first_seconds"], "seconds": [], "facts": answer.get("facts")}
        active.append(engine)
    planned = {}
    for turn in range(rounds):
        # Each round begins with another engine, so that nobody always follows the same one.
        for engine in active[turn % max(len(active), 1):] + active[: turn % max(len(active), 1)]:
            measured = outcome[engine.name]
            if "reason" in measured or turn >= planned.get(engine.name, rounds):
                continue
            report(f"{workload}: round {turn + 1} of {rounds}, {engine.name}")
            time.sleep(PAUSE)
            try:
                seconds = engine.turn()
            except (Refused, OSError, ValueError) as reason:
                outcome[engine.name] = {"reason": str(reason)}
                continue
            measured["seconds"].append(seconds)
            fewer = next((few for limit, few in SLOW if seconds > limit), rounds)
            planned.setdefault(engine.name, min(rounds, fewer))
    return {name: summary(measured) for name, measured in outcome.items()}


def summary(measured):
    if "reason" in measured:
        return measured
    seconds = sorted(measured["seconds"])
    lower, median, upper = quartiles(seconds)
    found = {"median_seconds": median, "lower_quartile_seconds": lower, "upper_quartile_seconds": upper,
             "first_seconds": measured["first_seconds"], "rounds": len(seconds), "turns_seconds": measured["seconds"]}
    return found | ({"facts": measured["facts"]} if measured["facts"] else {})


def quartiles(ascending):
    if len(ascending) == 1:
        return ascending * 3
    return statistics.quantiles(ascending, n=4, method="inclusive")


def machine():
    name = platform.processor() or platform.machine()
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
        name = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    return {"processor": name, "cores": os.cpu_count(), "threads": Engine.threads, "system": platform.platform(),
            "clock": "processor time" if Engine.processor_time else "elapsed time"}


def output_of(*command):
    try:
        return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def versions_of(engines):
    found = {"python": platform.python_version(), "rustc": output_of("rustc", "--version").removeprefix("rustc ")}
    for engine in engines:
        try:
            found |= engine.ask("versions")["versions"] if engine.name not in ("glassgrad", BASELINE) else {}
        except (Refused, OSError, ValueError) as reason:
            found[engine.name] = f"cannot start: {reason}"
    return found


def readable(seconds):
    for limit, factor, unit in [(1e-3, 1e6, "µs"), (1.0, 1e3, "ms"), (math.inf, 1.0, "s")]:
        if seconds < limit:
            scaled = factor * seconds
            return f"{scaled:.{2 if scaled < 10 else 1 if scaled < 100 else 0}f} {unit}"


def table(result, engines):
    """The result as text for people: times, and how many times longer than Glassgrad the others take."""
    machine, versions = result["machine"], result["versions"]
    notes = []

    def rows(describe):
        heads = ["Glassgrad" if engine == "glassgrad" else engine for engine in engines]
        yield "| work | " + " | ".join(heads) + " |"
        yield "|---|" + "--:|" * len(engines)
        for workload, outcome in result["workloads"].items():
            ours = outcome.get("glassgrad", {}).get("median_seconds")
            cells = [cell(outcome.get(engine), notes, lambda measured: describe(engine, measured, ours))
                     for engine in engines]
            yield f"| {(WORKLOADS | NETWORKS)[workload]} | " + " | ".join(cells) + " |"

    def time_and_ratio(engine, measured, ours):
        fewer = f" (n={measured['rounds']})" if measured["rounds"] < result["rounds"] else ""
        against = f" **×{digits(measured['median_seconds'] / ours)}**" if ours and engine != "glassgrad" else ""
        return readable(measured["median_seconds"]) + against + fewer

    def spread(_engine, measured, _ours):
        return " – ".join(readable(measured[f"{end}_quartile_seconds"]) for end in ("lower", "upper"))

    def first(_engine, measured, _ours):
        return readable(measured["first_seconds"])

    lines = ["# Glassgrad beside other engines", "",
             f"{machine['processor']}, {machine['threads']} threads for all, {machine['clock']}; commit {result['commit']}; {result['date']};",
             ", ".join(f"{name} {version}" for name, version in versions.items()) + ".", "",
             f"Medians of {result['rounds']} rounds by turns, (n=…) where there were fewer. ×: how many times longer than "
             "Glassgrad, so above 1 Glassgrad is faster.", "", *rows(time_and_ratio), "",
             "## Quartiles", "", *rows(spread), "",
             "## The first run, with all that is planned or compiled once", "", *rows(first), ""]
    # The notes come last, but are numbered by the rows.
    lines += [f"{number}. {reason}" for number, reason in enumerate(notes, 1)]
    return "\n".join(lines).rstrip() + "\n"


def cell(measured, notes, describe):
    """Empty for what an engine is not asked, and a dash with a note for what it could not do."""
    if measured is None:
        return ""
    if "reason" not in measured:
        return describe(measured)
    if measured["reason"] not in notes:
        notes.append(measured["reason"])
    return f"— ({notes.index(measured['reason']) + 1})"


def digits(number):
    """A number with about three digits."""
    decimals = 0 if number >= 100 else 1 if number >= 10 else 2 if number >= 0.1 else 4
    return f"{number:.{decimals}f}"


def main():
    parser = argparse.ArgumentParser(prog="bench/run all", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=21, help="turns of each engine (default 21)")
    parser.add_argument("--networks", action="store_true", help="whole networks, instead of the workloads of `bench/run all`")
    parser.add_argument("--only", action="append", choices=WORKLOADS | NETWORKS, metavar="NAME", help="a workload, instead of all")
    parser.add_argument("--engine", action="append", metavar="NAME", help="an engine beside Glassgrad, instead of all")
    parser.add_argument("--patience", type=float, default=300.0, help="seconds before an engine is given up (300)")
    parser.add_argument("--baseline", metavar="PATH", help="another build of the program glassgrad, as one more engine")
    parser.add_argument("--busy", action="store_true", help=BUSY_HELP)
    parser.add_argument("--glassgrad", required=True, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error("--rounds must be 1 or more")
    if options.busy:
        measure_processor_time()

    workloads, stem = (NETWORKS, "networks") if options.networks else (WORKLOADS, "table")
    tensors = [name for name in WORKLOADS | NETWORKS if name != "moons"]
    # Mixed precision is measured beside PyTorch's.
    full = [name for name in tensors if not name.endswith("_bf16")]
    script = lambda name, *arguments: [sys.executable, str(PYTHON / f"{name}_engine.py"), *arguments]
    peers = {
        "PyTorch": (script("torch"), tensors),
        "PyTorch compiled": (script("torch", "--compiled"), tensors),
        "JAX": (script("jax"), full),
        "Autograd": (script("autograd"), [name for name in tensors if name not in NETWORKS]),
        "micrograd": (script("micrograd"), ["moons"]),
    }
    if unknown := [name for name in options.engine or [] if name not in peers]:
        parser.error(f"there is no engine '{unknown[0]}'; there are {', '.join(peers)}")
    chosen = {name: peers[name] for name in peers if not options.engine or name in options.engine}
    (ROOT / "target/bench").mkdir(parents=True, exist_ok=True)
    limit_processors()
    engines = [Engine("glassgrad", [options.glassgrad, "bench", "--serve"], list(WORKLOADS | NETWORKS), options.patience)]
    if options.baseline:
        engines.append(Engine(BASELINE, [options.baseline, "bench", "--serve"], engines[0].workloads, options.patience))
    engines += [Engine(name, *peer, options.patience) for name, peer in chosen.items()]

    def report(text):
        if sys.stderr.isatty():
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)

    result = {
        "machine": machine(), "versions": versions_of(engines), "commit": commit(), "rounds": options.rounds,
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"), "workloads": {},
    }
    try:
        for workload in options.only or workloads:
            result["workloads"][workload] = race(workload, engines, options.rounds, report)
            # Written after each workload: a run that is interrupted leaves what it has.
            text = table(result, [engine.name for engine in engines])
            (ROOT / f"target/bench/{stem}.json").write_text(json.dumps(with_ratios(result), indent=1) + "\n")
            (ROOT / f"target/bench/{stem}.md").write_text(text)
    finally:
        for engine in engines:
            engine.stop()
        report("")
    print(text, end="")


def limit_processors():
    """As many processors as threads, for this process and all that it starts: JAX takes what it sees."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: Engine.threads])


def measure_processor_time():
    """One thread for each engine, and processor time."""
    Engine.threads, Engine.processor_time = 1, True


def commit():
    changed = output_of("git", "status", "--porcelain", "--untracked-files=no")
    return output_of("git", "rev-parse", "--short", "HEAD") + (" with changes" if changed else "")


def with_ratios(result):
    """The result, with the ratio of each median to Glassgrad's."""
    for outcome in result["workloads"].values():
        ours = outcome.get("glassgrad", {}).get("median_seconds")
        for measured in outcome.values():
            if ours and "median_seconds" in measured:
                measured["ratio"] = measured["median_seconds"] / ours
    return result


if __name__ == "__main__":
    main()
