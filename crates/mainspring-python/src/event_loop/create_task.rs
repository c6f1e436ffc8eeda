//! `create_future()` and `create_task()`, without a Python frame.
//!
//! asyncio's `create_task()` runs if a task factory is set, debug mode is on, a keyword is unknown, or the method itself
//! was replaced on `BaseEventLoop` (by a tool that counts tasks, for instance). In all other cases it would only call
//! `Task`, and this module calls `Task` directly.

use super::{NativeLoop, lanes};
use crate::names::{Names, names};
use crate::python::args::Args;
use crate::python::method::{Method, PyO3, Receiver};
use crate::python::object::{Obj, ObjRef};
use pyo3::exceptions::PyAttributeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

/// The methods of this file.
pub fn methods() -> Vec<Method<PyO3<NativeLoop>>> {
    vec![
        Method::noargs(c"create_future", create_future, c"Create a Future object attached to the loop."),
        Method::fastcall(
            c"create_task",
            create_task,
            c"Schedule the execution of a coroutine and return its Task.",
        ),
    ]
}

fn create_future(receiver: Receiver<'_, NativeLoop>) -> PyResult<Obj> {
    let Receiver { py, this, .. } = receiver;
    let names = names(py)?;
    // Looked up at each call: nest_asyncio replaces the class by asyncio's pure Python one.
    let Some(future_class) = names.futures.bind(py).get_item(intern!(py, "Future"))? else {
        return Err(PyAttributeError::new_err("module 'asyncio.futures' has no attribute 'Future'"));
    };
    Obj::from(future_class).vectorcall(py, &[this.into()], 0, Some(&names.loop_keyword))
}

fn create_task(receiver: Receiver<'_, NativeLoop>, args: &Args<'_>) -> PyResult<Obj> {
    let Receiver { py, this, data: native } = receiver;
    let names = names(py)?;
    let is_replaced = native.overrides().affect_create_task(py)?;
    let has_factory = !this.getattr(py, &names._task_factory)?.is_none();
    if lanes::in_use() && !is_replaced && !has_factory {
        let context = args.find(&names.context);
        if lanes::makes_background_task(py, context)? {
            return create_background_task(receiver, args);
        }
    }
    let would_only_call_task = !is_replaced && !has_factory && !native.is_debug();
    let keywords = if would_only_call_task { task_keywords(names, args) } else { None };
    let Some((keywords, count)) = keywords else {
        let base_create_task = names.base_event_loop.bind(py).getattr(&names.create_task)?;
        let arguments: Vec<ObjRef<'_>> = std::iter::once(this).chain(args.all()).map(ObjRef::from).collect();
        let positional = args.positional_count() + 1;
        return Obj::from(base_create_task).vectorcall(py, &arguments, positional, args.keyword_names());
    };
    native.check_closed()?;
    // Looked up at each call: programs replace the class.
    let Some(task_class) = names.tasks.bind(py).get_item(intern!(py, "Task"))? else {
        return Err(PyAttributeError::new_err("module 'asyncio.tasks' has no attribute 'Task'"));
    };
    let is_native = names.native_task.as_ref().is_some_and(|native_task| task_class.is(native_task));
    if is_native && let Some([coroutine]) = args.positional() {
        return create_native_task(receiver, &Obj::from(task_class), coroutine);
    }
    // The coroutine, up to two values, the loop.
    let mut arguments = [ObjRef::from(this); 4];
    arguments.iter_mut().zip(args.all()).for_each(|(place, given)| *place = given.into());
    let arguments = arguments.get(..=count).unwrap_or(&arguments);
    Obj::from(task_class).vectorcall(py, arguments, 1, Some(keywords))
}

/// `Task(coroutine, loop=loop)` with the C implementation of `Task`.
///
/// CPython calls it with a dictionary of the keywords. The loop keeps that dictionary for the next call: row
/// `A.task.create_await`, 7 % of the time and 4 % of the instructions. While `Task()` runs, which can call this function,
/// no other call uses it.
fn create_native_task(
    receiver: Receiver<'_, NativeLoop>,
    task_class: &Obj,
    coroutine: &Obj,
) -> PyResult<Obj> {
    let Receiver { py, this, data: native } = receiver;
    let kept = native.task_keywords();
    let keywords = match kept.take() {
        Some(keywords) => keywords.into_bound(py),
        None => {
            let keywords = PyDict::new(py);
            keywords.set_item(intern!(py, "loop"), this.bind(py))?;
            keywords
        }
    };
    let task = task_class.call_with_keywords(py, std::slice::from_ref(coroutine), &keywords);
    drop(kept.replace(Some(keywords.unbind())));
    task
}

/// Calls `mainspring._priorities.create_background_task()` with the arguments of `create_task()`.
#[cold]
fn create_background_task(receiver: Receiver<'_, NativeLoop>, args: &Args<'_>) -> PyResult<Obj> {
    let py = receiver.py;
    let create =
        py.import(intern!(py, "mainspring._priorities"))?.getattr(intern!(py, "create_background_task"))?;
    let arguments: Vec<ObjRef<'_>> =
        std::iter::once(receiver.this).chain(args.all()).map(ObjRef::from).collect();
    Obj::from(create).vectorcall(py, &arguments, args.positional_count() + 1, args.keyword_names())
}

/// The keyword names for `Task`, `loop` included, and how many they are; `None` if asyncio's own method has to be called.
///
/// There must be one positional argument, and no keywords beside those that `Task` has had as long as `create_task()`.
/// Names are compared by identity: a name that is not interned goes to asyncio's method, which costs only time.
fn task_keywords<'n>(names: &'n Names, args: &Args<'_>) -> Option<(&'n Py<PyTuple>, usize)> {
    let keyword = |index| args.keyword_name(index).map(|name| name.as_ptr());
    let name = Some(names.name.as_ptr());
    let context = Some(names.context.as_ptr()).filter(|_| names.task_takes_context);
    if args.positional_count() != 1 || keyword(2).is_some() {
        return None;
    }
    match (keyword(0), keyword(1)) {
        (None, _) => Some((&names.loop_keyword, 1)),
        (first, None) if first == name => Some((&names.name_loop_keywords, 2)),
        (first, None) if first == context => Some((&names.context_loop_keywords, 2)),
        (first, second) if first == name && second == context => Some((&names.name_context_loop_keywords, 3)),
        _ => None,
    }
}
