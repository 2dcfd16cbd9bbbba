//! The model of what a command may do to data, tried on random histories.
//!
//! A history is a tree at the source, another one at the destination, a verb with its options, the
//! behaviours of the servers at both ends, and faults of single requests. The product runs as
//! programs use it, over WebDAV, S3 and XRootD on the loopback, or through a federation. What the
//! servers hold afterwards is compared with what the model allows (`invariants.rs`):
//!
//! - a success means bytes that the source held at some moment of the job;
//! - whatever the end, nothing is deleted that the source has, and nothing is replaced but by a
//!   whole version of the source;
//! - every job ends.
//!
//! A history follows from its number. `HITHER_MODEL_HISTORIES` says how many run, and
//! `HITHER_MODEL_FIRST` which is the first one. One that fails is made smaller before it is shown.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says what it has reached"
)]

mod broken;
mod ends;
mod federation;
mod history;
mod invariants;
mod jobs;

use history::{History, Verb};
use jobs::Outcome;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Histories of a run in CI: ten seconds on two cores.
const HISTORIES: u64 = 400;
/// Histories of a soak.
const SOAK_HISTORIES: u64 = 100_000;
/// Histories at a time: they wait for each other's disks and sockets.
const THREADS: usize = 12;
/// Attempts to make a history smaller.
const MAX_SHRINKS: usize = 400;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

/// Numbers of jobs: those that ended well, those that reported failures.
type Reached = BTreeMap<&'static str, (u64, u64)>;

/// Runs this many histories, from that of `HITHER_MODEL_FIRST` on.
fn run(histories: u64) {
    let first = number("HITHER_MODEL_FIRST", 0);
    let end = first + number("HITHER_MODEL_HISTORIES", histories);
    let next = AtomicU64::new(first);
    let reached = Mutex::new(Reached::new());
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= end || failures.lock().unwrap().len() >= 8 {
                        return;
                    }
                    if let Err(failure) = try_history(number, &reached) {
                        eprintln!("{failure}");
                        failures.lock().unwrap().push(failure);
                    }
                }
            });
        }
    });
    let reached = reached.into_inner().unwrap();
    let good: u64 = reached.values().map(|(good, _)| good).sum();
    let failed: u64 = reached.values().map(|(_, failed)| failed).sum();
    eprintln!(
        "histories {first} to {end}: {good} jobs ended well, {failed} reported failures: {reached:?}"
    );
    let failures = failures.into_inner().unwrap();
    assert!(
        failures.is_empty(),
        "{} histories break the model:\n{}",
        failures.len(),
        failures.join("\n")
    );
    if end - first >= HISTORIES {
        let all = good + failed;
        assert!(good * 4 > all && failed * 5 > all, "neither end is rare, else nothing is shown");
        assert_eq!(reached.len(), Verb::ALL.len(), "every verb was tried");
    }
}

/// Runs the history of this number; what breaks the model is made smaller.
fn try_history(number: u64, reached: &Mutex<Reached>) -> Result<(), String> {
    let mut seed = [0; 32];
    seed[..8].copy_from_slice(&number.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let mut tree = history::strategy().new_tree(&mut runner).unwrap();
    let history = tree.current();
    let mut note = |verb: Verb, outcome: Outcome| {
        let mut reached = reached.lock().unwrap();
        let (good, failed) = reached.entry(verb.name()).or_default();
        *(if outcome.is_good() { good } else { failed }) += 1;
    };
    let Err(mut why) = jobs::run(&history, &mut note) else { return Ok(()) };
    let mut smallest = history;
    // Each smaller one that hangs would take as long.
    let mut can_shrink = !why.contains(jobs::HANGS) && tree.simplify();
    for _ in 0..MAX_SHRINKS {
        if !can_shrink {
            break;
        }
        let smaller: History = tree.current();
        can_shrink = match jobs::run(&smaller, &mut |_, _| {}) {
            Err(reason) => {
                why = reason;
                smallest = smaller;
                tree.simplify()
            }
            Ok(()) => tree.complicate(),
        };
    }
    Err(format!("history {number}: {why}\n{smallest:#?}"))
}

#[test]
fn random_histories_keep_to_the_model() {
    run(HISTORIES);
}

#[test]
fn histories_that_have_broken_the_model_keep_to_it() {
    for history in broken::HISTORIES {
        jobs::run(&history(), &mut |_, _| {}).unwrap();
    }
}

#[test]
#[ignore = "two hours: `make soak`"]
fn many_random_histories_keep_to_the_model() {
    run(SOAK_HISTORIES);
}
