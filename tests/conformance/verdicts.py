"""Classify the failures of a run, by running them on a reference loop and again.

A failed test runs on the reference loop: with its whole class, since some tests depend on
state from earlier ones, then alone.  If it does not pass there either, it is `aside`: it says
nothing about the loop under test.  If it passes there, it runs once more on the loop under
test, with its whole class, since an earlier test may cause the failure, which still counts.
If it passes then, it is `unsteady`: counted as passed and listed.  Otherwise it is `failed`.
"""

import collections

import report

PASSED, UNSTEADY, FAILED, ASIDE = ("passed", "unsteady", "failed", "aside")


def passes(outcome):
    return outcome["state"] == "pass"


def judge(results, runner, other):
    """Add a verdict to each result, and in `elsewhere` the result of the reference loop if the test ran there."""
    for outcome in results.values():
        outcome["verdict"] = PASSED if report.state(outcome) == "pass" else ASIDE
    bad = [test for test, outcome in results.items() if outcome["state"] in report.BAD]
    elsewhere = other.run_with_class(bad, runner.units)
    # A test that hangs there does not run there twice.
    left = [test for test in bad if elsewhere[test]["state"] not in ("pass", "timeout")]
    elsewhere.update(other.run_each_alone(left, runner.units))
    able = [test for test in bad if passes(elsewhere[test])]
    for test, outcome in runner.run_with_class(able, runner.units).items():
        results[test]["verdict"] = UNSTEADY if passes(outcome) else FAILED
    skipped = [test for test, outcome in results.items() if outcome["state"] == "skip"]
    elsewhere.update(other.run_each_alone(skipped, runner.units))
    for test, outcome in elsewhere.items():
        results[test]["elsewhere"] = outcome["state"]


def text(run):
    """Every result that is not a plain pass, and the totals."""
    results, other = run["tests"], run["meta"]["beside"]
    lists = {
        f"fails, and passes on {other}": lambda r: r["verdict"] == FAILED,
        "unsteady: failed, then passed": lambda r: r["verdict"] == UNSTEADY,
        f"aside: fails on {other} too": lambda r: r["verdict"] == ASIDE and r["state"] in report.BAD,
        f"aside: skips itself, and passes on {other}": lambda r: (
            r["state"] == "skip" and r.get("elsewhere") == "pass"
        ),
    }
    for heading, belongs in lists.items():
        found = {test: outcome for test, outcome in results.items() if belongs(outcome)}
        if found:
            yield f"{heading} ({len(found)}):"
            for test, outcome in found.items():
                yield from report.entry(test, outcome)
    yield totals(results)


def totals(results):
    """The line that the project's `./test` reads."""
    found = collections.Counter(outcome["verdict"] for outcome in results.values())
    passed = found[PASSED] + found[UNSTEADY]
    return (
        f"verdict: {passed} passed, {found[FAILED]} failed, {found[ASIDE]} aside, {found[UNSTEADY]} unsteady"
    )


def any_failed(results):
    return any(outcome["verdict"] == FAILED for outcome in results.values())
