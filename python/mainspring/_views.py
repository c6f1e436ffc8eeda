"""Private attributes of asyncio's loop that libraries read: ``_ready``, ``_scheduled`` and ``_selector``.

asyncio stores its handles in a deque and a list, and its file descriptors in a selector.  Here the engine stores them,
and these objects are views.  They can be read and cleared, but not extended.  ``docs/private-names.md`` lists the
libraries and the names that they use.
"""

from __future__ import annotations

import selectors
from collections.abc import Mapping, Sequence

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator
    from typing import Any, TypeVar

    from ._loop import Loop

    H = TypeVar("H", bound="asyncio.Handle")

__all__ = ("Handles", "SelectorView", "Views")


class Handles(Sequence["H"]):
    """A live view of the handles of a loop."""

    __slots__ = ("_clear", "_loop", "_show")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, show: Callable[[], list[H]], clear: Callable[[], None]
    ) -> None:
        self._loop = loop
        self._show = show
        self._clear = clear

    def clear(self) -> None:
        """Remove the handles; they will not run."""
        # asyncio's close() calls this on a closed loop.  The engine is closed later, and removes everything then.
        if not self._loop.is_closed():
            self._clear()

    def __len__(self) -> int:
        return len(self._show())

    def __getitem__(self, index: Any) -> Any:
        return self._show()[index]

    def __iter__(self) -> Iterator[H]:
        return iter(self._show())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._show()!r})"


class Registrations(Mapping["Any", selectors.SelectorKey]):
    """The file descriptors of a loop, by number or file object."""

    __slots__ = ("_loop",)

    def __init__(self, loop: Loop) -> None:
        self._loop = loop

    def _keys(self) -> dict[int, selectors.SelectorKey]:
        keys: dict[int, selectors.SelectorKey] = {}
        for fd, writes, file, target in self._loop._registrations():
            previous = keys.get(fd)
            events, data = (0, (None, None)) if previous is None else (previous.events, previous.data)
            data = (data[0], target) if writes else (target, data[1])
            events |= selectors.EVENT_WRITE if writes else selectors.EVENT_READ
            if previous is not None and not isinstance(previous.fileobj, int):
                file = previous.fileobj
            keys[fd] = selectors.SelectorKey(fd if file is None else file, fd, events, data)
        return keys

    def __len__(self) -> int:
        return len(self._keys())

    def __iter__(self) -> Iterator[int]:
        return iter(self._keys())

    def __getitem__(self, fileobj: Any) -> selectors.SelectorKey:
        keys = self._keys()
        for key in keys.values():
            # By identity first: a closed object has no fd number.
            if key.fileobj is fileobj:
                return key
        try:
            fd = fileobj if isinstance(fileobj, int) else int(fileobj.fileno())
        except (AttributeError, TypeError, ValueError):
            raise ValueError(f"Invalid file object: {fileobj!r}") from None
        if fd < 0:
            raise ValueError(f"Invalid file descriptor: {fd}")
        return keys[fd]


class SelectorView:
    """The registered file descriptors, in the form of asyncio's selector.

    The ``data`` of a key are the handles for reading and writing, or the transport.
    """

    __slots__ = ("_loop",)

    def __init__(self, loop: Loop) -> None:
        self._loop = loop

    def get_map(self) -> Registrations:
        """The keys of all file descriptors."""
        return Registrations(self._loop)

    def get_key(self, fileobj: Any) -> selectors.SelectorKey:
        """The key of a file descriptor or file object; KeyError if it is not registered."""
        try:
            return self.get_map()[fileobj]
        except KeyError:
            raise KeyError(f"{fileobj!r} is not registered") from None

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        """Stop watching a descriptor that add_reader() or add_writer() was called with."""
        key = self.get_key(fileobj)
        self._loop._remove_reader(key.fd)
        self._loop._remove_writer(key.fd)
        return key


class Views:
    """The part of the loop with these attributes."""

    @property
    def _ready(self: Any) -> Handles[asyncio.Handle]:
        return Handles(self, self._ready_handles, self._clear_ready)

    @_ready.setter
    def _ready(self, handles: Sequence[asyncio.Handle]) -> None:
        _check_empty("_ready", handles)

    @property
    def _scheduled(self: Any) -> Handles[asyncio.TimerHandle]:
        def by_time() -> list[asyncio.TimerHandle]:
            return sorted(self._timer_handles(), key=lambda handle: handle.when())

        return Handles(self, by_time, self._clear_timers)

    @_scheduled.setter
    def _scheduled(self, handles: Sequence[asyncio.Handle]) -> None:
        _check_empty("_scheduled", handles)

    @property
    def _selector(self: Any) -> SelectorView:
        return SelectorView(self)

    def _call_soon(self: Any, callback: Any, args: Any, context: Any) -> asyncio.Handle:
        handle: asyncio.Handle = self.call_soon(callback, *args, context=context)
        return handle


def _check_empty(name: str, handles: Sequence[asyncio.Handle]) -> None:
    """asyncio's constructor sets the attributes to empty lists; nothing else can be assigned."""
    if handles:
        raise AttributeError(f"{name} of a mainspring.Loop is a view and cannot be replaced")
