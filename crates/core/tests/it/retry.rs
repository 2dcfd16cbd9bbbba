//! Decisions about retries, and the loop in virtual time.

use hither_core::retry::{self, Failed, Retryable, lengthened};
use hither_core::{
    Backoff, Clock, Delivery, Effect, Error, ErrorKind, Failure, Retry, RetryPolicy,
};
use hither_simulate::virtual_time::VirtualTime;
use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

const EFFECTS: [Effect; 3] = [Effect::Read, Effect::Own, Effect::Change];

const NONE: Duration = Duration::ZERO;
const AGAIN: Retry = Retry::SameServer { after: NONE };
const BUSY: Retry = Retry::Busy { after: NONE };

fn unavailable(failure: Failure) -> Error {
    Error::new(ErrorKind::Unavailable, "failed").with_failure(failure)
}

fn decided(kind: ErrorKind, failure: Failure, effect: Effect) -> Retry {
    Error::new(kind, "failed").with_failure(failure).with_effect(effect).retry()
}

/// A decision for requests that may be repeated, and one for changes.
type Decisions = (Retry, Retry);

fn decisions(kind: ErrorKind, failure: Failure) -> Decisions {
    let [read, own, change] = EFFECTS.map(|effect| decided(kind, failure, effect));
    assert_eq!(read, own);
    (read, change)
}

#[test]
fn what_was_sent_decides_about_changes() {
    use ErrorKind::{Protocol, Timeout, Unavailable};
    for (failure, expected) in [
        (Failure::Interrupted(Delivery::Unsent), (AGAIN, AGAIN)),
        (Failure::Interrupted(Delivery::Partial), (AGAIN, AGAIN)),
        (Failure::Interrupted(Delivery::Sent), (AGAIN, Retry::LookFirst)),
        (Failure::Garbled, (AGAIN, Retry::LookFirst)),
        (Failure::TooLarge, (Retry::AtOnce, Retry::AtOnce)),
        (Failure::Redirected, (Retry::AtOnce, Retry::AtOnce)),
        (Failure::OneServer, (Retry::OtherServer, Retry::OtherServer)),
        (Failure::Unknown, (Retry::OtherServer, Retry::LookFirst)),
    ] {
        for kind in [Unavailable, Timeout, Protocol] {
            assert_eq!(decisions(kind, failure), expected, "{kind:?} {failure:?}");
        }
    }
    let after = Duration::from_secs(7);
    let later = Retry::Later { after };
    assert_eq!(decisions(Unavailable, Failure::Staging { after }), (later, later));
}

#[test]
fn a_kind_that_no_retry_mends_is_final() {
    use ErrorKind as K;
    let finals = [
        K::Invalid,
        K::NotFound,
        K::Unauthenticated,
        K::PermissionDenied,
        K::AlreadyExists,
        K::NoSpace,
        K::Changed,
        K::Corrupt,
        K::Unsupported,
        K::TooLarge,
        K::Cancelled,
        K::Local,
    ];
    for kind in finals {
        for failure in [
            Failure::Unknown,
            Failure::Status { code: 500, after: None },
            Failure::Status { code: 503, after: Some(Duration::from_secs(1)) },
            Failure::NotConnected(io::ErrorKind::ConnectionRefused),
        ] {
            assert_eq!(decisions(kind, failure), (Retry::Never, Retry::Never), "{kind:?}");
        }
        let anew = Error::new(kind, "failed").retry_anew();
        assert_eq!(anew == Retry::Never, kind != K::Corrupt, "{kind:?}");
    }
}

#[test]
fn nothing_was_sent_where_there_is_no_connection() {
    for kind in [
        io::ErrorKind::ConnectionRefused,
        io::ErrorKind::HostUnreachable,
        io::ErrorKind::NetworkUnreachable,
        io::ErrorKind::NetworkDown,
        io::ErrorKind::ConnectionAborted,
        io::ErrorKind::NotConnected,
        io::ErrorKind::AddrInUse,
        io::ErrorKind::AddrNotAvailable,
        io::ErrorKind::BrokenPipe,
        io::ErrorKind::TimedOut,
        io::ErrorKind::PermissionDenied,
        io::ErrorKind::UnexpectedEof,
        io::ErrorKind::Other,
    ] {
        let other = Retry::OtherServer;
        assert_eq!(decisions(ErrorKind::Unavailable, Failure::NotConnected(kind)), (other, other));
    }
    let reset = Failure::NotConnected(io::ErrorKind::ConnectionReset);
    assert_eq!(decisions(ErrorKind::Unavailable, reset), (AGAIN, AGAIN));
    let unknown = Error::new(ErrorKind::Unavailable, "failed").with_effect(Effect::Change);
    assert_eq!(unknown.clone().without_connection().retry(), Retry::OtherServer);
    let sent = unknown.with_failure(Failure::Interrupted(Delivery::Sent)).without_connection();
    assert_eq!(sent.retry(), Retry::LookFirst);
}

#[test]
fn every_status_is_decided() {
    for code in 0..1000 {
        let expected = match code {
            202 => (Retry::Later { after: Duration::from_secs(5) }, Retry::LookFirst),
            200..=299 => (Retry::OtherServer, Retry::LookFirst),
            408 | 425 | 429 | 503 => (BUSY, BUSY),
            423 => {
                let locked = Retry::SameServer { after: Duration::from_secs(1) };
                (locked, locked)
            }
            501 | 505 => (Retry::OtherServer, Retry::OtherServer),
            // The disk is full, or a proxy wants a login: nothing was done.
            507 | 511 => (AGAIN, AGAIN),
            500..=599 => (AGAIN, Retry::LookFirst),
            _ => (Retry::OtherServer, Retry::OtherServer),
        };
        let failure = Failure::Status { code, after: None };
        assert_eq!(decisions(ErrorKind::Unavailable, failure), expected, "{code}");
    }
}

#[test]
fn a_stated_pause_is_kept_up_to_a_minute() {
    for (code, stated) in [(408, 0), (425, 1), (429, 30), (503, 60), (500, 3), (504, 60)] {
        let after = Duration::from_secs(stated);
        let of = |after| {
            decided(
                ErrorKind::Unavailable,
                Failure::Status { code, after: Some(after) },
                Effect::Read,
            )
        };
        let expected = match code {
            500 | 504 => Retry::SameServer { after },
            _ => Retry::Busy { after },
        };
        assert_eq!(of(after), expected, "{code}");
        assert_eq!(of(Duration::from_secs(61)), Retry::OtherServer, "{code}");
    }
    let staged = |after| Failure::Status { code: 202, after: Some(after) };
    for (stated, after) in [(3600, 3_600_000), (0, 200)] {
        let after = Duration::from_millis(after);
        let failure = staged(Duration::from_secs(stated));
        assert_eq!(unavailable(failure).retry(), Retry::Later { after });
    }
}

#[test]
fn every_error_code_of_xrootd_is_decided() {
    let second = Duration::from_secs(1);
    let locked = Retry::SameServer { after: second };
    let other = Retry::OtherServer;
    for code in 2990..3050 {
        let expected = match code {
            3003 => (locked, locked),
            3004 => (AGAIN, AGAIN),
            3020 => (locked, Retry::LookFirst),
            3024 => (BUSY, BUSY),
            // File system, I/O and server errors, what was cancelled or timed out, and codes that
            // no document knows.
            3005 | 3007 | 3012 | 3017 | ..3000 | 3034.. => (other, Retry::LookFirst),
            _ => (other, other),
        };
        let failure = Failure::Xrootd { code };
        assert_eq!(decisions(ErrorKind::Unavailable, failure), expected, "{code}");
    }
    // Those of limits and damage are worth another server, whatever the kind.
    for (code, kind) in [
        (3002, ErrorKind::TooLarge),
        (3008, ErrorKind::TooLarge),
        (3019, ErrorKind::Corrupt),
        (3033, ErrorKind::Corrupt),
    ] {
        assert_eq!(decisions(kind, Failure::Xrootd { code }), (other, other));
    }
    let missing = decisions(ErrorKind::NotFound, Failure::Xrootd { code: 3011 });
    assert_eq!(missing, (Retry::Never, Retry::Never));
}

#[test]
fn codes_of_object_stores_count_more_than_their_statuses() {
    for (code, status, expected) in [
        ("SlowDown", 503, (BUSY, BUSY)),
        ("SlowDown", 200, (BUSY, BUSY)),
        ("ServiceUnavailable", 503, (BUSY, BUSY)),
        ("TooManyRequests", 429, (BUSY, BUSY)),
        ("RequestLimitExceeded", 503, (BUSY, BUSY)),
        ("Throttling", 400, (BUSY, BUSY)),
        ("ThrottlingException", 400, (BUSY, BUSY)),
        ("RequestTimeout", 400, (BUSY, BUSY)),
        ("InternalError", 500, (AGAIN, Retry::LookFirst)),
        ("InternalError", 200, (AGAIN, Retry::LookFirst)),
        ("OperationAborted", 409, (Retry::OtherServer, Retry::OtherServer)),
        ("NoSuchUpload", 404, (Retry::OtherServer, Retry::OtherServer)),
    ] {
        let failure = Failure::of_s3(Some(code), status, None);
        assert_eq!(decisions(ErrorKind::Unavailable, failure), expected, "{code} {status}");
    }
    assert_eq!(Failure::of_s3(None, 502, None), Failure::Status { code: 502, after: None });
}

/// Runs `work` in virtual time, to its end.
fn finish<T>(time: &VirtualTime, work: impl Future<Output = T>) -> T {
    time.run(work, &AtomicBool::new(false)).unwrap()
}

/// An operation that fails in these ways, one after the other, and then succeeds. Notes the times
/// of its attempts.
struct Scripted<'a> {
    failures: Vec<(Error, bool)>,
    time: &'a VirtualTime,
    at: &'a mut Vec<Duration>,
}

impl Retryable for Scripted<'_> {
    type Done = &'static str;

    async fn attempt(&mut self) -> Result<&'static str, Failed> {
        self.at.push(self.time.now());
        if self.failures.is_empty() {
            return Ok("done");
        }
        let (error, progressed) = self.failures.remove(0);
        Err(Failed::from(error).after_progress(progressed))
    }
}

/// The result of an operation, and the times of its attempts.
fn attempted(
    seed: u64,
    policy: &RetryPolicy,
    failures: Vec<(Error, bool)>,
) -> (Result<&'static str, Error>, Vec<Duration>) {
    let time = VirtualTime::with_seed(seed);
    let mut at = Vec::new();
    let operation = Scripted { failures, time: &time, at: &mut at };
    let result = finish(&time, retry::run(policy, &time, operation));
    (result, at)
}

fn interrupted() -> Error {
    unavailable(Failure::Interrupted(Delivery::Sent))
}

fn status(code: u16, after: Option<u64>) -> Error {
    unavailable(Failure::Status { code, after: after.map(Duration::from_secs) })
}

fn pauses(at: &[Duration]) -> Vec<Duration> {
    at.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

#[test]
fn failures_without_progress_use_up_the_attempts() {
    let policy = RetryPolicy::default();
    let failing = |count| vec![(interrupted(), false); count];
    let (result, at) = attempted(1, &policy, failing(3));
    assert_eq!((result.unwrap(), at.len()), ("done", 4));
    let (result, at) = attempted(1, &policy, failing(4));
    assert_eq!((result.unwrap_err().kind(), at.len()), (ErrorKind::Unavailable, 4));
    let (result, at) = attempted(1, &RetryPolicy::once(), failing(1));
    assert!(result.is_err() && at.len() == 1);
}

#[test]
fn progress_renews_the_attempts_and_needs_no_pause() {
    let policy = RetryPolicy::default();
    let (result, at) = attempted(1, &policy, vec![(interrupted(), true); 100]);
    assert_eq!((result.unwrap(), at.last()), ("done", Some(&Duration::ZERO)));
    // A server that states a pause gets it in any case.
    let (_, at) = attempted(1, &policy, vec![(status(503, Some(3)), true); 2]);
    assert!(pauses(&at).iter().all(|pause| pause.as_secs() == 3), "{at:?}");
}

#[test]
fn final_failures_end_an_operation_at_once() {
    let change = interrupted().with_effect(Effect::Change);
    for error in [Error::new(ErrorKind::NotFound, "none"), change, status(503, Some(3600))] {
        let (result, at) = attempted(1, &RetryPolicy::default(), vec![(error, true)]);
        assert!(result.is_err() && at == [Duration::ZERO]);
    }
}

#[test]
fn an_operation_that_looks_first_may_repeat_a_change() {
    let time = VirtualTime::new();
    let change = || interrupted().with_effect(Effect::Change);
    for (looks, count) in [(true, 4), (false, 1)] {
        let attempts = AtomicUsize::new(0);
        let operation = || async {
            attempts.fetch_add(1, Ordering::Relaxed);
            let failed = if looks { Failed::looking(change()) } else { Failed::from(change()) };
            Err::<(), _>(failed)
        };
        let result = finish(&time, retry::run(&RetryPolicy::default(), &time, operation));
        let error = result.unwrap_err();
        assert!(error.may_have_been_carried_out());
        assert_eq!(attempts.load(Ordering::Relaxed), count);
    }
}

#[test]
fn a_busy_server_is_asked_until_the_deadline() {
    let policy = RetryPolicy::default();
    let (result, at) = attempted(1, &policy, vec![(status(429, None), false); 1000]);
    assert!(result.is_err());
    // The last request is sent when time is up, and not later.
    assert_eq!(at.last(), Some(&policy.busy_timeout));
    assert!((9..40).contains(&at.len()), "{at:?}");
    assert!(pauses(&at).iter().all(|pause| *pause <= policy.max_pause));
    let (result, at) = attempted(1, &policy, vec![(status(503, None), false); 8]);
    assert_eq!((result.unwrap(), at.len()), ("done", 9));
}

#[test]
fn a_stated_pause_that_ends_beyond_the_deadline_is_not_begun() {
    let mut policy = RetryPolicy::default();
    policy.busy_timeout = Duration::from_secs(20);
    let (result, at) = attempted(1, &policy, vec![(status(503, Some(21)), false)]);
    assert!(result.is_err() && at == [Duration::ZERO], "{at:?}");
    let (result, at) = attempted(1, &policy, vec![(status(503, Some(20)), false); 2]);
    assert!(result.is_err() && at == [Duration::ZERO, policy.busy_timeout], "{at:?}");
    let (result, at) = attempted(1, &policy, vec![(status(503, Some(19)), false); 2]);
    assert!(result.is_err(), "the second pause would end beyond it");
    let pauses = pauses(&at);
    assert!(pauses.len() == 1 && pauses[0].as_secs() >= 19 && at[1] <= policy.busy_timeout);
}

#[test]
fn a_file_that_is_staged_is_no_failure_until_its_own_deadline() {
    let policy = RetryPolicy::default();
    let staged = || unavailable(Failure::Staging { after: Duration::from_secs(50) });
    let (result, at) = attempted(1, &policy, vec![(staged(), false); 8]);
    assert_eq!((result.unwrap(), at.len()), ("done", 9));
    let (result, at) = attempted(1, &policy, vec![(staged(), false); 100]);
    assert!(result.is_err() && at.last().unwrap() <= &policy.staging_timeout, "{at:?}");
}

#[test]
fn clients_of_a_server_that_restarts_do_not_come_back_in_step() {
    let policy = RetryPolicy::default();
    let clients = 500;
    for (error, slot) in [(interrupted(), 1), (status(503, None), 1), (status(503, Some(8)), 20)] {
        let mut seen = vec![HashMap::new(); 3];
        for seed in 0..clients {
            let (_, at) = attempted(seed, &policy, vec![(error.clone(), false); 3]);
            for (nth, at) in at[1..].iter().enumerate() {
                *seen[nth].entry(at.as_millis() / slot).or_insert(0) += 1;
            }
        }
        for (nth, slots) in seen.iter().enumerate() {
            let most = slots.values().max().unwrap();
            assert!(*most <= clients / 20, "{most} clients meet at attempt {nth} after {error:?}");
        }
    }
    let second = Duration::from_secs(1);
    assert_eq!(lengthened(second, 0), second);
    assert!(lengthened(second, u64::MAX) <= Duration::from_millis(1250));
}

#[test]
fn requests_that_fail_together_make_one_pause() {
    let time = VirtualTime::new();
    let mut policy = RetryPolicy::default();
    policy.attempts = 100;
    let mut backoff = Backoff::default();
    let pauses: Vec<_> =
        (0..50).map(|_| backoff.next(&policy, AGAIN, false, &time).unwrap()).collect();
    assert!(pauses.iter().all(|pause| *pause == pauses[0]), "{pauses:?}");
    assert!(pauses[0] <= 3 * policy.min_pause);
    assert_eq!(backoff.failures(), 50);
}

#[test]
fn dropping_the_operation_ends_its_pause() {
    let time = VirtualTime::new();
    let policy = RetryPolicy::default();
    let mut at = Vec::new();
    let failures = vec![(status(503, Some(50)), false)];
    let operation = Scripted { failures, time: &time, at: &mut at };
    let cancelled = async {
        let running = retry::run(&policy, &time, operation);
        let waited = time.sleep(Duration::from_secs(5));
        drop(futures_util::future::select(Box::pin(running), waited).await);
    };
    finish(&time, cancelled);
    finish(&time, time.sleep(Duration::from_secs(100)));
    assert_eq!(at, [Duration::ZERO]);
}
