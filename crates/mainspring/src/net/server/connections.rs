//! Accepting connections for a server, and counting them.

use super::ServerState;
use crate::event_loop::{Core, ExceptionContext};
use crate::host::{Failure, RustHost};
use crate::net::connection::Transport;
use crate::panics::catch;
use mainspring_engine::poller::PeerAddress;
use mainspring_engine::transport::{Acceptor, Cx};
use std::os::fd::OwnedFd;
use std::rc::{Rc, Weak};

/// Counts one connection of a server until it is dropped.
pub(crate) struct ConnectionGuard {
    server: Rc<ServerState>,
    number: usize,
}

impl ConnectionGuard {
    fn new(server: Rc<ServerState>) -> Self {
        let number = server.clients.borrow_mut().insert(None);
        ConnectionGuard { server, number }
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        let client = self.server.clients.borrow_mut().try_remove(self.number);
        drop(client);
        self.server.waiters.wake_all();
    }
}

/// Attaches a protocol or a task to an accepted connection.
pub(crate) type Opener = Rc<dyn Fn(&Rc<Core>, OwnedFd, PeerAddress, ConnectionGuard) -> Transport>;

/// Passes accepted connections to the opener.
pub(super) struct ServerAcceptor {
    pub(super) core: Weak<Core>,
    pub(super) server: Weak<ServerState>,
    pub(super) opener: Opener,
}

impl Acceptor<RustHost> for ServerAcceptor {
    fn accepted(&self, _: Cx<'_, RustHost>, socket: OwnedFd, peer: PeerAddress) -> Result<(), Failure> {
        let (Some(core), Some(server)) = (self.core.upgrade(), self.server.upgrade()) else { return Ok(()) };
        let opener = Rc::clone(&self.opener);
        let connection = ConnectionGuard::new(Rc::clone(&server));
        let number = connection.number;
        match catch(|| opener(&core, socket, peer, connection)) {
            Ok(transport) => {
                if let Some(client) = server.clients.borrow_mut().get_mut(number) {
                    *client = Some(transport.downgrade());
                }
            }
            Err(text) => {
                let message = "The protocol factory of a server panicked";
                core.call_exception_handler(&ExceptionContext::from_panic(message, text));
            }
        }
        Ok(())
    }
}
