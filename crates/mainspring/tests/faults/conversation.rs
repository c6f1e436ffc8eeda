//! Two connected probes and their fds.

use crate::support::Stage;
use crate::support::probe::{Probe, connect, probe_server};
use mainspring::Server;
use mainspring_engine::poller::Interest;
use mainspring_engine::testing::{Call, LogEntry, Op};
use std::os::fd::RawFd;
use std::rc::Rc;
use test_support::On;

pub struct Conversation {
    pub stage: Stage,
    pub server: Server,
    pub client: Rc<Probe>,
    pub peer: Rc<Probe>,
    pub client_fd: RawFd,
    pub peer_fd: RawFd,
}

impl Conversation {
    pub fn new(name: &str) -> Self {
        let stage = Stage::new(On::Fake, name);
        let (server, accepted) = stage.run(probe_server(&stage.event_loop)).unwrap();
        stage.control.take_log();
        let (client, peer) = connect(&stage, &server, &accepted, "the client");
        stage.passes(2);
        let log = stage.control.take_log();
        let peer_fd =
            log.iter().find(|entry| entry.call.op() == Op::Accept).unwrap().result.unwrap() as RawFd;
        let client_fd = started_reading(&log).find(|&fd| fd != peer_fd).unwrap();
        Conversation { stage, server, client, peer, client_fd, peer_fd }
    }

    /// Runs the loop until everything has arrived or the connection is lost.
    #[track_caller]
    pub fn let_arrive(&self) {
        self.stage.until("everything has arrived", || {
            self.peer.received.borrow().len() == self.client.sent.get()
                && self.client.received.borrow().len() == self.peer.sent.get()
        });
    }

    #[track_caller]
    pub fn until_lost(&self) {
        self.stage.until("both ends are lost", || self.client.lost.get() == 1 && self.peer.lost.get() == 1);
    }

    /// Closes the connection and checks that nothing else is left.
    #[track_caller]
    pub fn end(self) {
        self.client.transport().iter().for_each(|transport| transport.close());
        self.until_lost();
        self.server.close();
        self.stage.assert_idle();
        let at = self.stage.name();
        assert_eq!(self.stage.control.pending_faults(), 0, "{at}: not every fault has struck");
        self.client.assert_in_order(Some(&self.peer), at);
        self.peer.assert_in_order(Some(&self.client), at);
        assert_eq!(*self.stage.reports.borrow(), [""; 0], "{at}: reports");
    }
}

/// The fds that have started receiving, according to the log.
pub fn started_reading(log: &[LogEntry]) -> impl Iterator<Item = RawFd> + '_ {
    log.iter().filter_map(|entry| match entry.call {
        Call::Update { fd, old: Interest::NONE, new: Interest::READ, .. } => Some(fd),
        _ => None,
    })
}

/// The number of calls of an operation.
pub fn count(log: &[LogEntry], op: Op) -> usize {
    log.iter().filter(|entry| entry.call.op() == op).count()
}
