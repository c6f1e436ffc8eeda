"""A loop that is never idle, for the tests of priorities."""

from __future__ import annotations

import asyncio
import contextlib

import mainspring


class BusyLoop:
    """Callbacks that keep the loop busy: each schedules itself again, until stop() is called."""

    def __init__(self, loop, width=1):
        self.loop = loop
        self.runs = 0
        self.is_stopped = False
        with mainspring.normal():
            for _ in range(width):
                loop.call_soon(self.run)

    def run(self):
        self.runs += 1
        if not self.is_stopped:
            self.loop.call_soon(self.run)

    def stop(self):
        self.is_stopped = True


def run(main, **options):
    """Runs a coroutine function on a new loop."""
    with contextlib.closing(mainspring.Loop(**options)) as loop:
        return loop.run_until_complete(main(loop))


async def iterations(count):
    for _ in range(count):
        await asyncio.sleep(0)
