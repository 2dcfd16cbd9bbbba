//! From the header of a request to a decision, with an issuer that can be dead.

use super::*;
use crate::authorization::oidc_discovery::JwksFuture;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hither_auth::{Grant, Issuer, PathPrefix};
use hither_core::error::{Error, ErrorKind};
use http::HeaderValue;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

const ISSUER: &str = "https://iam.example";

/// An issuer, and who asks it.
struct Iam {
    key: EcdsaKeyPair,
    asked: AtomicUsize,
    dead: AtomicBool,
}

impl std::fmt::Debug for Iam {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Iam")
    }
}

impl Iam {
    fn new() -> Arc<Self> {
        let random = SystemRandom::new();
        let kind = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(kind, &random).unwrap();
        let key = EcdsaKeyPair::from_pkcs8(kind, pkcs8.as_ref(), &random).unwrap();
        Arc::new(Self { key, asked: AtomicUsize::new(0), dead: AtomicBool::new(false) })
    }

    fn token(&self, kid: &str, more: &str) -> String {
        let encode = |text: String| URL_SAFE_NO_PAD.encode(text);
        let header = encode(format!(r#"{{"alg":"ES256","kid":"{kid}"}}"#));
        let exp = seconds() + 600;
        let payload =
            encode(format!(r#"{{"iss":"{ISSUER}","sub":"alice","aud":"ANY","exp":{exp},{more}}}"#));
        let message = format!("{header}.{payload}");
        let signature = self.key.sign(&SystemRandom::new(), message.as_bytes()).unwrap();
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

impl KeyDiscovery for Iam {
    fn keys(&self, issuer: &str) -> JwksFuture {
        assert_eq!(issuer, ISSUER, "nobody else is asked");
        self.asked.fetch_add(1, Ordering::Relaxed);
        if self.dead.load(Ordering::Relaxed) {
            return Box::pin(async { Err(Error::new(ErrorKind::Unavailable, "dead")) });
        }
        let (x, y) = self.key.public_key().as_ref()[1..].split_at(32);
        let x = URL_SAFE_NO_PAD.encode(x);
        let y = URL_SAFE_NO_PAD.encode(y);
        let key = format!(r#"{{"kty":"EC","crv":"P-256","kid":"k","x":"{x}","y":"{y}"}}"#);
        let keys = Jwks::parse(format!(r#"{{"keys":[{key}]}}"#).as_bytes()).unwrap();
        Box::pin(async { Ok(keys) })
    }
}

fn guard(iam: &Arc<Iam>, write: bool) -> PolicyAuthorizer {
    let folder = |path| PathPrefix::of(path).unwrap();
    let issuer = Issuer { url: ISSUER.into(), bases: vec![folder("/")], groups: vec![] };
    let read = vec![hither_auth::Action::Read];
    let anonymous = vec![Grant { folder: folder("/pub"), actions: read }];
    let policy = Policy { issuers: vec![issuer], anonymous, ..Policy::default() };
    let mut ring = JwksCache::default();
    ring.add(ISSUER, None);
    let discovery: Arc<dyn KeyDiscovery> = Arc::clone(iam) as _;
    PolicyAuthorizer::new(policy, write, ring, discovery)
}

fn with(token: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let value = HeaderValue::from_str(&format!("Bearer {token}")).unwrap();
    headers.insert(header::AUTHORIZATION, value);
    headers
}

async fn ask(
    guard: &PolicyAuthorizer,
    headers: &HeaderMap,
    action: Action,
    path: &str,
) -> Decision {
    if let Some(prepared) = guard.prepare(headers) {
        prepared.await;
    }
    let peer = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
    guard.decide(&AccessRequest { action, path, headers, peer, is_secure: true, certificate: None })
}

fn status(decision: &Decision) -> u16 {
    match decision {
        Decision::Allowed => 200,
        Decision::Refused { status, .. } => status.as_u16(),
    }
}

#[tokio::test]
async fn a_token_opens_what_its_scope_names_and_its_issuer_is_asked_once() {
    let iam = Iam::new();
    let guard = guard(&iam, true);
    let headers = with(&iam.token("k", r#""scope":"storage.read:/a storage.create:/b""#));
    for (action, path, expected) in [
        (Action::Read, "a/x", 200),
        (Action::Read, "ab", 403),
        (Action::Create, "b/x", 200),
        (Action::Modify, "b/x", 403),
        (Action::Read, "pub/x", 200),
    ] {
        let decision = ask(&guard, &headers, action, path).await;
        assert_eq!(status(&decision), expected, "{action:?} {path} {decision:?}");
    }
    assert_eq!(iam.asked(), 1);
    let Decision::Refused { challenge, reason, .. } =
        ask(&guard, &headers, Action::Modify, "b/x \"y\"").await
    else {
        panic!("allowed")
    };
    let challenge = challenge.unwrap();
    assert!(challenge.contains(r#"error="insufficient_scope""#), "{challenge}");
    assert!(challenge.ends_with(r#"scope="storage.modify:/b/x%20%22y%22""#), "{challenge}");
    assert!(reason.contains("it needs storage.modify"), "{reason}");
}

#[tokio::test]
async fn all_invalid_credentials_get_the_same_reason() {
    let iam = Iam::new();
    let other = Iam::new();
    let guard = guard(&iam, true);
    let scope = r#""scope":"storage.read:/""#;
    let stranger = iam.token("k", scope).replacen("eyJ", "eyK", 1);
    let mut two = with(&iam.token("k", scope));
    two.append(header::AUTHORIZATION, HeaderValue::from_static("Bearer x"));
    let mut basic = HeaderMap::new();
    basic.insert(header::AUTHORIZATION, HeaderValue::from_static("Basic YTpi"));
    for headers in
        [HeaderMap::new(), with(&other.token("k", scope)), with(&stranger), with(""), two, basic]
    {
        let shown = !headers.is_empty();
        match ask(&guard, &headers, Action::Read, "a").await {
            Decision::Refused { status, reason, challenge } => {
                assert_eq!(status, 401);
                let expected =
                    ["a token or certificate is required", "the token is not valid here"];
                assert_eq!(reason, expected[usize::from(shown)]);
                assert_eq!(challenge.unwrap().contains("invalid_token"), shown);
            }
            Decision::Allowed => panic!("{headers:?}"),
        }
        assert_eq!(ask(&guard, &headers, Action::Read, "pub").await, Decision::Allowed);
    }
    assert_eq!(iam.asked(), 1);
}

#[tokio::test]
async fn known_keys_remain_valid_while_their_issuer_is_down() {
    let iam = Iam::new();
    let guard = guard(&iam, false);
    let headers = with(&iam.token("k", r#""scope":"storage.read:/ storage.modify:/""#));
    iam.dead.store(true, Ordering::Relaxed);
    for _ in 0..50 {
        assert_eq!(status(&ask(&guard, &headers, Action::Read, "a").await), 401);
    }
    assert!(iam.asked() < 10, "{}", iam.asked());
    iam.dead.store(false, Ordering::Relaxed);
    guard.shared.ask(ISSUER).await;
    assert_eq!(ask(&guard, &headers, Action::Read, "a").await, Decision::Allowed);
    iam.dead.store(true, Ordering::Relaxed);
    guard.shared.ask(ISSUER).await;
    let fresh = with(&iam.token("k", r#""scope":"storage.read:/""#));
    assert_eq!(ask(&guard, &fresh, Action::Read, "a").await, Decision::Allowed);
    // A site for reading stays one, whatever a token says.
    assert_eq!(status(&ask(&guard, &headers, Action::Modify, "a").await), 403);
    assert!(!guard.writes());
}

#[tokio::test]
async fn invented_keys_ask_once() {
    let iam = Iam::new();
    let guard = guard(&iam, true);
    let good = with(&iam.token("k", r#""scope":"storage.read:/""#));
    assert_eq!(ask(&guard, &good, Action::Read, "a").await, Decision::Allowed);
    for n in 0..50 {
        let headers = with(&iam.token(&format!("invented{n}"), r#""scope":"storage.read:/""#));
        assert_eq!(status(&ask(&guard, &headers, Action::Read, "a").await), 401);
    }
    assert!(iam.asked() <= 2, "{}", iam.asked());
}

#[test]
fn what_is_believed_is_bounded_and_bound_to_its_keys() {
    let mut verified = VerifiedTokens::default();
    let iam = Iam::new();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let keys = Arc::new(runtime.block_on(iam.keys(ISSUER)).unwrap());
    let text = iam.token("k", r#""x":1"#);
    let token = Arc::new(UnverifiedJwt::parse(&text).unwrap().verify(&keys).unwrap());
    for n in 0..MAX_VERIFIED * 2 {
        let mut sum = [0; 32];
        sum[..8].copy_from_slice(&n.to_le_bytes());
        verified.keep(sum, Arc::clone(&keys), Arc::clone(&token));
        assert!(verified.find(&sum, &keys).is_some());
        let others = Arc::new(keys.as_ref().clone());
        assert!(verified.find(&sum, &others).is_none(), "the keys have changed");
    }
    assert!(verified.young.len() + verified.old.len() <= MAX_VERIFIED);
}
