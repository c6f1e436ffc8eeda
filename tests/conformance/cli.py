"""The command line shared by `run` and `run-uvloop-suite`."""

import argparse
import datetime
import importlib.metadata
import json
import os
import platform
import sys
import tempfile

import report
import scheduler
import suites
import verdicts


def arguments(description, uvloop):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--loop", metavar="MODULE:FACTORY", help="the factory of event loops")
    parser.add_argument(
        "--module", nargs="+", metavar="NAME", help="run these test modules only, e.g. test_events"
    )
    parser.add_argument("--json", metavar="FILE", help="write the results here")
    parser.add_argument(
        "--timeout", type=float, default=60, metavar="SECONDS", help="for one test (default: %(default)s)"
    )
    parser.add_argument("--jobs", type=int, default=2, help="subprocesses at a time (default: %(default)s)")
    parser.add_argument("--compare", metavar="FILE", help="show changes since the run saved there")
    parser.add_argument(
        "--beside",
        metavar="MODULE:FACTORY",
        help="run failures on this reference loop, and again: a test that passes only here has failed",
    )
    parser.add_argument("--audit", action="store_true", help="run the excluded tests, and no others")
    parser.add_argument(
        "--show", nargs="+", metavar="FILE", help="run nothing; print saved runs side by side"
    )
    if uvloop:
        parser.add_argument(
            "--uvloop-version",
            metavar="VERSION",
            help="the version of uvloop whose tests to download (default: the newest)",
        )
        parser.add_argument("--sdist", metavar="FILE", help="an sdist to use instead of downloading one")
    return parser


def distribution_version(loop_spec):
    package = loop_spec.partition(":")[0].partition(".")[0]
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def make_absolute(variable):
    """Make a search path absolute for workers, which run in other directories."""
    if os.environ.get(variable):
        os.environ[variable] = os.pathsep.join(map(os.path.abspath, os.environ[variable].split(os.pathsep)))


def load(path):
    with open(path) as file:
        return json.load(file)


def show(paths):
    runs = [load(path) for path in paths]
    rows = [(report.describe(run), report.count(run["tests"])) for run in runs]
    print(*report.table(rows, "run"), sep="\n")


def progress(unit, results):
    if sys.stderr.isatty():
        print(f"\r\033[K{unit}", end="", file=sys.stderr)


def main(description, uvloop=False):
    parser = arguments(description, uvloop)
    options = parser.parse_args()
    if options.show:
        show(options.show)
        return 0
    if not options.loop or ":" not in options.loop:
        parser.error("--loop MODULE:FACTORY is needed")
    make_absolute("PYTHONPATH")
    if uvloop:
        suite = suites.UvloopSuite(options.uvloop_version, options.sdist)
    else:
        suite = suites.AsyncioSuite()

    def runner_on(loop):
        return scheduler.Scheduler(
            suite,
            loop,
            jobs=options.jobs,
            timeout=options.timeout,
            audit=options.audit,
            progress=progress,
        )

    with tempfile.TemporaryDirectory() as scratch:
        suite.prepare(scratch)
        runner = runner_on(options.loop)
        try:
            loop_class = runner.describe_loop()
        except scheduler.Death as death:
            print(death.detail, file=sys.stderr)
            parser.error(f"{options.loop} makes no event loop")
        results = runner.run(options.module or suite.modules())
        if options.beside:
            verdicts.judge(results, runner, runner_on(options.beside))
    run = {
        "meta": {
            "suite": suite.title(),
            "python": f"CPython {platform.python_version()}",
            "platform": platform.platform(),
            "loop": options.loop,
            "loop_class": loop_class,
            "loop_version": distribution_version(options.loop),
            "beside": options.beside,
            "date": datetime.date.today().isoformat(),
        },
        "counts": report.count(results),
        "tests": results,
    }
    if options.json:
        with open(options.json, "w") as file:
            json.dump(run, file, indent=1)
    print(*report.text(run), sep="\n")
    return conclude(run, options)


def conclude(run, options):
    """Print the tests that did not pass, and return the exit status."""
    if options.beside:
        print(*verdicts.text(run), sep="\n")
        bad = verdicts.any_failed(run["tests"])
    else:
        print(*report.failures(run), sep="\n")
        bad = any(run["counts"][state] for state in report.BAD)
    if options.compare:
        lines, bad = report.compare(load(options.compare), run)
        print(*lines, sep="\n")
    return int(bad)
