"""The pytest plugin with what is special in pytest-asyncio, anyio and unittest."""

from __future__ import annotations

import pathlib
import re
import sys

import pytest

pytestmark = pytest.mark.mainspring_only
pytest_plugins = ["pytester"]


def test_the_example_in_the_documentation_passes(run, asyncio_strict):
    page = (pathlib.Path(__file__).parents[2] / "docs" / "testing.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```py\n(.*?)```", page, re.DOTALL)
    run(example, framework=asyncio_strict).assert_outcomes(passed=2)


# The clock.

CLOCK = """
@pytest.fixture
def started(mainspring_clock):
    return mainspring_clock

{mark}
async def test_it(started):
    loop = asyncio.get_running_loop()
    assert kind_of_loop() == "virtual"
    assert started.time() == loop.time()
    before = started.time()
    await asyncio.sleep(60)
    assert started.time() == before + 60
    fired = []
    loop.call_later(10, fired.append, 1)
    started.advance(10)
    assert started.time() == before + 70
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert started.time() == before + 70
    assert fired == [1]

def test_without_a_loop(mainspring_clock):
    with pytest.raises(RuntimeError, match="needs an open loop with virtual time"):
        mainspring_clock.time()

{mark}
async def test_of_a_neighbour():
    assert kind_of_loop() == "asyncio"
"""


@pytest.mark.parametrize("name", ["asyncio", "anyio"])
def test_the_clock_implies_virtual_time_for_its_test(run, asyncio_strict, anyio, name):
    framework = asyncio_strict if name == "asyncio" else anyio
    result = run(CLOCK.format(mark=f"@pytest.mark.{name}"), framework=framework)
    result.assert_outcomes(passed=3)


def test_the_clock_works_in_synchronous_fixtures(run, asyncio_strict):
    result = run(
        """
        import pytest_asyncio

        @pytest_asyncio.fixture
        async def started_at():
            await asyncio.sleep(5)
            return asyncio.get_running_loop().time()

        @pytest.fixture
        def seen(started_at, mainspring_clock):
            mainspring_clock.advance(2)
            return mainspring_clock.time() - started_at

        @pytest.mark.asyncio
        async def test_it(seen):
            assert seen == 2
        """,
        framework=asyncio_strict,
    )
    result.assert_outcomes(passed=1)


def test_the_clock_of_a_test_case(run):
    result = run(
        """
        class Case(unittest.IsolatedAsyncioTestCase):
            @pytest.fixture(autouse=True)
            def _clock(self, mainspring_clock):
                self.clock = mainspring_clock

            async def test_it(self):
                self.clock.advance(30)
                assert self.clock.time() == asyncio.get_running_loop().time()
                assert kind_of_loop() == "virtual"
        """
    )
    result.assert_outcomes(passed=1)


def test_a_clock_without_virtual_time_is_an_error(run, asyncio_strict):
    result = run(
        """
        @pytest.mark.asyncio
        @pytest.mark.mainspring(virtual_time=False)
        async def test_it(mainspring_clock):
            pass
        """,
        framework=asyncio_strict,
    )
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        ["*mainspring_clock needs virtual time, but the marker says virtual_time=False*"]
    )


# pytest-asyncio.


def test_a_loop_of_a_wider_scope_exists_once_for_each_seed(run, asyncio_strict):
    result = run(
        """
        import pytest_asyncio

        @pytest_asyncio.fixture(scope="module", loop_scope="module")
        async def of_the_module():
            yield asyncio.get_running_loop()

        loops = []

        @pytest.mark.asyncio(loop_scope="module")
        async def test_1(of_the_module):
            loops.append(of_the_module)
            assert asyncio.get_running_loop() is of_the_module

        @pytest.mark.asyncio(loop_scope="module")
        async def test_2(of_the_module):
            loops.append(of_the_module)
            assert asyncio.get_running_loop() is of_the_module

        def test_loops():
            assert sorted(loop.seed for loop in loops) == [0, 0, 1, 1]
            assert len(set(map(id, loops))) == 2
        """,
        "--mainspring-seeds",
        "2",
        framework=asyncio_strict,
    )
    result.assert_outcomes(passed=5)


def test_parameters_and_seeds_combine(run, run_again, asyncio_strict):
    source = """
        @pytest.mark.asyncio
        @pytest.mark.parametrize("word", ["a", "b"])
        async def test_it(word):
            show(word, asyncio.get_running_loop().seed)
        """
    result = run(source, "--mainspring-seeds", "2", framework=asyncio_strict)
    result.assert_outcomes(passed=4)
    assert sorted(result.shown) == ["a 0", "a 1", "b 0", "b 1"]
    one = run_again("--mainspring-seeds", "2", "test_module.py::test_it[seed1-b]", framework=asyncio_strict)
    assert one.shown == ["b 1"]


FACTORIES = """
def pytest_asyncio_loop_factories(config, item):
    import asyncio
    class Own(asyncio.SelectorEventLoop):
        pass
    return {"own": Own}
"""


def test_a_test_that_names_its_loop_factories_keeps_them(run, asyncio_strict):
    source = """
        @pytest.mark.asyncio(loop_factories=["own"])
        async def test_named():
            assert type(asyncio.get_running_loop()).__name__ == "Own"

        @pytest.mark.asyncio
        async def test_unnamed():
            assert kind_of_loop() == "mainspring"
        """
    result = run(source, "--mainspring", framework=asyncio_strict, conftest=FACTORIES)
    result.assert_outcomes(passed=2)


def test_the_loop_factories_of_a_project_stay_for_unmarked_tests(run, asyncio_strict):
    source = """
        @pytest.mark.asyncio
        @pytest.mark.mainspring
        async def test_marked():
            assert kind_of_loop() == "mainspring"

        @pytest.mark.asyncio
        async def test_unmarked():
            assert type(asyncio.get_running_loop()).__name__ == "Own"
        """
    result = run(source, framework=asyncio_strict, conftest=FACTORIES)
    result.assert_outcomes(passed=2)


def test_a_version_of_pytest_asyncio_without_the_hook_is_reported(run, pytester, asyncio_strict):
    pytester.mkpydir("pytest_asyncio").joinpath("plugin.py").write_text(
        "def pytest_configure(config):\n    config.addinivalue_line('markers', 'asyncio: old')\n"
        "def pytest_addoption(parser):\n    parser.addini('asyncio_default_fixture_loop_scope', '')\n"
    )
    source = asyncio_strict.test("pass", marker="@pytest.mark.mainspring")
    result = run(source, framework=asyncio_strict)
    assert result.parseoutcomes().get("errors", 0) + result.parseoutcomes().get("error", 0) == 1
    result.stdout.fnmatch_lines(["*needs pytest-asyncio 1.4 or later*"])


# anyio.


@pytest.mark.parametrize("backend", ['"asyncio"', '("asyncio", {"debug": True})'], ids=["name", "options"])
def test_a_projects_own_backend_fixture_gets_the_loop(run, anyio, backend):
    source = """
        @pytest.fixture
        async def loop_of_the_fixture():
            yield asyncio.get_running_loop()

        @pytest.mark.anyio
        async def test_it(loop_of_the_fixture, anyio_backend_name, anyio_backend_options):
            assert loop_of_the_fixture is asyncio.get_running_loop()
            show(kind_of_loop(), anyio_backend_name, loop_of_the_fixture.get_debug())
        """
    result = run(source, "--mainspring-virtual-time", framework=anyio, backend=backend)
    result.assert_outcomes(passed=1)
    assert result.shown == [f"virtual asyncio {'debug' in backend}"]


def test_a_loop_factory_in_the_backend_options_stays(run, anyio):
    source = """
        @pytest.mark.anyio
        async def test_it():
            assert kind_of_loop() == "asyncio"
            assert False
        """
    backend = '("asyncio", {"loop_factory": asyncio.SelectorEventLoop})'
    result = run(source, "--mainspring", framework=anyio, backend=backend)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*assert False*"])


def test_trio_stays_as_it_is(run, anyio):
    pytest.importorskip("trio")
    source = """
        import sniffio

        @pytest.mark.anyio
        async def test_it():
            library = sniffio.current_async_library()
            show(library, asyncio.get_running_loop().seed if library == "asyncio" else "")
            assert library == "asyncio"
        """
    result = run(source, "--mainspring-seeds", "2", "-v", framework=anyio, backend="")
    result.assert_outcomes(passed=2, failed=1)
    assert sorted(word.strip() for word in result.shown) == ["asyncio 0", "asyncio 1", "trio"]
    result.stdout.fnmatch_lines(["*test_it?trio? FAILED*"])
    result.stdout.no_fnmatch_line("*mainspring: seed*")


def test_a_backend_fixture_that_chooses_trio_gets_no_loop(run, anyio):
    pytest.importorskip("trio")
    source = """
        import sniffio

        @pytest.mark.anyio
        async def test_it():
            assert sniffio.current_async_library() == "asyncio"
        """
    result = run(source, "--mainspring-seeds", "1", framework=anyio, backend='("trio", {})')
    result.assert_outcomes(failed=1)
    result.stdout.no_fnmatch_line("*mainspring: seed*")


def test_a_fixture_that_several_tests_share_keeps_one_loop(run, anyio):
    source = """
        @pytest.fixture(scope="module")
        async def shared():
            yield asyncio.get_running_loop()

        @pytest.mark.anyio
        async def test_1(shared):
            assert asyncio.get_running_loop() is shared

        @pytest.mark.anyio
        async def test_2(shared):
            assert asyncio.get_running_loop() is shared
        """
    result = run(source, "--mainspring-virtual-time", framework=anyio)
    result.assert_outcomes(passed=2)
    # A test with another seed cannot use this loop, and does not pass as if it had.
    result = run(source, "--mainspring-seeds", "2", framework=anyio)
    result.stdout.fnmatch_lines(["*this test needs a loop of its own*seed=1*keeps another loop open*"])
    assert result.ret == pytest.ExitCode.TESTS_FAILED


# unittest.


def test_every_part_of_a_test_case_runs_on_its_loop(run):
    source = """
        kinds = []

        class Case(unittest.IsolatedAsyncioTestCase):
            def setUp(self):
                self.loop = asyncio.get_event_loop()

            async def asyncSetUp(self):
                kinds.append(kind_of_loop())
                assert asyncio.get_running_loop() is self.loop

            async def asyncTearDown(self):
                kinds.append(kind_of_loop())

            async def test_async(self):
                self.addAsyncCleanup(self.clean_up)
                assert asyncio.get_running_loop() is self.loop

            async def clean_up(self):
                kinds.append(kind_of_loop())

            def test_sync(self):
                pass

        def test_kinds():
            assert kinds == ["virtual"] * 5
        """
    run(source, "--mainspring-virtual-time").assert_outcomes(passed=3)


def test_a_test_case_changes_nothing_outside_of_it(run):
    source = """
        before = asyncio.new_event_loop, dict(vars(unittest.IsolatedAsyncioTestCase))

        class Case(unittest.IsolatedAsyncioTestCase):
            async def test_it(self):
                assert kind_of_loop() == "virtual"
                loop = asyncio.new_event_loop()
                assert type(loop).__module__.startswith("asyncio")
                loop.close()

        def test_after():
            assert (asyncio.new_event_loop, dict(vars(unittest.IsolatedAsyncioTestCase))) == before
        """
    run(source, "--mainspring-virtual-time").assert_outcomes(passed=2)


@pytest.mark.skipif(sys.version_info < (3, 13), reason="loop_factory is new in Python 3.13")
def test_a_loop_factory_of_a_test_case_stays(run):
    source = """
        class Case(unittest.IsolatedAsyncioTestCase):
            loop_factory = asyncio.SelectorEventLoop

            async def test_it(self):
                assert kind_of_loop() == "asyncio"
        """
    run(source, "--mainspring-seeds", "2").assert_outcomes(passed=1)


def test_subtests_of_a_repeated_test_name_the_seed(run):
    source = """
        class Case(unittest.IsolatedAsyncioTestCase):
            async def test_it(self):
                with self.subTest("one"):
                    assert asyncio.get_running_loop().seed == 0
        """
    result = run(source, "--mainspring-seeds", "2")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*- mainspring: seed 1 -*"])
