"""E. The limit: the protocol echo compared with bare servers under the same load.

Each case runs on the loops and on the three servers of LIMITS.
"""

from .networking import CONNECTIONS, REQUESTS, SIZES, serve_protocol
from .registry import Case, add

# epoll and uring: bare Rust servers. python-floor: an epoll loop in C that calls one Python data_received() per message;
# its transport.write() only calls send(2).
LIMITS = ("epoll", "uring", "python-floor")


def limit_case(name, size, connections, depth=1):
    load = ("echo", "--conns", str(connections), "--size", str(size), "--depth", str(depth))
    add(Case(name, serve_protocol, REQUESTS, {}, load, limits=True, quick=name == "E.tcp.1k.c10"))


for size_name, size in SIZES.items():
    for connections in CONNECTIONS:
        limit_case(f"E.tcp.{size_name}.c{connections}", size, connections)
limit_case("E.tcp.1k.c10.p16", 1024, 10, depth=16)
