"""Runs each case in separate processes on both loops, and compares the results."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
from typing import Any

HERE = pathlib.Path(__file__).parent

# Seconds after which a case counts as hanging. A case takes less than a second on an idle machine.
HANG = 40

# Signals that mean a crash.
CRASHES = {signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGSYS}

# Text on stderr that indicates a fault in native code.
FAULTS = ("panicked at", "PanicException", "Fatal Python error", "free(): ", "malloc(): ", "double free")


@dataclasses.dataclass
class Result:
    """The result of one process."""

    status: int | None  # None: it hung and was killed
    shown: str
    errors: str
    left: dict[str, Any] | None  # None: it ended before its case did

    def faults(self) -> list[str]:
        """Failures that are never allowed, whatever the other loop does."""
        found = []
        if self.status is None:
            found.append(f"hangs: no end after {HANG} s")
        elif self.status < 0 and -self.status in CRASHES:
            found.append(f"died of {signal.Signals(-self.status).name}")
        found += [f"{word!r} on stderr" for word in FAULTS if word in self.errors]
        return found


def run_process(command: list[str], debug: bool) -> Result:
    """Runs a program of this folder. It writes its leaks to the file named by HOSTILE_REPORT."""
    environment = dict(os.environ, PYTHONFAULTHANDLER="1", PYTHONHASHSEED="0", PYTHONWARNINGS="ignore")
    environment.pop("PYTHONASYNCIODEBUG", None)
    if debug:
        environment["PYTHONASYNCIODEBUG"] = "1"
    with tempfile.TemporaryDirectory(prefix="hostile-", ignore_cleanup_errors=True) as folder:
        report = pathlib.Path(folder, "report")
        environment.update(HOSTILE_REPORT=str(report), TMPDIR=folder)
        # Files instead of pipes: a surviving grandchild would hold a pipe open.
        with open(f"{folder}/out", "w+b") as out, open(f"{folder}/err", "w+b") as err:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=environment,
                cwd=folder,
                start_new_session=True,
            )
            status: int | None
            try:
                status = process.wait(HANG)
            except subprocess.TimeoutExpired:
                status = None
                # Makes faulthandler print the traceback, if it still can.
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.send_signal(signal.SIGABRT)
                    process.wait(5)
            finally:
                # Including its grandchildren.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            texts = []
            for file in (out, err):
                file.seek(0)
                texts.append(file.read().decode(errors="replace"))
        left = json.loads(report.read_text()) if report.exists() else None
    return Result(status, *texts, left)


def run_one(name: str, loop: str, debug: bool) -> Result:
    return run_process([sys.executable, str(HERE / "run"), name, "--loop", loop], debug)


def indented(text: str, most: int = 60) -> str:
    return "".join(f"    {line}\n" for line in text.splitlines()[-most:])


def compared(asyncio: Result, mainspring: Result) -> str:
    """The failure of a case, or an empty string."""
    wrong = [f"asyncio {fault}" for fault in asyncio.faults()]
    wrong += [f"mainspring {fault}" for fault in mainspring.faults()]
    if asyncio.status != mainspring.status:
        wrong.append(f"exit status {asyncio.status} on asyncio, {mainspring.status} on mainspring")
    if asyncio.shown != mainspring.shown:
        wrong.append(
            "shown on asyncio:\n"
            + indented(asyncio.shown)
            + "  on mainspring:\n"
            + indented(mainspring.shown)
        )
    if asyncio.status == 1 or not asyncio.shown:
        wrong.append("the case itself is wrong: on asyncio it fails or shows nothing")
    if asyncio.left is not None and mainspring.left is not None:
        # The case itself leaves the same on both loops; additional leaks of asyncio do not matter.
        for what in mainspring.left["fds"]:
            if mainspring.left["fds"].count(what) > asyncio.left["fds"].count(what):
                wrong.append(f"fds left: {mainspring.left['fds']}, on asyncio {asyncio.left['fds']}")
                break
        objects = asyncio.left["objects"]
        if any(count > objects.get(kind, 0) for kind, count in mainspring.left["objects"].items()):
            wrong.append(f"objects left: {mainspring.left['objects']}, on asyncio {objects}")
    if not wrong:
        return ""
    for name, result in (("asyncio", asyncio), ("mainspring", mainspring)):
        if result.errors:
            wrong.append(f"stderr of {name}:\n{indented(result.errors, 20)}")
    return "\n".join(wrong)


def judge(name: str, debug: bool) -> str:
    """Runs a case on both loops. Returns its failure, or an empty string."""
    return compared(run_one(name, "asyncio", debug), run_one(name, "mainspring", debug))
