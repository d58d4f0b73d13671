"""Hessians of growing problems: Glassgrad's, which keep their structure, beside those of PyTorch and JAX.

Sizes grow until an engine would need more memory or more time than it may have. Both are predicted before anything is
computed: memory from sizes, from what the size before took, or by XLA for its own programs; time from the size before and
from how the work grows. What is left out is in the table, with the reason. `bench/run hessians` starts this program with
everything that it needs; engines, rounds and checks are those of `compare.py`.
"""

import argparse
import dataclasses
import datetime
import json
import math
import pathlib
import subprocess
import sys
import typing

import compare
from compare import Engine, digits, race, readable

FOLDER = compare.ROOT / "target/bench"
SIZES = [10, 20, 50, 100, 200, 500, 1000, 2000, 4000]
NUMBER = 8
OURS = "glassgrad"


@dataclasses.dataclass
class Needs:
    """What an engine needs for a work of size n: bytes from sizes, and the power of n by which its time grows."""

    bytes: typing.Callable
    power: float


@dataclasses.dataclass
class Work:
    """A problem and a question, in growing sizes. `asked` are the names of the question where an engine has another."""

    name: str
    title: str
    sizes: list
    needs: dict
    size: str = "n"
    asked: dict = dataclasses.field(default_factory=dict)


def tangents(count, each, copies):
    """A tangent of some elements for each of some directions, a few of them at once, and two dense Hessians."""
    return NUMBER * (copies * count * each + 2 * count**2)


# PyTorch keeps some tangents at a time. JAX fuses, and XLA itself tells what its program needs, so that only the result counts.
FACTORED = {
    "PyTorch": Needs(lambda n: tangents(10 * n, n * n, 6), 3),
    "JAX": Needs(lambda n: NUMBER * (10 * n) ** 2, 3),
}
WORKS = [
    Work("logistic/held", "Logistic regression, n weights, 2n samples: the dense Hessian", SIZES, {
        OURS: Needs(lambda n: NUMBER * 8 * n * n, 3),
        "PyTorch": Needs(lambda n: tangents(n, 2 * n, 6), 3),
        "JAX": Needs(lambda n: NUMBER * 3 * n * n, 3),
    }),
    Work("factorization/held", "‖T - UVᵀ‖² in U, rank 10: the Hessian", SIZES, {
        OURS: Needs(lambda n: NUMBER * 2 * n * n, 1),
        "Glassgrad, dense array": Needs(lambda n: NUMBER * (2 * (10 * n) ** 2 + 2 * n * n), 2),
    } | FACTORED, asked={"Glassgrad, dense array": "dense"}),
    Work("factorization/factor", "‖T - UVᵀ‖² in U, rank 10: the factorisation of the Hessian", SIZES, {
        OURS: Needs(lambda n: NUMBER * 2 * n * n, 1),
    } | FACTORED),
    Work("factorization/solve", "‖T - UVᵀ‖² in U, rank 10: the Newton direction for a gradient, factorisation included", SIZES, {
        OURS: Needs(lambda n: NUMBER * 2 * n * n, 1),
    } | FACTORED),
    Work("network/held", "Ten layers with rectifiers, softmax cross-entropy, 64 samples: the Hessian in activations", [
        8, 16, 32, 64, 128, 256], {
        OURS: Needs(lambda n: NUMBER * 20 * 64 * n * n, 3),
        "Glassgrad, dense array": Needs(lambda n: NUMBER * 2 * (64 * n) ** 2, 2),
        "PyTorch": Needs(lambda n: tangents(64 * n, 64 * n, 6), 3),
        "JAX": Needs(lambda n: NUMBER * (64 * n) ** 2, 3),
        "JAX, told by sample": Needs(lambda n: NUMBER * 64 * n * n, 3),
    }, "units", {"Glassgrad, dense array": "dense", "JAX, told by sample": "by_sample"}),
    Work("joint/step", "‖T - UVᵀ‖² and a ridge in U and V at once, rank 5: the Newton step, Hessian included", SIZES[:-1], {
        OURS: Needs(lambda n: NUMBER * 6 * (5 * n) ** 2, 3),
        "PyTorch": Needs(lambda n: tangents(10 * n, n * n, 6), 3),
        "JAX": Needs(lambda n: NUMBER * (10 * n) ** 2, 3),
    }),
]
MODES = ["cross-country", "forward", "reverse", "joined"]
MODE_PROBLEMS = {
    "logistic": (500, "logistic regression, n = 500"),
    "factorization": (1000, "‖T - UVᵀ‖² in U, n = 1000, k = 10"),
    "network": (64, "ten layers of 64 units, 64 samples"),
    "joint": (200, "‖T - UVᵀ‖² in U and V, n = 200, k = 5"),
}


class Asked(Engine):
    """An engine that is asked for something else where it has its own way."""

    question = None

    def ask(self, line):
        if line.startswith("prepare ") and self.question:
            problem, _, size = line.removeprefix("prepare ").split("/")
            line = f"prepare {problem}/{self.question}/{size}"
        return super().ask(line)

    def peak_bytes(self):
        """The most memory that the process has held so far, where the system tells."""
        try:
            lines = pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
            return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
        except (OSError, StopIteration, AttributeError):
            return 0


class History:
    """What an engine took for the sizes before, and hence what it will take for the next."""

    def __init__(self, needs, base):
        self.needs, self.base, self.seen = needs, base, []

    def predicted_bytes(self, size):
        told = self.needs.bytes(size)
        if self.seen:
            before, _, peak = self.seen[-1]
            # Below this, what libraries load when they are first used blurs what arrays take.
            if peak - self.base > 5e8:
                return max((peak - self.base) * told / self.needs.bytes(before), told / 3)
        return told

    def predicted_seconds(self, size):
        if not self.seen:
            return 0.0
        before, seconds, _ = self.seen[-1]
        power = self.needs.power
        if len(self.seen) > 1:
            earlier, then, _ = self.seen[-2]
            # Shorter times are those of starting something, and say nothing of growth.
            if then > 0.1:
                power = max(power, min(math.log(seconds / then) / math.log(before / earlier), power + 1.0))
        return seconds * (size / before) ** power


def command_of(name, options):
    script = lambda engine: [sys.executable, str(compare.PYTHON / f"{engine}_experiments.py"), "--limit", str(options.bytes)]
    return {"P": script("torch"), "J": script("jax")}.get(name[0], [options.glassgrad, "bench", "--serve"])


def measure(work, options, report):
    """What was found for each size, by engine."""
    names = [name for name in work.needs if name == OURS or not options.engine or name in options.engine]
    engines = [Asked(name, command_of(name, options), [], options.patience) for name in names]
    histories, given_up, result = {}, set(), {}
    try:
        for engine in engines:
            engine.question = work.asked.get(engine.name)
            try:
                # Any answer will do: the process is up, and its libraries are loaded.
                engine.ask("versions")
            except compare.Refused:
                pass
            histories[engine.name] = History(work.needs[engine.name], engine.peak_bytes())
        for size in [size for size in work.sizes if size <= options.largest]:
            skipped = {}
            for engine in engines:
                history = histories[engine.name]
                needed, seconds = history.predicted_bytes(size), history.predicted_seconds(size)
                if engine.name in given_up:
                    skipped[engine.name] = ""
                elif needed > options.bytes:
                    skipped[engine.name] = f"would need {needed / 1e9:.1f} GB"
                elif seconds > options.seconds:
                    skipped[engine.name] = f"would take {seconds:.0f} s"
                engine.workloads = [] if engine.name in skipped else [f"{work.name}/{size}"]
                if engine.name in skipped:
                    # What is too large stays so, and the process is in the way of others.
                    given_up.add(engine.name)
                    engine.stop()
            outcome = race(f"{work.name}/{size}", engines, options.rounds, report)
            for engine in engines:
                measured = outcome.get(engine.name, {})
                if "median_seconds" in measured:
                    measured["peak_bytes"] = engine.peak_bytes()
                    histories[engine.name].seen.append((size, measured["median_seconds"], measured["peak_bytes"]))
                elif "reason" in measured:
                    given_up.add(engine.name)
            result[size] = outcome | {name: {"reason": reason} for name, reason in skipped.items()}
    finally:
        for engine in engines:
            engine.stop()
    return result


def measure_modes(options, report):
    result = {}
    for problem, (size, _) in MODE_PROBLEMS.items():
        engines = [Asked(OURS if mode == MODES[0] else mode, command_of(OURS, options), [f"{problem}/held/{size}"],
                         options.patience) for mode in MODES]
        try:
            for engine, mode in zip(engines, MODES):
                engine.question = mode
            outcome = race(f"{problem}/held/{size}", engines, options.rounds, report)
        finally:
            for engine in engines:
                engine.stop()
        result[problem] = {MODES[0] if name == OURS else name: measured for name, measured in outcome.items()}
    return result


def exponent(points):
    """The power of n by which times grow: least squares on logarithms, over the larger half of the sizes."""
    half = points[len(points) // 2:] if len(points) > 3 else points
    if len(half) < 2:
        return None
    xs, ys = [math.log(size) for size, _ in half], [math.log(seconds) for _, seconds in half]
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    return sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys)) / sum((x - mean_x) ** 2 for x in xs)


def shown(name):
    return "Glassgrad" if name == OURS else name


def points_of(found, name):
    return [(int(size), outcome[name]["median_seconds"]) for size, outcome in found.items()
            if "median_seconds" in outcome.get(name, {})]


def work_table(work, found):
    """Sizes down, engines across: medians, and how many times longer than Glassgrad."""
    names = [name for name in work.needs if any(name in outcome for outcome in found.values())]
    yield f"| {work.size} | " + " | ".join(map(shown, names)) + " |"
    yield "|--:|" + "--:|" * len(names)
    for size, outcome in found.items():
        ours = outcome.get(OURS, {}).get("median_seconds")
        cells = []
        for name in names:
            measured = outcome.get(name, {})
            if "median_seconds" not in measured:
                cells.append(f"— {measured.get('reason', '')}".rstrip())
                continue
            ratio = f" **×{digits(measured['median_seconds'] / ours)}**" if ours and name != OURS else ""
            cells.append(readable(measured["median_seconds"]) + ratio)
        yield f"| {int(size):,} | " + " | ".join(cells) + " |"
    yield ""
    powers = [(shown(name), exponent(points_of(found, name))) for name in names]
    grown = [f"{name} {work.size}^{power:.2f}" for name, power in powers if power is not None]
    if grown:
        yield f"Growth over the larger half of the sizes: {', '.join(grown)}."
    facts = next((outcome[OURS].get("facts") for outcome in reversed(list(found.values()))
                  if outcome.get(OURS, {}).get("facts")), None)
    if facts:
        solved = f", solved {facts['solved']}" if facts.get("solved") else ""
        yield (f"Glassgrad holds at the largest size {facts['held_bytes']:,} of {facts['dense_bytes']:,.0f} bytes: "
               f"{facts['structure']}{solved}.")
    yield ""


def mode_table(modes):
    yield "| work | mode | predicted FLOPs | bytes moved | bytes held | median | × the better of forward and reverse |"
    yield "|---|---|--:|--:|--:|--:|--:|"
    for problem, outcome in modes.items():
        baseline = min((outcome[mode]["median_seconds"] for mode in ("forward", "reverse")
                        if "median_seconds" in outcome.get(mode, {})), default=None)
        for mode in MODES:
            measured = outcome.get(mode, {"reason": "not measured"})
            if "median_seconds" not in measured:
                yield f"| {MODE_PROBLEMS[problem][1]} | {mode} | | | | — {measured['reason']} | |"
                continue
            facts, seconds = measured["facts"], measured["median_seconds"]
            ratio = f"×{digits(seconds / baseline)}" if baseline else ""
            yield (f"| {MODE_PROBLEMS[problem][1]} | {mode} | {facts['flops']:.3g} | {facts['moved_bytes']:.3g} | "
                   f"{facts['held_bytes']:,} | {readable(seconds)} | {ratio} |")


def targets(result):
    """What is aimed at, what was found, and whether that is enough; nothing where it was not measured."""
    works = result["works"]

    def of(work, size, name=OURS, key="median_seconds"):
        return works.get(work, {}).get(str(size), {}).get(name, {}).get(key)

    def ratio(work, size, name, least, text):
        ours, theirs = of(work, size), of(work, size, name)
        if ours and theirs:
            yield text, f"×{digits(theirs / ours)}", theirs / ours >= least

    def at_most(work, size, limit, text):
        if (seconds := of(work, size)) is not None:
            yield text, readable(seconds), seconds <= limit

    yield from ratio("logistic/held", 1000, "JAX", 3.0, "logistic Hessian, n = 1000: at least ×3 against JAX")
    yield from at_most("factorization/held", 1000, 50e-6, "factorisation in U, n = 1000, k = 10: Hessian within 50 µs")
    yield from at_most("factorization/factor", 1000, 10e-6, "the same: its factors within 10 µs")
    yield from at_most("factorization/solve", 1000, 100e-6, "the same: direction, factors included, within 100 µs")
    if facts := of("factorization/held", 1000, key="facts"):
        yield "the same: held within 1 MB", f"{facts['held_bytes']:,} B", facts["held_bytes"] <= 1_000_000
    yield from ratio("network/held", 64, "JAX", 10.0, "network of 64 units: at least ×10 against JAX")
    for problem, outcome in result["modes"].items():
        if any("median_seconds" not in outcome.get(mode, {}) for mode in MODES[:3]):
            continue
        better = min((outcome["forward"], outcome["reverse"]), key=lambda measured: measured["median_seconds"])
        ours = outcome[MODES[0]]
        seen = ours["median_seconds"] / better["median_seconds"]
        # Programs that are the same differ by noise: where quartiles overlap, neither is slower.
        met = seen <= 1.0 or ours["lower_quartile_seconds"] <= better["upper_quartile_seconds"]
        yield f"{problem}: cross-country not slower than the better of forward and reverse", f"×{digits(seen)}", met


def page(result, works):
    machine = result["machine"]
    lines = ["# Hessians of growing problems", "",
             f"{machine['processor']}, {machine['threads']} threads for all; commit {result['commit']}; {result['date']};",
             ", ".join(f"{name} {version}" for name, version in result["versions"].items()) + ".", "",
             f"64 bits. Medians of up to {result['rounds']} rounds by turns; ×: how many times longer than Glassgrad. An engine "
             f"stops at the size that would need over {result['bytes'] / 1e9:g} GB or {result['seconds']:g} s; the table says which. "
             "All engines must find the same numbers. Glassgrad keeps what the structure leaves of a Hessian; its dense array "
             "stands beside it where that is not the same.", ""]
    for work in works:
        if str(work.name) in result["works"]:
            lines += [f"## {work.title}", "", *work_table(work, result["works"][work.name])]
    if result["modes"]:
        lines += ["## Modes of Glassgrad", "",
                  "The baseline is the better of plain forward and plain reverse mode, which contract deltas too but multiply "
                  "in the order of the sweep.", "", *mode_table(result["modes"]), ""]
    aims = list(targets(result))
    if aims:
        lines += ["## Targets", "", "| target | found | |", "|---|--:|---|"]
        lines += [f"| {text} | {found} | {'met' if met else '**not met**'} |" for text, found, met in aims]
    return "\n".join(lines).rstrip() + "\n"


def drawing(result, works):
    panels = []
    for work in works:
        found = result["works"].get(work.name, {})
        curves = []
        for name in work.needs:
            if points := points_of(found, name):
                power = exponent(points)
                grown = f"  {work.size}^{power:.1f}" if power is not None else ""
                curves.append({"engine": shown(name), "label": shown(name) + grown, "points": points})
        if curves:
            panels.append({"title": work.title.split(",")[0] + ":" + work.title.rsplit(":", 1)[1], "horizontal": work.size,
                           "curves": curves})
    return {"panels": panels}


def save(result, works, options):
    """Written after each work: a run that is interrupted leaves what it has."""
    text = page(result, works)
    (FOLDER / "hessians.md").write_text(text)
    (FOLDER / "hessians.json").write_text(json.dumps(result | drawing(result, works), indent=1) + "\n")
    subprocess.run([options.glassgrad, "bench", "--draw", str(FOLDER / "hessians.json")], stdout=subprocess.DEVNULL, check=True)
    return text


def parsed():
    parser = argparse.ArgumentParser(prog="bench/run hessians", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=11, help="turns of each engine (default 11)")
    names = [work.name for work in WORKS] + ["modes"]
    parser.add_argument("--only", action="append", choices=names, metavar="NAME",
                        help=f"a part, instead of all: {', '.join(names)}")
    parser.add_argument("--engine", action="append", metavar="NAME", help="an engine beside Glassgrad, instead of all")
    parser.add_argument("--largest", type=int, default=SIZES[-1], help=f"the largest size (default {SIZES[-1]})")
    parser.add_argument("--bytes", type=lambda text: int(float(text)), default=8 * 10**9, help="memory of an engine (8e9)")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long one run may take (60)")
    parser.add_argument("--patience", type=float, default=600.0, help="seconds before an engine is given up (600)")
    parser.add_argument("--glassgrad", required=True, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error("--rounds must be 1 or more")
    known = sorted({name for work in WORKS for name in work.needs if name != OURS})
    if unknown := [name for name in options.engine or [] if name not in known]:
        parser.error(f"there is no engine '{unknown[0]}'; there are {', '.join(known)}")
    return options


def main():
    options = parsed()
    FOLDER.mkdir(parents=True, exist_ok=True)
    compare.limit_processors()

    def report(text):
        if sys.stderr.isatty():
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)

    peers = [Asked(name, command_of(name, options), [], options.patience) for name in ("PyTorch", "JAX")]
    try:
        versions = compare.versions_of(peers)
    finally:
        for engine in peers:
            engine.stop()
    result = {
        "machine": compare.machine(), "versions": versions, "commit": compare.commit(), "rounds": options.rounds,
        "bytes": options.bytes, "seconds": options.seconds,
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"), "works": {}, "modes": {},
    }
    text = ""
    chosen = lambda name: not options.only or name in options.only
    for work in [work for work in WORKS if chosen(work.name)]:
        found = measure(work, options, report)
        result["works"][work.name] = {str(size): outcome for size, outcome in found.items()}
        text = save(result, WORKS, options)
    if chosen("modes"):
        result["modes"] = measure_modes(options, report)
        text = save(result, WORKS, options)
    report("")
    print(text, end="")
    print(f"\nThis table is in {FOLDER / 'hessians.md'}, the picture beside it in hessians.svg.", file=sys.stderr)


if __name__ == "__main__":
    main()
