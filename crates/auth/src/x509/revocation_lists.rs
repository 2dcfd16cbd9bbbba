//! Certificate revocation lists (CRLs) of the authorities of grids.
//!
//! A folder of authorities contains them in files that are named by a hash, `5168735f.r0`, in PEM
//! or DER; `fetch-crl` renews them. A bundle of authorities may contain them between its
//! certificates.

use crate::error::{AuthError, Result};
use crate::private_file::{self, FileAccess, FileModeCheck};
use crate::x509::trust_anchors::{files_in, is_hashed};
use rustls_pki_types::CertificateRevocationListDer;
use rustls_pki_types::pem::PemObject;
use std::path::{Path, PathBuf};

/// Maximum size of a list; large authorities have revoked several hundred thousand certificates.
const MAX_BYTES: usize = 64 << 20;

/// Reads the lists in a folder or bundle of authorities, with their paths. Also returns the errors
/// of files that cannot be used.
///
/// # Errors
///
/// The folder cannot be read.
#[expect(clippy::type_complexity, reason = "a list and its errors")]
pub fn revocation_lists(
    place: &Path,
) -> Result<(Vec<(PathBuf, CertificateRevocationListDer<'static>)>, Vec<AuthError>)> {
    let paths = if place.is_dir() {
        files_in(place, |name| is_hashed(name, "r"))?
    } else {
        vec![place.to_owned()]
    };
    let mut lists = Vec::new();
    let mut unusable = Vec::new();
    for path in paths {
        match read(&path) {
            Ok(found) => lists.extend(found.into_iter().map(|list| (path.clone(), list))),
            Err(error) => unusable.push(error),
        }
    }
    Ok((lists, unusable))
}

fn read(path: &Path) -> Result<Vec<CertificateRevocationListDer<'static>>> {
    let guard = FileModeCheck { access: FileAccess::Public, link: true };
    let content = private_file::read("revocation list", path, guard, MAX_BYTES)?;
    // The tag of a sequence in DER.
    if content.first() == Some(&0x30) {
        return Ok(vec![CertificateRevocationListDer::from(content.to_vec())]);
    }
    CertificateRevocationListDer::pem_slice_iter(&content)
        .collect::<Result<_, _>>()
        .map_err(|_| AuthError::malformed(path.display(), "neither PEM nor DER"))
}
