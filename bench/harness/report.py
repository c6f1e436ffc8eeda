"""Ratios within each round, their medians and spreads, as markdown."""

from statistics import median


def values(results, loop, key):
    """One value per round of a loop; None if the round failed."""
    return [outcome.get(key) for outcome in results.get(loop, [])]


def ratios(results, loop, baseline, key, higher_is_better):
    """Per round, the ratio to the baseline; above 1 is better, whatever the unit."""
    found = []
    for value, reference in zip(values(results, loop, key), values(results, baseline, key), strict=False):
        if value and reference and value > 0 and reference > 0:
            found.append(value / reference if higher_is_better else reference / value)
    return found


def figure(number):
    if number >= 100:
        return f"{number:,.0f}"
    return f"{number:.1f}" if number >= 10 else f"{number:.2f}"


def ratio_cell(results, loop, baseline, key, higher_is_better):
    outcomes = results.get(loop)
    if not outcomes:
        return "-"
    failures = sum("failed" in outcome for outcome in outcomes)
    if failures:
        return "**FAILED**"
    found = ratios(results, loop, baseline, key, higher_is_better)
    if not found:
        return "-"
    return f"{median(found):.2f} ({min(found):.2f}..{max(found):.2f})"


def absolute_cell(results, loop, key):
    if any("failed" in outcome for outcome in results.get(loop, [])):
        return "**FAILED**"
    found = [value for value in values(results, loop, key) if value is not None]
    return figure(median(found)) if found else "-"


def table(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|" + "|".join(["---"] + ["---:"] * (len(header) - 1)) + "|"]
    return lines + ["| " + " | ".join(row) + " |" for row in rows] + [""]


def marks(entry):
    """Warnings for a row: c, the load generator was near its limit; n, other processes disturbed the runs."""
    outcomes = [outcome for rounds in entry["results"].values() for outcome in rounds]
    client = median([outcome.get("client_busy", 0) for outcome in outcomes])
    waited = median([outcome.get("waited", 0) for outcome in outcomes])
    return (" ^c^" if client > 0.9 else "") + (" ^n^" if waited > 0.08 else "")


def main_table(report, names):
    baseline = report["baseline"]
    loops = [label for label in report["loops"] if label != baseline]
    rows = []
    for name in names:
        entry = report["cases"][name]
        for metric in entry["metrics"]:
            key, higher = metric["key"], metric["higher_is_better"]
            title = name if len(entry["metrics"]) == 1 else f"{name} {metric['unit']}"
            row = [title + marks(entry), f"{absolute_cell(entry['results'], baseline, key)} {metric['unit']}"]
            rows.append(row + [ratio_cell(entry["results"], loop, baseline, key, higher) for loop in loops])
    return table(["case", baseline] + loops, rows)


def cost_table(report, names):
    """Server CPU per request and p99 latency of the cases that have both."""
    baseline = report["baseline"]
    loops = [label for label in report["loops"] if label != baseline]
    header = (
        ["case", f"{baseline} CPU us/req"]
        + loops
        + [f"{baseline} p99 us"]
        + [f"{loop} p99" for loop in loops]
    )
    rows = []
    for name in names:
        results = report["cases"][name]["results"]
        if not any(values(results, baseline, "cpu_us")) or not any(values(results, baseline, "p99_us")):
            continue
        row = [name]
        for key in ("cpu_us", "p99_us"):
            row.append(absolute_cell(results, baseline, key))
            row += [ratio_cell(results, loop, baseline, key, False) for loop in loops]
        rows.append(row)
    return table(header, rows) if rows else []


def limit_tables(report, names):
    """Requests per second and server CPU per request, compared with the bare servers."""
    columns = report["loops"] + sorted(
        {loop for name in names for loop in report["cases"][name]["results"]} - set(report["loops"])
    )
    baseline = report["baseline"]
    others = [column for column in columns if column != baseline]
    lines = []
    for title, key, higher in (
        ("throughput", "rate", True),
        ("server CPU per request", "cpu_us", False),
        ("server CPU per request outside the kernel", "user_us", False),
    ):
        rows = []
        for name in names:
            entry = report["cases"][name]
            results = entry["results"]
            row = [name + marks(entry), absolute_cell(results, baseline, key)]
            rows.append(row + [ratio_cell(results, column, baseline, key, higher) for column in others])
        unit = "req/s" if higher else "us"
        lines += [f"By {title}:", ""] + table(["case", f"{baseline} {unit}"] + others, rows)
    return lines


def failures(report):
    reasons = {}
    for name, entry in report["cases"].items():
        for loop, outcomes in entry["results"].items():
            for outcome in outcomes:
                if "failed" in outcome:
                    reasons.setdefault((name, loop), outcome["failed"])
    return [f"- `{name}` on {loop}: {reason}" for (name, loop), reason in reasons.items()]


def markdown(report):
    meta = report["meta"]
    lines = [
        f"# Event loops on Python {meta['python']}",
        "",
        f"{meta['date']}; {meta['machine']}; {meta['rounds']} rounds of {meta['seconds']} s; "
        + ", ".join(f"{name} {version}" for name, version in meta["packages"].items()),
        "",
        f"Each cell: how many times better than {report['baseline']} (above 1 is better, also for latency, "
        "memory and CPU), the median of the rounds and (lowest..highest). ^c^: the load generator was near its limit, "
        "so compare CPU per request. ^n^: the measured process waited for its core for over 8 % of the time.",
        "",
    ]
    if meta.get("note"):
        lines += [f"Note: {meta['note']}", ""]
    groups = {}
    for name in report["cases"]:
        groups.setdefault(name[0], []).append(name)
    titles = {"A": "Scheduling", "B": "Networking", "C": "Realistic", "D": "Scale and cost", "E": "The limit"}
    for letter, names in sorted(groups.items()):
        lines += [f"## {letter}. {titles.get(letter, '')}", ""]
        if letter == "E":
            lines += limit_tables(report, names)
            continue
        lines += main_table(report, names)
        if letter in "BC":
            costs = cost_table(report, names)
            if costs:
                lines += ["Server CPU per request and p99 latency:", ""] + costs
    found = failures(report)
    if found:
        lines += ["## Failures", ""] + found + [""]
    return "\n".join(lines)
