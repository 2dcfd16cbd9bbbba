//! Threads that read the same file, in schedules chosen by shuttle: nobody waits for ever, nobody
//! gets wrong bytes, nothing is requested twice, nothing is left behind.

use crate::ReaderConfig;
use crate::cache::file::{CachedFile, Spawn};
use crate::cache::{Cache, CacheConfig, CacheKey, Gauges};
use crate::sync::schedules::explore;
use bytes::Bytes;
use futures_core::future::BoxFuture;
use hither_core::{
    Clock, Endpoint, Error, ErrorKind, Limits, LinkEstimate, Part, PartSink, Request, ResponseMeta,
    Result, Source,
};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

const SIZE: u64 = 64;
const SCHEDULES: usize = 1_000;

/// A file of few bytes, which come one by one while others run.
#[derive(Debug, Default)]
struct Slow {
    requested: Mutex<Vec<Range<u64>>>,
    /// The request that fails.
    fails: Option<usize>,
}

impl Clock for Slow {
    fn now(&self) -> Duration {
        Duration::ZERO
    }

    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }

    fn random(&self) -> u64 {
        0
    }
}

impl Source for Slow {
    fn name(&self) -> String {
        "slow".to_owned()
    }

    fn limits(&self) -> Limits {
        Limits::unlimited()
    }

    fn link(&self) -> LinkEstimate {
        LinkEstimate::default()
    }

    fn clock(&self) -> &dyn Clock {
        self
    }

    fn endpoint(&self) -> Endpoint {
        Endpoint::default()
    }

    fn max_connections(&self) -> usize {
        2
    }

    fn idle_connections(&self) -> usize {
        2
    }

    fn preconnect(&self, _: usize) {}

    fn fetch(&self, request: Request, mut sink: PartSink) -> BoxFuture<'_, Result<ResponseMeta>> {
        let nth = {
            let mut requested = self.requested.lock().unwrap_or_else(PoisonError::into_inner);
            requested.extend(request.ranges.iter().cloned());
            requested.len() - 1
        };
        Box::pin(async move {
            shuttle::future::yield_now().await;
            if self.fails == Some(nth) {
                return Err(Error::new(ErrorKind::NotFound, "no"));
            }
            for at in request.ranges.into_iter().flatten() {
                sink(Part { offset: at, bytes: Bytes::copy_from_slice(&[byte(at)]) });
                if at % 8 == 7 {
                    shuttle::future::yield_now().await;
                }
            }
            let validator = Some("\"one\"".to_owned());
            Ok(ResponseMeta { size: Some(SIZE), validator, ..ResponseMeta::default() })
        })
    }
}

fn byte(at: u64) -> u8 {
    at.to_le_bytes()[0].wrapping_mul(7)
}

fn open(source: &Arc<Slow>, cache: &Arc<Cache>) -> CachedFile {
    let spawn: Spawn = Arc::new(|future| drop(shuttle::future::spawn(future)));
    let key = CacheKey { name: "slow".to_owned(), identity: String::new() };
    let source = Arc::clone(source) as Arc<dyn Source>;
    CachedFile::new(source, Arc::clone(cache), key, ReaderConfig::default(), spawn)
}

fn read(file: &CachedFile, range: Range<u64>) -> Result<()> {
    let mut target = vec![0; usize::try_from(range.end - range.start).unwrap()];
    let bytes = shuttle::future::block_on(file.read_at(range.start, &mut target))?;
    assert_eq!(bytes, target.len());
    assert!(range.zip(&target).all(|(at, found)| byte(at) == *found));
    Ok(())
}

/// Waits until nothing is under way, which who closes a file does not wait for.
fn at_rest(cache: &Cache) {
    let busy = |it: Gauges| it.in_flight_bytes > 0 || it.waiters > 0;
    while busy(cache.gauges()) {
        shuttle::thread::yield_now();
    }
    assert_eq!(cache.gauges().ahead_bytes, 0);
}

#[test]
fn threads_that_read_the_same_bytes_share_a_request() {
    explore(SCHEDULES, || {
        let source = Arc::default();
        let cache = Arc::new(Cache::new(CacheConfig::default()));
        let file = open(&source, &cache);
        let threads: Vec<_> = [0..40, 20..64, 10..30]
            .into_iter()
            .map(|range| {
                let file = file.clone();
                shuttle::thread::spawn(move || read(&file, range).unwrap())
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        drop(file);
        at_rest(&cache);
        let requested = source.requested.lock().unwrap();
        let bytes: u64 = requested.iter().map(|range| range.end - range.start).sum();
        assert_eq!(bytes, SIZE, "{requested:?}");
    });
}

#[test]
fn a_read_that_begins_when_the_driver_ends_is_requested_once() {
    explore(SCHEDULES, || {
        let source = Arc::default();
        let cache = Arc::new(Cache::new(CacheConfig::default()));
        let file = open(&source, &cache);
        for range in [0..10, 10..30, 30..64] {
            read(&file, range).unwrap();
        }
        drop(file);
        at_rest(&cache);
        let requested = source.requested.lock().unwrap();
        let bytes: u64 = requested.iter().map(|range| range.end - range.start).sum();
        assert_eq!(bytes, SIZE, "{requested:?}");
    });
}

#[test]
fn a_cache_without_memory_serves_every_reader() {
    explore(SCHEDULES, || {
        let source = Arc::default();
        let cache = Arc::new(Cache::new(CacheConfig::with_budget(1)));
        let file = open(&source, &cache);
        let other = file.clone();
        let hint = file.hint(&[0..64], Duration::ZERO);
        let thread = shuttle::thread::spawn(move || {
            read(&other, 0..32).unwrap();
            read(&other, 16..48).unwrap();
        });
        read(&file, 8..40).unwrap();
        file.cancel(hint);
        thread.join().unwrap();
        drop(file);
        at_rest(&cache);
        assert_eq!(cache.gauges().present_bytes, 0);
    });
}

#[test]
fn closing_a_file_lets_other_readers_request_their_bytes() {
    explore(SCHEDULES, || {
        let source = Arc::default();
        let cache = Arc::new(Cache::new(CacheConfig::default()));
        let file = open(&source, &cache);
        let other = open(&source, &cache);
        file.hint(&[0..64], Duration::ZERO);
        let thread = shuttle::thread::spawn(move || read(&other, 10..50).unwrap());
        drop(file);
        thread.join().unwrap();
        at_rest(&cache);
    });
}

#[test]
fn an_error_wakes_every_waiting_reader() {
    explore(SCHEDULES, || {
        let source = Arc::new(Slow { fails: Some(1), ..Slow::default() });
        let cache = Arc::new(Cache::new(CacheConfig::default()));
        let file = open(&source, &cache);
        let one = file.clone();
        let other = file.clone();
        let threads = [
            shuttle::thread::spawn(move || drop(read(&one, 0..30))),
            shuttle::thread::spawn(move || drop(read(&other, 20..64))),
        ];
        drop(read(&file, 25..40));
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        read(&file, 0..64).unwrap();
        drop(file);
        at_rest(&cache);
    });
}
