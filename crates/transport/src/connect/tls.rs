//! TLS by rustls: version 1.3 (RFC 8446), and 1.2 for servers that support nothing newer.
//!
//! A handshake of TLS 1.3 takes one round trip, so a connection is ready after two: `SYN`,
//! `ClientHello`. The client's offer must not cost a third one, so the key share is for the groups
//! that servers prefer, and a server that required another (`HelloRetryRequest`) is remembered with
//! its group. The first message has some 300 bytes and the server's response 2 to 5 KB, which fits
//! its initial window of ten segments. With a ticket of an earlier connection the response contains
//! no certificates and has 250 bytes.
//!
//! The trusted authorities are those of the system and those that a user names: grids have
//! authorities that no system knows. They are read once per client, during the TCP handshake of the
//! first connection. The client certificate is sent to servers that request one and may see it: the
//! server that the user named, and those to which credentials may follow a redirect. It is sent
//! unchecked: proxy certificates of RFC 3820 are signed by a certificate that is not an authority,
//! which TLS libraries reject, and judging them is up to the server.
//!
//! [`error_text`] explains errors; [`verify`] collects the names and dates in a certificate.

mod error_text;
pub(crate) mod identity;
mod roots;
mod tickets;
mod verify;

pub(crate) use error_text::TlsErrorText;

use crate::authorization;
use crate::config::TlsConfig;
use crate::connect::metered_stream::MeteredStream;
use crate::connect::tls::identity::Identity;
use crate::location::Location;
use hither_auth::Credentials;
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::sync::lock;
use rustls::client::{ResolvesClientCert, Resumption};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::ServerName;
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, HandshakeKind, ProtocolVersion, SignatureScheme};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::SystemTime;
use tokio::io::{AsyncRead, AsyncWrite, BufReader};
use tokio::sync::OnceCell;
use tokio_rustls::TlsConnector;
use tracing::debug;

/// The TLS state that all connections of a client share.
#[derive(Debug)]
pub(crate) struct TlsClient {
    config: TlsConfig,
    credentials: Credentials,
    /// For servers that may receive credentials.
    trusted_resolver: Arc<ClientCertResolver>,
    /// For all others.
    anonymous_resolver: Arc<ClientCertResolver>,
    ready: OnceCell<Ready>,
}

/// The TLS configurations for servers that may receive credentials, and for all others. Sessions of
/// one are never resumed by the other.
#[derive(Debug)]
struct Ready {
    trusted: Offers,
    anonymous: Offers,
}

/// The protocol above TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AlpnChoice {
    /// HTTP/1.1 only.
    Http1,
    /// HTTP/2 if the server supports it, else HTTP/1.1.
    Http2,
    /// XRootD, which has no ALPN name.
    Xrootd,
}

/// One TLS configuration per offer of protocols (ALPN, RFC 7301).
#[derive(Debug, Clone)]
struct Offers {
    http1: Arc<ClientConfig>,
    http2: Arc<ClientConfig>,
    xrootd: Arc<ClientConfig>,
}

impl Offers {
    fn of(config: &ClientConfig) -> Self {
        let offering = |names: &[&[u8]]| {
            let mut config = config.clone();
            config.alpn_protocols = names.iter().map(|name| name.to_vec()).collect();
            Arc::new(config)
        };
        Self { http1: offering(&[HTTP1]), http2: offering(&[HTTP2, HTTP1]), xrootd: offering(&[]) }
    }

    fn for_what_is(&self, above: AlpnChoice) -> &Arc<ClientConfig> {
        match above {
            AlpnChoice::Http1 => &self.http1,
            AlpnChoice::Http2 => &self.http2,
            AlpnChoice::Xrootd => &self.xrootd,
        }
    }
}

/// The ALPN name of HTTP/1.1.
const HTTP1: &[u8] = b"http/1.1";
/// The ALPN name of HTTP/2 (RFC 9113 section 3.2).
const HTTP2: &[u8] = b"h2";

/// A completed handshake.
pub(crate) struct TlsHandshake<S> {
    pub(crate) stream: TlsStream<S>,
    /// The number of its round trips.
    pub(crate) round_trips: u64,
    /// The server chose HTTP/2.
    pub(crate) multiplexes: bool,
}

/// The time after which the client certificate is read again, in seconds: a proxy certificate may
/// have been renewed.
const CERTIFICATE_SECONDS: u64 = 60;

/// A TLS stream over a metered connection. It reads records from the kernel in large pieces,
/// because rustls by itself would read 4 KiB at a time.
pub(crate) type TlsStream<S = MeteredStream> = tokio_rustls::client::TlsStream<BufReader<S>>;

/// Four records of maximum size.
const READ_BYTES: usize = 64 * 1024;

impl TlsClient {
    pub(crate) fn new(config: TlsConfig, credentials: Credentials) -> Self {
        let trusted_resolver = Arc::<ClientCertResolver>::default();
        let anonymous_resolver = Arc::default();
        Self { config, credentials, trusted_resolver, anonymous_resolver, ready: OnceCell::new() }
    }

    /// Reads the trusted authorities once, and the client certificate whenever it is stale.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Local`] if no authority is trusted, [`ErrorKind::Unauthenticated`] if a client
    /// certificate was configured and cannot be used.
    pub(crate) async fn prepare(&self, location: &Location) -> Result<()> {
        self.offers(location).await.map(drop)
    }

    async fn offers(&self, location: &Location) -> Result<&Offers> {
        let load = || async {
            let config = self.config.clone();
            let credentials = self.credentials.clone();
            let trusted_resolver = Arc::clone(&self.trusted_resolver);
            let anonymous_resolver = Arc::clone(&self.anonymous_resolver);
            blocking(move || {
                let trusted = client_config(with_anchors(config, &credentials)?, trusted_resolver)?;
                let mut anonymous = trusted.clone();
                anonymous.client_auth_cert_resolver = anonymous_resolver;
                anonymous.resumption = Resumption::store(Arc::new(tickets::Tickets::default()));
                Ok(Ready { trusted: Offers::of(&trusted), anonymous: Offers::of(&anonymous) })
            })
            .await
        };
        let ready = self.ready.get_or_try_init(load).await?;
        if !location.may_receive_credentials(&self.credentials) {
            return Ok(&ready.anonymous);
        }
        self.read_certificate(location).await?;
        Ok(&ready.trusted)
    }

    async fn read_certificate(&self, location: &Location) -> Result<()> {
        if let Some(identity) = &self.config.identity {
            self.trusted_resolver.hold(Some(Arc::clone(identity)));
            return Ok(());
        }
        let now = SystemTime::now();
        if self.credentials.has_certificate() && self.trusted_resolver.is_stale(now) {
            let credentials = self.credentials.clone();
            let location = location.clone();
            let requested = location.original_origin().clone();
            let at = location.current_origin();
            let found =
                blocking(move || match credentials.client_certificate(&requested, &at, now) {
                    Ok(found) => found.map(|it| Identity::new(it.chain, it.key)).transpose(),
                    Err(error) => Err(authorization::unusable(&location, error)),
                });
            self.trusted_resolver.hold(found.await?.map(Arc::new));
        }
        Ok(())
    }

    /// Performs the handshake, with an offer of the protocol `above` it.
    ///
    /// # Errors
    ///
    /// The errors of the server's certificate, the client's, and the protocol.
    pub(crate) async fn handshake<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: S,
        location: &Location,
        above: AlpnChoice,
    ) -> Result<TlsHandshake<S>> {
        let offers = self.offers(location).await?;
        let connector = TlsConnector::from(Arc::clone(offers.for_what_is(above)));
        let name = ServerName::try_from(location.host().to_owned()).map_err(|error| {
            let what =
                format!("{}: the host name cannot appear in a certificate", location.origin());
            Error::new(ErrorKind::Invalid, what).with_source(error)
        })?;
        let explains = self.explains(location);
        let stream = BufReader::with_capacity(READ_BYTES, stream);
        let stream =
            connector.connect(name, stream).await.map_err(|error| explains.handshake(error))?;
        let (_, session) = stream.get_ref();
        let old = session.protocol_version() == Some(ProtocolVersion::TLSv1_2);
        let round_trips = match session.handshake_kind() {
            Some(HandshakeKind::Resumed) => 1,
            Some(HandshakeKind::FullWithHelloRetryRequest) => 2,
            _ => 1 + u64::from(old),
        };
        let multiplexes = session.alpn_protocol() == Some(HTTP2);
        debug!(
            server = %location.origin(),
            version = ?session.protocol_version(),
            kind = ?session.handshake_kind(),
            http2 = multiplexes,
            "TLS handshake completed"
        );
        Ok(TlsHandshake { stream, round_trips, multiplexes })
    }

    /// The formatter of errors on connections to `location`.
    pub(crate) fn explains(&self, location: &Location) -> TlsErrorText {
        let resolver = if location.may_receive_credentials(&self.credentials) {
            &self.trusted_resolver
        } else {
            &self.anonymous_resolver
        };
        TlsErrorText::new(location.origin(), Arc::clone(resolver))
    }
}

/// Runs `work`, which reads files, on a thread that may block.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| {
        Err(Error::new(ErrorKind::Local, "cannot load certificates").with_source(error))
    })
}

/// The configuration with the authorities that the credentials name.
fn with_anchors(mut config: TlsConfig, credentials: &Credentials) -> Result<TlsConfig> {
    let anchors = credentials.trust_anchors().map_err(|error| {
        Error::new(ErrorKind::Local, "cannot read the certificate authorities").with_source(error)
    })?;
    config.system_roots &= anchors.system;
    config.roots.extend(anchors.certificates);
    Ok(config)
}

fn client_config(config: TlsConfig, resolver: Arc<ClientCertResolver>) -> Result<ClientConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let internal = |error: &dyn fmt::Display| {
        Error::new(ErrorKind::Local, format!("cannot set up TLS: {error}"))
    };
    let verifier = verify::verifier(&config, &provider)?;
    let mut client = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| internal(&error))?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_client_cert_resolver(resolver);
    client.resumption = Resumption::store(Arc::new(tickets::Tickets::default()));
    Ok(client)
}

/// Provides the client certificate, and records that a server requested one.
#[derive(Default)]
pub(crate) struct ClientCertResolver {
    identity: Mutex<Held>,
    was_requested: AtomicBool,
}

/// A client certificate, if there is one, and the time when it was read.
#[derive(Default)]
struct Held {
    identity: Option<Arc<Identity>>,
    read: Option<SystemTime>,
}

impl ClientCertResolver {
    pub(crate) fn has_identity(&self) -> bool {
        self.held().identity.is_some()
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        lock(&self.identity)
    }

    fn hold(&self, identity: Option<Arc<Identity>>) {
        *self.held() = Held { identity, read: Some(SystemTime::now()) };
    }

    /// Returns whether the files should be read again. A clock that was set back counts as stale,
    /// too.
    fn is_stale(&self, now: SystemTime) -> bool {
        let since = self.held().read.and_then(|read| now.duration_since(read).ok());
        since.is_none_or(|since| since.as_secs() >= CERTIFICATE_SECONDS)
    }

    pub(crate) fn was_requested(&self) -> bool {
        self.was_requested.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for ClientCertResolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientCertResolver")
            .field("identity", &self.held().identity)
            .finish_non_exhaustive()
    }
}

impl ResolvesClientCert for ClientCertResolver {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.was_requested.store(true, Ordering::Relaxed);
        self.held().identity.as_ref().map(|identity| Arc::clone(&identity.key))
    }

    // The request is recorded also without a certificate.
    fn has_certs(&self) -> bool {
        true
    }
}

/// The cryptography provider of this client.
pub(crate) type Provider = Arc<CryptoProvider>;
