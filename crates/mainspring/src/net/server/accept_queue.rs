//! `AcceptQueue`: accepted connections that wait for `accept()`. All listeners use it.

use super::bind::BoundSocket;
use super::listening::{start_listening, with_listener};
use super::options::ServerOptions;
use super::socket_file::SocketFile;
use crate::event_loop::Core;
use crate::host::{Failure, RustHost};
use crate::net::stream::resource_busy;
use crate::sync::wait_list::WaitList;
use crate::task::named;
use mainspring_engine::poller::PeerAddress;
use mainspring_engine::transport::{Acceptor, Cx, Listener};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::rc::{Rc, Weak};

/// Connections accepted ahead of `accept()`. Beyond that they wait in the kernel's backlog.
const MAX_QUEUED_CONNECTIONS: usize = 16;

/// Listening sockets and their accepted connections. Dropping it stops listening.
pub(in crate::net) struct AcceptQueue {
    core: Weak<Core>,
    listeners: Vec<Rc<Listener<RustHost, QueueAcceptor>>>,
    accepted: Rc<Accepted>,
    /// Socket files, removed when the queue is dropped.
    files: Vec<SocketFile>,
}

/// Accepted connections and the tasks that wait for one.
#[derive(Default)]
struct Accepted {
    connections: RefCell<VecDeque<(OwnedFd, PeerAddress)>>,
    waiters: WaitList,
}

struct QueueAcceptor(Rc<Accepted>);

impl Acceptor<RustHost> for QueueAcceptor {
    fn accepted(&self, _: Cx<'_, RustHost>, connection: OwnedFd, peer: PeerAddress) -> Result<(), Failure> {
        self.0.connections.borrow_mut().push_back((connection, peer));
        self.0.waiters.wake_one();
        Ok(())
    }

    fn has_room(&self) -> bool {
        self.0.connections.borrow().len() < MAX_QUEUED_CONNECTIONS
    }
}

impl AcceptQueue {
    /// Starts listening.
    pub(in crate::net) fn new(
        core: &Rc<Core>,
        bound: Vec<BoundSocket>,
        options: &ServerOptions,
    ) -> io::Result<Self> {
        let accepted = Rc::new(Accepted::default());
        let (mut listeners, mut files) = (Vec::new(), Vec::new());
        for BoundSocket { socket, file, .. } in bound {
            let queue = QueueAcceptor(Rc::clone(&accepted));
            listeners.push(Rc::new(Listener::new(socket, queue, options.backlog as usize)));
            files.extend(file);
        }
        let queue = AcceptQueue { core: Rc::downgrade(core), listeners, accepted, files };
        for listener in &queue.listeners {
            start_listening(core, listener, options.backlog)?;
        }
        Ok(queue)
    }

    /// Waits for the next connection and returns it with its loop. A cancelled call leaves the connection in the
    /// queue.
    pub(in crate::net) async fn accept(&self) -> io::Result<(Rc<Core>, OwnedFd, PeerAddress)> {
        let next = || {
            let Some(core) = self.core.upgrade().filter(|core| core.check_open().is_ok()) else {
                return Some(Err(io::Error::from(crate::Error::Closed)));
            };
            let (socket, peer) = self.accepted.connections.borrow_mut().pop_front()?;
            Some(Ok((core, socket, peer)))
        };
        let (core, socket, peer) = named(|| "accept", self.accepted.waiters.wait_until(next)).await?;
        // The queue has space again. A listener that fails to resume has reported that to the exception handler; this
        // connection is still valid.
        for listener in &self.listeners {
            let _ = with_listener(&core, listener, |listener, cx| listener.resume(cx));
        }
        Ok((core, socket, peer))
    }

    /// Lends the fd of the first socket to `f`.
    pub(in crate::net) fn with_fd<R>(
        &self,
        f: impl FnOnce(BorrowedFd<'_>) -> io::Result<R>,
    ) -> io::Result<R> {
        match self.listeners.first() {
            Some(listener) => listener.with_fd(f),
            None => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Stops listening and returns the socket; its file stays. Fails without a change if accepted connections would
    /// be lost or if there are several sockets.
    pub(in crate::net) fn take_socket(&mut self) -> io::Result<OwnedFd> {
        let Some(core) = self.core.upgrade().filter(|core| core.check_open().is_ok()) else {
            return Err(crate::Error::Closed.into());
        };
        let waiting = self.accepted.connections.borrow().len();
        if waiting > 0 {
            return Err(resource_busy(format!(
                "{waiting} accepted connection(s) waiting: call accept() first"
            )));
        }
        let [listener] = self.listeners.as_slice() else {
            let text =
                format!("the listener has {} sockets, and only one can be returned", self.listeners.len());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        };
        let socket = with_listener(&core, listener, |listener, cx| listener.close(cx));
        self.files.drain(..).for_each(SocketFile::disarm);
        socket.ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

impl Drop for AcceptQueue {
    fn drop(&mut self) {
        let Some(core) = self.core.upgrade() else { return };
        for listener in self.listeners.drain(..) {
            let socket = with_listener(&core, &listener, |listener, cx| listener.close(cx));
            drop(socket);
        }
    }
}
