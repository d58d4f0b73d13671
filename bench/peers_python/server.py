"""Answers lines as `glassgrad bench --serve` does, with the workloads of one engine.

A workload is a function that makes its data and returns two functions: one does the work once and waits until it is
done, the other tells a number of the last result. A third, if there is one, tells further facts about it. The rules of
timing are those of `workload.rs`.
"""

import gc
import json
import math
import sys
import time
import traceback

TURN = 0.02
LONG = 0.1
WARM_RUNS = 3


class Refused(Exception):
    """Why an engine does not do a workload."""


class Prepared:
    def __init__(self, make):
        self.run, value, *facts = make()
        self.values = []
        start = time.perf_counter()
        self.run()
        self.first_seconds = time.perf_counter() - start
        self.values.append(value())
        start = time.perf_counter()
        for _ in range(1, WARM_RUNS):
            self.run()
            self.values.append(value())
        # The first run may compile: whether the work is long is seen from those after it.
        self.expected = (time.perf_counter() - start) / (WARM_RUNS - 1)
        wrong = [value for value in self.values if not math.isfinite(value)]
        if wrong:
            raise Refused(f"the result is {wrong[0]}")
        self.facts = facts[0]() if facts else None

    def turn(self):
        if self.expected < LONG:
            self.run()
        start, runs, elapsed = time.perf_counter(), 0, 0.0
        while runs == 0 or elapsed < TURN:
            self.run()
            runs += 1
            elapsed = time.perf_counter() - start
        return elapsed / runs


def serve(versions, workloads):
    # What libraries print must not stand between the answers.
    answers, sys.stdout = sys.stdout, sys.stderr
    prepared = None

    def answer(line):
        nonlocal prepared
        match line.split():
            case ["versions"]:
                return {"versions": versions}
            case ["prepare", name]:
                prepared = None
                gc.collect()
                if name not in workloads:
                    raise Refused("not among the workloads of this engine")
                prepared = Prepared(workloads[name])
                return {"first_seconds": prepared.first_seconds, "values": prepared.values, "facts": prepared.facts}
            case ["run"] if prepared:
                return {"seconds": prepared.turn()}
        raise Refused(f"'{line}' is not understood")

    for line in sys.stdin:
        if line.strip() == "quit":
            break
        try:
            reply = answer(line.strip())
        except Refused as refusal:
            reply = {"error": str(refusal)}
        except Exception as error:
            traceback.print_exc()
            first = (str(error).strip() or "no message").splitlines()[0]
            reply = {"error": f"{type(error).__name__}: {first[:200]}"}
        print(json.dumps(reply), file=answers, flush=True)
