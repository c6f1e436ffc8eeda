"""Random operations on a socket transport, between iterations of the loop and inside callbacks."""

from __future__ import annotations

from compare import program_of, programs, same_on_both
from connections import Tcp, Unix, steps
from hypothesis import given


@programs(300)
@given(program_of(steps))
def test_a_tcp_connection_behaves_as_on_asyncio(program):
    same_on_both(Tcp, program)


@programs(300)
@given(program_of(steps))
def test_a_unix_connection_behaves_as_on_asyncio(program):
    same_on_both(Unix, program)
