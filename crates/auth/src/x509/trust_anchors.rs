//! Which authorities a server's certificate may come from.
//!
//! Grids keep their authorities in a folder, `/etc/grid-security/certificates`, one certificate per file, called by a
//! hash of its name (`5168735f.0`) and often a second time by a name for people (`UKeScienceRoot.pem`). Both are read,
//! and each authority counts once.

use crate::error::{AuthError, Result};
use crate::private_file::{self, FileModeCheck};
use crate::x509::client_certificate::{MAX_PEM, certificates};
use rustls_pki_types::CertificateDer;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// Files looked at in a folder of authorities; the grid's own has a few hundred.
const MAX_FILES: usize = 10_000;
/// Authorities taken altogether.
const MAX_ANCHORS: usize = 20_000;

/// Where authorities are found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TrustConfig {
    /// Whether those of the system count. Yes by default.
    pub system: bool,
    /// A folder that somebody named; it must be there.
    pub folder: Option<PathBuf>,
    /// A folder that counts if it is there and none was named.
    pub default_folder: Option<PathBuf>,
    /// A PEM file with further authorities; it must be there.
    pub bundle: Option<PathBuf>,
}

impl Default for TrustConfig {
    fn default() -> Self {
        let default_folder = Some("/etc/grid-security/certificates".into());
        Self { system: true, folder: None, default_folder, bundle: None }
    }
}

/// The authorities to be trusted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TrustAnchors {
    /// Whether those of the system count too.
    pub system: bool,
    /// Further ones, each once.
    pub certificates: Vec<CertificateDer<'static>>,
    /// Files of folders that could not be used.
    pub skipped: usize,
}

impl TrustConfig {
    /// Reads them.
    ///
    /// # Errors
    ///
    /// What was named and cannot be read, or holds no certificate.
    pub fn load(&self) -> Result<TrustAnchors> {
        let mut anchors = TrustAnchors { system: self.system, ..TrustAnchors::default() };
        let mut known = HashSet::new();
        if let Some(path) = &self.bundle {
            let what = "bundle of authorities";
            let pem = private_file::read(what, path, PUBLIC, 16 * MAX_PEM)?;
            anchors.add(certificates(path, &pem)?, &mut known);
        }
        match (&self.folder, &self.default_folder) {
            (Some(folder), _) => anchors.add_folder(folder, &mut known)?,
            (None, Some(folder)) if folder.is_dir() => anchors.add_folder(folder, &mut known)?,
            _ => {}
        }
        Ok(anchors)
    }
}

/// Certificates are no secret.
const PUBLIC: FileModeCheck = FileModeCheck { owner: None, link: true };

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
        let what = "folder of authorities";
        let unreadable = |source| AuthError::Unreadable { what, path: folder.to_owned(), source };
        let mut paths = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(unreadable)?.take(MAX_FILES) {
            let path = entry.map_err(unreadable)?.path();
            if is_authority(&path) {
                paths.push(path);
            }
        }
        // The order in a folder is that of chance.
        paths.sort();
        for path in paths {
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

/// `*.pem`, or eight hexadecimal digits with a number; the folder also holds revocation lists and policies.
fn is_authority(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    match name.rsplit_once('.') {
        Some((_, "pem")) => true,
        Some((hash, number)) => {
            hash.len() == 8
                && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
                && !number.is_empty()
                && number.bytes().all(|byte| byte.is_ascii_digit())
        }
        None => false,
    }
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
        let (a, b) = (authority("a"), authority("b"));
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
    fn what_was_named_must_be_there() {
        let folder = tempfile::tempdir().unwrap();
        let none = Some(folder.path().join("none"));
        let default = TrustConfig { default_folder: none.clone(), ..TrustConfig::default() };
        assert_eq!(default.load().unwrap().certificates, []);
        assert!(TrustConfig { folder: none.clone(), ..default.clone() }.load().is_err());
        assert!(TrustConfig { bundle: none, ..default.clone() }.load().is_err());
        let empty = folder.path().join("empty.pem");
        std::fs::write(&empty, "no certificate").unwrap();
        let error = TrustConfig { bundle: Some(empty), ..default }.load().unwrap_err();
        assert!(error.to_string().contains("no certificate in it"), "{error}");
    }
}
