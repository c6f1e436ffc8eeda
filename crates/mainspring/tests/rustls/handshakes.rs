//! Handshakes that succeed and that fail.

use crate::certificates::{
    acceptor, certificate, client_builder, client_config, connector, provider, roots, server_builder,
    server_config, strict_server_config,
};
use crate::pair::{Pair, connect, tls_error, tls_server};
use crate::support::Stage;
use crate::support::probe::{Face, Probe};
use mainspring::net::tls::rustls::server::{ClientHello, ResolvesServerCert};
use mainspring::net::tls::rustls::sign::CertifiedKey;
use mainspring::net::tls::rustls::{self, ClientConfig, ProtocolVersion};
use mainspring::net::tls::{TlsAcceptor, TlsConnector, TlsError, TlsInfo};
use mainspring::{EventLoop, Protocol, Transport};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use test_support::{DELIBERATE, On, guarded};

fn info(probe: &Probe) -> TlsInfo {
    TlsInfo::of(&probe.transport().unwrap()).unwrap()
}

#[test]
fn both_protocols_are_connected_when_the_handshake_is_done() {
    guarded(|| {
        for on in On::ALL {
            let pair = Pair::new(on);
            assert_eq!((pair.client.made.get(), pair.peer.made.get()), (1, 1));
            let transport = pair.client.transport().unwrap();
            assert_eq!(transport.peer_addr(), Some(pair.server.local_addr()));
            assert_eq!(info(&pair.client).protocol_version(), Some(ProtocolVersion::TLSv1_3));
            assert_eq!(info(&pair.client).peer_certificates().len(), 1);
            assert_eq!(info(&pair.peer).server_name(), Some("localhost"));
            assert!(info(&pair.client).cipher_suite().is_some());
            assert_eq!(pair.stage.event_loop.metrics().timers, 0, "a time limit is still there");
            pair.end();
        }
    });
}

#[test]
fn the_older_version_works_too() {
    guarded(|| {
        let client = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS12])
            .unwrap()
            .with_root_certificates(roots())
            .with_no_client_auth();
        let pair = Pair::with(On::Epoll, &acceptor(), &TlsConnector::new(client));
        assert_eq!(info(&pair.client).protocol_version(), Some(ProtocolVersion::TLSv1_2));
        pair.client.write(100_000);
        pair.peer.write(100_000);
        pair.let_arrive();
        pair.end();
    });
}

#[test]
fn a_protocol_is_agreed_on_by_alpn() {
    guarded(|| {
        let (mut client, mut server) = (client_config(), server_config());
        client.alpn_protocols = vec![b"first".to_vec(), b"second".to_vec()];
        server.alpn_protocols = vec![b"second".to_vec()];
        let pair = Pair::with(On::Epoll, &TlsAcceptor::new(server), &TlsConnector::new(client));
        assert_eq!(info(&pair.client).alpn_protocol(), Some(&b"second"[..]));
        assert_eq!(info(&pair.peer).alpn_protocol(), Some(&b"second"[..]));
        pair.end();
    });
}

#[test]
fn a_client_shows_its_certificate() {
    guarded(|| {
        let (chain, key) = certificate("a client");
        let client = client_builder()
            .with_root_certificates(roots())
            .with_client_auth_cert(chain.clone(), key)
            .unwrap();
        let acceptor = TlsAcceptor::new(strict_server_config());
        let pair = Pair::with(On::Epoll, &acceptor, &TlsConnector::new(client));
        assert_eq!(info(&pair.peer).peer_certificates(), chain);
        pair.end();
    });
}

#[test]
fn a_client_without_a_certificate_is_refused_by_those_who_want_one() {
    guarded(|| {
        let stage = Stage::new(On::Epoll, "no client certificate");
        let (server, accepted) = stage.run(tls_server(&TlsAcceptor::new(strict_server_config()))).unwrap();
        // In TLS 1.3 the client is done before the server verifies its certificate.
        let client = connect(&stage, &server, &connector()).unwrap();
        stage.until("the client is told", || client.lost.get() == 1);
        let error = client.error.take().unwrap();
        let TlsError::Rustls(rustls::Error::AlertReceived(alert)) = tls_error(&error) else {
            panic!("{error:?}")
        };
        assert_eq!(alert, rustls::AlertDescription::CertificateRequired);
        assert_eq!(accepted.borrow()[0].made.get(), 0);
        stage.assert_reports(&["A TLS handshake failed: peer sent no certificates"]);
        drop(server);
        stage.assert_idle();
    });
}

#[test]
fn a_session_is_used_again() {
    guarded(|| {
        let stage = Stage::new(On::Epoll, "resumption");
        let (server, accepted) = stage.run(tls_server(&acceptor())).unwrap();
        let connector = connector();
        for round in 0..3 {
            let client = connect(&stage, &server, &connector).unwrap();
            stage.until("it is accepted", || {
                accepted.borrow().get(round).is_some_and(|it| it.made.get() == 1)
            });
            assert_eq!(info(&client).is_resumed(), round > 0, "round {round}");
            // The session ticket arrives with the first data.
            accepted.borrow()[round].write(1);
            stage.until("it arrives", || client.received.borrow().len() == 1);
            client.transport().unwrap().close();
            stage.until("it ends", || client.lost.get() == 1 && accepted.borrow()[round].lost.get() == 1);
        }
        drop(server);
        stage.assert_idle();
    });
}

/// The result of connecting to the probe server with another server name.
fn refusal(name: &str) -> (io::Error, Vec<String>) {
    let stage = Stage::new(On::Epoll, format!("as {name}"));
    let (server, accepted) = stage.run(tls_server(&acceptor())).unwrap();
    let probe = Probe::new("the client");
    let face = Face(Rc::clone(&probe));
    let connector = connector();
    let result = stage.run(connector.create_connection(server.local_addr(), name, || face));
    drop(server);
    stage.assert_idle();
    assert_eq!((probe.made.get(), probe.lost.get()), (0, 0), "told of an end without a beginning");
    assert!(accepted.borrow().iter().all(|peer| peer.made.get() == 0));
    (result.map(drop).unwrap_err(), stage.reports.take())
}

#[test]
fn a_certificate_for_another_name_is_refused_in_plain_words() {
    guarded(|| {
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
fn what_is_no_name_is_refused_before_anything_is_connected() {
    guarded(|| {
        let (error, reports) = refusal("not a name");
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        assert!(matches!(tls_error(&error), TlsError::InvalidName(name) if name == "not a name"));
        assert!(reports.is_empty());
    });
}

#[test]
fn a_certificate_of_an_unknown_authority_is_refused() {
    guarded(|| {
        let stage = Stage::new(On::Epoll, "an unknown authority");
        let key = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let private = rustls::pki_types::PrivatePkcs8KeyDer::from(key.signing_key.serialize_der()).into();
        let config = server_builder()
            .with_no_client_auth()
            .with_single_cert(vec![key.cert.der().clone()], private)
            .unwrap();
        let (server, _) = stage.run(tls_server(&TlsAcceptor::new(config))).unwrap();
        let error = connect(&stage, &server, &connector()).map(drop).unwrap_err();
        let TlsError::Rustls(rustls::Error::InvalidCertificate(reason)) = tls_error(&error) else {
            panic!("{error:?}")
        };
        assert_eq!(reason, rustls::CertificateError::UnknownIssuer);
        drop(server);
        stage.assert_idle();
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
fn a_server_that_does_not_speak_tls_is_told_from_one_that_does() {
    guarded(|| {
        for greeting in [&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], b"SSH-2.0-OpenSSH_9.6\r\n"] {
            let stage = Stage::new(On::Epoll, "a plain server");
            let event_loop = stage.event_loop.clone();
            let server = stage.run(event_loop.create_server("127.0.0.1:0", 10, || Plain(greeting))).unwrap();
            let error = connect(&stage, &server, &connector()).map(drop).unwrap_err();
            assert!(matches!(tls_error(&error), TlsError::NotTls), "{error:?}");
            assert_eq!(error.to_string(), "the peer does not speak TLS");
            drop(server);
            stage.assert_idle();
            stage.assert_reports(&[]);
        }
    });
}

#[test]
fn a_client_that_does_not_speak_tls_is_reported() {
    guarded(|| {
        let stage = Stage::new(On::Epoll, "a plain client");
        let (server, accepted) = stage.run(tls_server(&acceptor())).unwrap();
        let plain = || Plain(b"GET / HTTP/1.1\r\n\r\n");
        let (transport, _) =
            stage.run(stage.event_loop.create_connection(server.local_addr(), plain)).unwrap();
        stage.until("it is thrown out", || transport.is_closing());
        stage.assert_reports(&["A TLS handshake failed: the peer does not speak TLS"]);
        assert_eq!(accepted.borrow()[0].made.get(), 0);
        drop(server);
        stage.assert_idle();
    });
}

#[test]
fn a_peer_that_goes_away_during_the_handshake_is_an_everyday_thing_to_a_server() {
    guarded(|| {
        let stage = Stage::new(On::Epoll, "gone");
        let (server, accepted) = stage.run(tls_server(&acceptor())).unwrap();
        let plain = || Plain(b"\x16\x03");
        let (transport, _) =
            stage.run(stage.event_loop.create_connection(server.local_addr(), plain)).unwrap();
        stage.until("it is accepted", || accepted.borrow().len() == 1);
        transport.close();
        drop(server);
        stage.assert_idle();
        stage.assert_reports(&[]);
        assert_eq!(accepted.borrow()[0].made.get(), 0);
    });
}

/// Closes as soon as something arrives.
struct Deaf;

impl Protocol for Deaf {
    fn data_received(&self, transport: &Transport, _: &[u8]) {
        transport.close();
    }
}

#[test]
fn a_client_is_told_of_a_server_that_goes_away() {
    guarded(|| {
        let stage = Stage::new(On::Epoll, "gone");
        let server = stage.run(stage.event_loop.create_server("127.0.0.1:0", 10, || Deaf)).unwrap();
        let error = connect(&stage, &server, &connector()).map(drop).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        assert!(matches!(tls_error(&error), TlsError::HandshakeReset));
        drop(server);
        stage.assert_idle();
    });
}

/// Never sends anything.
struct Mute;

impl Protocol for Mute {}

#[test]
fn a_handshake_has_a_time_limit() {
    guarded(|| {
        let stage = Stage::new(On::Epoll, "a mute server");
        let server = stage.run(stage.event_loop.create_server("127.0.0.1:0", 10, || Mute)).unwrap();
        let begun = stage.event_loop.time();
        let limit = Duration::from_secs(5);
        let error = connect(&stage, &server, &connector().handshake_timeout(limit)).map(drop).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(matches!(tls_error(&error), TlsError::HandshakeTimeout(told) if told == limit));
        let taken = stage.event_loop.time().saturating_duration_since(begun);
        assert!(taken >= limit && taken < 2 * limit, "{taken:?}");
        drop(server);
        stage.assert_idle();
    });
}

#[test]
fn a_server_does_not_wait_for_ever_either() {
    guarded(|| {
        let stage = Stage::new(On::Epoll, "a mute client");
        let acceptor = acceptor().handshake_timeout(Duration::from_secs(5));
        let (server, _) = stage.run(tls_server(&acceptor)).unwrap();
        let (transport, _) =
            stage.run(stage.event_loop.create_connection(server.local_addr(), || Mute)).unwrap();
        stage.run(mainspring::sleep(Duration::from_secs(4)));
        stage.passes(3);
        assert!(!transport.is_closing());
        stage.run(mainspring::sleep(Duration::from_secs(2)));
        stage.until("it is thrown out", || transport.is_closing());
        stage.assert_reports(&["A TLS handshake failed: the TLS handshake took longer than 5s"]);
        drop(server);
        stage.assert_idle();
    });
}

/// A certificate resolver that calls back into the connection or panics.
#[derive(Debug)]
struct Odd(fn());

impl ResolvesServerCert for Odd {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        (self.0)();
        None
    }
}

fn odd_server(odd: fn()) -> TlsAcceptor {
    TlsAcceptor::new(server_builder().with_no_client_auth().with_cert_resolver(Arc::new(Odd(odd))))
}

#[test]
fn a_panic_in_the_programs_own_part_of_the_handshake_ends_that_connection_only() {
    guarded(|| {
        let stage = Stage::new(On::Epoll, "a panic");
        let (server, accepted) = stage.run(tls_server(&odd_server(|| panic!("{DELIBERATE}")))).unwrap();
        for round in 1..3 {
            connect(&stage, &server, &connector()).map(drop).unwrap_err();
            stage.until("it is over", || {
                accepted.borrow().len() == round && !stage.reports.borrow().is_empty()
            });
            let reports = stage.reports.take();
            assert!(reports.iter().all(|report| report.contains(DELIBERATE)), "{reports:?}");
        }
        drop(server);
        stage.assert_idle();
    });
}

thread_local! {
    static VICTIM: std::cell::RefCell<Option<Transport>> = const { std::cell::RefCell::new(None) };
}

#[test]
fn the_programs_own_part_of_the_handshake_may_use_the_loop_and_the_transport_below() {
    guarded(|| {
        for act in [
            || drop(EventLoop::current().call_soon(|| {})),
            || VICTIM.with_borrow(|victim| victim.iter().for_each(Transport::abort)),
            || VICTIM.with_borrow(|victim| victim.iter().for_each(Transport::close)),
        ] {
            let stage = Stage::new(On::Epoll, "an odd resolver");
            let acceptor = odd_server(act);
            let make = move || {
                let tls = acceptor.protocol(Face(Probe::new("the server")).into_rc());
                Watched(tls)
            };
            let server = stage.run(stage.event_loop.create_server("127.0.0.1:0", 10, make)).unwrap();
            connect(&stage, &server, &connector()).map(drop).unwrap_err();
            VICTIM.take();
            drop(server);
            stage.assert_idle();
        }
    });
}

/// Publishes the lower transport.
struct Watched(mainspring::net::tls::TlsProtocol);

impl Protocol for Watched {
    fn connection_made(&self, transport: &Transport) {
        VICTIM.set(Some(transport.clone()));
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

impl IntoRc for Face {}
