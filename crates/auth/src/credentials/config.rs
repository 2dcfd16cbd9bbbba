//! What a client may show, and to whom.

use crate::credentials::basic::Basic;
use crate::credentials::redirect_hosts::HostPattern;
use crate::environment::Environment;
use crate::token::source::TokenSource;
use crate::x509::client_certificate::CertificateSource;
use crate::x509::trust_anchors::TrustConfig;
use std::path::PathBuf;

/// Where credentials are looked for, and where they may go. By default: none, and nowhere.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct CredentialConfig {
    /// A bearer token.
    pub token: Option<TokenSource>,
    /// A user name and a password for every server whose URL names no other.
    pub basic: Option<Basic>,
    /// A file with user names and passwords by host; used if it is there.
    pub netrc: Option<PathBuf>,
    /// A client certificate or proxy, for servers that ask for one.
    pub certificate: Option<CertificateSource>,
    /// Whom to trust as a server.
    pub trust: TrustConfig,
    /// Hosts to which credentials may follow a redirect from another one.
    pub follow: Vec<HostPattern>,
    /// Whether they may also be sent where everybody on the way can read them: over plain HTTP to other machines.
    pub over_plain_http: bool,
    /// The user whom private files must belong to.
    pub uid: u32,
}

impl CredentialConfig {
    /// All that is found in the usual places of this environment. Reads no file yet.
    #[must_use]
    pub fn discover(environment: &Environment) -> Self {
        let netrc = environment
            .path("NETRC")
            .or_else(|| environment.path("HOME").map(|home| home.join(".netrc")));
        let trust =
            TrustConfig { folder: environment.path("X509_CERT_DIR"), ..TrustConfig::default() };
        Self {
            token: Some(TokenSource::discovery(environment)),
            netrc,
            certificate: Some(CertificateSource::discovery(environment)),
            trust,
            uid: environment.uid(),
            ..Self::default()
        }
    }
}
