//! Nested runs: what happens to handles whose context was entered by a callback that waits for the nested run.

use super::PyHost;
use super::call::Call;
use crate::errors::out_of_memory;
use crate::event_loop::tasks;
use crate::handle::Handle;
use pyo3::prelude::*;

impl PyHost {
    /// A run begins. Returns whether the one around it is nested, for [`PyHost::end_run`].
    pub fn begin_run(&self, is_nested: bool) -> bool {
        self.is_nested.replace(is_nested)
    }

    /// A run ends. Returns the calls that it has postponed.
    pub fn end_run(&self, was_nested: bool) -> Vec<Call> {
        self.is_nested.set(was_nested);
        self.postponed.take()
    }

    /// The context of a handle is entered already. In a nested run it was entered by a callback that waits for this run.
    /// The step of a task is then postponed; other callbacks run in a copy of the context. Otherwise this is an error, as
    /// in asyncio.
    #[cold]
    pub(super) fn postpones(&self, py: Python<'_>, handle: &Handle, refused: PyErr) -> PyResult<bool> {
        if !self.is_nested.get() {
            return Err(refused);
        }
        if tasks::task_of(py, self.types, handle)?.is_none() {
            return Ok(false);
        }
        let mut postponed = self.postponed.take();
        let has_room = postponed.try_reserve(1).is_ok();
        if has_room {
            postponed.push(handle.clone().into());
        }
        self.postponed.set(postponed);
        if has_room { Ok(true) } else { Err(out_of_memory()) }
    }
}
