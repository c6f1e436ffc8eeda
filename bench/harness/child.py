"""The measured process: one case on one loop, in a fresh interpreter.

An in-process case prints `RESULT {json}`. A server prints `READY {json}` and serves until it is killed. A server that
also measures serves until it reads a line from stdin; then it prints `RESULT`.
"""

import asyncio
import json
import os
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from cases import CASES  # noqa: E402
from harness import loops  # noqa: E402
from harness.proc import scheduled  # noqa: E402


class Run:
    """The argument of a case: the loop factory, one loop created on first use, and the duration of the measurement."""

    def __init__(self, spec, seconds, certificate):
        self.spec = spec
        self.seconds = seconds
        self.certificate = certificate
        self.collect = None
        self._loop = None

    @property
    def factory(self):
        return loops.factory(self.spec)

    @property
    def loop(self):
        if self._loop is None:
            self._loop = self.factory()
            asyncio.set_event_loop(self._loop)
        return self._loop


def say(word, value):
    sys.stdout.write(f"{word} {json.dumps(value)}\n")
    sys.stdout.flush()


def main():
    spec, name, seconds, certificate = sys.argv[1:]
    case = CASES[name]
    run = Run(spec, float(seconds), certificate)
    if case.load is None:
        result = case.function(run, **case.params)
        ran, waited = scheduled(os.getpid())
        say("RESULT", {**result, "waited": round(waited / (ran + waited), 3)})
        os._exit(0)
    ready = run.loop.run_until_complete(case.function(run, **case.params))
    say("READY", ready)
    if run.collect is not None:

        def stop():
            sys.stdin.readline()
            run.loop.call_soon_threadsafe(run.loop.stop)

        threading.Thread(target=stop, daemon=True).start()
    run.loop.run_forever()
    say("RESULT", run.collect())
    os._exit(0)


main()
