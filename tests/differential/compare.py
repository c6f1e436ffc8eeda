"""Runs the same operations on asyncio's loop and on mainspring's, and compares the traces.

``MAINSPRING_EXAMPLES=5000`` tries more programs of each kind; ``MAINSPRING_SEED=7`` tries other programs than the
default ones.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any

import hypothesis
from hypothesis import strategies as st
from stage import World, staged

import mainspring

LOOPS = {"asyncio": asyncio.SelectorEventLoop, "mainspring": mainspring.Loop}

Operation = tuple[Any, ...]
Trace = list[tuple[Any, ...]]

# In a trace: from here on asyncio's behaviour is a bug of asyncio, and is not compared.
NO_MEASURE = "no measure"


def programs(examples: int) -> Callable[[Any], Any]:
    """Hypothesis settings of a test in this folder: the same examples each time, unless a seed is given."""
    wanted = os.environ.get("MAINSPRING_EXAMPLES")
    seed = os.environ.get("MAINSPRING_SEED")
    settings = hypothesis.settings(
        max_examples=int(wanted) if wanted else examples,
        derandomize=seed is None,
        deadline=None,
        database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )

    def decorate(test: Any) -> Any:
        return settings(hypothesis.seed(int(seed))(test) if seed is not None else test)

    return decorate


def program_of(step: st.SearchStrategy[list[Operation]], most: int = 8) -> st.SearchStrategy[list[Operation]]:
    """Lists of steps. After each step the loop settles, runs one iteration, or does not run."""
    after = st.sampled_from([[("settle",)], [("iterate",)], []])
    steps = st.lists(st.tuples(step, after), max_size=most)
    return steps.map(lambda pairs: [each for first, then in pairs for each in (*first, *then)])


def run_on(loop_class: Any, world_class: type[World], operations: list[Operation]) -> Trace:
    with staged(loop_class) as stage:
        world = world_class(stage)
        try:
            world.play(operations)
        finally:
            world.close_all()
        # Drops the remaining objects while the trace is still recorded.
        del world
    return stage.trace


# Calls whose last argument is a part of the stream.
BRING_DATA = (("callback", "data_received"), ("callback", "buffer_updated"))


def joined(trace: Trace) -> Trace:
    """Joins the data of consecutive calls."""
    result: Trace = []
    for entry in trace:
        if entry[:2] in BRING_DATA and result and result[-1][:3] == entry[:3]:
            result[-1] = (*entry[:3], result[-1][3] + entry[3])
        else:
            result.append(entry)
    return result


def without_handles(trace: Trace) -> Trace:
    """Reduces a report to the fact that it was made: asyncio reports an exception in a callback of a pipe or datagram
    transport with the handle of the reader, mainspring with the transport."""
    result: Trace = []
    for entry in trace:
        if entry[0] == "reported" and (
            entry[1] in ("Exception", "Exception while handling I/O")
            or entry[1].endswith("_received() failed")
        ):
            entry = ("reported", "", entry[2])
        result.append(entry)
    return result


def is_asyncios_fault(entry: tuple[Any, ...]) -> bool:
    """Whether the entry is a bug of asyncio that mainspring does not have (docs/differences.md)."""
    if entry[0] == NO_MEASURE:
        return True
    # The transport uses its loop or socket after it dropped them.
    if entry[0] == "call" and entry[2] == "raised":
        return entry[3][0] in ("AttributeError", "AssertionError") or "'NoneType' object" in str(entry[3][1])
    if entry[0] == "reported":
        return entry[2] is not None and (
            entry[2][0] in ("AttributeError", "AssertionError", "InvalidStateError")
            or "'NoneType' object" in str(entry[2][1])
        )
    return False


def same_on_both(world_class: type[World], operations: list[Operation]) -> None:
    """Fails, showing both traces, unless the loops behaved the same."""
    arranged = world_class.arranged
    theirs = [joined(part) for part in arranged(run_on(LOOPS["asyncio"], world_class, operations))]
    ours = [joined(part) for part in arranged(run_on(LOOPS["mainspring"], world_class, operations))]
    faults = [
        (part, index)
        for part, entries in enumerate(theirs)
        for index, entry in enumerate(entries)
        if is_asyncios_fault(entry)
    ]
    if faults:
        if hypothesis.currently_in_test_context():
            hypothesis.event("asyncio is no measure from some point on")
        # Compares only this part, up to that entry: other parts may already show consequences.
        part, end = faults[0]
        theirs, ours = [theirs[part][:end]], [ours[part][:end]]
    for theirs_of_part, ours_of_part in zip(theirs, ours, strict=True):
        if theirs_of_part != ours_of_part:
            raise AssertionError(difference(operations, theirs_of_part, ours_of_part))


def short(entry: Any) -> str:
    text = repr(entry)
    return text if len(text) < 150 else text[:100] + "…" + text[-40:]


def difference(operations: list[Operation], theirs: Trace, ours: Trace) -> str:
    lines = ["the loops differ after these operations:"]
    lines += [f"    {operation!r}," for operation in operations]
    same = 0
    while same < min(len(theirs), len(ours)) and theirs[same] == ours[same]:
        same += 1
    lines += ["both:", *(f"    {short(entry)}" for entry in theirs[:same])]
    lines += ["then asyncio:", *(f"    {short(entry)}" for entry in theirs[same : same + 12])]
    lines += ["and mainspring:", *(f"    {short(entry)}" for entry in ours[same : same + 12])]
    return "\n".join(lines)
