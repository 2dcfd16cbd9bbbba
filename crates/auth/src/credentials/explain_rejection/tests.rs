//! Explanations, claim by claim.

use crate::credentials::explain_rejection::*;
use crate::sanitize::is_printable;
use crate::token::claims::tests::jwt;
use crate::{Basic, CredentialConfig, Environment, HostPattern, Secret, TokenSource};
use proptest::prelude::*;
use std::time::{Duration, UNIX_EPOCH};

const NOW: u64 = 1_000_000;

fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(NOW)
}

fn with_token(token: Secret) -> Credentials {
    let config = CredentialConfig { token: Some(TokenSource::Value(token)), ..Default::default() };
    ready(Credentials::new(config))
}

fn ready(credentials: Credentials) -> Credentials {
    let origin = Origin::parse("https://host/").unwrap();
    let serial = credentials.authorization(&origin, &origin, now()).generation();
    // Some tests use tokens that cannot be read.
    let _result = credentials.refresh(serial, now());
    credentials
}

fn explain(credentials: &Credentials, action: Action, path: &str, status: u16) -> String {
    let requested = Origin::parse("https://se.site.org:1094/").unwrap();
    let refusal = RejectedRequest {
        requested: &requested,
        at: &requested,
        action,
        path,
        status,
        challenge: None,
        is_explained: false,
    };
    credentials.explain_rejection(&refusal, now())
}

#[test]
fn the_wrong_claim_is_named() {
    let good = r#""iss":"https://iam","sub":"me","exp":1000600"#;
    for (claims, action, path, expected) in [
        (r#""exp":999280"#.to_owned(), Action::Read, "/a", "it expired 12 min ago (exp)"),
        (r#""exp":1000000"#.to_owned(), Action::Read, "/a", "it expired 0 s ago (exp)"),
        (r#""nbf":1000090"#.to_owned(), Action::Read, "/a", "not valid for another 90 s (nbf)"),
        (
            format!(r#"{good},"aud":"https://other.org""#),
            Action::Read,
            "/a",
            "meant for `https://other.org` (aud), and this server is https://se.site.org:1094",
        ),
        (
            format!(r#"{good},"scope":"storage.create:/a openid""#),
            Action::Read,
            "/a/b",
            "does not allow reading: it needs storage.read:`/a/b` or a parent folder (scope)",
        ),
        (
            format!(r#"{good},"scope":"storage.read""#),
            Action::List,
            "/a",
            "(`storage.read` without a path is invalid)",
        ),
        (
            format!(r#"{good},"scope":"storage.read:/atlas/a storage.stage:/b""#),
            Action::Read,
            "/atlas/ab",
            "allows reading below `/atlas/a /b` only, which does not cover `/atlas/ab` (scope)",
        ),
        (
            format!(r#"{good},"scope":"storage.read:/data""#),
            Action::Read,
            "/atlas/data/x",
            "covers `/atlas/data/x` only if the server's base path for this issuer is `/atlas`",
        ),
        (
            format!(r#"{good},"scope":"storage.read:/ storage.create:/""#),
            Action::Modify,
            "/a",
            "does not allow changing: it needs storage.modify:`/a`",
        ),
        (
            format!(r#"{good},"aud":"ANY","scope":"read:/""#),
            Action::Read,
            "/a",
            "although its claims look right: valid for another 10 min, audience `ANY`, scope `read:/`",
        ),
        ("".to_owned(), Action::Read, "/a", "no expiry, no audience, no scope"),
    ] {
        let text = explain(&with_token(jwt(&format!("{{{claims}}}"))), action, path, 403);
        assert!(text.contains(expected), "{claims}: {text}");
    }
}

#[test]
fn several_wrong_claims_are_named() {
    let token = jwt(r#"{"sub":"me","iss":"https://iam","exp":1,"aud":"x","scope":"openid"}"#);
    let text = explain(&with_token(token), Action::Read, "/a", 401);
    let who = "the token from the token (subject `me`, issuer `https://iam`) was rejected: it expired 11 days";
    assert!(text.starts_with(who), "{text}");
    assert!(
        text.contains("(exp), and it is meant for `x` (aud)") && text.contains("(scope)"),
        "{text}"
    );
}

#[test]
fn nothing_is_guessed_beside_a_reason_of_the_server() {
    let requested = Origin::parse("https://se.site.org:1094/").unwrap();
    let told = |credentials: &Credentials, status| {
        let refusal = RejectedRequest {
            requested: &requested,
            at: &requested,
            action: Action::Create,
            path: "/a",
            status,
            challenge: None,
            is_explained: true,
        };
        credentials.explain_rejection(&refusal, now())
    };
    let token = jwt(r#"{"sub":"me","iss":"https://iam","aud":"x","scope":"openid"}"#);
    let sent = "the token from the token (subject `me`, issuer `https://iam`) was sent";
    assert_eq!([401, 403].map(|status| told(&with_token(token.clone()), status)), [sent, sent]);
    let basic = Basic::new("me", Secret::new("hush")).unwrap();
    let config = CredentialConfig { basic: Some(basic), ..Default::default() };
    assert_eq!(told(&Credentials::new(config), 403), "the password of user `me` was sent");
    assert_eq!(told(&Credentials::default(), 403), "");
    assert!(told(&Credentials::default(), 401).contains("none is configured"));
}

#[test]
fn audiences_name_servers_in_several_ways() {
    let server = Origin::parse("https://se.site.org:1094/").unwrap();
    for (audience, meant) in [
        ("https://wlcg.cern.ch/jwt/v1/any", true),
        ("ANY", true),
        ("https://se.site.org:1094", true),
        ("https://SE.site.org:1094/", true),
        ("se.site.org", true),
        ("se.site.org:1094", true),
        ("roots://se.site.org:1094", true),
        ("se.site.org:443", false),
        ("https://se.site.org", false),
        ("https://site.org:1094", false),
        ("site.org", false),
        ("any", false),
        ("", false),
    ] {
        assert_eq!(is_meant_for(audience, &server), meant, "{audience}");
    }
    let six = Origin::parse("https://[::1]:1094/").unwrap();
    assert!(is_meant_for("[::1]:1094", &six) && is_meant_for("::1", &six));
}

#[test]
fn an_opaque_or_damaged_token_is_called_so() {
    let text = explain(&with_token(Secret::new("MDAxabc")), Action::Read, "/a", 403);
    assert!(text.contains("not a JWT") && !text.contains("MDAx"), "{text}");
    let text = explain(&with_token(Secret::new("eyJh.eyJz.c2ln")), Action::Read, "/a", 403);
    assert!(
        text.contains("cannot be decoded: it may have been cut") && !text.contains("eyJ"),
        "{text}"
    );
}

#[test]
fn without_credentials_the_searched_places_are_listed() {
    let none = Credentials::default();
    let text = explain(&none, Action::Read, "/a", 401);
    assert_eq!(text, "no token or password was sent: none is configured");

    let folder = tempfile::tempdir().unwrap();
    let here = folder.path().display().to_string();
    // A user id that this machine does not have, so that /tmp contains no file for it.
    let environment =
        Environment::new(4_000_000_001).with("XDG_RUNTIME_DIR", &here).with("HOME", &here);
    let config = CredentialConfig { certificate: None, ..CredentialConfig::discover(&environment) };
    let text = explain(&ready(Credentials::new(config)), Action::Read, "/a", 401);
    let expected = format!(
        "credentials are required, and none was found in BEARER_TOKEN, BEARER_TOKEN_FILE, {here}/bt_u4000000001, \
         /tmp/bt_u4000000001, {here}/.netrc"
    );
    assert_eq!(text, expected);
}

#[test]
fn a_withheld_credential_is_explained() {
    let mut config = CredentialConfig {
        token: Some(TokenSource::Value(Secret::new("hush"))),
        follow: vec![HostPattern::parse("*.site.org").unwrap()],
        ..Default::default()
    };
    let requested = Origin::parse("https://door.org/").unwrap();
    let explained = |config: &CredentialConfig, url: &str| {
        let at = Origin::parse(url).unwrap();
        let credentials = ready(Credentials::new(config.clone()));
        let action = Action::Read;
        let refusal = RejectedRequest {
            requested: &requested,
            at: &at,
            action,
            path: "/",
            status: 401,
            challenge: None,
            is_explained: false,
        };
        credentials.explain_rejection(&refusal, now())
    };
    let text = explained(&config, "https://pool.evil.org/");
    assert!(
        text.contains("meant for https://door.org, and the redirect led to https://pool.evil.org"),
        "{text}"
    );
    for over_plain_http in [false, true] {
        config.over_plain_http = over_plain_http;
        let text = explained(&config, "http://pool.site.org/");
        assert!(text.contains("and http://pool.site.org does not encrypt"), "{text}");
    }
    assert!(explained(&config, "https://pool.site.org/").contains("was rejected"));
}

#[test]
fn a_rejected_password_is_not_shown() {
    let basic = Basic::new("me", Secret::new("hush")).unwrap();
    let credentials =
        Credentials::new(CredentialConfig { basic: Some(basic), ..Default::default() });
    let text = explain(&credentials, Action::Read, "/a", 401);
    assert_eq!(text, "the password of user `me` from the configuration was rejected");
    let text = explain(&credentials, Action::Modify, "/a", 403);
    assert_eq!(text, "changing is not allowed for user `me`");
}

#[test]
fn the_servers_reason_is_sanitized() {
    let token = jwt(r#"{"sub":"\u001b[31mred\u202e","iss":"x"}"#);
    let secret = token.expose().to_owned();
    let credentials = with_token(token);
    let requested = Origin::parse("https://host/").unwrap();
    let challenge = format!(
        "Bearer error=\"invalid_token\", error_description=\"{secret}\x07{}\"",
        "x".repeat(500)
    );
    let refusal = RejectedRequest {
        requested: &requested,
        at: &requested,
        action: Action::Read,
        path: "/\x1b]0;title\x07",
        status: 401,
        challenge: Some(&challenge),
        is_explained: false,
    };
    let text = credentials.explain_rejection(&refusal, now());
    assert!(text.contains("the server says: Bearer error=\"invalid_token\""), "{text}");
    assert!(!text.contains(&secret) && text.chars().all(is_printable), "{text}");
    assert!(text.len() < 1_000, "{} bytes", text.len());
}

#[test]
fn spans_have_a_fitting_unit() {
    for (seconds, text) in
        [(-5, "0 s"), (119, "119 s"), (120, "2 min"), (7_200, "2 h"), (172_800, "2 days")]
    {
        assert_eq!(span(seconds), text);
    }
}

proptest! {
    #[test]
    fn no_token_and_no_server_breaks_an_explanation(
        claims in "[\\[\\]{}\":,a-z0-9.e/-]{0,60}",
        exp in any::<i64>(),
        scope in "(storage\\.|read|write|:|/|%|[a-z]| ){0,20}",
        path in ".{0,20}",
        challenge in ".{0,40}",
    ) {
        let requested = Origin::parse("https://host/").unwrap();
        for claims in [claims, format!(r#"{{"exp":{exp},"nbf":{exp},"scope":"{scope}","aud":["{path}"]}}"#)] {
            let token = jwt(&claims);
            let credentials = with_token(token.clone());
            let refusal = RejectedRequest {
                requested: &requested, at: &requested, action: Action::Read, path: &path, status: 403, challenge: Some(&challenge),
                is_explained: false,
            };
            let text = credentials.explain_rejection(&refusal, now());
            prop_assert!(!text.contains(token.expose()));
            prop_assert!(text.chars().all(is_printable));
        }
    }
}
