//! Two connected probes and their fds.

use crate::support::TestLoop;
use crate::support::probe::{Probe, connect, probe_server};
use mainspring::Server;
use mainspring_engine::poller::Interest;
use mainspring_engine::testing::{Call, LogEntry, Op};
use std::os::fd::RawFd;
use std::rc::Rc;
use test_support::TestBackend;

pub struct ConnectedProbes {
    pub test_loop: TestLoop,
    pub server: Server,
    pub client: Rc<Probe>,
    pub peer: Rc<Probe>,
    pub client_fd: RawFd,
    pub peer_fd: RawFd,
}

impl ConnectedProbes {
    pub fn new(name: &str) -> Self {
        let test_loop = TestLoop::new(TestBackend::Fake, name);
        let (server, accepted) = test_loop.run(probe_server(&test_loop.event_loop)).unwrap();
        test_loop.control.take_log();
        let (client, peer) = connect(&test_loop, &server, &accepted, "the client");
        test_loop.run_iterations(2);
        let log = test_loop.control.take_log();
        let peer_fd =
            log.iter().find(|entry| entry.call.op() == Op::Accept).unwrap().result.unwrap() as RawFd;
        let client_fd = started_reading(&log).find(|&fd| fd != peer_fd).unwrap();
        ConnectedProbes { test_loop, server, client, peer, client_fd, peer_fd }
    }

    /// Runs the loop until all sent data is received.
    #[track_caller]
    pub fn run_until_received(&self) {
        self.test_loop.until("everything has arrived", || {
            self.peer.received.borrow().len() == self.client.sent.get()
                && self.client.received.borrow().len() == self.peer.sent.get()
        });
    }

    #[track_caller]
    pub fn run_until_lost(&self) {
        self.test_loop
            .until("both ends are lost", || self.client.lost.get() == 1 && self.peer.lost.get() == 1);
    }

    /// Closes the connection and checks that nothing is left on the loop.
    #[track_caller]
    pub fn close_and_check(self) {
        self.client.transport().iter().for_each(|transport| transport.close());
        self.run_until_lost();
        self.server.close();
        self.test_loop.assert_idle();
        let at = self.test_loop.name();
        assert_eq!(self.test_loop.control.pending_faults(), 0, "{at}: not every fault was injected");
        self.client.assert_in_order(Some(&self.peer), at);
        self.peer.assert_in_order(Some(&self.client), at);
        assert_eq!(*self.test_loop.reports.borrow(), [""; 0], "{at}: reports");
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
