//! TCP, in asyncio's two ways: protocols that are called, and streams that are awaited.
//!
//! Both are one implementation. A [`Transport`] is the engine's stream transport with a [`Protocol`] above it;
//! a [`TcpStream`] is such a transport whose protocol keeps what arrives in a bounded buffer until it is asked
//! for.

mod address;
pub(crate) mod below;
mod connect;
mod protocol;
mod server;
mod socket;
mod tcp_listener;
mod tcp_stream;
mod transport;
mod waiters;

pub use address::{Address, ToAddress};
pub use protocol::Protocol;
pub use server::Server;
pub use tcp_listener::TcpListener;
pub use tcp_stream::TcpStream;
pub use transport::Transport;

pub(crate) use below::Below;

use crate::event_loop::{Core, running_core};
use std::io;
use std::rc::Rc;

/// The loop that runs here, for what has no loop in its hand.
fn current_core() -> io::Result<Rc<Core>> {
    running_core().ok_or_else(|| io::Error::other("no mainspring event loop is running on this thread"))
}
