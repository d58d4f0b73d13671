#!/usr/bin/env python3
"""Runs evals of the GradBench suite with Glassgrad as the tool, and with others beside it by turns.

The suite is not part of this repository: `--suite` names a checkout of it, with `cpp/json.hpp` in place
(`make -C cpp` there). Outputs are validated by the eval itself, against its hand-written C++. Tools beside Glassgrad are
those of the checkout: `manual` is the hand-written C++, `codipack` needs its headers on CPATH, `pytorch` and `jax` need their
packages in the Python that runs this. Each is measured on one thread, in the evals that the suite lists for it.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

EVALS = ["hello", "det", "llsq", "lse", "ode", "gmm", "lstm", "ba", "ht", "kmeans", "particle", "saddle"]

# The smaller instances, so that a run takes minutes.
QUICK = {
    "det": ["-l", "5", "6", "7", "8"],
    "lse": ["-n", "1000", "10000"],
    "gmm": ["-n", "1000", "-d", "2", "10", "-k", "5", "10"],
    "lstm": ["-l", "2", "-c", "1024"],
    "ba": ["--max", "2"],
    "ht": ["--max", "2"],
    "ode": ["-n", "100", "1000"],
    "kmeans": ["-k", "10", "-n", "1000", "-d", "8"],
}


# Functions in the order of a row: the function itself, and then its derivative.
PRIMALS = {"primal", "objective", "cost", "square"}
CPP_TOOLS = {"manual", "codipack", "adept", "adol-c", "cppad"}
PYTHON_TOOLS = {"pytorch", "jax", "tensorflow"}


def session(evaluation, tool):
    """Connects an eval with a tool. Returns the evaluations with their validity and timings, and why the tool gave up, if it did."""
    results, pending = [], {}
    for line in evaluation.stdout:
        message = json.loads(line)
        tool.stdin.write(line)
        tool.stdin.flush()
        answer = tool.stdout.readline()
        if not answer:
            return results, f"it ended at message {line.strip()[:200]}"
        response = json.loads(answer)
        if message["kind"] == "define" and not response.get("success"):
            return results, f"it refuses the module: {response.get('error')}"
        if message["kind"] == "evaluate":
            # Tools also report the time of preparing a function; only its evaluations are compared.
            timings = response.get("timings") or []
            times = [timing["nanoseconds"] for timing in timings if timing["name"] == "evaluate"]
            pending[message["id"]] = {
                "function": message["function"],
                "input": message.get("description", ""),
                "milliseconds": min(times) / 1e6 if times else None,
                "error": response.get("error"),
                "valid": None,
            }
        if message["kind"] == "analysis":
            result = pending.pop(message["of"])
            result["valid"] = message["valid"]
            result["error"] = result["error"] or message.get("error")
            results.append(result)
        evaluation.stdin.write(answer)
        evaluation.stdin.flush()
    return results + list(pending.values()), None


def build_reference(suite, name):
    """Compiles the suite's hand-written C++, against which outputs are validated."""
    command = ["make", "-C", "tools/manual", f"bin/{name}"]
    return subprocess.run(command, cwd=suite, capture_output=True, text=True)


def start(command, suite):
    one_thread = {name: "1" for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    environment = dict(os.environ, PYTHONPATH=str(suite / "python/gradbench"), **one_thread)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "bufsize": 1}
    return subprocess.Popen(command, cwd=suite, env=environment, **pipes)


def command_of(tool):
    if tool in CPP_TOOLS:
        return [sys.executable, "python/gradbench/gradbench/cpp.py", tool]
    return [sys.executable, f"python/gradbench/gradbench/tools/{tool}/run.py"]


def supports(suite, tool, name):
    """Whether the suite lists the eval for a tool, without a word such as `error` or `timeout` behind it."""
    return name in (suite / f"tools/{tool}/evals.txt").read_text().splitlines()


def run_eval(suite, name, options, command):
    """One session of an eval with a tool, both ended afterwards."""
    evaluation = start([sys.executable, f"python/gradbench/gradbench/evals/{name}/run.py", *options], suite)
    process = start(command, suite)
    try:
        results, failure = session(evaluation, process)
    finally:
        process.stdin.close()
        evaluation.stdin.close()
        process.wait()
        status = evaluation.wait()
    if failure is None and (status != 0 or not results):
        # An eval that ends early has validated nothing.
        failure = f"the eval failed with {len(results)} results"
    return results, failure


def options_of(suite, name, arguments):
    options = [] if arguments.all else QUICK.get(name, [])
    if name == "hello":
        return options
    options = options + ["--min-seconds", str(arguments.seconds)]
    if name not in ("particle", "saddle"):
        script = (suite / f"python/gradbench/gradbench/evals/{name}/run.py").read_text()
        if arguments.no_validation and "--no-validation" in script:
            options = options + ["--no-validation"]
        elif (built := build_reference(suite, name)).returncode != 0:
            raise SystemExit(f"tools/manual/bin/{name} does not build (--no-validation goes without):\n{built.stderr}")
    return options


def print_rows(name, tools, times):
    """A row for each input: the function and its derivative of each tool, in milliseconds."""
    inputs = list(dict.fromkeys(key[1] for key in times))
    for described in inputs:
        functions = list(dict.fromkeys(key[2] for key in times if key[1] == described))
        primals = [function for function in functions if function in PRIMALS]
        for derivative in [function for function in functions if function not in PRIMALS] or [None]:
            cells = []
            for tool in tools:
                shown = [times.get((tool, described, function)) for function in (*primals, derivative) if function]
                cells.append(" → ".join("" if time is None else f"{time:.4g}" for time in shown) if any(shown) else "")
            label = " ".join(filter(None, [described, derivative if not primals else None]))
            print(f"| {name} | {label} | {' | '.join(cells)} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", type=Path, required=True, help="a checkout of gradbench/gradbench")
    parser.add_argument("--tool", type=Path, required=True, help="the program gradbench-glassgrad")
    parser.add_argument("--evals", nargs="+", choices=EVALS, default=EVALS)
    parser.add_argument("--all", action="store_true", help="the instances of the suite instead of the smaller ones")
    parser.add_argument("--beside", nargs="+", default=[], metavar="TOOL", choices=sorted(CPP_TOOLS | PYTHON_TOOLS), help="tools of the suite to measure by turns with Glassgrad: %(choices)s")
    parser.add_argument("--rounds", type=int, default=1, help="how often each tool has its turn; the least time counts")
    parser.add_argument("--no-validation", action="store_true", help="without the C++ against which outputs are validated")
    parser.add_argument("--seconds", type=float, default=0.2, help="how long each function runs at least")
    arguments = parser.parse_args()
    suite = arguments.suite.resolve()
    if not (suite / "python/gradbench/gradbench/evals").is_dir():
        raise SystemExit(f"{suite} is no checkout of gradbench/gradbench")
    tools = {"Glassgrad": [str(arguments.tool.resolve())], **{tool: command_of(tool) for tool in arguments.beside}}

    validated, invalid = 0, 0
    print("Milliseconds, function → derivative, the least of all turns.\n")
    print(f"| eval | input | {' | '.join(tools)} |\n|---|---|{'--:|' * len(tools)}")
    for name in arguments.evals:
        options = options_of(suite, name, arguments)
        times, absent = {}, set()
        for turn in range(arguments.rounds):
            for tool, command in tools.items():
                if tool in absent or tool != "Glassgrad" and not supports(suite, tool, name):
                    continue
                results, failure = run_eval(suite, name, options, command)
                for result in results:
                    key = (tool, result["input"], result["function"])
                    if result["milliseconds"] is not None:
                        times[key] = min(times.get(key, float("inf")), result["milliseconds"])
                    if tool == "Glassgrad" and turn == 0:
                        validated += bool(result["valid"])
                        if not result["valid"]:
                            invalid += 1
                            print(f"bench/gradbench: {name} {result['function']}: {result['error']}", file=sys.stderr)
                if failure is not None:
                    absent.add(tool)
                    invalid += tool == "Glassgrad"
                    print(f"bench/gradbench: {tool}, {name}: {failure}", file=sys.stderr)
        print_rows(name, tools, times)
    print(f"\n{validated} outputs of Glassgrad are valid, {invalid} outputs or evals are not")
    if invalid:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
