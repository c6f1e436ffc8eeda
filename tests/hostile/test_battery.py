"""Hostile programs: each in a separate process, on asyncio and mainspring, in normal and debug mode.

A case fails if mainspring crashes, hangs, panics, leaks fds or objects that asyncio does not leak, or prints something
else than asyncio.  ``run NAME`` in this folder runs one by hand.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import battery
import hostile
import pytest

for subject in hostile.subjects():
    hostile.load(subject)

# With MAINSPRING_TESTS=short, as on additional interpreters, a case runs in only one of the two modes.
SHORT = os.environ.get("MAINSPRING_TESTS") == "short"
CASES = [
    (name, debug)
    for number, name in enumerate(hostile.cases)
    for debug in (False, True)
    if not SHORT or debug == bool(number % 2)
]


@pytest.fixture(scope="module")
def judgements(request):
    """The results of the selected cases, as futures: the cases run concurrently."""
    wanted = dict.fromkeys(
        item.callspec.params["case"]
        for item in request.session.items
        if item.path == request.path and hasattr(item, "callspec")
    )
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        yield {case: pool.submit(battery.judge, *case) for case in wanted}
        pool.shutdown(cancel_futures=True)


@pytest.mark.timeout(600)  # the first one has to wait, too
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}-{'debug' if case[1] else 'normal'}")
def test_a_hostile_program_prints_the_same_on_both_loops(case, judgements):
    if wrong := judgements[case].result():
        pytest.fail(wrong, pytrace=False)


def test_the_battery_has_at_least_150_cases():
    assert len(hostile.cases) >= 150
