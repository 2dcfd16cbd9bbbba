//! The certificate authorities of clients, with their revocation lists and signing policies.

use crate::authorization::settings::CrlChecks;
use crate::connection::client_verifier::ClientVerifier;
use hither_auth::{AuthError, RevocationLists, SigningPolicies, TrustConfig};
use hither_core::error::{Error, ErrorKind, Result};
use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ClientCertVerifierBuilder, WebPkiClientVerifier};
use rustls_pki_types::{CertificateDer, CertificateRevocationListDer};
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
        let authorities = self.certificates()?;
        let roots = Arc::new(self.roots(&authorities)?);
        let builder = || {
            WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(provider))
                .allow_unauthenticated()
        };
        let supports = |list: &CertificateRevocationListDer<'static>| {
            builder().with_crls([list.clone()]).build().map(drop).map_err(|it| it.to_string())
        };
        let (lists, mut problems) = RevocationLists::load(&self.place, &authorities, supports)
            .map_err(|error| invalid(&error))?;
        let policies = if self.place.is_dir() {
            let loaded = SigningPolicies::load(&self.place).map_err(|error| invalid(&error))?;
            let unused = |error: &AuthError| format!("a policy is not used: {error}");
            problems.extend(loaded.1.iter().map(unused));
            loaded.0
        } else {
            SigningPolicies::default()
        };
        for problem in &mut problems {
            problem.insert_str(0, "auth.authorities: ");
        }
        if lists.is_empty() {
            let place = self.place.display();
            if self.crls == CrlChecks::Require {
                let what = "`crls = \"require\"` needs revocation lists, and there are none";
                return Err(invalid(&format!("{place} {what}")));
            }
            problems.push(format!(
                "{place} has no revocation lists: revoked client certificates are accepted"
            ));
        }
        let build = |builder: ClientCertVerifierBuilder| {
            let crls = lists.for_verifier().iter().cloned();
            builder.with_crls(crls).build().map_err(|error| invalid(&error))
        };
        let lenient = build(builder().allow_unknown_revocation_status())?;
        let strict = match self.crls {
            CrlChecks::Use => Some(Arc::clone(&lenient)),
            // Without lists it would not check anything.
            CrlChecks::Require if lists.for_verifier().is_empty() => None,
            CrlChecks::Require => Some(build(builder().enforce_revocation_expiration())?),
        };
        let verifier = ClientVerifier {
            listed: lenient,
            others: strict,
            provider: Arc::clone(provider),
            lists,
            policies,
        };
        Ok((Arc::new(verifier), problems))
    }

    fn certificates(&self) -> Result<Vec<CertificateDer<'static>>> {
        let mut trust = TrustConfig::default();
        (trust.system, trust.default_folder) = (false, None);
        let place = if self.place.is_dir() { &mut trust.folder } else { &mut trust.bundle };
        *place = Some(self.place.clone());
        Ok(trust.load().map_err(|error| invalid(&error))?.certificates)
    }

    fn roots(&self, authorities: &[CertificateDer<'static>]) -> Result<RootCertStore> {
        let mut store = RootCertStore::empty();
        let (added, _) = store.add_parsable_certificates(authorities.iter().cloned());
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
