//! Explanations of TLS errors.

use crate::connect::tls::ClientCertResolver;
use crate::connect::tls::verify::CertificateRejection;
use hither_core::error::{Error, ErrorKind, Failure};
use hither_http::date::{LAST_SECOND, http_date};
use rustls::pki_types::UnixTime;
use rustls::{AlertDescription, CertificateError};
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

const WANTS: &str = "the server requires a client certificate, and none is configured";
const REFUSES: &str = "the server rejects the client certificate";

/// The formatter of errors on the connections to one server.
#[derive(Debug, Clone)]
pub(crate) struct TlsErrorText {
    origin: String,
    resolver: Arc<ClientCertResolver>,
}

impl TlsErrorText {
    pub(crate) fn new(origin: String, resolver: Arc<ClientCertResolver>) -> Self {
        Self { origin, resolver }
    }

    /// Explains a failed handshake.
    pub(crate) fn handshake(&self, error: io::Error) -> Error {
        if let Some(explained) = self.session(&error) {
            return explained;
        }
        let what = match error.kind() {
            io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::ConnectionAborted => {
                "the server closed the connection during the TLS handshake: does it serve https, and is it up? An XRootD server is named by root://"
            }
            _ => "the TLS handshake failed",
        };
        Error::new(ErrorKind::Unavailable, format!("{}: {what}", self.origin)).with_source(error)
    }

    /// Explains an error at any later time; `None` if it is not about TLS.
    pub(crate) fn session(&self, error: &io::Error) -> Option<Error> {
        let cause = error.get_ref()?.downcast_ref::<rustls::Error>()?;
        let (kind, what) = match cause {
            rustls::Error::InvalidCertificate(reason) => (ErrorKind::Protocol, certificate(reason)),
            rustls::Error::AlertReceived(alert) => self.alert(*alert),
            rustls::Error::InvalidMessage(_) => (
                ErrorKind::Protocol,
                "the server's response is not TLS: is this port for http:// rather than https://?"
                    .to_owned(),
            ),
            rustls::Error::PeerIncompatible(_) => (
                ErrorKind::Unsupported,
                "the server supports neither TLS 1.2 nor 1.3, or no current cipher".to_owned(),
            ),
            _ => (ErrorKind::Protocol, format!("TLS failed: {cause}")),
        };
        Some(self.says(kind, &what).with_source(cause.clone()))
    }

    /// The server speaks TLS, and the URL does not.
    pub(crate) fn plain(&self) -> Error {
        let what = "the server speaks TLS on this port: use https:// in the URL";
        self.says(ErrorKind::Protocol, what)
    }

    /// The server requires a client certificate.
    pub(crate) fn no_certificate(&self) -> Error {
        self.says(ErrorKind::Unauthenticated, WANTS)
    }

    /// The server rejects the client certificate.
    pub(crate) fn bad_certificate(&self, why: &str) -> Error {
        self.says(ErrorKind::Unauthenticated, &format!("{REFUSES}: {why}"))
    }

    fn says(&self, kind: ErrorKind, what: &str) -> Error {
        Error::new(kind, format!("{}: {what}", self.origin)).with_failure(Failure::OneServer)
    }

    /// Explains a TLS alert of the server.
    fn alert(&self, alert: AlertDescription) -> (ErrorKind, String) {
        use AlertDescription as A;
        let ours = self.resolver.has_identity() && self.resolver.was_requested();
        let refuses = |why: &str| (ErrorKind::Unauthenticated, format!("{REFUSES}: {why}"));
        let wants = || (ErrorKind::Unauthenticated, WANTS.to_owned());
        match alert {
            A::CertificateRequired if !ours => wants(),
            A::CertificateExpired if ours => refuses("it has expired, or its proxy has"),
            A::CertificateRevoked if ours => refuses("it was revoked"),
            A::UnknownCA if ours => refuses("it does not trust the issuer"),
            A::CertificateRequired
            | A::BadCertificate
            | A::UnsupportedCertificate
            | A::CertificateUnknown
            | A::AccessDenied
            | A::DecryptError
                if ours =>
            {
                refuses(&format!("alert {alert:?}"))
            }
            // TLS 1.2 has no alert of its own for a missing certificate.
            A::HandshakeFailure | A::BadCertificate | A::CertificateUnknown | A::AccessDenied
                if self.resolver.was_requested() =>
            {
                wants()
            }
            A::UnrecognisedName => {
                (ErrorKind::Protocol, "the server does not serve this host name".to_owned())
            }
            A::ProtocolVersion | A::HandshakeFailure | A::InsufficientSecurity => (
                ErrorKind::Unsupported,
                format!(
                    "the server supports no TLS version or cipher in common with this client (alert {alert:?})"
                ),
            ),
            A::InternalError => {
                (ErrorKind::Unavailable, "the server failed during the TLS handshake".to_owned())
            }
            _ => (
                ErrorKind::Protocol,
                format!("the server ended the TLS connection (alert {alert:?})"),
            ),
        }
    }
}

/// Explains an invalid server certificate.
fn certificate(reason: &CertificateError) -> String {
    const RENEW: &str =
        "its administrator has to renew it, unless the clock of this machine is wrong";
    match reason {
        CertificateError::ExpiredContext { not_after, .. } => {
            format!("the server's certificate expired on {}: {RENEW}", date(*not_after))
        }
        CertificateError::Expired => format!("the server's certificate has expired: {RENEW}"),
        CertificateError::NotValidYetContext { not_before, .. } => format!(
            "the server's certificate is not valid before {}: is the clock of this machine wrong?",
            date(*not_before)
        ),
        CertificateError::Other(other) => match other.0.downcast_ref::<CertificateRejection>() {
            Some(refusal) => refused(refusal),
            None => format!("the server's certificate is not valid: {other}"),
        },
        _ => format!("the server's certificate is not valid: {reason}"),
    }
}

fn refused(refusal: &CertificateRejection) -> String {
    const TRUST: &str =
        "if you trust it, name it with --ca, or add it to SSL_CERT_FILE or X509_CERT_DIR";
    match refusal {
        CertificateRejection::UnknownIssuer { issuer } => {
            format!("the server's certificate is signed by {issuer}, which is not trusted: {TRUST}")
        }
        CertificateRejection::SelfSigned { subject } => {
            format!("the server's certificate is self-signed by {subject} and not trusted: {TRUST}")
        }
        CertificateRejection::OtherNames { names } if names.is_empty() => {
            "the server's certificate names no host, so it is not valid for this one".to_owned()
        }
        CertificateRejection::OtherNames { names } => format!(
            "the server's certificate is for {}, not for this host: is it the right server?",
            names.join(", ")
        ),
    }
}

fn date(time: UnixTime) -> String {
    let seconds = time.as_secs().min(LAST_SECOND);
    http_date(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).unwrap_or_default()
}
