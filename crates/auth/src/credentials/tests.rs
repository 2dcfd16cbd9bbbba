//! Choice of credentials, and their renewal.

use super::*;
use crate::token::claims::tests::jwt;
use crate::{AuthError, HostPattern};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

fn at(second: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(second)
}

fn origin(url: &str) -> Origin {
    Origin::parse(url).unwrap()
}

fn uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn private(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

fn expiring(name: &str, second: u64) -> Secret {
    jwt(&format!(r#"{{"iss":"i","sub":"me","jti":"{name}","exp":{second}}}"#))
}

fn reading(source: TokenSource) -> Credentials {
    Credentials::new(CredentialConfig { token: Some(source), uid: uid(), ..Default::default() })
}

/// Gets the `Authorization` field as a request does: refreshes if necessary, and gets it again.
fn sent(credentials: &Credentials, url: &str, second: u64) -> Option<String> {
    let origin = origin(url);
    let mut answer = credentials.authorization(&origin, &origin, at(second));
    if let Authorization::NeedsRefresh(serial) = answer {
        credentials.refresh(serial, at(second)).unwrap();
        answer = credentials.authorization(&origin, &origin, at(second));
    }
    match answer {
        Authorization::Ready(value, _) => Some(value.expose().to_owned()),
        Authorization::Nothing(_) => None,
        Authorization::NeedsRefresh(_) => panic!("it was just read"),
    }
}

fn bearer(token: &Secret) -> Option<String> {
    Some(format!("Bearer {}", token.expose()))
}

fn basic(user: &str, password: &str) -> Basic {
    Basic::new(user, Secret::new(password)).unwrap()
}

#[test]
fn credentials_stay_with_their_origin() {
    let mut config = CredentialConfig { basic: Some(basic("me", "hush")), ..Default::default() };
    let sent = |config: &CredentialConfig, asked: &str, at_url: &str| {
        let credentials = Credentials::new(config.clone());
        let answer = credentials.authorization(&origin(asked), &origin(at_url), at(0));
        matches!(answer, Authorization::Ready(..))
    };
    for (asked, at, expected) in [
        ("https://a.org/", "https://a.org/", true),
        ("https://a.org/", "https://a.org:444/", false),
        ("https://a.org/", "https://b.org/", false),
        ("https://a.org/", "http://a.org/", false),
        ("http://a.org/", "http://a.org/", false),
        ("http://a.org/", "https://a.org/", false),
        ("http://127.0.0.1:81/", "http://127.0.0.1:81/", true),
        ("http://127.0.0.1:81/", "http://127.0.0.1:82/", false),
        ("http://localhost/", "http://localhost/", true),
    ] {
        assert_eq!(sent(&config, asked, at), expected, "{asked} -> {at}");
    }
    config.follow = vec![HostPattern::parse("*.b.org").unwrap()];
    assert!(sent(&config, "https://a.org/", "https://pool.b.org/"));
    assert!(!sent(&config, "https://a.org/", "http://pool.b.org/"));
    config.over_plain_http = true;
    assert!(!sent(&config, "https://a.org/", "http://pool.b.org/"));
    assert!(sent(&config, "http://a.org/", "http://pool.b.org/"));
    assert!(!sent(&config, "https://a.org/", "http://a.org/"));
    // A local document names no origin of a credential: only configured hosts get one.
    let document = |at_url| {
        let credentials = Credentials::new(config.clone());
        let answer = credentials.authorization(&Origin::document(), &origin(at_url), at(0));
        matches!(answer, Authorization::Ready(..))
    };
    assert!(!document("https://a.org/") && document("https://pool.b.org/"));
}

#[test]
fn the_most_deliberate_credential_is_chosen() {
    let folder = tempfile::tempdir().unwrap();
    let netrc = folder.path().join(".netrc");
    private(&netrc, "machine a.org login netrc password n\n");
    let guessed = folder.path().join("bt");
    private(&guessed, "guessed");
    let token = TokenSource::Discovery { value: None, named: None, places: vec![guessed] };
    let mut config = CredentialConfig {
        token: Some(token),
        netrc: Some(netrc),
        uid: uid(),
        ..Default::default()
    };
    let header = |basic: Basic| Some(basic.header().expose().to_owned());

    let credentials = Credentials::new(config.clone());
    assert_eq!(sent(&credentials, "https://a.org/", 0), header(basic("netrc", "n")));
    assert_eq!(sent(&credentials, "https://b.org/", 0), Some("Bearer guessed".into()));
    config.basic = Some(basic("me", "p"));
    assert_eq!(
        sent(&Credentials::new(config.clone()), "https://a.org/", 0),
        header(basic("me", "p"))
    );
    config.token = Some(TokenSource::Value(Secret::new("given")));
    let credentials = Credentials::new(config);
    assert_eq!(sent(&credentials, "https://a.org/", 0), Some("Bearer given".into()));
    let of_url = credentials.for_url(origin("https://a.org/"), basic("url", "u"));
    assert_eq!(sent(&of_url, "https://a.org/x", 0), header(basic("url", "u")));
    assert_eq!(sent(&of_url, "https://b.org/x", 0), Some("Bearer given".into()));
    assert_eq!(sent(&credentials, "https://a.org/", 0), Some("Bearer given".into()));
}

#[test]
fn a_token_is_read_again_before_it_expires() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bt");
    let first = expiring("1", 1_000);
    let second = expiring("2", 2_000);
    private(&path, first.expose());
    let credentials = reading(TokenSource::File(path.clone()));
    assert_eq!(sent(&credentials, "https://h/", 0), bearer(&first));
    private(&path, second.expose());
    assert_eq!(sent(&credentials, "https://h/", 939), bearer(&first));
    assert_eq!(sent(&credentials, "https://h/", 940), bearer(&second));
    // There is no newer token: the old one is sent until it expires, and also after that.
    for second_of_time in [1_940, 1_941, 1_999, 2_100] {
        assert_eq!(sent(&credentials, "https://h/", second_of_time), bearer(&second));
    }
}

#[test]
fn a_token_of_seconds_is_read_again_when_half_of_them_have_passed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bt");
    let tokens: Vec<_> = (1..=20).map(|n| expiring("x", 30 * n)).collect();
    private(&path, tokens[0].expose());
    let credentials = reading(TokenSource::File(path.clone()));
    // Ten minutes of tokens that live for 30 s and are replaced 5 s before they expire: no expired
    // token is sent.
    for second in 0..570 {
        let newest = usize::try_from((second + 5) / 30).unwrap();
        if (second + 5) % 30 == 0 {
            private(&path, tokens[newest].expose());
        }
        let value = Secret::new(sent(&credentials, "https://h/", second).unwrap().split_off(7));
        let expires = Claims::decode(&value).unwrap().expires.unwrap();
        assert!(i64::try_from(second).unwrap() < expires, "second {second}: expired at {expires}");
    }
}

#[test]
fn a_failed_renewal_is_no_error_while_the_token_is_valid() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bt");
    let first = expiring("1", 1_000);
    let second = expiring("2", 2_000);
    private(&path, first.expose());
    let credentials = reading(TokenSource::File(path.clone()));
    assert_eq!(sent(&credentials, "https://h/", 0), bearer(&first));
    private(&path, "");
    assert_eq!(sent(&credentials, "https://h/", 950), bearer(&first));
    private(&path, second.expose());
    assert_eq!(sent(&credentials, "https://h/", 956), bearer(&second));
    private(&path, "");
    let Authorization::NeedsRefresh(serial) =
        credentials.authorization(&origin("https://h/"), &origin("https://h/"), at(2_001))
    else {
        panic!("it has expired")
    };
    let error = credentials.refresh(serial, at(2_001)).unwrap_err();
    assert!(error.to_string().contains("empty"), "{error}");
}

#[test]
fn after_a_rejection_the_source_is_read_once_for_all_requests() {
    let folder = tempfile::tempdir().unwrap();
    let count = folder.path().join("count");
    let line = format!("echo x >> {}; wc -l < {} | tr -d ' '", count.display(), count.display());
    let credentials = reading(TokenSource::command(line));
    assert_eq!(sent(&credentials, "https://h/", 0), Some("Bearer 1".into()));
    let old = credentials
        .authorization(&origin("https://h/"), &origin("https://h/"), at(10))
        .generation();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| assert!(credentials.refresh(old, at(10)).unwrap()));
        }
    });
    assert_eq!(sent(&credentials, "https://h/", 10), Some("Bearer 2".into()));
    let new = credentials
        .authorization(&origin("https://h/"), &origin("https://h/"), at(11))
        .generation();
    assert!(!credentials.refresh(new, at(11)).unwrap(), "the command was run again at once");
    assert!(credentials.refresh(new, at(20)).unwrap());
}

#[test]
fn fixed_tokens_are_not_read_again() {
    let credentials = reading(TokenSource::Value(expiring("1", 100)));
    assert!(sent(&credentials, "https://h/", 0).is_some());
    assert!(sent(&credentials, "https://h/", 1_000).is_some());
    let serial =
        credentials.authorization(&origin("https://h/"), &origin("https://h/"), at(0)).generation();
    assert!(!credentials.refresh(serial, at(1_000)).unwrap());

    let missing = reading(TokenSource::File("/nonexistent/bt".into()));
    let serial =
        missing.authorization(&origin("https://h/"), &origin("https://h/"), at(0)).generation();
    assert!(matches!(missing.refresh(serial, at(0)), Err(AuthError::Unreadable { .. })));
}

#[test]
fn without_credentials_nothing_is_read_and_the_partition_is_empty() {
    let nobody = Credentials::default();
    let host = origin("https://h/");
    assert!(matches!(nobody.authorization(&host, &host, at(0)), Authorization::Nothing(_)));
    assert_eq!(nobody.cache_partition(&host, &[], at(0)), "");
    assert!(nobody.client_certificate(&host, &host, at(0)).unwrap().is_none());
}

#[test]
fn a_partition_belongs_to_a_person_not_to_a_token() {
    let folder = tempfile::tempdir().unwrap();
    let host = origin("https://h/");
    let of_file = |name: &str, token: &Secret| {
        let path = folder.path().join(name);
        private(&path, token.expose());
        reading(TokenSource::File(path)).cache_partition(&host, &[], at(0))
    };
    let me = of_file("1", &expiring("a", 1_000));
    assert_eq!(me, of_file("2", &expiring("b", 2_000)));
    assert_eq!(me.len(), 64);
    assert_ne!(me, of_file("3", &jwt(r#"{"iss":"other","sub":"me"}"#)));
    assert_ne!(of_file("4", &Secret::new("opaque")), of_file("5", &Secret::new("other")));
    // A token that is passed in may be forged.
    let handed_in = |token| reading(TokenSource::Value(token)).cache_partition(&host, &[], at(0));
    assert_ne!(handed_in(expiring("a", 1_000)), me);
    assert_ne!(handed_in(expiring("a", 1_000)), handed_in(expiring("b", 1_000)));
    // A client without its credential must not share a cache with clients that need none.
    let without =
        reading(TokenSource::File("/nonexistent/bt".into())).cache_partition(&host, &[], at(0));
    assert!(!without.is_empty() && without != me);
    // The name must not allow guessing the password.
    let user = |password: &str| {
        let config = CredentialConfig { basic: Some(basic("me", password)), ..Default::default() };
        Credentials::new(config).cache_partition(&host, &[], at(0))
    };
    assert_eq!(user("a"), user("b"));
}

#[test]
fn thirty_two_identities_in_one_process_do_not_mix() {
    let all: Vec<_> =
        (0..32).map(|n| reading(TokenSource::command(format!("echo token{n}")))).collect();
    std::thread::scope(|scope| {
        for (n, credentials) in all.iter().enumerate() {
            scope.spawn(move || {
                for second in 0..20 {
                    let value = sent(credentials, "https://same.org/", second);
                    assert_eq!(value, Some(format!("Bearer token{n}")));
                }
            });
        }
    });
    let names: std::collections::HashSet<_> =
        all.iter().map(|c| c.cache_partition(&origin("https://same.org/"), &[], at(0))).collect();
    assert_eq!(names.len(), 32);
}

#[test]
fn secrets_are_in_no_debug_output() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bt");
    private(&path, "hushtoken");
    let netrc = folder.path().join(".netrc");
    private(&netrc, "machine h login me password hushnetrc");
    let config = CredentialConfig {
        token: Some(TokenSource::File(path)),
        basic: Some(basic("me", "hushbasic")),
        netrc: Some(netrc),
        uid: uid(),
        ..Default::default()
    };
    let credentials =
        Credentials::new(config).for_url(origin("https://h/"), basic("me", "hushurl"));
    assert!(sent(&credentials, "https://x/", 0).is_some());
    let shown = format!("{credentials:?} {credentials:#?}");
    assert!(shown.contains("(secret)") && !shown.contains("hush"), "{shown}");
    let a = origin("https://h/");
    let b = origin("https://x/");
    for origin in [a, b] {
        let answer = credentials.authorization(&origin, &origin, at(0));
        assert!(!format!("{answer:?}").contains("hush"), "{answer:?}");
    }
    let environment =
        crate::Environment::new(1).with("BEARER_TOKEN", "hush").with("HOME", "/home/me");
    let found = CredentialConfig::discover(&environment);
    assert!(!format!("{environment:?} {found:?}").contains("hush"));
}
