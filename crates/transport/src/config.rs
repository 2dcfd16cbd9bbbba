//! The knobs of a transport.

use crate::connect::dns::{Resolve, SystemResolver};
use crate::connect::egress_filter::EgressFilter;
use crate::connect::proxy::Proxies;
use crate::connect::tls::identity::Identity;
use hither_auth::Credentials;
use hither_core::ReplicasConfig;
use hither_core::error::{Error, ErrorKind, Result};
use rustls::pki_types::CertificateDer;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

/// What is read with checksums of its pages over XRootD's own protocol in clear (`root://`), where TCP's 16 bits are all that
/// else guards the bytes. Over TLS nothing is, as TLS guards everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum PageChecksums {
    /// Nothing.
    #[default]
    Never,
    /// Runs of 64 KiB and more, from servers that have checksums.
    Long,
    /// Everything: each piece is a request of its own. Servers without checksums are refused, as
    /// [`ErrorKind::Unsupported`](hither_core::ErrorKind::Unsupported).
    Always,
}

impl FromStr for PageChecksums {
    type Err = Error;

    /// By its name: `never`, `long` or `always`. Anything else is [`ErrorKind::Invalid`].
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

/// How connections are made and how long each stage may take.
///
/// There is no limit on a whole operation: as long as bytes arrive, it goes on.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TransportConfig {
    /// Most connections to one endpoint. 64 by default, the courtesy of a single interactive job.
    pub max_connections: usize,
    /// First clock: from the first packet to an established connection, handshakes of TLS and proxies included. 15 s by default: TCP itself sends its first
    /// packet five times in that time.
    pub connect_timeout: Duration,
    /// Second clock: from the request to the head of the answer. 60 s by default: a server that fetches from tape or
    /// computes a checksum first may take long.
    pub first_byte_timeout: Duration,
    /// Third clock: without a byte arriving. 30 s by default, beyond any retransmission timeout of a live path.
    pub no_progress_timeout: Duration,
    /// Receive buffer of a connection in bytes, asked for before connecting. 4 MiB by default; see
    /// `connect.rs` for why the kernel's own choice is not good enough.
    pub receive_buffer_bytes: usize,
    /// When to ask a second replica for the same bytes.
    pub replicas: ReplicasConfig,
    /// What this client calls itself.
    pub user_agent: String,
    /// The name to log in with over XRootD where the URL has none: that of the user, by custom. Empty by default, which is
    /// `hither`.
    pub login: String,
    /// What is held against checksums, over XRootD in clear.
    pub verify: PageChecksums,
    /// Whom to trust and who to be, for `https`.
    pub tls: TlsConfig,
    /// Proxies on the way; by default none.
    pub proxies: Proxies,
    /// Who finds addresses; by default the system.
    pub resolver: Arc<dyn Resolve>,
    /// Whom connections may be made to; by default everybody.
    pub gate: Option<Arc<dyn EgressFilter>>,
    /// Who we are to servers. By default nobody.
    pub credentials: Credentials,
}

impl Default for TransportConfig {
    fn default() -> Self {
        Self {
            max_connections: hither_core::tune::connections::MAX_INTERACTIVE,
            connect_timeout: Duration::from_secs(15),
            first_byte_timeout: Duration::from_secs(60),
            no_progress_timeout: Duration::from_secs(30),
            receive_buffer_bytes: 4 << 20,
            replicas: ReplicasConfig::default(),
            user_agent: concat!("hither/", env!("CARGO_PKG_VERSION")).to_owned(),
            login: String::new(),
            verify: PageChecksums::default(),
            tls: TlsConfig::default(),
            proxies: Proxies::default(),
            resolver: Arc::new(SystemResolver),
            gate: None,
            credentials: Credentials::default(),
        }
    }
}

/// Whom to trust and who to be.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TlsConfig {
    /// Whether to trust the certificate authorities that the system trusts; by default so. Where they are is told by
    /// `SSL_CERT_FILE` and `SSL_CERT_DIR`, if set, as for other programs.
    pub system_roots: bool,
    /// Further certificate authorities to trust, DER.
    pub roots: Vec<CertificateDer<'static>>,
    /// The client certificate, for servers that ask for one; if none, that of the credentials.
    pub identity: Option<Arc<Identity>>,
    /// Takes any certificate for good. Whoever is on the way can then read and change everything, credentials included;
    /// for tests.
    pub insecure: bool,
}

impl Default for TlsConfig {
    fn default() -> Self {
        Self { system_roots: true, roots: Vec::new(), identity: None, insecure: false }
    }
}
