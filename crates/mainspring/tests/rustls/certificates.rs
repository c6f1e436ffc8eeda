//! Certificates of a test CA, and configurations that use them.

use mainspring::net::tls::rustls::crypto::{CryptoProvider, ring};
use mainspring::net::tls::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use mainspring::net::tls::rustls::server::WebPkiClientVerifier;
use mainspring::net::tls::rustls::{ClientConfig, ConfigBuilder, RootCertStore, ServerConfig, WantsVerifier};
use mainspring::net::tls::{TlsAcceptor, TlsConnector};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use std::sync::{Arc, LazyLock};
use test_support::untracked;

static AUTHORITY: LazyLock<CertifiedIssuer<'static, KeyPair>> = LazyLock::new(|| {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, "the authority of these tests");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
});

fn authority() -> &'static CertifiedIssuer<'static, KeyPair> {
    untracked(|| &*AUTHORITY)
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

/// The crypto provider of these tests. The process has no default provider.
pub fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: LazyLock<Arc<CryptoProvider>> = LazyLock::new(|| Arc::new(ring::default_provider()));
    untracked(|| Arc::clone(&PROVIDER))
}

/// Starts a client configuration.
pub fn client_builder() -> ConfigBuilder<ClientConfig, WantsVerifier> {
    ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions().unwrap()
}

/// Starts a server configuration.
pub fn server_builder() -> ConfigBuilder<ServerConfig, WantsVerifier> {
    ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions().unwrap()
}

/// A server for `localhost`.
pub fn server_config() -> ServerConfig {
    thread_local! {
        /// A client configuration for one test, with its own session cache.
        static SERVER: ServerConfig = {
            let (chain, key) = certificate("localhost");
            server_builder().with_no_client_auth().with_single_cert(chain, key).unwrap()
        };
    }
    SERVER.with(ServerConfig::clone)
}

/// A server for `localhost` that requires client certificates.
pub fn strict_server_config() -> ServerConfig {
    let (chain, key) = certificate("localhost");
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots()), provider()).build().unwrap();
    server_builder().with_client_cert_verifier(verifier).with_single_cert(chain, key).unwrap()
}

/// Trusts the test CA, without a shared session cache.
pub fn client_config() -> ClientConfig {
    let roots = roots();
    client_builder().with_root_certificates(roots).with_no_client_auth()
}

pub fn acceptor() -> TlsAcceptor {
    TlsAcceptor::new(server_config())
}

pub fn connector() -> TlsConnector {
    TlsConnector::new(client_config())
}
