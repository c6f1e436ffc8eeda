"""The plugin with what is special in pytest-asyncio."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.mainspring_only
pytest_plugins = ["pytester"]


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
