"""Make every public way of getting an asyncio event loop use one factory."""

import asyncio
import functools
import importlib
import os
import sys

# Public names under which asyncio offers a loop class; which exist depends on
# the platform and the version of Python.
LOOP_CLASSES = ("SelectorEventLoop", "ProactorEventLoop", "EventLoop")


class Ledger:
    """The number of loops created, in a file so that child processes can add to it."""

    def __init__(self, path):
        self.path = path

    def add(self):
        with open(self.path, "ab", buffering=0) as file:
            file.write(b".")

    @property
    def total(self):
        return os.stat(self.path).st_size


class LoopUnderTest:
    """The factory under test, usable in place of a loop class.

    Calling it creates a loop and ignores the selector; isinstance() and attribute
    look-ups use the loop's type; subclasses inherit from that type.
    """

    def __init__(self, spec, ledger):
        module, _, path = spec.partition(":")
        self._factory = functools.reduce(getattr, path.split("."), importlib.import_module(module))
        self._ledger = ledger
        probe = self._factory()
        self._type = type(probe)
        probe.close()

    def __call__(self, selector=None):
        self._ledger.add()
        return self._factory()

    def __mro_entries__(self, bases):
        ledger = self._ledger

        class Counted(self._type):
            def __new__(cls, *args, **kwargs):
                ledger.add()
                return super().__new__(cls, *args, **kwargs)

        return (Counted,)

    def __instancecheck__(self, instance):
        return isinstance(instance, self._type)

    def __subclasscheck__(self, subclass):
        return issubclass(subclass, self._type)

    def __getattr__(self, name):
        return getattr(self._type, name)

    def describe(self):
        return f"{self._type.__module__}.{self._type.__qualname__}"


def platform_events():
    """The asyncio module that defines this platform's loop and policies."""
    name = "windows_events" if sys.platform == "win32" else "unix_events"
    return importlib.import_module(f"asyncio.{name}")


def default_policies():
    """The default policy classes, which new_event_loop() and run() go through."""
    for value in vars(platform_events()).values():
        if isinstance(value, type) and getattr(value, "_loop_factory", None):
            yield value


def route(loop):
    """Make asyncio return `loop` from every API that returns a loop."""
    for policy in list(default_policies()):
        policy._loop_factory = staticmethod(loop)
    for owner in (asyncio, platform_events()):
        for name in LOOP_CLASSES:
            if hasattr(owner, name):
                setattr(owner, name, loop)


class _ClosableLoop:
    """A loop as CPython's test harness expects it when closing it.

    The harness reads the private `_default_executor` to find out whether there is
    an executor to shut down.  For a loop without that attribute, always shut it down
    through the public method.
    """

    class _default_executor:
        @staticmethod
        def shutdown(wait):
            """Do nothing: a closed loop has shut its executor down."""

    def __init__(self, loop):
        self._loop = loop

    def __getattr__(self, name):
        return getattr(self._loop, name)


def route_harness():
    """Let CPython's own test base class close other loops than CPython's."""
    from test.test_asyncio.utils import TestCase

    close_loop = TestCase.close_loop

    def close_any_loop(loop):
        own = hasattr(loop, "_default_executor")
        close_loop(loop if own else _ClosableLoop(loop))

    TestCase.close_loop = staticmethod(close_any_loop)


def route_runner_tests(module, loop):
    """Let test_runners test asyncio.run() and Runner on the loop under test.

    The module creates a BaseEventLoop with mocked I/O.  Create a real loop instead,
    which records the call that the tests check: shutdown_asyncgens().
    """

    def new_loop(self):
        made = loop()
        made.shutdown_ag_run = False
        shutdown = made.shutdown_asyncgens

        async def shutdown_asyncgens():
            made.shutdown_ag_run = True
            await shutdown()

        made.shutdown_asyncgens = shutdown_asyncgens
        return made

    module.BaseTest.new_loop = new_loop
