"""Child processes: the transport of ``subprocess_exec()`` and ``subprocess_shell()``, and how a child's end is seen.

The child is started by ``subprocess.Popen``, so every option of that works, and what runs between fork and exec is what
``subprocess`` runs.  Its end is seen by a descriptor of its own (a pidfd), so no signal handler is needed, no thread is
special, and nobody else's children are waited for.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
from asyncio.log import logger
from typing import TYPE_CHECKING, Any

from . import _internals, _mainspring
from ._pipes import Pipes

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ("Processes", "SubprocessTransport")

# How long a child that was killed may take to be gone, where nobody is left to hear of it.
_REAPING_TIME = 1.0


class SubprocessTransport(_internals.BaseSubprocessTransport):
    """A child process and the pipes to it."""

    _loop: Processes
    _proc: Any
    _pipes: dict[int, Any]
    _pending_calls: Any
    _are_pipes_open = False

    def _start(
        self, args: Any, shell: bool, stdin: Any, stdout: Any, stderr: Any, bufsize: int, **options: Any
    ) -> None:
        # Looked up here, each time: programs replace it.
        self._proc = child = subprocess.Popen(
            args,
            shell=shell,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            universal_newlines=False,
            bufsize=bufsize,
            **options,
        )
        try:
            self._loop._watch_child(child, self)
            if self._loop._connects_pipes_itself():
                self._open_pipes()
        except BaseException:
            # It runs, and nobody will ever hear of it.
            for fd, pipe in enumerate((child.stdin, child.stdout, child.stderr)):
                if pipe is not None and self._pipes.get(fd) is None:
                    pipe.close()
            child.kill()
            _reap(child)
            self._loop._forget_child(child.pid)
            raise

    def _open_pipes(self) -> None:
        """Makes the transports of the pipes; their protocols know them from here on, connected or not."""
        child, loop = self._proc, self._loop
        for fd, pipe in enumerate((child.stdin, child.stdout, child.stderr)):
            if pipe is None:
                continue
            if fd == 0:
                protocol: Any = _internals.WriteSubprocessPipeProto(self, fd)
                protocol.pipe = loop._make_write_pipe_transport(pipe, protocol)
            else:
                protocol = _internals.ReadSubprocessPipeProto(self, fd)
                protocol.pipe = loop._make_read_pipe_transport(pipe, protocol)
            self._pipes[fd] = protocol
        self._are_pipes_open = True

    async def _connect_pipes(self, waiter: asyncio.Future[None] | None) -> None:
        # A task of the base's, which may be cancelled before it begins: then nobody would close the pipes. So they are
        # open already, unless the program wants to see to that itself.
        if not self._are_pipes_open:
            await super()._connect_pipes(waiter)

    def _tell_when_connected(self, waiter: asyncio.Future[None]) -> None:
        if self._are_pipes_open:
            # After the pipes' own connection_made(), which are scheduled.
            self._loop.call_soon(self._connected, waiter)

    def _connected(self, waiter: asyncio.Future[None]) -> None:
        """Tells the protocol; what happened meanwhile follows."""
        loop = self._loop
        if loop.get_debug():
            for fd, protocol in self._pipes.items():
                direction, pipe = "Write" if fd == 0 else "Read", protocol.pipe
                logger.debug("%s pipe %r connected: (%r, %r)", direction, pipe._fileno, pipe, protocol)
        loop.call_soon(self._protocol.connection_made, self)
        pending, self._pending_calls = self._pending_calls, None
        for callback, data in pending:
            loop.call_soon(callback, *data)
        if not waiter.cancelled():
            waiter.set_result(None)

    def send_signal(self, signal: int) -> None:
        """Send a signal to the child; nothing once its end was told."""
        self._check_proc()
        # The number of a child that was waited for may be another process's.
        if self._returncode is None:
            super().send_signal(signal)

    def terminate(self) -> None:
        """Ask the child to end, with SIGTERM."""
        self._check_proc()
        if self._returncode is None:
            super().terminate()

    def kill(self) -> None:
        """End the child, with SIGKILL."""
        self._check_proc()
        if self._returncode is None:
            super().kill()

    def close(self) -> None:
        """Close the pipes, and kill the child if it runs."""
        if self._closed or self._loop is None or not self._loop.is_closed():
            super().close()
            return
        # The loop is gone: nobody will be told anything, and no child may be left behind.
        self._closed = True
        for protocol in self._pipes.values():
            if protocol is not None:
                protocol.pipe._release()
        if self._proc is not None and self._returncode is None and self._proc.poll() is None:
            try:
                self._proc.kill()
            except (ProcessLookupError, PermissionError):
                return  # it has ended, or runs as somebody else
            _reap(self._proc)


class Processes(Pipes):
    """The part of the loop that is about child processes."""

    def _init_processes(self) -> None:
        self._children: dict[int, tuple[_mainspring.ChildWatch, SubprocessTransport]] = {}

    async def _make_subprocess_transport(
        self,
        protocol: asyncio.SubprocessProtocol,
        args: Any,
        shell: bool,
        stdin: Any,
        stdout: Any,
        stderr: Any,
        bufsize: int,
        extra: dict[str, Any] | None = None,
        **options: Any,
    ) -> SubprocessTransport:
        waiter = self.create_future()

        def start() -> SubprocessTransport:
            transport = SubprocessTransport(
                self,
                protocol,
                args,
                shell,
                stdin,
                stdout,
                stderr,
                bufsize,
                waiter=waiter,
                extra=extra,
                **options,
            )
            transport._tell_when_connected(waiter)
            return transport

        watcher = _internals.explicit_child_watcher()
        transport = start() if watcher is None else self._start_watched_by(watcher, start)
        try:
            await waiter
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException:
            transport.close()
            # Whoever gives up gives up once more at most: the child's end is not theirs to interrupt.
            await asyncio.shield(transport._wait())
            raise
        return transport

    def _connects_pipes_itself(self) -> bool:
        """Whether nobody has replaced what asyncio would call to connect the pipes of a child."""
        connects = (self.connect_read_pipe, self.connect_write_pipe)
        base = (asyncio.BaseEventLoop.connect_read_pipe, asyncio.BaseEventLoop.connect_write_pipe)
        return all(getattr(own, "__func__", None) is its for own, its in zip(connects, base, strict=True))

    def _watch_child(self, child: subprocess.Popen[bytes], transport: SubprocessTransport) -> None:
        watch = _mainspring.ChildWatch(child.pid)
        self._add_reader(watch, self._child_ended, watch, transport)
        self._children[child.pid] = watch, transport

    def _forget_child(self, pid: int) -> None:
        watch, _ = self._children.pop(pid, (None, None))
        if watch is not None:
            self._remove_reader(watch)
            watch.close()

    def _child_ended(self, watch: _mainspring.ChildWatch, transport: SubprocessTransport) -> None:
        is_there = watch.look()
        if is_there is None:
            return  # announced too early
        pid = watch.pid
        self._forget_child(pid)
        returncode = None
        if is_there:
            # It has ended, so this does not block; nobody has waited for it, so the number is its own.
            with contextlib.suppress(ChildProcessError):
                returncode = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if returncode is None:
            # Popen itself may have waited for it: send_signal() and close() do, in some versions.
            returncode = transport._proc.returncode
        if returncode is None:
            logger.warning("Unknown child process pid %d, will report returncode 255", pid)
            returncode = 255
        elif _internals.WATCHER_TELLS_RETURN_CODE and self._debug:
            logger.debug("process %s exited with returncode %s", pid, returncode)
        # At once: between the reaping and this, its number would be nobody's.
        transport._process_exited(returncode)

    def _close_processes(self) -> None:
        """Leaves no zombies: who has ended is waited for, and who was killed is given the time to end."""
        for _, transport in list(self._children.values()):
            if transport._proc.poll() is None and transport.is_closing():
                _reap(transport._proc)
        for pid in list(self._children):
            self._forget_child(pid)

    def _start_watched_by(
        self, watcher: Any, start: Callable[[], SubprocessTransport]
    ) -> SubprocessTransport:
        """Starts a child under a watcher that the program has set; before Python 3.14."""
        with watcher as entered:
            if not _internals.ASKS_ENTERED_WATCHER:
                entered = watcher
            if not entered.is_active():
                raise RuntimeError(
                    "asyncio.get_child_watcher() is not activated, subprocess support is not installed."
                )
            transport = start()
            pid = transport._proc.pid
            # It is the program's wish that nobody but the watcher waits for children.
            self._forget_child(pid)
            entered.add_child_handler(pid, self._child_watcher_callback, transport)
        return transport

    def _child_watcher_callback(self, pid: int, returncode: int, transport: SubprocessTransport) -> None:
        """Called by a watcher, on any thread."""
        self.call_soon_threadsafe(transport._process_exited, returncode)


def _reap(child: subprocess.Popen[bytes]) -> None:
    try:
        child.wait(timeout=_REAPING_TIME)
    except subprocess.TimeoutExpired:
        pass  # stuck in the kernel: whoever starts the next child waits for this one too, in subprocess
