//! Reads of an open file through the cache: what is asked for, how often, and who waits for how
//! long.

use crate::rig::{SIZE, content, far};
use hither_core::{Error, ErrorKind, Limits, Source, range};
use hither_netem::Link;
use hither_read::cache::file::{PendingRead, ReadStart, Spawn};
use hither_read::cache::{Gauges, Version};
use hither_read::{
    Access, Advice, Cache, CacheConfig, CacheKey, CachedFile, PrefetchContext, Prefetcher,
    ReaderConfig,
};
use hither_simulate::source::{Fault, SimulatedSource};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

const RTT: Duration = Duration::from_millis(240);

pub(crate) fn spawn() -> Spawn {
    Arc::new(|future| drop(tokio::spawn(future)))
}

pub(crate) fn open(source: &Arc<SimulatedSource>, cache: &Arc<Cache>) -> CachedFile {
    let key = CacheKey { name: source.name(), identity: String::new() };
    let source = Arc::clone(source) as Arc<dyn Source>;
    CachedFile::new(source, Arc::clone(cache), key, ReaderConfig::default(), spawn())
}

pub(crate) fn cache(budget_bytes: u64) -> Arc<Cache> {
    Arc::new(Cache::new(CacheConfig::with_budget(budget_bytes)))
}

fn slice(range: &Range<u64>) -> Vec<u8> {
    content()[usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap()].to_vec()
}

pub(crate) async fn read(file: &CachedFile, range: Range<u64>) -> Result<Vec<u8>, Error> {
    let mut target = vec![0; usize::try_from(range.end - range.start).unwrap()];
    let bytes = file.read_at(range.start, &mut target).await?;
    target.truncate(bytes);
    Ok(target)
}

/// Lets everything that was spawned come to its end.
pub(crate) async fn settle() {
    tokio::time::sleep(Duration::from_secs(3600)).await;
}

fn asked(source: &SimulatedSource) -> Vec<Range<u64>> {
    source.log().into_iter().flat_map(|it| it.request.ranges).collect()
}

fn asked_bytes(source: &SimulatedSource) -> u64 {
    asked(source).iter().map(|it| it.end - it.start).sum()
}

#[derive(Debug)]
struct Says(Advice);

impl Prefetcher for Says {
    fn observe(&mut self, _: &Access, _: &PrefetchContext) -> Advice {
        std::mem::take(&mut self.0)
    }
}

#[tokio::test(start_paused = true)]
async fn a_second_read_is_a_hit() {
    let source = Arc::new(far());
    let cache = cache(1 << 20);
    let file = open(&source, &cache);
    assert_eq!(read(&file, 1000..3000).await.unwrap(), slice(&(1000..3000)));
    assert_eq!(read(&file, 1500..2500).await.unwrap(), slice(&(1500..2500)));
    assert_eq!(read(&file, 2000..4000).await.unwrap(), slice(&(2000..4000)));
    assert_eq!(asked(&source), [1000..3000, 3000..4000]);
    let totals = cache.totals();
    assert_eq!((totals.reads, totals.hits, totals.partial, totals.misses), (3, 1, 1, 1));
    assert_eq!((totals.bytes_fetched, totals.bytes_used), (3000, 3000));
    let mut target = [0; 500];
    assert!(matches!(file.begin(1000, &mut target), Ok(ReadStart::Done(500))));
    assert_eq!(target[..], slice(&(1000..1500)));
}

#[tokio::test(start_paused = true)]
async fn readers_of_the_same_bytes_share_one_request() {
    let source = Arc::new(far());
    let cache = cache(1 << 20);
    let one = open(&source, &cache);
    let other = open(&source, &cache);
    let reads = (0..64).map(|i| {
        let file = if i % 2 == 0 { one.clone() } else { other.clone() };
        async move { read(&file, 0..100_000).await.unwrap() }
    });
    for found in futures_util::future::join_all(reads).await {
        assert_eq!(found, slice(&(0..100_000)));
    }
    // The first byte once more, by the other opening, to be sure of the version.
    assert!(asked_bytes(&source) <= 100_001, "{:?}", asked(&source));
    drop((one, other));
    settle().await;
    let Gauges { in_flight_bytes, waiters, ahead_bytes, .. } = cache.gauges();
    assert_eq!((in_flight_bytes, waiters, ahead_bytes), (0, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_reader_waits_for_its_bytes_and_not_for_the_request() {
    let source = Arc::new(far());
    let cache = cache(16 << 20);
    let file = open(&source, &cache);
    read(&file, 0..1).await.unwrap();
    let started = tokio::time::Instant::now();
    let all = read(&file, 1..SIZE as u64);
    let first = async {
        read(&file, 1..10).await.unwrap();
        started.elapsed()
    };
    let (all, first) = futures_util::future::join(all, first).await;
    assert_eq!(all.unwrap().len(), SIZE - 1);
    // A connection may have to be opened.
    assert!(first <= RTT * 2 && started.elapsed() > first, "{first:?}");
}

#[tokio::test(start_paused = true)]
async fn a_cache_of_one_byte_serves_every_reader() {
    let source = Arc::new(far());
    let cache = cache(1);
    let file = open(&source, &cache);
    file.hint(&[0..50_000], Duration::ZERO);
    let reads = (0..10).map(|i| read(&file, i * 1000..i * 1000 + 5000));
    for (i, found) in futures_util::future::join_all(reads).await.into_iter().enumerate() {
        let start = i as u64 * 1000;
        assert_eq!(found.unwrap(), slice(&(start..start + 5000)));
    }
    assert_eq!(cache.gauges().present_bytes, 0);
}

#[tokio::test(start_paused = true)]
async fn bytes_received_unrequested_but_not_kept_are_requested() {
    let source = far().with_max_connections(1).with_merging(u64::MAX);
    let source = Arc::new(source);
    let cache = cache(1);
    let file = open(&source, &cache);
    let wide = [0..10, 100_000..100_010];
    let reading = tokio::spawn({
        let file = file.clone();
        let wide = wide.clone();
        async move { file.read_ranges(&wide).await }
    });
    // The handshake, and the first window of what lies between the two.
    tokio::time::sleep(RTT * 2 + RTT / 2).await;
    assert_eq!(read(&file, 5_000..5_010).await.unwrap(), slice(&(5_000..5_010)));
    let found = reading.await.unwrap().unwrap();
    assert!(found.iter().zip(&wide).all(|(found, range)| found[..] == slice(range)));
    assert_eq!(asked(&source), [0..10, 100_000..100_010, 5_000..5_010]);
}

#[tokio::test(start_paused = true)]
async fn bytes_received_unrequested_are_not_requested() {
    let source = far().with_max_connections(1).with_merging(u64::MAX);
    let source = Arc::new(source);
    let cache = cache(1);
    let file = open(&source, &cache);
    let wide = file.read_ranges(&[0..10, 100_000..100_010]);
    let within = async {
        tokio::time::sleep(RTT).await;
        read(&file, 50_000..50_010).await
    };
    let (wide, within) = tokio::join!(wide, within);
    assert!(wide.is_ok());
    assert_eq!(within.unwrap(), slice(&(50_000..50_010)));
    assert_eq!(asked(&source), [0..10, 100_000..100_010]);
}

#[tokio::test(start_paused = true)]
async fn a_hinted_range_is_a_hit_when_read() {
    let source = Arc::new(far());
    let cache = cache(16 << 20);
    let file = open(&source, &cache);
    let baskets: Vec<_> = (0..200u64).map(|i| i * 20_000..i * 20_000 + 1_500).collect();
    file.hint(&baskets, Duration::ZERO);
    settle().await;
    let requests = source.log().len();
    assert!(requests <= 64, "{requests}");
    for basket in &baskets {
        assert_eq!(read(&file, basket.clone()).await.unwrap(), slice(basket));
    }
    assert_eq!((source.log().len(), cache.totals().hits), (requests, 200));
    assert_eq!(asked_bytes(&source), 200 * 1_500);
}

#[tokio::test(start_paused = true)]
async fn hints_stay_within_their_share_of_memory_and_continue_as_they_are_read() {
    let source = Arc::new(far());
    let cache = cache(200_000);
    let file = open(&source, &cache);
    let pieces: Vec<_> = (0..40u64).map(|i| i * 20_000..i * 20_000 + 10_000).collect();
    file.hint(&pieces, Duration::ZERO);
    settle().await;
    let ahead = cache.gauges().ahead_bytes;
    assert!(ahead > 60_000 && ahead <= 100_000, "{ahead}");
    for piece in &pieces {
        assert_eq!(read(&file, piece.clone()).await.unwrap(), slice(piece));
        settle().await;
    }
    let totals = cache.totals();
    assert_eq!((totals.hits, totals.bytes_dropped), (40, 0), "{totals:?}");
    assert_eq!(asked_bytes(&source), 400_000);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_hint_is_not_requested() {
    let limits = Limits { max_ranges: 1, ..Limits::unlimited() };
    let source = Arc::new(far().with_limits(limits).with_max_connections(1));
    let cache = cache(16 << 20);
    let file = open(&source, &cache);
    read(&file, 0..10).await.unwrap();
    let pieces: Vec<_> = (1..20u64).map(|i| i * 20_000..i * 20_000 + 10_000).collect();
    let hint = file.hint(&pieces, Duration::ZERO);
    tokio::time::sleep(RTT * 3 / 2).await;
    file.cancel(hint);
    settle().await;
    assert!(source.log().len() <= 4, "{:?}", asked(&source));
    assert_eq!(cache.gauges().in_flight_bytes, 0);
    assert_eq!(read(&file, pieces[18].clone()).await.unwrap(), slice(&pieces[18]));
}

#[tokio::test(start_paused = true)]
async fn reads_go_before_prefetches() {
    let limits = Limits { max_ranges: 1, ..Limits::unlimited() };
    let source = Arc::new(far().with_limits(limits).with_max_connections(2));
    let cache = cache(64 << 20);
    let file = open(&source, &cache);
    read(&file, 0..10).await.unwrap();
    let pieces: Vec<_> = (1..100u64).map(|i| i * 20_000..i * 20_000 + 10_000).collect();
    file.hint(&pieces, Duration::ZERO);
    tokio::time::sleep(RTT / 2).await;
    let started = tokio::time::Instant::now();
    // One that nobody has named, and one that is among the last of the hint.
    let (one, other) =
        futures_util::future::join(read(&file, 5_000..6_000), read(&file, pieces[90].clone()))
            .await;
    assert_eq!((one.unwrap(), other.unwrap()), (slice(&(5_000..6_000)), slice(&pieces[90])));
    assert!(started.elapsed() <= RTT * 3, "{:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn prefetches_join_a_request_or_follow_it_unless_unneeded() {
    let source = Arc::new(far());
    let cache = cache(16 << 20);
    let file = open(&source, &cache);
    file.set_prefetcher(Box::new(Says(Advice {
        same_request: vec![0..10_000],
        ..Advice::default()
    })));
    read(&file, 4_000..5_000).await.unwrap();
    assert_eq!(range::merged(&asked(&source), 0), [0..10_000]);
    let will_need = vec![50_000..60_000];
    file.set_prefetcher(Box::new(Says(Advice { will_need, ..Advice::default() })));
    read(&file, 0..10).await.unwrap();
    settle().await;
    assert_eq!(asked_bytes(&source), 20_000);
    assert_eq!(cache.gauges().ahead_bytes, 10_000);
    let dont_need = vec![50_000..60_000];
    file.set_prefetcher(Box::new(Says(Advice { dont_need, ..Advice::default() })));
    read(&file, 0..10).await.unwrap();
    assert_eq!(cache.gauges().ahead_bytes, 0);
}

#[tokio::test(start_paused = true)]
async fn a_read_beyond_the_end_is_short() {
    let source = Arc::new(far());
    let cache = cache(16 << 20);
    let end = SIZE as u64;
    let file = open(&source, &cache);
    assert_eq!(read(&file, end - 10..end + 1_000).await.unwrap(), slice(&(end - 10..end)));
    assert_eq!(read(&file, end..end + 10).await.unwrap(), Vec::<u8>::new());
    assert_eq!(read(&file, end + 10..end + 20).await.unwrap(), Vec::<u8>::new());
    let error = file.read_ranges(&[0..10, end - 1..end + 1]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
}

#[tokio::test(start_paused = true)]
async fn an_error_fails_waiting_reads_and_the_next_read_retries() {
    let fail = || Fault::Fail(Error::new(ErrorKind::NotFound, "no"));
    let source = Arc::new(far().with_fault(1, fail()));
    let cache = cache(16 << 20);
    let file = open(&source, &cache);
    read(&file, 0..10).await.unwrap();
    assert_eq!(read(&file, 100..200).await.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(read(&file, 100..200).await.unwrap(), slice(&(100..200)));
    settle().await;
    assert_eq!(cache.gauges().in_flight_bytes, 0);
}

#[tokio::test(start_paused = true)]
async fn a_changed_file_is_an_error_until_it_is_reopened() {
    let changed = Fault::Change { validator: "\"second\"".to_owned() };
    let source = Arc::new(far().with_fault(1, changed));
    let cache = cache(16 << 20);
    let file = open(&source, &cache);
    read(&file, 0..10).await.unwrap();
    assert_eq!(read(&file, 100..200).await.unwrap_err().kind(), ErrorKind::Changed);
    assert_eq!(read(&file, 0..10).await.unwrap_err().kind(), ErrorKind::Changed);
    assert_eq!(cache.gauges().present_bytes, 0);
    let again = open(&source, &cache);
    assert_eq!(read(&again, 0..10).await.unwrap(), slice(&(0..10)));
}

#[tokio::test(start_paused = true)]
async fn a_change_that_the_end_of_a_response_shows_fails_a_read_that_was_not_served() {
    let changed = || Fault::FailAtEnd(Error::new(ErrorKind::Changed, "the file is longer"));
    let source = Arc::new(far().with_fault(1, changed()));
    let file = open(&source, &cache(16 << 20));
    read(&file, 0..10).await.unwrap();
    for range in [100..200, 0..10] {
        assert_eq!(read(&file, range).await.unwrap_err().kind(), ErrorKind::Changed);
    }
    // Nothing was served from the old version: the new one is read.
    let source = Arc::new(far().with_fault(0, changed()));
    let file = open(&source, &cache(16 << 20));
    assert_eq!(read(&file, 0..10).await.unwrap(), slice(&(0..10)));
    assert_eq!(asked(&source), [0..10, 0..10]);
}

fn begun(file: &CachedFile, range: Range<u64>) -> PendingRead {
    let mut target = vec![0; usize::try_from(range.end - range.start).unwrap()];
    match file.begin(range.start, &mut target).unwrap() {
        ReadStart::Waiting(pending) => pending,
        ReadStart::Done(_) => panic!("{range:?} was there"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_before_the_first_read_is_no_error() {
    let source = Arc::new(far());
    let cache = cache(1 << 20);
    let file = open(&source, &cache);
    let old = Version { size: Some(SIZE as u64), validator: Some("\"old\"".to_owned()) };
    file.expect(&old, &[(0, vec![7; 1000].into())]);
    let one = begun(&file, 0..10);
    let other = begun(&file, 5_000..5_010);
    let aside = tokio::spawn({
        let file = file.clone();
        async move { file.read_untracked(&[0..100]).await }
    });
    let mut bytes = [0; 10];
    // All wait for the version that is the file's no more; one is served from the new one before
    // others hear of it.
    assert_eq!(one.into_slice(&mut bytes).await.unwrap(), 10);
    assert_eq!(bytes[..], slice(&(0..10)));
    assert_eq!(other.into_slice(&mut bytes).await.unwrap(), 10);
    assert_eq!(bytes[..], slice(&(5_000..5_010)));
    assert_eq!(aside.await.unwrap().unwrap()[0][..], slice(&(0..100)));
}

#[tokio::test(start_paused = true)]
async fn a_version_of_the_same_date_and_another_size_is_another() {
    let source = Arc::new(far());
    let before = open(&source, &cache(1 << 20));
    read(&before, 0..10).await.unwrap();
    let validator = before.version().unwrap().validator;
    assert!(validator.is_some());
    let file = open(&source, &cache(1 << 20));
    file.expect(&Version { size: Some(1000), validator }, &[(0, vec![7; 1000].into())]);
    assert_eq!(read(&file, 0..10).await.unwrap(), slice(&(0..10)));
}

#[tokio::test(start_paused = true)]
async fn a_late_read_is_served_from_the_version_of_other_readers() {
    let changes = Fault::Change { validator: "\"second\"".to_owned() };
    let source = Arc::new(far().with_fault(1, changes));
    let cache = cache(1 << 20);
    let file = open(&source, &cache);
    let late = begun(&file, 0..10);
    // Its bytes have arrived, and it has not been polled.
    tokio::time::sleep(RTT * 3).await;
    assert_eq!(read(&file, 5_000..5_010).await.unwrap(), slice(&(5_000..5_010)));
    assert_eq!(late.into_slice(&mut [0; 10]).await.unwrap(), 10);
    let log = source.log();
    assert!(log.iter().filter(|it| it.request.ranges == [0..10]).count() == 2, "{log:?}");
    assert_eq!(file.version().unwrap().validator.as_deref(), Some("\"second\""));
}

#[tokio::test(start_paused = true)]
async fn a_read_of_shared_bytes_is_validated() {
    let link = Link::new(Duration::from_millis(20), Some(2_000_000));
    let source = Arc::new(SimulatedSource::new(content(), link));
    let cache = cache(1 << 20);
    let one = open(&source, &cache);
    let size = SIZE as u64;
    let long = tokio::spawn({
        let one = one.clone();
        async move { read(&one, size - 200_000..size).await }
    });
    // Its first request is answered before the other one's is refused, and so the size is known by
    // then.
    tokio::time::sleep(Duration::from_millis(60)).await;
    // What this one asks for itself lies beyond the end; the rest is on its way, asked for before
    // it was opened.
    let other = open(&source, &cache);
    let end = tokio::time::timeout(Duration::from_secs(1000), read(&other, size - 10..size + 20));
    assert_eq!(end.await.unwrap().unwrap(), slice(&(size - 10..size)));
    assert_eq!(long.await.unwrap().unwrap().len(), 200_000);
}

#[tokio::test(start_paused = true)]
async fn cached_bytes_are_not_served_without_validation() {
    let down = Error::new(ErrorKind::NotFound, "gone");
    let source = far().with_fault(0, Fault::Fail(down.clone())).with_fault(1, Fault::Fail(down));
    let source = Arc::new(source);
    let cache = cache(1 << 20);
    let file = open(&source, &cache);
    let known = Version { size: Some(SIZE as u64), validator: Some("\"old\"".to_owned()) };
    file.expect(&known, &[(0, vec![7; 1000].into())]);
    let absent = begun(&file, 5_000..5_010);
    let present = begun(&file, 0..10);
    assert_eq!(absent.into_slice(&mut [0; 10]).await.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(present.into_slice(&mut [0; 10]).await.unwrap_err().kind(), ErrorKind::NotFound);
}

#[tokio::test(start_paused = true)]
async fn an_untracked_read_belongs_to_no_file() {
    let changes = Fault::Change { validator: "\"second\"".to_owned() };
    let source = Arc::new(far().with_fault(1, changes));
    let cache = cache(1 << 20);
    let file = open(&source, &cache);
    assert_eq!(file.read_untracked(&[100..200]).await.unwrap()[0][..], slice(&(100..200)));
    let totals = cache.totals();
    assert_eq!((totals.reads, totals.bytes_read, totals.waited), (0, 0, Duration::ZERO));
    // Nothing has been served to the program yet.
    assert_eq!(read(&file, 5_000..5_010).await.unwrap(), slice(&(5_000..5_010)));
}

#[tokio::test(start_paused = true)]
async fn bytes_of_an_earlier_opening_are_served_after_one_validation() {
    let changed = Fault::Change { validator: "\"second\"".to_owned() };
    let source = Arc::new(far().with_fault(2, changed));
    let cache = cache(16 << 20);
    let file = open(&source, &cache);
    read(&file, 0..1000).await.unwrap();
    drop(file);
    let file = open(&source, &cache);
    assert_eq!(read(&file, 100..200).await.unwrap(), slice(&(100..200)));
    assert_eq!(read(&file, 500..700).await.unwrap(), slice(&(500..700)));
    assert_eq!(asked(&source), [0..1000, 0..1]);
    drop(file);
    // It has changed since, but nothing was read from this opening: the new version is as good.
    let file = open(&source, &cache);
    assert_eq!(read(&file, 100..200).await.unwrap(), slice(&(100..200)));
    assert_eq!(asked(&source), [0..1000, 0..1, 0..1, 100..200]);
}

#[tokio::test(start_paused = true)]
async fn closing_a_file_cancels_its_requests() {
    let source = Arc::new(far());
    let cache = cache(16 << 20);
    let file = open(&source, &cache);
    let other = open(&source, &cache);
    file.hint(&[0..1_000_000], Duration::ZERO);
    read(&file, 0..1_000).await.unwrap();
    let waiting = tokio::spawn(async move { read(&other, 500_000..500_100).await });
    tokio::time::sleep(RTT).await;
    drop(file);
    assert_eq!(waiting.await.unwrap().unwrap(), slice(&(500_000..500_100)));
    settle().await;
    let Gauges { in_flight_bytes, waiters, .. } = cache.gauges();
    assert_eq!((in_flight_bytes, waiters), (0, 0));
    assert!(asked_bytes(&source) < 2_000_000);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_read_leaves_no_state() {
    let source = Arc::new(far());
    let cache = cache(16 << 20);
    let file = open(&source, &cache);
    let given_up = tokio::time::timeout(RTT / 2, read(&file, 0..1_000)).await;
    assert!(given_up.is_err());
    assert_eq!(cache.gauges().waiters, 0);
    assert_eq!(read(&file, 0..1_000).await.unwrap(), slice(&(0..1_000)));
    assert_eq!(asked_bytes(&source), 1_000);
}

#[tokio::test(start_paused = true)]
async fn the_size_of_a_reopened_file_comes_from_the_server() {
    let short = content().slice(..1_000);
    let long = content().slice(..2_000);
    let cache = cache(16 << 20);
    let source = |bytes| Arc::new(SimulatedSource::new(bytes, Link::G).with_name("grows"));
    let file = open(&source(short), &cache);
    assert_eq!(read(&file, 0..5_000).await.unwrap(), slice(&(0..1_000)));
    drop(file);
    let changed = Fault::Change { validator: "\"second\"".to_owned() };
    let grown =
        Arc::new(SimulatedSource::new(long, Link::G).with_name("grows").with_fault(0, changed));
    let file = open(&grown, &cache);
    assert_eq!(read(&file, 1_500..5_000).await.unwrap(), slice(&(1_500..2_000)));
    let file = open(&grown, &cache);
    assert_eq!(read(&file, 5_000..6_000).await.unwrap(), b"");
    // What lies beyond the end of the new version is found out in two steps.
    assert_eq!(asked(&grown), [0..1, 1_500..5_000, 0..1, 1_500..2_000, 0..1]);
}
