"""Helpers of the child process tests."""

from __future__ import annotations

import asyncio
import os

PIPE = asyncio.subprocess.PIPE


class Recorder(asyncio.SubprocessProtocol):
    """Records its callbacks."""

    def __init__(self):
        self.log = []
        self.data = {1: bytearray(), 2: bytearray()}
        self.ended = asyncio.get_running_loop().create_future()

    def connection_made(self, transport):
        self.log.append("connection_made")

    def pipe_data_received(self, fd, data):
        self.data[fd] += data
        if ("pipe_data_received", fd) not in self.log:
            self.log.append(("pipe_data_received", fd))

    def pipe_connection_lost(self, fd, exc):
        self.log.append(("pipe_connection_lost", fd))

    def process_exited(self):
        self.log.append("process_exited")

    def connection_lost(self, exc):
        self.log.append("connection_lost")
        self.ended.set_result(exc)


def shell(text):
    return ("/bin/sh", "-c", text)


def is_there(pid):
    """Whether the child exists, running or zombie."""
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True
