"""nest_asyncio and nest-asyncio2, which patch asyncio's loop class, do not affect mainspring's loop."""

import subprocess
import sys

import pytest

LIMIT = 30

PROGRAM = """
import asyncio, sys
import mainspring

library = __import__(sys.argv[1])

async def nested():
    await asyncio.sleep(0)

async def main():
    loop = asyncio.get_running_loop()
    library.apply()
    coroutine = nested()
    try:
        loop.run_until_complete(coroutine)
    except RuntimeError as error:
        print(error)
    finally:
        coroutine.close()
    await asyncio.wait_for(asyncio.sleep(0.001), 10)
    return isinstance(loop.create_future(), asyncio.Future)

print(mainspring.run(main()))
print(mainspring.run(main()))
loop = mainspring.new_event_loop()
library.apply(loop)
print(loop.run_until_complete(main()))
loop.close()
"""


@pytest.mark.parametrize("library", ["nest_asyncio", "nest_asyncio2"])
def test_a_loop_works_as_before_and_a_nested_run_is_refused(library):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-W", "ignore::DeprecationWarning", "-c", PROGRAM, library],
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["This event loop is already running", "True"] * 3
