"""A stand-in for uvloop that provides the loop under test to uvloop's tests.

Tests start child processes that import uvloop too, so the loop to provide is named in
the environment.  The tests' base class, uvloop._testbase, comes from the suite.
"""

import asyncio
import os
import sys

import routing


def _loop_under_test():
    """Load the factory without this stand-in in the way: it may be uvloop's."""
    shim = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    path, this = sys.path[:], sys.modules.pop(__name__)
    sys.path[:] = [entry for entry in path if os.path.abspath(entry) != shim]
    try:
        return routing.LoopUnderTest(
            os.environ["CONFORMANCE_LOOP"], routing.Ledger(os.environ["CONFORMANCE_LEDGER"])
        )
    finally:
        sys.path[:], sys.modules[__name__] = path, this


__path__ = [os.path.join(os.environ["CONFORMANCE_UVLOOP_TESTS"], "testbase")]

Loop = new_event_loop = _loop_under_test()


class EventLoopPolicy(next(routing.default_policies())):
    _loop_factory = staticmethod(new_event_loop)


def install():
    asyncio.set_event_loop_policy(EventLoopPolicy())


def run(main, *, loop_factory=new_event_loop, debug=None):
    if sys.version_info >= (3, 11):
        with asyncio.Runner(loop_factory=loop_factory, debug=debug) as runner:
            return runner.run(main)
    install()
    try:
        return asyncio.run(main, debug=debug)
    finally:
        asyncio.set_event_loop_policy(None)
