//! Files that are read for clients.

use crate::rig::{Behaviour, Content, MemoryStorage, Rig};
use futures_util::StreamExt;
use hither_server::{Backend, FileRanges, RangeData};

const MIB: u64 = 1 << 20;
const SIZE: u64 = 6 * MIB;
const MONDAY: Option<&str> = Some("Mon, 20 Nov 2023 10:00:00 GMT");
const SUNDAY: Option<&str> = Some("Sun, 19 Nov 2023 10:00:00 GMT");
const MONDAYS_SECONDS: u64 = 1_700_474_400;

/// The bytes of a response, and true if it is whole.
async fn relayed(rig: &Rig) -> (Vec<u8>, bool) {
    let file = rig.federation.open("f").await.unwrap();
    let FileRanges::Stream(mut pieces) = file.ranges(&[0..SIZE]) else {
        unreachable!("it is remote")
    };
    let mut bytes = Vec::new();
    while let Some(piece) = pieces.next().await {
        let Ok(RangeData::Bytes(piece)) = piece else { return (bytes, false) };
        bytes.extend_from_slice(&piece);
    }
    (bytes, true)
}

#[tokio::test(start_paused = true)]
async fn a_response_goes_on_only_with_the_version_that_it_began_with() {
    let tag = Some("\"a\"");
    let other_tag = Some("\"b\"");
    for (first, second, is_same, what) in [
        ((tag, MONDAY), (tag, MONDAY), true, "equal"),
        ((tag, MONDAY), (tag, None), true, "equal tags"),
        ((tag, MONDAY), (other_tag, MONDAY), true, "tags of two servers, one date"),
        ((MONDAY, None), (tag, MONDAY), true, "a date and a tag with that date"),
        ((tag, MONDAY), (other_tag, SUNDAY), false, "other dates"),
        ((MONDAY, MONDAY), (SUNDAY, SUNDAY), false, "other dates without tags"),
        ((tag, None), (other_tag, None), false, "other tags without dates"),
        ((Some("W/\"a\""), None), (Some("W/\"a\""), None), false, "weak tags"),
        ((tag, MONDAY), (None, None), false, "the second says nothing"),
        ((None, None), (None, None), false, "nobody says anything"),
    ] {
        let storages: Vec<_> = (0..2).map(|_| MemoryStorage::new(&[("f", SIZE)], 1)).collect();
        let rig = Rig::new(storages);
        let content = |byte, (validator, date), until| Content {
            byte,
            validator,
            date,
            until,
            ..Content::default()
        };
        rig.storages[0].set_content(content(1, first, Some(2 * MIB)));
        rig.storages[1].set_content(content(2, second, None));
        let (bytes, is_whole) = relayed(&rig).await;
        assert_eq!(is_whole, is_same, "{what}");
        let ends = if is_same { SIZE } else { 2 * MIB };
        let from = |byte| bytes.iter().filter(|it| **it == byte).count() as u64;
        assert_eq!((from(1), from(2)), (2 * MIB, ends - 2 * MIB), "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_response_begins_with_any_version_that_is_there() {
    let rig = Rig::new((0..2).map(|_| MemoryStorage::new(&[("f", SIZE)], 1)).collect());
    rig.storages[0].set_content(Content { byte: 1, until: Some(0), ..Content::default() });
    rig.storages[1].set_content(Content { byte: 2, ..Content::default() });
    assert_eq!(relayed(&rig).await, (vec![2; usize::try_from(SIZE).unwrap()], true));
}

#[tokio::test(start_paused = true)]
async fn a_piece_whose_bytes_have_not_all_arrived_is_not_sent() {
    let lacking = Content { byte: 1, lacks: 1, ..Content::default() };
    let rig = Rig::new((0..2).map(|_| MemoryStorage::new(&[("f", SIZE)], 1)).collect());
    rig.storages[0].set_content(lacking);
    rig.storages[1].set_content(Content { byte: 2, ..Content::default() });
    assert_eq!(relayed(&rig).await, (vec![2; usize::try_from(SIZE).unwrap()], true));
    rig.storages[1].set_content(lacking);
    assert_eq!(relayed(&rig).await, (Vec::new(), false));
}

#[tokio::test(start_paused = true)]
async fn responses_of_different_versions_have_different_tags() {
    let rig = Rig::new((0..2).map(|_| MemoryStorage::new(&[("f", SIZE)], 1)).collect());
    let seconds = MONDAYS_SECONDS;
    let monday = Content { byte: 1, date: MONDAY, changed: Some(seconds), ..Content::default() };
    let changed = Some(seconds - 24 * 3600);
    rig.storages[0].set_content(monday);
    rig.storages[1].set_content(Content { byte: 2, date: SUNDAY, changed, ..monday });
    let tag = async || rig.federation.open("f").await.unwrap().metadata().version.etag.clone();
    let whole = |byte| (vec![byte; usize::try_from(SIZE).unwrap()], true);
    assert_eq!((tag().await.as_str(), relayed(&rig).await), ("\"655b2e20-600000\"", whole(1)));
    // Another version has taken its place since it was looked up.
    let tuesday = Some("Tue, 21 Nov 2023 10:00:00 GMT");
    let changed = Some(seconds + 24 * 3600);
    rig.storages[0].set_content(Content { byte: 3, date: tuesday, changed, ..monday });
    assert_eq!(relayed(&rig).await, (Vec::new(), false));
    assert_eq!((tag().await.as_str(), relayed(&rig).await), ("\"655c7fa0-600000\"", whole(3)));
    // Its server is gone.
    rig.storages[0].behave(Behaviour::Refuses);
    rig.federation.stat("other").await.unwrap_err();
    assert_eq!((tag().await.as_str(), relayed(&rig).await), ("\"6559dca0-600000\"", whole(2)));
    // Replaced in this second.
    let future = Content { changed: Some(4_000_000_000), ..monday };
    let rig = Rig::new(vec![MemoryStorage::new(&[("f", SIZE)], 1)]);
    rig.storages[0].set_content(future);
    let version = rig.federation.open("f").await.unwrap().metadata().version.clone();
    assert_eq!(version.etag, "W/\"ee6b2800-600000\"");
}
