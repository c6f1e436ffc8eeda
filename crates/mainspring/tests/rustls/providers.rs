//! The configuration selects the crypto provider, regardless of other providers in the program.

use crate::certificates::{certificate, roots};
use mainspring::net::tls::rustls::crypto::{CryptoProvider, ring};
use mainspring::net::tls::rustls::{ClientConfig, ServerConfig};
use mainspring::net::tls::{TlsAcceptor, TlsConnector};
use std::sync::Arc;
use test_support::isolated;

/// The providers of this build.
fn providers() -> Vec<CryptoProvider> {
    vec![
        ring::default_provider(),
        #[cfg(feature = "rustls-aws-lc-rs")]
        mainspring::net::tls::rustls::crypto::aws_lc_rs::default_provider(),
    ]
}

fn connector(provider: CryptoProvider) -> TlsConnector {
    let config = ClientConfig::builder_with_provider(Arc::new(provider));
    let config = config.with_safe_default_protocol_versions().unwrap();
    TlsConnector::new(config.with_root_certificates(roots()).with_no_client_auth())
}

fn acceptor(provider: CryptoProvider) -> TlsAcceptor {
    let (chain, key) = certificate("localhost");
    let config = ServerConfig::builder_with_provider(Arc::new(provider));
    let config = config.with_safe_default_protocol_versions().unwrap();
    TlsAcceptor::new(config.with_no_client_auth().with_single_cert(chain, key).unwrap())
}

#[test]
fn any_two_providers_interoperate_without_a_process_default() {
    isolated(|| {
        for client in providers() {
            for server in providers() {
                let (connector, acceptor) = (connector(client.clone()), acceptor(server));
                mainspring::run(async {
                    let server = acceptor
                        .start_server("127.0.0.1:0", |stream| async move {
                            let line = stream.read_line().await?;
                            stream.write_all(&line).await?;
                            stream.close().await
                        })
                        .await
                        .unwrap();
                    let stream = connector.open_connection(server.local_addr(), "localhost").await.unwrap();
                    stream.write_all(b"a secret\n").await.unwrap();
                    assert_eq!(stream.read_line().await.unwrap(), b"a secret\n");
                    stream.close().await.unwrap();
                })
                .unwrap();
            }
        }
        assert!(CryptoProvider::get_default().is_none());
    });
}
