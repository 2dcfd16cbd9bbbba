//! The configuration of connections.

use crate::connect::dns::{Resolve, SystemResolver};
use crate::connect::egress_filter::EgressFilter;
use crate::connect::proxy::Proxies;
use crate::connect::source_addresses::SourceAddress;
use crate::connect::tls::identity::Identity;
use crate::http::custom_fields::CustomFields;
use hither_auth::Credentials;
use hither_core::RetryPolicy;
use hither_core::error::{Error, ErrorKind, Result};
use hither_replicas::ReplicasConfig;
use rustls::pki_types::CertificateDer;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

/// Reads over unencrypted `root://` that are verified with page checksums. Otherwise only the
/// 16-bit checksums of TCP protect the bytes there. Reads over TLS are never verified in this way,
/// because TLS protects them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum PageChecksums {
    /// None.
    #[default]
    Never,
    /// Runs of 64 KiB and more, from servers that have page checksums.
    Long,
    /// All. Each range becomes a request of its own. A server without page checksums is an
    /// [`ErrorKind::Unsupported`](hither_core::ErrorKind::Unsupported) error.
    Always,
}

impl FromStr for PageChecksums {
    type Err = Error;

    /// Parses `never`, `long` or `always`. Anything else is [`ErrorKind::Invalid`].
    fn from_str(name: &str) -> Result<Self> {
        match name.trim() {
            "never" => Ok(Self::Never),
            "long" => Ok(Self::Long),
            "always" => Ok(Self::Always),
            _ => {
                let what = format!("{name:?} is not a mode: expected never, long or always");
                Err(Error::new(ErrorKind::Invalid, what).context("what to verify"))
            }
        }
    }
}

/// The configuration of connections, with the timeout of each stage.
///
/// A whole operation has no timeout: it continues as long as bytes arrive.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TransportConfig {
    /// The maximum number of connections to one endpoint. 64 by default, which suits one
    /// interactive job.
    pub max_connections: usize,
    /// The connect timeout: from the first packet to an established connection, including the
    /// handshakes of TLS and proxies. 15 s by default, in which TCP sends its first packet five
    /// times.
    pub connect_timeout: Duration,
    /// Waits for a server that refuses connections, because it may be restarting, for at most the
    /// connect timeout, and for one that refuses requests, because it is busy, for at most the
    /// first-byte timeout. On by default. Off for a program that can use other servers.
    pub wait_for_refusing: bool,
    /// Attempts and pauses of requests. Requests to a busy server are repeated until the first-byte
    /// timeout, or for [`RetryPolicy::busy_timeout`] if that is shorter, whatever the number of
    /// attempts. It has no limit of its own by default.
    pub retry: RetryPolicy,
    /// The first-byte timeout: from the request to the header of the response, or to the last one
    /// of a server that refuses it because it is busy. 60 s by default, because a server may first
    /// fetch the file from tape or compute a checksum.
    pub first_byte_timeout: Duration,
    /// The no-progress timeout: the time without a received byte. 30 s by default, longer than any
    /// retransmission timeout of a working path.
    pub no_progress_timeout: Duration,
    /// The receive buffer of a connection in bytes, requested before connecting. 4 MiB by default;
    /// `connect/socket.rs` explains why the default of the kernel is too small.
    pub receive_buffer_bytes: usize,
    /// The conditions for requesting the same bytes from a second replica.
    pub replicas: ReplicasConfig,
    /// The value of the `User-Agent` field.
    pub user_agent: String,
    /// Fields of all HTTP requests. None by default.
    pub fields: CustomFields,
    /// The login name for XRootD where the URL has none, usually the name of the user. Empty by
    /// default, which stands for `hither`.
    pub login: String,
    /// The reads over unencrypted root:// that are verified with page checksums.
    pub verify: PageChecksums,
    /// Trusted authorities and the client certificate for TLS.
    pub tls: TlsConfig,
    /// The proxies. None by default.
    pub proxies: Proxies,
    /// The addresses or interfaces of this machine over which connections are spread evenly. None
    /// by default: the routing table decides.
    pub sources: Vec<SourceAddress>,
    /// The resolver of host names. That of the system by default.
    pub resolver: Arc<dyn Resolve>,
    /// The filter of addresses that may be connected to. None by default.
    pub gate: Option<Arc<dyn EgressFilter>>,
    /// The credentials. None by default.
    pub credentials: Credentials,
    /// The directory of unnamed temporary files, for files of servers without ranges. That of the
    /// system by default.
    pub spool: Option<PathBuf>,
}

impl Default for TransportConfig {
    fn default() -> Self {
        let mut retry = RetryPolicy::default();
        retry.busy_timeout = Duration::MAX;
        Self {
            max_connections: hither_load::connections::MAX_INTERACTIVE,
            connect_timeout: Duration::from_secs(15),
            wait_for_refusing: true,
            retry,
            first_byte_timeout: Duration::from_secs(60),
            no_progress_timeout: Duration::from_secs(30),
            receive_buffer_bytes: 4 << 20,
            replicas: ReplicasConfig::default(),
            user_agent: concat!("hither/", env!("CARGO_PKG_VERSION")).to_owned(),
            fields: CustomFields::default(),
            login: String::new(),
            verify: PageChecksums::default(),
            tls: TlsConfig::default(),
            proxies: Proxies::default(),
            sources: Vec::new(),
            resolver: Arc::new(SystemResolver),
            gate: None,
            credentials: Credentials::default(),
            spool: None,
        }
    }
}

impl TransportConfig {
    /// The retries of requests, within these timeouts.
    #[must_use]
    pub fn retry_policy(&self) -> RetryPolicy {
        let mut policy = self.retry;
        let most = if self.wait_for_refusing { self.first_byte_timeout } else { Duration::ZERO };
        policy.busy_timeout = policy.busy_timeout.min(most);
        policy
    }

    /// The longest wait for another request while no byte moves: the time that request may take to
    /// connect and to get its response.
    pub(crate) fn turn_timeout(&self) -> Duration {
        self.connect_timeout.saturating_add(self.first_byte_timeout)
    }
}

/// Trusted authorities and the client certificate.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TlsConfig {
    /// Trusts the certificate authorities of the system. On by default. As for other programs,
    /// `SSL_CERT_FILE` and `SSL_CERT_DIR` name their location, if set.
    pub system_roots: bool,
    /// Further trusted certificate authorities, DER.
    pub roots: Vec<CertificateDer<'static>>,
    /// The client certificate for servers that request one. By default that of the credentials.
    pub identity: Option<Arc<Identity>>,
    /// Accepts any server certificate without verification (insecure). Everybody on the path can
    /// then read and change everything, including credentials. For tests.
    pub insecure: bool,
}

impl Default for TlsConfig {
    fn default() -> Self {
        Self { system_roots: true, roots: Vec::new(), identity: None, insecure: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_server_is_asked_for_the_shorter_of_two_times() {
        let mut config = TransportConfig::default();
        assert_eq!(config.retry_policy().busy_timeout, config.first_byte_timeout);
        config.retry.busy_timeout = Duration::from_secs(1);
        assert_eq!(config.retry_policy().busy_timeout, Duration::from_secs(1));
        config.wait_for_refusing = false;
        assert_eq!(config.retry_policy().busy_timeout, Duration::ZERO);
    }
}
