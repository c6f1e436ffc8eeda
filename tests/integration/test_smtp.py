"""aiosmtpd on the loop; the clients are aiosmtplib on the same loop and smtplib in a thread."""

from __future__ import annotations

import asyncio
import contextlib
import smtplib
from email.message import EmailMessage

import pytest
from helpers import needed

needed("aiosmtpd")
smtp = needed("aiosmtpd.smtp")
aiosmtplib = needed("aiosmtplib")


class Post:
    """Stores delivered mail, and whether it came encrypted."""

    def __init__(self):
        self.delivered = []

    async def handle_DATA(self, server, session, envelope):
        self.delivered.append((session.ssl is not None, envelope.rcpt_tos, envelope.content))
        return "250 OK"


@contextlib.asynccontextmanager
async def serving(authority):
    post, connections = Post(), []

    class Connection(smtp.SMTP):
        def connection_made(self, transport):
            if self not in connections:
                connections.append(self)
                self.ended = asyncio.get_running_loop().create_future()
            super().connection_made(transport)

        def connection_lost(self, error):
            super().connection_lost(error)
            if not self.ended.done():
                self.ended.set_result(None)

    loop = asyncio.get_running_loop()
    tls = authority.server_context()
    server = await loop.create_server(
        lambda: Connection(post, hostname="localhost", tls_context=tls, require_starttls=True, loop=loop),
        "127.0.0.1",
        0,
    )
    try:
        yield post, server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await asyncio.gather(*(connection.ended for connection in connections))
        await server.wait_closed()


def message(number, size=100):
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = "me@localhost", f"you{number}@localhost", f"number {number}"
    mail.set_content("\n".join(["word " * 10] * (size // 50)))
    return mail


def test_mail_arrives_after_starttls(run, authority):
    async def main():
        async with serving(authority) as (post, port):
            client = aiosmtplib.SMTP(
                hostname="localhost", port=port, start_tls=True, tls_context=authority.client_context()
            )
            async with client:
                for number in range(5):
                    await client.send_message(message(number))
                await client.send_message(message(5, size=1_000_000))
        assert [recipients for _, recipients, _ in post.delivered] == [
            [f"you{number}@localhost"] for number in range(6)
        ]
        assert all(encrypted for encrypted, _, _ in post.delivered)
        assert len(post.delivered[5][2]) > 1_000_000

    run(main())


def test_a_client_in_a_thread_is_served(run, authority):
    def send(port, number):
        with smtplib.SMTP("localhost", port, timeout=30) as client:
            client.starttls(context=authority.client_context())
            client.send_message(message(number))

    async def main():
        async with serving(authority) as (post, port):
            loop = asyncio.get_running_loop()
            await asyncio.gather(*(loop.run_in_executor(None, send, port, number) for number in range(8)))
        recipients = sorted(recipient for _, recipients, _ in post.delivered for recipient in recipients)
        assert recipients == [f"you{number}@localhost" for number in range(8)]

    run(main())


def test_mail_without_encryption_is_refused(run, authority):
    async def main():
        async with serving(authority) as (post, port):
            async with aiosmtplib.SMTP(hostname="localhost", port=port, start_tls=False) as client:
                with pytest.raises(aiosmtplib.SMTPException, match="STARTTLS"):
                    await client.send_message(message(1))
        assert post.delivered == []

    run(main())
