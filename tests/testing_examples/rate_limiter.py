"""Starts at most ``limit`` operations in any ``period``, in the order in which they ask."""

from __future__ import annotations

import asyncio
import collections


class RateLimiter:
    def __init__(self, limit, period):
        self._free = limit
        self._period = period
        self._waiters = collections.deque()

    async def acquire(self):
        """Returns when an operation may start."""
        if self._free and not self._waiters:
            self._free -= 1
        else:
            await self._wait_for_slot()
        asyncio.get_running_loop().call_later(self._period, self._release)

    async def _wait_for_slot(self):
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                # The slot was given to this waiter already.
                self._release()
            raise

    def _release(self):
        """Gives the slot to the first waiter.  It is not free in between, so nobody else can take it."""
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
        self._free += 1


class SimpleRateLimiter(RateLimiter):
    """Frees the slot, then wakes the first waiter."""

    async def acquire(self):
        if not self._free:
            await self._wait_for_slot()
        self._free -= 1
        asyncio.get_running_loop().call_later(self._period, self._release)

    def _release(self):
        self._free += 1
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
