"""Tk as the host of a loop, on a virtual display."""

import pathlib
import shutil
import subprocess
import sys

import pytest

LIMIT = 60
EXAMPLE = pathlib.Path(__file__).parent.parent.parent / "examples" / "tk_guest.py"


def test_a_loop_runs_inside_tk():
    pytest.importorskip(
        "tkinter", reason="this Python has no tkinter (on Debian: apt-get install python3-tk)"
    )
    if shutil.which("xvfb-run") is None:
        pytest.skip("Xvfb is not installed (on Debian: apt-get install xvfb xauth)")
    done = subprocess.run(
        ["xvfb-run", "--auto-servernum", sys.executable, "-W", "error", str(EXAMPLE)],
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "clicked\n"
