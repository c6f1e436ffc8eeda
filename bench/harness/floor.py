"""The python-floor server: the echo protocol of the B cases on native/pyfloor.c."""

import json
import os
import sys

sys.path[:0] = [os.path.dirname(os.path.dirname(os.path.abspath(__file__))), sys.argv[1]]

import pyfloor  # noqa: E402

from cases.networking import Echo, tcp_socket  # noqa: E402

listener = tcp_socket()
print("READY", json.dumps({"port": listener.getsockname()[1]}), flush=True)
pyfloor.serve(listener.fileno(), Echo)
