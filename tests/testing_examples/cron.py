"""Runs jobs periodically, each at a fixed interval after the end of its last run."""

from __future__ import annotations

import asyncio


class Scheduler:
    def __init__(self):
        self._jobs = {}
        self._timers = {}
        self._tasks = set()

    def add(self, name, interval, job):
        """Calls the coroutine function ``job`` every ``interval`` seconds."""
        if name in self._jobs:
            raise ValueError(f"there is a job {name!r} already")
        self._jobs[name] = (interval, job)
        self._start_timer(name)

    def remove(self, name):
        """Ends the job.  A run that has begun is finished."""
        del self._jobs[name]
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()

    async def close(self):
        """Removes all jobs and waits for the runs that have begun."""
        for name in list(self._jobs):
            self.remove(name)
        await asyncio.gather(*self._tasks)

    def _start_timer(self, name):
        interval, _ = self._jobs[name]
        self._timers[name] = asyncio.get_running_loop().call_later(interval, self._start_run, name)

    def _start_run(self, name):
        del self._timers[name]
        task = asyncio.get_running_loop().create_task(self._run(name))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, name):
        entry = self._jobs.get(name)
        if entry is None:
            return
        _, job = entry
        await job()
        # The name may belong to another job by now.
        if self._jobs.get(name) is entry:
            self._start_timer(name)


class SimpleScheduler(Scheduler):
    """Keeps the interval and the job with the run."""

    def _start_timer(self, name):
        self._start_timer_of(name, *self._jobs[name])

    def _start_timer_of(self, name, interval, job):
        loop = asyncio.get_running_loop()
        self._timers[name] = loop.call_later(interval, self._start_run_of, name, interval, job)

    def _start_run_of(self, name, interval, job):
        del self._timers[name]
        task = asyncio.get_running_loop().create_task(self._run_of(name, interval, job))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run_of(self, name, interval, job):
        await job()
        self._start_timer_of(name, interval, job)
