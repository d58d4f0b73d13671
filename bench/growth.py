"""How planning, steps and memory grow with parameters, layers, positions and nodes, with fitted exponents beside the arithmetic ones.

Each measurement is a process of its own (`bench/operations/src/bin/growth.rs`), so that its peak memory is its own. Exponents are those of the
line through the logarithms of the upper half of the sizes: small ones are dominated by what a call costs by itself. `bench/run growth` starts
this program with everything that it needs.
"""

import argparse
import datetime
import json
import math
import pathlib
import re
import subprocess
import sys

from compare import ROOT, commit, machine, readable

# Sizes, the budget of memory as a share of what a gradient allocates otherwise, if one is measured, and the exponents by arithmetic: of a step's
# time, and of its memory.
CASES = {
    "parameters": ([10**6, 10**7, 10**8, 10**9], None, (1, 1), "MLP of 4 equal layers, batch 32, step of SGD"),
    "layers": ([1, 3, 10, 30, 100], 0.6, (1, 1), "MLP of width 256, batch 2048, gradient"),
    "positions": ([128, 256, 512, 1024, 2048, 4096, 8192], 0.85, (2, 1), "GPT of 2 blocks of width 128, one sequence, gradient"),
    "nodes": ([10**3, 10**4, 10**5, 10**6], None, (None, None), "chain of operations on one number, gradient, built anew"),
}

def exponent(points):
    """The slope of the line through logarithms, of the larger half of the sizes."""
    points = [(math.log(size), math.log(value)) for size, value in points if value and value > 0]
    points = points[len(points) // 2 - (len(points) % 2 == 0):] if len(points) > 2 else points
    if len(points) < 2:
        return None
    mean_x, mean_y = (sum(point[k] for point in points) / len(points) for k in range(2))
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / spread


def available_bytes():
    for line in pathlib.Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return 1024 * int(line.split()[1])
    return None


def measure(program, case, size, share, patience):
    """What a process found, or why there is nothing."""
    # Parameters in 32 bits, and as much again while they are drawn.
    needed = 2.2 * 4 * size if case == "parameters" else 0
    free = available_bytes()
    if free is not None and needed > free:
        return {"reason": f"{needed / 2**30:.0f} GiB are needed, and {free / 2**30:.0f} available"}
    command = [program, case, str(size)] + ([str(share)] if share else [])
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=patience)
    except subprocess.TimeoutExpired:
        return {"reason": f"no answer in {patience:g} s"}
    if done.returncode != 0:
        least = re.search(r"takes at least (\d+) bytes", done.stderr)
        said = (done.stderr.strip().splitlines() or ["it ended without a word"])[-1]
        return {"reason": f"at least {bytes_text(int(least[1]))}" if least else said}
    return json.loads(done.stdout)


def bytes_text(number):
    if number is None:
        return ""
    for limit, factor, unit in [(2**20, 2**10, "KiB"), (2**30, 2**20, "MiB"), (math.inf, 2**30, "GiB")]:
        if number < limit:
            return f"{number / factor:.3g} {unit}"


def table(result):
    lines = ["# Growth", "", f"{result['machine']['processor']}; commit {result['commit']}; {result['date']}.", ""]
    for case, rows in result["cases"].items():
        _, _, (time, memory), text = CASES[case]
        lines += [f"## By {case}: {text}", "", "| size | planning | step | memory of a step | peak of the process | within: step | memory |",
                  "|--:|--:|--:|--:|--:|--:|--:|"]
        for row in rows:
            free, within = row["free"], row.get("within") or {}
            if "reason" in free:
                lines.append(f"| {row['size']:,} | {free['reason']} | | | | | |")
                continue
            step = readable(free["step_seconds"]) if "step_seconds" in free else ""
            budgeted = within.get("reason") or (readable(within["step_seconds"]) if within else "")
            lines.append(f"| {free['size']:,} | {readable(free['planning_seconds'])} | {step} | {bytes_text(free.get('step_bytes'))} | "
                         f"{bytes_text(free.get('peak_bytes'))} | {budgeted} | {bytes_text(within.get('step_bytes'))} |")
        found = result["exponents"][case]
        shown = lambda name: f"{found[name]:.2f}" if found.get(name) is not None else "-"
        arithmetic = lambda number: "-" if number is None else f"{number:g}"
        lines += ["", f"Exponents: planning {shown('planning')}; step {shown('step')} (arithmetic {arithmetic(time)}); memory {shown('memory')} "
                  f"(arithmetic {arithmetic(memory)}); within a budget: step {shown('step_within')}, memory {shown('memory_within')}.", ""]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(prog="bench/run growth", description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", choices=CASES, help="a case, instead of all")
    parser.add_argument("--most", type=float, default=math.inf, help="the largest size (no limit)")
    parser.add_argument("--patience", type=float, default=120.0, help="seconds before a measurement is given up (120)")
    parser.add_argument("--json", action="store_true", help="print the result as JSON, instead of tables")
    parser.add_argument("--glassgrad", required=True, help=argparse.SUPPRESS)
    options = parser.parse_args()
    program = str(pathlib.Path(options.glassgrad).with_name("growth"))
    result = {"machine": machine(), "commit": commit(), "cases": {}, "exponents": {},
              "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")}
    folder = ROOT / "target/bench"
    folder.mkdir(parents=True, exist_ok=True)
    for case in options.only or CASES:
        sizes, share, _, _ = CASES[case]
        rows = []
        for size in (size for size in sizes if size <= options.most):
            row = {"size": size, "free": measure(program, case, size, None, options.patience)}
            if share:
                row["within"] = measure(program, case, size, share, options.patience)
            rows.append(row)
            if sys.stderr.isatty():
                print(f"\r\x1b[K{case} {size}", end="", file=sys.stderr, flush=True)
        points = lambda kind, name: [(row[kind]["size"], row[kind].get(name)) for row in rows if kind in row and "size" in row[kind]]
        result["cases"][case] = rows
        result["exponents"][case] = {
            "planning": exponent(points("free", "planning_seconds")), "step": exponent(points("free", "step_seconds")),
            "memory": exponent(points("free", "step_bytes")), "step_within": exponent(points("within", "step_seconds")),
            "memory_within": exponent(points("within", "step_bytes"))}
        (folder / "growth.json").write_text(json.dumps(result, indent=1) + "\n")
        (folder / "growth.md").write_text(table(result))
    print(json.dumps(result) if options.json else table(result), end="")


if __name__ == "__main__":
    main()
