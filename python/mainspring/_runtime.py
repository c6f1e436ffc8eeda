"""``Runtime``: a loop on a thread of its own, for synchronous programs."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from typing import TYPE_CHECKING, Any, TypeVar

from ._concurrent import ConcurrentFuture
from ._loop import Loop
from ._loop_thread import End, LoopThread, open_threads
from ._running import new_event_loop
from ._wrapped_context import WrappedContextManager

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from contextlib import AbstractAsyncContextManager, AbstractContextManager
    from types import TracebackType

    from typing_extensions import Self, Unpack

    from ._internals import Ts

__all__ = ("Runtime",)

T = TypeVar("T")

# How much read() receives from a socket at a time.
BLOCK_SIZE = 256 * 1024


class Runtime:
    """A loop on a thread of its own, for programs that are not asynchronous themselves.

        with mainspring.Runtime() as runtime:
            page = runtime.run(fetch("example.org"))

    The methods can be called from any thread.  Leaving the block waits for accepted work.  After ``shutdown_timeout``
    seconds, or if an exception leaves the block, the work is cancelled.

    ``name`` is the name of the thread.  ``loop_factory`` creates the loop, a ``mainspring.Loop``.
    """

    def __init__(
        self,
        *,
        name: str = "mainspring",
        shutdown_timeout: float | None = None,
        debug: bool | None = None,
        loop_factory: Callable[[], Loop] = new_event_loop,
    ) -> None:
        self._shutdown_timeout = None if shutdown_timeout is None else float(shutdown_timeout)
        loop = loop_factory()
        if not isinstance(loop, Loop):
            raise TypeError(f"loop_factory must return a mainspring.Loop, not {type(loop).__name__}")
        try:
            if debug is not None:
                loop.set_debug(debug)
            self._thread = LoopThread(loop, name)
        except BaseException:
            loop.close()
            raise

    # --- work

    def run(self, coro: Coroutine[Any, Any, T]) -> T:
        """Runs the coroutine on the loop and returns its result.

        Ctrl-C cancels the coroutine and waits for its end; a second Ctrl-C does not wait.
        """
        _check_coroutine("run", coro)
        try:
            self._check_can_wait("run()", "await the coroutine instead")
        except RuntimeError:
            coro.close()
            raise
        future: ConcurrentFuture[T] = ConcurrentFuture(self)
        self._wait(future, future, self._submit, future, coro)
        try:
            return future.result()
        finally:
            # It refers to the exception, whose traceback refers to this frame.
            del future

    def submit(self, coro: Coroutine[Any, Any, T]) -> ConcurrentFuture[T]:
        """Starts the coroutine as a task, in a copy of the current context.  Cancelling the future cancels the task."""
        _check_coroutine("submit", coro)
        future: ConcurrentFuture[T] = ConcurrentFuture(self)
        self._submit(future, coro)
        return future

    def _submit(self, future: ConcurrentFuture[T], coro: Coroutine[Any, Any, T]) -> None:
        try:
            self._check_process()
            self._thread.accept(future, self._thread.start_task, coro)
        except RuntimeError:
            coro.close()
            raise

    def call(self, func: Callable[[Unpack[Ts]], T], *args: Unpack[Ts]) -> ConcurrentFuture[T]:
        """Calls ``func(*args)`` on the loop's thread, in a copy of the current context."""
        if not callable(func):
            raise TypeError(f"call() takes a function and its arguments, not {func!r}")
        self._check_process()
        future: ConcurrentFuture[T] = ConcurrentFuture(self)
        self._thread.accept(future, self._thread.make_call, func, args)
        return future

    def delay(self, seconds: float, value: T = None) -> ConcurrentFuture[T]:  # type: ignore[assignment]
        """``value`` after ``seconds``."""
        return self.submit(asyncio.sleep(seconds, value))

    def read(
        self, source: socket.socket | tuple[str, int] | str | os.PathLike[str]
    ) -> ConcurrentFuture[bytes]:
        """All bytes that a peer sends until it closes the connection.

        ``source`` is an address to connect to, as ``(host, port)`` or as the path of a Unix socket, or a connected
        socket.  A socket stays open, and is non-blocking until the future is done.
        """
        return self.submit(_read(source))

    def wrap_async_context_manager(
        self, manager: AbstractAsyncContextManager[T]
    ) -> AbstractContextManager[T]:
        """A context manager that enters and leaves ``manager`` on the loop, in one task."""
        self._check_process()
        if not hasattr(type(manager), "__aenter__") or not hasattr(type(manager), "__aexit__"):
            raise TypeError(f"an asynchronous context manager was expected, got {manager!r}")
        return WrappedContextManager(self, manager)

    def get_loop(self) -> Loop:
        """The loop.  Other threads may use its ``call_soon_threadsafe()``."""
        self._check_process()
        return self._thread.loop

    # --- the end

    def shutdown(self, timeout: float | None = None) -> None:
        """Refuses new work, waits until accepted work is done, and ends the loop.

        Then other tasks of the loop are cancelled, as by ``asyncio.run()``.  After ``timeout`` seconds, or by Ctrl-C,
        accepted work is cancelled too; 0 cancels at once.
        """
        self._check_can_wait("shutdown()", "call it on another thread")
        try:
            self._thread.request(End.DRAINED)
            self._thread.wait(timeout)
        finally:
            if not self._thread.has_ended():
                self._thread.request(End.NOW)
                self._thread.wait()

    def join(self) -> None:
        """Waits until nothing is pending, and ends the loop.  New work is accepted until then.

        All tasks, callbacks, timers, connections and servers of the loop are pending.
        """
        self._check_can_wait("join()", "call it on another thread")
        self._thread.request(End.WHEN_IDLE)
        self._thread.wait()

    def __enter__(self) -> Self:
        self._check_process()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # A forked child has nothing to end.
        if self._thread.is_own_process():
            self.shutdown(self._shutdown_timeout if error is None else 0)

    def __repr__(self) -> str:
        thread = self._thread
        if not thread.is_own_process():
            state = "not in this process"
        elif thread.has_ended():
            state = "ended"
        else:
            state = "ending" if thread.is_sealed else "running"
            state += f" pending={len(thread.pending)}"
        return f"<{type(self).__name__} name={thread.name!r} {state}>"

    # --- for the futures of this runtime, and what waits for them

    def _check_process(self) -> None:
        if not self._thread.is_own_process():
            raise RuntimeError(
                f"the runtime {self._thread.name!r} was created before a fork, and its thread does not exist in this "
                "process: create a new mainspring.Runtime"
            )

    def _check_can_wait(self, name: str, next_step: str) -> None:
        self._check_process()
        if self._thread.is_own_thread():
            raise RuntimeError(f"{name} on the loop's own thread would wait forever: {next_step}")

    def _wait(
        self,
        awaited: ConcurrentFuture[Any],
        work: ConcurrentFuture[Any],
        start: Callable[..., object],
        *args: object,
    ) -> None:
        """Calls ``start(*args)`` and waits until ``awaited`` is done.

        If a signal handler raises an exception meanwhile, cancels ``work`` and waits for its end.
        """
        # Not Future.result(): an exception inside of it could leave the lock of the future locked.
        is_awaited_done, is_work_done = _done_lock(awaited), _done_lock(work)
        try:
            start(*args)
            is_awaited_done.acquire()
        except BaseException:
            self._thread.call_loop(self._thread.cancel_work, work)
            is_work_done.acquire()
            raise

    def _report(self, context: dict[str, Any]) -> None:
        self._thread.loop.call_exception_handler(context)


def _done_lock(future: ConcurrentFuture[Any]) -> threading.Lock:
    """A lock that is released when the future is done."""
    lock = threading.Lock()
    lock.acquire()
    future.add_done_callback(lambda _: lock.release())
    return lock


def end_all_at_exit() -> None:
    """Ends the runtimes that were not shut down."""
    for thread in [thread for thread in open_threads if thread.is_own_process()]:
        if thread.pending:
            message = (
                f"The runtime {thread.name!r} was not shut down before the interpreter exits, and its work is cancelled "
                f"(pending: {len(thread.pending)}): use `with`, or call shutdown()"
            )
            thread.loop.call_exception_handler({"message": message})
        # Executors have ended already.
        thread.waits_for_executor = False
        thread.request(End.NOW)
        thread.wait()


def _check_coroutine(method: str, coro: Any) -> None:
    if asyncio.iscoroutine(coro):
        return
    hint = ""
    if callable(coro):
        hint = f": pass {method}(func(...)), or use call(func, ...) for a plain function"
    elif hasattr(coro, "__await__"):
        hint = ": await it in a coroutine, and pass that"
    raise TypeError(f"{method}() takes a coroutine, not {coro!r}{hint}")


async def _read(source: Any) -> bytes:
    if isinstance(source, socket.socket):
        return await _read_socket(source)
    if isinstance(source, (str, os.PathLike)):
        reader, writer = await asyncio.open_unix_connection(os.fspath(source))
    elif isinstance(source, tuple) and len(source) >= 2:
        reader, writer = await asyncio.open_connection(source[0], source[1])
    else:
        raise TypeError(f"read() takes a socket, (host, port) or the path of a Unix socket, not {source!r}")
    try:
        return await reader.read()
    finally:
        writer.close()
        await writer.wait_closed()


async def _read_socket(sock: socket.socket) -> bytes:
    loop = asyncio.get_running_loop()
    timeout = sock.gettimeout()
    sock.settimeout(0)
    blocks = []
    try:
        while block := await loop.sock_recv(sock, BLOCK_SIZE):
            blocks.append(block)
    finally:
        # Unless other code has closed it.
        if sock.fileno() != -1:
            sock.settimeout(timeout)
    return b"".join(blocks)
