"""Runs a loop one iteration at a time and records a trace.

Nothing here sleeps or depends on the speed of the machine: an iteration polls without waiting, the peer is a plain
non-blocking socket that the test controls, and before each iteration ``World.arrive`` waits until the kernel has
delivered the data in transit.  So the same operations give the same trace.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import warnings
from typing import Any

# A loop is idle after this many iterations without a trace entry: a step of a transport takes at most two.
QUIET_PASSES = 4
# No program keeps a loop busy longer.
MOST_PASSES = 2000
# Operations that control the stage; not recorded in the trace.
QUIET = ("arm", "settle", "iterate")


class Boom(Exception):
    """Raised by callbacks."""


def describe(error: BaseException | None) -> Any:
    """An exception as it is compared: its class and its message."""
    if error is None:
        return None
    if isinstance(error, OSError):
        return (type(error).__name__, error.errno)
    return (type(error).__name__, str(error))


class Stage(logging.Handler):
    """Runs one loop iteration by iteration; ``trace`` holds the recorded entries in order."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(logging.WARNING)
        self.loop = loop
        self.trace: list[tuple[Any, ...]] = []
        loop.set_exception_handler(self.report)

    def note(self, *entry: Any) -> None:
        self.trace.append(entry)

    def report(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        # The names of a loop's internal callbacks differ between loops.
        message = context["message"].partition(" in callback ")[0]
        self.note("reported", message, describe(context.get("exception")), "transport" in context)

    def emit(self, record: logging.LogRecord) -> None:
        self.note("logged", record.levelname, record.getMessage())

    def one_iteration(self) -> None:
        """Polls, then runs the ready calls."""
        self.loop.stop()
        try:
            self.loop.run_forever()
        except (SystemExit, Boom) as error:
            self.note("escaped", describe(error))

    def settle(self) -> None:
        """Runs the loop until it is idle."""
        quiet = iterations = 0
        while quiet < QUIET_PASSES:
            length = len(self.trace)
            self.one_iteration()
            quiet = quiet + 1 if length == len(self.trace) else 0
            iterations += 1
            assert iterations < MOST_PASSES, "the loop does not become idle"

    def run(self, coroutine: Any) -> Any:
        """Runs a coroutine to its end, iteration by iteration."""
        task = self.loop.create_task(coroutine)
        for _ in range(MOST_PASSES):
            if task.done():
                return task.result()
            self.one_iteration()
        raise AssertionError("the coroutine does not end")


@contextlib.contextmanager
def staged(loop_class: Any):
    """A stage on a new loop; asyncio's log messages and warnings go to the trace, too."""
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
    """One kind of connection on a stage.  ``do_name`` executes the operation ``("name", argument…)``."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.loop = stage.loop
        self.note = stage.note
        self.armed: list[tuple[str, tuple[Any, ...]]] = []
        self.firing: list[str] = []
        self.is_lost = False

    # Methods of a kind of connection.

    def begin(self) -> None:
        """Opens the connection."""

    def arrive(self) -> None:
        """Waits until the kernel has delivered the data in transit."""

    def finish(self) -> None:
        """Ends everything, and records the data that the peer received."""

    @staticmethod
    def arranged(trace: list[tuple[Any, ...]]) -> list[list[tuple[Any, ...]]]:
        """The parts of a trace within which the order matters; by default the whole trace."""
        return [trace]

    def close_all(self) -> None:
        """Closes everything that a failed program left open."""

    # Operations.

    def do(self, operation: tuple[Any, ...]) -> None:
        """Executes one operation and records its result or exception, except exceptions that it is meant to raise."""
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
        """The operation runs inside the next call of the callback."""
        self.armed.append((callback, operation))

    def do_raise(self, what: str) -> None:
        raise {"Boom": Boom("of the test"), "SystemExit": SystemExit("of the test")}[what]

    def do_settle(self) -> None:
        self.settle()

    def do_iterate(self) -> None:
        self.one_iteration()
        self.note("a pass")

    def called(self, *entry: Any) -> None:
        """Records a callback and executes the operation that was armed for it."""
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
        """Called before an operation inside a callback."""

    def fired(self, callback: str) -> None:
        """Called after an operation inside a callback."""

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
            assert iterations < MOST_PASSES, "the loop does not become idle"

    def play(self, operations: list[tuple[Any, ...]]) -> None:
        self.begin()
        for operation in operations:
            self.do(operation)
        self.note("the end")
        self.settle()
        self.finish()
