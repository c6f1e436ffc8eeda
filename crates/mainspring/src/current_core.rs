//! The running loop, for functions that are not given one.

use crate::event_loop::{Core, running_core};
use std::io;
use std::rc::Rc;

/// The core of the loop that runs on this thread, or an error if none does.
pub(crate) fn current_core() -> io::Result<Rc<Core>> {
    running_core().ok_or_else(|| {
        io::Error::other(
            "no mainspring event loop is running on this thread: call this inside mainspring::run()",
        )
    })
}
