"""Signals on the loop: ``add_signal_handler`` and Ctrl-C.

Python's own C-level handler writes the number of each signal to a descriptor, ``signal.set_wakeup_fd()``; the engine
reads it there and calls what is registered.  The loop holds that descriptor while it runs in the main thread even if
nobody registered anything: a signal that arrives in the moment before the loop goes to sleep would otherwise wait
until something else woke it.
"""

from __future__ import annotations

import contextlib
import errno
import inspect
import signal
import sys
import threading
import warnings
from asyncio.log import logger
from typing import TYPE_CHECKING, Any

from ._internals import LoopParts

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator

    from typing_extensions import Unpack

    from ._internals import Ts

__all__ = ("SignalHandlers",)


def _ignore_on_arrival(signum: int, frame: Any) -> None:
    """Python's handler for signals that the loop handles: only the number in the descriptor counts."""


def _set_wakeup_fd(fd: int) -> int:
    # A full pipe means that the loop has enough to read; the default would print a warning from the handler.
    return signal.set_wakeup_fd(fd, warn_on_full_buffer=False)


class SignalHandlers(LoopParts):
    """The part of the loop that is about signals."""

    def _init_signals(self) -> None:
        # What libraries look for and put back: prompt_toolkit does.
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
            # Fails outside of the main thread: only there Python handles signals.
            _set_wakeup_fd(self._signal_fd())
        except (ValueError, OSError) as error:
            raise RuntimeError(str(error)) from None
        self._signal_handlers[sig] = self._set_signal(sig, callback, *args)
        try:
            signal.signal(sig, _ignore_on_arrival)
            # System calls go on after the signal instead of failing with EINTR.
            signal.siginterrupt(sig, False)
        except OSError as error:
            self._forget_signal(sig)
            if error.errno == errno.EINVAL:
                raise RuntimeError(f"sig {sig} cannot be caught") from None
            raise

    def remove_signal_handler(self, sig: int) -> bool:
        """Forget the callback for a signal; whether there was one."""
        _check_signal(sig)
        if sig not in self._signal_handlers:
            return False
        handler = signal.default_int_handler if sig == signal.SIGINT else signal.SIG_DFL
        self._forget_signal(sig)
        try:
            signal.signal(sig, handler)
        except OSError as error:
            if error.errno == errno.EINVAL:
                raise RuntimeError(f"sig {sig} cannot be caught") from None
            raise
        return True

    def _forget_signal(self, sig: int) -> None:
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

    @contextlib.contextmanager
    def _signals_wake(self) -> Iterator[None]:
        """While the loop runs in the main thread, every signal wakes it."""
        former = None
        if threading.current_thread() is threading.main_thread():
            ours = self._signal_fd()
            try:
                former = _set_wakeup_fd(ours)
            except (ValueError, OSError):
                pass  # the main thread of a subinterpreter
            else:
                if former not in (-1, ours) and not self._signal_handlers:
                    # Somebody else listens there, and nobody needs it here.
                    _set_wakeup_fd(former)
                    former = None
        try:
            yield
        finally:
            if former is not None and not self._signal_handlers:
                _set_wakeup_fd(-1 if former == self._signal_fd() else former)


def _check_signal(sig: int) -> None:
    if not isinstance(sig, int):
        raise TypeError(f"sig must be an int, not {sig!r}")
    if sig not in signal.valid_signals():
        raise ValueError(f"invalid signal number {sig}")
