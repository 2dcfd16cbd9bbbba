//! The servers that receive credentials, and their renewal.

use crate::fixture::{
    LARGE, THREE, content, expect_error, network, peer, read, source, source_on, with_connections,
};
use hither_auth::{Basic, CredentialConfig, Credentials, HostPattern, Secret, TokenSource};
use hither_core::ErrorKind;
use hither_testkit::mock_http::{Fault, FaultTrigger, MockHttpServer};
use hither_transport::{HttpRequest, Location, TransportConfig};
use http::Method;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

fn config(change: impl FnOnce(&mut CredentialConfig)) -> TransportConfig {
    let mut credentials = CredentialConfig::default();
    change(&mut credentials);
    let mut config = with_connections(1);
    config.credentials = Credentials::new(credentials);
    config
}

fn with_token(token: &str) -> TransportConfig {
    config(|credentials| credentials.token = Some(TokenSource::Value(Secret::new(token))))
}

fn from_file(path: &Path) -> TransportConfig {
    config(|credentials| {
        credentials.token = Some(TokenSource::File(path.to_owned()));
        credentials.uid = std::fs::metadata(path).unwrap().uid();
    })
}

fn private(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

fn unless(token: &str) -> Fault {
    Fault::Unless(format!("Bearer {token}"))
}

fn sent(peer: &MockHttpServer) -> Vec<Option<String>> {
    peer.log().into_iter().map(|request| request.authorization).collect()
}

#[tokio::test]
async fn a_token_is_sent_with_every_request() {
    let peer = peer(LARGE, [(FaultTrigger::Always, unless("one"))]);
    let source = source(&peer.url(), with_token("one"));
    for _ in 0..2 {
        read(&source, &THREE).await.unwrap().is_exact(&content(LARGE), &THREE).unwrap();
    }
    assert_eq!(sent(&peer), vec![Some("Bearer one".to_owned()); 2]);
}

#[tokio::test]
async fn a_token_does_not_follow_a_redirect_to_another_server_unless_it_may() {
    for (follow, expected) in [(None, None), (Some("127.0.0.1"), Some("Bearer one".to_owned()))] {
        let second = peer(LARGE, []);
        let first = peer(LARGE, [(FaultTrigger::Always, Fault::Redirect(second.url_of("/x")))]);
        let config = config(|credentials| {
            credentials.token = Some(TokenSource::Value(Secret::new("one")));
            credentials.follow.extend(follow.map(|pattern| HostPattern::parse(pattern).unwrap()));
        });
        let source = source(&first.url(), config);
        read(&source, &THREE).await.unwrap().is_exact(&content(LARGE), &THREE).unwrap();
        assert_eq!(sent(&first), [Some("Bearer one".to_owned())]);
        assert_eq!(sent(&second), [expected]);
    }
}

#[tokio::test]
async fn a_password_in_a_url_is_for_its_server_alone() {
    let second = peer(LARGE, []);
    let to = second.url_of("/x").replace("http://", "http://you:other@");
    let first = peer(LARGE, [(FaultTrigger::Always, Fault::Redirect(to))]);
    let url = first.url().replace("http://", "http://me:p%40ss@");
    let source = source(&url, with_token("one"));
    read(&source, &THREE).await.unwrap();
    assert_eq!(sent(&first), [Some("Basic bWU6cEBzcw==".to_owned())]);
    assert_eq!(sent(&second), [None]);
}

#[tokio::test]
async fn a_token_rejected_in_the_middle_of_a_job_is_read_again_and_nothing_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    private(&path, "one");
    let peer = peer(
        LARGE,
        [(FaultTrigger::Before(2), unless("one")), (FaultTrigger::From(2), unless("two"))],
    );
    let source = source(&peer.url(), from_file(&path));
    for round in 0..5 {
        read(&source, &THREE).await.unwrap().is_exact(&content(LARGE), &THREE).unwrap();
        if round == 1 {
            private(&path, "two");
        }
    }
    let statuses: Vec<_> = peer.log().iter().map(|request| request.status).collect();
    assert_eq!(statuses, [206, 206, 401, 206, 206, 206]);
}

#[tokio::test]
async fn parallel_requests_with_a_rejected_token_all_continue() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    private(&path, "one");
    let peer = peer(LARGE, [(FaultTrigger::Always, unless("one"))]);
    let mut config = from_file(&path);
    config.max_connections = 8;
    let source = source(&peer.url(), config);
    read(&source, &THREE).await.unwrap();
    private(&path, "two");
    peer.clear_faults();
    peer.add_fault(FaultTrigger::Always, unless("two"));
    let all: Vec<_> = (0..8).map(|n| n * 100_000..n * 100_000 + 50_000).collect();
    let reads = all.iter().map(|range| read(&source, std::slice::from_ref(range)));
    for (got, range) in futures_util::future::join_all(reads).await.into_iter().zip(&all) {
        got.unwrap().is_exact(&content(LARGE), std::slice::from_ref(range)).unwrap();
    }
}

#[tokio::test]
async fn a_rejection_without_another_token_is_final_and_explained() {
    let token = "eyJhbGciOiJub25lIn0.eyJpc3MiOiJodHRwczovL2lhbSIsInN1YiI6Im1lIiwiZXhwIjoxfQ.c2ln";
    let refused =
        peer(LARGE, [(FaultTrigger::Always, Fault::Status { status: 403, retry_after: None })]);
    // The second request shows that the response does not depend on the number of ranges.
    expect_error("403", &refused, with_token(token), ErrorKind::PermissionDenied, 2).await;
    let refused = peer(LARGE, [(FaultTrigger::Always, unless("another"))]);
    let source = source(&refused.url(), with_token(token));
    let error = read(&source, &THREE).await.unwrap_err();
    assert_eq!((error.kind(), refused.log().len()), (ErrorKind::Unauthenticated, 1));
    let text = format!("{error} {error:?}");
    assert!(
        text.contains("(subject `me`, issuer `https://iam`) was rejected: it expired"),
        "{text}"
    );
    assert!(!text.contains("eyJ"), "{text}");
}

#[tokio::test]
async fn an_unreadable_token_is_an_error_before_a_request_is_sent() {
    let peer = peer(LARGE, []);
    let config = config(|credentials| credentials.token = Some(TokenSource::command("exit 3")));
    expect_error("command", &peer, config, ErrorKind::Unauthenticated, 0).await;
}

#[tokio::test]
async fn tokens_of_requests_other_than_reads_are_renewed_as_well() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    private(&path, "one");
    let peer = peer(
        LARGE,
        [(FaultTrigger::Before(1), unless("one")), (FaultTrigger::From(1), unless("two"))],
    );
    let network = network(from_file(&path));
    let call =
        || network.call(HttpRequest::new(Method::HEAD, Location::parse(&peer.url()).unwrap()));
    assert_eq!(call().await.unwrap().status, 200);
    assert_eq!(call().await.unwrap().status, 401);
    private(&path, "two");
    assert_eq!(call().await.unwrap().status, 200);
    assert_eq!(peer.log().len(), 4);
}

#[tokio::test]
async fn thirty_two_identities_in_one_process_do_not_mix() {
    let peer = peer(LARGE, []);
    let sources: Vec<_> = (0..32)
        .map(|n| {
            let basic = Basic::new(format!("user{n}"), Secret::new("x")).unwrap();
            let token = TokenSource::Value(Secret::new(format!("token{n}")));
            let config = config(|credentials| match n % 2 {
                0 => credentials.token = Some(token),
                _ => credentials.basic = Some(basic),
            });
            source_on(&network(config), &peer.url_of(&format!("/{n}")))
        })
        .collect();
    for _ in 0..3 {
        let reads = sources.iter().map(|source| read(source, &THREE));
        for got in futures_util::future::join_all(reads).await {
            got.unwrap().is_exact(&content(LARGE), &THREE).unwrap();
        }
    }
    let log = peer.log();
    assert_eq!(log.len(), 96);
    for request in log {
        let n: usize = request.target.trim_start_matches('/').parse().unwrap();
        let value = request.authorization.unwrap();
        match n % 2 {
            0 => assert_eq!(value, format!("Bearer token{n}")),
            // The user name is at the start of the encoded text.
            _ => assert_eq!(value, sent_for(n)),
        }
    }
}

/// The credential that the user with this number sends.
fn sent_for(n: usize) -> String {
    let url = format!("https://user{n}:x@host/");
    let basic = Basic::new(format!("user{n}"), Secret::new("x")).unwrap();
    let origin = hither_auth::Origin::parse(&url).unwrap();
    let credentials = Credentials::default().for_url(origin.clone(), basic);
    let now = std::time::SystemTime::UNIX_EPOCH;
    match credentials.authorization(&origin, &origin, now) {
        hither_auth::Authorization::Ready(value, _) => value.expose().to_owned(),
        other => panic!("{other:?}"),
    }
}
