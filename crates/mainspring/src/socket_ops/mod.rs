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
//!
//! ```
#![doc = include_str!("../doc/plain_host.txt")]
//! use mainspring::engine::{Direction, Engine};
//! use mainspring::socket_ops::{Pending, Ready};
//! use std::cell::RefCell;
//! use std::io::Write;
//! use std::os::fd::AsFd;
//! use std::os::unix::net::UnixStream;
//! use std::rc::Rc;
//!
//! // `Plain` is the host of the example in the module `engine`.
//! let engine = Rc::new(Engine::new(Plain, open_epoll()?, Box::new(MonotonicClock))?);
//! let (here, mut there) = UnixStream::pair()?;
//! let (socket, mut buffer) = (Rc::new(here), [0; 16]);
//! assert_eq!(engine.try_recv(socket.as_fd(), &mut buffer)?, None, "nothing is there yet");
//!
//! let waiting = Rc::new(Pending::new(Ready(Direction::Inbound)));
//! let settled = Rc::new(RefCell::new(None));
//! let watch: Callback = {
//!     let (waiting, settled) = (Rc::downgrade(&waiting), Rc::clone(&settled));
//!     let (engine, socket) = (Rc::downgrade(&engine), Rc::clone(&socket));
//!     Rc::new(move || {
//!         let (Some(waiting), Some(engine)) = (waiting.upgrade(), engine.upgrade()) else { return };
//!         *settled.borrow_mut() = waiting.ready(&engine, socket.as_fd());
//!     })
//! };
//! waiting.wait(&engine, socket.as_fd(), watch)?;
//! there.write_all(b"hello")?;
//! engine.run_until_idle()?;
//! assert!(settled.take().is_some_and(|settled| settled.outcome.is_ok()));
//! assert_eq!(engine.try_recv(socket.as_fd(), &mut buffer)?, Some(5));
//! # Ok::<(), std::io::Error>(())
//! ```

mod pending;
mod send_all;
mod send_file;

pub use pending::{Operation, Pending, Ready, Settled};
pub use send_all::SendAll;
pub use send_file::SendFile;

use crate::engine::{Engine, Host};
use crate::poller::Key;
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;

impl<H: Host> Engine<H> {
    /// Receives what is there; `None` if nothing is yet. Zero bytes into a buffer with room are the end of the stream.
    ///
    /// ```
    #[doc = include_str!("../doc/plain_host.txt")]
    /// use mainspring::engine::Engine;
    /// use std::os::fd::AsFd;
    /// use std::os::unix::net::UnixStream;
    ///
    /// let engine = Engine::new(Plain, open_epoll()?, Box::new(MonotonicClock))?;
    /// let (here, there) = UnixStream::pair()?;
    /// let mut buffer = [0; 16];
    /// assert_eq!(engine.try_recv(here.as_fd(), &mut buffer)?, None);
    /// assert_eq!(engine.try_send(there.as_fd(), b"hello")?, Some(5));
    /// assert_eq!(engine.try_recv(here.as_fd(), &mut buffer)?, Some(5));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn try_recv(&self, socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        unless_too_early(self.recv(socket, Key::UNREGISTERED, buffer))
    }

    /// Sends what the kernel takes; `None` if that is nothing now.
    pub fn try_send(&self, socket: BorrowedFd<'_>, data: &[u8]) -> io::Result<Option<usize>> {
        unless_too_early(self.send(socket, Key::UNREGISTERED, &[IoSlice::new(data)]))
    }
}

/// Turns the answers that mean "ask again later" into `None`.
fn unless_too_early<T>(answer: io::Result<T>) -> io::Result<Option<T>> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
