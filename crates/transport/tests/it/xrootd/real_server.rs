//! Files and directories on a real XRootD server.

use crate::fixture::{LARGE, THREE, content, network, read, read_with, with_connections};
use crate::real_server::Served;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::{join, try_join_all};
use hither_core::storage::{PutOptions, Storage, Upload};
use hither_core::{ErrorKind, Source};
use hither_netem::random::Random;
use hither_testkit::storage_conformance::{StorageFeatures, check};
use hither_testkit::waiting::task_until;
use hither_transport::{Location, Network, TransportConfig, XrootdSource, XrootdStorage};
use std::ops::Range;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

/// An XRootD server with one file of [`LARGE`] bytes, if the program is installed.
fn serve(root: &Path) -> Option<Served> {
    std::fs::write(root.join("file"), content(LARGE)).unwrap();
    Served::start("xrootd", root)
}

fn place(served: &Served, path: &str) -> Location {
    Location::parse(&format!("root://127.0.0.1:{}//{path}", served.port)).unwrap()
}

fn file(served: &Served, network: &Arc<Network>, path: &str) -> XrootdSource {
    XrootdSource::new(place(served, path), Arc::clone(network))
}

fn scattered(random: &mut Random, pieces: usize) -> Vec<Range<u64>> {
    let size = LARGE as u64;
    let mut ranges: Vec<Range<u64>> = (0..pieces)
        .map(|_| {
            let start = random.next_u64() % size;
            start..(start + 1 + random.next_u64() % 300).min(size)
        })
        .collect();
    ranges.sort_unstable_by_key(|range| range.start);
    ranges
}

#[tokio::test]
async fn scattered_bytes_are_those_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let Some(served) = serve(folder.path()) else { return };
    let mut random = Random::new(1);
    for connections in [1, 2, 16] {
        let network = network(with_connections(connections));
        let source = file(&served, &network, "file");
        for pieces in [1, 3, 1024, 5000] {
            let ranges = scattered(&mut random, pieces);
            let got = read(&source, &ranges).await.unwrap();
            got.is_exact(&content(LARGE), &ranges).unwrap();
            assert_eq!(got.answer.size, Some(LARGE as u64));
        }
        assert!(network.counters().totals().connections <= connections as u64);
    }
}

#[tokio::test]
async fn head_and_tail_take_two_round_trips_and_further_reads_one_each() {
    let folder = tempfile::tempdir().unwrap();
    let Some(served) = serve(folder.path()) else { return };
    let network = network(with_connections(1));
    let source = file(&served, &network, "file");
    let got = read_with(&source, &[0..512], 8000, None).await.unwrap();
    let (size, head) = (LARGE as u64, 0..512);
    got.is_exact(&content(LARGE), &[head, size - 8000..size]).unwrap();
    assert_eq!(network.counters().totals().round_trips, 2);
    read(&source, &THREE).await.unwrap().is_exact(&content(LARGE), &THREE).unwrap();
    let totals = network.counters().totals();
    assert_eq!((totals.round_trips, totals.connections), (3, 1));
}

#[tokio::test]
async fn a_small_file_is_its_own_head_and_tail() {
    let folder = tempfile::tempdir().unwrap();
    let Some(served) = serve(folder.path()) else { return };
    let network = network(TransportConfig::default());
    for size in [0_usize, 1, 100, 600, 8000] {
        std::fs::write(folder.path().join("small"), content(size)).unwrap();
        let source = file(&served, &network, "small");
        let got = read_with(&source, std::slice::from_ref(&(0..512)), 8000, None).await.unwrap();
        assert_eq!(got.answer.size, Some(size as u64));
        let whole = 0..size as u64;
        got.is_exact(&content(size), std::slice::from_ref(&whole)).unwrap();
    }
}

#[tokio::test]
async fn a_missing_file_is_not_found() {
    let folder = tempfile::tempdir().unwrap();
    let Some(served) = serve(folder.path()) else { return };
    let network = network(TransportConfig::default());
    let error = read(&file(&served, &network, "none"), &THREE).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    let source = file(&served, &network, "file");
    let size = LARGE as u64;
    for beyond in [vec![size - 10..size + 1], vec![0..5, size + 5..size + 10]] {
        let error = read(&source, &beyond).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    }
    read(&source, &THREE).await.unwrap().is_exact(&content(LARGE), &THREE).unwrap();
}

#[tokio::test]
async fn a_changed_file_is_not_read_any_further() {
    let folder = tempfile::tempdir().unwrap();
    let Some(served) = serve(folder.path()) else { return };
    let first = network(TransportConfig::default());
    let got = read(&file(&served, &first, "file"), &THREE).await.unwrap();
    let validator = got.answer.validator.unwrap();
    // A separate session: an open file remains the same file.
    let same = network(TransportConfig::default());
    read_with(&file(&served, &same, "file"), &THREE, 0, Some(&validator)).await.unwrap();
    std::fs::write(folder.path().join("file"), vec![1; LARGE + 1]).unwrap();
    let other = network(TransportConfig::default());
    let source = file(&served, &other, "file");
    let error = read_with(&source, &THREE, 0, Some(&validator)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Changed, "{error}");
}

#[tokio::test]
async fn a_server_that_is_gone_is_unavailable() {
    let folder = tempfile::tempdir().unwrap();
    let Some(served) = serve(folder.path()) else { return };
    let network = network(TransportConfig::default());
    let source = file(&served, &network, "file");
    read(&source, &THREE).await.unwrap();
    drop(served);
    let error = read(&source, &THREE).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
}

#[tokio::test]
async fn many_files_share_sessions() {
    let folder = tempfile::tempdir().unwrap();
    let Some(served) = serve(folder.path()) else { return };
    let network = network(with_connections(2));
    let files: Vec<_> = (0..200).map(|nth| format!("file-{nth}")).collect();
    for name in &files {
        std::fs::write(folder.path().join(name), content(1000)).unwrap();
    }
    let sources: Vec<_> = files.iter().map(|name| file(&served, &network, name)).collect();
    let ranges = [0..10, 500..1000];
    let reads = sources.iter().map(|source| read(source as &dyn Source, &ranges));
    for got in futures_util::future::join_all(reads).await {
        got.unwrap().is_exact(&content(1000), &ranges).unwrap();
    }
    assert!(network.counters().totals().connections <= 2);
}

#[tokio::test]
async fn names_in_urls_do_not_share_sessions() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let names: Vec<_> = (0..16).map(|nth| format!("user{nth}")).collect();
    let mut rights = String::new();
    for name in &names {
        std::fs::create_dir(folder.path().join(name)).unwrap();
        std::fs::write(folder.path().join(name).join("file"), content(30_000)).unwrap();
        rights += &format!("u {name} /{name} lr\n");
    }
    std::fs::write(folder.path().join("rights"), rights).unwrap();
    let Some(served) = Served::start("xrootd-named", folder.path()) else { return };
    // One client with user names in URLs, and one client for each name.
    let shared = network(with_connections(2));
    let own = names.iter().map(|name| {
        let mut config = with_connections(2);
        config.login.clone_from(name);
        network(config)
    });
    let own: Vec<_> = own.collect();
    let mut reads = Vec::new();
    for _ in 0..3 {
        for (nth, name) in names.iter().enumerate() {
            for folder in [name, &names[(nth + 1) % names.len()]] {
                let (allowed, port) = (folder == name, served.port);
                let with_name = format!("root://{name}@127.0.0.1:{port}//{folder}/file");
                let without = format!("root://127.0.0.1:{port}//{folder}/file");
                for (url, network) in [(with_name, &shared), (without, &own[nth])] {
                    let location = Location::parse(&url).unwrap();
                    reads.push((allowed, XrootdSource::new(location, Arc::clone(network))));
                }
            }
        }
    }
    let all = reads.iter().map(|(allowed, source)| async move {
        match (allowed, read(source, &THREE).await) {
            (true, got) => got.unwrap().is_exact(&content(30_000), &THREE).unwrap(),
            (false, Err(error)) => assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}"),
            (false, Ok(_)) => panic!("{source:?} was read by another one"),
        }
    });
    futures_util::future::join_all(all).await;
}

#[tokio::test]
async fn it_conforms_to_storage() {
    let folder = tempfile::tempdir().unwrap();
    let Some(served) = Served::start("xrootd", folder.path()) else { return };
    let network = network(TransportConfig::default());
    let storage = XrootdStorage::new(place(&served, ""), network);
    // A "?" ends a name.
    let names =
        &["plain", "with space", "100%", "%41", "a+b", "a&b=c", "ü-größe", "(1) [2] {3};,:@'!$*"];
    let abilities =
        StorageFeatures { names, checksums: &[], resumes: true, ..StorageFeatures::ALL };
    check(&storage, abilities).await;
    check(&storage, abilities).await;
}

const MIB: usize = 1 << 20;

fn to_be_put(size: usize) -> PutOptions {
    PutOptions { size: size as u64, overwrite: true, ..PutOptions::default() }
}

/// Writes all blocks of `bytes` concurrently.
async fn write_all(upload: &dyn Upload, bytes: &Bytes) {
    let block = usize::try_from(upload.block_bytes()).unwrap();
    let starts = (0..bytes.len()).step_by(block);
    let blocks = starts.map(|at| bytes.slice(at..bytes.len().min(at + block)));
    let writes = blocks.enumerate().map(|(nth, bytes)| upload.write((nth * block) as u64, bytes));
    try_join_all(writes).await.unwrap();
}

#[tokio::test]
async fn a_large_file_is_written_over_several_sessions() {
    let folder = tempfile::tempdir().unwrap();
    let Some(served) = Served::start("xrootd", folder.path()) else { return };
    let bytes = Bytes::from(content(20 * MIB + 5));
    // The number of sessions above the minimum depends on the latency, which is higher on a busy
    // machine.
    for (max, min) in [(64, 4), (2, 2), (1, 1)] {
        let network = network(with_connections(max));
        let storage = XrootdStorage::new(place(&served, ""), Arc::clone(&network));
        let upload = storage.put("file", to_be_put(bytes.len())).await.unwrap();
        write_all(&*upload, &bytes).await;
        let entry = upload.commit(None).await.unwrap().entry;
        assert_eq!((&*entry.path, entry.size), ("file", Some(bytes.len() as u64)));
        assert!(std::fs::read(folder.path().join("file")).unwrap() == bytes);
        let sessions = network.counters().totals().connections;
        assert!((min..=max as u64).contains(&sessions), "{sessions} of {max}");
    }
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[tokio::test]
async fn an_upload_is_resumed_while_the_server_still_has_it_open_for_a_killed_client() {
    let folder = tempfile::tempdir().unwrap();
    let Some(served) = Served::start("xrootd", folder.path()) else { return };
    let bytes = Bytes::from(content(2 * MIB));
    let storage = || XrootdStorage::new(place(&served, ""), network(TransportConfig::default()));
    let killed = storage().put("file", to_be_put(bytes.len())).await.unwrap();
    killed.write(0, bytes.slice(..MIB)).await.unwrap();
    let resume = PutOptions { resume: killed.token(), ..to_be_put(bytes.len()) };
    let upload = storage().put("file", resume).await.unwrap();
    assert_eq!(upload.token(), killed.token());
    upload.write(MIB as u64, bytes.slice(MIB..)).await.unwrap();
    upload.commit(None).await.unwrap();
    assert!(std::fs::read(folder.path().join("file")).unwrap() == bytes);
}

#[tokio::test]
async fn a_small_file_waits_until_the_server_has_closed_it_for_a_killed_client() {
    let folder = tempfile::tempdir().unwrap();
    let Some(served) = Served::start("xrootd", folder.path()) else { return };
    let bytes = Bytes::from(content(1000));
    let storage = |network| XrootdStorage::new(place(&served, ""), network);
    let first = storage(network(TransportConfig::default()));
    let killed = first.put("file", to_be_put(bytes.len())).await.unwrap();
    let again = PutOptions { partial: killed.token(), ..to_be_put(bytes.len()) };
    let network = network(TransportConfig::default());
    let kill = async {
        // Waits for the first requests and some round trips: the server refuses to open the file.
        assert!(task_until(|| network.counters().totals().requests >= 3).await);
        for _ in 0..20 {
            first.stat("file").await.unwrap_err();
        }
        drop((killed, first));
    };
    let second = storage(Arc::clone(&network));
    let (upload, ()) = join(second.put("file", again), kill).await;
    let upload = upload.unwrap();
    upload.write(0, bytes.clone()).await.unwrap();
    upload.commit(None).await.unwrap();
    assert!(std::fs::read(folder.path().join("file")).unwrap() == bytes);
}

#[tokio::test]
async fn a_file_that_cannot_be_opened_again_is_written_in_the_first_session() {
    let folder = tempfile::tempdir().unwrap();
    let Some(served) = Served::start("xrootd", folder.path()) else { return };
    let bytes = Bytes::from(content(20 * MIB));
    let storage = XrootdStorage::new(place(&served, ""), network(TransportConfig::default()));
    let upload = storage.put("file", to_be_put(bytes.len())).await.unwrap();
    let at = folder.path().join(upload.token().unwrap());
    let aside = folder.path().join("aside");
    std::fs::rename(&at, &aside).unwrap();
    write_all(&*upload, &bytes).await;
    std::fs::rename(&aside, &at).unwrap();
    upload.commit(None).await.unwrap();
    assert!(std::fs::read(folder.path().join("file")).unwrap() == bytes);
}

#[tokio::test]
async fn a_small_file_in_a_known_directory_is_uploaded_in_three_round_trips() {
    let folder = tempfile::tempdir().unwrap();
    let Some(served) = Served::start("xrootd", folder.path()) else { return };
    let network = network(with_connections(1));
    let storage = XrootdStorage::new(place(&served, ""), Arc::clone(&network));
    storage.make_directory("tree").await.unwrap();
    for nth in 0..3 {
        let before = network.counters().totals().round_trips;
        let path = format!("tree/{nth}");
        let upload = storage.put(&path, to_be_put(1000)).await.unwrap();
        upload.write(0, Bytes::from(content(1000))).await.unwrap();
        let entry = upload.commit(None).await.unwrap().entry;
        assert_eq!((&*entry.path, entry.size), (&*path, Some(1000)));
        assert_eq!(storage.stat(&path).await.unwrap(), entry);
        let round_trips = network.counters().totals().round_trips - before;
        // One of them is for the comparison.
        assert_eq!(round_trips, 3 + 1, "of file {nth}");
        assert_eq!(std::fs::read(folder.path().join(&path)).unwrap(), content(1000));
    }
    std::fs::create_dir(folder.path().join("tree/directory")).unwrap();
    let refused = storage.put("tree/directory", to_be_put(1000)).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    assert_eq!(storage.list("tree").await.unwrap().entries.len(), 4);
}

#[tokio::test]
async fn entries_of_a_large_directory_come_before_its_listing_is_complete() {
    let folder = tempfile::tempdir().unwrap();
    let Some(served) = serve(folder.path()) else { return };
    for nth in 0..5000 {
        std::fs::write(folder.path().join(format!("a-file-with-a-long-name-{nth}")), b"").unwrap();
    }
    let storage = XrootdStorage::new(place(&served, ""), network(TransportConfig::default()));
    let batches: Vec<_> = storage.list_batches("").collect().await;
    let batches: Vec<_> = batches.into_iter().map(|batch| batch.unwrap().entries).collect();
    assert!(batches.iter().filter(|batch| !batch.is_empty()).count() > 10);
    let mut entries = batches.concat();
    entries.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    assert_eq!(entries, storage.list("").await.unwrap().entries);
    assert_eq!(entries.len(), 5001);
    let listed = storage.list_batches("file").any(async |batch| batch.is_err()).await;
    assert!(listed, "a file was listed as a directory");
}

#[tokio::test]
async fn hundreds_of_small_files_are_fetched_at_a_time_over_few_sessions() {
    let folder = tempfile::tempdir().unwrap();
    let Some(served) = serve(folder.path()) else { return };
    let network = network(with_connections(4));
    let source = file(&served, &network, "file");
    assert_eq!(source.max_small_files(), 4 * 64);
    assert_eq!(source.max_requests(), 4, "reads of one file are not to share sessions");
}
