//! What a transport owns: its descriptor, and the bytes it still has to send.

use crate::event_loop::host::{os_error, out_of_memory};
use crate::names::{Names, names};
use crate::python::object::Obj;
use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

/// The owner of a transport's descriptor: one of these, and nobody else.
pub enum PyChannel {
    /// The descriptor itself: an accepted connection nobody has asked the socket of.
    Owned(OwnedFd),
    /// A `socket.socket` that owns the descriptor.
    Socket(SocketHold),
    /// A file object that owns the descriptor: a pipe's.
    File(FileHold),
}

/// A `socket.socket` whose descriptor is kept open by us.
///
/// The socket's own `close()` would close the descriptor under the transport, its number would be given to the next
/// connection, and the transport would read that one's data. So it is held as a file object made by
/// `socket.makefile()` holds it: `_io_refs` counts those, and a closed socket closes its descriptor when the last one
/// has let go.
pub struct SocketHold {
    socket: Obj,
    fd: RawFd,
    is_counted: bool,
    /// Whether the socket is closed at the end.
    closes: bool,
}

impl SocketHold {
    pub fn new(socket: &Bound<'_, PyAny>) -> PyResult<Self> {
        Self::hold(socket, true)
    }

    /// A socket that stays its owner's to close, and that warns if it never is.
    pub fn lent(socket: &Bound<'_, PyAny>) -> PyResult<Self> {
        Self::hold(socket, false)
    }

    fn hold(socket: &Bound<'_, PyAny>, closes: bool) -> PyResult<Self> {
        let fd: RawFd = socket.call_method0("fileno")?.extract()?;
        if fd < 0 {
            return Err(os_error(socket.py(), io::Error::from_raw_os_error(libc::EBADF)));
        }
        let is_counted = match socket.getattr("_io_refs").and_then(|count| count.extract::<i64>()) {
            Ok(count) => socket.setattr("_io_refs", count + 1).is_ok(),
            Err(_) => false,
        };
        Ok(SocketHold { socket: socket.clone().into(), fd, is_counted, closes })
    }

    pub fn socket(&self) -> &Obj {
        &self.socket
    }
}

impl Drop for SocketHold {
    fn drop(&mut self) {
        // SAFETY: an `Obj` is dropped only by an attached thread, and so is what holds it.
        let py = unsafe { Python::assume_attached() };
        let socket = self.socket.bind(py);
        let call = |is_wanted: bool, name: fn(&Names) -> &Py<PyString>| match is_wanted {
            true => socket.call_method0(name(names(py)?)).map(drop),
            false => Ok(()),
        };
        let closed = call(self.closes, |names| &names.close);
        let released = call(self.is_counted, |names| &names._decref_socketios);
        for error in [closed, released].into_iter().filter_map(Result::err) {
            // Nobody is left to raise it to; the interpreter shows it.
            error.write_unraisable(py, Some(&socket));
        }
    }
}

/// A file object that is closed, once, by its own `close()`, when the transport has ended.
///
/// Nothing keeps a program from closing the file under its transport; as in asyncio, that is its mistake.
pub struct FileHold {
    /// `None` once it was given back.
    file: Option<Obj>,
    fd: RawFd,
}

impl FileHold {
    /// Takes over a file object whose `fileno()` is `fd`.
    pub fn new(file: &Bound<'_, PyAny>, fd: RawFd) -> Self {
        FileHold { file: Some(file.clone().into()), fd }
    }

    /// Gives the file back to whoever else has it, unclosed.
    pub fn detach(mut self) {
        self.file = None;
    }

    /// A descriptor that a file object has named.
    pub fn borrow<'fd>(fd: RawFd) -> io::Result<BorrowedFd<'fd>> {
        if fd < 0 {
            return Err(io::Error::from_raw_os_error(libc::EBADF));
        }
        // SAFETY: open as long as the file object is, which its user promises; one that is not is answered EBADF by
        // whatever is asked of it.
        Ok(unsafe { BorrowedFd::borrow_raw(fd) })
    }
}

impl Drop for FileHold {
    fn drop(&mut self) {
        // SAFETY: an `Obj` is dropped only by an attached thread, and so is what holds it.
        let py = unsafe { Python::assume_attached() };
        let Some(file) = self.file.as_ref().map(|file| file.bind(py)) else { return };
        if let Err(error) = names(py).and_then(|names| file.call_method0(&names.close)) {
            // Nobody is left to raise it to; the interpreter shows it.
            error.write_unraisable(py, Some(&file));
        }
    }
}

impl AsFd for PyChannel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            PyChannel::Owned(fd) => fd.as_fd(),
            // SAFETY: the hold keeps the descriptor open for as long as it lives.
            PyChannel::Socket(hold) => unsafe { BorrowedFd::borrow_raw(hold.fd) },
            // SAFETY: as in `FileHold::borrow`, where it was found to be no negative number.
            PyChannel::File(hold) => unsafe { BorrowedFd::borrow_raw(hold.fd) },
        }
    }
}

impl PyChannel {
    /// Shows what is held to the garbage collector.
    pub fn for_each_held(&self, show: &mut dyn FnMut(*mut ffi::PyObject)) {
        match self {
            PyChannel::Owned(_) => {}
            PyChannel::Socket(hold) => show(hold.socket.as_ptr()),
            PyChannel::File(hold) => hold.file.iter().for_each(|file| show(file.as_ptr())),
        }
    }
}

/// A new `socket.socket` for a descriptor, which belongs to the socket from here on. If this fails, the descriptor stays
/// the caller's.
pub fn socket_object<'py>(py: Python<'py>, fd: BorrowedFd<'_>) -> PyResult<Bound<'py, PyAny>> {
    let class = names(py)?.socket_class.bind(py);
    let socket = class.call_method1("__new__", (class,))?;
    let fill = || {
        let arguments = PyDict::new(py);
        arguments.set_item("fileno", fd.as_raw_fd())?;
        socket.call_method("__init__", (), Some(&arguments))?;
        // It takes a descriptor for a blocking one, whatever that is, and its `dup()` would make it so.
        socket.call_method1("setblocking", (false,)).map(drop)
    };
    match fill() {
        Ok(()) => Ok(socket),
        Err(error) => {
            detach_socket(&socket);
            Err(error)
        }
    }
}

/// Makes a socket object forget its descriptor. It is the C type's own method: no Python code runs, so no signal handler
/// can interrupt it.
pub fn detach_socket(socket: &Bound<'_, PyAny>) {
    let py = socket.py();
    let detached =
        py.import("_socket").and_then(|module| module.getattr("socket")?.getattr("detach")?.call1((socket,)));
    if let Err(error) = detached {
        error.write_unraisable(py, Some(socket));
    }
}

/// Bytes that wait to be sent: the user's own object where it cannot change, else a copy.
pub enum PyChunk {
    Bytes(Obj),
    Copy(Vec<u8>),
}

impl PyChunk {
    /// The same bytes for another owner; `None` if there is no memory for them.
    pub fn share(&self) -> Option<Self> {
        match self {
            PyChunk::Bytes(bytes) => Some(PyChunk::Bytes(bytes.clone())),
            PyChunk::Copy(copy) => copied(Vec::new(), copy).map(PyChunk::Copy),
        }
    }

    /// The bytes as a `bytes` object.
    pub fn to_bytes(&self, py: Python<'_>) -> PyResult<Obj> {
        match self {
            PyChunk::Bytes(bytes) => Ok(bytes.clone()),
            PyChunk::Copy(copy) => bytes_object(py, copy),
        }
    }
}

impl AsRef<[u8]> for PyChunk {
    fn as_ref(&self) -> &[u8] {
        match self {
            PyChunk::Copy(copy) => copy,
            // SAFETY: made only of `bytes` objects, which never change, and are kept alive by this reference.
            PyChunk::Bytes(bytes) => unsafe {
                let data = ffi::PyBytes_AS_STRING(bytes.as_ptr()).cast::<u8>();
                std::slice::from_raw_parts(data, ffi::PyBytes_Size(bytes.as_ptr()) as usize)
            },
        }
    }
}

/// A new `bytes` object. Fails where PyO3's own function panics: if there is no memory for it.
pub fn bytes_object(py: Python<'_>, data: &[u8]) -> PyResult<Obj> {
    // SAFETY: copies the slice.
    unsafe {
        let start = data.as_ptr().cast();
        Obj::from_call(py, ffi::PyBytes_FromStringAndSize(start, data.len() as ffi::Py_ssize_t))
    }
}

/// A copy of `data` in `memory`, which is empty; `None` if there is none.
fn copied(mut memory: Vec<u8>, data: &[u8]) -> Option<Vec<u8>> {
    memory.try_reserve_exact(data.len()).ok()?;
    memory.extend_from_slice(data);
    Some(memory)
}

/// For the copy of so many bytes memory is found before the first of them is sent.
const RESERVED: usize = 64 * 1024;

const BYTES_LIKE: &str = "bytes-like object";

/// What this version of asyncio says a stream takes.
fn stream_data(py: Python<'_>) -> &'static str {
    if py.version_info() >= (3, 14) { "bytes, bytearray, or memoryview object" } else { BYTES_LIKE }
}

/// A view of a bytes-like argument, for the length of one call.
pub struct Data {
    object: *mut ffi::PyObject,
    /// None for exact `bytes`, which need none.
    buffer: Option<Box<ffi::Py_buffer>>,
    /// Memory for a copy, once [`Data::reserve`] has found some.
    memory: RefCell<Vec<u8>>,
}

impl Data {
    /// Looks at what a user wants to send over a stream; asyncio's `TypeError` if it is not bytes-like.
    ///
    /// # Safety
    /// As for [`Data::new`].
    pub unsafe fn for_stream(py: Python<'_>, object: *mut ffi::PyObject) -> PyResult<Self> {
        // SAFETY: promised by the caller.
        unsafe { Self::accept(py, object, stream_data) }
    }

    /// Looks at what a user wants to send; asyncio's `TypeError` if it is not bytes-like.
    ///
    /// # Safety
    /// `object` is a live object that outlives the view.
    pub unsafe fn new(py: Python<'_>, object: *mut ffi::PyObject) -> PyResult<Self> {
        // SAFETY: promised by the caller.
        unsafe { Self::accept(py, object, |_| BYTES_LIKE) }
    }

    /// Looks at one of several pieces that a user wants to send: there asyncio takes everything that has a buffer.
    ///
    /// # Safety
    /// As for [`Data::new`].
    pub unsafe fn for_lines(py: Python<'_>, object: *mut ffi::PyObject) -> PyResult<Self> {
        // SAFETY: promised by the caller.
        unsafe {
            let exact = ffi::PyBytes_CheckExact(object) != 0;
            if !exact && ffi::PyObject_CheckBuffer(object) != 0 {
                Self::view(py, object)
            } else {
                Self::new(py, object)
            }
        }
    }

    /// `expected` is the error's word for what would do.
    unsafe fn accept(
        py: Python<'_>,
        object: *mut ffi::PyObject,
        expected: fn(Python<'_>) -> &'static str,
    ) -> PyResult<Self> {
        // SAFETY: a live object, as the caller promised.
        unsafe {
            if ffi::PyBytes_CheckExact(object) != 0 {
                return Ok(Data { object, buffer: None, memory: RefCell::default() });
            }
            let accepted = ffi::PyBytes_Check(object) != 0
                || ffi::PyByteArray_Check(object) != 0
                || ffi::Py_TYPE(object) == &raw mut ffi::PyMemoryView_Type;
            if !accepted {
                let name = Bound::from_borrowed_ptr(py, object).get_type().name()?;
                return Err(PyTypeError::new_err(format!(
                    "data argument must be a {}, not '{name}'",
                    expected(py)
                )));
            }
            Self::view(py, object)
        }
    }

    /// The view of an object that is not exactly `bytes`.
    unsafe fn view(py: Python<'_>, object: *mut ffi::PyObject) -> PyResult<Self> {
        let mut buffer = Box::new(ffi::Py_buffer::new());
        // SAFETY: the buffer is filled by the interpreter, or an exception is set. It is released when dropped.
        if unsafe { ffi::PyObject_GetBuffer(object, &mut *buffer, ffi::PyBUF_SIMPLE) } != 0 {
            return Err(PyErr::fetch(py));
        }
        Ok(Data { object, buffer: Some(buffer), memory: RefCell::default() })
    }

    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: the object is alive and, where it could change, locked against it by the buffer.
        unsafe {
            let (data, length) = match &self.buffer {
                None => (ffi::PyBytes_AS_STRING(self.object).cast::<u8>(), ffi::PyBytes_Size(self.object)),
                Some(buffer) => (buffer.buf.cast_const().cast::<u8>(), buffer.len),
            };
            if length == 0 { &[] } else { std::slice::from_raw_parts(data, length as usize) }
        }
    }

    /// Finds memory for what [`Data::to_chunk`] would have to copy, if it is much: it is known then, before any of it is
    /// sent, whether the rest can be kept.
    pub fn reserve(&self) -> PyResult<()> {
        let length = self.as_slice().len();
        if self.buffer.is_none() || length <= RESERVED {
            return Ok(());
        }
        self.memory.borrow_mut().try_reserve_exact(length).map_err(|_| out_of_memory())
    }

    /// What the write queue keeps; `None` if there is no memory for it.
    pub fn to_chunk(&self) -> Option<PyChunk> {
        if self.buffer.is_some() {
            return copied(self.memory.take(), self.as_slice()).map(PyChunk::Copy);
        }
        // SAFETY: the object is alive.
        Some(PyChunk::Bytes(unsafe { Obj::from_borrowed(self.object) }))
    }

    /// The same as a `bytes` object: what TLS encrypts.
    pub fn to_bytes(&self, py: Python<'_>) -> PyResult<PyChunk> {
        if self.buffer.is_some() {
            return Ok(PyChunk::Bytes(bytes_object(py, self.as_slice())?));
        }
        // SAFETY: the object is alive.
        Ok(PyChunk::Bytes(unsafe { Obj::from_borrowed(self.object) }))
    }
}

impl Drop for Data {
    fn drop(&mut self) {
        if let Some(buffer) = &mut self.buffer {
            // SAFETY: filled by the interpreter, and released once.
            unsafe { ffi::PyBuffer_Release(&mut **buffer) }
        }
    }
}
