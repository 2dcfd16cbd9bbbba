//! Changes through the federation.

use crate::rig::{Behaviour, Content, MemoryStorage, Rig};
use hither_core::Storage;
use hither_core::error::{Delivery, Failure};
use hither_federate::Federation;
use hither_server::{Backend, BackendError, BackendErrorKind, ChangeOptions, Intent, Server};
use hither_testkit::waiting::wait_until;
use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

/// `e0` is read-only, the others are writable.
fn rig(settings: &str) -> Rig {
    let writes = |index| if index == 0 { String::new() } else { "write = true".to_owned() };
    let storages = vec![
        MemoryStorage::new(&[("d/old", 1), ("d/two", 2)], 1),
        MemoryStorage::new(&[("d/two", 2), ("x/own", 3)], 1),
        MemoryStorage::new(&[], 1),
    ];
    Rig::with(settings, writes, storages)
}

/// The options of a rename that replaces what is there.
fn replacing() -> ChangeOptions {
    ChangeOptions { replace: true, modified: None, precondition: Box::new(|_, _| Ok(())) }
}

async fn kind_of_put(rig: &Rig, path: &str) -> Result<String, BackendErrorKind> {
    let located = rig.locate_from("192.0.2.1", path, Intent::Write).await;
    located.map(|it| it.redirect.unwrap()).map_err(|error| error.kind())
}

#[tokio::test(start_paused = true)]
async fn files_are_written_where_that_is_allowed() {
    let rig = rig("");
    assert_eq!(kind_of_put(&rig, "x/own").await.unwrap(), "http://e1/x/own");
    assert_eq!(kind_of_put(&rig, "d/old").await, Err(BackendErrorKind::PermissionDenied));
    assert_eq!(kind_of_put(&rig, "d/two").await, Err(BackendErrorKind::Conflict));
    assert_eq!(kind_of_put(&rig, "d").await, Err(BackendErrorKind::Conflict));
}

#[tokio::test(start_paused = true)]
async fn a_new_file_gets_its_directory_where_others_have_it() {
    let storages = vec![
        MemoryStorage::new(&[("d/old", 1)], 1),
        MemoryStorage::new(&[("x/own", 3)], 1),
        MemoryStorage::new(&[], 1),
    ];
    let writes = |index| if index == 2 { "write = true".to_owned() } else { String::new() };
    let rig = Rig::with("", writes, storages);
    assert_eq!(kind_of_put(&rig, "d/new").await.unwrap(), "http://e2/d/new");
    assert_eq!(rig.storages[2].paths(), ["d"]);
    assert_eq!(kind_of_put(&rig, "none/new").await.unwrap(), "http://e2/none/new");
    assert_eq!(rig.storages[2].paths(), ["d"]);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_while_an_endpoint_that_may_have_it_is_down() {
    let rig = rig("");
    rig.storages[1].behave(Behaviour::Refuses);
    for path in ["x/own", "x/new"] {
        assert_eq!(kind_of_put(&rig, path).await, Err(BackendErrorKind::Unavailable), "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_remembered_of_a_name_does_not_decide_where_it_is_written() {
    let rig = rig("");
    rig.names("x").await;
    rig.federation.stat("x/own").await.unwrap();
    assert_eq!(rig.federation.stat("x/new").await.unwrap_err().kind(), BackendErrorKind::NotFound);
    rig.storages[1].behave(Behaviour::Refuses);
    for path in ["x/own", "x/new"] {
        assert_eq!(kind_of_put(&rig, path).await, Err(BackendErrorKind::Unavailable), "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn one_endpoint_decides_about_a_new_name_for_all_clients() {
    let storages =
        || (0..4).map(|_| MemoryStorage::new(&[("d/old", 1), ("e/old", 1)], 1)).collect();
    // Where a client is, and the load, do not count; which endpoints can take the file does.
    let keys = |index| match index {
        0 => String::new(),
        1 => "write = true\nredirects = ['root://e1/']".to_owned(),
        _ => "write = true\nsite = 'near'".to_owned(),
    };
    let settings = "[[sites]]\nname = 'near'\nnetworks = ['192.0.2.0/24']";
    let federations =
        [Rig::with(settings, keys, storages()), Rig::with(settings, keys, storages())];
    let mut chosen = std::collections::BTreeSet::new();
    for directory in 0..32 {
        let mut urls = std::collections::BTreeSet::new();
        for (rig, client) in federations.iter().zip(["192.0.2.1", "198.51.100.1"]) {
            for _ in 0..3 {
                let path = format!("d{directory}/new");
                let located = rig.locate_from(client, &path, Intent::Write).await.unwrap();
                urls.insert(located.redirect.unwrap());
            }
        }
        assert_eq!(urls.len(), 1, "{urls:?}");
        chosen.extend(urls.iter().map(|url| url[..9].to_owned()));
    }
    assert_eq!(chosen.into_iter().collect::<Vec<_>>(), ["http://e2", "http://e3"]);
}

#[tokio::test(start_paused = true)]
async fn a_new_name_waits_for_the_endpoint_that_decides_about_it() {
    let rig = rig("");
    let url = kind_of_put(&rig, "x/new").await.unwrap();
    let decider = if url.contains("e1") { 1 } else { 2 };
    rig.storages[decider].behave(Behaviour::Refuses);
    for _ in 0..2 {
        assert_eq!(kind_of_put(&rig, "x/new").await, Err(BackendErrorKind::Unavailable));
        let made = rig.federation.make_directory("x/sub", Box::new(|_| Ok(()))).await;
        assert_eq!(made.unwrap_err().kind(), BackendErrorKind::Unavailable);
    }
    rig.storages[decider].behave(Behaviour::Answers);
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert_eq!(kind_of_put(&rig, "x/new").await.unwrap(), url);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_to_a_directory_that_may_be_hidden() {
    // A disk that is not mounted: the endpoint has listed the directory before.
    let rig = rig("");
    rig.names("x").await;
    rig.storages[1].remove_tree("x").await.unwrap();
    let error = rig.locate_from("192.0.2.1", "x/new", Intent::Write).await.unwrap_err();
    assert_eq!(error.kind(), BackendErrorKind::Unavailable);
    assert!(error.to_string().contains("/x is missing at e1, perhaps"), "{error}");
    // A file where others have the directory.
    let rig = self::rig("");
    rig.storages[0].add("x", Some(1));
    let error = rig.locate_from("192.0.2.1", "x/new", Intent::Write).await.unwrap_err();
    assert_eq!(error.kind(), BackendErrorKind::Conflict);
    assert!(error.to_string().contains("x is a file at e0"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_directory_that_leads_to_another_prefix_is_not_lost() {
    let keys = |index| match index {
        0 => "write = true",
        _ => "prefixes = [{ path = '/a/b' }]",
    };
    let storages = vec![MemoryStorage::new(&[("a/f", 1)], 1), MemoryStorage::new(&[], 1)];
    let rig = Rig::with("[federation]\ndeletes = 'all'", |index| keys(index).to_owned(), storages);
    assert_eq!(rig.names("a").await, ["b", "f"]);
    assert_eq!(kind_of_put(&rig, "a/new").await.unwrap(), "http://e0/a/new");
    rig.federation.make_directory("a/c", Box::new(|_| Ok(()))).await.unwrap();
    rig.federation.rename("a/c", "a/d", replacing()).await.unwrap();
    rig.federation.remove("a/d", true, Box::new(|_| Ok(()))).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn no_directory_is_made_at_an_endpoint_without_a_root() {
    let keys = |index| if index == 0 { String::new() } else { "write = true".to_owned() };
    let storages = vec![MemoryStorage::new(&[("d/e/old", 1)], 1), MemoryStorage::new(&[], 1)];
    let rig = Rig::with("", keys, storages);
    rig.storages[1].behave(Behaviour::Unmounted);
    for path in ["d/e/new", "new"] {
        let put = rig.locate_from("192.0.2.1", path, Intent::Write).await.map(|_| ());
        let made = rig.federation.make_directory(path, Box::new(|_| Ok(()))).await;
        for error in [put, made].map(Result::unwrap_err) {
            assert_eq!(error.kind(), BackendErrorKind::Unavailable, "{path}: {error}");
            assert!(error.to_string().contains("/ is missing at e1, perhaps"), "{path}: {error}");
        }
    }
    assert!(rig.storages[1].paths().is_empty());
    rig.storages[1].behave(Behaviour::Answers);
    assert_eq!(kind_of_put(&rig, "d/e/new").await.unwrap(), "http://e1/d/e/new");
    // The same below the root, once it was listed.
    let keys = |_| "write = true\nprefixes = [{ path = '/x', target = '/new' }]".to_owned();
    let rig = Rig::with("", keys, vec![MemoryStorage::new(&[], 1)]);
    assert_eq!(kind_of_put(&rig, "x/a").await.unwrap(), "http://e0/new/a");
    rig.storages[0].add("new", None);
    assert!(rig.names("x").await.is_empty());
    rig.storages[0].remove_tree("new").await.unwrap();
    assert_eq!(kind_of_put(&rig, "x/a").await, Err(BackendErrorKind::Unavailable));
}

#[tokio::test(start_paused = true)]
async fn the_first_file_below_a_prefix_of_an_object_store_is_taken() {
    let keys = |_| "write = true\nredirects = ['http://e0/']".to_owned();
    for url in ["s3://bucket/prefix", "S3://bucket/prefix"] {
        let mut rig = Rig::with("", keys, vec![MemoryStorage::new(&[], 1)]);
        rig.config.endpoints[0].url = url.to_owned();
        rig.reload();
        rig.storages[0].behave(Behaviour::Unmounted);
        for path in ["new", "d/new"] {
            assert_eq!(kind_of_put(&rig, path).await.unwrap(), format!("http://e0/{path}"));
        }
    }
}

/// Moves a directory, and removes it if that has failed; the errors of both.
async fn change_whole(rig: &Rig, path: &str) -> Result<(), [BackendError; 2]> {
    let renamed = rig.federation.rename(path, "moved", replacing()).await;
    let Err(renamed) = renamed else { return Ok(()) };
    let removed = rig.federation.remove(path, true, Box::new(|_| Ok(()))).await;
    Err([renamed, removed.unwrap_err()])
}

#[tokio::test(start_paused = true)]
async fn a_directory_that_an_endpoint_has_lost_is_neither_moved_nor_removed() {
    for is_listed in [true, false] {
        let rig = rig("[federation]\ndeletes = 'all'");
        rig.storages[2].add("x/more", Some(1));
        rig.storages[1].add("x/sub/own", Some(1));
        rig.storages[2].add("x/sub/more", Some(1));
        // A client has listed the directories, or looked at the lower one alone.
        if is_listed {
            rig.names("x").await;
        }
        assert!(rig.federation.stat("x/sub").await.unwrap().is_directory());
        rig.storages[1].remove_tree("x").await.unwrap();
        let left = rig.storages[2].paths();
        for path in ["x/sub", "x"] {
            tokio::time::sleep(Duration::from_hours(1)).await;
            for error in change_whole(&rig, path).await.unwrap_err() {
                assert_eq!(error.kind(), BackendErrorKind::Unavailable, "{error}");
                let what = format!("/{path} is missing at e1, perhaps");
                assert!(error.to_string().contains(&what), "{error}");
            }
            assert_eq!(rig.storages[2].paths(), left);
        }
        // Files are changed one by one, and what was only looked at makes no listing incomplete.
        rig.federation.rename("x/more", "d/more", replacing()).await.unwrap();
        rig.federation.remove("d/more", true, Box::new(|_| Ok(()))).await.unwrap();
        assert_eq!(rig.federation.list("x", 9).await.is_ok(), !is_listed);
        // The endpoint has it again.
        rig.storages[1].add("x/sub", None);
        let renamed = rig.federation.rename("x/sub", "moved", replacing()).await.unwrap_err();
        assert!(renamed.to_string().contains("there are replicas at e1, e2"), "{renamed}");
        rig.federation.remove("x/sub", true, Box::new(|_| Ok(()))).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_directory_is_lost_for_two_days_or_until_a_client_changes_its_name() {
    let lost = async |settings: &str| {
        let rig = rig(&format!("[federation]\ndeletes = 'all'\n{settings}"));
        rig.storages[2].add("x/more", Some(1));
        rig.names("").await;
        rig.federation.stat("x").await.unwrap();
        rig.storages[1].remove_tree("x").await.unwrap();
        tokio::time::sleep(Duration::from_hours(47)).await;
        change_whole(&rig, "x").await.unwrap_err();
        rig
    };
    let waiting = lost("").await;
    tokio::time::sleep(Duration::from_hours(1)).await;
    change_whole(&waiting, "x").await.unwrap();
    // The name is made anew.
    let made = lost("").await;
    made.federation.make_directory("x", Box::new(|_| Ok(()))).await.unwrap();
    made.storages[1].remove_tree("x").await.unwrap();
    change_whole(&made, "x").await.unwrap();
    // A reload forgets what is not in the log.
    let reloaded = lost("").await;
    reloaded.reload();
    change_whole(&reloaded, "x").await.unwrap();
    // The operator takes its lines out of the log.
    let folder = tempfile::tempdir().unwrap();
    let logged = lost(&format!("state = {:?}", folder.path())).await;
    logged.reload();
    change_whole(&logged, "x").await.unwrap_err();
    let file = folder.path().join("federated-directories.jsonl");
    let lines = std::fs::read_to_string(&file).unwrap();
    let kept: Vec<_> = lines.lines().filter(|line| !line.contains("\"path\":\"x\"")).collect();
    assert!(kept.iter().any(|line| line.contains("\"path\":\"d\"")), "{lines}");
    std::fs::write(file, kept.join("\n")).unwrap();
    logged.reload();
    change_whole(&logged, "x").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_directory_that_a_client_has_removed_with_the_one_above_is_not_lost() {
    let rig = rig("[federation]\ndeletes = 'all'");
    rig.storages[1].add("y/deep/sub/f", Some(1));
    rig.federation.stat("y/deep/sub").await.unwrap();
    rig.federation.remove("y", true, Box::new(|_| Ok(()))).await.unwrap();
    rig.storages[2].add("y/deep/sub/f", Some(1));
    for path in ["y/deep/sub", "y/deep"] {
        change_whole(&rig, path).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_written_file_is_seen_at_once() {
    let rig = rig("");
    rig.names("x").await;
    let url = kind_of_put(&rig, "x/new").await.unwrap();
    // Somebody asks while it is being written.
    assert_eq!(rig.federation.stat("x/new").await.unwrap_err().kind(), BackendErrorKind::NotFound);
    let holder = if url.contains("e1") { 1 } else { 2 };
    rig.storages[holder].add("x/new", Some(7));
    assert_eq!(rig.federation.stat("x/new").await.unwrap().size, Some(7));
    assert!(rig.names("x").await.contains(&"new".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_replaced_file_is_seen_at_once() {
    let rig = rig("");
    let before = rig.described("x/own").await.checksum;
    kind_of_put(&rig, "x/own").await.unwrap();
    // Somebody asks while it is being written.
    assert_eq!(rig.described("x/own").await.checksum, before);
    assert_eq!(rig.federation.stat("x/own").await.unwrap().size, Some(3));
    rig.storages[1].add("x/own", Some(7));
    rig.storages[1].set_content(Content { byte: 1, ..Content::default() });
    assert_eq!(rig.federation.stat("x/own").await.unwrap().size, Some(7));
    assert_ne!(rig.described("x/own").await.checksum, before);
    assert!(before.is_some());
}

/// The ways to change something at an endpoint that behaves like this, with their results.
async fn changes(behaviour: Behaviour) -> [(&'static str, Result<(), BackendError>, Rig); 3] {
    let rig = || {
        let rig = rig("[federation]\ndeletes = 'all'");
        rig.storages[1].behave(behaviour);
        rig
    };
    let options =
        ChangeOptions { replace: false, modified: None, precondition: Box::new(|_, _| Ok(())) };
    let (renamed, removed, made) = (rig(), rig(), rig());
    let rename = renamed.federation.rename("x/own", "x/moved", options).await.map(|_| ());
    let remove = removed.federation.remove("x/own", false, Box::new(|_| Ok(()))).await;
    // Either of the two decides about it.
    made.storages[2].behave(behaviour);
    let make = made.federation.make_directory("sub", Box::new(|_| Ok(()))).await;
    [("rename", rename, renamed), ("remove", remove, removed), ("make", make, made)]
}

#[tokio::test(start_paused = true)]
async fn a_change_that_an_endpoint_may_have_carried_out_is_not_one_to_repeat() {
    for behaviour in [
        Behaviour::ChangesSilently,
        Behaviour::FailsChanges(Failure::Interrupted(Delivery::Sent)),
        Behaviour::FailsChanges(Failure::Status { code: 500, after: None }),
        Behaviour::FailsChanges(Failure::Status { code: 504, after: None }),
    ] {
        for (change, result, rig) in changes(behaviour).await {
            let error = result.unwrap_err();
            assert_eq!(error.kind(), BackendErrorKind::Unconfirmed, "{behaviour:?} {change}");
            if behaviour != Behaviour::ChangesSilently {
                continue;
            }
            let what = error.to_string();
            assert!(what.ends_with("the change may have been carried out"), "{change}: {what}");
            // What it did is seen at once.
            let exists = async |path| rig.federation.stat(path).await.is_ok();
            let seen = [exists("x/own").await, exists("x/moved").await, exists("sub").await];
            let expected = match change {
                "rename" => [false, true, false],
                "remove" => [false, false, false],
                _ => [true, false, true],
            };
            assert_eq!(seen, expected, "{change}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_that_no_endpoint_has_carried_out_can_be_repeated() {
    for failure in [
        Failure::NotConnected(std::io::ErrorKind::ConnectionRefused),
        Failure::Interrupted(Delivery::Unsent),
        Failure::Status { code: 503, after: None },
    ] {
        for (change, result, _) in changes(Behaviour::FailsChanges(failure)).await {
            let kind = result.unwrap_err().kind();
            assert_eq!(kind, BackendErrorKind::Unavailable, "{failure:?} {change}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_that_was_carried_out_in_part_is_not_one_to_repeat() {
    let refuses =
        Behaviour::FailsChanges(Failure::NotConnected(std::io::ErrorKind::ConnectionRefused));
    let rig = || {
        let rig = rig("[federation]\ndeletes = 'all'");
        rig.storages[2].add("x/twice", Some(5));
        rig.storages[2].behave(refuses);
        rig
    };
    let removed = rig();
    removed.storages[1].add("x/twice", Some(5));
    let error =
        removed.federation.remove("x/twice", false, Box::new(|_| Ok(()))).await.unwrap_err();
    assert_eq!(error.kind(), BackendErrorKind::Unconfirmed);
    assert!(!removed.storages[1].paths().contains(&"x/twice".to_owned()));
    // The file has its new name, and the one that it replaces is still there.
    let options =
        ChangeOptions { replace: true, modified: None, precondition: Box::new(|_, _| Ok(())) };
    let error = rig().federation.rename("x/own", "x/twice", options).await.unwrap_err();
    assert_eq!(error.kind(), BackendErrorKind::Unconfirmed);
    assert!(error.to_string().contains("the file has its new name at e1"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn deletions_follow_the_policy() {
    let rig = rig("");
    let error = rig.federation.remove("x/own", true, Box::new(|_| Ok(()))).await.unwrap_err();
    assert_eq!(error.kind(), BackendErrorKind::PermissionDenied);
    let rig = self::rig("[federation]\ndeletes = 'all'");
    let error = rig.federation.remove("d/two", true, Box::new(|_| Ok(()))).await.unwrap_err();
    assert!(error.to_string().contains("e0"), "{error}");
    rig.storages[2].add("x/own", Some(3));
    rig.federation.remove("x/own", true, Box::new(|_| Ok(()))).await.unwrap();
    assert!(!rig.storages[1..].iter().any(|it| it.paths().contains(&"x/own".to_owned())));
    assert_eq!(rig.federation.stat("x/own").await.unwrap_err().kind(), BackendErrorKind::NotFound);
    // What differs is removed as well, also if a listing has left it out.
    rig.storages[1].add("x/differs", Some(3));
    rig.storages[2].add("x/differs", Some(4));
    rig.names("x").await;
    rig.federation.remove("x/differs", true, Box::new(|_| Ok(()))).await.unwrap();
    assert!(!rig.storages.iter().any(|it| it.paths().contains(&"x/differs".to_owned())));
    // Its client wants a directory removed that is empty.
    rig.storages[1].add("x/kept", Some(3));
    let before = rig.storages[1].paths();
    let error = rig.federation.remove("x", false, Box::new(|_| Ok(()))).await.unwrap_err();
    assert!(error.to_string().contains("not empty"), "{error}");
    assert_eq!(rig.storages[1].paths(), before);
    rig.storages[1].behave(Behaviour::Refuses);
    let error = rig.federation.remove("x", true, Box::new(|_| Ok(()))).await.unwrap_err();
    assert_eq!(error.kind(), BackendErrorKind::Unavailable);
}

#[tokio::test(start_paused = true)]
async fn names_change_at_the_endpoint_that_has_the_file() {
    let rig = rig("");
    let options =
        || ChangeOptions { replace: false, modified: None, precondition: Box::new(|_, _| Ok(())) };
    assert!(rig.federation.rename("x/own", "x/moved", options()).await.unwrap());
    assert_eq!(rig.sent_to("x/moved").await, "http://e1/x/moved");
    let error = rig.federation.rename("x/moved", "d/two", options()).await.unwrap_err();
    assert_eq!(error.kind(), BackendErrorKind::AlreadyExists);
    rig.federation.make_directory("x/sub", Box::new(|_| Ok(()))).await.unwrap();
    assert!(rig.federation.stat("x/sub").await.unwrap().is_directory());
    let error = rig.federation.make_directory("none/sub", Box::new(|_| Ok(()))).await.unwrap_err();
    assert_eq!(error.kind(), BackendErrorKind::NotFound);
    tokio::time::sleep(Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_file_that_is_renamed_replaces_one_of_another_endpoint() {
    let rig = rig("");
    let options =
        || ChangeOptions { replace: true, modified: None, precondition: Box::new(|_, _| Ok(())) };
    rig.storages[2].add("x/new", Some(7));
    assert!(!rig.federation.rename("x/new", "x/own", options()).await.unwrap());
    assert_eq!(rig.sent_to("x/own").await, "http://e2/x/own");
    assert_eq!(rig.federation.stat("x/own").await.unwrap().size, Some(7));
    assert!(!rig.storages[1].paths().contains(&"x/own".to_owned()));
    // A directory is not replaced, nor is what an endpoint has to which nobody writes.
    rig.storages[1].add("x/sub", None);
    rig.storages[2].add("x/new", Some(8));
    for target in ["x/sub", "d/old"] {
        rig.federation.rename("x/new", target, options()).await.unwrap_err();
    }
    // While the endpoint cannot be asked, nothing is replaced.
    rig.storages[1].behave(Behaviour::Refuses);
    let error = rig.federation.rename("x/new", "x/own", options()).await.unwrap_err();
    assert_eq!(error.kind(), BackendErrorKind::Unavailable);
    assert!(rig.storages[2].paths().contains(&"x/new".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_file_that_may_be_replaced_in_part_is_not_shown() {
    // The rename is not confirmed; the file that it replaces is not removed.
    let fails = Behaviour::FailsChanges(Failure::Status { code: 500, after: None });
    for (endpoint, behaviour) in [(2, Behaviour::ChangesSilently), (1, fails)] {
        let rig = rig("");
        rig.storages[2].add("x/new", Some(7));
        rig.storages[endpoint].behave(behaviour);
        let error = rig.federation.rename("x/new", "x/own", replacing()).await.unwrap_err();
        assert_eq!(error.kind(), BackendErrorKind::Unconfirmed, "{error}");
        rig.storages[endpoint].behave(Behaviour::Answers);
        // Also for as long as a client looks.
        for _ in 0..3 {
            let error = rig.federation.stat("x/own").await.unwrap_err();
            assert_eq!(error.kind(), BackendErrorKind::Unavailable, "{error}");
            assert!(
                error.to_string().contains("e1, e2 have a file named x/own: a MOVE"),
                "{error}"
            );
            tokio::time::sleep(Duration::from_secs(61)).await;
            rig.reload();
        }
        // It can be read, and is shown when one is left.
        assert!(rig.sent_to("x/own").await.ends_with("/x/own"));
        rig.storages[1].remove("x/own").await.unwrap();
        assert_eq!(rig.federation.stat("x/own").await.unwrap().size, Some(7));
    }
}

#[tokio::test(start_paused = true)]
async fn a_rename_whose_client_leaves_is_carried_out_whole_or_not_at_all() {
    let (mut kept, mut replaced) = (0, 0);
    for milliseconds in 1..10 {
        let rig = rig("");
        rig.storages[2].add("x/new", Some(7));
        let renaming = rig.federation.rename("x/new", "x/own", replacing());
        let ended = tokio::time::timeout(Duration::from_millis(milliseconds), renaming).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let has = |endpoint: usize| rig.storages[endpoint].paths().contains(&"x/own".to_owned());
        match (has(1), has(2)) {
            (true, false) => kept += 1,
            (false, true) => replaced += u32::from(ended.is_err()),
            both => panic!("{both:?} after {milliseconds} ms"),
        }
    }
    assert!(
        kept > 0 && replaced > 0,
        "{kept} times before the steps, {replaced} times within them"
    );
}

#[test]
fn a_server_that_stops_carries_out_both_steps_of_a_rename() {
    let settings = "listen = ['127.0.0.1:0']\nwrite = true\nsandbox = false\n";
    let storages =
        vec![MemoryStorage::new(&[("x/own", 3)], 0), MemoryStorage::new(&[("x/new", 7)], 0)];
    let rig = Rig::with(settings, |_| "write = true".to_owned(), storages);
    rig.storages[1].behave(Behaviour::ChangesLate);
    let backend: Arc<dyn Backend> = Arc::<Federation>::clone(&rig.federation);
    let server = Server::start_with_backend(rig.config.server.clone(), backend).unwrap();
    let address = server.addresses()[0];
    let mut client = TcpStream::connect(address).unwrap();
    let request = format!(
        "MOVE /x/new HTTP/1.1\r\nHost: {address}\r\nDestination: http://{address}/x/own\r\n\r\n"
    );
    client.write_all(request.as_bytes()).unwrap();
    assert!(wait_until(|| rig.storages[1].changes() == 1));
    // The client leaves, so the server has no request that it waits for.
    drop(client);
    server.stopper().stop();
    server.wait();
    assert_eq!(rig.storages[0].paths(), ["x"]);
    assert_eq!(rig.storages[1].paths(), ["x", "x/own"]);
}

#[test]
fn a_federation_that_is_killed_between_the_steps_of_a_rename_loses_no_file() {
    let both = vec!["x".to_owned(), "x/own".to_owned()];
    for (size, shown) in [(7, "differing"), (3, "assumed-equal")] {
        let storages =
            vec![MemoryStorage::new(&[("x/own", 3)], 0), MemoryStorage::new(&[("x/new", size)], 0)];
        let rig = || Rig::with("", |_| "write = true".to_owned(), storages.clone());
        let runtime = || {
            let mut runtime = tokio::runtime::Builder::new_current_thread();
            runtime.enable_time().start_paused(true).build().unwrap()
        };
        storages[0].behave(Behaviour::ChangesLate);
        runtime().block_on(async {
            let rig = rig();
            let renaming = rig.federation.rename("x/new", "x/own", replacing());
            tokio::time::timeout(Duration::from_millis(500), renaming).await.unwrap_err();
        });
        // With its runtime, what it was doing has ended.
        assert_eq!((storages[0].changes(), storages[1].changes()), (1, 1));
        assert_eq!([storages[0].paths(), storages[1].paths()], [both.clone(), both.clone()]);
        storages[0].behave(Behaviour::Answers);
        runtime().block_on(async {
            let rig = rig();
            assert_eq!(rig.federation.stat("x/own").await.unwrap().size, Some(3));
            let expected = (shown.to_owned(), "e1".to_owned());
            assert!(rig.properties("x/own").await.contains(&expected));
            // Nothing is renamed or written in its place before an operator has removed one.
            let error = rig.federation.rename("x/own", "x/moved", replacing()).await.unwrap_err();
            assert!(error.to_string().contains("there are replicas at e0, e1"), "{error}");
            assert_eq!(kind_of_put(&rig, "x/own").await, Err(BackendErrorKind::Conflict));
            storages[0].remove("x/own").await.unwrap();
        });
        runtime().block_on(async {
            assert_eq!(rig().sent_to("x/own").await, "http://e1/x/own");
        });
    }
}

#[tokio::test(start_paused = true)]
async fn what_an_endpoint_cannot_do_is_refused_with_what_helps() {
    let rig = rig("");
    let options =
        || ChangeOptions { replace: false, modified: None, precondition: Box::new(|_, _| Ok(())) };
    rig.storages[1].behave(Behaviour::RenamesNothing);
    let error = rig.federation.rename("x/own", "x/moved", options()).await.unwrap_err();
    let text = error.to_string();
    assert!(text.contains("e1 renames no files") && text.contains("remove the old one"), "{text}");
    let error = rig.federation.rename("d/old", "d/new", options()).await.unwrap_err();
    assert!(error.to_string().contains("e0, which has it, is read-only"), "{error}");
    assert!(error.to_string().contains("`write = true`"), "{error}");
    let alone = Rig::with("", |_| String::new(), vec![MemoryStorage::new(&[("d/f", 1)], 1)]);
    let error = alone.locate_from("192.0.2.1", "d/new", Intent::Write).await.unwrap_err();
    assert!(error.to_string().contains("no endpoint takes files at this path"), "{error}");
    let target = |index| match index {
        0 => "write = true\nprefixes = [{ path = '/a', target = '' }]".to_owned(),
        _ => "write = true\nprefixes = [{ path = '/b', target = '' }]".to_owned(),
    };
    let storages = vec![MemoryStorage::new(&[("f", 1)], 1), MemoryStorage::new(&[], 1)];
    let parted = Rig::with("", target, storages);
    let error = parted.federation.rename("a/f", "b/f", options()).await.unwrap_err();
    assert!(error.to_string().contains("e0, which has the file, has no place"), "{error}");
}
