//! Two probes connected by TLS.

use crate::certificates::{acceptor, connector};
use crate::support::TestLoop;
use crate::support::probe::{Accepted, Probe, ProbeProtocol};
use mainspring::Server;
use mainspring::net::tls::{TlsAcceptor, TlsConnector, TlsError};
use std::io;
use std::rc::Rc;
use test_support::{TestBackend, isolated};

/// A server of probes over TLS.
pub async fn tls_server(acceptor: &TlsAcceptor) -> io::Result<(Server, Accepted)> {
    let accepted = Accepted::default();
    let made = Rc::clone(&accepted);
    let factory = move || {
        let probe = Probe::new(format!("accepted connection {}", made.borrow().len()));
        made.borrow_mut().push(Rc::clone(&probe));
        ProbeProtocol(probe)
    };
    Ok((acceptor.create_server("127.0.0.1:0", 100, factory).await?, accepted))
}

/// A client and the server's close_and_check of its connection.
pub struct Pair {
    pub test_loop: TestLoop,
    pub server: Server,
    pub client: Rc<Probe>,
    pub peer: Rc<Probe>,
}

impl Pair {
    pub fn new(on: TestBackend) -> Self {
        Self::with(on, &acceptor(), &connector())
    }

    pub fn with(on: TestBackend, acceptor: &TlsAcceptor, connector: &TlsConnector) -> Self {
        let test_loop = TestLoop::new(on, format!("on {on:?}"));
        let (server, accepted) = test_loop.run(tls_server(acceptor)).unwrap();
        let client = connect(&test_loop, &server, connector).unwrap();
        test_loop.until("the server's close_and_check is connected", || {
            accepted.borrow().first().is_some_and(|peer| peer.made.get() == 1)
        });
        let peer = Rc::clone(&accepted.borrow()[0]);
        Pair { test_loop, server, client, peer }
    }

    pub fn run_until_lost(&self) {
        self.test_loop
            .until("both ends are lost", || self.client.lost.get() == 1 && self.peer.lost.get() == 1);
    }

    /// Runs the loop until everything has arrived.
    pub fn run_until_received(&self) {
        self.test_loop.until("everything has arrived", || {
            self.peer.received.borrow().len() == self.client.sent.get()
                && self.client.received.borrow().len() == self.peer.sent.get()
        });
    }

    /// Closes the connection and checks that nothing is left.
    pub fn close_and_check(self) {
        for probe in [&self.client, &self.peer] {
            probe.transport().iter().for_each(|transport| transport.close());
        }
        self.run_until_lost();
        self.server.close();
        self.test_loop.assert_idle();
        self.client.assert_in_order(Some(&self.peer), self.test_loop.name());
        self.peer.assert_in_order(Some(&self.client), self.test_loop.name());
        self.test_loop.assert_reports(&[]);
    }
}

pub fn connect(test_loop: &TestLoop, server: &Server, connector: &TlsConnector) -> io::Result<Rc<Probe>> {
    let probe = Probe::new("the client");
    let protocol = ProbeProtocol(Rc::clone(&probe));
    test_loop.run(connector.create_connection(server.local_addr(), "localhost", || protocol))?;
    Ok(probe)
}

/// Runs `test` with a new pair on each back close_and_check.
pub fn with_pairs(test: impl Fn(&Pair)) {
    isolated(|| {
        for on in TestBackend::ALL {
            let pair = Pair::new(on);
            test(&pair);
            pair.close_and_check();
        }
    });
}

/// The TLS error inside `error`.
#[track_caller]
pub fn tls_error(error: &io::Error) -> TlsError {
    TlsError::of(error).unwrap_or_else(|| panic!("not about TLS: {error:?}")).clone()
}
