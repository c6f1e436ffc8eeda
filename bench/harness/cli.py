"""The command line: selects loops and cases, runs them in interleaved rounds, writes the report."""

import argparse
import fcntl
import json
import os
import platform
import re
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import asdict
from fnmatch import fnmatchcase
from pathlib import Path

from cases import CASES
from cases.limit import LIMITS

from . import loops, native, report
from .runner import Failed, Runner

PACKAGES = (
    "uvloop",
    "rloop",
    "rsloop",
    "zuvloop",
    "aiofastnet",
    "mainspring",
    "httptools",
    "uvicorn",
    "aiohttp",
    "websockets",
)


def arguments():
    parser = argparse.ArgumentParser(prog="bench", description="Compares asyncio event loops; see README.md.")
    parser.add_argument(
        "--loops", default="asyncio,uvloop", help="comma-separated: NAME, MODULE:FACTORY or LABEL=…"
    )
    parser.add_argument("--baseline", default="uvloop", help="the loop to compare the others with")
    parser.add_argument(
        "--cases", default="*", help="comma-separated patterns of case names, such as 'B.tcp.*,C.*'"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="timed seconds of each run")
    parser.add_argument("--python", default=sys.executable, help="the interpreter that runs the loops")
    parser.add_argument(
        "--quick", action="store_true", help="one case of each kind; by default 1 round of 1 s"
    )
    parser.add_argument("--lock", help="hold an exclusive flock on this file during each round of a case")
    parser.add_argument("--priority", action="store_true", help="use real-time scheduling (needs root)")
    parser.add_argument("--output", help="write OUTPUT.json and OUTPUT.md")
    parser.add_argument("--list", action="store_true", help="list the cases and exit")
    parser.add_argument("--build", action="store_true", help="build the native parts and exit")
    parser.add_argument(
        "--report", nargs="+", metavar="JSON", help="print the merged tables of earlier runs and exit"
    )
    given = parser.parse_args()
    if given.quick:
        given.rounds = given.rounds if "--rounds" in sys.argv else 1
        given.seconds = given.seconds if "--seconds" in sys.argv else 1.0
    return given


@contextmanager
def locked(path):
    if path is None:
        yield
        return
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def selected(given):
    patterns = given.cases.split(",")
    chosen = [case for name, case in CASES.items() if any(fnmatchcase(name, pattern) for pattern in patterns)]
    if given.quick:
        chosen = [case for case in chosen if case.quick]
    return sorted(chosen, key=lambda case: case.name[0])


def installed(python):
    """The version of the measured interpreter, and the versions of its relevant packages."""
    code = (
        "import importlib.metadata as m, json, platform\n"
        "def version(name):\n"
        "    try: return m.version(name)\n"
        "    except m.PackageNotFoundError: return None\n"
        f"found = {{name: version(name) for name in {PACKAGES!r}}}\n"
        "print(json.dumps([platform.python_version(), {k: v for k, v in found.items() if v}]))"
    )
    return json.loads(subprocess.check_output([python, "-c", code], text=True))


def processor():
    """The model of the processor, if the kernel names it."""
    models = re.findall(r"^model name\s*: (.*)", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return models[0] if models else platform.machine()


def new_report(given):
    version, packages = installed(given.python)
    labels = dict(loops.parse(text) for text in given.loops.split(","))
    baseline = given.baseline if given.baseline in labels else next(iter(labels))
    return {
        "meta": {
            "date": time.strftime("%Y-%m-%d %H:%M"),
            "python": version,
            "packages": packages,
            "machine": f"{platform.system()} {platform.release()} {platform.machine()}",
            "processor": processor(),
            "cores": os.cpu_count(),
            "rounds": given.rounds,
            "seconds": given.seconds,
            "priority": given.priority,
        },
        "loops": list(labels),
        "specs": labels,
        "baseline": baseline,
        "cases": {},
    }


def one_round(runner, case, columns, results, number):
    """Runs the case once on each column that has not failed. Each round starts with another column."""
    order = list(columns)
    shift = number % len(order)
    for label in order[shift:] + order[:shift]:
        if any("failed" in outcome for outcome in results[label]):
            continue
        try:
            outcome = runner.run(case, columns[label])
        except Failed as failure:
            outcome = {"failed": str(failure)}
        results[label].append(outcome)


def progress(case, results, baseline):
    key = case.metrics[0].key
    words = []
    for label, outcomes in results.items():
        if any("failed" in outcome for outcome in outcomes):
            words.append(f"{label} FAILED")
            continue
        found = report.ratios(results, label, baseline, key, case.metrics[0].higher_is_better)
        middle = report.median(found) if found else float("nan")
        words.append(f"{label} {report.absolute_cell(results, label, key)} ({middle:.2f})")
    print(f"{case.name:32} {case.metrics[0].unit:12} " + "  ".join(words), file=sys.stderr, flush=True)


def save(summary, output):
    if output:
        Path(f"{output}.json").write_text(json.dumps(summary, indent=1) + "\n")
        Path(f"{output}.md").write_text(report.markdown(summary))


def merged(paths):
    """Merges earlier results into one report, with the metadata of the first file."""
    summaries = [json.loads(Path(path).read_text()) for path in paths]
    for summary in summaries[1:]:
        summaries[0]["cases"].update(summary["cases"])
        summaries[0]["loops"] += [label for label in summary["loops"] if label not in summaries[0]["loops"]]
    return summaries[0]


def main():
    given = arguments()
    if given.report:
        print(report.markdown(merged(given.report)))
        return
    chosen = selected(given)
    if given.list:
        print(
            "\n".join(
                f"{case.name:32} {', '.join(metric.unit for metric in case.metrics)}" for case in chosen
            )
        )
        return
    if not chosen:
        raise SystemExit(f"bench: no case matches {given.cases!r}")
    if given.build or not (native.BUILD / "target" / "release" / "loadgen").exists():
        native.build_rust()
        if given.build:
            return
    summary = new_report(given)
    runner = Runner(given.python, given.seconds, given.priority)
    packages = summary["meta"]["packages"]
    for case in chosen:
        missing = [name for name in case.needs if name not in packages]
        if missing:
            print(f"{case.name:32} not run: {', '.join(missing)} not installed", file=sys.stderr)
            continue
        columns = {label: spec for label, spec in summary["specs"].items() if loops.has_case(spec, case.name)}
        if case.limits:
            columns.update({name: f"limit:{name}" for name in LIMITS})
        if not columns:
            continue
        results = {label: [] for label in columns}
        for number in range(given.rounds):
            with locked(given.lock):
                one_round(runner, case, columns, results, number)
        summary["cases"][case.name] = {
            "metrics": [asdict(metric) for metric in case.metrics],
            "results": results,
        }
        progress(case, results, summary["baseline"])
        save(summary, given.output)
    print(report.markdown(summary))
