//! The methods of native objects that a task can await: `__await__()`, `__iter__()`, `__next__()`, `throw()`, `close()`.

use pyo3::prelude::*;
use pyo3::types::PyType;

/// A native object that a task awaits.
pub trait Coroutine {
    /// Runs to the next `await`. Returns the future to wait for, or `StopIteration` with the result.
    fn step<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>>;

    /// Called before an exception is thrown into the coroutine, as by a cancellation.
    fn before_throw(&self, py: Python<'_>) -> PyResult<()>;

    /// Called by `close()`.
    fn close(&self, py: Python<'_>) -> PyResult<()>;
}

/// The exception for the arguments of `throw()`.
pub fn thrown_exception(kind: &Bound<'_, PyAny>, value: Option<&Bound<'_, PyAny>>) -> PyResult<PyErr> {
    let error = match value.filter(|value| !value.is_none()) {
        Some(value) if !kind.is_instance_of::<PyType>() || value.is_instance(kind)? => value.clone(),
        Some(value) => kind.call1((value,))?,
        None if kind.is_instance_of::<PyType>() => kind.call0()?,
        None => kind.clone(),
    };
    Ok(PyErr::from_value(error))
}

/// Defines the Python methods of a [`Coroutine`] class together with its own ones. PyO3 allows one block of methods per
/// class, so a trait alone cannot add them.
macro_rules! coroutine_class {
    (impl $class:ident { $($own:tt)* }) => {
        #[pymethods]
        impl $class {
            fn __await__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
                $crate::python::thread_exit::guard();
                slf
            }

            fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
                $crate::python::thread_exit::guard();
                slf
            }

            fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
                $crate::python::guard::catch_unwind(|| $crate::coroutine::Coroutine::step(self, py))
            }

            #[pyo3(signature = (kind, value=None, _traceback=None))]
            fn throw(
                &self,
                kind: &Bound<'_, PyAny>,
                value: Option<&Bound<'_, PyAny>>,
                _traceback: Option<&Bound<'_, PyAny>>,
            ) -> PyResult<()> {
                $crate::python::guard::catch_unwind(|| {
                    $crate::coroutine::Coroutine::before_throw(self, kind.py())?;
                    Err($crate::coroutine::thrown_exception(kind, value)?)
                })
            }

            #[pyo3(name = "close")]
            fn close_coroutine(&self, py: Python<'_>) -> PyResult<()> {
                $crate::python::guard::catch_unwind(|| $crate::coroutine::Coroutine::close(self, py))
            }

            $($own)*
        }
    };
}

pub(crate) use coroutine_class;
