"""The plugin with what is special in anyio's plugin."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.mainspring_only
pytest_plugins = ["pytester"]


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
