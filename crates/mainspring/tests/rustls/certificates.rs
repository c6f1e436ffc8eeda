//! Certificates of a test authority, and configurations that use them.

use crate::leak_check::for_good;
use mainspring::net::tls::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use mainspring::net::tls::rustls::server::WebPkiClientVerifier;
use mainspring::net::tls::rustls::{ClientConfig, RootCertStore, ServerConfig};
use mainspring::net::tls::{TlsAcceptor, TlsConnector};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use std::sync::{Arc, LazyLock};

static AUTHORITY: LazyLock<CertifiedIssuer<'static, KeyPair>> = LazyLock::new(|| {
    // Whoever is first installs the cryptography for the whole program.
    let _ = ClientConfig::builder();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, "the authority of these tests");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
});

fn authority() -> &'static CertifiedIssuer<'static, KeyPair> {
    for_good(|| &*AUTHORITY)
}

/// A certificate for `name`, with its key.
pub fn certificate(name: &str) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    let certificate = params.signed_by(&key, authority()).unwrap();
    (vec![certificate.der().clone()], PrivatePkcs8KeyDer::from(key.serialize_der()).into())
}

pub fn roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add(authority().der().clone()).unwrap();
    roots
}

/// Serves as `localhost`.
pub fn server_config() -> ServerConfig {
    thread_local! {
        /// A test's own: it remembers the sessions.
        static SERVER: ServerConfig = {
            let (chain, key) = certificate("localhost");
            ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key).unwrap()
        };
    }
    SERVER.with(ServerConfig::clone)
}

/// Serves as `localhost` those who have a certificate.
pub fn strict_server_config() -> ServerConfig {
    let (chain, key) = certificate("localhost");
    let verifier = WebPkiClientVerifier::builder(Arc::new(roots())).build().unwrap();
    ServerConfig::builder().with_client_cert_verifier(verifier).with_single_cert(chain, key).unwrap()
}

/// Trusts the authority, and remembers no sessions of others.
pub fn client_config() -> ClientConfig {
    let roots = roots();
    ClientConfig::builder().with_root_certificates(roots).with_no_client_auth()
}

pub fn acceptor() -> TlsAcceptor {
    TlsAcceptor::new(server_config())
}

pub fn connector() -> TlsConnector {
    TlsConnector::new(client_config())
}
