"""The loop with a virtual clock."""

from __future__ import annotations

import asyncio
import itertools
import math
import sys
import threading
import weakref
from concurrent.futures import thread as _thread_pools
from typing import TYPE_CHECKING, Any, Literal

from .._awaiting import WaitingTask, caller, waiting_tasks
from .._loop import Loop
from .._priorities import Lane, create_task_of, current_lane
from .._watching import WatchingThread

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

__all__ = ("Deadlock", "RealIO", "RealIOError", "VirtualTimeLoop", "new_event_loop")

RealIO = Literal["allow", "refuse"]


class Deadlock(RuntimeError):
    """Nothing can ever run again.  The message lists every task, where it waits and what it waits for."""

    tasks: tuple[WaitingTask, ...]

    def __init__(self, tasks: tuple[WaitingTask, ...]) -> None:
        count = f"{len(tasks)} tasks wait" if len(tasks) != 1 else "one task waits"
        lines = [f"nothing can ever run again; {count}:" if tasks else "nothing can ever run again"]
        super().__init__("\n  ".join(lines + [str(task) for task in tasks]))
        self.tasks = tasks


class RealIOError(RuntimeError):
    """A program waits for real I/O on a loop with ``real_io="refuse"``."""


class VirtualTimeLoop(Loop):
    """A loop whose clock jumps to the next deadline when nothing can run."""

    def __init__(self, *, seed: int | None = None, start: float = 0.0, shuffle_ready: bool = False) -> None:
        super().__init__()
        self._use_virtual_clock(start)
        self.seed = seed
        if seed is not None:
            self._shuffle(seed % 2**64, shuffle_ready)
        self._task_numbers = itertools.count()
        self._unhandled: Unhandled | None = None
        self._known_threads = weakref.WeakSet(threading.enumerate())

    def advance(self, seconds: float) -> None:
        """Move the clock, as if a callback had taken so long."""
        self._advance_clock(seconds)

    def create_task(self, coro: Coroutine[Any, Any, Any], **kwargs: Any) -> asyncio.Task[Any]:  # type: ignore[override]
        if self.seed is None or self.get_task_factory() is not None or current_lane() is Lane.BACKGROUND:
            task = super().create_task(coro, **kwargs)
        else:
            task = create_task_of(OrderedTask, self, coro, **kwargs)
        if self._unhandled is not None:
            self._unhandled.add_task(task)
        return task

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        """Log a failure that the program does not handle."""
        if self._unhandled is not None:
            self._unhandled.add_failure(context)
        super().default_exception_handler(context)

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        future = super().run_in_executor(executor, func, *args)
        self._begin_work()
        future.add_done_callback(lambda _: self._end_work())
        return future

    def _waits_for_threads(self) -> bool:
        """Whether a thread that was started since may call the loop."""
        known = self._known_threads
        started = [thread for thread in threading.enumerate() if thread not in known]
        if not started:
            return False
        frames = sys._current_frames()
        return any(
            _is_at_work(thread, frames) for thread in started if thread is not threading.current_thread()
        )

    def _deadlocked(self) -> None:
        """Called when nothing can ever run again."""
        raise Deadlock(waiting_tasks(self))


class Unhandled:
    """The first exception that only the default exception handler of a loop has got."""

    def __init__(self, loop: VirtualTimeLoop) -> None:
        self._loop = loop
        self._numbers = itertools.count()
        # In the order of their creation.
        self._begun_tasks: weakref.WeakValueDictionary[int, asyncio.Future[Any]] = (
            weakref.WeakValueDictionary()
        )
        self._error: BaseException | None = None
        loop._unhandled = self

    def add_task(self, task: asyncio.Future[Any]) -> None:
        """A task has begun."""
        self._begun_tasks[next(self._numbers)] = task

    def add_failure(self, context: dict[str, Any]) -> None:
        """The default exception handler was called."""
        error = context.get("exception")
        if self._error is None and error is not None:
            self._error = error
            add_note(error, f"mainspring: the program does not handle this: {context.get('message')}")

    def take(self) -> BaseException | None:
        """The exception, if there is one.  The loop stores no more of them."""
        for task in list(self._begun_tasks.values()):
            # A task reports its exception when it is collected, which may be later.
            if task.done() and getattr(task, "_log_traceback", False):
                message = f"{type(task).__name__} exception was never retrieved"
                self._loop.call_exception_handler(
                    {"message": message, "exception": task.exception(), "future": task}
                )
        self._loop._unhandled = None
        return self._error


def _is_at_work(thread: threading.Thread, frames: dict[int, Any]) -> bool:
    """Whether a thread may do something.  A worker of a pool that waits for a job does not."""
    if isinstance(thread, WatchingThread):
        return False
    if type(thread).__name__ == "_ExecutorManagerThread":
        # Of a process pool.  The loop knows the jobs that it has given to the pool.
        return False
    frame = frames.get(thread.ident or 0)
    return frame is None or frame.f_code is not _thread_pools._worker.__code__


if TYPE_CHECKING:
    Task = asyncio.Task[Any]
else:
    Task = asyncio.Task


class OrderedTask(Task):
    """A task whose place in a set does not depend on its address, which differs from run to run.

    asyncio stores tasks in sets: a task group cancels its tasks in the order of one.
    """

    def __init__(self, coro: Coroutine[Any, Any, Any], *, loop: VirtualTimeLoop, **kwargs: Any) -> None:
        self._number = next(loop._task_numbers)
        super().__init__(coro, loop=loop, **kwargs)

    def __hash__(self) -> int:
        return self._number


# In reprs.
OrderedTask.__name__ = OrderedTask.__qualname__ = "Task"


def add_note(error: BaseException, note: str) -> None:
    """``error.add_note(note)``, which Python 3.10 does not have.  Its tracebacks do not show notes either."""
    if sys.version_info >= (3, 11):
        error.add_note(note)
    else:
        error.__notes__ = [*getattr(error, "__notes__", ()), note]  # type: ignore[attr-defined]
        print(note, file=sys.stderr)


class NoIOLoop(VirtualTimeLoop):
    """A loop that refuses I/O."""


def _refuse(name: str) -> Callable[..., Any]:
    def refuse(self: NoIOLoop, *args: Any, **kwargs: Any) -> Any:
        arguments = [repr(value) for value in args if not callable(value)]
        arguments += [f"{name}={value!r}" for name, value in kwargs.items() if value is not None]
        task = asyncio.current_task(self)
        by = f" by {task.get_name()}" if task is not None else ""
        raise RealIOError(
            f"{name}({', '.join(arguments)}){by} would wait for real I/O, at {caller()}\n"
            "Replace it by a fake, or allow it with real_io='allow'."
        )

    refuse.__name__ = name
    refuse.__qualname__ = f"{NoIOLoop.__qualname__}.{name}"
    return refuse


for _method in (
    "add_reader",
    "add_writer",
    "connect_accepted_socket",
    "connect_read_pipe",
    "connect_write_pipe",
    "create_connection",
    "create_datagram_endpoint",
    "create_server",
    "create_unix_connection",
    "create_unix_server",
    "getaddrinfo",
    "getnameinfo",
    "sendfile",
    "sock_accept",
    "sock_connect",
    "sock_recv",
    "sock_recv_into",
    "sock_recvfrom",
    "sock_recvfrom_into",
    "sock_sendall",
    "sock_sendfile",
    "sock_sendto",
    "start_tls",
    "subprocess_exec",
    "subprocess_shell",
):
    setattr(NoIOLoop, _method, _refuse(_method))


def new_event_loop(
    *, seed: int | None = None, start: float = 0.0, real_io: RealIO = "allow", shuffle_ready: bool = False
) -> VirtualTimeLoop:
    """A new loop in virtual time.  Can be passed as ``loop_factory``.  The arguments are those of ``run()``."""
    if not (math.isfinite(start) and start >= 0):
        raise ValueError(f"start must be a finite number of seconds, not negative, not {start!r}")
    if shuffle_ready and seed is None:
        raise ValueError("shuffle_ready needs a seed: the seed determines the order")
    if real_io not in ("allow", "refuse"):
        raise ValueError(f"real_io must be 'allow' or 'refuse', not {real_io!r}")
    loop_class = VirtualTimeLoop if real_io == "allow" else NoIOLoop
    return loop_class(seed=seed, start=start, shuffle_ready=shuffle_ready)
