//! Which task a handle runs a step of.

use crate::handle::{Handle, HandleTypes};
use crate::python::object::Obj;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

static TYPES: PyOnceLock<Types> = PyOnceLock::new();

struct Types {
    /// asyncio's task classes, in C and in Python. nest_asyncio makes the second one `asyncio.Task`.
    tasks: [Obj; 2],
    /// `types.BuiltinMethodType` and `types.MethodType`: a wake-up of a C task, and each step of a Python task.
    methods: [Obj; 2],
}

impl Types {
    fn get(py: Python<'_>) -> PyResult<&'static Self> {
        TYPES.get_or_try_init(py, || {
            let (types, tasks) = (py.import("types")?, py.import("asyncio.tasks")?);
            Ok(Types {
                tasks: [tasks.getattr("_asyncio")?.getattr("Task")?.into(), tasks.getattr("_PyTask")?.into()],
                methods: [types.getattr("BuiltinMethodType")?.into(), types.getattr("MethodType")?.into()],
            })
        })
    }
}

/// Looks up the classes that [`task_of`] needs.
pub fn load(py: Python<'_>) -> PyResult<()> {
    Types::get(py).map(drop)
}

/// The task of which `handle` runs a step; `None` if it runs something else. Runs no Python code after [`load`].
pub fn task_of<'py>(
    py: Python<'py>,
    types: &HandleTypes,
    handle: &Handle,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let Some(callback) = types.callback(handle) else { return Ok(None) };
    let callback = callback.bind(py);
    let types = Types::get(py)?;
    let class = callback.get_type();
    if !types.methods.iter().any(|method| class.is(method.bind(py))) && !is_first_step(&class)? {
        return Ok(None);
    }
    let receiver = callback.getattr(intern!(py, "__self__"))?;
    for task in &types.tasks {
        if receiver.get_type().is_subclass(&task.bind(py))? {
            return Ok(Some(receiver));
        }
    }
    Ok(None)
}

/// Whether a callback of this class runs the first step of a C task. The class has no public name.
fn is_first_step(class: &Bound<'_, PyType>) -> PyResult<bool> {
    let py = class.py();
    // Another metaclass could compute the name.
    Ok(class.get_type().is(py.get_type::<PyType>()) && class.name()?.to_str()? == "TaskStepMethWrapper")
}
