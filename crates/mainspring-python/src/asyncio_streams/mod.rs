//! The native half of `mainspring._streams`: `asyncio.StreamReader`, `StreamReaderProtocol` and `StreamWriter`.
//!
//! asyncio creates the objects. When a transport gets a stream's protocol, [`adopt`] gives the protocol and its reader
//! the classes of `mainspring._streams`, which derive from asyncio's and have the same layout. All state stays in
//! asyncio's attributes, so Python code that reads or sets `_buffer` or `_waiter` works as before.
//!
//! Native code handles the common case only: data that is buffered already, a plain wait for more, received bytes. For
//! everything else (end of file, limits, exceptions, unusual arguments) it changes nothing, and asyncio's own method
//! runs. So does asyncio's method if a method was replaced in a class or on an instance.

mod classes;
mod drain;
mod feed;
mod read;
mod reader;

pub use classes::{StreamClasses, adopt};
pub use feed::feed;

use crate::python::method::{Method, Module};

/// The functions that `mainspring._streams` uses. Those that take data return `None` if there is not enough, or if
/// asyncio's method has to be called.
pub fn functions() -> Vec<Method<Module>> {
    vec![
        Method::fastcall(
            c"take_line",
            read::take_line,
            c"The next line: (reader, _buffer, _limit, _exception, _paused).",
        ),
        Method::fastcall(
            c"take_until",
            read::take_until,
            c"The data up to a separator: (reader, separator, bytes searched before a wait or None).",
        ),
        Method::fastcall(c"take_some", read::take_some, c"At most n bytes: (reader, n, has_waited)."),
        Method::fastcall(c"take_exactly", read::take_exactly, c"n bytes: (reader, n, has_waited)."),
        Method::fastcall(
            c"start_waiting",
            read::start_waiting,
            c"A future for the next data, or None: (reader, length of the separator or 0).",
        ),
        Method::one(
            c"is_drained",
            drain::is_drained,
            c"Whether drain() of a writer has nothing to wait for.",
        ),
    ]
}
