"""A loop that is run one pass at a time, and the trace of all that happens on it.

Nothing here sleeps, and nothing depends on how fast the kernel or the machine is: a pass of the loop asks the kernel
what has arrived without waiting, the peer is a plain non-blocking socket in the test's own hands, and before a pass
what is under way in the kernel is let arrive (``World.arrive``).  So the same operations give the same trace.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import warnings
from typing import Any

# A loop is idle after so many iterations in which nothing was noted: a step of a transport takes at most two.
QUIET_PASSES = 4
# No program keeps a loop busy for so long.
MOST_PASSES = 2000
# Operations that are about the stage, and not in the trace.
QUIET = ("arm", "settle", "pass")


class Boom(Exception):
    """What callbacks raise."""


def describe(error: BaseException | None) -> Any:
    """An exception as it is compared: its class, and what it says."""
    if error is None:
        return None
    if isinstance(error, OSError):
        return (type(error).__name__, error.errno)
    return (type(error).__name__, str(error))


class Stage(logging.Handler):
    """Runs one loop pass by pass; ``trace`` is what was noted, in order."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(logging.WARNING)
        self.loop = loop
        self.trace: list[tuple[Any, ...]] = []
        loop.set_exception_handler(self.report)

    def note(self, *entry: Any) -> None:
        self.trace.append(entry)

    def report(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        # The callbacks that are a loop's own have names of their own.
        message = context["message"].partition(" in callback ")[0]
        self.note("reported", message, describe(context.get("exception")), "transport" in context)

    def emit(self, record: logging.LogRecord) -> None:
        self.note("logged", record.levelname, record.getMessage())

    def one_iteration(self) -> None:
        """Asks the kernel, and runs what is ready."""
        self.loop.stop()
        try:
            self.loop.run_forever()
        except (SystemExit, Boom) as error:
            self.note("escaped", describe(error))

    def settle(self) -> None:
        """Runs the loop until nothing happens any more."""
        quiet = iterations = 0
        while quiet < QUIET_PASSES:
            length = len(self.trace)
            self.one_iteration()
            quiet = quiet + 1 if length == len(self.trace) else 0
            iterations += 1
            assert iterations < MOST_PASSES, "the loop does not come to rest"

    def run(self, coroutine: Any) -> Any:
        """Runs a coroutine that needs nobody else, pass by pass."""
        task = self.loop.create_task(coroutine)
        for _ in range(MOST_PASSES):
            if task.done():
                return task.result()
            self.one_iteration()
        raise AssertionError("the coroutine does not end")


@contextlib.contextmanager
def staged(loop_class: Any):
    """A stage on a new loop; what asyncio logs and warns of meanwhile is in the trace, too."""
    loop = loop_class()
    stage = Stage(loop)
    logger = logging.getLogger("asyncio")
    logger.addHandler(stage)
    propagate, logger.propagate = logger.propagate, False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            yield stage
            stage.settle()
    finally:
        logger.removeHandler(stage)
        logger.propagate = propagate
        loop.set_exception_handler(None)
        loop.close()


class World:
    """One kind of connection on a stage.  An operation ``("name", argument…)`` is carried out by ``do_name``."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.loop = stage.loop
        self.note = stage.note
        self.armed: list[tuple[str, tuple[Any, ...]]] = []
        self.firing: list[str] = []
        self.is_lost = False

    # What a kind of connection fills in.

    def begin(self) -> None:
        """Makes the connection."""

    def arrive(self) -> None:
        """Waits until the kernel has delivered what is under way."""

    def finish(self) -> None:
        """Brings everything to its end, and notes what the peer saw."""

    @staticmethod
    def arranged(trace: list[tuple[Any, ...]]) -> list[list[tuple[Any, ...]]]:
        """The parts of a trace within which the order matters; all of it, unless a kind knows better."""
        return [trace]

    def close_all(self) -> None:
        """Closes what a program that failed has left open."""

    # Operations.

    def do(self, operation: tuple[Any, ...]) -> None:
        """One operation; what it gives or raises is noted, save what it is there to raise."""
        name, *arguments = operation
        try:
            result = getattr(self, "do_" + name)(*arguments)
        except (Boom, SystemExit) as error:
            if self.firing:
                raise
            self.note("call", name, "raised", describe(error))
        except Exception as error:
            self.note("call", name, "raised", describe(error))
        else:
            if name not in QUIET:
                self.note("call", name, "gave", result)

    def do_arm(self, callback: str, operation: tuple[Any, ...]) -> None:
        """The operation is carried out inside the next call of the callback."""
        self.armed.append((callback, operation))

    def do_raise(self, what: str) -> None:
        raise {"Boom": Boom("of the test"), "SystemExit": SystemExit("of the test")}[what]

    def do_settle(self) -> None:
        self.settle()

    def do_pass(self) -> None:
        self.one_iteration()
        self.note("a pass")

    def called(self, *entry: Any) -> None:
        """A callback was called: notes it, and does there what was armed for it."""
        self.note("callback", *entry)
        if entry[0] == "connection_lost":
            self.is_lost = True
        for index, (callback, operation) in enumerate(self.armed):
            if callback == entry[0]:
                del self.armed[index]
                self.fires(callback, operation)
                self.firing.append(callback)
                try:
                    self.do(operation)
                finally:
                    self.firing.pop()
                    self.fired(callback)
                return

    def fires(self, callback: str, operation: tuple[Any, ...]) -> None:
        """Something is about to be done inside of a callback."""

    def fired(self, callback: str) -> None:
        """Something was done inside of a callback."""

    # Running.

    def one_iteration(self) -> None:
        self.arrive()
        self.stage.one_iteration()

    def settle(self) -> None:
        quiet = iterations = 0
        while quiet < QUIET_PASSES:
            length = len(self.stage.trace)
            self.one_iteration()
            quiet = quiet + 1 if length == len(self.stage.trace) else 0
            iterations += 1
            assert iterations < MOST_PASSES, "the loop does not come to rest"

    def play(self, operations: list[tuple[Any, ...]]) -> None:
        self.begin()
        for operation in operations:
            self.do(operation)
        self.note("the end")
        self.settle()
        self.finish()
