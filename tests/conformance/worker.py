"""One subprocess: list the tests of a module, or run some of them.

The request is a JSON object in argv[1].  Events are written as JSON lines to the
fd that it names, each line before the next step, so that the parent knows how far
a worker came before it crashed or hung.
"""

import faulthandler
import json
import signal
import sys
import time
import traceback
import unittest

import routing
import suites

DETAIL = 4000  # characters of a traceback to keep
SEVERITY = ("pass", "skip", "fail", "error")


class Journal(unittest.TestResult):
    """Records each test's start and outcome."""

    def __init__(self, suite, ledger, emit):
        super().__init__()
        self._suite, self._ledger, self._emit = suite, ledger, emit
        self._counted = ledger.total
        self.fixture_outcome = None
        self._expect_next()

    def _expect_next(self):
        """Prepare for the next test, even if startTest() is not called for it.

        Python 3.12.1 does not call it for tests that are skipped by a decorator.
        """
        self._outcome, self._began = ("pass", ""), time.monotonic()

    def startTest(self, test):
        super().startTest(test)
        self._began = time.monotonic()
        self._emit(start=self._suite.short_id(test))

    def stopTest(self, test):
        super().stopTest(test)
        state, detail = self._outcome
        # A loop created since the last test, maybe before startTest(), belongs to this one.
        before, self._counted = self._counted, self._ledger.total
        self._emit(
            done=self._suite.short_id(test),
            state=state,
            detail=detail,
            loops=self._counted - before,
            seconds=round(time.monotonic() - self._began, 3),
        )
        self._expect_next()

    def _note(self, test, state, detail):
        if not isinstance(test, unittest.TestCase):  # a class or module fixture
            self.fixture_outcome = (state, detail)
        elif SEVERITY.index(state) > SEVERITY.index(self._outcome[0]):
            self._outcome = (state, detail)

    def addError(self, test, err):
        self._note(test, "error", render(err))

    def addFailure(self, test, err):
        self._note(test, "fail", render(err))

    def addSubTest(self, test, subtest, err):
        if err is not None:
            failed = issubclass(err[0], test.failureException)
            self._note(test, "fail" if failed else "error", render(err))

    def addSkip(self, test, reason):
        self._note(getattr(test, "test_case", test), "skip", reason)

    def addExpectedFailure(self, test, err):
        """An expected failure counts as a pass."""

    def addUnexpectedSuccess(self, test):
        self._note(test, "fail", "unexpected success")


def render(err):
    return "".join(traceback.format_exception(*err))[-DETAIL:]


def test_cases(tests):
    for test in tests:
        if isinstance(test, unittest.TestSuite):
            yield from test_cases(test)
        else:
            yield test


def load(suite, module):
    tests = unittest.defaultTestLoader.loadTestsFromModule(suite.load(module))
    return [t for t in test_cases(tests) if suite.counts(type(t))]


def main(request):
    faulthandler.enable()
    # A shell makes background jobs ignore SIGINT, but the tests of interrupts need it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    channel = open(request["channel"], "w", buffering=1)

    def emit(**event):
        channel.write(json.dumps(event) + "\n")

    suite = suites.SUITES[request["suite"]]()
    ledger = routing.Ledger(request["ledger"])
    loop = suite.install(request["loop"], ledger)
    if request["module"] is None:
        emit(loop=loop.describe())
        return
    try:
        tests = load(suite, request["module"])
    except unittest.SkipTest as skip:
        emit(done=request["module"], state="skip", detail=str(skip), loops=0)
        return
    except Exception:
        emit(done=request["module"], state="error", loops=0, detail=traceback.format_exc()[-DETAIL:])
        return
    if request["tests"] is None:
        emit(tests=[suite.short_id(test) for test in tests])
        return
    wanted = set(request["tests"])
    journal = Journal(suite, ledger, emit)
    unittest.TestSuite(t for t in tests if suite.short_id(t) in wanted).run(journal)
    emit(fixture=journal.fixture_outcome)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
