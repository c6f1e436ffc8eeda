"""The pytest plugin's options and its marker, with every framework that runs async tests."""

from __future__ import annotations

import importlib.metadata
import re
import shlex
import sys

import pytest

pytestmark = pytest.mark.mainspring_only
pytest_plugins = ["pytester"]

# Generous: passing tests never reach it.
LIMIT = 60

# Without a request the plugin does nothing.


def test_pytest_loads_the_plugin_of_an_installed_package():
    (plugin,) = [
        entry for entry in importlib.metadata.entry_points(group="pytest11") if entry.name == "mainspring"
    ]
    assert plugin.value == "pytest_mainspring"


def test_the_plugin_alone_does_not_load_the_native_module(run):
    result = run(
        """
        def test_it(pytestconfig):
            assert pytestconfig.pluginmanager.has_plugin("pytest_mainspring")
            assert "mainspring" not in sys.modules
        """
    )
    result.assert_outcomes(passed=1)


def test_a_package_that_is_imported_before_pytest_causes_no_warning(pytester, monkeypatch):
    # pytest wants to rewrite the modules of every distribution with a plugin, and warns if it comes too late.
    monkeypatch.delenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", raising=False)
    pytester.makepyfile("def test_it(): pass")
    result = pytester.run(
        *(sys.executable, "-m", "mainspring", "-m", "pytest", "-p", "no:asyncio", "-W", "error"),
        timeout=LIMIT,
    )
    result.assert_outcomes(passed=1)


def test_without_a_request_tests_run_on_asyncios_loop(run, framework):
    result = run(framework.test("show(kind_of_loop())"), framework=framework)
    result.assert_outcomes(passed=1)
    assert result.shown == ["asyncio"]


@pytest.mark.parametrize("arguments", [[], ["--mainspring-seeds", "2"]], ids=["alone", "with-seeds"])
def test_an_async_test_without_a_framework_is_what_pytest_makes_of_it(run, arguments):
    result = run("async def test_it():\n    show('never')\n", *arguments)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*async def functions are not natively supported*"])
    assert result.shown == []


# Options.


def test_mainspring_runs_tests_on_mainspring_loops(run, framework):
    result = run(framework.test("show(kind_of_loop())"), "--mainspring", framework=framework)
    result.assert_outcomes(passed=1)
    assert result.shown == ["mainspring"]


def test_auto_mode_of_pytest_asyncio_is_the_same(run, asyncio_auto):
    source = asyncio_auto.test("show(kind_of_loop(), asyncio.get_running_loop().seed)")
    result = run(source, "--mainspring-seeds", "2", framework=asyncio_auto)
    result.assert_outcomes(passed=2)
    assert result.shown == ["virtual 0", "virtual 1"]
    assert run(source.replace(".seed", ""), framework=asyncio_auto).shown[0].startswith("asyncio")


def test_virtual_time_passes_an_hour_at_once(run, framework):
    body = """
        loop = asyncio.get_running_loop()
        start = loop.time()
        await asyncio.sleep(3600)
        show(kind_of_loop(), loop.time() - start, loop.seed)
        """
    result = run(framework.test(body), "--mainspring-virtual-time", framework=framework)
    result.assert_outcomes(passed=1)
    assert result.shown == ["virtual 3600.0 None"]


def test_seeds_repeat_each_async_test(run, framework):
    source = framework.test("show(kind_of_loop(), asyncio.get_running_loop().seed)")
    result = run(
        source + "def test_sync():\n    show('once')\n", "--mainspring-seeds", "3", framework=framework
    )
    result.assert_outcomes(passed=4)
    assert sorted(result.shown) == ["once", "virtual 0", "virtual 1", "virtual 2"]


def test_a_failure_prints_a_command_that_replays_it(run, run_again, framework):
    source = framework.test("assert asyncio.get_running_loop().seed != 2")
    result = run(source, "--mainspring-seeds", "4", framework=framework)
    result.assert_outcomes(passed=3, failed=1)
    result.stdout.fnmatch_lines(["*- mainspring: seed 2 -*"])
    (command,) = re.findall("^replay with: (.*)$", result.stdout.str(), re.MULTILINE)
    assert re.search(r"\[(asyncio-)?seed2]", command)
    program, *arguments = shlex.split(command)
    assert program == "pytest"
    replay = run_again(*arguments, framework=framework)
    replay.assert_outcomes(failed=1)
    replay.stdout.fnmatch_lines(["*- mainspring: seed 2 -*"])


def test_the_command_starts_at_the_current_folder(run, run_again, pytester, monkeypatch, asyncio_strict):
    source = asyncio_strict.test("assert False", marker="@pytest.mark.mainspring(seed=3)")
    run(source, framework=asyncio_strict)
    monkeypatch.chdir(pytester.mkdir("folder"))
    result = run_again("..", framework=asyncio_strict)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["replay with: pytest ../test_module.py::test_it"])


def test_a_failure_without_a_seed_prints_none(run, asyncio_strict):
    result = run(asyncio_strict.test("assert False"), "--mainspring-virtual-time", framework=asyncio_strict)
    result.assert_outcomes(failed=1)
    result.stdout.no_fnmatch_line("*mainspring: seed*")


@pytest.mark.parametrize("number", ["0", "-1"])
def test_the_number_of_seeds_is_positive(run, number):
    result = run("def test_it(): pass", f"--mainspring-seeds={number}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*--mainspring-seeds needs a positive number, not {number}*"])


def test_a_deadlock_fails_the_test(run, framework):
    source = framework.test("await asyncio.get_running_loop().create_future()")
    result = run(source, "--mainspring-virtual-time", framework=framework)
    # The test cases of Python 3.10 run in a task of their own, which waits still.  pytest reports it as an error.
    assert result.parseoutcomes()["failed"] == 1
    result.stdout.fnmatch_lines(["*Deadlock*"])


def test_workers_of_xdist_find_the_same_tests(run, framework):
    source = framework.test("assert asyncio.get_running_loop().seed != 1")
    result = run(source, "-p", "xdist.plugin", "-n", "2", "--mainspring-seeds", "3", framework=framework)
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(
        ["*- mainspring: seed 1 -*", "replay with: pytest --mainspring-seeds 3 'test_module.py::*seed1]'"]
    )


# The marker.


def test_a_marked_test_runs_on_mainspring_and_its_neighbours_do_not(run, framework):
    body = "show(kind_of_loop())"
    source = (
        framework.test(body, "test_1")
        + framework.test(body, "test_2", "@pytest.mark.mainspring")
        + framework.test(body, "test_3")
        + framework.test(body, "test_4", "@pytest.mark.mainspring(virtual_time=True)")
        + framework.test(body, "test_5")
    )
    result = run(source, framework=framework)
    result.assert_outcomes(passed=5)
    assert result.shown == ["asyncio", "mainspring", "asyncio", "virtual", "asyncio"]


def test_a_marked_test_keeps_its_seed(run, framework):
    source = framework.test(
        "show(asyncio.get_running_loop().seed)\nassert False", marker="@pytest.mark.mainspring(seed=17)"
    )
    for arguments in [], ["--mainspring-seeds", "2"]:
        result = run(source, *arguments, framework=framework)
        result.assert_outcomes(failed=1)
        assert result.shown == ["17"]
        result.stdout.fnmatch_lines(["*- mainspring: seed 17 -*"])


def test_the_marker_is_stronger_than_the_options(run, asyncio_strict):
    source = asyncio_strict.test("show(kind_of_loop())", marker="@pytest.mark.mainspring(virtual_time=False)")
    result = run(source, "--mainspring-seeds", "2", framework=asyncio_strict)
    result.assert_outcomes(passed=1)
    assert result.shown == ["mainspring"]


def test_markers_are_merged_and_the_nearest_wins(run, asyncio_strict):
    result = run(
        """
        pytestmark = [pytest.mark.asyncio, pytest.mark.mainspring(seed=1)]

        async def test_of_the_module():
            show(asyncio.get_running_loop().seed)

        class TestClass:
            pytestmark = pytest.mark.mainspring(seed=2)

            async def test_of_the_class(self):
                show(asyncio.get_running_loop().seed)

            @pytest.mark.mainspring(shuffle_ready=True)
            async def test_with_two(self):
                show(asyncio.get_running_loop().seed)

            @pytest.mark.mainspring(seed=None)
            async def test_without(self):
                show(asyncio.get_running_loop().seed)
        """,
        framework=asyncio_strict,
    )
    result.assert_outcomes(passed=4)
    assert result.shown == ["1", "2", "2", "None"]


def test_a_marked_test_can_refuse_real_io(run, asyncio_strict):
    body = """
        import mainspring.testing
        with pytest.raises(mainspring.testing.RealIOError):
            await asyncio.open_connection("127.0.0.1", 9)
        """
    result = run(
        asyncio_strict.test(body, marker="@pytest.mark.mainspring(real_io='refuse')"),
        framework=asyncio_strict,
    )
    result.assert_outcomes(passed=1)


def test_a_marked_test_can_shuffle_ready_tasks(run, asyncio_strict):
    body = """
        order = []
        async def append(number):
            order.append(number)
        await asyncio.gather(*map(append, range(8)))
        show(order)
        """
    source = asyncio_strict.test(body, marker="@pytest.mark.mainspring(shuffle_ready=True)")
    result = run(source, framework=asyncio_strict)
    result.assert_outcomes(passed=1)
    assert result.shown == ["[0, 1, 2, 3, 4, 5, 6, 7]"], "without a seed there is no order to choose"
    runs = [run(source, "--mainspring-seeds", "4", framework=asyncio_strict) for _ in range(2)]
    assert runs[0].shown == runs[1].shown
    assert len(set(runs[0].shown)) > 1


WRONG_MARKERS = {
    "17": "takes keyword arguments only",
    "speed=2": "has no argument 'speed'; it has virtual_time, seed, real_io, shuffle_ready",
    "seed='x'": "seed is an integer or None, not 'x'",
    "seed=True": "seed is an integer or None, not True",
    "virtual_time=1": "virtual_time is True or False, not 1",
    "real_io='no'": "real_io is 'allow' or 'refuse', not 'no'",
    "seed=1, virtual_time=False": "seed needs virtual time, but the marker says virtual_time=False",
}


def test_a_wrong_marker_is_an_error_that_says_what_is_right(run):
    tests = [
        f"""
        @pytest.mark.mainspring({arguments})
        class Case{number}(unittest.IsolatedAsyncioTestCase):
            async def test_it(self):
                pass
        """
        for number, arguments in enumerate(WRONG_MARKERS)
    ]
    result = run("".join(tests))
    result.assert_outcomes(errors=len(WRONG_MARKERS))
    for message in WRONG_MARKERS.values():
        assert message in result.stdout.str()
    result.stdout.no_fnmatch_line("*INTERNALERROR*")


def test_a_wrong_marker_is_an_error_before_pytest_asyncio_runs_the_test(run, asyncio_strict):
    source = asyncio_strict.test("pass", marker="@pytest.mark.mainspring(speed=2)")
    result = run(source, framework=asyncio_strict)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*the mainspring marker has no argument 'speed'*"])


def test_a_marker_that_comes_too_late_for_pytest_asyncio_is_an_error(run, asyncio_strict):
    result = run(
        """
        @pytest.mark.asyncio
        @pytest.mark.parametrize("word", ["a", pytest.param("b", marks=pytest.mark.mainspring)])
        async def test_it(word):
            pass
        """,
        framework=asyncio_strict,
    )
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*put the mainspring marker on the function, not on a parameter*"])
