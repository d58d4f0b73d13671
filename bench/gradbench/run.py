#!/usr/bin/env python3
"""Runs evals of the GradBench suite with Glassgrad as the tool, and with others beside it.

The suite is not part of this repository: `--suite` names a checkout of it, with `cpp/json.hpp` in place
(`make -C cpp` there). Outputs are validated by the eval itself, against its hand-written C++.
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


def session(evaluation, tool):
    """Connects an eval with a tool, and returns the evaluations with their validity and timings."""
    results, pending = [], {}
    for line in evaluation.stdout:
        message = json.loads(line)
        tool.stdin.write(line)
        tool.stdin.flush()
        answer = tool.stdout.readline()
        if not answer:
            raise SystemExit(f"the tool ended at message {line.strip()[:200]}")
        response = json.loads(answer)
        if message["kind"] == "define" and not response["success"]:
            raise SystemExit(f"the tool refuses the module: {response.get('error')}")
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
    return results + list(pending.values())


def build_reference(suite, name):
    """Compiles the suite's hand-written C++, against which outputs are validated and which is timed beside."""
    command = ["make", "-C", "tools/manual", f"bin/{name}"]
    return subprocess.run(command, cwd=suite, capture_output=True, text=True)


def start(command, suite):
    environment = dict(os.environ, PYTHONPATH=str(suite / "python/gradbench"))
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "bufsize": 1}
    return subprocess.Popen(command, cwd=suite, env=environment, **pipes)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", type=Path, required=True, help="a checkout of gradbench/gradbench")
    parser.add_argument("--tool", type=Path, required=True, help="the program gradbench-glassgrad")
    parser.add_argument("--evals", nargs="+", choices=EVALS, default=EVALS)
    parser.add_argument("--all", action="store_true", help="the instances of the suite instead of the smaller ones")
    parser.add_argument("--manual", action="store_true", help="also time the suite's hand-written C++ where it has the eval")
    parser.add_argument("--no-validation", action="store_true", help="without the C++ against which outputs are validated")
    parser.add_argument("--seconds", type=float, default=0.2, help="how long each function runs at least")
    arguments = parser.parse_args()
    suite = arguments.suite.resolve()
    if not (suite / "python/gradbench/gradbench/evals").is_dir():
        raise SystemExit(f"{suite} is no checkout of gradbench/gradbench")
    tools = {"Glassgrad": [str(arguments.tool.resolve())]}
    if arguments.manual:
        tools["hand-written C++"] = [sys.executable, "python/gradbench/gradbench/cpp.py", "manual"]

    invalid = 0
    print("| eval | function | input | tool | ms | valid |\n|---|---|---|---|---|---|")
    for name in arguments.evals:
        options = [] if arguments.all else QUICK.get(name, [])
        if name != "hello":
            options = options + ["--min-seconds", str(arguments.seconds)]
        constant = name in ("hello", "particle", "saddle")
        if not constant:
            script = (suite / f"python/gradbench/gradbench/evals/{name}/run.py").read_text()
            if arguments.no_validation and "--no-validation" in script:
                options = options + ["--no-validation"]
            elif (built := build_reference(suite, name)).returncode != 0:
                raise SystemExit(f"tools/manual/bin/{name} does not build (--no-validation goes without):\n{built.stderr}")
        for tool, command in tools.items():
            if tool != "Glassgrad" and not (suite / f"tools/manual/{name}.cpp").exists():
                continue
            evaluation = start([sys.executable, f"python/gradbench/gradbench/evals/{name}/run.py", *options], suite)
            process = start(command, suite)
            results = session(evaluation, process)
            for result in results:
                time = "" if result["milliseconds"] is None else f"{result['milliseconds']:.4g}"
                print(f"| {name} | {result['function']} | {result['input']} | {tool} | {time} | {result['valid']} |", flush=True)
                if not result["valid"]:
                    invalid += 1
                    print(f"bench/gradbench: {name} {result['function']}: {result['error']}", file=sys.stderr)
            process.stdin.close()
            process.wait()
            if evaluation.wait() != 0 or not results:
                # An eval that ends early has validated nothing.
                invalid += 1
                print(f"bench/gradbench: the eval {name} failed with {len(results)} results", file=sys.stderr)
    if invalid:
        raise SystemExit(f"{invalid} outputs or evals are invalid")


if __name__ == "__main__":
    main()
