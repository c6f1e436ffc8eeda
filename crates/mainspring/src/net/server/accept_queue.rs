//! `AcceptQueue`: connections that are taken from the kernel and awaited, for every kind of listener.

use super::bind::BoundSocket;
use super::options::ServerOptions;
use super::socket_file::SocketFile;
use super::{start_listening, with_listener};
use crate::event_loop::Core;
use crate::host::{Failure, RustHost};
use crate::net::stream::resource_busy;
use crate::sync::wait_list::WaitList;
use mainspring_engine::poller::PeerAddress;
use mainspring_engine::transport::{Acceptor, Cx, Listener};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::rc::{Rc, Weak};

/// So many connections are taken from the kernel before anybody asks for them.
const MAX_QUEUED_CONNECTIONS: usize = 16;

/// Listening sockets and what they have accepted. Dropping it stops listening.
pub(in crate::net) struct AcceptQueue {
    core: Weak<Core>,
    listeners: Vec<Rc<Listener<RustHost, Queue>>>,
    accepted: Rc<Accepted>,
    /// Removed with it.
    files: Vec<SocketFile>,
}

/// What was accepted, and who waits for it.
#[derive(Default)]
struct Accepted {
    connections: RefCell<VecDeque<(OwnedFd, PeerAddress)>>,
    waiters: WaitList,
}

struct Queue(Rc<Accepted>);

impl Acceptor<RustHost> for Queue {
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
    /// Begins to listen.
    pub(in crate::net) fn new(
        core: &Rc<Core>,
        bound: Vec<BoundSocket>,
        options: &ServerOptions,
    ) -> io::Result<Self> {
        let accepted = Rc::new(Accepted::default());
        let (mut listeners, mut files) = (Vec::new(), Vec::new());
        for BoundSocket { socket, file, .. } in bound {
            let queue = Queue(Rc::clone(&accepted));
            listeners.push(Rc::new(Listener::new(socket, queue, options.backlog as usize)));
            files.extend(file);
        }
        let queue = AcceptQueue { core: Rc::downgrade(core), listeners, accepted, files };
        for listener in &queue.listeners {
            start_listening(core, listener, options.backlog)?;
        }
        Ok(queue)
    }

    /// The next connection, and the loop it is for. Cancelled, it leaves the connection to the next who asks.
    pub(in crate::net) async fn accept(&self) -> io::Result<(Rc<Core>, OwnedFd, PeerAddress)> {
        let next = || {
            let Some(core) = self.core.upgrade().filter(|core| core.check_open().is_ok()) else {
                return Some(Err(io::Error::from(crate::Error::Closed)));
            };
            let (socket, peer) = self.accepted.connections.borrow_mut().pop_front()?;
            Some(Ok((core, socket, peer)))
        };
        let (core, socket, peer) = self.accepted.waiters.until(next).await?;
        // There is room again. A connection that is there is not lost to a listener that fails: the exception
        // handler has been told.
        for listener in &self.listeners {
            let _ = with_listener(&core, listener, |listener, cx| listener.resume(cx));
        }
        Ok((core, socket, peer))
    }

    /// Lends the descriptor of the first socket.
    pub(in crate::net) fn with_fd<R>(
        &self,
        use_it: impl FnOnce(BorrowedFd<'_>) -> io::Result<R>,
    ) -> io::Result<R> {
        match self.listeners.first() {
            Some(listener) => listener.with_fd(use_it),
            None => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Stops listening and gives the socket up, whose file stays where it is. On an error nothing has changed: connections
    /// that were accepted already would be lost, and one socket is not several.
    pub(in crate::net) fn take_socket(&mut self) -> io::Result<OwnedFd> {
        let Some(core) = self.core.upgrade().filter(|core| core.check_open().is_ok()) else {
            return Err(crate::Error::Closed.into());
        };
        let waiting = self.accepted.connections.borrow().len();
        if waiting > 0 {
            return Err(resource_busy(format!("connections that nobody has accepted: {waiting}")));
        }
        let [listener] = self.listeners.as_slice() else {
            let text = format!("it listens on {} sockets", self.listeners.len());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        };
        let socket = with_listener(&core, listener, |listener, cx| listener.close(cx));
        self.files.drain(..).for_each(SocketFile::keep);
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
