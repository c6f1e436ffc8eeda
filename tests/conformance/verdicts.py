"""Say what the failures of a run mean, by trying them again and on a loop to compare with.

A test that failed is run once more, alone.  If it passes then it is `unsteady`: it
counts as passed and is named.  If not, it is tried on the other loop: with its whole
class, since some tests lean on what earlier ones left behind, then alone.  Passing there
once makes it `failed`, and not passing there either makes it `aside`, for then it says
nothing of the loop under test.
"""

import collections

import report

PASSED, UNSTEADY, FAILED, ASIDE = ("passed", "unsteady", "failed", "aside")


def passes(outcome):
    return outcome["state"] == "pass"


def judge(results, runner, other):
    """Add a verdict to each result, and in `elsewhere` how the other loop does where it was asked."""
    for outcome in results.values():
        outcome["verdict"] = PASSED if report.state(outcome) == "pass" else ASIDE
    bad = [test for test, outcome in results.items() if outcome["state"] in report.BAD]
    again = runner.again(bad)
    failed = [test for test in bad if not passes(again[test])]
    skipped = [test for test, outcome in results.items() if outcome["state"] == "skip"]
    classes = {test.rpartition(".")[0] for test in failed}
    in_class = other.run_units({unit: tests for unit, tests in runner.units.items() if unit in classes})
    elsewhere = {test: in_class[test] for test in failed if test in in_class}
    left = [test for test in failed if test not in elsewhere or not passes(elsewhere[test])]
    elsewhere.update(other.again([*left, *skipped], runner.units))
    for test in bad:
        results[test]["verdict"] = UNSTEADY
    for test in failed:
        results[test]["verdict"] = FAILED if passes(elsewhere[test]) else ASIDE
    for test, outcome in elsewhere.items():
        results[test]["elsewhere"] = outcome["state"]


def text(run):
    """Every result that is more or less than a plain pass, and the totals."""
    results, other = run["tests"], run["meta"]["beside"]
    lists = {
        f"fails, and passes on {other}": lambda r: r["verdict"] == FAILED,
        "unsteady: failed, then passed alone": lambda r: r["verdict"] == UNSTEADY,
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
