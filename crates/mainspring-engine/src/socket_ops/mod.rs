//! Operations on sockets that the program owns: `sock_recv`, `sock_sendall` and their kin.
//!
//! Every operation is tried at once; only one that the kernel has no answer for yet waits, and is then tried again
//! each time the kernel says that something has changed. What waits leaves an ordinary watch with the loop, as
//! `add_reader` does, under a ticket: it takes back its own watch and never that of whoever watches the same
//! descriptor number meanwhile.
//!
//! # What giving up costs
//!
//! An operation may be given up between any two steps of the loop, so nothing may be in a place where nobody looks
//! for it any more:
//!
//! - Operations that **take** something out of the kernel (`recv`, `accept`) do not take it in the loop's callback. The
//!   callback only says that there is something ([`Ready`]), and whoever asked takes it when it runs again. Given up
//!   in between, the bytes or the connection are still the kernel's, for the next one who asks.
//! - Operations that **give** something to the kernel ([`SendAll`], [`SendFile`]) go on in the callback: nothing can be lost
//!   that way, and a long message does not wake its task once per buffer. Given up, they have sent what they have
//!   sent, as the contract of `sock_sendall` says.

mod connect_backoff;
mod pending;
mod send_all;
mod send_file;

pub use connect_backoff::ConnectBackoff;
pub use pending::{Operation, Pending, Ready, Settled};
pub use send_all::SendAll;
pub use send_file::SendFile;

use crate::{Engine, Host};
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;

impl<H: Host> Engine<H> {
    /// Receives what is there; `None` if nothing is yet. Zero bytes into a buffer with room are the end of the stream.
    pub fn try_recv(&self, socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        none_if_would_block(self.with_poller(|poller| poller.recv(socket, buffer)))
    }

    /// Sends what the kernel takes; `None` if that is nothing now.
    pub fn try_send(&self, socket: BorrowedFd<'_>, data: &[u8]) -> io::Result<Option<usize>> {
        none_if_would_block(self.with_poller(|poller| poller.send(socket, &[IoSlice::new(data)])))
    }
}

/// Turns the answers that mean "ask again later" into `None`.
fn none_if_would_block<T>(answer: io::Result<T>) -> io::Result<Option<T>> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
