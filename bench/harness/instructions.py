"""Counts the instructions of fixed workloads under callgrind, and compares them with stored counts.

A count is per operation: the difference of a long and a short run in one process, without what a run costs once. It
does not depend on the load of the machine. It depends on the interpreter, the compiler and the libraries, so the stored
counts carry their versions, and are compared only where all of these are the same.
"""

import argparse
import json
import os
import platform
import re
import shutil
import ssl
import subprocess
import sys
import tempfile
from pathlib import Path

STORED = Path(__file__).resolve().parent.parent / "instructions.json"
COUNTED = Path(__file__).with_name("counted.py")
# A row with this share more instructions than stored fails.
LIMIT = 0.05
# The functions whose calls separate the counted runs, in Python and in Rust.
BOUNDARIES = ("getsid", "*workload_boundary*")
REFRESH = "./test instructions --update"


def output(*command):
    return subprocess.check_output(command, text=True).strip()


def environment():
    """What the counts depend on, besides the tree."""
    flags = re.findall(r"^flags\s*:.*\b(avx512f|avx2)\b", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return {
        "python": f"{platform.python_version()}, {platform.python_compiler()}",
        "openssl": ssl.OPENSSL_VERSION,
        "rustc": output("rustc", "--version"),
        "flags": os.environ.get("RUSTFLAGS", ""),
        "libc": " ".join(platform.libc_ver()),
        "valgrind": output("valgrind", "--version"),
        # glibc and OpenSSL choose functions by it.
        "processor": f"{platform.machine()} {flags[0] if flags else ''}".strip(),
    }


def callgrind(program, folder):
    """Runs a program under callgrind. Yields the workload and its instructions per operation as each one ends."""
    command = ["valgrind", "--tool=callgrind", "--quiet", f"--callgrind-out-file={folder}/%p"]
    command += [f"--dump-before={name}" for name in BOUNDARIES]
    with tempfile.TemporaryFile("w+") as errors:
        # Other variables would move the stack and the heap.
        fixed = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), "PYTHONHASHSEED": "0"}
        process = subprocess.Popen(
            command + program, stdout=subprocess.PIPE, stderr=errors, text=True, env=fixed
        )
        read = {}
        for line in process.stdout:
            name, pid, few, many = line.split()
            # Callgrind numbers the files of a process: what came before the first run, the short run, the long run.
            number = read[pid] = read.get(pid, 0) + 3
            short, long = (total(folder / f"{pid}.{index}") for index in (number - 1, number))
            yield name, (long - short) / (int(many) - int(few))
        if process.wait():
            errors.seek(0)
            raise SystemExit(
                f"instructions: {' '.join(program)} ended with {process.returncode}\n{errors.read()}"
            )


def total(path):
    """The instructions in a file of callgrind."""
    return int(re.search(r"^totals: (\d+)", path.read_text(), re.MULTILINE).group(1))


def compared(name, count, stored):
    """The line of a row, and whether it has regressed."""
    line = f"{name:26} {count:10.1f}"
    if stored is None:
        return f"{line}  not stored", False
    words = f"{line}  stored {stored:10.1f}  {count / stored - 1:+7.2%}"
    return (f"{words}  REGRESSION", True) if count > stored * (1 + LIMIT) else (words, False)


def load(path):
    return json.loads(path.read_text()) if path.exists() else []


def entry_of(entries, key):
    return next((entry for entry in entries if entry["environment"] == key), None)


def differences(entries, key):
    """Why no stored counts fit: the differences to the entry that is most like this environment, and what to do."""

    def parts(entry):
        return [part for part in key if entry["environment"].get(part) != key[part]]

    nearest = min(entries, key=lambda entry: len(parts(entry)), default=None)
    if nearest is None:
        return f"there are no stored counts; to store them: {REFRESH}"
    found = "; ".join(
        f"{part} is {key[part]}, not {nearest['environment'].get(part)}" for part in parts(nearest)
    )
    return (
        f"the stored counts are for another environment ({found}); to store those of this one too: {REFRESH}"
    )


def count_all(programs, stored, folder):
    """Counts every row and prints it. Returns the counts, and the names of the rows that have regressed."""
    counts, regressed = {}, []
    for language, program in programs:
        for workload, count in callgrind(program, folder):
            name = f"{language}.{workload}"
            counts[name] = round(count, 1)
            line, has_regressed = compared(name, count, stored.get(name))
            regressed += [name] * has_regressed
            print(line, flush=True)
    return counts, regressed


def chosen(programs, names):
    """The languages, each with the command for its workloads among `names`; all if none is named."""
    if not names:
        return programs.items()
    found = {}
    for name in names:
        language, _, workload = name.partition(".")
        if language not in programs:
            raise SystemExit(f"instructions: no workload {name}; they begin with {' or '.join(programs)}")
        found.setdefault(language, programs[language].copy()).append(workload)
    return found.items()


def arguments():
    parser = argparse.ArgumentParser(
        prog="instructions", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rust", metavar="PROGRAM", help="the built rust-workloads; without it, Python only")
    parser.add_argument("--update", action="store_true", help="store the counts for this environment")
    parser.add_argument(
        "--applies", action="store_true", help="count nothing; fail and say why if no stored counts apply"
    )
    parser.add_argument("--stored", metavar="FILE", type=Path, default=STORED, help="the stored counts")
    parser.add_argument("--keep", metavar="FOLDER", type=Path, help="keep the files, for callgrind_annotate")
    parser.add_argument(
        "names", metavar="NAME", nargs="*", help="such as python.call_soon.chain; all if none"
    )
    return parser.parse_args()


def main():
    given = arguments()
    if shutil.which("valgrind") is None:
        raise SystemExit("instructions: valgrind is missing (on Debian: apt-get install valgrind)")
    key, entries = environment(), load(given.stored)
    entry = entry_of(entries, key)
    if entry is None and not given.update:
        print(differences(entries, key))
        raise SystemExit(1)
    if given.applies:
        return
    programs = {"python": [sys.executable, str(COUNTED)]}
    if given.rust:
        programs["rust"] = [given.rust]
    programs = chosen(programs, given.names)
    with tempfile.TemporaryDirectory(prefix="instructions-") as temporary:
        folder = given.keep or Path(temporary)
        folder.mkdir(exist_ok=True)
        stored = entry["counts"] if entry else {}
        counts, regressed = count_all(programs, stored, folder)
    if given.update:
        kept = {**stored, **counts} if given.names else counts
        others = [other for other in entries if other is not entry]
        given.stored.write_text(json.dumps([*others, {"environment": key, "counts": kept}], indent=1) + "\n")
        print(f"stored {len(counts)} counts in {given.stored}")
        return
    missing = [] if given.names else sorted(set(stored) - set(counts))
    unknown = [name for name in counts if name not in stored]
    for name in missing + unknown:
        print(f"{name}: {'was not counted' if name in missing else 'is not stored'}; refresh with {REFRESH}")
    if any(count < stored.get(name, 0) * (1 - LIMIT) for name, count in counts.items()):
        print(
            f"Some rows take fewer instructions than stored. Store them, or a later regression hides: {REFRESH}"
        )
    failed = len(regressed) + len(missing) + len(unknown)
    print(
        f"verdict: {len(counts) - len(regressed) - len(unknown)} passed, {failed} failed, 0 aside, 0 unsteady"
    )
    if regressed:
        print(f"more than {LIMIT:.0%} above the stored counts: {', '.join(regressed)}")
        print(f"If the new cost is intended: {REFRESH}, and say why in the commit.")
    raise SystemExit(failed > 0)
