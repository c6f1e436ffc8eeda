//! The transports that own file descriptors.
//!
//! The engine knows that a descriptor belongs to a transport, but not to which object. asyncio's `add_reader()` raises an
//! exception that names the transport, unless it is closing.

use super::host::PyHost;
use crate::python::back_reference::BackReference;
use mainspring_engine::Engine;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::cell::RefCell;
use std::collections::HashMap;
use std::os::fd::RawFd;
use std::rc::Rc;

/// The transports of a loop by file descriptor. The loop does not keep its transports alive.
#[derive(Default)]
pub struct FdOwners(RefCell<HashMap<RawFd, BackReference>>);

/// The entry of a transport: part of the transport's native data, and removed when that is dropped.
pub struct FdClaim {
    owners: Rc<FdOwners>,
    owner: BackReference,
    fd: RawFd,
}

impl FdOwners {
    /// Registers `owner`, the object whose native data will contain the claim.
    pub fn claim(self: &Rc<Self>, fd: RawFd, owner: &Bound<'_, PyAny>) -> FdClaim {
        let owner = BackReference::new(owner);
        self.0.borrow_mut().insert(fd, owner);
        FdClaim { owners: self.clone(), owner, fd }
    }

    /// Raises asyncio's exception if a transport that is not closing owns the file descriptor. A transport that is
    /// closing and not registered any more loses it.
    pub fn check_free(&self, py: Python<'_>, engine: &Engine<PyHost>, fd: RawFd) -> PyResult<()> {
        self.check_free_named(engine, fd, fd.into_pyobject(py)?.as_any())
    }

    /// As [`FdOwners::check_free`]; the message calls the descriptor `name`.
    pub fn check_free_named(
        &self,
        engine: &Engine<PyHost>,
        fd: RawFd,
        name: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let py = name.py();
        let owner = self.0.borrow().get(&fd).copied();
        let Some(owner) = owner.and_then(|owner| owner.bind(py)) else { return Ok(()) };
        if owner.call_method0("is_closing")?.is_truthy()? {
            engine.forget_owner(fd);
            return Ok(());
        }
        let (name, owner) = (name.repr()?, owner.repr()?);
        Err(PyRuntimeError::new_err(format!("File descriptor {name} is used by transport {owner}")))
    }
}

impl Drop for FdClaim {
    fn drop(&mut self) {
        let mut owners = self.owners.0.borrow_mut();
        // Another transport can have the same number by now.
        if owners.get(&self.fd) == Some(&self.owner) {
            owners.remove(&self.fd);
        }
    }
}
