"""Helpers of the TLS tests: a certificate authority per test run, created with the ``openssl`` command, and connected
pairs of TLS ends."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
import ssl
import subprocess
import sys
from pathlib import Path

import peers
import pytest

# For tests of behaviour that asyncio's own TLS lacks, at least in some versions.
mainspring_only = pytest.mark.parametrize("loop_name", ["mainspring"])

# asyncio 3.10 has an older TLS implementation; mainspring uses its successor on every version.
new_tls = pytest.mark.usefixtures("needs_new_asyncio_tls")

shutdown_timeout = pytest.mark.skipif(
    sys.version_info < (3, 11), reason="ssl_shutdown_timeout is new in Python 3.11"
)

EXTENSIONS = """\
[ca]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
[leaf]
basicConstraints = CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth, clientAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
subjectAltName = DNS:localhost, IP:127.0.0.1
[req]
distinguished_name = name
[name]
"""


def uses_tls(test):
    """Marks a test that needs certificates."""
    # asyncio 3.10 warns about some closed transports as unclosed.
    test = pytest.mark.filterwarnings("ignore:unclosed transport <asyncio.sslproto:ResourceWarning")(test)
    reason = "the openssl command, which creates the certificates, is missing"
    return pytest.mark.skipif(shutil.which("openssl") is None, reason=reason)(test)


class Authority:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "extensions.cnf").write_text(EXTENSIONS)
        new_key = [
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-config",
            "extensions.cnf",
        ]
        self._openssl(
            "req", "-x509", *new_key, "-extensions", "ca", "-subj", "/CN=mainspring test authority",
            "-keyout", "ca.key", "-out", "ca.pem", "-days", "2",
        )  # fmt: skip
        for serial, name in enumerate(("localhost", "other"), 1):
            file = "leaf" if name == "localhost" else name
            self._openssl(
                "req", *new_key, "-subj", f"/CN={name}", "-keyout", f"{file}.key", "-out", f"{file}.csr"
            )  # fmt: skip
            self._openssl(
                "x509", "-req", "-in", f"{file}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-set_serial", str(serial),
                "-extfile", "extensions.cnf", "-extensions", "leaf", "-out", f"{file}.pem", "-days", "2",
            )  # fmt: skip

    def _openssl(self, *arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=self.folder, check=True, capture_output=True)

    def server_context(self, file: str = "leaf") -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.folder / f"{file}.pem", self.folder / f"{file}.key")
        context.load_verify_locations(self.folder / "ca.pem")
        return context

    def client_context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.folder / "ca.pem"))

    def client_context_with_certificate(self) -> ssl.SSLContext:
        context = self.client_context()
        context.load_cert_chain(self.folder / "other.pem", self.folder / "other.key")
        return context


@contextlib.asynccontextmanager
async def secured(authority, client_factory=peers.Recorder, server_factory=peers.Recorder, **options):
    """Two protocols, connected by TLS through a server of this loop: (client, server's end)."""
    loop = asyncio.get_running_loop()
    accepted = loop.create_future()

    def factory():
        protocol = server_factory()
        if not accepted.done():
            accepted.set_result(protocol)
        return protocol

    server_options = {name: options.pop(name) for name in list(options) if name.startswith("ssl_")}
    server_context = options.pop("server_context", None) or authority.server_context()
    client_context = options.pop("client_context", None) or authority.client_context()
    server = await loop.create_server(factory, "127.0.0.1", 0, ssl=server_context, **server_options)
    address = server.sockets[0].getsockname()
    options.setdefault("server_hostname", "localhost")
    ends = []
    try:
        _, client = await loop.create_connection(client_factory, *address, ssl=client_context, **options)
        ends.append(client)
        protocol = await asyncio.wait_for(accepted, peers.TIMEOUT)
        await protocol.until(lambda: protocol.transport is not None)
        ends.append(protocol)
        yield client, protocol
    finally:
        server.close()
        for end in ends:
            await peers.end_of(end)


@contextlib.asynccontextmanager
async def secured_with_socket(authority, factory=peers.Recorder, **options):
    """A client protocol and the blocking TLS socket at the other end: (protocol, socket)."""
    loop = asyncio.get_running_loop()
    context = authority.server_context()

    def serve(listening):
        plain, _ = listening.accept()
        plain.settimeout(peers.TIMEOUT)
        return context.wrap_socket(plain, server_side=True, suppress_ragged_eofs=False)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        serving = asyncio.ensure_future(peers.in_thread(serve, listening))
        _, protocol = await loop.create_connection(
            factory,
            *listening.getsockname(),
            ssl=authority.client_context(),
            server_hostname="localhost",
            **options,
        )
        peer = await serving
    try:
        yield protocol, peer
    finally:
        peer.close()
        await peers.end_of(protocol)
