"""The demonstration that ./run starts, shortened."""

import re
import subprocess
import sys
from pathlib import Path

DEMO = Path(__file__).resolve().parent.parent / "examples" / "demo.py"


def test_it_measures_every_row_on_both_loops_without_errors():
    command = [sys.executable, str(DEMO), "--rounds", "1", "--seconds", "0.02"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=50)
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr == "round 1 of 1\n"
    rows = re.findall(r"^(?:streams|protocol) .*\|.*\|\s+\d+\.\d\d$", ended.stdout, re.MULTILINE)
    assert len(rows) == 6
