"""bench/instructions: when a count fails. A script stands for valgrind: the test chooses what it counts."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = Path(__file__).resolve().parent.parent / "bench/instructions"
# Answers --version, or writes the files of callgrind for one workload of 100 and 300 operations.
VALGRIND = """\
#!/bin/sh
if [ "$1" = --version ]; then echo valgrind-1; exit; fi
for argument in "$@"; do
  case $argument in --callgrind-out-file=*) folder=$(dirname "${argument#*=}") ;; esac
done
echo "totals: 777777" >"$folder/42.1"
echo "totals: 5000" >"$folder/42.2"
echo "totals: $((5000 + 200 * COST))" >"$folder/42.3"
echo "chain 42 100 300"
"""


@pytest.fixture
def count(tmp_path):
    """Runs bench/instructions with a workload of this cost per operation."""

    def run(cost, *arguments, rustc="rustc 1"):
        for name, text in (
            ("valgrind", VALGRIND.replace("COST", str(cost))),
            ("rustc", f"#!/bin/sh\necho {rustc}\n"),
        ):
            (tmp_path / name).write_text(text)
            (tmp_path / name).chmod(0o755)
        return subprocess.run(
            [sys.executable, COMMAND, "--stored", tmp_path / "stored.json", *arguments],
            env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            timeout=60,
        )

    return run


@pytest.mark.parametrize("cost", [1000, 1050, 100])
def test_up_to_five_per_cent_more_instructions_pass(count, cost):
    count(1000, "--update")
    ended = count(cost)
    assert (ended.returncode, "verdict: 1 passed, 0 failed" in ended.stdout) == (0, True), ended.stdout


def test_more_than_five_per_cent_fail_and_name_the_row(count):
    count(1000, "--update")
    ended = count(1051)
    assert ended.returncode == 1
    assert "+5.10%  REGRESSION" in ended.stdout
    assert "above the stored counts: python.chain" in ended.stdout
    assert "verdict: 0 passed, 1 failed" in ended.stdout


def test_an_update_stores_the_new_count(count):
    count(1000, "--update")
    count(2000, "--update")
    assert count(2050).returncode == 0


def test_a_count_below_the_stored_one_asks_for_an_update(count):
    count(1000, "--update")
    assert "fewer instructions than stored" in count(900).stdout
    assert "fewer instructions than stored" not in count(990).stdout


def test_counts_of_another_compiler_are_not_compared_and_the_reason_is_named(count):
    count(1000, "--update", rustc="rustc 1")
    ended = count(9999, rustc="rustc 2")
    assert ended.returncode == 1
    assert "rustc is rustc 2, not rustc 1" in ended.stdout
    assert "./test instructions --update" in ended.stdout
    assert "python.chain" not in ended.stdout


def test_each_environment_has_its_own_counts(count, tmp_path):
    count(1000, "--update", rustc="rustc 1")
    count(2000, "--update", rustc="rustc 2")
    assert len(json.loads((tmp_path / "stored.json").read_text())) == 2
    assert count(2050, rustc="rustc 2").returncode == 0
    assert count(2050, rustc="rustc 1").returncode == 1


def test_a_row_that_is_stored_but_not_counted_fails(count, tmp_path):
    count(1000, "--update")
    stored = json.loads((tmp_path / "stored.json").read_text())
    stored[0]["counts"]["python.fanout"] = 1
    (tmp_path / "stored.json").write_text(json.dumps(stored))
    ended = count(1000)
    assert ended.returncode == 1
    assert "python.fanout: was not counted" in ended.stdout
