//! The certificate authorities of clients, with their revocation lists and signing policies.

use crate::authorization::settings::CrlChecks;
use crate::connection::client_verifier::ClientVerifier;
use hither_auth::{SigningPolicies, TrustConfig, revocation_lists};
use hither_core::error::{Error, ErrorKind, Result};
use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use std::fmt::Display;
use std::path::PathBuf;
use std::sync::Arc;

/// The authorities, as `[auth]` names them.
#[derive(Debug, Clone)]
pub(crate) struct ClientAuthorities {
    /// A folder or a file.
    pub(crate) place: PathBuf,
    pub(crate) crls: CrlChecks,
}

impl ClientAuthorities {
    /// The files to watch for changes.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(&self.place).into_iter().flatten();
        let files = entries.filter_map(|entry| Some(entry.ok()?.path()));
        let mut files: Vec<_> = files.chain([self.place.clone()]).collect();
        files.sort();
        files
    }

    /// Reads the files, and makes the verifier of client certificates, which are optional. Returns
    /// the problems of files that are not used, too.
    pub(crate) fn verifier(
        &self,
        provider: &Arc<CryptoProvider>,
    ) -> Result<(Arc<dyn ClientCertVerifier>, Vec<String>)> {
        let roots = Arc::new(self.roots()?);
        let builder = || {
            WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(provider))
                .allow_unauthenticated()
        };
        let (lists, unusable) = revocation_lists(&self.place).map_err(|error| invalid(&error))?;
        let mut problems: Vec<_> = unusable.iter().map(ToString::to_string).collect();
        let mut usable = Vec::new();
        for (path, list) in lists {
            match builder().with_crls([list.clone()]).build() {
                Ok(_) => usable.push(list),
                Err(error) => problems.push(format!("{}: {error}", path.display())),
            }
        }
        let policies = if self.place.is_dir() {
            let loaded = SigningPolicies::load(&self.place).map_err(|error| invalid(&error))?;
            problems.extend(loaded.1.iter().map(ToString::to_string));
            loaded.0
        } else {
            SigningPolicies::default()
        };
        for problem in &mut problems {
            problem.insert_str(0, "a file of auth.authorities is not used: ");
        }
        let builder = match (self.crls, usable.is_empty()) {
            (CrlChecks::Require, true) => {
                let what = "`crls = \"require\"` needs revocation lists, and there are none";
                return Err(invalid(&format!("{} {what}", self.place.display())));
            }
            (CrlChecks::Require, false) => builder().enforce_revocation_expiration(),
            (CrlChecks::Use, is_empty) => {
                if is_empty {
                    let place = self.place.display();
                    problems.push(format!(
                        "{place} has no revocation lists: revoked client certificates are accepted"
                    ));
                }
                builder().allow_unknown_revocation_status()
            }
        };
        let webpki = builder.with_crls(usable).build().map_err(|error| invalid(&error))?;
        let verifier = ClientVerifier::new(webpki, Arc::clone(provider), policies);
        Ok((Arc::new(verifier), problems))
    }

    fn roots(&self) -> Result<RootCertStore> {
        let mut trust = TrustConfig::default();
        (trust.system, trust.default_folder) = (false, None);
        let place = if self.place.is_dir() { &mut trust.folder } else { &mut trust.bundle };
        *place = Some(self.place.clone());
        let anchors = trust.load().map_err(|error| invalid(&error))?;
        let mut store = RootCertStore::empty();
        let (added, _) = store.add_parsable_certificates(anchors.certificates);
        match added {
            0 => Err(invalid(&format!("{} has no certificates", self.place.display()))),
            _ => Ok(store),
        }
    }
}

fn invalid(error: &dyn Display) -> Error {
    Error::new(ErrorKind::Invalid, format!("auth.authorities: {error}"))
}

#[cfg(test)]
mod tests;
