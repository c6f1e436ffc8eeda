"""Child processes: the transport of ``subprocess_exec()`` and ``subprocess_shell()``, and the watch of a child's exit.

``subprocess.Popen`` starts the child, so all its options work.  A pidfd reports the exit of the child, so no signal
handler and no particular thread are needed, and other children of the process are left alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
from asyncio.log import logger

from . import _internals, _mainspring
from ._pipes import Pipes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ("Processes", "SubprocessTransport")

# How long to wait for a killed child whose exit cannot be reported any more.
_REAP_TIMEOUT_SECONDS = 1.0


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
        # Looked up at each call, since programs replace it.
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
            if self._loop._uses_base_connect_pipe():
                self._open_pipes()
        except BaseException:
            # The child runs, but its transport could not be created.
            for fd, pipe in enumerate((child.stdin, child.stdout, child.stderr)):
                if pipe is not None and self._pipes.get(fd) is None:
                    pipe.close()
            child.kill()
            _reap(child)
            self._loop._unwatch_child(child.pid)
            raise

    def _open_pipes(self) -> None:
        """Creates the transports of the pipes, and stores them in their protocols."""
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
        # The base class runs this in a task.  If the task were cancelled before it begins, the pipes would stay open.  So
        # _start() has opened them already, unless the program has replaced the methods that do so.
        if not self._are_pipes_open:
            await super()._connect_pipes(waiter)

    def _schedule_connected(self, waiter: asyncio.Future[None]) -> None:
        if self._are_pipes_open:
            # After connection_made() of the pipes, which are scheduled already.
            self._loop.call_soon(self._connected, waiter)

    def _connected(self, waiter: asyncio.Future[None]) -> None:
        """Calls connection_made() of the protocol, then the calls that were pending."""
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
        """Send a signal to the child; does nothing after process_exited()."""
        self._check_proc()
        # The pid of a child that was waited for can be reused.
        if self._returncode is None:
            super().send_signal(signal)

    def terminate(self) -> None:
        """Terminate the child with SIGTERM."""
        self._check_proc()
        if self._returncode is None:
            super().terminate()

    def kill(self) -> None:
        """Kill the child with SIGKILL."""
        self._check_proc()
        if self._returncode is None:
            super().kill()

    def close(self) -> None:
        """Close the pipes, and kill the child if it still runs."""
        if self._closed or self._loop is None or not self._loop.is_closed():
            super().close()
            return
        # The loop is closed, so the exit of the child cannot be reported.  It must not become a zombie.
        self._closed = True
        for protocol in self._pipes.values():
            if protocol is not None:
                protocol.pipe._release()
        if self._proc is not None and self._returncode is None and self._proc.poll() is None:
            try:
                self._proc.kill()
            except (ProcessLookupError, PermissionError):
                return  # it has exited, or runs as another user
            _reap(self._proc)


class Processes(Pipes):
    """The part of the loop for child processes."""

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
            transport._schedule_connected(waiter)
            return transport

        watcher = _internals.explicit_child_watcher()
        transport = start() if watcher is None else self._start_with_watcher(watcher, start)
        try:
            await waiter
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException:
            transport.close()
            # Another cancellation must not interrupt the wait for the child.
            await asyncio.shield(transport._wait())
            raise
        return transport

    def _uses_base_connect_pipe(self) -> bool:
        """Whether the methods that asyncio calls to connect the pipes of a child were not replaced."""
        methods = (self.connect_read_pipe, self.connect_write_pipe)
        originals = (asyncio.BaseEventLoop.connect_read_pipe, asyncio.BaseEventLoop.connect_write_pipe)
        pairs = zip(methods, originals, strict=True)
        return all(getattr(method, "__func__", None) is original for method, original in pairs)

    def _watch_child(self, child: subprocess.Popen[bytes], transport: SubprocessTransport) -> None:
        watch = _mainspring.ChildWatch(child.pid)
        self._add_reader(watch, self._child_exited, watch, transport)
        self._children[child.pid] = watch, transport

    def _unwatch_child(self, pid: int) -> None:
        watch, _ = self._children.pop(pid, (None, None))
        if watch is not None:
            self._remove_reader(watch)
            watch.close()

    def _child_exited(self, watch: _mainspring.ChildWatch, transport: SubprocessTransport) -> None:
        has_status = watch.check_exit()
        if has_status is None:
            return  # the child still runs
        pid = watch.pid
        self._unwatch_child(pid)
        returncode = None
        if has_status:
            # The child has exited, so this does not block.  It was not waited for, so the pid is not reused.
            with contextlib.suppress(ChildProcessError):
                returncode = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if returncode is None:
            # Popen can have waited for it: send_signal() and close() do in some versions.
            returncode = transport._proc.returncode
        if returncode is None:
            logger.warning("Unknown child process pid %d, will report returncode 255", pid)
            returncode = 255
        elif _internals.WATCHER_LOGS_RETURN_CODE and self._debug:
            logger.debug("process %s exited with returncode %s", pid, returncode)
        # At once: after waitpid() the pid can be reused.
        transport._process_exited(returncode)

    def _close_processes(self) -> None:
        """Leaves no zombies: waits for children that have exited, and for a limited time for killed ones."""
        for _, transport in list(self._children.values()):
            if transport._proc.poll() is None and transport.is_closing():
                _reap(transport._proc)
        for pid in list(self._children):
            self._unwatch_child(pid)

    def _start_with_watcher(
        self, watcher: Any, start: Callable[[], SubprocessTransport]
    ) -> SubprocessTransport:
        """Starts a child with a watcher that the program has set; before Python 3.14."""
        with watcher as entered:
            if not _internals.USES_ENTERED_WATCHER:
                entered = watcher
            if not entered.is_active():
                raise RuntimeError(
                    "asyncio.get_child_watcher() is not activated, subprocess support is not installed."
                )
            transport = start()
            pid = transport._proc.pid
            # The watcher of the program waits for the child.
            self._unwatch_child(pid)
            entered.add_child_handler(pid, self._child_watcher_callback, transport)
        return transport

    def _child_watcher_callback(self, pid: int, returncode: int, transport: SubprocessTransport) -> None:
        """Called by a watcher, in any thread."""
        self.call_soon_threadsafe(transport._process_exited, returncode)


def _reap(child: subprocess.Popen[bytes]) -> None:
    try:
        child.wait(timeout=_REAP_TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        pass  # stuck in the kernel; subprocess waits for it when the next child is started
