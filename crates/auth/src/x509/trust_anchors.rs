//! Certificate authorities for the verification of servers.
//!
//! Grids keep their authorities in the folder `/etc/grid-security/certificates`, one certificate
//! per file. A file is named by a hash of the authority's name (`5168735f.0`), and often also by a
//! readable name (`UKeScienceRoot.pem`). Both are read, and each authority is added once.

use crate::error::{AuthError, Result};
use crate::private_file::{self, FileAccess, FileModeCheck};
use crate::x509::client_certificate::{MAX_PEM, certificates};
use rustls_pki_types::CertificateDer;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// Maximum number of files read from a folder; the grid's folder has a few hundred.
const MAX_FILES: usize = 10_000;
/// Maximum number of authorities.
const MAX_ANCHORS: usize = 20_000;

/// Sources of certificate authorities.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TrustConfig {
    /// Trust the system's authorities. True by default.
    pub system: bool,
    /// A folder that was named explicitly; it has to exist.
    pub folder: Option<PathBuf>,
    /// The variable that names this folder, if there is one.
    pub folder_variable: Option<&'static str>,
    /// A folder that is used if it exists and no other was named.
    pub default_folder: Option<PathBuf>,
    /// A PEM file with further authorities; it has to exist.
    pub bundle: Option<PathBuf>,
}

impl Default for TrustConfig {
    fn default() -> Self {
        let default_folder = Some("/etc/grid-security/certificates".into());
        Self { system: true, folder: None, folder_variable: None, default_folder, bundle: None }
    }
}

/// The trusted authorities.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TrustAnchors {
    /// The system's authorities are trusted, too.
    pub system: bool,
    /// Further authorities, each once.
    pub certificates: Vec<CertificateDer<'static>>,
    /// Number of files in folders that could not be used.
    pub skipped: usize,
}

impl TrustConfig {
    /// Reads all sources.
    ///
    /// # Errors
    ///
    /// A named source cannot be read or contains no certificate.
    pub fn load(&self) -> Result<TrustAnchors> {
        let mut anchors = TrustAnchors { system: self.system, ..TrustAnchors::default() };
        let mut known = HashSet::new();
        if let Some(path) = &self.bundle {
            let what = "bundle of authorities";
            let pem = private_file::read(what, path, PUBLIC, 16 * MAX_PEM)?;
            anchors.add(certificates(path, &pem)?, &mut known);
        }
        match (&self.folder, &self.default_folder) {
            (Some(folder), _) => {
                anchors.add_folder(folder, &mut known).map_err(|error| {
                    match self.folder_variable {
                        Some(variable) => AuthError::of_variable(variable)(error),
                        None => error,
                    }
                })?;
            }
            (None, Some(folder)) if folder.is_dir() => anchors.add_folder(folder, &mut known)?,
            _ => {}
        }
        Ok(anchors)
    }
}

/// Certificates are public.
const PUBLIC: FileModeCheck = FileModeCheck { access: FileAccess::Public, link: true };

impl TrustAnchors {
    fn add(
        &mut self,
        found: Vec<CertificateDer<'static>>,
        known: &mut HashSet<CertificateDer<'static>>,
    ) {
        for certificate in found {
            if self.certificates.len() < MAX_ANCHORS && known.insert(certificate.clone()) {
                self.certificates.push(certificate);
            }
        }
    }

    fn add_folder(
        &mut self,
        folder: &Path,
        known: &mut HashSet<CertificateDer<'static>>,
    ) -> Result<()> {
        for path in files_in(folder, |name| name.ends_with(".pem") || is_hashed(name, ""))? {
            let found = private_file::read("authority", &path, PUBLIC, MAX_PEM)
                .and_then(|pem| certificates(&path, &pem));
            match found {
                Ok(found) => self.add(found, known),
                Err(_) => self.skipped += 1,
            }
        }
        Ok(())
    }
}

/// The files in a folder of authorities whose names `accepts`, ordered by name. The folder contains
/// certificates, revocation lists and policies.
pub(crate) fn files_in(folder: &Path, accepts: impl Fn(&str) -> bool) -> Result<Vec<PathBuf>> {
    let what = "folder of authorities";
    let unreadable = |source| AuthError::Unreadable { what, path: folder.to_owned(), source };
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)?.take(MAX_FILES) {
        let entry = entry.map_err(unreadable)?;
        if entry.file_name().to_str().is_some_and(&accepts) {
            paths.push(entry.path());
        }
    }
    paths.sort();
    Ok(paths)
}

/// Returns true if the name is the hash of an authority's name, a dot, `kind`, and a number.
pub(crate) fn is_hashed(name: &str, kind: &str) -> bool {
    let (hash, number) = name.rsplit_once('.').unwrap_or_default();
    let number = number.strip_prefix(kind).unwrap_or_default();
    hash.len() == 8
        && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
        && !number.is_empty()
        && number.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn authority(name: &str) -> String {
        rcgen::generate_simple_self_signed([name.to_owned()]).unwrap().cert.pem()
    }

    #[test]
    fn a_grid_folder_gives_each_authority_once() {
        let folder = tempfile::tempdir().unwrap();
        let write =
            |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        let a = authority("a");
        let b = authority("b");
        write("5168735f.0", &a);
        write("A.pem", &a);
        write("0a1b2c3d.1", &b);
        write("5168735f.r0", &authority("revoked"));
        write("A.signing_policy", &authority("policy"));
        write("5168735.0", &authority("not a hash"));
        write("broken.pem", "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n");
        let config = TrustConfig { folder: Some(folder.path().into()), ..TrustConfig::default() };
        let anchors = config.load().unwrap();
        assert_eq!((anchors.certificates.len(), anchors.skipped, anchors.system), (2, 1, true));

        let bundle = folder.path().join("all.crt");
        std::fs::write(&bundle, format!("{b}{}", authority("c"))).unwrap();
        let config = TrustConfig { bundle: Some(bundle), system: false, ..config };
        let anchors = config.load().unwrap();
        assert_eq!((anchors.certificates.len(), anchors.system), (3, false));
    }

    #[test]
    fn named_files_must_exist() {
        let folder = tempfile::tempdir().unwrap();
        let none = Some(folder.path().join("none"));
        let default = TrustConfig { default_folder: none.clone(), ..TrustConfig::default() };
        assert_eq!(default.load().unwrap().certificates, []);
        assert!(TrustConfig { folder: none.clone(), ..default.clone() }.load().is_err());
        assert!(TrustConfig { bundle: none, ..default.clone() }.load().is_err());
        let empty = folder.path().join("empty.pem");
        std::fs::write(&empty, "no certificate").unwrap();
        let error = TrustConfig { bundle: Some(empty), ..default }.load().unwrap_err();
        assert!(error.to_string().contains("contains no certificate"), "{error}");
    }
}
