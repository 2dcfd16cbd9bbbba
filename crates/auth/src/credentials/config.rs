//! Configuration of credentials: their sources, and the servers that may receive them.

use crate::credentials::basic::Basic;
use crate::credentials::redirect_hosts::HostPattern;
use crate::environment::Environment;
use crate::origin::Origin;
use crate::token::source::TokenSource;
use crate::x509::client_certificate::CertificateSource;
use crate::x509::trust_anchors::TrustConfig;
use std::path::PathBuf;

/// Sources of credentials, and rules for the servers that may receive them. The default has no
/// source.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct CredentialConfig {
    /// A bearer token.
    pub token: Option<TokenSource>,
    /// A user name and a password for every server whose URL contains none.
    pub basic: Option<Basic>,
    /// A file with user names and passwords by host; used if it exists.
    pub netrc: Option<PathBuf>,
    /// A client certificate or proxy for servers that request one.
    pub certificate: Option<CertificateSource>,
    /// Certificate authorities for the verification of servers.
    pub trust: TrustConfig,
    /// Hosts to which credentials may follow a redirect from another host.
    pub follow: Vec<HostPattern>,
    /// Send credentials over plain HTTP to other machines, too. Every machine on the path can read
    /// them then.
    pub over_plain_http: bool,
    /// Numeric id of the user who has to own private files.
    pub uid: u32,
}

impl CredentialConfig {
    /// Returns true if credentials may follow a redirect to this host.
    pub(crate) fn lets_follow(&self, at: &Origin) -> bool {
        self.follow.iter().any(|pattern| pattern.matches(at))
    }

    /// Collects the default sources of this environment. Reads no file yet.
    #[must_use]
    pub fn discover(environment: &Environment) -> Self {
        let netrc = environment
            .path("NETRC")
            .or_else(|| environment.path("HOME").map(|home| home.join(".netrc")));
        let trust = TrustConfig {
            folder: environment.path("X509_CERT_DIR"),
            folder_variable: Some("X509_CERT_DIR"),
            ..TrustConfig::default()
        };
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
