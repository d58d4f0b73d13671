"""Single operations and their gradients in Glassgrad, PyTorch (eager) and JAX (compiled), by turns.

The rows are those of the program in `bench/operations/`; results are compared before anything is timed, and engines take turns as
in `compare.py`. `bench/run operations` starts this program with everything that it needs.
"""

import argparse
import datetime
import fnmatch
import json
import statistics
import sys

from compare import (BUSY_HELP, PYTHON, ROOT, Engine, commit, digits, limit_processors, machine, measure_processor_time, race, readable,
                     versions_of)

# Sums of many terms in another order agree to so many digits, relative to the norm of the result.
TOLERANCES = {"f32": 1e-4, "f64": 1e-9, "moments": 0.02}
WORST = 10


def compared(rows):
    """A function that says in what the results of a row differ."""
    by_name = {row["name"]: row for row in rows}

    def disagreement(name, ours, theirs):
        row = by_name[name]
        kind = "moments" if row["comparison"] == "moments" else "f64" if ":f64" in name else "f32"
        bound, results = TOLERANCES[kind], theirs["facts"]["digests"]
        if len(results) != len(ours["facts"]["digests"]):
            return f"{len(results)} results, but Glassgrad has {len(ours['facts']['digests'])}"
        for number, (own, other) in enumerate(zip(ours["facts"]["digests"], results)):
            if own["count"] != other["count"]:
                return f"result {number} has {other['count']} elements, but {own['count']} in Glassgrad"
            # A typical element: small ones are sums of larger terms.
            typical = 1.0 if kind == "moments" else own["norm"] / max(own["count"], 1) ** 0.5
            pairs = [(own["norm"], other["norm"], own["norm"]), (own["along"], other["along"], own["norm"])]
            pairs += [(a, b, max(abs(a), typical)) for a, b in zip(own["samples"], other["samples"])]
            for a, b, scale in pairs:
                if not abs(a - b) <= bound * scale:
                    return f"result {number} has {b:.7g} where Glassgrad has {a:.7g}"
        return None

    return disagreement


def rated(outcome):
    """The ratio of the faster peer to Glassgrad: the median over the rounds, whose turns are neighbours in time."""
    peers = {name: found for name, found in outcome.items() if name != "glassgrad" and "median_seconds" in found}
    ours = outcome.get("glassgrad", {})
    if not peers or "median_seconds" not in ours:
        return None, None
    fastest = min(peers, key=lambda name: peers[name]["median_seconds"])
    pairs = zip(peers[fastest]["turns_seconds"], ours["turns_seconds"])
    return fastest, statistics.median(theirs / own for theirs, own in pairs)


def summarised(rows):
    ratios = {name: row["ratio"] for name, row in rows.items() if row.get("ratio")}
    if not ratios:
        return {}
    return {"rows": len(rows), "compared": len(ratios), "at_least_as_fast": sum(ratio >= 1.0 for ratio in ratios.values()),
            "at_least_half_as_fast": sum(ratio >= 0.5 for ratio in ratios.values()),
            "median_ratio": statistics.median(ratios.values()), "worst": sorted(ratios, key=ratios.get)[:WORST]}


def table(result):
    """The result as text for people."""
    machine, versions, rows = result["machine"], result["versions"], result["rows"]
    summary, notes = result["summary"], []

    def cell(found):
        if found is None:
            return ""
        if "median_seconds" in found:
            return readable(found["median_seconds"])
        if found["reason"] not in notes:
            notes.append(found["reason"])
        return f"— ({notes.index(found['reason']) + 1})"

    def line(name, row):
        ratio = f"{digits(row['ratio'])}" if row.get("ratio") else ""
        cells = [cell(row["engines"].get(engine)) for engine in ("glassgrad", "PyTorch", "JAX")]
        return f"| {name} | " + " | ".join(cells) + f" | {ratio} |"

    head = ["| operation | Glassgrad | PyTorch | JAX | ratio |", "|---|--:|--:|--:|--:|"]
    lines = ["# Single operations", "",
             f"{machine['processor']}, {machine['threads']} threads for all, {machine['clock']}; commit {result['commit']}; {result['date']};",
             ", ".join(f"{name} {version}" for name, version in versions.items()) + ".", "",
             f"Medians of {result['rounds']} rounds by turns. The ratio is that of the faster peer's time to Glassgrad's, the "
             "median over the rounds: above 1 Glassgrad is faster. T: transposed, S: columns of a wider array, ::2: every "
             "second column.", ""]
    if summary:
        lines += [f"**{summary['at_least_as_fast']} of {summary['compared']} rows at 1.0 or above, "
                  f"{summary['at_least_half_as_fast']} at 0.5 or above; the median ratio is {digits(summary['median_ratio'])}.**",
                  "", "## The worst", "", *head, *(line(name, rows[name]) for name in summary["worst"]), ""]
    lines += ["## All", "", *head, *(line(name, row) for name, row in rows.items()), ""]
    lines += [f"{number}. {reason}" for number, reason in enumerate(notes, 1)]
    return "\n".join(lines).rstrip() + "\n"


def main():
    parser = argparse.ArgumentParser(prog="bench/run operations", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9, help="turns of each engine (default 9)")
    parser.add_argument("--only", action="append", metavar="NAME",
                        help="an operation, a row, or a pattern of rows such as 'conv*:gradient', instead of all")
    parser.add_argument("--json", action="store_true", help="print the result as JSON, instead of tables")
    parser.add_argument("--patience", type=float, default=120.0, help="seconds before an engine is given up (120)")
    parser.add_argument("--busy", action="store_true", help=BUSY_HELP)
    parser.add_argument("--glassgrad", required=True, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error("--rounds must be 1 or more")
    if options.busy:
        measure_processor_time()

    folder = ROOT / "target/bench"
    folder.mkdir(parents=True, exist_ok=True)
    limit_processors()
    glassgrad = Engine("glassgrad", [options.glassgrad], [], options.patience)
    listed = glassgrad.ask("operations")
    rows = listed["rows"]
    (folder / "operations_rows.json").write_text(json.dumps(listed))
    names = [row["name"] for row in rows]
    if options.only:
        chosen = lambda row: any(row["operation"] == only or fnmatch.fnmatchcase(row["name"], only) for only in options.only)
        names = [row["name"] for row in rows if chosen(row)]
        if not names:
            parser.error(f"there is no row '{options.only[0]}'; there are {', '.join(dict.fromkeys(row['operation'] for row in rows))}")
    glassgrad.workloads = names
    script = [sys.executable, str(PYTHON / "operations_engine.py")]
    peer = lambda name, engine: Engine(name, [*script, engine, str(folder / "operations_rows.json")], names, options.patience)
    engines = [glassgrad, peer("PyTorch", "torch"), peer("JAX", "jax")]

    def report(text):
        if sys.stderr.isatty():
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)

    result = {
        "machine": machine(), "versions": versions_of(engines), "commit": commit(), "rounds": options.rounds,
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"), "rows": {}, "summary": {},
    }
    try:
        for name in names:
            outcome = race(name, engines, options.rounds, report, compared(rows))
            faster, ratio = rated(outcome)
            result["rows"][name] = {"engines": without_digests(outcome), "faster_peer": faster, "ratio": ratio}
            result["summary"] = summarised(result["rows"])
            # Written after each row: a run that is interrupted leaves what it has.
            (folder / "operations.json").write_text(json.dumps(result, indent=1) + "\n")
            (folder / "operations.md").write_text(table(result))
    finally:
        for engine in engines:
            engine.stop()
        report("")
    print(json.dumps(result) if options.json else table(result), end="")


def without_digests(outcome):
    return {name: {key: value for key, value in found.items() if key != "facts"} for name, found in outcome.items()}


if __name__ == "__main__":
    main()
