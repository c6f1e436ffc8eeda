//! `Ends`: what the reader and the writer of one connection share, and how they part from it.

use super::super::protocol::Protocol;
use super::super::transport::Transport;
use super::buffered::Buffered;
use std::cell::Cell;
use std::rc::Rc;

/// A transport and the protocol of streams on it. Closes the connection, in order, with its last holder.
pub(super) struct Ends {
    pub(super) transport: Transport,
    pub(super) buffered: Rc<Buffered>,
    is_given_away: Cell<bool>,
}

impl Ends {
    /// `open` puts the protocol on a connection.
    pub(super) fn open(limit: usize, open: impl FnOnce(Rc<dyn Protocol>) -> Transport) -> Rc<Self> {
        let buffered = Rc::new(Buffered::new(limit));
        let transport = open(Rc::<Buffered>::clone(&buffered));
        Rc::new(Ends { transport, buffered, is_given_away: Cell::new(false) })
    }

    /// The same for a protocol that is on its connection already.
    pub(super) fn of(transport: Transport, buffered: Rc<Buffered>) -> Rc<Self> {
        Rc::new(Ends { transport, buffered, is_given_away: Cell::new(false) })
    }

    /// The connection is somebody else's from here on, who closes it.
    #[allow(dead_code, reason = "for connections over connections, which are not in every build")]
    pub(super) fn give_away(&self) -> Transport {
        self.is_given_away.set(true);
        self.transport.clone()
    }

    pub(super) fn is_given_away(&self) -> bool {
        self.is_given_away.get()
    }
}

impl Drop for Ends {
    fn drop(&mut self) {
        if !self.is_given_away() {
            self.transport.close();
        }
    }
}
