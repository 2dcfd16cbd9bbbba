//! Certificate revocation lists (CRLs) of the authorities of grids.
//!
//! A folder of authorities contains them in files that are named by a hash, `5168735f.r0`, in PEM
//! or DER; `fetch-crl` renews them. A bundle of authorities may contain them between its
//! certificates.
//!
//! The verifier of chains reads lists of version 2 with extensions. Many authorities publish
//! simpler ones, as `openssl ca -gencrl` makes them by default: those are read here
//! ([`simple_list`]). A list that neither can use may revoke any certificate of its authority, so
//! that no certificate of this authority is accepted. The authority is the issuer of the list; of a
//! file that is not a list, the one with the same hash in its name.

mod simple_list;

use crate::error::{AuthError, Result};
use crate::private_file::{self, FileAccess, FileModeCheck};
use crate::x509::client_certificate::{MAX_PEM, certificates};
use crate::x509::trust_anchors::{files_in, is_hashed};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, CertificateRevocationListDer};
use simple_list::{SimpleList, issuer_of};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use x509_parser::prelude::{FromDer, X509Certificate};

/// Maximum size of a list; large authorities have revoked several hundred thousand certificates.
const MAX_BYTES: usize = 64 << 20;
/// Certificates and lists are public.
const PUBLIC: FileModeCheck = FileModeCheck { access: FileAccess::Public, link: true };

/// A name in DER.
type Name = Vec<u8>;

/// The lists in a folder or bundle of authorities.
#[derive(Debug, Default)]
pub struct RevocationLists {
    /// The lists for the verifier of chains.
    for_verifier: Vec<CertificateRevocationListDer<'static>>,
    /// Lists that it cannot use, by issuer.
    simple: HashMap<Name, SimpleList>,
    /// Authorities with a list that cannot be used, and the reason.
    refused: HashMap<Name, String>,
}

/// The state of a chain according to the lists without extensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RevocationStatus {
    /// All authorities have lists that are in date, and none has a certificate of the chain.
    Valid,
    /// Some authority has no such list, or one out of date.
    Unknown,
}

/// A chain that a list revokes, or may revoke.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RevocationError {
    /// A certificate is in the list of its authority.
    #[error("the certificate is revoked")]
    Revoked,
    /// The list of the authority cannot be used.
    #[error("the revocation list of its authority cannot be used: {0}")]
    Unusable(String),
}

impl RevocationLists {
    /// Reads the lists of `authorities` in a folder or bundle. `supports` returns the reason if the
    /// verifier of chains cannot use a list. Also returns the problems of files.
    ///
    /// # Errors
    ///
    /// The folder cannot be read, or a bundle has a list whose authority is not known.
    pub fn load(
        place: &Path,
        authorities: &[CertificateDer<'_>],
        supports: impl Fn(&CertificateRevocationListDer<'static>) -> Result<(), String>,
    ) -> Result<(Self, Vec<String>)> {
        let paths = if place.is_dir() {
            files_in(place, |name| is_hashed(name, "r"))?
        } else {
            vec![place.to_owned()]
        };
        let mut lists = Self::default();
        let mut problems = Vec::new();
        for path in paths {
            let found = match read(&path) {
                Ok(found) if !found.is_empty() => found,
                Ok(_) if place == path => continue,
                Ok(_) => {
                    let reason = format!("{} has no revocation list", path.display());
                    lists.refuse(authorities_beside(&path), &reason, &mut problems);
                    continue;
                }
                Err(error) if place == path => return Err(error),
                Err(error) => {
                    lists.refuse(authorities_beside(&path), &error.to_string(), &mut problems);
                    continue;
                }
            };
            for list in found {
                let Err(reason) = supports(&list) else {
                    lists.for_verifier.push(list);
                    continue;
                };
                let reason = format!("{}: {reason}", path.display());
                match (issuer_of(&list), SimpleList::parse(&list, authorities)) {
                    (Some(issuer), Some(simple)) => {
                        lists.simple.entry(issuer).or_default().append(simple);
                    }
                    (Some(issuer), None) => lists.refuse(vec![issuer], &reason, &mut problems),
                    (None, _) if place == path => {
                        return Err(AuthError::malformed(path.display(), "not a revocation list"));
                    }
                    (None, _) => lists.refuse(authorities_beside(&path), &reason, &mut problems),
                }
            }
        }
        Ok((lists, problems))
    }

    /// The lists for the verifier of chains.
    #[must_use]
    pub fn for_verifier(&self) -> &[CertificateRevocationListDer<'static>] {
        &self.for_verifier
    }

    /// Returns true if no authority has a list.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.for_verifier.is_empty() && self.simple.is_empty() && self.refused.is_empty()
    }

    fn refuse(&mut self, authorities: Vec<Name>, reason: &str, problems: &mut Vec<String>) {
        let what = if authorities.is_empty() {
            "no authority has this revocation list"
        } else {
            "the certificates of this authority are refused"
        };
        problems.push(format!("{reason}: {what}"));
        let reasons = authorities.into_iter().map(|name| (name, reason.to_owned()));
        self.refused.extend(reasons);
    }

    /// Checks a chain, in any order, at a time in seconds since 1970.
    ///
    /// # Errors
    ///
    /// [`RevocationError`].
    pub fn check(
        &self,
        chain: &[CertificateDer<'_>],
        now: i64,
    ) -> Result<RevocationStatus, RevocationError> {
        if self.simple.is_empty() && self.refused.is_empty() {
            return Ok(RevocationStatus::Unknown);
        }
        let mut status = RevocationStatus::Valid;
        for der in chain {
            let Ok((_, certificate)) = X509Certificate::from_der(der) else {
                let what = "a certificate of the chain cannot be read".to_owned();
                return Err(RevocationError::Unusable(what));
            };
            let issuer = certificate.issuer().as_raw();
            if let Some(reason) = self.refused.get(issuer) {
                return Err(RevocationError::Unusable(reason.clone()));
            }
            match self.simple.get(issuer) {
                Some(list) if list.has(certificate.raw_serial()) => {
                    return Err(RevocationError::Revoked);
                }
                Some(list) if list.is_current(now) => {}
                // No list has an authority's own certificate.
                None if issuer == certificate.subject().as_raw() => {}
                _ => status = RevocationStatus::Unknown,
            }
        }
        Ok(status)
    }
}

/// The names of certificates.
fn subjects<'a>(certificates: &'a [CertificateDer<'_>]) -> impl Iterator<Item = Name> + 'a {
    certificates.iter().filter_map(|der| {
        let (_, certificate) = X509Certificate::from_der(der).ok()?;
        Some(certificate.subject().as_raw().to_vec())
    })
}

/// The authorities in files whose names have the same hash as that of a list.
fn authorities_beside(list: &Path) -> Vec<Name> {
    let hash = list.file_stem();
    let is_beside = |path: &PathBuf| path.file_stem() == hash;
    let folder = list.parent().unwrap_or_else(|| Path::new("."));
    let files = files_in(folder, |name| is_hashed(name, "")).unwrap_or_default();
    let read = |path: PathBuf| {
        let pem = private_file::read("authority", &path, PUBLIC, MAX_PEM).ok()?;
        let found = certificates(&path, &pem).ok()?;
        Some(subjects(&found).collect::<Vec<_>>())
    };
    files.into_iter().filter(is_beside).filter_map(read).flatten().collect()
}

fn read(path: &Path) -> Result<Vec<CertificateRevocationListDer<'static>>> {
    let content = private_file::read("revocation list", path, PUBLIC, MAX_BYTES)?;
    // The tag of a sequence in DER.
    if content.first() == Some(&0x30) {
        return Ok(vec![CertificateRevocationListDer::from(content.to_vec())]);
    }
    CertificateRevocationListDer::pem_slice_iter(&content)
        .collect::<Result<_, _>>()
        .map_err(|_| AuthError::malformed(path.display(), "neither PEM nor DER"))
}
