"""The test suites: where their tests are, and how they get the loop under test."""

import fnmatch
import importlib
import importlib.util
import os
import pathlib
import subprocess
import sys
import tarfile

import exclusions
import routing

HERE = pathlib.Path(__file__).resolve().parent


class Suite:
    """A package of unittest modules, and the tests to exclude with the reasons."""

    name = package = None
    exclusions = {}

    def prepare(self, scratch):
        """Once, in the parent: fetch the files of the suite into `scratch`."""

    def environment(self):
        """Variables for the workers, in addition to the inherited ones."""
        return {}

    def title(self):
        return self.name

    def directory(self):
        raise NotImplementedError

    def modules(self):
        return sorted(path.stem for path in self.directory().glob("test_*.py"))

    def install(self, loop_spec, ledger):
        """In a worker, before any test is imported: install the loop."""
        raise NotImplementedError

    def load(self, module):
        return importlib.import_module(f"{self.package}.{module}")

    def counts(self, test_class):
        """Whether the tests of this class belong to the suite."""
        return True

    def short_id(self, test):
        return test.id().removeprefix(f"{self.package}.")

    def reason_to_exclude(self, test_id):
        for reason, patterns in self.exclusions.items():
            if any(fnmatch.fnmatchcase(test_id, p) for p in patterns):
                return " ".join(reason.split())
        return None


class AsyncioSuite(Suite):
    """CPython's test.test_asyncio, as installed with the interpreter."""

    name = "asyncio"
    package = "test.test_asyncio"
    exclusions = exclusions.ASYNCIO

    def directory(self):
        spec = importlib.util.find_spec(self.package)
        if spec is None:
            raise SystemExit(f"{sys.executable} has no {self.package} installed")
        return pathlib.Path(spec.submodule_search_locations[0])

    def install(self, loop_spec, ledger):
        self.loop = routing.LoopUnderTest(loop_spec, ledger)
        routing.route(self.loop)
        routing.route_harness()
        return self.loop

    def load(self, module):
        loaded = super().load(module)
        if module == "test_runners":
            routing.route_runner_tests(loaded, self.loop)
        return loaded


class UvloopSuite(Suite):
    """The tests in uvloop's source distribution, over a stand-in for uvloop."""

    name = "uvloop"
    package = "tests"
    exclusions = exclusions.UVLOOP
    root_variable = "CONFORMANCE_UVLOOP_TESTS"
    loop_variable = "CONFORMANCE_LOOP"
    ledger_variable = "CONFORMANCE_LEDGER"

    def __init__(self, version=None, sdist=None):
        self.version, self.sdist = version, sdist

    def prepare(self, scratch):
        scratch = pathlib.Path(scratch)
        sdist = self.sdist or self._download(scratch)
        self.version = pathlib.Path(sdist).name.split("-")[1].removesuffix(".tar.gz")
        self._unpack(sdist, scratch)
        os.environ[self.root_variable] = str(scratch)

    def _download(self, scratch):
        requirement = f"uvloop=={self.version}" if self.version else "uvloop"
        subprocess.run(
            [
                sys.executable,
                "-m",
                "pip",
                "download",
                "--quiet",
                "--no-deps",
                "--no-binary",
                "uvloop",
                "--dest",
                str(scratch),
                requirement,
            ],
            check=True,
        )
        return next(scratch.glob("uvloop-*.tar.gz"))

    def _unpack(self, sdist, scratch):
        """Unpack the tests and their base class, and nothing else of uvloop."""
        with tarfile.open(sdist) as archive:
            for member in archive.getmembers():
                _, _, path = member.name.partition("/")
                if path.startswith("tests/"):
                    target = scratch / path
                elif path == "uvloop/_testbase.py":
                    target = scratch / "testbase" / "_testbase.py"
                else:
                    continue
                if member.isfile() and ".." not in target.parts:
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_bytes(archive.extractfile(member).read())

    def title(self):
        return f"{self.name} {self.version}"

    def directory(self):
        return pathlib.Path(os.environ[self.root_variable]) / "tests"

    def environment(self):
        root = os.environ[self.root_variable]
        inherited = os.environ.get("PYTHONPATH")
        path = [str(HERE / "shim"), root, str(HERE), *filter(None, [inherited])]
        return {"PYTHONPATH": os.pathsep.join(path), self.root_variable: root}

    def install(self, loop_spec, ledger):
        os.environ[self.loop_variable] = loop_spec
        os.environ[self.ledger_variable] = ledger.path
        import uvloop

        return uvloop.Loop

    def counts(self, test_class):
        from uvloop import _testbase

        return not issubclass(test_class, _testbase.AIOTestCase)


SUITES = {suite.name: suite for suite in (AsyncioSuite, UvloopSuite)}
