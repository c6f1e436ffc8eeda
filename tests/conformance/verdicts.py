"""Say what the failures of a run mean, by trying them on a loop to compare with and again.

A test that failed is tried on the other loop: with its whole class, since some tests lean
on what earlier ones left behind, then alone.  Not passing there either makes it `aside`,
for then it says nothing of the loop under test.  If it passes there, it is run once more on
the loop under test, with its whole class, since a failure may be an earlier test's doing and
is none the less one.  Passing then makes it `unsteady`, which counts as passed and is named,
and else it is `failed`.
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
    elsewhere = other.run_with_class(bad, runner.units)
    # One that hangs there is not waited for twice.
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
    """Every result that is more or less than a plain pass, and the totals."""
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
