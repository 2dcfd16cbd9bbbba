//! Connections counted together.

use hither_core::SlotClaim;
use hither_store::{Store, StoreConfig};
use std::process::Command;

fn store(path: &std::path::Path) -> Store {
    Store::open(path, StoreConfig::default()).unwrap()
}

#[test]
fn a_freed_slot_can_be_claimed_again() {
    let folder = tempfile::tempdir().unwrap();
    let a = store(folder.path());
    let b = store(folder.path());
    let mut held: Vec<_> = (0..3).map(|_| a.claim_slot("http://h:80", 4)).collect();
    held.push(b.claim_slot("http://h:80", 4));
    assert!(held.iter().all(|claim| matches!(claim, SlotClaim::Granted(_))));
    assert!(matches!(a.claim_slot("http://h:80", 4), SlotClaim::Full));
    assert!(matches!(b.claim_slot("http://other:80", 4), SlotClaim::Granted(_)));
    drop(held.pop());
    assert!(matches!(a.claim_slot("http://h:80", 4), SlotClaim::Granted(_)));
}

/// A helper of the next test, which runs it in a process that then aborts.
#[test]
fn a_process_that_holds_all_slots() {
    let Some(folder) = std::env::var_os("HITHER_STORE_TEST_CONNECTIONS") else { return };
    let store = store(folder.as_ref());
    let held: Vec<_> = (0..4).map(|_| store.claim_slot("http://h:80", 4)).collect();
    assert!(held.iter().all(|claim| matches!(claim, SlotClaim::Granted(_))));
    std::process::abort();
}

#[test]
fn slots_of_a_dead_process_are_free_again() {
    let folder = tempfile::tempdir().unwrap();
    let me = std::env::current_exe().unwrap();
    let status = Command::new(me)
        .args(["--exact", "connection_slots::a_process_that_holds_all_slots"])
        .env("HITHER_STORE_TEST_CONNECTIONS", folder.path())
        .output()
        .unwrap()
        .status;
    assert!(!status.success() && status.code().is_none(), "it was to abort: {status}");
    assert!(matches!(store(folder.path()).claim_slot("http://h:80", 4), SlotClaim::Granted(_)));
}
