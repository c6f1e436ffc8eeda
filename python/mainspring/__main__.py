"""``python -m mainspring app.py [args]`` and ``python -m mainspring -m package [args]``.

Runs an asyncio program on this loop without a change to it.  Programs find their loop in several ways; all of them
lead here: the event loop policy, asyncio's names for its default loop classes, and uvloop where it is installed, which
some servers prefer to asyncio by themselves.  They are exchanged in this one process, at the user's word.
"""

from __future__ import annotations

import asyncio
import importlib.util
import io
import os
import runpy
import sys
import types
import zipfile

import mainspring

from ._internals import HAS_POLICIES
from ._loop import Loop
from ._mainspring import __version__
from ._running import install

USAGE = """\
usage: python -m mainspring [-m MODULE | SCRIPT] [ARGUMENT ...]

Runs an asyncio program on the mainspring event loop.

  SCRIPT       a Python file, or a folder or zip file with a __main__.py
  -m MODULE    a module or package, as `python -m` takes it
  --version    print the version and exit
"""


def take_over() -> None:
    """Every new loop of this process is ours, whichever way the program asks asyncio for it."""
    if HAS_POLICIES:
        install()
    for name in ("SelectorEventLoop", "EventLoop"):
        if hasattr(asyncio, name):
            setattr(asyncio, name, Loop)
    if importlib.util.find_spec("uvloop") is not None:
        sys.modules["uvloop"] = stand_in("uvloop")


def stand_in(name: str) -> types.ModuleType:
    """A module by another loop's name that gives out this one."""
    module = types.ModuleType(name, f"{name}'s names for the mainspring event loop, by python -m mainspring.")
    for attribute in ("Loop", "__version__", "install", "new_event_loop", "run"):
        setattr(module, attribute, getattr(mainspring, attribute))
    if hasattr(mainspring, "EventLoopPolicy"):
        module.EventLoopPolicy = mainspring.EventLoopPolicy  # type: ignore[attr-defined]
    return module


def main(argv: list[str]) -> None:
    if not argv or argv[0] in ("-h", "--help"):
        print(USAGE, end="")
        sys.exit(0 if argv else 2)
    if argv[0] == "--version":
        print(f"mainspring {__version__}")
        return
    if argv[0] == "-m":
        if len(argv) < 2:
            sys.exit("mainspring: -m needs the name of a module; see python -m mainspring --help")
        take_over()
        sys.argv = argv[1:]
        runpy.run_module(argv[1], run_name="__main__", alter_sys=True)
        return
    script = argv[0]
    if script.startswith("-"):
        sys.exit(f"mainspring: unknown option {script}; see python -m mainspring --help")
    if not os.path.exists(script):
        sys.exit(f"mainspring: there is no file {script}")
    take_over()
    sys.argv = argv
    if not os.path.isfile(script) or zipfile.is_zipfile(script):
        runpy.run_path(script, run_name="__main__")
        return
    # As the interpreter itself does for a script: its own folder comes first. `-m` put the current one there.
    if sys.path:
        sys.path[0] = os.path.dirname(os.path.abspath(script))
    run_script(os.path.join(os.getcwd(), script))


def run_script(path: str) -> None:
    """Runs a file as the ``__main__`` module, which it stays: ``runpy`` would take it away at the end of the file,
    under the threads and exit handlers that go on."""
    with io.open_code(path) as file:
        code = compile(file.read(), path, "exec", dont_inherit=True)
    module = types.ModuleType("__main__")
    module.__dict__.update(__file__=path, __cached__=None, __builtins__=__builtins__)
    sys.modules["__main__"] = module
    exec(code, module.__dict__)


if __name__ == "__main__":
    main(sys.argv[1:])
