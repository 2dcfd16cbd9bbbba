//! Tables of permissions of users, and properties of paths.

use super::*;
use proptest::prelude::*;

const NOW: i64 = 1_000_000;
const ISSUER: &str = "https://iam.example";
const ALL: [Action; 4] = [Action::Read, Action::List, Action::Create, Action::Modify];

fn folder(path: &str) -> PathPrefix {
    PathPrefix::of(path).unwrap()
}

fn grant(path: &str, actions: &[Action]) -> Grant {
    Grant { folder: folder(path), actions: actions.to_vec() }
}

fn subject(name: &str) -> Option<Arc<DistinguishedName>> {
    Some(Arc::new(name.parse().unwrap()))
}

fn policy() -> Policy {
    Policy {
        audiences: vec!["https://here.example:8443".to_owned()],
        issuers: vec![Issuer {
            url: ISSUER.to_owned(),
            bases: vec![folder("/")],
            groups: vec![("/atlas/prod".to_owned(), grant("/prod", &ALL))],
        }],
        anonymous: vec![],
        certificates: vec![("CN=alice".parse().unwrap(), grant("/alice", &ALL))],
    }
}

fn claims(scope: &str) -> Claims {
    Claims {
        audience: vec!["https://here.example:8443".to_owned()],
        scope: Some(scope.split(' ').map(str::to_owned).collect()),
        expires: Some(NOW + 600),
        ..Claims::default()
    }
}

fn holder(claims: Claims) -> Principal {
    let token = PresentedToken::Token(Arc::new(VerifiedJwt::believed(ISSUER, claims)));
    Principal { token, certificate: None }
}

fn with_scope(scope: &str, action: Action, path: &str) -> Result<(), Denial> {
    policy().authorize(&holder(claims(scope)), action, path, NOW)
}

#[test]
fn scopes_cover_whole_components_of_normal_paths() {
    for (scope, path, may) in [
        ("storage.read:/", "", true),
        ("storage.read:/", "any/thing", true),
        ("storage.read:/ab", "ab", true),
        ("storage.read:/ab", "ab/c", true),
        ("storage.read:/ab", "abc", false),
        ("storage.read:/ab/", "abc", false),
        ("storage.read:/ab", "a", false),
        ("storage.read:/ab", "", false),
        ("storage.read:/ab", "AB", false),
        ("storage.read://ab//c", "ab/c", true),
        ("storage.read:/a%20b", "a b/c", true),
        ("storage.read:/a%20b", "a%20b", false),
        ("storage.read:/a%2520b", "a%20b", true),
        ("storage.read:/%61b", "ab", true),
        // Not in normal form: the word allows nothing.
        ("storage.read:/ab/..", "x", false),
        ("storage.read:/..", "x", false),
        ("storage.read:/ab/../cd", "cd", false),
        ("storage.read:/./ab", "ab", false),
        ("storage.read:/%2e%2e/ab", "ab", false),
        ("storage.read:/ab%2fcd", "ab/cd", false),
        ("storage.read:/ab%00", "ab", false),
        ("storage.read:/%ff", "\u{fffd}", false),
        // Invalid words, and words for other purposes.
        ("storage.read", "ab", false),
        ("storage.read:", "ab", false),
        ("storage.read:ab", "ab", false),
        ("storage.read:*", "ab", false),
        ("compute.read openid", "ab", false),
        ("read:/ab", "ab/c", true),
        ("read", "ab/c", true),
        ("write:/ab", "ab/c", false),
        ("storage.create:/ab storage.modify:/", "ab", false),
        ("x storage.read:/cd storage.read:/ab", "ab/c", true),
    ] {
        let verdict = with_scope(scope, Action::Read, path);
        assert_eq!(verdict.is_ok(), may, "{scope} {path}: {verdict:?}");
    }
}

#[test]
fn paths_that_are_not_normal_are_always_rejected() {
    let mut open = policy();
    open.anonymous = vec![grant("/", &ALL)];
    for path in ["..", "a/../b", "a/.", "a//b", "a//", "a\0b"] {
        for identity in [Principal::default(), holder(claims("storage.read:/"))] {
            assert!(open.authorize(&identity, Action::Read, path, NOW).is_err(), "{path:?}");
        }
    }
    assert_eq!(open.authorize(&Principal::default(), Action::Read, "/a/b/", NOW), Ok(()));
}

#[test]
fn paths_of_scopes_are_relative_to_the_issuers_bases() {
    let mut policy = policy();
    policy.issuers[0].bases = vec![folder("/atlas"), folder("/scratch/atlas")];
    for (scope, path, may) in [
        ("storage.read:/data", "atlas/data/x", true),
        ("storage.read:/data", "scratch/atlas/data", true),
        ("storage.read:/data", "data/x", false),
        ("storage.read:/", "cms/x", false),
        ("storage.read:/", "atlas2", false),
        ("storage.read:/../cms", "cms", false),
        ("storage.read:/atlas/data", "atlas/data", false),
    ] {
        let verdict = policy.authorize(&holder(claims(scope)), Action::Read, path, NOW);
        assert_eq!(verdict.is_ok(), may, "{scope} {path}: {verdict:?}");
    }
    policy.issuers[0].bases = vec![];
    let verdict = policy.authorize(&holder(claims("storage.read:/")), Action::Read, "x", NOW);
    assert!(matches!(verdict, Err(Denial::Forbidden(_))));
}

#[test]
fn denials_name_the_claim() {
    let usual = || claims("storage.read:/ab");
    for (claims, named) in [
        (Claims { expires: None, ..usual() }, "exp: the token has no expiry"),
        (Claims { expires: Some(NOW - 3_600), ..usual() }, "exp: the token expired 60 min ago"),
        (
            Claims { not_before: Some(NOW + 90), ..usual() },
            "nbf: the token is not valid for another 90 s",
        ),
        (
            Claims { issued: Some(NOW + 90), ..usual() },
            "iat: the token was issued 90 s in the future",
        ),
        (Claims { audience: vec![], ..usual() }, "aud: the token has no audience"),
        (
            Claims { audience: vec!["https://there".into()], ..usual() },
            "aud: the token is meant for `https://there`",
        ),
        (Claims { audience: vec!["any".into()], ..usual() }, "aud: "),
    ] {
        let denied = policy().authorize(&holder(claims), Action::Read, "ab", NOW).unwrap_err();
        assert!(matches!(denied, Denial::InvalidToken(_)), "{denied:?}");
        assert!(denied.to_string().starts_with(named), "{denied}");
    }
    let wrong_path = with_scope("storage.read:/ab", Action::Read, "cd").unwrap_err();
    let text = "scope: it allows reading below `/ab` only, which does not cover /cd";
    assert_eq!(wrong_path, Denial::Forbidden(text.to_owned()));
    let wrong_action = with_scope("storage.read:/ab", Action::Modify, "ab").unwrap_err();
    let text = "scope: `storage.read:/ab` does not allow changing /ab: it needs storage.modify for that path";
    assert_eq!(wrong_action, Denial::Forbidden(text.to_owned()));
    let odd = with_scope("storage.read:/\u{1b}[31m", Action::Read, "\u{202e}").unwrap_err();
    assert!(!odd.to_string().contains(['\u{1b}', '\u{202e}']), "{odd}");
}

#[test]
fn clocks_may_differ_by_a_minute_and_every_server_is_this_one() {
    for claims in [
        Claims { expires: Some(NOW - 59), ..claims("read:/") },
        Claims { not_before: Some(NOW + 59), issued: Some(NOW + 59), ..claims("read:/") },
        Claims { audience: vec!["x".into(), "ANY".into()], ..claims("read:/") },
        Claims { audience: vec![EVERY_SERVER[0].into()], ..claims("read:/") },
        Claims { expires: Some(i64::MAX), not_before: Some(i64::MIN), ..claims("read:/") },
    ] {
        assert_eq!(policy().authorize(&holder(claims), Action::Read, "ab", NOW), Ok(()));
    }
    let ended = Claims { expires: Some(NOW - 60), ..claims("read:/") };
    assert!(policy().authorize(&holder(ended), Action::Read, "ab", NOW).is_err());
}

#[test]
fn groups_count_only_without_a_storage_scope() {
    let member = |scope: &str, group: &str| {
        let groups = vec![group.to_owned()];
        policy().authorize(
            &holder(Claims { groups, ..claims(scope) }),
            Action::Modify,
            "prod/x",
            NOW,
        )
    };
    assert_eq!(member("openid", "/atlas/prod"), Ok(()));
    assert!(member("openid", "/atlas").is_err());
    assert!(member("openid", "/atlas/prod/x").is_err());
    assert!(member("storage.read:/prod", "/atlas/prod").is_err(), "it asked for less");
    assert!(member("storage.read", "/atlas/prod").is_err(), "invalid words grant nothing");
    let outside = Claims { groups: vec!["/atlas/prod".into()], ..claims("openid") };
    let denied = policy().authorize(&holder(outside), Action::Read, "product", NOW).unwrap_err();
    assert!(denied.to_string().starts_with("wlcg.groups: "), "{denied}");
}

#[test]
fn everything_that_no_rule_allows_is_forbidden() {
    let everybody = Principal::default();
    let believed = holder(claims("storage.read:/ storage.modify:/"));
    let alice = Principal { certificate: subject("CN=alice"), ..Principal::default() };
    for action in ALL {
        for identity in [&everybody, &believed, &alice] {
            assert!(
                Policy::default().authorize(identity, action, "x", NOW).is_err(),
                "{identity:?}"
            );
        }
    }
    assert!(!Policy::default().lets_write());
}

#[test]
fn a_client_without_valid_token_learns_nothing() {
    let mut policy = policy();
    policy.anonymous = vec![grant("/pub", &[Action::Read, Action::List])];
    let bad = Principal { token: PresentedToken::Invalid, certificate: None };
    let nobody = Principal::default();
    for (identity, shown) in [(&bad, true), (&nobody, false)] {
        assert_eq!(policy.authorize(identity, Action::Read, "pub/x", NOW), Ok(()));
        for (action, path) in
            [(Action::Modify, "pub/x"), (Action::Read, "public"), (Action::Read, "")]
        {
            assert_eq!(
                policy.authorize(identity, action, path, NOW),
                Err(Denial::Unauthenticated { shown })
            );
        }
    }
}

#[test]
fn certificates_are_matched_by_their_whole_name() {
    let with = |name: &str, path: &str| {
        let identity = Principal { certificate: subject(name), ..Principal::default() };
        policy().authorize(&identity, Action::Modify, path, NOW)
    };
    assert_eq!(with("CN=alice", "alice/x"), Ok(()));
    assert!(matches!(with("CN=alice", "bob"), Err(Denial::Forbidden(_))));
    assert!(with("CN=alice, CN=x", "alice").is_err());
    assert!(with("CN=Alice", "alice").is_err());
}

#[test]
fn only_a_usable_token_has_an_owner_name() {
    let name = |identity: &Principal| policy().name(identity, NOW);
    let alice = Claims { subject: Some("alice".into()), ..claims("read:/") };
    assert_eq!(name(&holder(alice.clone())), Ok("https://iam.example alice".to_owned()));
    let certificate = Principal { certificate: subject("CN=alice"), ..Principal::default() };
    assert_eq!(name(&certificate), Ok("CN=alice".to_owned()));
    let late = Claims { expires: Some(0), ..alice.clone() };
    let elsewhere = Claims { audience: vec!["https://there".into()], ..alice };
    for claims in [late, elsewhere] {
        assert!(matches!(name(&holder(claims)), Err(Denial::InvalidToken(_))));
    }
    assert!(
        name(&holder(claims("read:/")))
            .is_err_and(|denied| denied.to_string().starts_with("sub: "))
    );
    let stranger = VerifiedJwt::believed("https://evil", claims("read:/"));
    let stranger =
        Principal { token: PresentedToken::Token(Arc::new(stranger)), certificate: None };
    for (identity, shown) in [
        (Principal::default(), false),
        (Principal { token: PresentedToken::Invalid, certificate: None }, true),
        (stranger, true),
    ] {
        assert_eq!(name(&identity), Err(Denial::Unauthenticated { shown }));
    }
}

/// Relevant names: short, similar, and hostile.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[ab]{1,2}",
        1 => Just("%2e".to_owned()),
        1 => "[ü %]{1,2}",
        1 => Just("..".to_owned()),
        1 => Just(".".to_owned()),
        1 => Just(String::new()),
    ]
}

fn path() -> impl Strategy<Value = String> {
    prop::collection::vec(name(), 0..5).prop_map(|names| names.join("/"))
}

proptest! {
    /// Every allowed path is the granted folder, or begins with it and a slash, in plain text.
    #[test]
    fn what_is_allowed_is_below_what_was_granted(base in path(), granted in path(), asked in path()) {
        let Some(base) = PathPrefix::of(&base) else { return Ok(()) };
        let mut policy = policy();
        policy.issuers[0].bases = vec![base.clone()];
        let identity = holder(claims(&format!("storage.read:/{}", granted.replace(' ', "%20"))));
        if policy.authorize(&identity, Action::Read, &asked, NOW).is_ok() {
            let asked = format!("/{}/", asked.trim_matches('/')).replace("//", "/");
            let base = format!("{base}/").replace("//", "/");
            prop_assert!(asked.starts_with(&base), "{asked} {base}");
            let below = asked[base.len()..].to_owned();
            let decoded = percent_decode_str(&granted).decode_utf8_lossy().into_owned();
            let decoded: Vec<&str> = decoded.split('/').filter(|name| !name.is_empty()).collect();
            prop_assert!(!decoded.contains(&"..") && !asked.contains("/../"), "{asked} {granted}");
            let wanted = decoded.iter().map(|name| format!("{name}/")).collect::<String>();
            prop_assert!(below.starts_with(&wanted), "{below} {wanted}");
        }
    }

    #[test]
    fn what_is_below_is_allowed_and_siblings_are_not(
        granted in prop::collection::vec("[a-z ü]{1,3}", 1..4),
        below in prop::collection::vec("[a-z]{1,3}", 0..3),
        tail in "[a-z]{1,3}",
    ) {
        let folder = granted.join("/");
        let encoded = percent_encoding::utf8_percent_encode(&folder, percent_encoding::CONTROLS);
        let scope = format!("storage.read:/{}", encoded.to_string().replace(' ', "%20"));
        let inside = [granted.clone(), below.clone()].concat().join("/");
        prop_assert_eq!(with_scope(&scope, Action::Read, &inside), Ok(()));
        let sibling = format!("{folder}{tail}/{}", below.join("/"));
        let sibling = sibling.trim_end_matches('/');
        prop_assert!(with_scope(&scope, Action::Read, sibling).is_err());
        let parent = granted[..granted.len() - 1].join("/");
        prop_assert!(with_scope(&scope, Action::Read, &parent).is_err());
    }

    #[test]
    fn a_word_more_takes_nothing_away(words in prop::collection::vec("(storage\\.(read|modify)|read|write):/[ab]{0,2}", 1..4), asked in "[ab]{1,2}") {
        for action in ALL {
            let few = with_scope(&words[1..].join(" "), action, &asked);
            let all = with_scope(&words.join(" "), action, &asked);
            prop_assert!(few.is_err() || all.is_ok());
        }
    }
}
