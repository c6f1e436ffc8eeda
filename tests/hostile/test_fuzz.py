"""Random programs of API calls behave the same on asyncio and mainspring; ``fuzz --seeds N`` runs more."""

from __future__ import annotations

import os
import sys

import battery
import fuzzing
import pytest

# MAINSPRING_TESTS=short is for additional interpreters and .ci/run.
SEEDS = 50 if os.environ.get("MAINSPRING_TESTS") == "short" else 150
BATCHES = [range(start, start + fuzzing.BATCH) for start in range(0, SEEDS, fuzzing.BATCH)]


@pytest.mark.parametrize("debug", [False, True], ids=["normal", "debug"])
@pytest.mark.parametrize("seeds", BATCHES, ids=lambda seeds: f"{seeds[0]}-{seeds[-1]}")
def test_random_programs_behave_the_same_on_both_loops(seeds, debug):
    wrong = fuzzing.judge(seeds, debug)
    if wrong:
        pytest.fail("\n".join(f"seed {seed}:\n{what}" for seed, what in wrong.items()), pytrace=False)


def test_a_difference_between_traces_is_found():
    theirs = {"steps": [[0, "write", "fine"]], "protocol-1": [["connection_made"]], "fds": []}
    assert fuzzing.differences(theirs, theirs) == []
    for ours in (
        {**theirs, "steps": [[0, "write", "TypeError"]]},
        {**theirs, "protocol-1": [["connection_made"], ["connection_lost", None]]},
        {**theirs, "fds": ["socket"]},
        {**theirs, "protocol-2": [["connection_made"]]},
        {"steps": theirs["steps"], "fds": []},
    ):
        assert len(fuzzing.differences(ours, theirs)) == 1


def test_a_process_that_dies_is_found():
    result = battery.run_process([sys.executable, "-c", "import os; os.abort()"], debug=False)
    assert result.faults() == ["died of SIGABRT", "'Fatal Python error' on stderr"]
