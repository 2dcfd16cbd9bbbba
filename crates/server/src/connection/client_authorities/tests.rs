use crate::connection::client_authorities::*;
use crate::connection::tls::{CertificateReloader, Current};
use crate::settings::TlsFiles;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType, IsCa, Issuer,
    KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SerialNumber, date_time_ymd,
};
use rustls::{CertificateError, OtherError};
use rustls_pki_types::{CertificateDer, UnixTime};
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// An authority in a folder, as grids have it.
struct Grid {
    folder: tempfile::TempDir,
    issuer: Issuer<'static, KeyPair>,
}

/// The first element of DER, its content, and the rest.
fn element(der: &[u8]) -> (&[u8], &[u8], &[u8]) {
    let (long, header) = match der[1] {
        length @ 0..=0x7f => (usize::from(length), 2),
        0x80 | 0x81 => (usize::from(der[2]), 3),
        _ => (usize::from(der[2]) << 8 | usize::from(der[3]), 4),
    };
    let (whole, rest) = der.split_at(header + long);
    (whole, &whole[header..], rest)
}

/// An element of DER.
fn der(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).unwrap().to_be_bytes();
    [&[tag, 0x82, length[0], length[1]], content].concat()
}

fn named(organization: &str, name: &str) -> CertificateParams {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, organization);
    params.distinguished_name.push(DnType::CommonName, name);
    (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2040, 1, 1));
    params
}

impl Grid {
    fn new() -> Self {
        let mut params = named("Grid", "Authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        fs::write(folder.path().join("5168735f.0"), pem).unwrap();
        Self { folder, issuer: Issuer::new(params, key) }
    }

    fn user(&self, organization: &str, serial: u64) -> CertificateDer<'static> {
        let mut params = named(organization, "Alice");
        params.serial_number = Some(SerialNumber::from(serial));
        let key = KeyPair::generate().unwrap();
        params.signed_by(&key, &self.issuer).unwrap().der().clone()
    }

    /// A list in which a serial number is revoked.
    fn list(&self, revoked: u64, until: i32) -> rcgen::CertificateRevocationList {
        let revoked = RevokedCertParams {
            serial_number: SerialNumber::from(revoked),
            revocation_time: date_time_ymd(2024, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2024, 1, 1),
            next_update: date_time_ymd(until, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: vec![revoked],
            key_identifier_method: KeyIdMethod::Sha256,
        };
        list.signed_by(&self.issuer).unwrap()
    }

    /// A list without its extensions, of version 2 or 1, as `openssl ca -gencrl` makes them.
    fn simple_list(&self, revoked: u64, until: i32, version: u8) -> Vec<u8> {
        use rcgen::SigningKey;
        let whole = self.list(revoked, until);
        let (_, content, _) = element(whole.der());
        let (_, signed, rest) = element(content);
        let (algorithm, ..) = element(rest);
        let mut fields = Vec::new();
        let mut left = signed;
        while !left.is_empty() {
            let (field, _, rest) = element(left);
            left = rest;
            let is_left_out = field[0] == 0xa0 || version == 1 && field[0] == 0x02;
            fields.extend_from_slice(if is_left_out { &[] } else { field });
        }
        let signed = der(0x30, &fields);
        let mut signature = self.issuer.key().sign(&signed).unwrap();
        signature.insert(0, 0);
        der(0x30, &[&*signed, algorithm, &der(0x03, &signature)].concat())
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::write(self.folder.path().join(name), content).unwrap();
    }

    fn authorities(&self, crls: CrlChecks) -> ClientAuthorities {
        ClientAuthorities { place: self.folder.path().to_owned(), crls }
    }

    fn verify(&self, crls: CrlChecks, user: &CertificateDer<'_>) -> Result<(), rustls::Error> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let (verifier, _) = self.authorities(crls).verifier(&provider).unwrap();
        verifier.verify_client_cert(user, &[], UnixTime::now()).map(drop)
    }
}

fn reason(result: Result<(), rustls::Error>) -> CertificateError {
    match result {
        Err(rustls::Error::InvalidCertificate(reason)) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_revoked_certificate_is_refused_with_that_reason() {
    let grid = Grid::new();
    let (revoked, fine) = (grid.user("Grid", 7), grid.user("Grid", 8));
    assert_eq!(grid.verify(CrlChecks::Use, &revoked), Ok(()), "there is no list");
    let list = grid.list(7, 2040);
    for content in [list.pem().unwrap().into_bytes(), list.der().to_vec()] {
        grid.write("5168735f.r0", content);
        for crls in [CrlChecks::Use, CrlChecks::Require] {
            assert_eq!(reason(grid.verify(crls, &revoked)), CertificateError::Revoked);
            assert_eq!(grid.verify(crls, &fine), Ok(()));
        }
    }
}

#[test]
fn a_list_that_is_missing_or_out_of_date_matters_only_where_lists_are_required() {
    let grid = Grid::new();
    let (revoked, fine) = (grid.user("Grid", 7), grid.user("Grid", 8));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let (_, problems) = grid.authorities(CrlChecks::Use).verifier(&provider).unwrap();
    assert!(problems[0].contains("no revocation lists"), "{problems:?}");
    let error = grid.authorities(CrlChecks::Require).verifier(&provider).unwrap_err().to_string();
    assert!(error.contains("`crls = \"require\"` needs revocation lists"), "{error}");
    grid.write("5168735f.r0", grid.list(7, 2025).der());
    assert_eq!(reason(grid.verify(CrlChecks::Use, &revoked)), CertificateError::Revoked);
    assert_eq!(grid.verify(CrlChecks::Use, &fine), Ok(()));
    assert!(grid.verify(CrlChecks::Require, &fine).is_err());
    // The list of another authority.
    grid.write("5168735f.r0", Grid::new().list(7, 2040).der());
    assert!(grid.verify(CrlChecks::Require, &fine).is_err());
}

#[test]
fn lists_without_extensions_are_used_like_others() {
    for version in [1, 2] {
        let grid = Grid::new();
        let (revoked, fine) = (grid.user("Grid", 7), grid.user("Grid", 8));
        grid.write("5168735f.r0", grid.simple_list(7, 2040, version));
        for crls in [CrlChecks::Use, CrlChecks::Require] {
            assert_eq!(reason(grid.verify(crls, &revoked)), CertificateError::Revoked);
            assert_eq!(grid.verify(crls, &fine), Ok(()), "version {version}");
        }
        // Out of date.
        grid.write("5168735f.r0", grid.simple_list(7, 2025, version));
        assert_eq!(reason(grid.verify(CrlChecks::Use, &revoked)), CertificateError::Revoked);
        assert_eq!(grid.verify(CrlChecks::Use, &fine), Ok(()));
        assert!(grid.verify(CrlChecks::Require, &fine).is_err());
        // With a second list, which has other certificates.
        grid.write("5168735f.r1", grid.simple_list(8, 2040, version));
        for user in [&revoked, &fine] {
            assert_eq!(reason(grid.verify(CrlChecks::Use, user)), CertificateError::Revoked);
        }
    }
}

#[test]
fn an_authority_whose_list_cannot_be_used_is_refused() {
    let grid = Grid::new();
    let mut changed = grid.simple_list(7, 2040, 2);
    *changed.last_mut().unwrap() ^= 1;
    let forged = Grid::new().simple_list(7, 2040, 1);
    let truncated = grid.list(7, 2040).der()[..100].to_vec();
    for content in [b"?".as_slice(), &[0x30, 0], &truncated, &changed, &forged] {
        grid.write("5168735f.r0", content);
        for crls in [CrlChecks::Use, CrlChecks::Require] {
            let CertificateError::Other(OtherError(refused)) =
                reason(grid.verify(crls, &grid.user("Grid", 8)))
            else {
                panic!("{content:?}")
            };
            assert!(refused.to_string().contains("5168735f.r0"), "{refused}");
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let (_, problems) = grid.authorities(CrlChecks::Use).verifier(&provider).unwrap();
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].ends_with("certificates of this authority are refused"));
    }
}

#[test]
fn files_that_cannot_be_used_are_named_and_stop_nothing() {
    let grid = Grid::new();
    grid.write("5168735f.r0", grid.list(7, 2040).der());
    grid.write("0a1b2c3d.r0", "-----BEGIN X509 CRL-----\n!\n-----END X509 CRL-----\n");
    grid.write("1a1b2c3d.r1", [0x30, 0]);
    grid.write("x.signing_policy", "?");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let (_, problems) = grid.authorities(CrlChecks::Use).verifier(&provider).unwrap();
    for name in ["0a1b2c3d.r0", "1a1b2c3d.r1", "x.signing_policy"] {
        assert!(problems.iter().any(|problem| problem.contains(name)), "{name}: {problems:?}");
    }
    assert_eq!(problems.len(), 3);
    let revoked = grid.user("Grid", 7);
    assert_eq!(reason(grid.verify(CrlChecks::Use, &revoked)), CertificateError::Revoked);
}

#[test]
fn a_name_outside_of_the_signing_policy_is_refused() {
    let grid = Grid::new();
    let policy = "access_id_CA X509 '/O=Grid/CN=Authority'\npos_rights globus CA:sign\n\
                  cond_subjects globus '\"/O=Grid/*\"'\n";
    let (inside, outside) = (grid.user("Grid", 1), grid.user("Elsewhere", 2));
    assert_eq!(grid.verify(CrlChecks::Use, &outside), Ok(()), "there is no policy");
    grid.write("5168735f.signing_policy", policy);
    assert_eq!(grid.verify(CrlChecks::Use, &inside), Ok(()));
    let CertificateError::Other(OtherError(refused)) =
        reason(grid.verify(CrlChecks::Use, &outside))
    else {
        panic!()
    };
    let refused = refused.to_string();
    assert!(refused.contains("does not allow the name O=Elsewhere, CN=Alice"), "{refused}");
}

/// A certificate and its key in one file.
fn server_files(folder: &Path) -> TlsFiles {
    use std::os::unix::fs::PermissionsExt;
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let pem = folder.join("host.pem");
    fs::write(&pem, made.cert.pem() + &made.signing_key.serialize_pem()).unwrap();
    fs::set_permissions(&pem, fs::Permissions::from_mode(0o600)).unwrap();
    TlsFiles { certificate: pem.clone(), key: pem }
}

#[test]
fn lists_and_policies_are_read_again_when_they_change() {
    let grid = Grid::new();
    let own = tempfile::tempdir().unwrap();
    let current = Current::load(server_files(own.path()), Some(grid.authorities(CrlChecks::Use)));
    let tls = CertificateReloader::new(current.unwrap());
    let reloaded = || {
        let before = tls.config();
        tls.refresh();
        !Arc::ptr_eq(&before, &tls.config())
    };
    assert!(!reloaded());
    grid.write("5168735f.r0", grid.list(7, 2040).der());
    assert!(reloaded() && !reloaded());
    let later = SystemTime::now() + Duration::from_secs(5);
    let list = fs::File::options().write(true).open(grid.folder.path().join("5168735f.r0"));
    list.unwrap().set_modified(later).unwrap();
    assert!(reloaded() && !reloaded());
    fs::remove_file(grid.folder.path().join("5168735f.r0")).unwrap();
    assert!(reloaded());
}
