"""A cache whose entries expire.  An expired entry is written back before it is removed."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any


@dataclasses.dataclass(eq=False)
class Entry:
    value: Any
    expires_at: float


class ExpiringCache:
    """``write_back(key, value)`` is awaited for each entry that expires."""

    def __init__(self, lifetime, write_back, *, sweep_interval=1.0):
        self._lifetime = lifetime
        self._write_back = write_back
        self._sweep_interval = sweep_interval
        self._entries = {}
        self._sweeper = asyncio.get_running_loop().create_task(self._sweep_forever())

    def get(self, key, default=None):
        entry = self._entries.get(key)
        return default if entry is None else entry.value

    def set(self, key, value):
        now = asyncio.get_running_loop().time()
        self._entries[key] = Entry(value, now + self._lifetime)

    async def close(self):
        self._sweeper.cancel()
        try:
            await self._sweeper
        except asyncio.CancelledError:
            pass

    async def _sweep_forever(self):
        while True:
            await asyncio.sleep(self._sweep_interval)
            now = asyncio.get_running_loop().time()
            for key, entry in list(self._entries.items()):
                if entry.expires_at <= now:
                    await self._evict(key, entry)

    async def _evict(self, key, entry):
        await self._write_back(key, entry.value)
        # It may have been set again while it was written.
        if self._entries.get(key) is entry:
            del self._entries[key]


class SimpleExpiringCache(ExpiringCache):
    async def _evict(self, key, entry):
        await self._write_back(key, entry.value)
        self._entries.pop(key, None)
