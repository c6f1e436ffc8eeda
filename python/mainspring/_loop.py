"""The event loop.

The engine is native (``_mainspring.NativeLoop``: scheduling, timers, I/O, transports).  Everything else comes from
``asyncio.BaseEventLoop`` of the running Python version, the base class that asyncio's documentation offers to other
loops: the coroutines that resolve names and try addresses, tasks and futures, executors, exception handlers.
"""

from __future__ import annotations

import asyncio
import sys
import threading

from ._dump import Dumps
from ._fork import register_for_fork
from ._mainspring import NativeLoop
from ._nesting import Nesting
from ._network import Network
from ._priorities import Priorities
from ._processes import Processes
from ._resolving import Resolving
from ._sendfile import FileSending
from ._signals import SignalHandlers
from ._sockets import SocketOperations
from ._tls import Tls
from ._unix import UnixSockets
from ._views import Views
from ._watching import StallReports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from typing_extensions import Unpack

    from ._internals import Ts
    from ._mainspring import _FileDescriptor as FileDescriptor
    from ._metrics import Metrics

    class NativeFirst:
        """For the type checker the parts of the loop derive from the native class, so it cannot precede them."""
else:
    # First, so that the lookup of a native method ends early.  None of the parts has a method of the same name.
    NativeFirst = NativeLoop

__all__ = ("Loop",)


def attribute_names() -> tuple[str, ...]:
    """The names of the attributes of a loop: asyncio's, and those of the classes below."""
    base = asyncio.BaseEventLoop()
    base.close()
    # The native class and the views have descriptors for some of asyncio's.
    theirs = [name for name in vars(base) if not hasattr(NativeLoop, name) and not hasattr(Views, name)]
    return (
        *theirs,
        "_children",
        "_dump_watches",
        "_former_asyncgen_hooks",
        "_listeners",
        "_nested",
        "_signal_handlers",
        "_stall_limit",
        "_stall_report",
        "_stall_thread",
        "_suspended_tasks",
        "_unix_server_sockets",
    )


class Loop(
    NativeFirst,
    Nesting,
    SignalHandlers,
    SocketOperations,
    FileSending,
    Resolving,
    UnixSockets,
    Network,
    Tls,
    Processes,
    Priorities,
    StallReports,
    Dumps,
    Views,
    asyncio.BaseEventLoop,
):
    """An asyncio event loop with an engine in Rust."""

    # Without an instance __dict__, which is created for other attributes only, the interpreter looks up a method of the
    # loop faster: 10 % of the instructions of the row A.call_soon.chain.
    __slots__ = attribute_names()

    def __init__(self, *, io_first: bool = False, nested: bool = False, stalls: float | None = None) -> None:
        """With ``io_first`` the loop serves I/O before each ready callback, not once per iteration.

        With ``nested`` its callbacks and tasks can call run_until_complete() and run_forever().  With ``stalls=0.1`` it
        reports callbacks that take longer than that; see ``watch_stalls()``.
        """
        self._bind()
        self._nested = nested
        self._suspended_tasks = []
        self._set_io_first(io_first)
        self._init_signals()
        self._init_network()
        self._init_unix()
        self._init_processes()
        self._init_dumps()
        super().__init__()
        self._init_stalls(stalls)
        register_for_fork(self)

    def run_forever(self) -> None:
        """Run until stop() is called."""
        if asyncio._get_running_loop() is not None and self._allows_nested():
            self._check_closed()
            self._check_other_threads()
            self._run_nested()
            return
        self._run_forever_setup()
        try:
            self._start_stall_thread()
            with self._wakeup_fd_installed():
                self._run_native()
        finally:
            self._run_forever_cleanup()

    def _run_until_idle(self) -> bool:
        """Like run_forever(), but returns True as soon as nothing is pending; False if stop() was called first.

        Ready callbacks, timers and registered fds are pending.  A task that only another thread can wake is not.
        """
        self._run_forever_setup()
        try:
            with self._wakeup_fd_installed():
                return self._run_native_until_idle()
        finally:
            self._run_forever_cleanup()

    if sys.version_info < (3, 13):

        def _run_forever_setup(self) -> None:
            self._check_closed()
            self._check_running()
            self._set_coroutine_origin_tracking(self._debug)
            self._former_asyncgen_hooks = sys.get_asyncgen_hooks()
            try:
                self._thread_id = threading.get_ident()
                sys.set_asyncgen_hooks(
                    firstiter=self._asyncgen_firstiter_hook, finalizer=self._asyncgen_finalizer_hook
                )
                asyncio._set_running_loop(self)
            except BaseException:  # from a signal handler, or MemoryError
                self._run_forever_cleanup()
                raise

        def _run_forever_cleanup(self) -> None:
            self._thread_id = None
            asyncio._set_running_loop(None)
            self._set_coroutine_origin_tracking(False)
            sys.set_asyncgen_hooks(*self._former_asyncgen_hooks)

    def process_ready(self) -> bool:
        """Run the callbacks that are ready now, for a host that drives the loop.  False after stop()."""
        self._check_closed()
        self._check_other_threads()
        with self._as_running_loop():
            return self._process_ready()

    def metrics(self) -> Metrics:
        """What the loop has done so far, and what it has to do.  May be called from every thread."""
        from ._metrics import read_metrics

        return read_metrics(self)

    def set_debug(self, enabled: bool) -> None:
        """Turn debug mode on or off."""
        self._set_debug_native(bool(enabled))
        super().set_debug(enabled)

    def close(self) -> None:
        """Close the loop; it must not be running, and cannot be used again."""
        if self.is_running():
            raise RuntimeError("Cannot close a running event loop")
        if self.is_closed():
            return
        self._close_signals()
        self._close_processes()
        self._close_dumps()
        super().close()
        self._listeners.clear()
        self._close_native()

    def add_reader(
        self, fd: FileDescriptor, callback: Callable[[Unpack[Ts]], Any], *args: Unpack[Ts]
    ) -> None:
        """Call ``callback(*args)`` whenever the fd is readable."""
        self._add_reader(fd, callback, *args)

    def remove_reader(self, fd: FileDescriptor) -> bool:
        """Stop watching the fd for reading.  Returns whether it was watched."""
        self._ensure_fd_no_transport(fd)
        return self._remove_reader(fd)

    def add_writer(
        self, fd: FileDescriptor, callback: Callable[[Unpack[Ts]], Any], *args: Unpack[Ts]
    ) -> None:
        """Call ``callback(*args)`` whenever the fd is writable."""
        self._add_writer(fd, callback, *args)

    def remove_writer(self, fd: FileDescriptor) -> bool:
        """Stop watching the fd for writing.  Returns whether it was watched."""
        self._ensure_fd_no_transport(fd)
        return self._remove_writer(fd)
