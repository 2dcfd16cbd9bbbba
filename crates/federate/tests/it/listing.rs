//! Listings: merged, incomplete, and as answers for their names.

use crate::rig::{Behaviour, Content, MemoryStorage, Rig};
use hither_core::Storage;
use hither_core::error::ErrorKind;
use hither_server::{Backend, BackendErrorKind, Intent};
use std::sync::Arc;
use std::time::Duration;

fn two() -> Rig {
    Rig::new(vec![
        MemoryStorage::new(&[("d/a", 1), ("d/both", 2)], 10),
        MemoryStorage::new(&[("d/b", 1), ("d/both", 2)], 20),
    ])
}

#[tokio::test(start_paused = true)]
async fn a_listing_is_the_union_of_all_endpoints() {
    let rig = two();
    assert_eq!(rig.names("d").await, ["a", "b", "both"]);
    assert_eq!(rig.names("").await, ["d"]);
    let error = rig.federation.list("none", 9).await.unwrap_err();
    assert_eq!(error.kind(), BackendErrorKind::NotFound);
}

#[tokio::test(start_paused = true)]
async fn a_name_with_a_control_character_is_listed_as_refused() {
    let storage = MemoryStorage::new(&[("d/a", 1), ("d/new\nline", 2)], 10);
    let rig = Rig::new(vec![storage]);
    let entries = rig.federation.list("d", 9).await.unwrap().entries;
    let shown: Vec<_> = entries.iter().map(|it| (&*it.name, it.refusal.is_some())).collect();
    assert_eq!(shown, [("a", false), ("new%0Aline", true)]);
}

#[tokio::test(start_paused = true)]
async fn an_incomplete_listing_is_an_error_that_names_the_endpoint() {
    for behaviour in [Behaviour::Refuses, Behaviour::Silent, Behaviour::Forbids] {
        let rig = two();
        rig.storages[1].behave(behaviour);
        let error = rig.federation.list("d", 9).await.unwrap_err();
        assert_eq!(error.kind(), BackendErrorKind::Unavailable, "{behaviour:?}");
        assert!(error.to_string().contains("not answered: e1; "), "{error}");
        assert!(error.to_string().contains("`copy_of`"), "{error}");
        let available = rig.federation.list_available("d", 9).await.unwrap();
        assert_eq!(available.missing.as_deref(), Some("e1"));
        assert_eq!(available.entries.len(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_may_have_more_names_makes_a_listing_incomplete() {
    let (none, file): (&[_], &[_]) = (&[], &[("d", 1)]);
    for (files, behaviour, directory, available) in [
        // A file in place of the directory.
        (file, Behaviour::Answers, "d", 2),
        // Its disk is not mounted, and was not when the federation began.
        (none, Behaviour::Unmounted, "", 1),
    ] {
        let whole = MemoryStorage::new(&[("d/a", 1), ("d/both", 2)], 10);
        let rig = Rig::new(vec![whole, MemoryStorage::new(files, 20)]);
        rig.storages[1].behave(behaviour);
        let error = rig.federation.list(directory, 9).await.unwrap_err();
        assert_eq!(error.kind(), BackendErrorKind::Unavailable, "{behaviour:?}");
        assert!(error.to_string().contains("not answered: e1; "), "{error}");
        let listed = rig.federation.list_available(directory, 9).await.unwrap();
        assert_eq!(listed.missing.as_deref(), Some("e1"), "{behaviour:?}");
        assert_eq!(listed.entries.len(), available, "{behaviour:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_name_that_an_endpoint_fails_to_describe_fails_alone() {
    let failures = [ErrorKind::PermissionDenied, ErrorKind::Unavailable, ErrorKind::NotFound];
    for (name, kind) in failures.map(|kind| [("d/both", kind), ("d/pipe", kind)]).concat() {
        let whole = MemoryStorage::new(&[("d/a", 1), ("d/both", 2)], 10);
        let rig = Rig::new(vec![whole, MemoryStorage::new(&[("d/b", 1), (name, 2)], 20)]);
        rig.storages[1].behave(Behaviour::FailsOne(kind));
        let entries = rig.federation.list("d", 9).await.unwrap().entries;
        let shown: Vec<_> = entries.iter().map(|it| (&*it.name, it.refusal.is_some())).collect();
        let described = [("a", false), ("b", false), ("both", false)];
        let expected = if name == "d/both" { &[][..] } else { &[("pipe", true)] };
        assert_eq!(shown, [&described, expected].concat(), "{kind:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_name_that_is_listed_as_refused_is_not_missing() {
    let rig = Rig::new(vec![MemoryStorage::new(&[("d/a", 1), ("d/pipe", 2)], 10)]);
    rig.storages[0].behave(Behaviour::FailsOne(ErrorKind::PermissionDenied));
    assert_eq!(rig.names("d").await, ["a", "pipe"]);
    let error = rig.federation.stat("d/pipe").await.unwrap_err();
    assert_eq!(error.kind(), BackendErrorKind::Unavailable, "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_directory_that_is_no_longer_described_is_not_missed() {
    let rig = Rig::new(vec![MemoryStorage::new(&[("d/a", 1), ("d/x/f", 2)], 10)]);
    assert_eq!(rig.names("d").await, ["a", "x"]);
    tokio::time::sleep(Duration::from_hours(1)).await;
    rig.storages[0].behave(Behaviour::FailsOne(ErrorKind::Unavailable));
    let entries = rig.federation.list("d", 9).await.unwrap().entries;
    assert!(entries[1].name == "x" && entries[1].refusal.is_some());
}

/// `e1` is a copy of `e0`, which is writable, in `/s`, and not in `/o`; `e2` has `/else` alone.
fn copied() -> Rig {
    let rules = |index| match index {
        0 => "write = true\nprefixes = [{ path = '/s' }, { path = '/o', target = '/o' }]",
        1 => "prefixes = [{ path = '/s', copy_of = ['e0'] }, { path = '/o', target = '/o' }]",
        _ => "prefixes = [{ path = '/else' }]",
    };
    let files = [("d/a", 1), ("d/b", 2), ("o/x", 3)];
    let storages = vec![
        MemoryStorage::new(&files, 10),
        MemoryStorage::new(&files, 20),
        MemoryStorage::new(&[("f", 1)], 10),
    ];
    Rig::with("", |index| rules(index).to_owned(), storages)
}

#[tokio::test(start_paused = true)]
async fn a_listing_does_without_an_endpoint_that_is_declared_a_copy() {
    for behaviour in [Behaviour::Refuses, Behaviour::Silent, Behaviour::Forbids] {
        let rig = copied();
        rig.storages[1].behave(behaviour);
        assert_eq!(rig.names("s/d").await, ["a", "b"], "{behaviour:?}");
        // What the listing does not show is missing; what is not listed is not known.
        let kind = async |path| rig.federation.stat(path).await.unwrap_err().kind();
        assert_eq!(kind("s/d/none").await, BackendErrorKind::NotFound);
        assert_eq!(kind("s/none").await, BackendErrorKind::Unavailable);
        let available = rig.federation.list_available("s/d", 9).await.unwrap();
        assert_eq!(available.missing, None);
        assert_eq!(rig.names("else").await, ["f"]);
        // It may have more names there.
        let error = rig.federation.list("o", 9).await.unwrap_err();
        assert!(error.to_string().contains("not answered: e1; "), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_listing_needs_the_endpoint_that_others_are_copies_of() {
    let rig = copied();
    rig.storages[0].behave(Behaviour::Refuses);
    let error = rig.federation.list("s/d", 9).await.unwrap_err();
    assert!(error.to_string().contains("not answered: e0; "), "{error}");
    // The one that answers may hide names.
    let rig = copied();
    rig.storages[0].behave(Behaviour::Hides);
    assert_eq!(rig.names("s/d").await, ["a", "b"]);
    tokio::time::sleep(Duration::from_mins(1)).await;
    rig.storages[1].behave(Behaviour::Refuses);
    let error = rig.federation.list("s/d", 9).await.unwrap_err();
    assert!(error.to_string().contains("not answered: e1; "), "{error}");
    // The disk of the one that answers is not mounted.
    let rig = copied();
    rig.storages[0].remove_tree("d").await.unwrap();
    rig.storages[1].behave(Behaviour::Refuses);
    let error = rig.federation.list("s/d", 9).await.unwrap_err();
    assert_eq!(error.kind(), BackendErrorKind::Unavailable);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_while_a_copy_is_down() {
    let rig = copied();
    rig.storages[1].behave(Behaviour::Refuses);
    assert_eq!(rig.names("s/d").await, ["a", "b"]);
    // `e1` would keep the old file.
    for path in ["s/d/a", "s/d/none"] {
        let error = rig.locate_from("192.0.2.1", path, Intent::Write).await.unwrap_err();
        assert_eq!(error.kind(), BackendErrorKind::Unavailable, "{path}: {error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_conflict_is_shown_with_its_entry_and_counted_once() {
    let at = |changed| Content { changed: Some(changed), ..Content::default() };
    let rig = Rig::new(vec![
        MemoryStorage::new(&[("d/f", 5), ("d/g", 9)], 10),
        MemoryStorage::new(&[("d/f", 5), ("d/g", 5)], 20),
        MemoryStorage::new(&[("d/f", 5), ("d/g", 5)], 10),
        MemoryStorage::new(&[("d/f", 5), ("d/g", 5)], 10),
    ]);
    for (storage, changed) in rig.storages.iter().zip([7, 7, 7, 9]) {
        storage.set_content(at(changed));
    }
    for _ in 0..2 {
        rig.names("d").await;
        let shown = |local: &str, value: &str| (local.to_owned(), value.to_owned());
        assert_eq!(rig.properties("d/f").await, [shown("assumed-equal", "e3")]);
        let expected = [shown("assumed-equal", "e3"), shown("differing", "e0")];
        assert_eq!(rig.properties("d/g").await, expected);
        tokio::time::sleep(Duration::from_hours(1)).await;
    }
    let conflicts: Vec<_> = rig.federation.servers().iter().map(|it| it.conflicts).collect();
    assert_eq!(conflicts, [1, 0, 0, 0]);
}

#[tokio::test(start_paused = true)]
async fn files_of_other_dates_are_other_files_where_dates_are_kept() {
    for (settings, replicas) in [
        ("", vec!["http://e0/f", "http://e1/f", "http://e2/f"]),
        ("[federation]\ncompare_dates = true", vec!["http://e1/f", "http://e2/f"]),
    ] {
        let storages = (0..3).map(|_| MemoryStorage::new(&[("f", 5)], 10)).collect();
        let rig = Rig::with(settings, |_| String::new(), storages);
        for (storage, changed) in rig.storages.iter().zip([7, 9, 9]) {
            storage.set_content(Content { changed: Some(changed), ..Content::default() });
        }
        assert_eq!(rig.all_replicas("f").await, replicas);
        tokio::time::sleep(Duration::from_hours(1)).await;
        rig.names("").await;
        assert_eq!(rig.all_replicas("f").await, replicas, "as listed");
    }
}

#[tokio::test(start_paused = true)]
async fn a_directory_that_an_endpoint_had_is_missed_there() {
    let mapped = |_| "prefixes = [{ path = '/x', target = '/d' }]".to_owned();
    let storages =
        || vec![MemoryStorage::new(&[("d/s/a", 1)], 10), MemoryStorage::new(&[("d/s/b", 1)], 20)];
    for (rig, directory) in [
        (Rig::new(storages()), "d/s"),
        (Rig::with("", mapped, storages()), "x/s"),
        (Rig::with("", mapped, storages()), "x"),
    ] {
        let whole = rig.names(directory).await;
        // Its disk is not mounted any more.
        rig.storages[1].remove_tree("d").await.unwrap();
        tokio::time::sleep(Duration::from_hours(1)).await;
        let error = rig.federation.list(directory, 9).await.unwrap_err();
        assert_eq!(error.kind(), BackendErrorKind::Unavailable, "{directory}");
        assert!(error.to_string().contains("e1"), "{error}");
        rig.storages[1].add("d/s/b", Some(1));
        tokio::time::sleep(Duration::from_hours(1)).await;
        assert_eq!(rig.names(directory).await, whole);
    }
}

#[tokio::test(start_paused = true)]
async fn a_directory_that_an_endpoint_had_is_missed_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let settings = format!("[federation]\nstate = {:?}\ndeletes = 'all'", folder.path());
    let storages =
        vec![MemoryStorage::new(&[("d/s/a", 1)], 10), MemoryStorage::new(&[("d/s/b", 1)], 20)];
    let start = || {
        let keys = |_| "write = true".to_owned();
        Rig::with(&settings, keys, storages.clone())
    };
    assert_eq!(start().names("d/s").await, ["a", "b"]);
    storages[1].remove_tree("d").await.unwrap();
    let error = start().federation.list("d/s", 9).await.unwrap_err();
    assert_eq!(error.kind(), BackendErrorKind::Unavailable);
    assert!(error.to_string().contains("e1"), "{error}");
    storages[1].add("d/s/b", Some(1));
    assert_eq!(start().names("d/s").await, ["a", "b"]);
    // What a client removes is not missed.
    let remover = start();
    remover.federation.remove("d", true, Box::new(|_| Ok(()))).await.unwrap();
    storages[0].add("d/s/a", Some(1));
    assert_eq!(start().names("d/s").await, ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_another_process_keeps_stops_neither_listings_nor_changes() {
    let folder = tempfile::tempdir().unwrap();
    let file = std::fs::File::create(folder.path().join("federated-directories.lock")).unwrap();
    file.try_lock().unwrap();
    let settings = format!("[federation]\nstate = {:?}\ndeletes = 'all'", folder.path());
    let storage = MemoryStorage::new(&[("d/a", 1), ("x/a", 1)], 10);
    let start = || Rig::with(&settings, |_| "write = true".to_owned(), vec![Arc::clone(&storage)]);
    let rig = start();
    assert_eq!(rig.names("").await, ["d", "x"]);
    rig.federation.remove("d", true, Box::new(|_| Ok(()))).await.unwrap();
    storage.remove_tree("x").await.unwrap();
    let restarted = start();
    let kind = async |path| restarted.federation.list(path, 9).await.unwrap_err().kind();
    assert_eq!(kind("d").await, BackendErrorKind::NotFound);
    assert_eq!(kind("x").await, BackendErrorKind::Unavailable);
}

#[tokio::test(start_paused = true)]
async fn a_name_that_is_missing_in_an_incomplete_answer_is_not_missing() {
    let rig = two();
    rig.storages[1].behave(Behaviour::Refuses);
    let error = rig.federation.stat("d/b").await.unwrap_err();
    assert_eq!(error.kind(), BackendErrorKind::Unavailable);
    rig.storages[1].behave(Behaviour::Answers);
    // It counts as down for a minute.
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert_eq!(rig.federation.stat("d/b").await.unwrap().size, Some(1));
    assert_eq!(rig.federation.stat("d/c").await.unwrap_err().kind(), BackendErrorKind::NotFound);
}

#[tokio::test(start_paused = true)]
async fn a_listing_answers_for_its_names() {
    let rig = two();
    rig.names("d").await;
    let asked = rig.storages[0].questions();
    assert_eq!(rig.sent_to("d/b").await, "http://e1/d/b");
    assert_eq!(rig.federation.stat("d/c").await.unwrap_err().kind(), BackendErrorKind::NotFound);
    assert_eq!(rig.storages[0].questions(), asked);
}

#[tokio::test(start_paused = true)]
async fn mapped_directories_lead_to_their_endpoints() {
    let rig = Rig::with(
        "",
        |index| match index {
            0 => "prefixes = [{ path = '/store/cms', target = '/data' }]".to_owned(),
            _ => "prefixes = [{ path = '/store' }]".to_owned(),
        },
        vec![
            MemoryStorage::new(&[("data/a", 1), ("other", 2)], 10),
            MemoryStorage::new(&[("atlas/x", 1)], 10),
        ],
    );
    assert_eq!(rig.names("").await, ["store"]);
    assert_eq!(rig.names("store").await, ["atlas", "cms"]);
    assert_eq!(rig.names("store/cms").await, ["a"]);
    assert!(rig.federation.stat("store").await.unwrap().is_directory());
    assert_eq!(rig.sent_to("store/cms/a").await, "http://e0/data/a");
}
