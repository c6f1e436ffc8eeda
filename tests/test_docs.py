"""The documentation names files that exist."""

from __future__ import annotations

import re
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
