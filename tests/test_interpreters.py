"""Which interpreters the extension module supports, and what it declares."""

from __future__ import annotations

import ctypes
import sys
import sysconfig

import pytest

from mainspring import _mainspring

SUBINTERPRETER = """
import sys
def run(source):
    "Runs it in a new subinterpreter that shares the interpreter lock."
    import _testcapi
    return _testcapi.run_in_subinterp(source)
refused = '''
import sys
try:
    import mainspring
except ImportError as error:
    print(error, file=sys.stderr)
'''
"""


@pytest.fixture
def run_in_subinterpreter(run_python):
    pytest.importorskip("_testcapi")
    return lambda source: run_python(SUBINTERPRETER + source)


@pytest.mark.mainspring_only
def test_importing_in_a_subinterpreter_fails(run_in_subinterpreter):
    done = run_in_subinterpreter("assert run(refused) == 0")
    message = "mainspring does not support subinterpreters; import it in the main interpreter\n"
    assert (done.returncode, done.stderr) == (0, message)


@pytest.mark.mainspring_only
def test_a_failed_import_in_a_subinterpreter_does_not_affect_the_main_interpreter(run_python):
    pytest.importorskip("_testcapi")
    # Without new_loop(), so that the subinterpreter is the first to import the module.
    done = run_python(
        """
import subprocess, sys
subprocess.run([sys.executable, "-c", '''
import _testcapi
refused = "try: import mainspring\\\\nexcept ImportError: pass\\\\nelse: raise SystemExit(1)"
assert _testcapi.run_in_subinterp(refused) == 0
import asyncio, mainspring
mainspring.run(asyncio.sleep(0))
assert _testcapi.run_in_subinterp(refused) == 0
'''], check=True)
"""
    )
    assert (done.returncode, done.stderr) == (0, "")


class PyModuleDefSlot(ctypes.Structure):
    _fields_ = [("slot", ctypes.c_int), ("value", ctypes.c_void_p)]


class PyModuleDef(ctypes.Structure):
    _fields_ = [
        ("m_base", ctypes.c_byte * (object.__basicsize__ + 3 * ctypes.sizeof(ctypes.c_void_p))),
        ("m_name", ctypes.c_char_p),
        ("m_doc", ctypes.c_char_p),
        ("m_size", ctypes.c_ssize_t),
        ("m_methods", ctypes.c_void_p),
        ("m_slots", ctypes.POINTER(PyModuleDefSlot)),
    ]


@pytest.mark.skipif(
    not (3, 13) <= sys.version_info < (3, 15), reason="the declaration is new in 3.13, and differs in 3.15"
)
def test_the_module_declares_that_it_needs_the_interpreter_lock():
    ctypes.pythonapi.PyModule_GetDef.restype = ctypes.POINTER(PyModuleDef)
    ctypes.pythonapi.PyModule_GetDef.argtypes = [ctypes.py_object]
    definition = ctypes.pythonapi.PyModule_GetDef(_mainspring).contents
    assert definition.m_name == b"_mainspring"
    declared = {}
    for slot in definition.m_slots:
        if slot.slot == 0:
            break
        declared[slot.slot] = slot.value or 0
    py_mod_gil, py_mod_gil_used = 4, 0
    assert declared[py_mod_gil] == py_mod_gil_used


@pytest.mark.skipif(not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="not a free-threaded interpreter")
def test_importing_enables_the_lock_of_a_free_threaded_interpreter(run_python):
    done = run_python(
        "import mainspring, sys, warnings\nprint(sys._is_gil_enabled())", flags=["-W", "ignore"]
    )
    assert (done.returncode, done.stdout) == (0, "True\n")
