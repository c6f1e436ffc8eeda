"""Run a suite in subprocesses, one per test class, and collect the results."""

import concurrent.futures
import contextlib
import json
import os
import pathlib
import select
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time

WORKER = pathlib.Path(__file__).resolve().parent / "worker.py"
PLACES = {  # so that results are the same on every machine
    str(WORKER.parent): "conformance",
    sysconfig.get_path("platlib"): "site-packages",
    sysconfig.get_path("stdlib"): "lib",
}
GRACE = 3  # seconds for a hung worker to print its traceback
AT_EXIT = "(at exit)"  # in place of a test's name: the death of the process of its class
TAIL = 8000  # characters of a dead worker's output to keep


class Death(Exception):
    """A worker ended, or was killed, before it had finished its request."""

    def __init__(self, state, detail):
        super().__init__(state, detail)
        self.state, self.detail = state, detail


class Scheduler:
    def __init__(self, suite, loop, *, jobs=2, timeout=60, audit=False, progress=None):
        self.suite, self.loop = suite, loop
        self.jobs, self.timeout = jobs, timeout
        self.audit = audit
        self.units = {}
        self.progress = progress or (lambda unit, results: None)

    def run(self, modules):
        """Return the results as {test id: {"state", "detail", "loops", ...}}."""
        results = {}
        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            for tests, outcome in pool.map(self.discover, modules):
                results.update(outcome)
                self.units.update(by_class(tests))
        results.update(self.run_units(self.units))
        return dict(sorted(results.items()))

    def run_units(self, units):
        """Run classes, the largest first, so that the run does not end with a single long one."""
        results = {}
        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            largest_first = sorted(units.items(), key=lambda unit: -len(unit[1]))
            done = {pool.submit(self.run_unit, unit, tests): unit for unit, tests in largest_first}
            for future in concurrent.futures.as_completed(done):
                results.update(future.result())
                self.progress(done[future], future.result())
        return results

    def run_with_class(self, tests, units):
        """Run these tests again, each with its whole class; `units` are the classes of the original run."""
        names = {test.rpartition(".")[0] for test in tests}
        found = self.run_units({unit: members for unit, members in units.items() if unit in names})
        for test in tests:
            if test not in found:
                ended_well = test.rpartition(".")[0] in units
                found[test] = result("pass") if ended_well else self.run_alone(test, units)
        return {test: found[test] for test in tests}

    def run_each_alone(self, tests, units):
        """Run these tests again, each in a separate process."""
        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            outcomes = pool.map(lambda test: self.run_alone(test, units), tests)
            return dict(zip(tests, outcomes, strict=True))

    def run_alone(self, test, units):
        unit, _, name = test.rpartition(".")
        if not unit:  # a module that could not be imported
            return self.discover(test)[1].get(test, result("pass"))
        if name == AT_EXIT:
            return self.run_tests(unit, units[unit]).get(test, result("pass"))
        results = self.run_tests(unit, [test])
        return results.get(test) or result("error", "its module could not be imported")

    def describe_loop(self):
        """The type of the loops that the factory creates."""
        (event,) = self.events(module=None)
        return event["loop"]

    def discover(self, module):
        """The tests of a module to run, and the outcome of the others."""
        tests, outcome = [], {}
        whole = self.suite.reason_to_exclude(module)
        if whole and not self.audit:
            return [], {module: result("excluded", whole)}
        try:
            for event in self.events(module=module):
                if "tests" in event:
                    tests = event["tests"]
                else:
                    record(outcome, event)
        except Death as death:
            outcome[module] = result(death.state, death.detail)
        reasons = {test: whole or self.suite.reason_to_exclude(test) for test in tests}
        if self.audit:
            return [test for test in tests if reasons[test]], outcome
        for test, reason in reasons.items():
            if reason:
                outcome[test] = result("excluded", reason)
        return [test for test in tests if not reasons[test]], outcome

    def run_unit(self, unit, tests):
        """Run one class; after a crash or a hang, run the remaining tests one by one."""
        results = self.run_tests(unit, tests)
        for test in tests:
            if test not in results:
                results.update(self.run_tests(unit, [test]))
        return results

    def run_tests(self, unit, tests):
        """Run tests in one worker; return the results up to the test that ended it, if any."""
        results, running = {}, None
        try:
            for event in self.events(unit.partition(".")[0], tests):
                if "start" in event:
                    running = event["start"]
                elif "done" in event:
                    running = None
                    record(results, event)
                elif event["fixture"]:
                    for test in tests:
                        results.setdefault(test, result(*event["fixture"]))
        except Death as death:
            missing = [test for test in tests if test not in results]
            if running is None and (len(tests) == 1 or not missing):
                running = missing[0] if missing else f"{unit}.{AT_EXIT}"
            if running is not None:
                results[running] = result(death.state, death.detail)
        return results

    def events(self, module, tests=None):
        """Yield the reports of a worker; raise Death if it is silent for too long or dies."""
        with contextlib.ExitStack() as stack:
            scratch = stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
            output = stack.enter_context(tempfile.TemporaryFile())
            ledger = stack.enter_context(tempfile.NamedTemporaryFile())
            reader, writer = os.pipe()
            stack.callback(os.close, reader)
            request = {
                "suite": self.suite.name,
                "loop": self.loop,
                "module": module,
                "tests": tests,
                "channel": writer,
                "ledger": ledger.name,
            }
            process = subprocess.Popen(
                [sys.executable, str(WORKER), json.dumps(request)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=scratch,
                env={**os.environ, **self.suite.environment()},
                pass_fds=[writer],
                start_new_session=True,
            )
            os.close(writer)
            stack.callback(kill_group, process)

            def last_words():
                output.seek(0, os.SEEK_END)
                output.seek(max(0, output.tell() - TAIL))
                return output.read().decode(errors="replace")

            try:
                yield from map(json.loads, lines(reader, process, self.timeout))
                process.wait(self.timeout)
            except (TimeoutError, subprocess.TimeoutExpired):
                process.send_signal(signal.SIGABRT)  # faulthandler then prints a traceback
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(GRACE)
                raise Death("timeout", last_words()) from None
            if process.returncode:
                raise Death("crash", f"exit status {process.returncode}\n" + last_words())


def lines(reader, process, timeout):
    """Yield lines from a pipe until it or the process ends; raise TimeoutError on silence."""
    pending = b""
    deadline = time.monotonic() + timeout
    while True:
        # A child of the tests may hold the pipe open: watch the process too.
        ended = process.poll() is not None
        if not select.select([reader], [], [], 0 if ended else 0.5)[0]:
            if ended:
                return
            if time.monotonic() > deadline:
                raise TimeoutError
            continue
        data = os.read(reader, 1 << 16)
        if not data:
            return
        *whole, pending = (pending + data).split(b"\n")
        yield from whole
        deadline = time.monotonic() + timeout


def kill_group(process):
    """Kill a worker and the processes that its tests left running."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def by_class(tests):
    units = {}
    for test in tests:
        units.setdefault(test.rpartition(".")[0], []).append(test)
    return units


def result(state, detail="", loops=0, seconds=0):
    for path, name in PLACES.items():
        detail = detail.replace(path, name)
    return {"state": state, "detail": detail, "loops": loops, "seconds": seconds}


def record(results, event):
    results[event["done"]] = result(event["state"], event["detail"], event["loops"], event.get("seconds", 0))
