//! Two probes connected by TLS.

use crate::certificates::{acceptor, connector};
use crate::support::Stage;
use crate::support::probe::{Accepted, Face, Probe};
use mainspring::Server;
use mainspring::net::tls::{TlsAcceptor, TlsConnector, TlsError};
use std::io;
use std::rc::Rc;
use test_support::{On, guarded};

/// A server of probes.
pub async fn tls_server(acceptor: &TlsAcceptor) -> io::Result<(Server, Accepted)> {
    let accepted = Accepted::default();
    let made = Rc::clone(&accepted);
    let factory = move || {
        let probe = Probe::new(format!("accepted connection {}", made.borrow().len()));
        made.borrow_mut().push(Rc::clone(&probe));
        Face(probe)
    };
    Ok((acceptor.create_server("127.0.0.1:0", 100, factory).await?, accepted))
}

/// A client and the server's end of its connection.
pub struct Pair {
    pub stage: Stage,
    pub server: Server,
    pub client: Rc<Probe>,
    pub peer: Rc<Probe>,
}

impl Pair {
    pub fn new(on: On) -> Self {
        Self::with(on, &acceptor(), &connector())
    }

    pub fn with(on: On, acceptor: &TlsAcceptor, connector: &TlsConnector) -> Self {
        let stage = Stage::new(on, format!("on {on:?}"));
        let (server, accepted) = stage.run(tls_server(acceptor)).unwrap();
        let client = connect(&stage, &server, connector).unwrap();
        stage.until("the server's end stands", || {
            accepted.borrow().first().is_some_and(|peer| peer.made.get() == 1)
        });
        let peer = Rc::clone(&accepted.borrow()[0]);
        Pair { stage, server, client, peer }
    }

    pub fn until_lost(&self) {
        self.stage.until("both ends are lost", || self.client.lost.get() == 1 && self.peer.lost.get() == 1);
    }

    /// Runs the loop until everything has arrived.
    pub fn let_arrive(&self) {
        self.stage.until("everything has arrived", || {
            self.peer.received.borrow().len() == self.client.sent.get()
                && self.client.received.borrow().len() == self.peer.sent.get()
        });
    }

    /// Closes the connection and checks that nothing is left.
    pub fn end(self) {
        for probe in [&self.client, &self.peer] {
            probe.transport().iter().for_each(|transport| transport.close());
        }
        self.until_lost();
        self.server.close();
        self.stage.assert_idle();
        self.client.assert_in_order(Some(&self.peer), self.stage.name());
        self.peer.assert_in_order(Some(&self.client), self.stage.name());
        self.stage.assert_reports(&[]);
    }
}

pub fn connect(stage: &Stage, server: &Server, connector: &TlsConnector) -> io::Result<Rc<Probe>> {
    let probe = Probe::new("the client");
    let face = Face(Rc::clone(&probe));
    stage.run(connector.create_connection(server.local_addr(), "localhost", || face))?;
    Ok(probe)
}

/// Runs `test` with a new pair on each back end.
pub fn with_pairs(test: impl Fn(&Pair)) {
    guarded(|| {
        for on in On::ALL {
            let pair = Pair::new(on);
            test(&pair);
            pair.end();
        }
    });
}

/// The TLS error inside `error`.
#[track_caller]
pub fn tls_error(error: &io::Error) -> TlsError {
    TlsError::of(error).unwrap_or_else(|| panic!("not about TLS: {error:?}")).clone()
}
