"""The process whose instructions are counted: `counted [NAME…]` runs workloads, each in a forked child.

Callgrind writes its counts when it sees a call of getsid(), which nothing else calls, and starts again at zero. A child
has loaded everything already and shares nothing with the others. For each workload the process prints its name, the
child and the operations of the two counted runs.
"""

import gc
import os
import shutil
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from harness.workloads import ROWS  # noqa: E402

# The shorter run is this part of a slice of compare-builds: callgrind is slow, and needs no repetition.
PART = 5


def names():
    """The workloads that this machine can run."""
    return [name for name in ROWS if shutil.which("openssl") or not name.startswith("tls.")]


def counts(name):
    few = ROWS[name].slice // PART
    return few, 3 * few


def run(name):
    import mainspring

    loop = mainspring.new_event_loop()
    few, many = counts(name)
    ROWS[name].run(loop, few)
    # The collector runs as in any program, except over what exists before the workload: one full collection more or
    # less would change the count by more than any regression.
    gc.collect()
    gc.freeze()
    os.getsid(0)
    for count in (few, many):
        ROWS[name].run(loop, count)
        gc.collect()
        os.getsid(0)
    loop.close()


def main():
    import mainspring

    mainspring.new_event_loop().close()
    chosen = sys.argv[1:] or names()
    if unknown := set(chosen) - set(ROWS):
        raise SystemExit(f"no workload {', '.join(unknown)}; there are {', '.join(ROWS)}")
    for name in chosen:
        child = os.fork()
        if not child:
            run(name)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if status:
            raise SystemExit(f"{name} ended with {os.waitstatus_to_exitcode(status)}")
        print(name, child, *counts(name), flush=True)


if __name__ == "__main__":
    main()
