"""Builds the native parts on first use, in build/ or in BENCH_BUILD (if this folder is read-only)."""

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = Path(os.environ.get("BENCH_BUILD", ROOT / "build")).resolve()


def build_rust():
    """Builds loadgen and limit; cargo skips the build if nothing changed."""
    BUILD.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "CARGO_TARGET_DIR": str(BUILD / "target")}
    subprocess.run(
        ["cargo", "build", "--release", "--quiet"], cwd=ROOT / "native", env=environment, check=True
    )


def tool(name):
    path = BUILD / "target" / "release" / name
    if not path.exists():
        raise SystemExit(f"bench: {name} is not built; run ./bench --build")
    return str(path)


def python_floor(python):
    """Builds native/pyfloor.c for the interpreter `python`; returns the folder to import it from."""
    ask = "import sysconfig as s; print(s.get_paths()['include']); print(s.get_config_var('SOABI'))"
    include, abi = subprocess.check_output([python, "-c", ask], text=True).split()
    folder = BUILD / f"pyfloor.{abi}"
    target, source = folder / f"pyfloor.{abi}.so", ROOT / "native" / "pyfloor.c"
    if not target.exists() or target.stat().st_mtime < source.stat().st_mtime:
        folder.mkdir(parents=True, exist_ok=True)
        command = [
            "cc",
            "-O2",
            "-shared",
            "-fPIC",
            "-D_GNU_SOURCE",
            f"-I{include}",
            str(source),
            "-o",
            str(target),
        ]
        subprocess.run(command, check=True)
    return str(folder)


def certificate():
    """Creates a self-signed certificate for the TLS cases, with its key in the same file."""
    path = BUILD / "certificate.pem"
    if not path.exists():
        BUILD.mkdir(parents=True, exist_ok=True)
        key = BUILD / "key.pem"
        command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 3650"
        extra = ["-subj", "/CN=localhost", "-keyout", str(key), "-out", str(path)]
        subprocess.run(command.split() + extra, check=True, capture_output=True)
        path.write_text(path.read_text() + key.read_text())
        key.unlink()
    return str(path)
