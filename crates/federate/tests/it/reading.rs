//! Where clients are sent to read.

use crate::rig::{Behaviour, Content, MemoryStorage, Rig};
use hither_server::{Backend, BackendErrorKind, Intent};
use std::time::Duration;
use tokio::time::Instant;

#[tokio::test(start_paused = true)]
async fn a_majority_decides_in_a_second() {
    let storage = |size, delay_ms| MemoryStorage::new(&[("f", size)], delay_ms);
    let none = || MemoryStorage::new(&[], 10);
    for (storages, size, milliseconds, what) in [
        (vec![storage(3, 1), storage(5, 10), storage(5, 20)], 5, 20, "the fast one differs"),
        (vec![storage(5, 1), storage(5, 10), storage(3, 2_000)], 5, 10, "two of three agree"),
        (vec![storage(5, 1), none(), none()], 5, 10, "one alone has it"),
        (vec![none(), storage(5, 10), storage(3, 2_000)], 5, 1_000, "one is late"),
        (vec![storage(3, 10), storage(5, 20)], 3, 20, "of equally many the first"),
    ] {
        let rig = Rig::new(storages);
        let began = Instant::now();
        let located = rig.locate_from("192.0.2.1", "f", Intent::Read).await.unwrap();
        assert_eq!(located.metadata.unwrap().size, Some(size), "{what}");
        assert_eq!(began.elapsed(), Duration::from_millis(milliseconds), "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_is_down_has_no_vote() {
    let rig = Rig::new(vec![
        MemoryStorage::new(&[("f", 5)], 10),
        MemoryStorage::new(&[], 20),
        MemoryStorage::new(&[("f", 3)], 1),
    ]);
    rig.storages[2].behave(Behaviour::Refuses);
    let began = Instant::now();
    assert_eq!(rig.sent_to("f").await, "http://e0/f");
    assert_eq!(began.elapsed(), Duration::from_millis(20));
}

#[tokio::test(start_paused = true)]
async fn the_first_holder_suffices_where_that_is_the_policy_and_the_cache_knows_all() {
    let storages = vec![
        MemoryStorage::new(&[("f", 5)], 2_000),
        MemoryStorage::new(&[("f", 5)], 10),
        MemoryStorage::new(&[], 20),
    ];
    let rig = Rig::with("[federation]\nagreement = 'first'", |_| String::new(), storages);
    let began = Instant::now();
    assert_eq!(rig.sent_to("f").await, "http://e1/f");
    assert_eq!(began.elapsed(), Duration::from_millis(10));
    tokio::time::sleep(Duration::from_secs(6)).await;
    let located = rig.locate_from("192.0.2.9", "f", Intent::Read).await.unwrap();
    assert_eq!(located.replicas, ["http://e1/f", "http://e0/f"]);
    assert!(rig.storages.iter().all(|storage| storage.questions() == 1));
}

#[tokio::test(start_paused = true)]
async fn concurrent_clients_share_one_question() {
    let rig = Rig::new(vec![MemoryStorage::new(&[("f", 5)], 10)]);
    let clients = (0..500u16).map(|number| {
        let rig = &rig;
        let address = format!("10.0.{}.{}", number / 250, number % 250);
        async move { rig.locate_from(&address, "f", Intent::Read).await.unwrap().redirect }
    });
    let sent = futures_util::future::join_all(clients).await;
    assert!(sent.iter().all(|url| url.as_deref() == Some("http://e0/f")));
    assert_eq!(rig.storages[0].questions(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_missing_name_is_remembered_for_seconds() {
    let rig = Rig::new(vec![MemoryStorage::new(&[], 10)]);
    for _ in 0..3 {
        let error = rig.federation.stat("f").await.unwrap_err();
        assert_eq!(error.kind(), BackendErrorKind::NotFound);
    }
    assert_eq!(rig.storages[0].questions(), 1);
    rig.storages[0].add("f", Some(5));
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(rig.federation.stat("f").await.unwrap().size, Some(5));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_returns_gets_the_next_replica_and_others_do_not() {
    let storages = (0..3).map(|_| MemoryStorage::new(&[("f", 5)], 10)).collect();
    let rig = Rig::with(
        "[[sites]]\nname = 'near'\nnetworks = ['192.0.2.0/24']",
        |index| if index == 1 { "site = 'near'".to_owned() } else { String::new() },
        storages,
    );
    rig.federation.list("", 9).await.unwrap();
    assert_eq!(rig.sent_to("f").await, "http://e1/f");
    let second = rig.sent_to("f").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let third = rig.sent_to("f").await;
    let mut all = ["http://e1/f".to_owned(), second, third];
    all.sort();
    assert_eq!(all, ["http://e0/f", "http://e1/f", "http://e2/f"]);
    let other = rig.locate_from("192.0.2.77", "f", Intent::Read).await.unwrap();
    assert_eq!(other.redirect.as_deref(), Some("http://e1/f"));
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(rig.sent_to("f").await, "http://e1/f");
}

#[tokio::test(start_paused = true)]
async fn a_checksum_waits_for_a_silent_replica_as_long_as_a_name_does() {
    let storages: Vec<_> = (0..2).map(|_| MemoryStorage::new(&[("f", 5)], 10)).collect();
    let rig = Rig::new(storages);
    rig.federation.list("", 9).await.unwrap();
    rig.storages[0].behave(Behaviour::Silent);
    let began = Instant::now();
    let told = rig.described("f").await.checksum;
    assert_eq!(told.map(|sum| sum.to_string()).as_deref(), Some("adler32:00670067"));
    assert_eq!(began.elapsed(), Duration::from_secs(1));
    // Nobody is asked twice.
    rig.described("f").await;
    assert_eq!(began.elapsed(), Duration::from_secs(1));
    // The first one decides where that is the policy.
    let storages = [5, 10].map(|delay| MemoryStorage::new(&[("f", 5)], delay));
    let rig = Rig::with("[federation]\nagreement = 'first'", |_| String::new(), storages.into());
    rig.federation.list("", 9).await.unwrap();
    let began = Instant::now();
    assert!(rig.described("f").await.checksum.is_some());
    assert_eq!(began.elapsed(), Duration::from_millis(5));
}

#[tokio::test(start_paused = true)]
async fn replicas_with_different_checksums_never_stand_in_one_answer() {
    for (bytes, kept, excluded, sum) in
        [(vec![1, 2, 2], vec![1, 2], "e0", 2), (vec![1, 2], vec![0], "e1", 1)]
    {
        let count = bytes.len();
        let rig = Rig::new((0..count).map(|_| MemoryStorage::new(&[("d/f", 5)], 10)).collect());
        for (storage, byte) in rig.storages.iter().zip(bytes) {
            storage.set_content(Content { byte, ..Content::default() });
        }
        rig.names("d").await;
        let links = async || {
            let located = rig.locate_from("192.0.2.1", "d/f", Intent::Read).await.unwrap();
            let mut replicas = located.replicas;
            replicas.sort();
            replicas
        };
        let urls = |ids: &[usize]| -> Vec<_> {
            ids.iter().map(|id| format!("http://e{id}/d/f")).collect()
        };
        let all: Vec<_> = (0..count).collect();
        assert_eq!(links().await, urls(&all), "nothing is known");
        let described = rig.described("d/f").await;
        let mut expected = hither_checksum::Hasher::new(hither_checksum::Algorithm::Adler32);
        expected.update(b"d/f");
        expected.update(&[sum]);
        assert_eq!(described.checksum, Some(expected.finish()));
        assert_eq!(described.replicas.len(), kept.len());
        let differing = ("differing".to_owned(), excluded.to_owned());
        // As asked for, as listed, and when both were forgotten.
        for wait in [0, 0, 59] {
            assert_eq!(links().await, urls(&kept));
            assert!(rig.properties("d/f").await.contains(&differing));
            rig.names("d").await;
            assert!(rig.properties("d/f").await.contains(&differing));
            tokio::time::sleep(Duration::from_mins(wait)).await;
        }
        tokio::time::sleep(Duration::from_mins(2)).await;
        assert_eq!(links().await, urls(&all), "it may have been mended");
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_holds_for_the_directory_of_a_rule_that_one_endpoint_alone_has() {
    let rules = |index: usize| {
        let paths: [Vec<&str>; 2] = [vec!["a", "b", "c"], vec!["b", "c/d"]];
        let rule = |path: &&str| format!("{{ path = '/{path}', target = '/{path}' }}");
        let rules: Vec<_> = paths[index].iter().map(rule).collect();
        format!("prefixes = [{}, {{ path = '/m', target = '/other/m{index}' }}]", rules.join(", "))
    };
    let files = ["a/x/f", "b/f", "c/f", "other/m0/f"].map(|path| (path, 5));
    let storages = (0..2).map(|_| MemoryStorage::new(&files, 10)).collect();
    let rig = Rig::with("", rules, storages);
    for (path, namespace) in
        [("a/x/f", Some("/a")), ("b/f", Some("/b/f")), ("c/f", Some("/c/f")), ("m/f", None)]
    {
        assert_eq!(rig.described(path).await.namespace.as_deref(), namespace, "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_asks_for_all_replicas_was_not_sent_anywhere() {
    let storages = (0..2).map(|_| MemoryStorage::new(&[("f", 5)], 10)).collect();
    let rig = Rig::new(storages);
    assert_eq!(rig.all_replicas("f").await.len(), 2);
    assert_eq!(rig.sent_to("f").await, "http://e0/f");
    let asked = rig.storages[0].questions();
    assert_eq!(rig.all_replicas("f").await.len(), 2);
    assert_eq!(rig.storages[0].questions(), asked);
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_is_gone_is_skipped_at_once_and_returns_slowly() {
    let rig =
        Rig::new(vec![MemoryStorage::new(&[("f", 5)], 1), MemoryStorage::new(&[("f", 5)], 10)]);
    let probing = tokio::spawn(rig.federation.probe_endpoints());
    tokio::time::sleep(Duration::from_secs(1)).await;
    rig.storages[0].behave(Behaviour::Refuses);
    // The next probe finds out.
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(!rig.federation.servers()[0].is_up);
    let located = rig.locate_from("192.0.2.1", "f", Intent::Read).await.unwrap();
    assert_eq!(located.redirect.as_deref(), Some("http://e1/f"));
    rig.storages[0].behave(Behaviour::Answers);
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert!(!rig.federation.servers()[0].is_up, "two good probes are not enough");
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert!(rig.federation.servers()[0].is_up);
    probing.abort();
}

#[tokio::test(start_paused = true)]
async fn no_client_is_redirected_to_an_endpoint_with_another_size() {
    let rig = Rig::new(vec![
        MemoryStorage::new(&[("d/f", 9)], 1),
        MemoryStorage::new(&[("d/f", 5)], 1),
        MemoryStorage::new(&[("d/f", 5)], 1),
    ]);
    rig.names("d").await;
    for address in ["10.0.0.1", "10.0.0.2", "10.0.0.3"] {
        let located = rig.locate_from(address, "d/f", Intent::Read).await.unwrap();
        assert_eq!(located.metadata.unwrap().size, Some(5));
        assert!(!located.replicas.iter().any(|url| url.contains("e0")));
    }
}
