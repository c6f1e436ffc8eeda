"""Tests in virtual time, with reproducible schedules.

    def test_retries() -> None:
        mainspring.testing.run(scenario())  # an hour of sleeps takes no time

- ``run()`` and ``new_event_loop()``: a loop whose clock jumps to the next deadline when nothing can run;
- ``Deadlock``: nothing can ever run again;
- ``explore()``: runs a test under many seeds, each of which orders differently what asyncio leaves unordered.
"""

from __future__ import annotations

from ._explore import explore, run
from ._loop import Deadlock, RealIOError, VirtualTimeLoop, new_event_loop

__all__ = ["Deadlock", "RealIOError", "VirtualTimeLoop", "explore", "new_event_loop", "run"]
