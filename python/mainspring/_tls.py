"""TLS: the Python halves of ``SSLProtocol`` and ``SSLTransport``, and the methods of the loop that create them.

The user's ``ssl.SSLContext`` encrypts and decrypts, through ``SSLObject`` and ``MemoryBIO``.  The state machine is native
(``crates/mainspring-engine/src/tls``).  This module contains the code that runs once per connection, and asyncio's
messages.
"""

from __future__ import annotations

import contextvars
import ssl
import warnings
from asyncio import constants, exceptions, streams
from asyncio.log import logger

from . import _internals, _mainspring
from ._internals import SendfileMode

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    import socket
    from collections.abc import Callable
    from typing import Any

__all__ = ("Tls", "SSLProtocol", "SSLTransport")


class SSLTransport(_mainspring.SSLTransport):
    """The transport of a protocol over TLS."""

    # asyncio's code reads these before it starts TLS (over TLS) or sends a file.
    _start_tls_compatible = True
    _sendfile_compatible = SendfileMode.FALLBACK

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    @property
    def _ssl_protocol(self) -> SSLProtocol:
        protocol: SSLProtocol = self._lower_protocol()
        return protocol

    @property
    def _protocol_paused(self) -> bool:
        """Whether pause_writing() was called.  asyncio's helpers read this."""
        return self._state()[1]

    @property
    def _closed(self) -> bool:
        return self._state()[0]

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Get optional transport information."""
        return self._ssl_protocol._get_extra_info(name, default)

    def write_eof(self) -> None:
        """Not supported: TLS cannot close one direction only."""
        raise NotImplementedError

    def __repr__(self) -> str:
        try:
            closing = " closing" if self.is_closing() else ""
            lower = self._ssl_protocol._transport
        except RuntimeError:
            return f"<{type(self).__name__} not opened>"
        return f"<{type(self).__name__}{closing} over {lower!r}>"

    def _warn_unclosed(self) -> None:
        """Called by the finalizer of a transport that was not closed."""
        warnings.warn(f"unclosed transport {self!r}", ResourceWarning, stacklevel=2, source=self)


class SSLProtocol(_mainspring.SSLProtocol):
    """The protocol of the underlying transport."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        app_protocol: asyncio.BaseProtocol,
        sslcontext: ssl.SSLContext | None,
        waiter: asyncio.Future[None] | None,
        server_side: bool = False,
        server_hostname: str | None = None,
        call_connection_made: bool = True,
        ssl_handshake_timeout: float | None = None,
        ssl_shutdown_timeout: float | None = None,
        writing_paused: bool = False,
    ) -> None:
        self._handshake_timeout = _checked_timeout(
            "ssl_handshake_timeout", ssl_handshake_timeout, constants.SSL_HANDSHAKE_TIMEOUT
        )
        shutdown_timeout = _checked_timeout(
            "ssl_shutdown_timeout", ssl_shutdown_timeout, _internals.SSL_SHUTDOWN_TIMEOUT
        )
        if not sslcontext:
            sslcontext = _internals.create_transport_context(server_side, server_hostname)
        self._loop = loop
        # Libraries read this; aiohttp's tests do.
        self._sslcontext = sslcontext
        self._waiter = waiter
        self._handshake_begun = 0.0
        # Extended after the handshake.
        self._extra: dict[str, Any] = {"sslcontext": sslcontext}
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        ssl_object = sslcontext.wrap_bio(
            incoming,
            outgoing,
            server_side=server_side,
            server_hostname=(server_hostname or None) if not server_side else None,
        )
        self._bind(
            loop,
            SSLTransport(loop),
            app_protocol,
            ssl_object,
            incoming,
            outgoing,
            self._handshake_timeout,
            shutdown_timeout,
            not call_connection_made,
            writing_paused,
        )

    @property
    def _transport(self) -> asyncio.Transport | None:
        return self._parts()[0]

    @property
    def _app_transport(self) -> _mainspring.SSLTransport | None:
        return self._parts()[1]

    @property
    def _app_protocol(self) -> asyncio.BaseProtocol | None:
        return self._parts()[2]

    @property
    def _sslobj(self) -> ssl.SSLObject:
        return self._parts()[3]

    @property
    def _app_reading_paused(self) -> bool:
        transport = self._app_transport
        return transport is not None and not transport.is_reading()

    def _get_extra_info(self, name: str, default: Any = None) -> Any:
        if name in self._extra:
            return self._extra[name]
        lower = self._transport
        return default if lower is None else lower.get_extra_info(name, default)

    # Called by the native part.

    def _established(self) -> None:
        ssl_object = self._sslobj
        self._extra.update(
            peercert=ssl_object.getpeercert(),
            cipher=ssl_object.cipher(),
            compression=ssl_object.compression(),
            ssl_object=ssl_object,
        )
        if self._handshake_begun:
            took = self._loop.time() - self._handshake_begun
            logger.debug("%r: SSL handshake took %.1f ms", self, took * 1e3)

    def _handshake_ended(self, exception: BaseException | None) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is None or waiter.cancelled():
            return
        if exception is None:
            waiter.set_result(None)
        else:
            waiter.set_exception(exception)

    def _tls_error(self, kind: int) -> OSError:
        if kind == 0:
            return ConnectionResetError()
        if kind == 1:
            return ConnectionAbortedError(
                f"SSL handshake is taking longer than {self._handshake_timeout} seconds: "
                f"aborting the connection"
            )
        # Before Python 3.11 asyncio's TimeoutError is not an OSError.
        timeout: Any = exceptions.TimeoutError("SSL shutdown timed out")
        return timeout  # type: ignore[no-any-return]

    def _log_tls_event(self, kind: int) -> None:
        if kind == 0:
            self._handshake_begun = self._loop.time()
            logger.debug("%r starts SSL handshake", self)
        elif kind == 1:
            logger.debug("%r received EOF", self)
        else:
            logger.warning("returning true from eof_received() has no effect when using ssl")


class Tls(_internals.LoopParts):
    """The part of the loop for TLS."""

    def _make_ssl_transport(
        self,
        rawsock: socket.socket,
        protocol: asyncio.BaseProtocol,
        sslcontext: ssl.SSLContext | None,
        waiter: asyncio.Future[None] | None = None,
        *,
        server_side: bool = False,
        server_hostname: str | None = None,
        extra: dict[str, Any] | None = None,
        server: Any = None,
        context: contextvars.Context | None = None,
        ssl_handshake_timeout: float | None = None,
        ssl_shutdown_timeout: float | None = None,
    ) -> _mainspring.SSLTransport:
        if _internals.ONE_TRANSPORT_PER_SOCKET:
            self._ensure_fd_no_transport(rawsock)
        ssl_protocol = SSLProtocol(
            self,
            protocol,
            sslcontext,
            waiter,
            server_side,
            server_hostname,
            ssl_handshake_timeout=ssl_handshake_timeout,
            ssl_shutdown_timeout=ssl_shutdown_timeout,
        )
        transport = ssl_protocol._app_transport
        assert transport is not None  # only connection_lost() removes it
        self._make_socket_transport(rawsock, ssl_protocol, extra=extra, server=server, context=context)
        return transport

    def _secure_acceptor(
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        sslcontext: ssl.SSLContext,
        server: Any,
        timeouts: tuple[float | None, ...],
        context: contextvars.Context | None,
    ) -> Callable[[socket.socket, Any], None]:
        """The function that a listener calls with each connection."""
        names = ("ssl_handshake_timeout", "ssl_shutdown_timeout")
        # Python 3.10 passes only the first.
        options: dict[str, Any] = dict(zip(names, timeouts, strict=False))

        def accept(conn: socket.socket, peername: Any) -> None:
            connection_options = options
            if context is not None:
                # From Python 3.15 on.  The current context is that of the connection.
                connection_options = {**options, "context": contextvars.copy_context()}
            self.create_task(
                self._accept_secure(protocol_factory, conn, peername, sslcontext, server, connection_options)
            )

        return accept

    async def _accept_secure(
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        conn: socket.socket,
        peername: Any,
        sslcontext: ssl.SSLContext,
        server: Any,
        options: dict[str, Any],
    ) -> None:
        """Creates the transport of an accepted TLS connection, and waits for the handshake."""
        context: dict[str, Any] = {"message": "Error on transport creation for incoming connection"}
        try:
            protocol = context["protocol"] = protocol_factory()
        except Exception as error:
            conn.close()
            self.call_exception_handler({**context, "exception": error})
            return
        try:
            waiter = self.create_future()
            transport = context["transport"] = self._make_ssl_transport(
                conn,
                protocol,
                sslcontext,
                waiter,
                server_side=True,
                extra={"peername": peername},
                server=server,
                **options,
            )
            try:
                await waiter
            except BaseException:
                transport.close()
                # Breaks a cycle: the exception in the future refers to the protocol, which refers to the future.
                del waiter
                raise
        except Exception as error:
            # A client that does not speak TLS is reported only in debug mode.
            if self.get_debug():
                self.call_exception_handler({**context, "exception": error})

    async def start_tls(
        self,
        transport: asyncio.BaseTransport,
        protocol: asyncio.BaseProtocol,
        sslcontext: ssl.SSLContext,
        *,
        server_side: bool = False,
        server_hostname: str | None = None,
        ssl_handshake_timeout: float | None = None,
        ssl_shutdown_timeout: float | None = None,
    ) -> asyncio.Transport | None:
        """Upgrade a transport to TLS.  Returns the transport that *protocol* should use from now on."""
        if not isinstance(sslcontext, ssl.SSLContext):
            raise TypeError(f"sslcontext is expected to be an instance of ssl.SSLContext, got {sslcontext!r}")
        if not getattr(transport, "_start_tls_compatible", False):
            raise TypeError(f"transport {transport!r} is not supported by start_tls()")
        lower: Any = transport
        waiter: asyncio.Future[None] | None = self.create_future()
        ssl_protocol = SSLProtocol(
            self,
            protocol,
            sslcontext,
            waiter,
            server_side,
            server_hostname,
            call_connection_made=False,
            ssl_handshake_timeout=ssl_handshake_timeout,
            ssl_shutdown_timeout=ssl_shutdown_timeout,
            # A protocol that the underlying transport has paused is resumed by the TLS transport.
            writing_paused=bool(getattr(transport, "_protocol_paused", False)),
        )
        # No data may be delivered while the protocol is replaced.
        lower.pause_reading()
        if server_side and isinstance(protocol, streams.StreamReaderProtocol):
            _move_buffered_data(protocol, ssl_protocol)
        lower.set_protocol(ssl_protocol)
        connection_made_handle = self.call_soon(ssl_protocol.connection_made, lower)
        resume_handle = self.call_soon(lower.resume_reading)
        try:
            await waiter  # type: ignore[misc]
        except BaseException:
            lower.close()
            connection_made_handle.cancel()
            resume_handle.cancel()
            # Breaks a cycle: the traceback of the exception in the future refers to this frame.
            waiter = None
            raise
        return ssl_protocol._app_transport


def _move_buffered_data(protocol: asyncio.StreamReaderProtocol, ssl_protocol: SSLProtocol) -> None:
    """Moves data of the reader to TLS: a client can send its first record before the server has switched to TLS."""
    reader = _internals.stream_reader(protocol)
    if reader is not None and reader._buffer:
        ssl_protocol._feed(bytes(reader._buffer))
        reader._buffer.clear()


def _checked_timeout(name: str, value: float | None, default: float) -> float:
    if value is None:
        return default
    if value <= 0:
        raise ValueError(f"{name} should be a positive number, got {value}")
    return value
