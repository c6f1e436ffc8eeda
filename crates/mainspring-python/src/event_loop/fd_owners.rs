//! Which transport a descriptor belongs to. That it belongs to one, from its opening to its end, the engine knows; but
//! asyncio's refusal of `add_reader()` names the transport, and asks it whether it is closing.

use crate::event_loop::host::PyHost;
use crate::python::object::Obj;
use mainspring_engine::Engine;
use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::prelude::*;
use std::cell::RefCell;
use std::collections::HashMap;
use std::os::fd::RawFd;
use std::rc::Rc;

/// The transports of a loop. Borrowed references: the loop does not keep its transports alive.
#[derive(Default)]
pub struct FdOwners(RefCell<HashMap<RawFd, *mut ffi::PyObject>>);

/// A transport's entry; dropped with the transport. One that is closing has no say in it any more.
pub struct FdClaim {
    owners: Rc<FdOwners>,
    owner: *mut ffi::PyObject,
    fd: RawFd,
}

impl FdOwners {
    /// Enters `owner`, the object that will hold the claim.
    pub fn claim(self: &Rc<Self>, fd: RawFd, owner: &Bound<'_, PyAny>) -> FdClaim {
        self.0.borrow_mut().insert(fd, owner.as_ptr());
        FdClaim { owners: self.clone(), owner: owner.as_ptr(), fd }
    }

    /// asyncio's refusal, if a transport that is not closing has this descriptor. From one that is closing and asks nothing
    /// of the kernel any more it can be had.
    pub fn check_free(&self, py: Python<'_>, engine: &Engine<PyHost>, fd: RawFd) -> PyResult<()> {
        self.check_free_named(engine, fd, fd.into_pyobject(py)?.as_any())
    }

    /// The same; `name` is what the refusal calls the descriptor.
    pub fn check_free_named(
        &self,
        engine: &Engine<PyHost>,
        fd: RawFd,
        name: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let py = name.py();
        let Some(owner) = self.owner(fd) else { return Ok(()) };
        let owner = owner.bind(py);
        if owner.call_method0("is_closing")?.is_truthy()? {
            engine.forget_owner(fd);
            return Ok(());
        }
        let (name, owner) = (name.repr()?, owner.repr()?);
        Err(PyRuntimeError::new_err(format!("File descriptor {name} is used by transport {owner}")))
    }

    fn owner(&self, fd: RawFd) -> Option<Obj> {
        let owner = self.0.borrow().get(&fd).copied()?;
        // SAFETY: a claim is dropped, and its entry with it, before the memory of its owner goes. An owner that is
        // being taken apart at this moment (a weak reference's callback may get here) must not be revived.
        unsafe { (ffi::Py_REFCNT(owner) > 0).then(|| Obj::from_borrowed(owner)) }
    }
}

impl Drop for FdClaim {
    fn drop(&mut self) {
        let mut owners = self.owners.0.borrow_mut();
        // The number may be another transport's by now.
        if owners.get(&self.fd) == Some(&self.owner) {
            owners.remove(&self.fd);
        }
    }
}
