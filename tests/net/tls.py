"""A certificate authority for the length of a test run, made with the ``openssl`` command."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

EXTENSIONS = """\
[ca]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
[leaf]
basicConstraints = CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
subjectAltName = DNS:localhost, IP:127.0.0.1
[req]
distinguished_name = name
[name]
"""


def uses_tls(test):
    """Marks a test that needs certificates."""
    # What asyncio's TLS says of its own transports is its own matter; 3.10 calls some unclosed that are.
    test = pytest.mark.filterwarnings("ignore:unclosed transport <asyncio.sslproto:ResourceWarning")(test)
    reason = "no openssl command to make certificates with"
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
        self._openssl("req", *new_key, "-subj", "/CN=localhost", "-keyout", "leaf.key", "-out", "leaf.csr")
        self._openssl(
            "x509", "-req", "-in", "leaf.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-set_serial", "1",
            "-extfile", "extensions.cnf", "-extensions", "leaf", "-out", "leaf.pem", "-days", "2",
        )  # fmt: skip

    def _openssl(self, *arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=self.folder, check=True, capture_output=True)

    def server_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.folder / "leaf.pem", self.folder / "leaf.key")
        return context

    def client_context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.folder / "ca.pem"))
