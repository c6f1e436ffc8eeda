"""The documentation names files that exist, and its Python programs run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def existing_files():
    folders = ["crates", "python", "tests", "bench", "docs", "examples", "tools"]
    files = [path for folder in folders for path in (ROOT / folder).rglob("*") if "target" not in path.parts]
    return [path.as_posix() for path in [*files, *ROOT.iterdir()]]


@pytest.mark.mainspring_only
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_source_files_that_a_page_names_exist(page):
    text = page.read_text(encoding="utf-8")
    names = set(re.findall(r"`([\w./-]+\.rs)`", text))
    if page.name == "ARCHITECTURE.md":
        for block in re.findall(r"```\n(.*?)```", text, re.DOTALL):
            names |= set(re.findall(r"[\w/]+\.rs\b", block))
        assert len(names) > 30
    files = existing_files()
    missing = [name for name in names if not any(file.endswith("/" + name) for file in files)]
    assert missing == []


PAGES_WITH_PROGRAMS = ("embedding.md", "monitoring.md", "priorities.md", "runtime.md", "testing.md")
PROGRAMS = [
    pytest.param(program, id=f"{Path(page).stem}-{number}")
    for page in PAGES_WITH_PROGRAMS
    for number, program in enumerate(
        re.findall(r"```python\n(.*?)```", (ROOT / "docs" / page).read_text(encoding="utf-8"), re.DOTALL)
    )
]


@pytest.mark.mainspring_only
@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_in_the_documentation_run(program):
    if "asyncio.Runner" in program and sys.version_info < (3, 11):
        pytest.skip("asyncio.Runner is new in Python 3.11")
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, timeout=30
    )
    stderr = run.stderr
    if sys.version_info < (3, 11):
        # Exceptions have no notes there, so the seed is printed.
        stderr = re.sub(r"^mainspring: seed .*\n", "", stderr)
    assert (run.returncode, stderr) == (0, "")
    assert run.stdout
