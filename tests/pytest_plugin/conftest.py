"""Runs pytest in a process of its own, with the plugins that a test names and no others."""

from __future__ import annotations

import textwrap

import pytest

# Generous: passing tests never reach it.
LIMIT = 60

PRELUDE = """
import asyncio
import sys
import unittest

import pytest

def show(*words):
    print("shown:", *words)

def kind_of_loop():
    loop = asyncio.get_running_loop()
    if "mainspring" not in sys.modules:
        return "asyncio"
    import mainspring.testing
    if isinstance(loop, mainspring.testing.VirtualTimeLoop):
        return "virtual"
    return "mainspring" if isinstance(loop, mainspring.Loop) else "asyncio"
"""


class Framework:
    """Writes async tests for a framework."""

    def __init__(self, name):
        self.name = name
        self.plugins = {
            "asyncio-strict": ["-p", "pytest_asyncio.plugin"],
            "asyncio-auto": ["-p", "pytest_asyncio.plugin", "--asyncio-mode=auto"],
            "anyio": ["-p", "anyio.pytest_plugin"],
            "unittest": [],
        }[name]

    def test(self, body, name="test_it", marker=""):
        body = textwrap.dedent(body)
        if self.name == "unittest":
            lines = [f"class Case_{name}(unittest.IsolatedAsyncioTestCase):"]
            lines += ["    " + line for line in [marker] * bool(marker)]
            lines += [f"    async def {name}(self):", textwrap.indent(body, " " * 8)]
        else:
            own = {"asyncio-strict": "@pytest.mark.asyncio", "anyio": "@pytest.mark.anyio"}
            lines = [own.get(self.name, ""), marker, f"async def {name}():", textwrap.indent(body, " " * 4)]
        return "\n".join(lines) + "\n"


@pytest.fixture(params=["asyncio-strict", "anyio", "unittest"])
def framework(request):
    return Framework(request.param)


@pytest.fixture
def asyncio_auto():
    return Framework("asyncio-auto")


@pytest.fixture
def asyncio_strict():
    return Framework("asyncio-strict")


@pytest.fixture
def anyio():
    return Framework("anyio")


@pytest.fixture
def run_again(pytester, monkeypatch):
    """Runs pytest on the module of the last run."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)

    def run_again(*arguments, framework=None):
        plugins = [
            "-p",
            "pytest_mainspring",
            "-p",
            "no:cacheprovider",
            *(framework.plugins if framework else []),
        ]
        result = pytester.runpytest_subprocess(*plugins, "-rA", *arguments, timeout=LIMIT)
        result.shown = [
            line.partition("shown: ")[2] for line in result.outlines if line.startswith("shown: ")
        ]
        return result

    return run_again


@pytest.fixture
def run(pytester, run_again):
    """Runs pytest on a module with this source."""

    def run(source, *arguments, framework=None, conftest="", backend='"asyncio"'):
        settings = ["[pytest]", "addopts = --strict-markers -W error"]
        prelude = PRELUDE
        if framework is not None and framework.name.startswith("asyncio"):
            settings.append("asyncio_default_fixture_loop_scope = function")
        if framework is not None and framework.name == "anyio" and backend:
            prelude += f"@pytest.fixture(scope='module')\ndef anyio_backend():\n    return {backend}\n"
        pytester.makefile(".ini", pytest="\n".join(settings))
        pytester.makepyfile(test_module=prelude + textwrap.dedent(source))
        if conftest:
            pytester.makeconftest(textwrap.dedent(conftest))
        return run_again(*arguments, framework=framework)

    return run
