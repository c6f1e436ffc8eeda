"""Delivers messages in batches, and retries with exponential backoff while the server is down."""

from __future__ import annotations

import asyncio


class Outbox:
    """``send(batch)`` delivers a list of messages or raises ``ConnectionError``."""

    def __init__(self, send, *, first_delay=1.0, max_delay=60.0):
        self._send = send
        self._first_delay = first_delay
        self._max_delay = max_delay
        self._pending = []
        self._delivery = None

    def add(self, message):
        self._pending.append(message)
        if self._delivery is None:
            self._delivery = asyncio.get_running_loop().create_task(self._deliver())

    async def drain(self):
        """Waits until every message is delivered."""
        while self._delivery is not None:
            await self._delivery

    async def _deliver(self):
        try:
            while self._pending:
                await self._deliver_batch()
        finally:
            self._delivery = None

    async def _deliver_batch(self):
        batch = list(self._pending)
        await self._send_with_retries(batch)
        del self._pending[: len(batch)]

    async def _send_with_retries(self, batch):
        delay = self._first_delay
        while True:
            try:
                return await self._send(batch)
            except ConnectionError:
                await asyncio.sleep(delay)
                delay = min(2 * delay, self._max_delay)


class SimpleOutbox(Outbox):
    """Sends what is there when the server answers, so a batch grows while the server is down."""

    async def _deliver_batch(self):
        delay = self._first_delay
        while True:
            try:
                await self._send(list(self._pending))
                break
            except ConnectionError:
                await asyncio.sleep(delay)
                delay = min(2 * delay, self._max_delay)
        self._pending.clear()
