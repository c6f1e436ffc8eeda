"""Count results, print them, and compare them with an earlier run."""

import collections

STATES = ("pass", "fail", "error", "skip", "crash", "timeout", "excluded", "not exercised")
BAD = ("fail", "error", "crash", "timeout")


def state(result):
    """A test that passed without creating a loop from the factory counts as not exercised."""
    if result["state"] == "pass" and not result["loops"]:
        return "not exercised"
    return result["state"]


def count(results):
    found = collections.Counter(map(state, results.values()))
    return {name: found[name] for name in STATES}


def by_module(results):
    modules = {}
    for test, outcome in results.items():
        modules.setdefault(test.partition(".")[0], {})[test] = outcome
    return modules


def summary(outcome):
    """One line with the reason: the error raised, or the last call of a dead worker."""
    lines = [line for line in outcome["detail"].splitlines() if line.strip()]
    if outcome["state"] in ("crash", "timeout"):
        return death(lines, crashed=outcome["state"] == "crash")
    errors = [line for line in lines if line[0] not in " \t-+?"]
    return (errors or lines or [""])[-1]


def death(lines, crashed):
    """The signal and the main thread's last call, from faulthandler's output."""
    causes = [line for line in lines if line.startswith("Fatal Python error")]
    starts = [i for i, line in enumerate(lines) if line.startswith("Current thread 0x")]
    main = lines[starts[-1] :] if starts else []
    where = [line.strip() for line in main if line.strip().startswith("File ")]
    return ", ".join([*(causes or lines)[:crashed], *where[:1]])


def table(rows, heading):
    """Counts by state, a row for each (label, counts)."""
    width = max(len(label) for label, _ in [*rows, (heading, None)])
    head = [f"{name:>{max(len(name), 5)}}" for name in STATES]
    yield f"{heading:<{width}}  " + "  ".join(head)
    for label, counts in rows:
        cells = [f"{counts[name] or '.':>{len(cell)}}" for name, cell in zip(STATES, head, strict=True)]
        yield f"{label:<{width}}  " + "  ".join(cells)


def describe(run):
    meta = run["meta"]
    version = f" {meta['loop_version']}" if meta["loop_version"] else ""
    return f"{meta['suite']} suite, {meta['python']}, {meta['loop']} -> {meta['loop_class']}{version}"


def text(run):
    results = run["tests"]
    yield describe(run)
    rows = [(module, count(part)) for module, part in by_module(results).items()]
    yield from table([*rows, ("total", count(results))], "module")
    yield f"loops made by the factory: {sum(r['loops'] for r in results.values())}"


def entry(test, outcome):
    """A test that did not pass, and why."""
    yield f"{outcome['state']:<8}{test}"
    yield f"        {summary(outcome)[:150]}"


def failures(run):
    for test, outcome in run["tests"].items():
        if outcome["state"] in BAD:
            yield from entry(test, outcome)


def compare(base, run):
    """Lines about the changes since `base`, and whether anything got worse."""
    before = {test: state(r) for test, r in base["tests"].items()}
    after = {test: state(r) for test, r in run["tests"].items()}
    worse, better = [], []
    for test in sorted(before.keys() & after.keys()):
        line = f"  {test}: {before[test]} -> {after[test]}"
        if after[test] in BAD and before[test] not in BAD:
            worse.append(line)
        elif after[test] == "pass" and before[test] != "pass":
            better.append(line)
        elif before[test] == "pass" and after[test] != "pass":
            worse.append(line)
    lines = [
        f"compared with {describe(base)}",
        f"worse: {len(worse)}",
        *worse,
        f"better: {len(better)}",
        *better,
    ]
    for name, tests in (
        ("only now", after.keys() - before.keys()),
        ("only then", before.keys() - after.keys()),
    ):
        if tests:
            lines.append(f"{name}: {len(tests)}")
    return lines, bool(worse)
