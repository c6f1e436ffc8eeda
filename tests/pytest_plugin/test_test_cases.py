"""The plugin with ``unittest.IsolatedAsyncioTestCase``."""

from __future__ import annotations

import sys

import pytest

pytestmark = pytest.mark.mainspring_only
pytest_plugins = ["pytester"]


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
