//! Handshakes that succeed and that fail.

use crate::certificates::{
    acceptor, certificate, client_builder, client_config, connector, provider, roots, server_builder,
    server_config, strict_server_config,
};
use crate::pair::{Pair, connect, tls_error, tls_server};
use crate::support::TestLoop;
use crate::support::probe::{Probe, ProbeProtocol};
use mainspring::net::tls::rustls::server::{ClientHello, ResolvesServerCert};
use mainspring::net::tls::rustls::sign::CertifiedKey;
use mainspring::net::tls::rustls::{self, ClientConfig, ProtocolVersion};
use mainspring::net::tls::{TlsAcceptor, TlsConnector, TlsError, TlsInfo};
use mainspring::{EventLoop, Protocol, Transport};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use test_support::{DELIBERATE, TestBackend, isolated};

fn info(probe: &Probe) -> TlsInfo {
    TlsInfo::of(&probe.transport().unwrap()).unwrap()
}

#[test]
fn both_protocols_are_connected_when_the_handshake_is_done() {
    isolated(|| {
        for on in TestBackend::ALL {
            let pair = Pair::new(on);
            assert_eq!((pair.client.made.get(), pair.peer.made.get()), (1, 1));
            let transport = pair.client.transport().unwrap();
            assert_eq!(transport.peer_addr(), Some(pair.server.local_addr()));
            assert_eq!(info(&pair.client).protocol_version(), Some(ProtocolVersion::TLSv1_3));
            assert_eq!(info(&pair.client).peer_certificates().len(), 1);
            assert_eq!(info(&pair.peer).server_name(), Some("localhost"));
            assert!(info(&pair.client).cipher_suite().is_some());
            assert_eq!(pair.test_loop.event_loop.metrics().timers, 0, "the handshake timer is still set");
            pair.close_and_check();
        }
    });
}

#[test]
fn tls_1_2_works() {
    isolated(|| {
        let client = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS12])
            .unwrap()
            .with_root_certificates(roots())
            .with_no_client_auth();
        let pair = Pair::with(TestBackend::Epoll, &acceptor(), &TlsConnector::new(client));
        assert_eq!(info(&pair.client).protocol_version(), Some(ProtocolVersion::TLSv1_2));
        pair.client.write(100_000);
        pair.peer.write(100_000);
        pair.run_until_received();
        pair.close_and_check();
    });
}

#[test]
fn alpn_negotiates_a_protocol() {
    isolated(|| {
        let (mut client, mut server) = (client_config(), server_config());
        client.alpn_protocols = vec![b"first".to_vec(), b"second".to_vec()];
        server.alpn_protocols = vec![b"second".to_vec()];
        let pair = Pair::with(TestBackend::Epoll, &TlsAcceptor::new(server), &TlsConnector::new(client));
        assert_eq!(info(&pair.client).alpn_protocol(), Some(&b"second"[..]));
        assert_eq!(info(&pair.peer).alpn_protocol(), Some(&b"second"[..]));
        pair.close_and_check();
    });
}

#[test]
fn the_server_sees_the_client_certificate() {
    isolated(|| {
        let (chain, key) = certificate("a client");
        let client = client_builder()
            .with_root_certificates(roots())
            .with_client_auth_cert(chain.clone(), key)
            .unwrap();
        let acceptor = TlsAcceptor::new(strict_server_config());
        let pair = Pair::with(TestBackend::Epoll, &acceptor, &TlsConnector::new(client));
        assert_eq!(info(&pair.peer).peer_certificates(), chain);
        pair.close_and_check();
    });
}

#[test]
fn a_client_without_a_required_certificate_is_refused() {
    isolated(|| {
        let test_loop = TestLoop::new(TestBackend::Epoll, "no client certificate");
        let (server, accepted) =
            test_loop.run(tls_server(&TlsAcceptor::new(strict_server_config()))).unwrap();
        // In TLS 1.3 the client is done before the server verifies its certificate.
        let client = connect(&test_loop, &server, &connector()).unwrap();
        test_loop.until("the client is lost", || client.lost.get() == 1);
        let error = client.error.take().unwrap();
        let TlsError::Rustls(rustls::Error::AlertReceived(alert)) = tls_error(&error) else {
            panic!("{error:?}")
        };
        assert_eq!(alert, rustls::AlertDescription::CertificateRequired);
        assert_eq!(accepted.borrow()[0].made.get(), 0);
        test_loop.assert_reports(&["A TLS handshake failed: peer sent no certificates"]);
        drop(server);
        test_loop.assert_idle();
    });
}

#[test]
fn a_session_is_resumed() {
    isolated(|| {
        let test_loop = TestLoop::new(TestBackend::Epoll, "resumption");
        let (server, accepted) = test_loop.run(tls_server(&acceptor())).unwrap();
        let connector = connector();
        for round in 0..3 {
            let client = connect(&test_loop, &server, &connector).unwrap();
            test_loop.until("the connection is accepted", || {
                accepted.borrow().get(round).is_some_and(|it| it.made.get() == 1)
            });
            assert_eq!(info(&client).is_resumed(), round > 0, "round {round}");
            // The session ticket arrives with the first data.
            accepted.borrow()[round].write(1);
            test_loop.until("the data arrives", || client.received.borrow().len() == 1);
            client.transport().unwrap().close();
            test_loop.until("both ends are lost", || {
                client.lost.get() == 1 && accepted.borrow()[round].lost.get() == 1
            });
        }
        drop(server);
        test_loop.assert_idle();
    });
}

/// The result of connecting to the probe server with another server name.
fn refusal(name: &str) -> (io::Error, Vec<String>) {
    let test_loop = TestLoop::new(TestBackend::Epoll, format!("as {name}"));
    let (server, accepted) = test_loop.run(tls_server(&acceptor())).unwrap();
    let probe = Probe::new("the client");
    let protocol = ProbeProtocol(Rc::clone(&probe));
    let connector = connector();
    let result = test_loop.run(connector.create_connection(server.local_addr(), name, || protocol));
    drop(server);
    test_loop.assert_idle();
    assert_eq!((probe.made.get(), probe.lost.get()), (0, 0), "connection_lost without connection_made");
    assert!(accepted.borrow().iter().all(|peer| peer.made.get() == 0));
    (result.map(drop).unwrap_err(), test_loop.reports.take())
}

#[test]
fn a_certificate_for_another_name_is_refused_with_a_clear_message() {
    isolated(|| {
        let (error, reports) = refusal("elsewhere.example");
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        let TlsError::WrongName { expected, presented } = tls_error(&error) else { panic!("{error:?}") };
        assert_eq!(expected, "elsewhere.example");
        assert!(presented.iter().any(|name| name.contains("localhost")), "{presented:?}");
        assert!(error.to_string().contains("not valid for \"elsewhere.example\""), "{error}");
        assert_eq!(reports, ["A TLS handshake failed: received fatal alert: BadCertificate"]);
    });
}

#[test]
fn an_invalid_server_name_is_refused_before_connecting() {
    isolated(|| {
        let (error, reports) = refusal("not a name");
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        assert!(matches!(tls_error(&error), TlsError::InvalidName(name) if name == "not a name"));
        assert!(reports.is_empty());
    });
}

#[test]
fn a_certificate_of_an_unknown_ca_is_refused() {
    isolated(|| {
        let test_loop = TestLoop::new(TestBackend::Epoll, "an unknown CA");
        let key = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let private = rustls::pki_types::PrivatePkcs8KeyDer::from(key.signing_key.serialize_der()).into();
        let config = server_builder()
            .with_no_client_auth()
            .with_single_cert(vec![key.cert.der().clone()], private)
            .unwrap();
        let (server, _) = test_loop.run(tls_server(&TlsAcceptor::new(config))).unwrap();
        let error = connect(&test_loop, &server, &connector()).map(drop).unwrap_err();
        let TlsError::Rustls(rustls::Error::InvalidCertificate(reason)) = tls_error(&error) else {
            panic!("{error:?}")
        };
        assert_eq!(reason, rustls::CertificateError::UnknownIssuer);
        drop(server);
        test_loop.assert_idle();
    });
}

/// Sends something that is not TLS.
struct Plain(&'static [u8]);

impl Protocol for Plain {
    fn connection_made(&self, transport: &Transport) {
        transport.write(self.0);
    }
}

#[test]
fn connecting_to_a_plain_server_is_a_clear_error() {
    isolated(|| {
        for greeting in [&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], b"SSH-2.0-OpenSSH_9.6\r\n"] {
            let test_loop = TestLoop::new(TestBackend::Epoll, "a plain server");
            let event_loop = test_loop.event_loop.clone();
            let server =
                test_loop.run(event_loop.create_server("127.0.0.1:0", 10, || Plain(greeting))).unwrap();
            let error = connect(&test_loop, &server, &connector()).map(drop).unwrap_err();
            assert!(matches!(tls_error(&error), TlsError::NotTls), "{error:?}");
            assert_eq!(error.to_string(), "the peer does not speak TLS");
            drop(server);
            test_loop.assert_idle();
            test_loop.assert_reports(&[]);
        }
    });
}

#[test]
fn a_client_that_does_not_speak_tls_is_reported() {
    isolated(|| {
        let test_loop = TestLoop::new(TestBackend::Epoll, "a plain client");
        let (server, accepted) = test_loop.run(tls_server(&acceptor())).unwrap();
        let plain = || Plain(b"GET / HTTP/1.1\r\n\r\n");
        let (transport, _) =
            test_loop.run(test_loop.event_loop.create_connection(server.local_addr(), plain)).unwrap();
        test_loop.until("the client is disconnected", || transport.is_closing());
        test_loop.assert_reports(&["A TLS handshake failed: the peer does not speak TLS"]);
        assert_eq!(accepted.borrow()[0].made.get(), 0);
        drop(server);
        test_loop.assert_idle();
    });
}

#[test]
fn a_peer_that_disconnects_during_the_handshake_is_not_reported_by_the_server() {
    isolated(|| {
        let test_loop = TestLoop::new(TestBackend::Epoll, "gone");
        let (server, accepted) = test_loop.run(tls_server(&acceptor())).unwrap();
        let plain = || Plain(b"\x16\x03");
        let (transport, _) =
            test_loop.run(test_loop.event_loop.create_connection(server.local_addr(), plain)).unwrap();
        test_loop.until("the connection is accepted", || accepted.borrow().len() == 1);
        transport.close();
        drop(server);
        test_loop.assert_idle();
        test_loop.assert_reports(&[]);
        assert_eq!(accepted.borrow()[0].made.get(), 0);
    });
}

/// Closes as soon as something arrives.
struct ClosesOnData;

impl Protocol for ClosesOnData {
    fn data_received(&self, transport: &Transport, _: &[u8]) {
        transport.close();
    }
}

#[test]
fn a_client_fails_when_the_server_disconnects_during_the_handshake() {
    isolated(|| {
        let test_loop = TestLoop::new(TestBackend::Epoll, "gone");
        let server =
            test_loop.run(test_loop.event_loop.create_server("127.0.0.1:0", 10, || ClosesOnData)).unwrap();
        let error = connect(&test_loop, &server, &connector()).map(drop).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        assert!(matches!(tls_error(&error), TlsError::HandshakeReset));
        drop(server);
        test_loop.assert_idle();
    });
}

/// Never sends anything.
struct Silent;

impl Protocol for Silent {}

#[test]
fn a_handshake_has_a_time_limit() {
    isolated(|| {
        let test_loop = TestLoop::new(TestBackend::Epoll, "a silent server");
        let server = test_loop.run(test_loop.event_loop.create_server("127.0.0.1:0", 10, || Silent)).unwrap();
        let begun = test_loop.event_loop.time();
        let limit = Duration::from_secs(5);
        let error =
            connect(&test_loop, &server, &connector().handshake_timeout(limit)).map(drop).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(matches!(tls_error(&error), TlsError::HandshakeTimeout(reported) if reported == limit));
        let taken = test_loop.event_loop.time().saturating_duration_since(begun);
        assert!(taken >= limit && taken < 2 * limit, "{taken:?}");
        drop(server);
        test_loop.assert_idle();
    });
}

#[test]
fn a_server_limits_the_handshake_time_too() {
    isolated(|| {
        let test_loop = TestLoop::new(TestBackend::Epoll, "a silent client");
        let acceptor = acceptor().handshake_timeout(Duration::from_secs(5));
        let (server, _) = test_loop.run(tls_server(&acceptor)).unwrap();
        let (transport, _) =
            test_loop.run(test_loop.event_loop.create_connection(server.local_addr(), || Silent)).unwrap();
        test_loop.run(mainspring::sleep(Duration::from_secs(4)));
        test_loop.run_iterations(3);
        assert!(!transport.is_closing());
        test_loop.run(mainspring::sleep(Duration::from_secs(2)));
        test_loop.until("the client is disconnected", || transport.is_closing());
        test_loop.assert_reports(&["A TLS handshake failed: the TLS handshake took longer than 5s"]);
        drop(server);
        test_loop.assert_idle();
    });
}

/// A certificate resolver that runs a function, which may use the connection or panic.
#[derive(Debug)]
struct Resolver(fn());

impl ResolvesServerCert for Resolver {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        (self.0)();
        None
    }
}

fn server_with_resolver(resolver: fn()) -> TlsAcceptor {
    TlsAcceptor::new(server_builder().with_no_client_auth().with_cert_resolver(Arc::new(Resolver(resolver))))
}

#[test]
fn a_panic_in_a_certificate_resolver_ends_only_that_connection() {
    isolated(|| {
        let test_loop = TestLoop::new(TestBackend::Epoll, "a panic");
        let (server, accepted) =
            test_loop.run(tls_server(&server_with_resolver(|| panic!("{DELIBERATE}")))).unwrap();
        for round in 1..3 {
            connect(&test_loop, &server, &connector()).map(drop).unwrap_err();
            test_loop.until("the connection is over", || {
                accepted.borrow().len() == round && !test_loop.reports.borrow().is_empty()
            });
            let reports = test_loop.reports.take();
            assert!(reports.iter().all(|report| report.contains(DELIBERATE)), "{reports:?}");
        }
        drop(server);
        test_loop.assert_idle();
    });
}

thread_local! {
    static LOWER_TRANSPORT: std::cell::RefCell<Option<Transport>> = const { std::cell::RefCell::new(None) };
}

#[test]
fn a_certificate_resolver_may_use_the_loop_and_the_lower_transport() {
    isolated(|| {
        for act in [
            || drop(EventLoop::current().call_soon(|| {})),
            || LOWER_TRANSPORT.with_borrow(|victim| victim.iter().for_each(Transport::abort)),
            || LOWER_TRANSPORT.with_borrow(|victim| victim.iter().for_each(Transport::close)),
        ] {
            let test_loop = TestLoop::new(TestBackend::Epoll, "a resolver that uses the loop");
            let acceptor = server_with_resolver(act);
            let make = move || {
                let tls = acceptor.protocol(ProbeProtocol(Probe::new("the server")).into_rc());
                PublishesLowerTransport(tls)
            };
            let server = test_loop.run(test_loop.event_loop.create_server("127.0.0.1:0", 10, make)).unwrap();
            connect(&test_loop, &server, &connector()).map(drop).unwrap_err();
            LOWER_TRANSPORT.take();
            drop(server);
            test_loop.assert_idle();
        }
    });
}

/// Publishes the lower transport.
struct PublishesLowerTransport(mainspring::net::tls::TlsProtocol);

impl Protocol for PublishesLowerTransport {
    fn connection_made(&self, transport: &Transport) {
        LOWER_TRANSPORT.set(Some(transport.clone()));
        self.0.connection_made(transport);
    }

    fn data_received(&self, transport: &Transport, data: &[u8]) {
        self.0.data_received(transport, data);
    }

    fn connection_lost(&self, transport: &Transport, error: Option<io::Error>) {
        self.0.connection_lost(transport, error);
    }
}

trait IntoRc: Protocol + Sized {
    fn into_rc(self) -> Rc<dyn Protocol> {
        Rc::new(self)
    }
}

impl IntoRc for ProbeProtocol {}
