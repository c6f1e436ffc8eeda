"""``python -m mainspring app.py [args]`` and ``python -m mainspring -m package [args]``.

Runs an unchanged asyncio program on this loop.  Programs get their loop in several ways, and this command replaces all
of them in its own process: the event loop policy, asyncio's names of its default loop classes, and uvloop if it is
installed, which some servers prefer to asyncio.
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


def replace_default_loop() -> None:
    """Makes every new loop of this process a mainspring loop."""
    if HAS_POLICIES:
        install()
    for name in ("SelectorEventLoop", "EventLoop"):
        if hasattr(asyncio, name):
            setattr(asyncio, name, Loop)
    if importlib.util.find_spec("uvloop") is not None:
        sys.modules["uvloop"] = replacement_module("uvloop")


def replacement_module(name: str) -> types.ModuleType:
    """A module with the name of another loop that provides this one."""
    module = types.ModuleType(
        name, f"The mainspring event loop under {name}'s names; created by python -m mainspring."
    )
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
        replace_default_loop()
        sys.argv = argv[1:]
        runpy.run_module(argv[1], run_name="__main__", alter_sys=True)
        return
    script = argv[0]
    if script.startswith("-"):
        sys.exit(f"mainspring: unknown option {script}; see python -m mainspring --help")
    if not os.path.exists(script):
        sys.exit(f"mainspring: there is no file {script}")
    replace_default_loop()
    sys.argv = argv
    if not os.path.isfile(script) or zipfile.is_zipfile(script):
        runpy.run_path(script, run_name="__main__")
        return
    # As the interpreter does for a script: its folder comes first in sys.path. `-m` put the current folder there.
    if sys.path:
        sys.path[0] = os.path.dirname(os.path.abspath(script))
    run_script(os.path.join(os.getcwd(), script))


def run_script(path: str) -> None:
    """Runs a file as the ``__main__`` module.  Unlike ``runpy``, leaves the module in place at the end of the file, for
    threads and exit handlers that still run."""
    with io.open_code(path) as file:
        code = compile(file.read(), path, "exec", dont_inherit=True)
    module = types.ModuleType("__main__")
    module.__dict__.update(__file__=path, __cached__=None, __builtins__=__builtins__)
    sys.modules["__main__"] = module
    exec(code, module.__dict__)


if __name__ == "__main__":
    main(sys.argv[1:])
