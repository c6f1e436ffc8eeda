"""``python -m mainspring`` runs an unmodified program on the loop; importing the package alone changes nothing."""

import os
import signal
import subprocess
import sys
import zipfile

import pytest

import mainspring

LIMIT = 30

with_policies = pytest.mark.skipif(sys.version_info >= (3, 16), reason="gone from Python 3.16")


def run_m(*arguments, interpreter=("-m", "mainspring"), **options):
    return subprocess.run(
        [sys.executable, *interpreter, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT,
        **options,
    )


SHOW = """
import asyncio, sys
async def main():
    return type(asyncio.get_running_loop()).__module__.split(".")[0]
print(asyncio.run(main()))
"""


def test_m_runs_a_script_on_the_loop(tmp_path):
    script = tmp_path / "app.py"
    script.write_text(SHOW)
    done = run_m(script)
    assert (done.returncode, done.stdout, done.stderr) == (0, "mainspring\n", "")


@pytest.mark.parametrize(
    "expression",
    ["asyncio.new_event_loop()", "asyncio.SelectorEventLoop()"]
    + (["asyncio.EventLoop()"] if sys.version_info >= (3, 13) else [])
    + (["asyncio.Runner().get_loop()"] if sys.version_info >= (3, 11) else []),
)
def test_m_provides_its_loop_through_every_api(tmp_path, expression):
    script = tmp_path / "app.py"
    script.write_text(
        f"import asyncio\nloop = {expression}\nprint(type(loop).__module__.split('.')[0])\nloop.close()\n"
    )
    done = run_m(script)
    assert (done.returncode, done.stdout) == (0, "mainspring\n"), done.stderr


LOOK = """
import sys, os
print(sys.argv)
print(__name__)
print(__file__)
print(sys.path[0])
print(sys.modules["__main__"].__dict__ is globals())
import beside
print(beside.__name__)
"""


@pytest.fixture
def project(tmp_path):
    (tmp_path / "app.py").write_text(LOOK)
    (tmp_path / "beside.py").write_text("")
    package = tmp_path / "pack"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "__main__.py").write_text(LOOK + "\nprint(__package__)\n" + SHOW)
    (package / "tool.py").write_text(LOOK + "\nprint(__package__)\n" + SHOW)
    return tmp_path


def test_m_gives_a_script_the_same_environment_as_plain_python(project):
    for script in ("app.py", "./app.py", project / "app.py"):
        plain = run_m(script, "a", "--b", "-m", "c", interpreter=(), cwd=project)
        ours = run_m(script, "a", "--b", "-m", "c", cwd=project)
        assert ours.returncode == 0, ours.stderr
        assert ours.stdout == plain.stdout


@pytest.mark.parametrize("module", ["pack", "pack.tool", "app"])
def test_m_gives_a_module_the_same_environment_as_plain_python(project, module):
    plain = run_m("-m", module, "a", "--b", interpreter=(), cwd=project)
    ours = run_m("-m", module, "a", "--b", cwd=project)
    assert ours.returncode == 0, ours.stderr
    assert ours.stdout.replace("mainspring\n", "asyncio\n") == plain.stdout
    if module != "app":
        assert ours.stdout.endswith("mainspring\n")


def test_m_keeps_the_main_module_for_code_that_runs_at_exit(tmp_path):
    script = tmp_path / "app.py"
    script.write_text(
        "import atexit, sys\n"
        "value = 42\n"
        "atexit.register(lambda: print(sys.modules['__main__'].value, sys.argv))\n"
    )
    plain, ours = run_m(script, "a", interpreter=()), run_m(script, "a")
    assert ours.stdout == plain.stdout
    assert ours.returncode == 0


def test_m_runs_a_folder_and_a_zip_file(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "__main__.py").write_text(SHOW + "\nimport beside\nprint(sys.argv[1:])")
    (folder / "beside.py").write_text("")
    archive = tmp_path / "app.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for name in ("__main__.py", "beside.py"):
            file.write(folder / name, name)
    for target in (folder, archive):
        done = run_m(target, "x")
        assert (done.returncode, done.stdout) == (0, "mainspring\n['x']\n"), done.stderr


def test_m_reports_a_missing_file(tmp_path):
    done = run_m("nothing.py", cwd=tmp_path)
    assert done.returncode != 0
    assert "nothing.py" in done.stderr
    assert "Traceback" not in done.stderr


def test_m_reports_a_missing_module(tmp_path):
    done = run_m("-m", "nothing_of_that_name", cwd=tmp_path)
    assert done.returncode == 1
    assert "No module named nothing_of_that_name" in done.stderr


def test_m_without_a_program_shows_usage():
    done = run_m()
    assert done.returncode == 2
    assert "usage" in done.stdout + done.stderr
    done = run_m("--help")
    assert done.returncode == 0
    assert "usage" in done.stdout
    done = run_m("-m")
    assert done.returncode != 0
    done = run_m("--nonsense")
    assert done.returncode != 0
    assert "--nonsense" in done.stderr


def test_m_prints_its_version():
    done = run_m("--version")
    assert (done.returncode, done.stdout) == (0, f"mainspring {mainspring.__version__}\n")


@pytest.mark.parametrize(
    "statement, code",
    [
        ("pass", 0),
        ("sys.exit(3)", 3),
        ("sys.exit('text')", 1),
        ("raise LookupError('here')", 1),
        ("os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM),
        ("raise KeyboardInterrupt", -signal.SIGINT),
    ],
)
def test_m_exits_with_the_status_of_the_program(tmp_path, statement, code):
    script = tmp_path / "app.py"
    script.write_text(
        f"import asyncio, os, signal, sys\nasync def main():\n    {statement}\nasyncio.run(main())\n"
    )
    plain = run_m(script, interpreter=())
    ours = run_m(script)
    assert ours.returncode == plain.returncode == code
    assert ours.stdout == plain.stdout
    assert ours.stderr.splitlines()[-1:] == plain.stderr.splitlines()[-1:]


def test_m_hides_its_own_frames_from_the_programs_traceback(tmp_path):
    script = tmp_path / "app.py"
    script.write_text("raise LookupError('here')\n")
    done = run_m(script)
    assert done.returncode == 1
    assert f'File "{script}", line 1' in done.stderr
    assert done.stderr.rstrip().endswith("LookupError: here")


@with_policies
def test_importing_the_package_changes_nothing_in_asyncio():
    source = """
import asyncio
before = dict(vars(asyncio))
import mainspring
changed = {name for name, value in vars(asyncio).items() if before.get(name) is not value}
print(changed)
async def main():
    return type(asyncio.get_running_loop()).__module__
print(asyncio.run(main()))
"""
    done = run_m(source, interpreter=("-c",))
    assert done.stdout == "set()\nasyncio.unix_events\n", done.stderr


def test_a_program_that_asks_for_uvloop_gets_this_loop(tmp_path):
    # A module search finds it, as if it were installed; some servers then prefer it by default.
    (tmp_path / "uvloop.py").write_text("raise AssertionError('the real one was imported')")
    script = tmp_path / "app.py"
    script.write_text(
        "import asyncio, uvloop\n"
        "async def main():\n"
        "    print(type(asyncio.get_running_loop()).__module__.partition('.')[0])\n"
        "uvloop.run(main())\n"
        "uvloop.install()\n"
        "asyncio.run(main())\n"
    )
    command = [sys.executable, "-m", "mainspring", str(script)]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    output = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, env=environment)
    assert (output.stdout, output.stderr) == ("mainspring\n" * 2, "")
