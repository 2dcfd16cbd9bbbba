//! Client certificates and X.509 proxies (RFC 3820): a chain and its key, read from PEM files.
//!
//! A proxy is a short-lived certificate signed by a person's certificate. Its file contains, in
//! this order, the proxy, its key, and the chain up to the person's certificate; the whole chain is
//! sent. The files are read for each new TLS configuration, so that a proxy renewed during a job is
//! used.
//!
//! A file that the user or a variable named has to work. The default path of a proxy is only a
//! guess: a forgotten, expired proxy there must not prevent access to a public file. So it is
//! treated as absent, and mentioned when a server rejects a request.

use crate::environment::Environment;
use crate::error::{AuthError, Result};
use crate::private_file::{self, FileAccess, FileModeCheck};
use crate::sanitize::span;
use crate::x509::proxy_chain::is_marked;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use std::path::{Path, PathBuf};
use x509_parser::prelude::{FromDer, X509Certificate};

/// Maximum size of a file with certificates; a bundle of all public authorities has a quarter of
/// it.
pub(crate) const MAX_PEM: usize = 1 << 20;

/// Files of a client certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CertificateSource {
    /// Two PEM files, which may be the same file.
    Files {
        /// The certificate, followed by its intermediate ones if the server needs them.
        certificate: PathBuf,
        /// Its key, unencrypted.
        key: PathBuf,
    },
    /// A proxy that was named explicitly: chain and key in one PEM file.
    Proxy(PathBuf),
    /// The files that an environment variable names.
    Variable {
        /// Its name.
        name: &'static str,
        /// The files.
        source: Box<Self>,
    },
    /// The proxy at the default path, if there is a valid one.
    DefaultProxy(PathBuf),
}

impl CertificateSource {
    /// `X509_USER_PROXY`, otherwise `X509_USER_CERT` with `X509_USER_KEY`, otherwise
    /// `/tmp/x509up_u<uid>`.
    #[must_use]
    pub fn discovery(environment: &Environment) -> Self {
        let named = |name, source| Self::Variable { name, source: Box::new(source) };
        if let Some(path) = environment.path("X509_USER_PROXY") {
            return named("X509_USER_PROXY", Self::Proxy(path));
        }
        if let Some(certificate) = environment.path("X509_USER_CERT") {
            let key = environment.path("X509_USER_KEY").unwrap_or_else(|| certificate.clone());
            return named("X509_USER_CERT", Self::Files { certificate, key });
        }
        Self::DefaultProxy(format!("/tmp/x509up_u{}", environment.uid()).into())
    }

    /// The path for messages.
    pub(crate) fn place(&self) -> &Path {
        match self {
            Self::Files { certificate: path, .. }
            | Self::Proxy(path)
            | Self::DefaultProxy(path) => path,
            Self::Variable { source, .. } => source.place(),
        }
    }

    fn what(&self) -> &'static str {
        match self {
            Self::Files { .. } => "client certificate",
            Self::Proxy(_) | Self::DefaultProxy(_) => "X.509 proxy",
            Self::Variable { source, .. } => source.what(),
        }
    }

    /// Reads chain and key. `now` is in seconds since 1970. Adds problems of the default path to
    /// `problems`.
    pub(crate) fn load(
        &self,
        uid: u32,
        now: i64,
        problems: &mut Vec<String>,
    ) -> Result<Option<ClientCertificate>> {
        match (self, self.read(uid, now)) {
            (_, Ok(certificate)) => Ok(Some(certificate)),
            (Self::DefaultProxy(_), Err(error)) => {
                let absent = matches!(&error, AuthError::Unreadable { source, .. }
                    if source.kind() == std::io::ErrorKind::NotFound);
                if !absent {
                    problems.push(error.line());
                }
                Ok(None)
            }
            (_, Err(error)) => Err(error),
        }
    }

    fn read(&self, uid: u32, now: i64) -> Result<ClientCertificate> {
        let what = self.what();
        let link = !matches!(self, Self::DefaultProxy(_));
        let (path, pem, key_path, key_pem);
        match self {
            Self::Variable { name, source } => {
                return source.read(uid, now).map_err(AuthError::of_variable(name));
            }
            Self::Files { certificate, key } => {
                let public = FileModeCheck { access: FileAccess::Public, link };
                pem = private_file::read(what, certificate, public, MAX_PEM)?;
                key_pem = private_file::read(
                    "key",
                    key,
                    FileModeCheck { access: FileAccess::Private(uid), link },
                    MAX_PEM,
                )?;
                (path, key_path) = (certificate, key);
            }
            Self::Proxy(proxy) | Self::DefaultProxy(proxy) => {
                pem = private_file::read(
                    what,
                    proxy,
                    FileModeCheck { access: FileAccess::Private(uid), link },
                    MAX_PEM,
                )?;
                key_pem = pem.clone();
                (path, key_path) = (proxy, proxy);
            }
        }
        let chain = certificates(path, &pem)?;
        let key = key(key_path, &key_pem)?;
        let summary = Summary::of(path, &chain)?;
        summary.check(what, path, now)?;
        Ok(ClientCertificate { chain, key, summary })
    }
}

/// A certificate chain and its key, in the form that TLS requires.
#[derive(Debug)]
#[non_exhaustive]
pub struct ClientCertificate {
    /// The certificate, followed by the certificates up to its authority.
    pub chain: Vec<CertificateDer<'static>>,
    /// Its key.
    pub key: PrivateKeyDer<'static>,
    pub(crate) summary: Summary,
}

impl ClientCertificate {
    /// The distinguished name of the first certificate that is not a proxy.
    #[must_use]
    pub fn subject(&self) -> &str {
        &self.summary.subject
    }

    /// End of the validity of the chain, in seconds since 1970.
    #[must_use]
    pub fn not_after(&self) -> i64 {
        self.summary.not_after
    }
}

/// Subject, issuer and validity of a chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Summary {
    pub(crate) subject: String,
    pub(crate) issuer: String,
    pub(crate) not_before: i64,
    pub(crate) not_after: i64,
}

impl Summary {
    fn of(path: &Path, chain: &[CertificateDer<'_>]) -> Result<Self> {
        let mut person: Option<(String, String)> = None;
        let mut not_before = i64::MIN;
        let mut not_after = i64::MAX;
        for (n, der) in chain.iter().enumerate() {
            let (_, certificate) = X509Certificate::from_der(der).map_err(|_| {
                AuthError::malformed(path.display(), format!("certificate {} is corrupt", n + 1))
            })?;
            let validity = certificate.validity();
            not_before = not_before.max(validity.not_before.timestamp());
            not_after = not_after.min(validity.not_after.timestamp());
            if person.is_none() && (!is_proxy(&certificate) || n + 1 == chain.len()) {
                person =
                    Some((certificate.subject().to_string(), certificate.issuer().to_string()));
            }
        }
        let (subject, issuer) = person.unwrap_or_default();
        Ok(Self { subject, issuer, not_before, not_after })
    }

    fn check(&self, what: &'static str, path: &Path, now: i64) -> Result<()> {
        let renew = match what {
            "X.509 proxy" => "create a new one (`voms-proxy-init`)",
            _ => "request a new one from its authority",
        };
        let why = if now > self.not_after {
            format!("expired {} ago: {renew}", span(now.saturating_sub(self.not_after)))
        } else if now < self.not_before {
            let wait = span(self.not_before.saturating_sub(now));
            format!("is not valid for another {wait}: check this machine's clock")
        } else {
            return Ok(());
        };
        Err(AuthError::Validity { what, path: path.to_owned(), why })
    }
}

/// Recognises a proxy by its extension or, before RFC 3820, by its last common name.
fn is_proxy(certificate: &X509Certificate<'_>) -> bool {
    let name = certificate.subject().iter_common_name().last().and_then(|name| name.as_str().ok());
    is_marked(certificate) || matches!(name, Some("proxy" | "limited proxy"))
}

/// Parses all certificates of a PEM file.
pub(crate) fn certificates(path: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>> {
    let chain: Vec<_> = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(|_| AuthError::malformed(path.display(), "not well-formed PEM"))?;
    if chain.is_empty() {
        return Err(AuthError::malformed(path.display(), "contains no certificate, expected PEM"));
    }
    Ok(chain)
}

/// Reads the key of a server that runs as the user `uid`. The file may belong to another user, and
/// be readable for a group then.
///
/// # Errors
///
/// The file cannot be read, or other users have access to it, or it contains no unencrypted key.
pub fn server_key(path: &Path, uid: u32) -> Result<PrivateKeyDer<'static>> {
    let guard = FileModeCheck { access: FileAccess::Service(uid), link: true };
    key(path, &private_file::read("key", path, guard, MAX_PEM)?)
}

fn key(path: &Path, pem: &[u8]) -> Result<PrivateKeyDer<'static>> {
    let contains = |word: &[u8]| pem.windows(word.len()).any(|window| window == word);
    if contains(b"BEGIN ENCRYPTED PRIVATE KEY") || contains(b"Proc-Type: 4,ENCRYPTED") {
        return Err(AuthError::EncryptedKey { path: path.to_owned() });
    }
    PrivateKeyDer::from_pem_slice(pem)
        .map_err(|_| AuthError::malformed(path.display(), "contains no private key, expected PEM"))
}

#[cfg(test)]
mod tests;
