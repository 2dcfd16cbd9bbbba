//! Threads and processes that write the same keys: every read gives a complete value or none.

use crate::values::{at, key, metadata, store};
use hither_core::Endpoint;
use hither_store::{FileMetadata, Store, StoreConfig};
use std::env;
use std::path::Path;
use std::process::{Child, Command, Stdio};

const KEYS: u8 = 4;
const ROUNDS: u64 = 150;
/// Tells [`another_process`] where to write; unset in a run of all tests.
const DIRECTORY: &str = "HITHER_STORE_TEST_DIRECTORY";

fn config() -> StoreConfig {
    // Small enough that values are removed while others read them.
    StoreConfig { max_bytes: 600_000, ..StoreConfig::default() }
}

/// The value of writer `writer` in round `round`: all bytes and all lengths follow from one number.
fn value(writer: u64, round: u64) -> FileMetadata {
    let byte = u8::try_from((writer * 50 + round) % 251).unwrap();
    metadata(byte, &lengths(byte))
}

fn lengths(byte: u8) -> [usize; 3] {
    [usize::from(byte), 0, 100_000 + 997 * usize::from(byte)]
}

fn write(store: &Store, writer: u64) {
    for round in 0..ROUNDS {
        let key_number = (round + writer) % u64::from(KEYS);
        let now = at(round);
        store.put_metadata(&key(&key_number.to_string()), &value(writer, round), now);
        let mut endpoint = Endpoint::default();
        endpoint.rtt_micros = 100 + writer;
        endpoint.bandwidth = 100 + writer;
        // Newer than all metadata: it is never the one that has to go.
        store.put_endpoint("h", &endpoint, at(1_000 + round));
    }
}

/// Reads every key once; how many held a value.
fn read(store: &Store) -> usize {
    let found = (0..KEYS).filter_map(|number| store.metadata(&key(&number.to_string()), at(0)));
    let complete = found.map(|found| {
        let byte = found.pieces[2].1[0];
        assert_eq!(
            found,
            FileMetadata { learned: found.learned, ..metadata(byte, &lengths(byte)) }
        );
    });
    let count = complete.count();
    if let Some(endpoint) = store.endpoint("h", at(0)) {
        assert!(endpoint.rtt_micros >= 100 && endpoint.bandwidth >= 100);
    }
    count
}

#[test]
fn threads_see_complete_values_or_none() {
    let (folder, shared) = store(config());
    std::thread::scope(|scope| {
        let directory = folder.path().join("store");
        let own = Store::open(&directory, config()).unwrap();
        let shared = &shared;
        let writers = [
            scope.spawn(|| write(shared, 0)),
            scope.spawn(|| write(shared, 1)),
            scope.spawn(move || write(&own, 2)),
        ];
        while !writers.iter().all(|writer| writer.is_finished()) {
            read(shared);
        }
    });
    assert!(read(&shared) > 0);
}

fn spawn(directory: &Path, writer: u64) -> Child {
    Command::new(env::current_exe().unwrap())
        .args(["--exact", "sharing::another_process", "--ignored"])
        .env(DIRECTORY, directory)
        .env("HITHER_STORE_TEST_WRITER", writer.to_string())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn processes_see_complete_values_or_none() {
    let (folder, store) = store(config());
    let mut writers = [1, 2, 3].map(|writer| spawn(&folder.path().join("store"), writer));
    let mut running = writers.len();
    while running > 0 {
        read(&store);
        running = writers
            .iter_mut()
            .filter_map(|writer| writer.try_wait().unwrap().is_none().then_some(()))
            .count();
    }
    for writer in &mut writers {
        assert!(writer.wait().unwrap().success());
    }
    assert!(read(&store) > 0);
    let endpoint = store.endpoint("h", at(0)).unwrap();
    assert!((101..=103).contains(&endpoint.rtt_micros));
}

#[test]
#[ignore = "the other process of processes_see_complete_values_or_none, which starts it"]
fn another_process() {
    let (Some(directory), Ok(writer)) =
        (env::var_os(DIRECTORY), env::var("HITHER_STORE_TEST_WRITER"))
    else {
        eprintln!("skipped: {DIRECTORY} is not set");
        return;
    };
    let store = Store::open(Path::new(&directory), config()).unwrap();
    write(&store, writer.parse().unwrap());
}
