//! A file that changes while it is read: no byte of the new version is delivered as part of the old
//! one.

use crate::fixture::{
    LARGE, SMALL, THREE, content, peer, read, read_with, source, with_connections,
};
use hither_core::ErrorKind;
use hither_testkit::mock_http::{Fault, FaultTrigger};

async fn expect_changed<const N: usize>(
    what: &str,
    size: usize,
    faults: [(FaultTrigger, Fault); N],
) {
    let peer = peer(size, []);
    let source = source(&peer.url(), with_connections(1));
    let validator = read(&source, &THREE).await.unwrap().answer.validator.unwrap();
    let before = read_with(&source, &THREE, 0, Some(&validator)).await.unwrap();
    before.is_exact(&content(size), &THREE).unwrap();
    let other: Vec<u8> = content(size).into_iter().map(|byte| !byte).collect();
    peer.replace(other, "\"second\"");
    faults.into_iter().for_each(|(when, fault)| peer.add_fault(when, fault));
    let error = read_with(&source, &THREE, 0, Some(&validator)).await.err();
    let kind = error.as_ref().map(hither_core::Error::kind);
    assert_eq!(kind, Some(ErrorKind::Changed), "{what}: {error:?}");
    assert_eq!(peer.log().len(), 3, "{what}");
    let asked: Vec<_> = peer.log().into_iter().map(|it| it.if_range).collect();
    assert_eq!(asked, [None, Some("\"first\"".to_owned()), Some("\"first\"".to_owned())]);
}

#[tokio::test]
async fn a_whole_new_file_is_noticed() {
    expect_changed("large", LARGE, []).await;
    expect_changed("small", SMALL, []).await;
}

#[tokio::test]
async fn a_whole_new_file_without_a_validator_is_noticed() {
    expect_changed("large", LARGE, [(FaultTrigger::Always, Fault::NoETag)]).await;
    expect_changed("small", SMALL, [(FaultTrigger::Always, Fault::NoETag)]).await;
}

#[tokio::test]
async fn parts_of_another_version_are_noticed() {
    let fault = Fault::ETag("\"second\"".to_owned());
    expect_changed("206", LARGE, [(FaultTrigger::Always, fault)]).await;
}

#[tokio::test]
async fn a_reader_without_a_validator_ignores_validators() {
    let peer = peer(LARGE, []);
    let source = source(&peer.url(), with_connections(1));
    read(&source, &THREE).await.unwrap();
    peer.replace(content(LARGE), "\"second\"");
    let got = read(&source, &THREE).await.unwrap();
    assert_eq!(got.answer.validator.as_deref(), Some("\"second\""));
}

#[tokio::test]
async fn validators_of_one_kind_are_compared() {
    // The version known to the reader, the version that the server sends, and true if that is a
    // change.
    for (known, sent, changed) in [
        ("W/\"first\"", "\"first\"", false),
        ("W/\"first\"", "W/\"first\"", false),
        ("W/\"first\"", "\"second\"", true),
        ("W/\"first\"", "W/\"second\"", true),
        ("\"first\"", "W/\"second\"", true),
    ] {
        let peer = peer(LARGE, []);
        let source = source(&peer.url(), with_connections(1));
        peer.add_fault(FaultTrigger::Always, Fault::ETag(sent.to_owned()));
        let kind = read_with(&source, &THREE, 0, Some(known)).await.err().map(|it| it.kind());
        assert_eq!(kind, changed.then_some(ErrorKind::Changed), "{known} then {sent}");
        let asked: Vec<_> = peer.log().into_iter().filter_map(|it| it.if_range).collect();
        assert_eq!(asked.is_empty(), known.starts_with("W/"), "{known} then {sent}: {asked:?}");
    }
}
