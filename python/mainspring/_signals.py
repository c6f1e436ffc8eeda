"""Signals: ``add_signal_handler()`` and Ctrl-C.

Python's C signal handler writes the number of each signal to the fd of ``signal.set_wakeup_fd()``.  The engine reads it
there and runs the registered handle.  While the loop runs in the main thread it sets this fd even if no handler is
registered: otherwise a signal that arrives just before the loop blocks would be handled only after the next event.
"""

from __future__ import annotations

import errno
import inspect
import signal
import sys
import threading
import warnings
from asyncio.log import logger

from ._internals import LoopParts

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable
    from typing import Any

    from typing_extensions import Unpack

    from ._internals import Ts

__all__ = ("SignalHandlers",)


def _ignore_signal(signum: int, frame: Any) -> None:
    """The Python handler of signals that the loop handles: the loop reads the number from the wakeup fd."""


def _set_wakeup_fd(fd: int) -> int:
    # If the pipe is full, the loop is awake already; by default Python would print a warning.
    return signal.set_wakeup_fd(fd, warn_on_full_buffer=False)


class SignalHandlers(LoopParts):
    """The part of the loop for signals."""

    def _init_signals(self) -> None:
        # Libraries read this and restore entries; prompt_toolkit does.
        self._signal_handlers: dict[int, asyncio.Handle] = {}

    def add_signal_handler(
        self, sig: int, callback: Callable[[Unpack[Ts]], object], *args: Unpack[Ts]
    ) -> None:
        """Call ``callback(*args)`` in the loop when the signal arrives."""
        if inspect.iscoroutine(callback) or inspect.iscoroutinefunction(callback):
            raise TypeError("coroutines cannot be used with add_signal_handler()")
        _check_signal(sig)
        self._check_closed()
        try:
            # Fails outside the main thread, where Python does not handle signals.
            _set_wakeup_fd(self._signal_fd())
        except (ValueError, OSError) as error:
            raise RuntimeError(str(error)) from None
        self._signal_handlers[sig] = self._set_signal(sig, callback, *args)
        try:
            signal.signal(sig, _ignore_signal)
            # System calls are restarted after the signal instead of failing with EINTR.
            signal.siginterrupt(sig, False)
        except OSError as error:
            self._drop_signal_handler(sig)
            if error.errno == errno.EINVAL:
                raise RuntimeError(f"sig {sig} cannot be caught") from None
            raise

    def remove_signal_handler(self, sig: int) -> bool:
        """Remove the callback of a signal.  Returns whether there was one."""
        _check_signal(sig)
        if sig not in self._signal_handlers:
            return False
        handler = signal.default_int_handler if sig == signal.SIGINT else signal.SIG_DFL
        self._drop_signal_handler(sig)
        try:
            signal.signal(sig, handler)
        except OSError as error:
            if error.errno == errno.EINVAL:
                raise RuntimeError(f"sig {sig} cannot be caught") from None
            raise
        return True

    def _drop_signal_handler(self, sig: int) -> None:
        self._signal_handlers.pop(sig, None)
        self._remove_signal(sig)
        if not self._signal_handlers and not self.is_running():
            try:
                _set_wakeup_fd(-1)
            except (ValueError, OSError) as error:
                logger.info("set_wakeup_fd(-1) failed: %s", error)

    def _close_signals(self) -> None:
        if sys.is_finalizing():
            if self._signal_handlers:
                warnings.warn(
                    f"Closing the loop {self!r} on interpreter shutdown stage, skipping signal handlers removal",
                    ResourceWarning,
                    stacklevel=2,
                    source=self,
                )
                self._signal_handlers.clear()
            return
        for sig in list(self._signal_handlers):
            self.remove_signal_handler(sig)

    def _wakeup_fd_installed(self) -> InstalledWakeupFd:
        return InstalledWakeupFd(self)


class InstalledWakeupFd:
    """Installs the wakeup fd of a loop in its ``with`` block, so that every signal wakes the loop while it runs in the
    main thread."""

    # Not a generator function with @contextmanager, which takes 3 % of the row C.run_noop.
    __slots__ = ("_former", "_loop")

    def __init__(self, loop: SignalHandlers) -> None:
        self._loop = loop
        self._former: int | None = None

    def __enter__(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        own_fd = self._loop._signal_fd()
        try:
            former = _set_wakeup_fd(own_fd)
        except (ValueError, OSError):
            return  # the main thread of a subinterpreter
        if former in (-1, own_fd) or self._loop._signal_handlers:
            self._former = former
        else:
            # Another library uses the wakeup fd, and this loop has no handlers.
            _set_wakeup_fd(former)

    def __exit__(self, *_: object) -> None:
        if self._former is not None and not self._loop._signal_handlers:
            _set_wakeup_fd(-1 if self._former == self._loop._signal_fd() else self._former)


def _check_signal(sig: int) -> None:
    if not isinstance(sig, int):
        raise TypeError(f"sig must be an int, not {sig!r}")
    if sig not in signal.valid_signals():
        raise ValueError(f"invalid signal number {sig}")
