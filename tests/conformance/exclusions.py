"""Excluded tests, by reason.

The only reason to exclude a test is that no loop except CPython's own class
(for uvloop's suite: except uvloop's) can pass it, because it tests how the loop
is implemented, not its behaviour.  That a test fails on every other loop is not a
reason.  A test that creates no loop from the factory needs no entry here: the run
detects it and reports it as not exercised.

Patterns are for fnmatch, on module.Class.test, or on a module's name to exclude
the whole module.  `run --audit` runs only the excluded tests; one that passes there
on a loop that is not CPython's must be removed here, unless it passes only because
that loop has the same private name.
"""

import sys


def before(version, *patterns):
    """Patterns for the tests as they were before this version of Python."""
    return patterns if sys.version_info < version else ()


def since(version, *patterns):
    """Patterns for the tests as they are from this version of Python on."""
    return patterns if sys.version_info >= version else ()


ASYNCIO = {
    """Picks the selector that asyncio.SelectorEventLoop is built on, which only
    CPython's class has; on any other loop it would repeat the test of the same
    name in SelectEventLoopTests, which is run.""": [
        "test_*.EPollEventLoopTests.*",
        "test_*.KqueueEventLoopTests.*",
        "test_*.PollEventLoopTests.*",
    ],
    """Puts a mock in place of the socket module inside asyncio.base_events or
    asyncio.unix_events and expects the loop to do its I/O on the mock.""": [
        f"test_base_events.BaseEventLoopWithSelectorTests.{test}"
        for test in (
            "test_create_connection_bluetooth",
            "test_create_connection_connect_non_os_err_close_err",
            "test_create_connection_happy_eyeballs_empty_exceptions",
            "test_create_connection_ip_addr",
            "test_create_connection_ipv6_scope",
            "test_create_connection_multiple_errors",
            "test_create_connection_multiple_errors_local_addr",
            "test_create_connection_no_inet_pton",
            "test_create_connection_service_name",
            "test_create_connection_timeout",
            "test_create_connection_transport_error_closes_sock",
            "test_create_datagram_endpoint_cant_bind",
            "test_create_datagram_endpoint_ip_addr",
            "test_create_datagram_endpoint_no_addrinfo",
            "test_create_datagram_endpoint_nosoreuseport",
            "test_create_datagram_endpoint_setblk_err",
            "test_create_datagram_endpoint_socket_err",
            "test_create_server_cant_bind",
            "test_create_server_nosoreuseport",
            "test_create_server_soreuseport_only_defined",
        )
    ]
    + [
        "test_events.*.test_create_server_multiple_hosts_ipv[46]",
        "test_unix_events.SelectorEventLoopUnixSocketTests.test_create_unix_server_bind_error",
        # These also replace the loop's private _add_reader and _add_writer, so that the mock's fd is never registered.
        *since(
            (3, 15),
            "test_base_events.BaseEventLoopTests.test_create_connection_happy_eyeballs",
            "test_base_events.BaseEventLoopTests.test_create_connection_happy_eyeballs_ipv4_only",
        ),
    ],
    """Puts a mock in place of the logger inside asyncio.base_events, and
    expects the loop's messages on the mock.""": [
        "test_base_events.BaseEventLoopWithSelectorTests.test_log_slow_callbacks",
    ],
    """Puts a mock in place of _is_debug_mode inside asyncio.coroutines, and
    expects a new loop to have asked it.""": [
        "test_runners.RunTests.test_asyncio_run_debug",
    ],
    """Puts a mock in place of the signal module inside asyncio.unix_events, or
    works on the private _signal_handlers, _check_signal and _handle_signal of
    CPython's loop.""": [
        f"test_unix_events.SelectorEventLoopSignalTests.{test}"
        for test in (
            "test_add_signal_handler",
            "test_add_signal_handler_install_error*",
            "test_add_signal_handler_setup_error",
            "test_check_signal",
            "test_close",
            "test_close_on_finalizing",
            "test_handle_signal_cancelled_handler",
            "test_handle_signal_no_handler",
            "test_remove_signal_handler",
            "test_remove_signal_handler_2",
            "test_remove_signal_handler_error*",
        )
    ],
    """Calls or replaces private methods of CPython's loop: _accept_connection,
    _make_ssl_transport, _make_socket_transport, _run_once, _stop_serving.""": [
        "test_base_events.BaseEventLoopWithSelectorTests.test_accept_connection_*",
        "test_base_events.BaseEventLoopWithSelectorTests.test_create_connection_ssl_server_hostname_default",
        "test_events.*.test_prompt_cancellation",
        "test_events.*.test_timeout_rounding",
        "test_sslproto.SslProtoHandshakeTests.test_connection_lost_when_busy",
    ],
    """Calls or replaces the private _sock_sendfile_native or _sendfile_native
    of CPython's loop to reach one branch inside sendfile.""": [
        f"test_unix_events.SelectorEventLoopUnixSockSendfileTests.{test}"
        for test in (
            "test_sock_sendfile_blocking_error",
            "test_sock_sendfile_cancel[12]",
            "test_sock_sendfile_exception",
            "test_sock_sendfile_iobuffer",
            "test_sock_sendfile_not_a_file",
            "test_sock_sendfile_not_available",
            "test_sock_sendfile_not_regular_file",
            "test_sock_sendfile_os_error_*_call",
        )
    ]
    + [
        "test_sendfile.*.test_sendfile_fallback_close_peer_in_the_middle_of_receiving",
        "test_sendfile.*.test_sendfile_force_fallback",
        "test_sendfile.*.test_sendfile_force_unsupported_native",
    ],
    """Reads private attributes of CPython's transports and servers:
    transport._sock, ._ssl_protocol, ._test__append_write_backlog,
    server._sockets, ._waiters, ._attach, ._detach.""": [
        "test_base_events.BaseEventLoopWithSelectorTests.test_create_datagram_endpoint_sock_unix",
        "test_server.*.test_start_server_1",
        "test_server.*.test_start_unix_server_1",
        *before(
            (3, 13),
            "test_server.TestServer2.test_wait_closed_basic",
            "test_server.TestServer2.test_wait_closed_race",
        ),
        "test_server_context.ServerContextvarsTestCase.test_gh140947",
        "test_ssl.TestSSL.test_flush_before_shutdown",
        "test_ssl.TestSSL.test_remote_shutdown_receives_trailing_data*",
    ],
    """Puts a function in place of connection_made of asyncio.sslproto.SSLProtocol, and
    expects the loop's TLS to call it.""": [
        *since((3, 14), "test_sslproto.*.test_create_connection_ssl_failed_certificate_no_cycles"),
    ],
    """Looks at the private child watcher in CPython's loop.""": [
        *since(
            (3, 14),
            "test_subprocess.*.test_watcher_implementation",
            "test_subprocess.*.test_pid_not_reaped_before_exit_published",
        ),
    ],
}

UVLOOP = {
    """Tests uvloop's source files and build, no event loop.""": [
        "test_cython",
        "test_sourcecode",
    ],
    """Tests uvloop's test base class, no event loop.""": [
        "test_testbase",
    ],
    """Asks the loop for its libuv handle or libuv's version.""": [
        "test_libuv_api",
    ],
    """Uses the private loop._monitor_fs of uvloop, for which asyncio has no
    counterpart.""": [
        "test_fs_event",
    ],
    """Asks the loop for its file descriptor by the private _get_backend_id.""": [
        "test_sockets.*.test_socket_sync_remove",
    ],
    """Reaches into uvloop's TLS transport: the extra info 'uvloop.sslproto', the
    private _test__append_write_backlog.""": [
        "test_tcp.*.test_flush_before_shutdown",
        "test_tcp.*.test_remote_shutdown_receives_trailing_data",
    ],
    """Passes the private argument __uvloop_sleep_after_fork.""": [
        "test_process.Test_UV_Process_Delayed.test_process_delayed_stdio__paused__*",
    ],
    """Expects the very calls of os.dup, os.pipe and os.close that uvloop makes,
    through names it took when it was imported.""": [
        "test_process.*.test_process_double_close",
    ],
    """Expects create_task() to call Task.set_name() after a task factory, which
    asyncio has left to the factory since; where the loop's class is of asyncio's
    own modules the test calls it in asyncio's place.""": [
        *since((3, 14), "test_base.*.test_set_task_name"),
    ],
    """Tests that uvloop.run(), not the loop, refuses another kind of loop.""": [
        "test_runner.*.test_uvloop_run_2",
    ],
}
