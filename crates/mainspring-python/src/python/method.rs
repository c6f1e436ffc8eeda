//! Methods called through CPython's vectorcall convention, by hand: for the paths that run per callback.
//!
//! PyO3's argument parsing costs more than the work itself there. Every entry point goes through [`enter`], which
//! turns errors and panics into Python exceptions: nothing unwinds into the interpreter.

use crate::python::thread_exit;
use pyo3::exceptions::{PySystemError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyType;
use std::cell::Cell;
use std::ffi::{CStr, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The signature of `METH_FASTCALL | METH_KEYWORDS`.
pub type Function = unsafe extern "C" fn(
    *mut ffi::PyObject,
    *const *mut ffi::PyObject,
    ffi::Py_ssize_t,
    *mut ffi::PyObject,
) -> *mut ffi::PyObject;

/// Runs the body of an entry point. It gives a new reference, or fails.
pub fn enter(body: impl FnOnce(Python<'_>) -> PyResult<*mut ffi::PyObject>) -> *mut ffi::PyObject {
    as_called(|py| match catch(py, || body(py)) {
        Ok(object) => object,
        Err(error) => {
            error.restore(py);
            std::ptr::null_mut()
        }
    })
}

/// Runs the body of a function that PyO3 exports.
///
/// PyO3 makes the exception of a `PyErr::new_err` when it raises it, behind its own guard against panics: want of memory
/// at that point would abort the process. Here it is made before.
pub fn guarded<R>(body: impl FnOnce() -> PyResult<R>) -> PyResult<R> {
    as_called(|py| catch(py, body))
}

/// Runs what cannot fail, such as the end of an object. A failure of ours all the same is shown by the interpreter. PyO3 is
/// not told that the thread is attached, which costs a third of the end of a handle: what drops a `Py` calls
/// [`as_called`] in `body`.
#[inline]
pub fn shown(body: impl FnOnce()) {
    thread_exit::guard();
    if let Err(payload) = catch_unwind(AssertUnwindSafe(body)) {
        as_called(|py| panicked(py, &*payload).write_unraisable(py, None));
    }
}

/// Turns a panic into an exception, and makes the exception of every failure.
#[inline]
pub fn catch<R>(py: Python<'_>, body: impl FnOnce() -> PyResult<R>) -> PyResult<R> {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(result)) => Ok(result),
        Ok(Err(error)) => Err(made(py, error)),
        Err(payload) => Err(panicked(py, &*payload)),
    }
}

/// The exception that a panic becomes. PyO3 panics where an object cannot be made; the exception is then set already.
#[cold]
fn panicked(py: Python<'_>, payload: &(dyn std::any::Any + Send)) -> PyErr {
    PyErr::take(py).unwrap_or_else(|| made(py, panic_as_exception(payload)))
}

/// The error, with its exception object; `MemoryError` if that cannot be made.
#[cold]
fn made(py: Python<'_>, error: PyErr) -> PyErr {
    // Not `PyErr::value()`: it gives up the interpreter lock, and cannot take it again while the interpreter ends.
    let make = || {
        error.restore(py);
        PyErr::fetch(py)
    };
    catch_unwind(AssertUnwindSafe(make)).unwrap_or_else(|_| {
        // SAFETY: always allowed; the interpreter has this exception in stock.
        unsafe { ffi::PyErr_NoMemory() };
        PyErr::fetch(py)
    })
}

/// Runs what the interpreter called us for. `Python::attach` would refuse while it shuts down, when it still calls:
/// the last things that objects do are done then.
pub fn as_called<R>(body: impl FnOnce(Python<'_>) -> R) -> R {
    thread_exit::guard();
    // SAFETY: every caller is called by the interpreter, so the thread is attached to it, and it is there.
    unsafe { Python::attach_unchecked(body) }
}

/// A panic of our own code as an exception.
fn panic_as_exception(payload: &(dyn std::any::Any + Send)) -> PyErr {
    let text = payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message");
    PySystemError::new_err(format!("mainspring: internal error, please report it: {text}"))
}

/// The arguments of a call.
pub struct Args<'a> {
    name: &'static str,
    positional: &'a [*mut ffi::PyObject],
    keywords: &'a [*mut ffi::PyObject],
    kwnames: *mut ffi::PyObject,
    /// Which of the keywords [`Args::split`] took for required arguments, a bit each.
    taken: Cell<u64>,
}

impl<'a> Args<'a> {
    /// # Safety
    /// The arguments are those that the interpreter passed to a [`Function`], and live as long as that call.
    pub unsafe fn new(
        name: &'static str,
        args: *const *mut ffi::PyObject,
        count: ffi::Py_ssize_t,
        kwnames: *mut ffi::PyObject,
    ) -> Self {
        // SAFETY: the interpreter passes `count` positional arguments, and the values of the names in the tuple
        // `kwnames` (if not null) after them; `args` may be null where there are none at all.
        unsafe {
            let named = if kwnames.is_null() { 0 } else { ffi::PyTuple_GET_SIZE(kwnames) } as usize;
            let count = count as usize;
            let all: &[_] =
                if args.is_null() { &[] } else { std::slice::from_raw_parts(args, count + named) };
            let (positional, keywords) = all.split_at(count.min(all.len()));
            Args { name, positional, keywords, kwnames, taken: Cell::new(0) }
        }
    }

    /// How many arguments were given by place.
    pub fn positional_count(&self) -> usize {
        self.positional.len()
    }

    /// The method that was called.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The names of those that were given by name, as the interpreter passed them: a tuple, or null.
    pub fn keyword_names(&self) -> *mut ffi::PyObject {
        self.kwnames
    }

    /// The name of one that was given by name.
    pub fn keyword_name(&self, index: usize) -> Option<*mut ffi::PyObject> {
        // SAFETY: there are as many names as values.
        (index < self.keywords.len())
            .then(|| unsafe { ffi::PyTuple_GET_ITEM(self.kwnames, index as ffi::Py_ssize_t) })
    }

    /// All of them: those by place, then the values of those by name.
    pub fn all(&self) -> impl Iterator<Item = *mut ffi::PyObject> + 'a {
        self.positional.iter().chain(self.keywords).copied()
    }

    /// The positional arguments: `N` that must be there, by place or by the name in `names`, and the rest.
    pub fn split<const N: usize>(
        &self,
        names: [&str; N],
    ) -> PyResult<([*mut ffi::PyObject; N], &'a [*mut ffi::PyObject])> {
        match self.positional.split_first_chunk::<N>() {
            Some((required, rest)) => Ok((*required, rest)),
            None => Ok((self.by_name(names)?, &[])),
        }
    }

    /// Required arguments of which some are not given by place: rare, and then by name.
    #[cold]
    fn by_name<const N: usize>(&self, names: [&str; N]) -> PyResult<[*mut ffi::PyObject; N]> {
        let mut found = [std::ptr::null_mut(); N];
        for (index, (place, name)) in found.iter_mut().zip(names).enumerate() {
            if let Some(&given) = self.positional.get(index) {
                *place = given;
                continue;
            }
            // More keywords than bits are more than any method here knows: they are refused later.
            let keyword = self.keywords.iter().take(64).enumerate().find(|(index, _)| {
                // SAFETY: there are as many names as values; names are strings.
                unsafe {
                    let keyword = ffi::PyTuple_GET_ITEM(self.kwnames, *index as ffi::Py_ssize_t);
                    Borrowed::from_ptr(Python::assume_attached(), keyword).to_string() == name
                }
            });
            let Some((index, &given)) = keyword else {
                return Err(PyTypeError::new_err(format!(
                    "{}() missing a required positional argument: '{name}'",
                    self.name
                )));
            };
            self.taken.set(self.taken.get() | 1 << index);
            *place = given;
        }
        Ok(found)
    }

    /// The one argument that this function takes, by place or by name.
    pub fn only(&self, name: &str) -> PyResult<*mut ffi::PyObject> {
        match (self.positional, self.keywords) {
            ([argument], []) => Ok(*argument),
            _ => self.only_by_name(name),
        }
    }

    #[cold]
    fn only_by_name(&self, name: &str) -> PyResult<*mut ffi::PyObject> {
        let given = self.all().count();
        if given != 1 {
            let function = self.name;
            return Err(PyTypeError::new_err(format!(
                "{function}() takes exactly one argument ({given} given)"
            )));
        }
        self.by_name([name]).map(|[argument]| argument)
    }

    /// Arguments that may be given by place or by name, or not at all.
    pub fn optional<'py, const N: usize>(
        &self,
        py: Python<'py>,
        names: [&str; N],
    ) -> PyResult<[Option<Bound<'py, PyAny>>; N]> {
        let mut found = [const { None }; N];
        if self.positional.len() > N {
            return Err(PyTypeError::new_err(format!("{}() takes at most {N} arguments", self.name)));
        }
        // SAFETY: arguments are live objects for the length of the call.
        let bound = |object| unsafe { Bound::from_borrowed_ptr(py, object) };
        for (place, &value) in found.iter_mut().zip(self.positional) {
            *place = Some(bound(value));
        }
        for (index, &value) in self.keywords.iter().enumerate() {
            // SAFETY: there are as many names as values.
            let name = bound(unsafe { ffi::PyTuple_GET_ITEM(self.kwnames, index as ffi::Py_ssize_t) });
            let name = name.to_string();
            let place = names.iter().zip(&mut found).find(|(known, _)| **known == name);
            let Some((_, place)) = place else {
                let function = self.name;
                return Err(PyTypeError::new_err(format!(
                    "{function}() got an unexpected keyword argument '{name}'"
                )));
            };
            *place = Some(bound(value));
        }
        Ok(found)
    }

    /// The one keyword-only argument this function knows, `keyword` (an interned string); null if it was not given.
    pub fn keyword(&self, py: Python<'_>, keyword: *mut ffi::PyObject) -> PyResult<*mut ffi::PyObject> {
        let mut found = std::ptr::null_mut();
        for (index, &value) in self.keywords.iter().enumerate() {
            if index < 64 && self.taken.get() & 1 << index != 0 {
                continue;
            }
            // SAFETY: there are as many names as values; names are strings.
            let name = unsafe { ffi::PyTuple_GET_ITEM(self.kwnames, index as ffi::Py_ssize_t) };
            // SAFETY: both are live strings.
            if name == keyword || unsafe { ffi::PyUnicode_Compare(name, keyword) } == 0 {
                found = value;
            } else {
                // SAFETY: a live object.
                let name = unsafe { Bound::from_borrowed_ptr(py, name) };
                return Err(PyTypeError::new_err(format!(
                    "{}() got an unexpected keyword argument '{name}'",
                    self.name
                )));
            }
        }
        Ok(found)
    }
}

/// A method definition for a [`Function`].
pub const fn method(name: &'static CStr, function: Function, doc: &'static CStr) -> ffi::PyMethodDef {
    ffi::PyMethodDef {
        ml_name: name.as_ptr(),
        ml_meth: ffi::PyMethodDefPointer { PyCFunctionFastWithKeywords: function },
        ml_flags: ffi::METH_FASTCALL | ffi::METH_KEYWORDS,
        ml_doc: doc.as_ptr(),
    }
}

/// A method definition for a function without arguments.
pub const fn method_noargs(
    name: &'static CStr,
    function: ffi::PyCFunction,
    doc: &'static CStr,
) -> ffi::PyMethodDef {
    plain(name, function, ffi::METH_NOARGS, doc)
}

/// A method definition for a function with one positional argument.
pub const fn method_one(
    name: &'static CStr,
    function: ffi::PyCFunction,
    doc: &'static CStr,
) -> ffi::PyMethodDef {
    plain(name, function, ffi::METH_O, doc)
}

const fn plain(
    name: &'static CStr,
    function: ffi::PyCFunction,
    flags: c_int,
    doc: &'static CStr,
) -> ffi::PyMethodDef {
    let ml_meth = ffi::PyMethodDefPointer { PyCFunction: function };
    ffi::PyMethodDef { ml_name: name.as_ptr(), ml_meth, ml_flags: flags, ml_doc: doc.as_ptr() }
}

/// Adds methods to a class that PyO3 made.
pub fn add_methods(class: &Bound<'_, PyType>, methods: Vec<ffi::PyMethodDef>) -> PyResult<()> {
    // A class keeps pointers to its method definitions for as long as the process lives.
    let methods: &'static mut [ffi::PyMethodDef] = Vec::leak(methods);
    for definition in methods {
        // SAFETY: the definition is static, its name a static string; the descriptor is a new reference.
        unsafe {
            let name = CStr::from_ptr(definition.ml_name).to_string_lossy();
            let descriptor = ffi::PyDescr_NewMethod(class.as_type_ptr(), definition);
            let descriptor = Bound::from_owned_ptr_or_err(class.py(), descriptor)?;
            class.setattr(&*name, descriptor)?;
        }
    }
    Ok(())
}
