"""./run reports missing tools before it creates any files."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
# The tools that ./run itself calls.
TOOLS = "bash cat cut dirname env find flock grep head mkdir rm sed sha256sum sort xargs".split()


class Machine:
    """A copy of the tree's outline, and a PATH that contains only the tools that a test adds."""

    def __init__(self, folder):
        self.tree = folder / "tree"
        self.bin = folder / "bin"
        (self.tree / "tools").mkdir(parents=True)
        self.bin.mkdir()
        for name in ("run", "tools/setup.sh", "Cargo.toml", "Cargo.lock", "pyproject.toml"):
            shutil.copy(ROOT / name, self.tree / name)
        for name in ("python", "crates"):
            (self.tree / name).mkdir()
        for name in TOOLS:
            (self.bin / name).symlink_to(shutil.which(name))

    def add(self, name, says="", status=0):
        program = self.bin / name
        program.write_text(f"#!/bin/sh\necho '{says}'\nexit {status}\n")
        program.chmod(0o755)

    def run(self, *arguments, python=sys.executable):
        environment = {"PATH": str(self.bin), "HOME": str(self.tree), "MAINSPRING_PYTHON": python}
        return subprocess.run(
            [self.tree / "run", *arguments],
            env={name: value for name, value in environment.items() if value},
            cwd=self.tree,
            capture_output=True,
            text=True,
        )

    def refuses(self, *arguments, python=sys.executable):
        """The message of a ./run that does not start; it must not have created a virtual environment."""
        ended = self.run(*arguments, python=python)
        assert ended.returncode == 1, ended.stderr
        assert not list(self.tree.glob(".venv/*/pyvenv.cfg"))
        return ended.stderr


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def test_a_missing_cargo_is_named(machine):
    assert "cargo is missing: install Rust 1." in machine.refuses()


def test_an_outdated_compiler_is_reported_with_the_required_version(machine):
    machine.add("cargo")
    machine.add("rustc", says="rustc 1.70.0 (90c541806 2023-05-31)")
    assert "rustc 1.70.0 is too old: 1." in machine.refuses()


def test_a_toolchain_manager_without_a_toolchain_is_not_taken_for_a_compiler(machine):
    machine.add("cargo")
    machine.add("rustc", says="no default toolchain is configured", status=1)
    assert "rustup default stable" in machine.refuses()


def test_a_missing_linker_is_named(machine):
    machine.add("cargo")
    machine.add("rustc", says="rustc 1.999.0-nightly")
    assert "cc is missing" in machine.refuses()


def test_without_python_the_message_names_the_required_version(machine):
    assert "CPython 3.10 or later with its venv module is needed" in machine.refuses(python=None)


def test_a_named_interpreter_that_does_not_run_is_not_replaced_by_another(machine):
    (machine.bin / "python3").symlink_to(sys.executable)
    assert "/nowhere/python3 does not run" in machine.refuses(python="/nowhere/python3")


def test_the_reason_why_an_interpreter_cannot_be_used_is_shown(machine):
    machine.add("python3", says="this one is too old", status=1)
    assert "this one is too old" in machine.refuses(python=None)


def test_a_missing_program_is_reported_before_anything_is_built(machine):
    assert "there is no missing.py here" in machine.refuses("missing.py")


def test_help_needs_no_tools(machine):
    ended = machine.run("--help", python=None)
    assert ended.returncode == 0
    assert ended.stdout.startswith("./run") and "set -euo" not in ended.stdout


def test_every_tool_in_the_fake_path_exists(machine):
    """Otherwise the tests above would pass because a tool is missing."""
    assert all(os.access(machine.bin / name, os.X_OK) for name in TOOLS)
