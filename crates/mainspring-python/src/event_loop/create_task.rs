//! `create_future` and `create_task`: what every `await` and every request makes, without a frame of Python's around it.
//!
//! asyncio's own `create_task` decides what a task is: a factory may be set, a keyword be new, debug mode be on, somebody
//! may have replaced the method to watch tasks being made. All of these go to it. What is left is a call of `Task`.

use crate::event_loop::loop_method::{Request, loop_method};
use crate::names::{Names, names};
use crate::python::method::{self, Args, enter};
use crate::python::object::Obj;
use pyo3::exceptions::PyAttributeError;
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyType};

/// Adds the methods of this file to the class.
pub fn add_methods(class: &Bound<'_, PyType>) -> PyResult<()> {
    method::add_methods(
        class,
        vec![
            method::method_noargs(c"create_future", create_future, c"A Future that belongs to the loop."),
            loop_method!(create_task, c"Schedule the execution of a coroutine; the Task it becomes."),
        ],
    )
}

extern "C" fn create_future(this: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    enter(|py| {
        let names = names(py)?;
        let arguments = [this];
        // Whatever class has the name now: nest_asyncio puts asyncio's own pure Python one there.
        let Some(future_class) = names.futures.bind(py).get_item(intern!(py, "Future"))? else {
            return Err(PyAttributeError::new_err("module 'asyncio.futures' has no attribute 'Future'"));
        };
        // SAFETY: one keyword argument, `loop`, and its value.
        let future = unsafe {
            let future_class = future_class.as_ptr();
            ffi::PyObject_Vectorcall(future_class, arguments.as_ptr(), 0, names.loop_keyword.as_ptr())
        };
        // SAFETY: a new reference, or null and an exception.
        unsafe { Obj::from_call(py, future) }.map(Obj::into_ptr)
    })
}

#[inline(always)]
fn create_task(py: Python<'_>, request: &Request<'_>) -> PyResult<Obj> {
    let names = names(py)?;
    let Request { native, this, args } = request;
    let asyncios_own = names.base_event_loop.bind(py).getattr(&names.create_task)?;
    // SAFETY: a live object.
    let factory = || unsafe { Borrowed::from_ptr(py, *this) }.getattr(&names._task_factory);
    let would_only_call_task =
        asyncios_own.is(&names.base_create_task) && !native.is_debug() && factory()?.is_none();
    let keywords = if would_only_call_task { plain_keywords(names, args) } else { None };
    let task = if let Some(keywords) = keywords {
        native.check_closed()?;
        let task_class = names.tasks.bind(py).getattr(intern!(py, "Task"))?;
        // The coroutine, up to two values, the loop.
        let mut arguments = [*this; 4];
        arguments.iter_mut().zip(args.all()).for_each(|(place, given)| *place = given);
        // SAFETY: one positional argument, and one for each name in `keywords`, the last of which is `loop`.
        unsafe { ffi::PyObject_Vectorcall(task_class.as_ptr(), arguments.as_ptr(), 1, keywords.as_ptr()) }
    } else {
        let arguments: Vec<_> = std::iter::once(*this).chain(args.all()).collect();
        let count = args.positional_count() + 1;
        // SAFETY: `self` before what the interpreter passed.
        unsafe {
            ffi::PyObject_Vectorcall(asyncios_own.as_ptr(), arguments.as_ptr(), count, args.keyword_names())
        }
    };
    // SAFETY: a new reference, or null and an exception.
    unsafe { Obj::from_call(py, task) }
}

/// The names of the keywords and of `loop`, if there are one positional argument and no keywords but those that `Task`
/// has had as long as `create_task`. Others are asyncio's to take or to refuse; so are these when their names are not the
/// interned ones: nothing is lost but time.
fn plain_keywords<'n>(names: &'n Names, args: &Args<'_>) -> Option<&'n Py<PyTuple>> {
    let name = Some(names.name.as_ptr());
    let context = Some(names.context.as_ptr()).filter(|_| names.task_takes_context);
    if args.positional_count() != 1 || args.keyword_name(2).is_some() {
        return None;
    }
    match (args.keyword_name(0), args.keyword_name(1)) {
        (None, _) => Some(&names.loop_keyword),
        (first, None) if first == name => Some(&names.name_loop_keywords),
        (first, None) if first == context => Some(&names.context_loop_keywords),
        (first, second) if first == name && second == context => Some(&names.name_context_loop_keywords),
        _ => None,
    }
}
