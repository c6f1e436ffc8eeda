"""A pytest plugin that makes asyncio create mainspring loops.  Used by tools/test-libraries."""

from __future__ import annotations

import asyncio
import warnings

import mainspring

made = 0


class Policy(mainspring.EventLoopPolicy):
    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        global made
        made += 1
        return super().new_event_loop()


with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    asyncio.set_event_loop_policy(Policy())


def pytest_terminal_summary(terminalreporter) -> None:
    terminalreporter.write_line(f"loops of mainspring: {made}")
