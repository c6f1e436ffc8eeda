"""Compares the private asyncio names listed in ``_internals.py`` with the sources; tests asyncio without policies."""

from __future__ import annotations

import ast
import asyncio
import pathlib
import re
import subprocess
import sys

import pytest

import mainspring
from mainspring import _internals

LIMIT = 30

RUST = pathlib.Path(__file__).parent.parent / "crates" / "mainspring-python" / "src"

LISTED = {
    *(name for names in _internals.USES.values() for name in names),
    *(name for names in _internals.SERVES.values() for name in names),
    *_internals.NAMED_AS_IN_ASYNCIO,
}

# Names of this package or of other modules that asyncio happens to use for something else.
COINCIDENCES = {"_check_signal", "_getframe", "_reap", "_release", "_state", "_threads"}


def is_private(name):
    return name.startswith("_") and not name.startswith("__") and name != "_"


def names_in_python(source):
    """Every name that a module uses or defines, including names in strings (for getattr())."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Attribute(attr=name) | ast.Name(id=name) | ast.arg(arg=name):
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.alias(name=name):
                yield from name.split(".")
            case ast.Constant(value=str(text)) if text.isidentifier():
                yield text


def names_in_rust(source):
    """Every name that Python code can see or look up: strings, interned names, methods."""
    source = re.sub(r"//.*", "", source)
    yield from re.findall(r'"(\w+)"', source)
    yield from re.findall(r"\bfn (\w+)", source)
    yield from re.findall(r"#\[[gs]etter\((\w+)\)\]", source)
    for interned in re.findall(r"\bnames! \{([^}]*)\}", source):
        yield from re.findall(r"\w+", interned)


def names_of(files, find):
    return {name for file in files for name in find(file.read_text()) if is_private(name)}


def names_of_asyncio():
    folder = pathlib.Path(asyncio.__file__).parent
    elsewhere = re.compile("windows|proactor")
    return names_of([file for file in folder.glob("*.py") if not elsewhere.match(file.name)], names_in_python)


def own_names():
    package = pathlib.Path(mainspring.__file__).parent
    # The lists themselves do not count as uses.
    python = [file for file in package.rglob("*.py") if file.name != "_internals.py"]
    lists, rest = (package / "_internals.py").read_text().split("if TYPE_CHECKING:", 1)
    assert "NAMED_AS_IN_ASYNCIO" in lists
    named = {name for name in names_in_python("if TYPE_CHECKING:" + rest) if is_private(name)}
    return named | names_of(python, names_in_python) | names_of(RUST.rglob("*.rs"), names_in_rust)


def test_every_private_name_shared_with_asyncio_is_listed():
    assert own_names() & names_of_asyncio() - COINCIDENCES - LISTED == set()


def test_every_listed_name_is_used():
    assert LISTED - own_names() == set()


def test_every_listed_coincidence_exists():
    assert COINCIDENCES - own_names() == set()
    assert not COINCIDENCES & LISTED


def test_no_name_is_listed_twice():
    used = [(owner, name) for owner, names in _internals.USES.items() for name in names]
    assert len(used) == len(set(used))
    assert not set(_internals.NAMED_AS_IN_ASYNCIO) & {name for _, name in used}


WITHOUT_POLICIES = """
import asyncio, asyncio.events, asyncio.unix_events, re, sys

for module in (asyncio, asyncio.events, asyncio.unix_events):
    for name in list(vars(module)):
        if re.search("[pP]olicy|[cC]hild_?[wW]atcher", name):
            delattr(module, name)

import mainspring

async def main():
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", "print(42)", stdout=-1)
    out, _ = await child.communicate()
    return out, child.returncode

print(mainspring.run(main()))
print(hasattr(mainspring, "EventLoopPolicy"), "EventLoopPolicy" in mainspring.__all__)
try:
    mainspring.install()
except RuntimeError as error:
    print(error)

import mainspring.__main__
mainspring.__main__.replace_default_loop()
print(asyncio.SelectorEventLoop is mainspring.Loop)
"""


@pytest.mark.skipif(sys.version_info < (3, 11), reason="asyncio.run() of Python 3.10 needs a policy")
def test_asyncio_without_policies_is_sufficient():
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", WITHOUT_POLICIES], capture_output=True, text=True, timeout=LIMIT
    )
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert lines[:2] == ["(b'42\\n', 0)", "False False"]
    assert "no event loop policies" in lines[2]
    assert lines[3:] == ["True"]
