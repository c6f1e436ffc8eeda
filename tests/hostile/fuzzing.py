"""Runs the fuzzer's programs in separate processes on both loops, and compares the traces."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import pathlib
import sys
import tempfile
import warnings
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import battery
import hostile
import world

HERE = pathlib.Path(__file__).parent

# Programs per process.
BATCH = 25


def play(seed: int, kind: str, debug: bool, skip: Iterable[int] = ()) -> dict[str, Any]:
    """Runs one program in this process: its trace, and the fds it leaked."""
    hostile.choose(kind)
    logging.disable()
    warnings.simplefilter("ignore")
    hostile.new_loop().close()
    before = hostile.open_fds()
    with tempfile.TemporaryDirectory() as folder:
        home = os.getcwd()
        os.chdir(folder)
        try:
            loop = hostile.new_loop()
            loop.set_debug(debug)
            trace: dict[str, Any] = world.World(loop, seed).play(frozenset(skip))
            del loop
        finally:
            os.chdir(home)
    hostile.collect()
    after = hostile.open_fds()
    trace["fds"] = sorted(
        target.partition(":")[0] for fd, target in after.items() if before.get(fd) != target
    )
    return trace


def play_batch(batch: dict[str, Any], kind: str) -> None:
    """Runs several programs in this process; prints a line for each."""
    for seed in batch["seeds"]:
        trace = play(seed, kind, batch["debug"], batch["skip"])
        os.write(1, json.dumps([seed, trace]).encode() + b"\n")


def run_batch(seeds: Iterable[int], kind: str, debug: bool, skip: Iterable[int] = ()) -> Any:
    batch = {"seeds": list(seeds), "debug": debug, "skip": list(skip)}
    command = [sys.executable, str(HERE / "fuzz"), "--loop", kind, "--batch", json.dumps(batch)]
    result = battery.run_process(command, debug)
    traces = {}
    for line in result.shown.splitlines():
        with contextlib.suppress(ValueError):
            seed, trace = json.loads(line)
            traces[seed] = trace
    return result, traces


def differences(ours: dict[str, Any], theirs: dict[str, Any]) -> list[str]:
    """The differences between the traces of mainspring and asyncio."""
    found = []
    for name in sorted({*ours, *theirs}):
        mine, other = ours.get(name, []), theirs.get(name, [])
        if mine == other:
            continue
        if name == "fds" and len(mine) <= len(other):
            continue
        where = next((i for i, pair in enumerate(zip(mine, other, strict=False)) if pair[0] != pair[1]), None)
        where = min(len(mine), len(other)) if where is None else where
        found.append(
            f"{name}, entry {where}: asyncio {other[where : where + 3]}, mainspring {mine[where : where + 3]}"
        )
    return found


def judge(seeds: Iterable[int], debug: bool, skip: Iterable[int] = ()) -> dict[int, str]:
    """Runs programs on both loops. Returns the failures by seed."""
    seeds = list(seeds)
    with ThreadPoolExecutor(2) as pool:
        asyncio_run = pool.submit(run_batch, seeds, "asyncio", debug, skip)
        mainspring_run = pool.submit(run_batch, seeds, "mainspring", debug, skip)
    (result, expected), (ours_result, ours) = asyncio_run.result(), mainspring_run.result()
    wrong = {}
    for seed in seeds:
        if seed not in expected:
            faults = result.faults() or [battery.indented(result.errors, 20)]
            wrong[seed] = "asyncio does not end this program: " + ", ".join(faults)
            break
        if seed not in ours:
            # The first program without a trace is the one that killed the process.
            faults = ours_result.faults() or ["ends early"]
            wrong[seed] = ", ".join(faults) + "\n" + battery.indented(ours_result.errors, 20)
            break
        if found := differences(ours[seed], expected[seed]):
            wrong[seed] = "\n".join(found)
    if not wrong and (faults := ours_result.faults()):
        wrong[seeds[-1]] = ", ".join(faults) + "\n" + battery.indented(ours_result.errors, 20)
    return wrong


def minimised(seed: int, debug: bool) -> list[int]:
    """A minimal list of steps with which the program still fails."""
    skip: list[int] = []
    for number in range(world.STEPS - 1, -1, -1):
        if judge([seed], debug, [*skip, number]):
            skip.append(number)
    return [number for number in range(world.STEPS) if number not in skip]
