"""What ``import mainspring`` loads, and what it loads on demand."""

from __future__ import annotations

import pickle
import pydoc
import subprocess
import sys
import textwrap

import pytest

import mainspring

LIMIT = 30

# The modules that are loaded beside asyncio's own.  Another import makes the start of every program slower.  A module
# that few programs need belongs into `_ON_DEMAND` of the package, or into the function that needs it.
ALLOWED = {
    "__future__",
    "mainspring",
    "mainspring._awaiting",
    "mainspring._dump",
    "mainspring._fork",
    "mainspring._frames",
    "mainspring._internals",
    "mainspring._loop",
    "mainspring._mainspring",
    "mainspring._nesting",
    "mainspring._network",
    "mainspring._pipes",
    "mainspring._priorities",
    "mainspring._processes",
    "mainspring._resolving",
    "mainspring._running",
    "mainspring._sendfile",
    "mainspring._signals",
    "mainspring._sockets",
    "mainspring._tls",
    "mainspring._transports",
    "mainspring._unix",
    "mainspring._views",
    "mainspring._watching",
}
# Loaded by the first loop, before it runs.
ALLOWED_BY_RUN = {"mainspring._reports"}

ON_DEMAND = {
    "ConcurrentFuture",
    "GuestHost",
    "GuestRun",
    "LagHistogram",
    "Metrics",
    "Runtime",
    "Stall",
    "start_guest_run",
    *({"EventLoopPolicy"} if sys.version_info < (3, 16) else ()),
}


def run(program):
    """The output of a program in a new interpreter."""
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(program)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout


def modules_after(program):
    """The modules that a program has loaded when it ends."""
    return set(run(f"{textwrap.dedent(program)}\nimport sys\nprint(*sys.modules)").split())


def test_the_import_loads_few_modules_beside_those_of_asyncio():
    assert modules_after("import mainspring") - modules_after("import asyncio") == ALLOWED


def test_a_run_loads_few_modules_beside_those_of_asyncio():
    program = """
        import {loop}

        async def main():
            pass

        {loop}.run(main())
    """
    loaded = modules_after(program.format(loop="mainspring")) - modules_after(program.format(loop="asyncio"))
    assert loaded == ALLOWED | ALLOWED_BY_RUN


def test_every_public_name_is_listed_and_can_be_imported():
    output = run("""
        import mainspring, sys, warnings

        assert set(mainspring.__all__) <= set(dir(mainspring)) and dir(mainspring) == sorted(dir(mainspring))
        print(*set(mainspring.__all__) - set(vars(mainspring)))
        warnings.simplefilter("ignore", DeprecationWarning)  # of policies
        from mainspring import *
        for name in mainspring.__all__:
            assert globals()[name] is getattr(mainspring, name) is vars(mainspring)[name], name
    """)
    assert set(output.split()) == ON_DEMAND


def test_a_name_that_does_not_exist_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'mainspring' has no attribute 'nothing'"):
        mainspring.nothing  # noqa: B018
    with pytest.raises(ImportError, match="nothing"):
        from mainspring import nothing  # noqa: F401


def test_the_documentation_of_the_package_can_be_generated():
    text = pydoc.plain(pydoc.render_doc(mainspring))
    assert "A loop on a thread of its own" in text and "A snapshot of a loop" in text


@pytest.mark.parametrize("name", ["Lane", "Metrics", "Runtime", "start_guest_run"])
def test_a_name_can_be_pickled(name):
    value = getattr(mainspring, name)
    program = f"import pickle; print(pickle.loads({pickle.dumps(value)!r}).__qualname__)"
    assert run(program).strip() == name


def test_what_a_watching_thread_and_a_dump_need_is_loaded_before():
    """They run while the loop is blocked, perhaps by an import, or when no file can be opened."""
    run("""
        import asyncio, io, mainspring, resource, time

        async def main():
            stalls = []
            asyncio.get_running_loop().watch_stalls(0.005, stalls.append)
            _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))  # of new files
            dumped = io.StringIO()
            mainspring.dump(dumped)
            assert "runs" in dumped.getvalue(), dumped.getvalue()
            while not stalls:
                time.sleep(0.001)
            assert stalls[0].stack

        mainspring.run(main())
    """)


def test_functions_that_run_at_exit_can_use_a_runtime_that_is_made_later():
    output = run("""
        import atexit, mainspring

        async def answer():
            return 42

        def at_exit():
            print(runtime.run(answer()))
            runtime.shutdown()

        atexit.register(at_exit)
        runtime = mainspring.Runtime()
    """)
    assert output == "42\n"
