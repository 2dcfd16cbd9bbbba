//! Redirects of reads.

use crate::fixture::{
    LARGE, THREE, content, expect_bytes, expect_error, peer, read, read_exactly, source,
    with_connections,
};
use hither_core::ErrorKind;
use hither_testkit::mock_http::{Fault, FaultTrigger, ResponsePosition};

fn redirect(to: &str) -> Fault {
    Fault::Redirect(to.to_owned())
}

#[tokio::test]
async fn a_redirect_is_followed_and_remembered() {
    let peer = peer(LARGE, [(FaultTrigger::Nth(0), redirect("../elsewhere?token=1"))]);
    let source = source(&peer.url(), with_connections(1));
    for _ in 0..2 {
        let got = read(&source, &THREE).await.unwrap();
        got.is_exact(&content(LARGE), &THREE).unwrap();
    }
    let targets: Vec<_> = peer.log().into_iter().map(|it| it.target).collect();
    assert_eq!(targets, ["/data/file.root", "/elsewhere?token=1", "/elsewhere?token=1"]);
    assert_eq!(peer.connections(), 1);
}

#[tokio::test]
async fn another_server_may_have_the_file() {
    let second = peer(LARGE, []);
    let first = peer(LARGE, [(FaultTrigger::Always, redirect(&second.url_of("/x")))]);
    let source = source(&first.url(), with_connections(2));
    // Neither connection takes over a part of the other's request, if that is slow.
    let got = read_exactly(&source, &[0..100_000]).await.unwrap();
    got.is_exact(&content(LARGE), &[0..100_000]).unwrap();
    assert!(first.log().len() <= 2 && second.log().len() == 2);
}

#[tokio::test]
async fn the_first_server_is_asked_again_when_the_second_fails() {
    let dead =
        peer(LARGE, [(FaultTrigger::Always, Fault::Status { status: 404, retry_after: None })]);
    let alive = peer(LARGE, []);
    let first = peer(
        LARGE,
        [
            (FaultTrigger::Nth(0), redirect(&dead.url())),
            (FaultTrigger::From(1), redirect(&alive.url())),
        ],
    );
    let source = source(&first.url(), with_connections(1));
    let got = read(&source, &THREE).await.unwrap();
    got.is_exact(&content(LARGE), &THREE).unwrap();
    assert_eq!((first.log().len(), dead.log().len(), alive.log().len()), (2, 2, 1));
}

#[tokio::test]
async fn a_server_that_redirects_only_to_dead_servers_ends_with_an_error() {
    let dead =
        peer(LARGE, [(FaultTrigger::Always, Fault::Status { status: 404, retry_after: None })]);
    let first = peer(LARGE, [(FaultTrigger::Always, redirect(&dead.url()))]);
    expect_error("dead", &first, with_connections(1), ErrorKind::NotFound, 4).await;
}

#[tokio::test]
async fn a_redirect_loop_ends_with_an_error() {
    let peer = peer(LARGE, [(FaultTrigger::Always, redirect("/data/file.root"))]);
    expect_error("circle", &peer, with_connections(1), ErrorKind::Protocol, 9).await;
}

#[tokio::test]
async fn redirects_to_invalid_urls_are_rejected() {
    for (to, kind) in [
        ("ftp://host/x", ErrorKind::Unsupported),
        ("", ErrorKind::Protocol),
        ("http://", ErrorKind::Protocol),
    ] {
        let peer = peer(LARGE, [(FaultTrigger::Always, redirect(to))]);
        expect_error(&format!("{to:?}"), &peer, with_connections(1), kind, 1).await;
    }
}

#[tokio::test]
async fn eight_redirects_are_followed() {
    let peer = peer(LARGE, [(FaultTrigger::Before(8), redirect("/data/file.root"))]);
    expect_bytes("eight", &peer, with_connections(1), 9).await;
}

#[tokio::test]
async fn after_a_lost_connection_the_first_server_is_asked_before_another_is_opened() {
    let cut = Fault::Close(ResponsePosition::Answer(0));
    let second = peer(LARGE, [(FaultTrigger::Nth(1), cut)]);
    let first = peer(LARGE, [(FaultTrigger::Always, redirect(&second.url()))]);
    let source = source(&first.url(), with_connections(1));
    for _ in 0..2 {
        let got = read(&source, &THREE).await.unwrap();
        got.is_exact(&content(LARGE), &THREE).unwrap();
    }
    assert_eq!((first.log().len(), second.log().len(), second.connections()), (2, 3, 2));
}
