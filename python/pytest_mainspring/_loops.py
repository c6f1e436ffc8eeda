"""The loops that the tests get, and the clock of the newest one."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import mainspring
    from mainspring.testing import VirtualTimeLoop

    from ._settings import Settings


class Loops:
    """Creates the loops of a run and knows the newest one."""

    def __init__(self) -> None:
        self._factories: dict[Settings, LoopFactory] = {}
        self.newest: weakref.ref[mainspring.Loop] | None = None

    def factory(self, settings: Settings) -> LoopFactory:
        """The same object for equal settings: pytest compares parameters of fixtures by identity."""
        return self._factories.setdefault(settings, LoopFactory(self, settings))


class LoopFactory:
    """A loop factory, in asyncio's sense."""

    def __init__(self, loops: Loops, settings: Settings) -> None:
        self._loops = loops
        self.settings = settings

    def __call__(self) -> mainspring.Loop:
        # Imported here: a run that does not use mainspring does not load it.
        import mainspring

        loop: mainspring.Loop
        if self.settings.virtual_time:
            from mainspring import testing

            seed = self.settings.seed
            loop = testing.new_event_loop(
                seed=seed,
                real_io=self.settings.real_io,
                shuffle_ready=self.settings.shuffle_ready and seed is not None,
            )
        else:
            loop = mainspring.new_event_loop()
        self._loops.newest = weakref.ref(loop)
        return loop


class Clock:
    """The virtual clock of the test's loop."""

    def __init__(self, loops: Loops) -> None:
        self._loops = loops

    def time(self) -> float:
        """The virtual time in seconds."""
        return self._loop().time()

    def advance(self, seconds: float) -> None:
        """Moves the clock."""
        self._loop().advance(seconds)

    def _loop(self) -> VirtualTimeLoop:
        """The running loop; outside of coroutines and callbacks the loop that was created last."""
        import asyncio

        from mainspring.testing import VirtualTimeLoop

        try:
            loop: object = asyncio.get_running_loop()
        except RuntimeError:
            loop = self._loops.newest and self._loops.newest()
        if not isinstance(loop, VirtualTimeLoop) or loop.is_closed():
            raise RuntimeError(
                f"mainspring_clock needs an open loop with virtual time, but the loop is {loop!r}"
            )
        return loop
