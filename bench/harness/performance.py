"""Generates what docs/performance.md, its charts and README.md say about speed, from the JSON files of bench.

The files are in bench/results/published. Files of one Python version are runs of the same cases (see standing.py). The
generated parts of the documents are between two comments; the text around them is written by hand.
"""

import argparse
import json
import re
from pathlib import Path
from statistics import median

from . import chart
from .report import figure, table
from .standing import all_rows, counts, has_bad_latency, latency_rows

ROOT = Path(__file__).resolve().parents[2]
LOOP = "mainspring"
GROUPS = {
    "A": "Scheduling",
    "B": "Networking",
    "C": "Realistic programs",
    "D": "Scale and cost",
    "E": "The limit",
}
# The rows of README.md, by case and key of the metric.
SHORT = {
    "A.call_soon.chain": "`call_soon`, each callback schedules the next",
    "A.task.create_await": "create and await a task",
    "B.tcp.protocol.1k.c10": "TCP echo of 1 KiB, protocol, 10 connections",
    "B.tls.protocol.1k.c10": "TLS echo of 1 KiB, protocol, 10 connections",
    "C.http.uvicorn": "HTTP, uvicorn",
}
END = "<!-- generated: end -->"


def begin(name):
    return f"<!-- generated: {name}. Do not edit: bench/performance writes this part. -->"


def minor_version(summary):
    return tuple(int(number) for number in summary["meta"]["python"].split(".")[:2])


def published(folder):
    """The stored results by the Python version, newest first; each a list of runs."""
    found = {}
    for path in sorted(folder.glob("*.json")):
        summary = json.loads(path.read_text())
        found.setdefault(minor_version(summary), []).append(summary)
    if not found:
        raise SystemExit(f"performance: there are no results in {folder}")
    return {version: found[version] for version in sorted(found, reverse=True)}


def other_loops(summaries):
    return list(dict.fromkeys(loop for summary in summaries for loop in summary["loops"] if loop != LOOP))


def name_of(row):
    """The case, with the unit if it has several metrics or is judged by another than its throughput."""
    return row.case if row.metric["key"] == "rate" else f"{row.case}, {row.metric['unit']}"


def worst_first(rows):
    return sorted(rows, key=lambda row: (0 if row.failed else median(row.ratios), row.case))


def described(numbers, singular):
    """`5 rounds`, or `3 to 5 rounds` if the runs differ."""
    low, high = min(numbers), max(numbers)
    count = f"{low:g}" if low == high else f"{low:g} to {high:g}"
    return f"{count} {singular}" if count == "1" else f"{count} {singular}s"


def list_words(words):
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def notes(summaries):
    """What the person who made the runs has added to the files, in `meta`."""
    return list(
        dict.fromkeys(summary["meta"]["note"] for summary in summaries if summary["meta"].get("note"))
    )


def method(summaries):
    """How and where the runs were made, from what bench has recorded."""
    metas = [summary["meta"] for summary in summaries]
    first = metas[0]
    packages = sorted({f"{name} {version}" for meta in metas for name, version in meta["packages"].items()})
    machine = first["machine"]
    if "processor" in first:
        machine = f"{first['processor']}, {first['cores']} cores, {machine}"
    scheduling = ", real-time scheduling" if all(meta.get("priority") for meta in metas) else ""
    rounds = described([meta["rounds"] for meta in metas], "round")
    seconds = described([meta["seconds"] for meta in metas], "second")
    lines = [
        f"- Python {list_words(sorted({meta['python'] for meta in metas}))}; {', '.join(packages)}",
        f"- {machine}",
        f"- {described([len(metas)], 'run')} of {rounds} of {seconds}{scheduling}; "
        + list_words(sorted({meta["date"] for meta in metas})),
    ]
    return lines + [f"- {note}" for note in notes(summaries)]


def ratio(found):
    return f"{median(found):.2f} ({min(found):.2f}..{max(found):.2f})" if found else "-"


def table_rows(rows, latencies, peers):
    tails = {row.case: row for row in latencies}
    for row in worst_first(rows):
        word = row.word if row.word == "level" else f"**{row.word}**"
        if row.failed:
            yield [f"`{row.case}`", word, "failed", "-", "-"] + ["-"] * len(peers)
            continue
        tail = tails.get(row.case)
        if tail is None or tail.failed:
            latency = "-"
        else:
            latency = f"{median(tail.ratios):.2f} {tail.best}"
            if has_bad_latency(tail):
                latency = f"**{latency}**"
        yield [
            f"`{row.case}`",
            word,
            f"{figure(row.value)} {row.metric['unit']}",
            f"{ratio(row.ratios)} {row.best}",
            latency,
        ] + [f"{median(row.peers[loop]):.2f}" if loop in row.peers else "-" for loop in peers]


def sections(version, summaries):
    """The part of docs/performance.md for one Python version, and its charts by name."""
    key = ".".join(str(number) for number in version)
    rows, latencies = all_rows(summaries, LOOP), latency_rows(summaries, LOOP)
    peers = other_loops(summaries)
    bad = [row for row in latencies if has_bad_latency(row)]
    lines = [f"## Python {key}", "", *method(summaries), ""]
    lines += [f"mainspring is {counts(rows)}.", ""]
    lines += [
        f"The p99 latency is more than 10 % worse than that of the best other loop on {len(bad)} of "
        f"{len(latencies)} rows{': ' if bad else ''}{', '.join(f'`{row.case}`' for row in bad)}.",
        "",
    ]
    charts = {}
    for letter, title in GROUPS.items():
        chosen = worst_first(row for row in rows if row.case.startswith(letter))
        if not chosen:
            continue
        name = f"python{key}-{title.lower().replace(' ', '-')}.svg"
        charts[name] = chart.chart(f"{title}, Python {key}", chosen, peers, name_of)
        lines += [f"### {title} (Python {key})", "", f"![{title}: {counts(chosen)}](charts/{name})", ""]
        header = ["case", "standing", LOOP, "best other loop", "p99 latency"] + peers
        lines += table(header, table_rows(chosen, latencies, peers))
    return lines, charts


def short(version, summaries):
    """The table of README.md."""
    rows = all_rows(summaries, LOOP)
    peers = other_loops(summaries)
    found = {row.case: row for row in rows if row.case in SHORT and not row.failed}
    cells = []
    for case, title in SHORT.items():
        if case in found:
            row = found[case]
            unit = " by CPU time" if row.metric["key"] == "cpu_us" else ""
            medians = {loop: median(numbers) for loop, numbers in row.peers.items()}
            cells.append(
                [f"{title}{unit}"]
                + [f"{medians[loop]:.2f}" if loop in medians else "-" for loop in peers]
                + [row.word]
            )
    key = ".".join(str(number) for number in version)
    return [
        f"How many times faster mainspring is than each of the other loops, on Python {key}; standing: next to the best "
        "of them.",
        "",
        *table(["case"] + peers + ["standing"], cells),
        *notes(summaries),
        f"In total mainspring is {counts(rows)}: [docs/performance.md](docs/performance.md) shows each of them.",
    ]


def replaced(text, name, lines, path):
    """`text` with the generated part `name` replaced by `lines`."""
    pattern = re.compile(re.escape(begin(name)) + ".*?" + re.escape(END), re.DOTALL)
    if len(pattern.findall(text)) != 1:
        raise SystemExit(f"performance: {path} has no part between {begin(name)!r} and {END!r}")
    body = "\n".join([begin(name), "", *lines, "", END]).replace("\n\n\n", "\n\n")
    return pattern.sub(lambda _: body, text)


def generated(root):
    """The documents and charts that belong to the stored results: path and text."""
    results = published(root / "bench/results/published")
    lines, files = [], {}
    for version, summaries in results.items():
        part, charts = sections(version, summaries)
        lines += part
        files.update({root / "docs/charts" / name: text for name, text in charts.items()})
    newest = next(iter(results.items()))
    for path, name, part in (
        (root / "docs/performance.md", "results", lines),
        (root / "README.md", "performance", short(*newest)),
    ):
        files[path] = replaced(path.read_text(), name, part, path)
    return files


def differing(files, root):
    """The files whose content is not `files`, and the charts that no longer belong to a result."""
    stale = set((root / "docs/charts").glob("*.svg")) - set(files)
    return sorted(stale), sorted(
        path for path, text in files.items() if not path.exists() or path.read_text() != text
    )


def main():
    parser = argparse.ArgumentParser(
        prog="performance", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail if a file is not up to date"
    )
    parser.add_argument("--root", type=Path, default=ROOT, help="the tree to read and write (this one)")
    options = parser.parse_args()
    files = generated(options.root)
    stale, changed = differing(files, options.root)
    if options.check:
        for path in stale + changed:
            print(f"{path.relative_to(options.root)} does not agree with bench/results/published")
        if stale or changed:
            raise SystemExit("performance: generated parts are not edited by hand; run bench/performance")
        print(f"{len(files)} files agree with bench/results/published")
        return
    (options.root / "docs/charts").mkdir(exist_ok=True)
    for path in stale:
        path.unlink()
    for path in changed:
        path.write_text(files[path])
    print(f"wrote {len(changed)} of {len(files)} files, removed {len(stale)}")
