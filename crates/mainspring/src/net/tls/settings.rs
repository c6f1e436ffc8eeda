//! Settings that [`TlsConnector`](super::TlsConnector) and [`TlsAcceptor`](super::TlsAcceptor) share.

use mainspring_engine::tls::TlsOptions;
use std::time::Duration;

/// Timeouts of one side. The defaults are asyncio's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timeouts {
    pub(super) handshake: Duration,
    pub(super) shutdown: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Timeouts { handshake: Duration::from_secs(60), shutdown: Duration::from_secs(30) }
    }
}

impl Timeouts {
    /// Options for a connection whose protocol has not been called yet.
    pub(super) fn options(self) -> TlsOptions {
        TlsOptions {
            handshake_timeout: self.handshake,
            shutdown_timeout: self.shutdown,
            is_upgrade: false,
            is_writing_paused: false,
        }
    }
}

/// Constructor, timeouts and `Debug` of a type with the fields `config` and `timeouts`.
macro_rules! tls_settings {
    ($side:ident, $config:ty) => {
        impl $side {
            /// Uses asyncio's timeouts: 60 seconds for the handshake, 30 seconds for the shutdown.
            pub fn new(config: impl Into<std::sync::Arc<$config>>) -> Self {
                $side { config: config.into(), timeouts: Timeouts::default() }
            }

            /// Sets the handshake timeout.
            #[must_use]
            pub fn handshake_timeout(mut self, limit: std::time::Duration) -> Self {
                self.timeouts.handshake = limit;
                self
            }

            /// Sets the shutdown timeout: how long the peer may take to answer close_notify and to receive the sent
            /// data.
            #[must_use]
            pub fn shutdown_timeout(mut self, limit: std::time::Duration) -> Self {
                self.timeouts.shutdown = limit;
                self
            }

            /// The rustls configuration.
            pub fn config(&self) -> &std::sync::Arc<$config> {
                &self.config
            }

            pub(super) fn options(&self) -> mainspring_engine::tls::TlsOptions {
                self.timeouts.options()
            }
        }

        impl std::fmt::Debug for $side {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($side)).field("timeouts", &self.timeouts).finish_non_exhaustive()
            }
        }
    };
}

pub(super) use tls_settings;
