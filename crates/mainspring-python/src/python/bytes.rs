//! `bytes` and `bytearray` objects, and file names.

use super::object::Obj;
use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

/// A reference to a `bytes` object, whose content never changes.
#[derive(Clone)]
pub struct Bytes(Obj);

impl Bytes {
    /// A copy of `data`. PyO3's constructor panics if there is no memory.
    #[inline]
    pub fn new(py: Python<'_>, data: &[u8]) -> PyResult<Self> {
        // SAFETY: CPython copies `data.len()` bytes; returns a new reference, or null with an exception.
        unsafe {
            let start = data.as_ptr().cast();
            Obj::from_call(py, ffi::PyBytes_FromStringAndSize(start, data.len() as ffi::Py_ssize_t))
                .map(Bytes)
        }
    }

    /// The content of all `parts`, in order.
    pub fn concat(py: Python<'_>, parts: &[Bytes]) -> PyResult<Self> {
        let length: usize = parts.iter().map(|part| part.as_ref().len()).sum();
        // SAFETY: a null pointer makes CPython leave the content of the `length` bytes undefined. The parts, which have as
        // many, fill it before anything else sees the object.
        unsafe {
            let whole = ffi::PyBytes_FromStringAndSize(std::ptr::null(), length as ffi::Py_ssize_t);
            let whole = Obj::from_call(py, whole)?;
            let mut end = ffi::PyBytes_AsString(whole.as_ptr()).cast::<u8>();
            for part in parts.iter().map(Bytes::as_ref) {
                std::ptr::copy_nonoverlapping(part.as_ptr(), end, part.len());
                end = end.add(part.len());
            }
            Ok(Bytes(whole))
        }
    }

    /// A new reference, if the type of the object is `bytes` and not a class derived from it.
    #[inline]
    pub fn from_exact(object: &Obj) -> Option<Self> {
        Bytes::is_exact(object).then(|| Bytes(object.clone()))
    }

    /// Whether the type of the object is `bytes` and not a class derived from it.
    #[inline]
    pub fn is_exact(object: &Obj) -> bool {
        // SAFETY: a live object.
        unsafe { ffi::PyBytes_CheckExact(object.as_ptr()) != 0 }
    }

    /// The object, if it is a `bytes` object.
    pub fn cast(object: Obj) -> Option<Self> {
        // SAFETY: a live object.
        (unsafe { ffi::PyBytes_Check(object.as_ptr()) } != 0).then_some(Bytes(object))
    }

    #[inline]
    pub fn as_obj(&self) -> &Obj {
        &self.0
    }
}

impl From<Bytes> for Obj {
    #[inline]
    fn from(bytes: Bytes) -> Self {
        bytes.0
    }
}

impl AsRef<[u8]> for Bytes {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        // SAFETY: a `bytes` object: every constructor checks that. It never changes, and this reference keeps it alive.
        unsafe {
            let data = ffi::PyBytes_AS_STRING(self.0.as_ptr()).cast::<u8>();
            std::slice::from_raw_parts(data, ffi::PyBytes_Size(self.0.as_ptr()) as usize)
        }
    }
}

/// Whether an object is of a type that asyncio's transports can send: `bytes`, `bytearray` or `memoryview`.
pub fn is_bytes_like(object: &Obj) -> bool {
    // SAFETY: a live object; the type object is a static of the interpreter.
    unsafe {
        ffi::PyBytes_Check(object.as_ptr()) != 0
            || ffi::PyByteArray_Check(object.as_ptr()) != 0
            || ffi::Py_TYPE(object.as_ptr()) == &raw mut ffi::PyMemoryView_Type
    }
}

/// A `bytearray` of a fixed size. Python code that gets a view of it can resize it; then every access fails.
pub struct ByteArray {
    object: Obj,
    len: usize,
}

impl ByteArray {
    /// `bytearray(len)`.
    pub fn new(py: Python<'_>, len: usize) -> PyResult<Self> {
        // SAFETY: a null pointer makes CPython leave the content undefined; it is zeroed here, before anything reads it.
        unsafe {
            let object = ffi::PyByteArray_FromStringAndSize(std::ptr::null(), len as ffi::Py_ssize_t);
            let object = Obj::from_call(py, object)?;
            std::ptr::write_bytes(ffi::PyByteArray_AsString(object.as_ptr()).cast::<u8>(), 0, len);
            Ok(ByteArray { object, len })
        }
    }

    /// A new `memoryview` of all of it.
    #[inline]
    pub fn view(&self, py: Python<'_>) -> PyResult<Obj> {
        self.object.memory_view(py)
    }

    /// Fails if the array was resized.
    #[inline]
    pub fn check_len(&self) -> PyResult<()> {
        // SAFETY: a live `bytearray`.
        if unsafe { ffi::PyByteArray_Size(self.object.as_ptr()) } as usize == self.len {
            Ok(())
        } else {
            Err(PyRuntimeError::new_err("the buffer that was passed to MemoryBIO.write() was resized"))
        }
    }

    /// Whether there is no other reference to the array or to a view of it.
    #[inline]
    pub fn is_unique(&self) -> bool {
        // SAFETY: a live object.
        unsafe { ffi::Py_REFCNT(self.object.as_ptr()) == 1 }
    }

    /// Calls `fill` with the content. `fill` must not run Python code; the engine passes a system call.
    #[inline]
    pub fn fill<R>(&self, fill: impl FnOnce(&mut [u8]) -> R) -> PyResult<R> {
        self.check_len()?;
        // SAFETY: the array has `len` bytes, as was checked. Nothing else reads or writes them while `fill` runs: that
        // would take Python code.
        unsafe {
            let start = ffi::PyByteArray_AsString(self.object.as_ptr()).cast::<u8>();
            Ok(fill(std::slice::from_raw_parts_mut(start, self.len)))
        }
    }

    /// The first `count` bytes as a `bytes` object.
    #[inline]
    pub fn to_bytes(&self, py: Python<'_>, count: usize) -> PyResult<Bytes> {
        self.check_len()?;
        if count > self.len {
            return Err(PyRuntimeError::new_err("more bytes were reported than the buffer has"));
        }
        // SAFETY: `count` is within the array, and CPython copies the bytes before anything else runs.
        unsafe {
            let start = ffi::PyByteArray_AsString(self.object.as_ptr());
            Obj::from_call(py, ffi::PyBytes_FromStringAndSize(start, count as ffi::Py_ssize_t)).map(Bytes)
        }
    }
}

/// `os.fsdecode(name)`.
pub fn decode_file_name<'py>(py: Python<'py>, name: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    let (start, length) = (name.as_ptr().cast(), name.len() as ffi::Py_ssize_t);
    // SAFETY: CPython reads `length` bytes from `start`; returns a new reference, or null with an exception.
    unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyUnicode_DecodeFSDefaultAndSize(start, length)) }
}

/// `os.fsencode(name)`.
pub fn encode_file_name<'py>(name: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyBytes>> {
    // SAFETY: a live string; returns a new reference, or null with an exception.
    let bytes =
        unsafe { Bound::from_owned_ptr_or_err(name.py(), ffi::PyUnicode_EncodeFSDefault(name.as_ptr()))? };
    Ok(bytes.cast_into::<PyBytes>()?)
}
