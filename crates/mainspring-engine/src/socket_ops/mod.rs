//! Operations on sockets that the program owns: `sock_recv`, `sock_sendall` and related calls.
//!
//! Every operation is tried at once. If it would block, it waits for readiness and is tried again. It waits with an
//! ordinary watch, as `add_reader` does, under a ticket: it removes its own watch and never a later one of the same
//! fd number.
//!
//! # Cancellation
//!
//! An operation may be cancelled between any two callbacks. It must not lose data then:
//!
//! - Operations that **take** data from the kernel (`recv`, `accept`) do not take it in the loop's callback. The
//!   callback only reports readiness ([`Ready`]), and the waiting task makes the system call when it runs. If it is
//!   cancelled in between, the bytes or the connection stay in the kernel for the next caller.
//! - Operations that **give** data to the kernel ([`SendAll`], [`SendFile`]) continue in the callback: nothing can be
//!   lost, and a long message does not wake its task once per buffer. If one is cancelled, a part may have been sent,
//!   as `sock_sendall` documents.

mod connect_backoff;
mod pending;
mod send_all;
mod send_file;

pub use connect_backoff::connect_backoff;
pub use pending::{Operation, Pending, Ready, Settled};
pub use send_all::SendAll;
pub use send_file::SendFile;

use crate::{Engine, Host};
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;

impl<H: Host> Engine<H> {
    /// Receives available bytes; `None` if there are none. Zero bytes into a non-empty buffer are EOF.
    pub fn try_recv(&self, socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        none_if_would_block(self.count_received(self.with_poller(|poller| poller.recv(socket, buffer))))
    }

    /// Sends as much as the kernel accepts; `None` if that is nothing now.
    pub fn try_send(&self, socket: BorrowedFd<'_>, data: &[u8]) -> io::Result<Option<usize>> {
        let result = self.with_poller(|poller| poller.send(socket, &[IoSlice::new(data)]));
        none_if_would_block(self.count_sent(result))
    }
}

/// Maps `WouldBlock` and `Interrupted` to `None`.
fn none_if_would_block<T>(answer: io::Result<T>) -> io::Result<Option<T>> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
