//! A thousand endpoints, in virtual time: answers, merging and memory.

use crate::rig::{Behaviour, MemoryStorage, Rig};
use hither_core::storage::{DirEntry, FileKind};
use hither_federate::{EndpointId, ListingMerger};
use hither_server::{Backend, BackendErrorKind};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Endpoints with 20 files each, of which every file is at three; each answers after 1 to 200 ms.
fn thousand() -> Vec<Arc<MemoryStorage>> {
    (0..1_000u64)
        .map(|index| {
            let names: Vec<_> = (0..20u64)
                .map(|file| format!("d/{:05}", (index * 20 / 3 + file) % 6_667))
                .collect();
            let files: Vec<_> = names.iter().map(|name| (&**name, 7)).collect();
            MemoryStorage::new(&files, 1 + index * 7_919 % 200)
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_thousand_endpoints_are_asked_at_once() {
    let name = "d/00010".to_owned();
    let all = thousand();
    let holders: Vec<_> = all.iter().filter(|it| it.paths().contains(&name)).collect();
    let first = holders.iter().map(|it| it.delay).min().unwrap();
    // All three agree, so it is settled when at most two endpoints have not answered.
    let mut delays: Vec<_> = all.iter().map(|it| it.delay).collect();
    delays.sort_unstable();
    let settled = delays[delays.len() - holders.len()];
    assert!(holders.len() == 3 && first < settled);
    for (agreement, expected) in [("majority", settled), ("first", first)] {
        let settings = format!("[federation]\nagreement = '{agreement}'");
        let rig = Rig::with(&settings, |_| String::new(), thousand());
        let began = Instant::now();
        let url = rig.sent_to(&name).await;
        assert_eq!(began.elapsed(), expected, "{url}: {agreement}");
    }
    let rig = Rig::new(thousand());
    let began = Instant::now();
    let names = rig.names("d").await;
    assert_eq!(began.elapsed(), Duration::from_millis(200), "as slow as the slowest endpoint");
    assert_eq!(names.len(), 6_667);
    let (_, listings, bytes) = rig.federation.name_space().cached();
    assert_eq!(listings, 1);
    assert!(bytes < 2 << 20, "{bytes} bytes for 20,000 entries");
}

#[tokio::test(start_paused = true)]
async fn one_silent_endpoint_of_a_thousand_makes_listings_incomplete_and_names_late() {
    let rig = Rig::new(thousand());
    rig.storages[500].behave(Behaviour::Silent);
    let began = Instant::now();
    let error = rig.federation.stat("d/none").await.unwrap_err();
    assert_eq!(error.kind(), BackendErrorKind::Unavailable);
    assert_eq!(began.elapsed(), Duration::from_secs(3), "the deadline");
    for number in 0..2 {
        let _late = rig.federation.stat(&format!("d/none{number}")).await.unwrap_err();
    }
    // After three missed deadlines nobody waits for it any more.
    let began = Instant::now();
    let error = rig.federation.list("d", 10_000).await.unwrap_err();
    assert_eq!(error.kind(), BackendErrorKind::Unavailable);
    assert_eq!(began.elapsed(), Duration::from_millis(200));
    assert!(rig.sent_to("d/00010").await.starts_with("http://e"));
}

#[test]
fn a_million_listed_names_take_bounded_memory() {
    let mut merger = ListingMerger::default();
    for endpoint in 0..1_000u16 {
        let name = |file: u32| format!("d/file-{:06}.root", u32::from(endpoint) / 3 * 1_000 + file);
        let entries: Vec<_> =
            (0..1_000).map(|file| DirEntry::new(name(file), FileKind::File, 7)).collect();
        merger.add(EndpointId(endpoint), &entries);
    }
    let merged = merger.finish();
    assert_eq!(merged.entries.len(), 334_000);
    let per_name = merged.memory_bytes() / merged.entries.len();
    assert!(per_name < 160, "{per_name} bytes for each name");
}
