//! Certificates that the tests create, and the files that contain them.

use crate::x509::client_certificate::*;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, CustomExtension, DnType, IsCa, KeyPair,
};
use std::os::unix::fs::PermissionsExt;

fn uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// A day in rcgen's calendar, in seconds since 1970.
const DAY_2030: i64 = 1_893_456_000;

fn params(name: &str, until: i32) -> CertificateParams {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = rcgen::date_time_ymd(2020, 1, 1);
    params.not_after = rcgen::date_time_ymd(until, 1, 1);
    params
}

/// The content of a proxy file: proxy, key, person.
fn proxy_file(name: &str, marked: bool, until: i32) -> String {
    let person_key = KeyPair::generate().unwrap();
    let mut person = params("me", 2031);
    person.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let person = CertifiedIssuer::self_signed(person, person_key).unwrap();
    let key = KeyPair::generate().unwrap();
    let mut proxy = params(name, until);
    if marked {
        let oid = [1, 3, 6, 1, 5, 5, 7, 1, 14];
        // ProxyCertInfo { proxyPolicy { id-ppl-inheritAll } }
        let content = b"\x30\x0c\x30\x0a\x06\x08\x2b\x06\x01\x05\x05\x07\x15\x01".to_vec();
        proxy.custom_extensions.push(CustomExtension::from_oid_content(&oid, content));
    }
    let proxy = proxy.signed_by(&key, &person).unwrap();
    format!("{}{}{}", proxy.pem(), key.serialize_pem(), person.pem())
}

fn write(folder: &tempfile::TempDir, name: &str, text: &str, mode: u32) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    path
}

fn load(source: &CertificateSource, now: i64) -> Result<Option<ClientCertificate>> {
    source.load(uid(), now, &mut Vec::new())
}

#[test]
fn the_subject_of_a_proxy_is_its_persons() {
    let folder = tempfile::tempdir().unwrap();
    for (name, marked) in [("12345", true), ("proxy", false), ("limited proxy", false)] {
        let path = write(&folder, "proxy", &proxy_file(name, marked, 2030), 0o600);
        let proxy = load(&CertificateSource::Proxy(path), DAY_2030 - 10).unwrap().unwrap();
        assert_eq!((proxy.subject(), proxy.chain.len()), ("CN=me", 2), "{name}");
        assert_eq!(proxy.not_after(), DAY_2030);
        assert!(!format!("{proxy:?}").contains("PRIVATE"));
    }
}

#[test]
fn an_expired_proxy_is_an_error_if_named_and_absent_if_guessed() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(&folder, "proxy", &proxy_file("1", true, 2030), 0o600);
    let named = CertificateSource::Proxy(path.clone());
    let error = load(&named, DAY_2030 + 7_200).unwrap_err().to_string();
    assert!(error.contains("expired 2 h ago: create a new one (`voms-proxy-init`)"), "{error}");
    let error = load(&named, 0).unwrap_err().to_string();
    assert!(error.contains("is not valid for another"), "{error}");

    let guessed = CertificateSource::DefaultProxy(path);
    let mut problems = Vec::new();
    assert!(guessed.load(uid(), DAY_2030 + 7_200, &mut problems).unwrap().is_none());
    assert!(problems.iter().any(|problem| problem.contains("expired")), "{problems:?}");
    let mut problems = Vec::new();
    let none = CertificateSource::DefaultProxy(folder.path().join("none"));
    assert!(none.load(uid(), 0, &mut problems).unwrap().is_none() && problems.is_empty());
    assert!(load(&CertificateSource::Proxy(folder.path().join("none")), 0).is_err());
}

#[test]
fn keys_must_be_private_and_unencrypted() {
    let folder = tempfile::tempdir().unwrap();
    let key = KeyPair::generate().unwrap();
    let pem = params("me", 2030).self_signed(&key).unwrap().pem();
    let certificate = write(&folder, "cert.pem", &pem, 0o644);
    let with = |key: PathBuf| CertificateSource::Files { certificate: certificate.clone(), key };
    let good = write(&folder, "key.pem", &key.serialize_pem(), 0o600);
    assert_eq!(load(&with(good), DAY_2030 - 1).unwrap().unwrap().subject(), "CN=me");

    let open = write(&folder, "open.pem", &key.serialize_pem(), 0o644);
    assert!(matches!(load(&with(open), DAY_2030 - 1), Err(AuthError::Exposed { .. })));
    for text in [
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n",
        "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: DES,1\n\nAAAA\n-----END RSA PRIVATE KEY-----\n",
    ] {
        let locked = write(&folder, "locked.pem", text, 0o600);
        assert!(matches!(load(&with(locked), DAY_2030 - 1), Err(AuthError::EncryptedKey { .. })));
    }
    for (text, reason) in [("", "no private key"), (pem.as_str(), "no private key")] {
        let none = write(&folder, "none.pem", text, 0o600);
        let error = load(&with(none), DAY_2030 - 1).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn text_that_is_no_certificate_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let key = KeyPair::generate().unwrap().serialize_pem();
    for (text, reason) in [
        (key.clone(), "contains no certificate"),
        (
            format!("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n{key}"),
            "certificate 1 is corrupt",
        ),
        (
            format!("-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n{key}"),
            "not well-formed PEM",
        ),
    ] {
        let path = write(&folder, "proxy", &text, 0o600);
        let error = load(&CertificateSource::Proxy(path), 0).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn variables_are_tried_in_order() {
    let environment = Environment::new(7);
    assert_eq!(
        CertificateSource::discovery(&environment),
        CertificateSource::DefaultProxy("/tmp/x509up_u7".into())
    );
    let environment = environment.with("X509_USER_CERT", "/c").with("X509_USER_KEY", "/k");
    let files = CertificateSource::Files { certificate: "/c".into(), key: "/k".into() };
    let of = |name, source| CertificateSource::Variable { name, source: Box::new(source) };
    assert_eq!(CertificateSource::discovery(&environment), of("X509_USER_CERT", files));
    let environment = environment.with("X509_USER_PROXY", "/nowhere/p");
    let found = CertificateSource::discovery(&environment);
    assert_eq!(found, of("X509_USER_PROXY", CertificateSource::Proxy("/nowhere/p".into())));
    // A user who has forgotten the variable does not recognise the path.
    let error = load(&found, 0).unwrap_err();
    assert!(error.to_string().starts_with("X509_USER_PROXY names a file"), "{error}");
}
