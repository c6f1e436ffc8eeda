"""The plugin's clock fixture."""

from __future__ import annotations

import pathlib
import re

import pytest

pytestmark = pytest.mark.mainspring_only
pytest_plugins = ["pytester"]


def test_the_example_in_the_documentation_passes(run, asyncio_strict):
    page = (pathlib.Path(__file__).parents[2] / "docs" / "testing.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```py\n(.*?)```", page, re.DOTALL)
    run(example, framework=asyncio_strict).assert_outcomes(passed=2)


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
