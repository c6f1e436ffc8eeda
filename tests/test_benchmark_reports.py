"""bench/standing and bench/performance: what counts as ahead or behind, and documents that agree with stored results."""

import json
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parent.parent / "bench"
RATE = {"key": "rate", "unit": "req/s", "higher_is_better": True}
COST = {"key": "cost", "unit": "ns", "higher_is_better": False}


def case(metrics=(RATE,), **loops):
    """A case; each loop has a list of results, one for each round. A plain number is a rate."""
    results = {
        loop: [outcome if isinstance(outcome, dict) else {"rate": outcome} for outcome in outcomes]
        for loop, outcomes in loops.items()
    }
    return {"metrics": list(metrics), "results": results}


def report(python="3.14.0", **cases):
    """A result file of bench; the name of a case is written with _ for its first dot."""
    cases = {name.replace("_", ".", 1): entry for name, entry in cases.items()}
    loops = list(dict.fromkeys(loop for entry in cases.values() for loop in entry["results"]))
    meta = {
        "date": "2026-01-02 03:04",
        "python": python,
        "packages": {"uvloop": "0.23.0"},
        "machine": "Linux 6.1 x86_64",
        "rounds": 2,
        "seconds": 1.0,
    }
    return {"meta": meta, "loops": loops, "specs": {}, "baseline": "uvloop", "cases": cases}


def run(command, *arguments):
    return subprocess.run(
        [sys.executable, BENCH / command, *map(str, arguments)], capture_output=True, text=True, timeout=60
    )


@pytest.fixture
def standing(tmp_path):
    """Runs bench/standing on result files, and returns the lines that it prints."""

    def compare(*reports, loop="mainspring"):
        paths = [tmp_path / f"{number}.json" for number in range(len(reports))]
        for path, content in zip(paths, reports, strict=True):
            path.write_text(json.dumps(content))
        ended = run("standing", *paths, "--loop", loop)
        assert ended.returncode == 0, ended.stderr
        return [" ".join(line.split()) for line in ended.stdout.splitlines()]

    return compare


@pytest.mark.parametrize(
    ("ours", "word", "ratio"),
    [(105, "ahead", "1.05"), (104, "level", "1.04"), (95, "level", "0.95"), (94, "behind", "0.94")],
)
def test_five_per_cent_decide_between_ahead_level_and_behind(standing, ours, word, ratio):
    lines = standing(report(A_x=case(mainspring=[ours] * 2, uvloop=[100] * 2)))
    assert lines[0] == f"{word} A.x req/s {ratio} ({ratio}..{ratio}) of uvloop"


def test_a_row_is_compared_with_the_best_of_the_other_loops(standing):
    lines = standing(report(A_x=case(mainspring=[100], uvloop=[50], rloop=[200], asyncio=[10])))
    assert lines[0] == "behind A.x req/s 0.50 (0.50..0.50) of rloop"


def test_the_figure_is_the_median_of_the_ratios_within_each_round(standing):
    lines = standing(report(A_x=case(mainspring=[100, 20, 300], uvloop=[50, 20, 100])))
    assert lines[0] == "ahead A.x req/s 2.00 (1.00..3.00) of uvloop"


def test_of_a_cost_the_lower_one_is_better(standing):
    lines = standing(report(D_x=case((COST,), mainspring=[{"cost": 50}], uvloop=[{"cost": 100}])))
    assert lines[0] == "ahead D.x ns 2.00 (2.00..2.00) of uvloop"


def test_a_case_with_two_metrics_gives_two_rows(standing):
    ours, theirs = {"rate": 100, "cost": 10}, {"rate": 50, "cost": 5}
    lines = standing(report(D_x=case((RATE, COST), mainspring=[ours], uvloop=[theirs])))
    assert lines[:3] == [
        "ahead D.x req/s 2.00 (2.00..2.00) of uvloop",
        "behind D.x ns 0.50 (0.50..0.50) of uvloop",
        "ahead on 1 of 2 rows, level on 0, behind on 1",
    ]


@pytest.mark.parametrize(
    ("figures", "word"),
    [
        ((90, 91, 92), "behind"),
        ((90, 91, 96), "level"),
        ((106, 107, 108), "ahead"),
        ((106, 107, 100), "level"),
    ],
)
def test_with_several_runs_a_loop_is_ahead_or_behind_only_if_all_agree(standing, figures, word):
    runs = [report(A_x=case(mainspring=[figure], uvloop=[100])) for figure in figures]
    first, last = standing(*runs)[:2]
    assert first.startswith(word)
    assert first.endswith("runs: " + " ".join(f"{figure / 100:.2f}" for figure in figures))
    assert f"{word} on 1" in last


def test_files_with_different_cases_are_added_up(standing):
    lines = standing(
        report(A_x=case(mainspring=[100], uvloop=[50])), report(A_y=case(mainspring=[100], uvloop=[200]))
    )
    assert lines[2] == "ahead on 1 of 2 rows, level on 0, behind on 1"


def test_a_case_that_failed_counts_as_behind(standing):
    lines = standing(report(A_x=case(mainspring=[{"failed": "stalled"}], uvloop=[50])))
    assert lines[0] == "behind A.x req/s FAILED"
    assert lines[1].endswith("behind on 1")


def test_a_loop_that_failed_and_a_bare_server_are_not_compared(standing):
    lines = standing(
        report(
            E_x=case(mainspring=[100, 100], uvloop=[50, 50], rloop=[200, {"failed": ""}], epoll=[300, 300])
        )
    )
    assert lines[0].endswith("of uvloop")


def test_with_the_load_generator_at_its_limit_a_row_compares_cpu_time(standing):
    ours = {"rate": 100, "cpu_us": 5, "client_busy": 0.95}
    theirs = {"rate": 100, "cpu_us": 10, "client_busy": 0.95}
    lines = standing(report(B_x=case(mainspring=[ours], uvloop=[theirs])))
    assert lines[0] == "ahead B.x CPU us/req 2.00 (2.00..2.00) of uvloop"


def test_a_latency_more_than_ten_per_cent_worse_is_listed(standing):
    ours = {"rate": 100, "p99_us": 100}
    lines = standing(
        report(
            B_x=case(mainspring=[ours], uvloop=[{"rate": 100, "p99_us": 89}]),
            B_y=case(mainspring=[ours], uvloop=[{"rate": 100, "p99_us": 91}]),
        )
    )
    assert lines[-2:] == [
        "latency B.x us p99 0.89 (0.89..0.89) of uvloop",
        "p99 latency more than 10 % worse than the best other loop on 1 of 2 rows",
    ]


def test_any_loop_can_be_compared_with_the_others(standing):
    lines = standing(report(A_x=case(mainspring=[100], uvloop=[50], rloop=[10])), loop="uvloop")
    assert lines[0] == "behind A.x req/s 0.50 (0.50..0.50) of mainspring"


@pytest.fixture
def tree(tmp_path):
    """A tree with two documents and one stored result."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "bench/results/published").mkdir(parents=True)
    for path, name in (("docs/performance.md", "results"), ("README.md", "performance")):
        (tmp_path / path).write_text(
            "By hand.\n\n"
            f"<!-- generated: {name}. Do not edit: bench/performance writes this part. -->\n"
            "<!-- generated: end -->\n\nBy hand, too.\n"
        )
    store(
        tmp_path,
        report(
            A_slow=case(mainspring=[50], uvloop=[100], rloop=[80]),
            B_x=case(mainspring=[100], uvloop=[100]),
            **{"A_call_soon.chain": case(mainspring=[300], uvloop=[100])},
        ),
    )
    return tmp_path


def store(tree, content, name="python3.14-1"):
    (tree / f"bench/results/published/{name}.json").write_text(json.dumps(content))


def generate(tree, *arguments):
    return run("performance", "--root", tree, *arguments)


def test_the_page_lists_the_worst_row_first_and_keeps_the_text_around(tree):
    assert generate(tree).returncode == 0
    page = (tree / "docs/performance.md").read_text()
    assert page.startswith("By hand.\n") and page.endswith("By hand, too.\n")
    assert page.index("`A.slow` | **behind**") < page.index("`A.call_soon.chain` | **ahead**")
    assert "mainspring is ahead on 1 of 3 rows, level on 1, behind on 1." in page
    assert "2026-01-02" in page and "Linux 6.1" in page


def test_the_readme_has_a_short_table_and_the_totals(tree):
    generate(tree)
    readme = (tree / "README.md").read_text()
    assert "| `call_soon`, each callback schedules the next | 3.00 | - | ahead |" in readme
    assert "A.slow" not in readme
    assert "ahead on 1 of 3 rows, level on 1, behind on 1" in readme


def test_a_chart_is_well_formed_and_names_each_row_with_its_ratio(tree):
    generate(tree)
    chart = ElementTree.parse(tree / "docs/charts/python3.14-scheduling.svg")
    words = [element.text for element in chart.iter("{http://www.w3.org/2000/svg}text")]
    assert words.index("A.slow") < words.index("0.50 × uvloop, behind") < words.index("A.call_soon.chain")
    classes = [element.get("class") for element in chart.iter("{http://www.w3.org/2000/svg}rect")]
    assert classes == ["back", "behind", "ahead"]


def test_results_of_an_older_python_come_after_the_newer_and_runs_are_combined(tree):
    store(tree, report(A_slow=case(mainspring=[97], uvloop=[100])), "python3.14-2")
    store(tree, report("3.9.1", A_slow=case(mainspring=[50], uvloop=[100])), "python3.9-1")
    generate(tree)
    page = (tree / "docs/performance.md").read_text()
    assert page.index("## Python 3.14") < page.index("`A.slow` | level") < page.index("## Python 3.9")
    assert "2 runs of 2 rounds" in page


def test_a_note_of_a_result_appears_in_both_documents(tree):
    content = report(A_x=case(mainspring=[100], uvloop=[100]))
    content["meta"]["note"] = "The machine was busy."
    store(tree, content)
    generate(tree)
    for name in ("docs/performance.md", "README.md"):
        assert (tree / name).read_text().count("The machine was busy.") == 1


def test_the_check_accepts_what_was_generated(tree):
    generate(tree)
    assert generate(tree, "--check").returncode == 0


@pytest.mark.parametrize(
    "name", ["docs/performance.md", "README.md", "docs/charts/python3.14-scheduling.svg"]
)
def test_the_check_names_a_file_that_was_edited_by_hand(tree, name):
    generate(tree)
    path = tree / name
    path.write_text(path.read_text().replace("mainspring", "mainspring, first").replace("0.50 ×", "1.50 ×"))
    ended = generate(tree, "--check")
    assert ended.returncode == 1
    assert f"{name} does not agree" in ended.stdout


def test_the_check_fails_if_a_result_or_a_chart_is_newer_than_the_page(tree):
    generate(tree)
    (tree / "docs/charts/old.svg").write_text("<svg/>")
    store(tree, report(A_slow=case(mainspring=[100], uvloop=[100])))
    ended = generate(tree, "--check")
    assert ended.returncode == 1
    assert "docs/charts/old.svg" in ended.stdout and "docs/performance.md" in ended.stdout


def test_a_page_without_its_marks_is_refused(tree):
    (tree / "README.md").write_text("nothing\n")
    ended = generate(tree)
    assert ended.returncode == 1
    assert "README.md has no part between" in ended.stderr
