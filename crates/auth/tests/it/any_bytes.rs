//! Properties of arbitrary bytes: for the fuzz targets, and for the replay of their seeds.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hither_auth::{
    Action, Claims, CredentialConfig, Credentials, Jwks, Origin, PathPrefix, Permission, Policy,
    PresentedToken, Principal, RejectedRequest, Secret, TokenSource, UnverifiedJwt,
    end_entity_index, public_key_of, subject_of,
};
use rustls_pki_types::CertificateDer;
use std::time::{Duration, UNIX_EPOCH};

/// Tests four lines (claims, scope, path, challenge), and the whole input as a token: the
/// explanation of each terminates, is short, is safe for a terminal, and does not contain the
/// token.
pub(crate) fn token(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut lines = text.splitn(4, '\n');
    let mut line = || lines.next().unwrap_or_default();
    let (claims, scope, path, challenge) = (line(), line(), line(), line());

    let words: Vec<&str> = scope.split_whitespace().collect();
    for action in [Action::Read, Action::List, Action::Create, Action::Modify] {
        let verdict = Permission::of(&words, action, path);
        // An additional word never removes a permission.
        if verdict == Permission::Granted {
            let more = [&["openid"], words.as_slice(), &["storage.read:/x"]].concat();
            assert_eq!(Permission::of(&more, action, path), Permission::Granted);
        }
    }

    served(text.trim(), claims, path);
    let jwt = format!("eyJ9.{}.c2ln", URL_SAFE_NO_PAD.encode(claims));
    for token in [Secret::new(jwt), Secret::new(text.trim())] {
        let _refused = Claims::decode(&token);
        explained(&token, path, challenge);
    }
}

/// Checks that a server accepts no unsigned token, whatever claims and keys it contains.
fn served(token: &str, claims: &str, path: &str) {
    let point = "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU";
    let other = "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0";
    let key = format!(r#"{{"kty":"EC","crv":"P-256","x":"{point}","y":"{other}"}}"#);
    let keys = Jwks::parse(format!(r#"{{"keys":[{key},{claims}]}}"#).as_bytes())
        .or_else(|_| Jwks::parse(format!(r#"{{"keys":[{key}]}}"#).as_bytes()))
        .unwrap();
    let header = URL_SAFE_NO_PAD.encode(r#"{"alg":"ES256"}"#);
    let made = format!("{header}.{}.c2ln", URL_SAFE_NO_PAD.encode(claims));
    for text in [token, &made] {
        if let Ok(token) = UnverifiedJwt::parse(text) {
            let issuer = token.issuer().to_owned();
            assert!(token.verify(&keys).map_or(true, |token| token.issuer() == issuer));
        }
    }
    assert!(UnverifiedJwt::parse(&made).map_or(true, |token| token.verify(&keys).is_err()));
    let identity = Principal { token: PresentedToken::Invalid, certificate: None };
    let denied = Policy::default().authorize(&identity, Action::Read, path, 0);
    assert!(denied.is_err_and(|denied| !denied.to_string().contains(char::is_control)));
    if let Some(folder) = PathPrefix::of(path) {
        assert!(!folder.to_string().split('/').any(|name| matches!(name, "." | "..")));
    }
}

fn explained(token: &Secret, path: &str, challenge: &str) {
    let mut config = CredentialConfig::default();
    config.token = Some(TokenSource::Value(token.clone()));
    let credentials = Credentials::new(config);
    let now = UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    let asked = Origin::parse("https://host/").unwrap();
    let serial = credentials.authorization(&asked, &asked, now).generation();
    if credentials.refresh(serial, now).is_err() {
        return;
    }
    for status in [401, 403] {
        let challenge = Some(challenge);
        let refusal = RejectedRequest {
            requested: &asked,
            at: &asked,
            action: Action::Read,
            path,
            status,
            challenge,
            is_explained: false,
        };
        let text = credentials.explain_rejection(&refusal, now);
        assert!(text.chars().count() < 4_000, "{} bytes", text.len());
        assert!(!text.chars().any(char::is_control), "{text:?}");
        // A short token may be a word of the explanation.
        assert!(token.expose().len() < 40 || !text.contains(token.expose()));
    }
    assert_eq!(credentials.cache_partition(&asked, &[], now).len(), 64);
}

/// Tests concatenated certificates: the end entity is one of them, and its key is from the input.
pub(crate) fn certificates(data: &[u8]) {
    let (mut chain, mut rest) = (Vec::new(), data);
    // The length of a sequence of several hundred bytes is in its third and fourth byte.
    while let [_, _, high, low, ..] = rest {
        let length = (4 + usize::from(*high) * 256 + usize::from(*low)).min(rest.len());
        chain.push(CertificateDer::from(&rest[..length]));
        rest = &rest[length..];
    }
    for now in [0, 1_800_000_000, i64::MAX] {
        if let Ok(person) = end_entity_index(&chain, now) {
            assert!(person < chain.len());
            assert!(subject_of(&chain[person..]).is_some());
        }
    }
    // An empty name has no text.
    if let Some(subject) = subject_of(&chain).filter(|subject| !subject.to_string().is_empty()) {
        assert_eq!(subject.to_string().parse().ok(), Some(subject));
    }
    for certificate in &chain {
        assert!(public_key_of(certificate).is_none_or(|key| key.len() < certificate.len()));
    }
}
