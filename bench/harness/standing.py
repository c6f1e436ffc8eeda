"""Row by row, how a loop stands next to the best of the other loops.

A row is one metric of one case. Its figure is the ratio to the best other loop in the same round, the median of the
rounds; above 1 is better. At 1.05 or more the loop is ahead, below 0.95 it is behind, else level. Files that contain the
same case are runs of it: the loop counts as ahead or behind only if all runs agree, else as level. A case that failed
counts as behind.

If the load generator was near its limit, throughput does not separate the servers: such a row compares the CPU time per
request.
"""

import argparse
import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from cases.limit import LIMITS

from .report import ratios, values

AHEAD, BEHIND = 1.05, 0.95
# The 99th percentile of the latency may be 10 % worse than that of the best other loop.
WORST_LATENCY = 0.9
CLIENT_LIMIT = 0.9
CPU_TIME = {"key": "cpu_us", "unit": "CPU us/req", "higher_is_better": False}
LATENCY = {"key": "p99_us", "unit": "us p99", "higher_is_better": False}


@dataclass
class Row:
    case: str
    metric: dict
    # One entry for each run: the ratios to every other loop, one for each round.
    runs: list
    # The median of the loop's own figures; None if it failed.
    value: float | None

    @property
    def failed(self):
        return self.value is None

    @property
    def medians(self):
        """For each run, the ratio to the loop that was best in it."""
        return [min(median(found) for found in run.values()) for run in self.runs]

    @property
    def peers(self):
        """The ratios to every other loop, of all runs."""
        found = {}
        for run in self.runs:
            for loop, numbers in run.items():
                found[loop] = found.get(loop, []) + numbers
        return found

    @property
    def best(self):
        """The best of the other loops, over all runs."""
        return min(self.peers, key=lambda loop: median(self.peers[loop]))

    @property
    def ratios(self):
        """The ratios to the best of the other loops."""
        return self.peers[self.best]

    @property
    def word(self):
        if self.failed or all(figure < BEHIND for figure in self.medians):
            return "behind"
        return "ahead" if all(figure >= AHEAD for figure in self.medians) else "level"


def has_failed(results, loop):
    return any("failed" in outcome for outcome in results[loop])


def one_row(name, entries, loop, metric):
    """The row of one metric; None if no other loop has a figure for it."""
    key, higher = metric["key"], metric["higher_is_better"]
    if any(has_failed(entry["results"], loop) for entry in entries):
        return Row(name, metric, [], None)
    runs, own = [], []
    for entry in entries:
        results = entry["results"]
        others = [
            peer
            for peer in results
            if peer not in (loop, *LIMITS) and results[peer] and not has_failed(results, peer)
        ]
        found = {peer: ratios(results, loop, peer, key, higher) for peer in others}
        found = {peer: numbers for peer, numbers in found.items() if numbers}
        if found:
            runs.append(found)
            own += [value for value in values(results, loop, key) if value is not None]
    return Row(name, metric, runs, median(own)) if runs else None


def is_client_limited(entries):
    outcomes = [outcome for entry in entries for rounds in entry["results"].values() for outcome in rounds]
    return median([outcome.get("client_busy", 0) for outcome in outcomes]) > CLIENT_LIMIT


def measures(entries, key, loop):
    return any(key in outcome for entry in entries for outcome in entry["results"][loop])


def compared_metrics(entries, loop):
    metrics = entries[0]["metrics"]
    if metrics[0]["key"] == "rate" and measures(entries, "cpu_us", loop) and is_client_limited(entries):
        return [CPU_TIME]
    return metrics


def by_case(summaries, loop):
    """The entries of each case, one for each run, if the loop ran it."""
    found = {}
    for summary in summaries:
        for name, entry in summary["cases"].items():
            if entry["results"].get(loop):
                found.setdefault(name, []).append(entry)
    return found


def all_rows(summaries, loop):
    found = [
        one_row(name, entries, loop, metric)
        for name, entries in by_case(summaries, loop).items()
        for metric in compared_metrics(entries, loop)
    ]
    return [row for row in found if row is not None]


def latency_rows(summaries, loop):
    """The 99th percentile of the latency, of the cases that measure it besides their throughput."""
    found = [
        one_row(name, entries, loop, LATENCY)
        for name, entries in by_case(summaries, loop).items()
        if measures(entries, LATENCY["key"], loop)
        and LATENCY["key"] not in [metric["key"] for metric in entries[0]["metrics"]]
    ]
    return [row for row in found if row is not None]


def has_bad_latency(row):
    return row.failed or all(figure < WORST_LATENCY for figure in row.medians)


def counts(rows):
    found = Counter(row.word for row in rows)
    return f"ahead on {found['ahead']} of {len(rows)} rows, level on {found['level']}, behind on {found['behind']}"


def line(word, row):
    start = f"{word:8} {row.case:32} {row.metric['unit']:18}"
    if row.failed:
        return f"{start}  FAILED"
    found = row.ratios
    text = f"{start} {median(found):5.2f} ({min(found):.2f}..{max(found):.2f}) of {row.best}"
    if len(row.medians) > 1:
        text += ", runs: " + " ".join(f"{figure:.2f}" for figure in row.medians)
    return text


def main():
    parser = argparse.ArgumentParser(
        prog="standing", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", metavar="RESULT.json", nargs="+", help="written by bench --output")
    parser.add_argument("--loop", default="mainspring", help="the loop to compare with the others")
    options = parser.parse_args()
    summaries = [json.loads(Path(path).read_text()) for path in options.results]
    rows = all_rows(summaries, options.loop)
    if not rows:
        raise SystemExit(f"standing: no case with {options.loop} and another loop")
    for row in rows:
        print(line(row.word, row))
    print(counts(rows))
    latencies = latency_rows(summaries, options.loop)
    bad = [row for row in latencies if has_bad_latency(row)]
    for row in bad:
        print(line("latency", row))
    print(f"p99 latency more than 10 % worse than the best other loop on {len(bad)} of {len(latencies)} rows")
