//! The choice of replicas, without servers.

use super::*;
use crate::file::blocks::block_map::{BlockChecksums, BlockMap};
use hither_checksum::{Algorithm, Hasher};
use hither_core::source::clock::Clock;
use hither_core::storage::replica_set::{PieceChecksums, SourceReport};
use hither_core::{Endpoint, Limits, LinkEstimate, PartSink};
use std::pin::Pin;

/// A boxed future, as the traits of core return it.
type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Replicas that have sent a file in blocks of four bytes.
#[derive(Debug, Default)]
struct Sent {
    latency: Option<Duration>,
    /// The senders of each block.
    senders: Vec<Vec<usize>>,
    /// The bytes that each replica has sent.
    bytes: Vec<u64>,
    checksum: Option<Checksum>,
    used: Mutex<Vec<Option<usize>>>,
    excluded: Mutex<BTreeMap<usize, String>>,
}

impl Source for Sent {
    fn name(&self) -> String {
        "replicas".to_owned()
    }
    fn limits(&self) -> Limits {
        Limits::unlimited()
    }
    fn link(&self) -> LinkEstimate {
        LinkEstimate { rtt: self.latency, ..LinkEstimate::default() }
    }
    fn clock(&self) -> &dyn Clock {
        unreachable!("no time is read")
    }
    fn endpoint(&self) -> Endpoint {
        Endpoint::default()
    }
    fn max_connections(&self) -> usize {
        64
    }
    fn idle_connections(&self) -> usize {
        0
    }
    fn preconnect(&self, _: usize) {}
    fn fetch(&self, _: Request, _: PartSink) -> Boxed<'_, Result<ResponseMeta>> {
        unreachable!("nothing is fetched")
    }
}

impl ReplicaSet for Sent {
    fn begin_bulk(&self) {}
    fn bulk_connections(&self, cap: usize) -> usize {
        cap
    }
    fn best_speed(&self) -> Option<f64> {
        None
    }
    fn usable(&self) -> BTreeMap<usize, String> {
        let excluded = lock(&self.excluded);
        let usable = (0..self.bytes.len()).filter(|it| !excluded.contains_key(it));
        usable.map(|it| (it, format!("server {it}"))).collect()
    }
    fn senders(&self, range: &Range<u64>) -> Vec<usize> {
        let block = usize::try_from(range.start / 4).unwrap();
        self.senders.get(block).cloned().unwrap_or_default()
    }
    fn use_only(&self, replica: Option<usize>) {
        lock(&self.used).push(replica);
    }
    fn exclude(&self, replica: usize, why: &str) {
        lock(&self.excluded).insert(replica, why.to_owned());
    }
    fn pieces(&self) -> Option<Arc<PieceChecksums>> {
        None
    }
    fn expected_checksum(&self) -> Option<Checksum> {
        self.checksum.clone()
    }
    fn validators(&self) -> BTreeMap<String, String> {
        BTreeMap::from([("server 0".to_owned(), "\"a\"".to_owned())])
    }
    fn bind_validators(&self, _: &BTreeMap<String, String>) {
        unreachable!("no earlier attempt is known")
    }
    fn check_stated(&self, _: Algorithm) -> Boxed<'_, Result<bool>> {
        unreachable!("nobody is asked")
    }
    fn ask_checksums(&self, _: Algorithm) -> Boxed<'_, ()> {
        unreachable!("nobody is asked")
    }
    fn agreed_checksum(&self) -> Option<Checksum> {
        None
    }
    fn first_would_wait(&self) -> bool {
        unreachable!("nothing is requested")
    }
    fn notices(&self) -> Vec<String> {
        Vec::new()
    }
    fn reports(&self) -> Vec<SourceReport> {
        let report = |bytes: &u64| SourceReport { bytes: *bytes, ..SourceReport::default() };
        self.bytes.iter().map(report).collect()
    }
    fn server_reports(&self) -> Vec<SourceReport> {
        self.reports()
    }
}

fn source(sent: Sent, is_replicated: bool) -> (FileSource, Arc<Sent>) {
    let sent = Arc::new(sent);
    let replicas = Replicas {
        source: Arc::clone(&sent) as Arc<dyn Source>,
        all: is_replicated.then(|| Arc::clone(&sent) as Arc<dyn ReplicaSet>),
    };
    let version = FileVersion { validator: Some("W/\"a\"".to_owned()), ..FileVersion::default() };
    let source = FileSource {
        name: "file".to_owned(),
        refuses_pages: true,
        replicas,
        validator: Mutex::new(version.validator.clone()),
        version,
        size: 16,
        binding: VersionBinding::default(),
        trials: Mutex::default(),
    };
    (source, sent)
}

/// A complete file of 16 bytes in blocks of four.
fn complete() -> FileBlocks {
    let mut map = BlockMap::new(16, 4);
    while map.take(u64::MAX).is_some() {}
    let blocks = FileBlocks::new(map, 8, false);
    blocks.dropped(0..16);
    assert!(blocks.is_to_be_finished());
    blocks
}

/// Fetches what was taken back, with these bytes.
fn fetch(blocks: &FileBlocks, bytes: [u8; 4]) {
    while let Some(piece) = blocks.take(1, Duration::ZERO, RangeSupport::Single, |left| left) {
        let block = piece.buffer.missing();
        let whole = blocks.written(block, BlockChecksums::of([&bytes[..]], false)).unwrap();
        blocks.compare(&whole);
        blocks.ended(&piece);
    }
}

#[test]
fn a_file_with_a_wrong_checksum_is_completed_from_the_replica_that_has_sent_most() {
    let senders = vec![vec![0], vec![1], vec![1], vec![0, 1]];
    let (source, sent) = source(Sent { senders, bytes: vec![6, 10], ..Sent::default() }, true);
    let blocks = complete();
    assert!(!source.has_tried_replicas());
    // Its own blocks are kept.
    assert_eq!(source.try_next_replica(&blocks), Some(8));
    assert_eq!((blocks.written_bytes(), blocks.is_over()), (8, false));
    fetch(&blocks, *b"good");
    let damaged = blocks.damaged().unwrap();
    assert_eq!(damaged, [0, 12]);
    source.conclude(&damaged);
    // The sender of the wrong bytes in the last block is unknown.
    let why = "sent wrong bytes, in 1 blocks".to_owned();
    assert_eq!(*lock(&sent.excluded), BTreeMap::from([(0, why)]));
    assert_eq!(*lock(&sent.used), [Some(1), None]);
}

#[test]
fn at_most_three_replicas_are_tried_and_then_none_is_left() {
    let senders = vec![vec![0], vec![1], vec![2], vec![3]];
    let (source, sent) = source(Sent { senders, bytes: vec![1, 2, 3, 4], ..Sent::default() }, true);
    for only in [3, 2, 1] {
        assert_eq!(source.try_next_replica(&complete()), Some(12));
        assert_eq!(lock(&sent.used).last(), Some(&Some(only)));
    }
    assert_eq!(source.try_next_replica(&complete()), None);
    assert!(source.has_tried_replicas() && lock(&sent.excluded).is_empty());
}

#[test]
fn there_is_nothing_to_try_without_another_replica() {
    let one = Sent { senders: vec![vec![0]; 4], bytes: vec![16], ..Sent::default() };
    let (source, _) = source(one, true);
    assert_eq!(source.try_next_replica(&complete()), None);
    let (source, _) = self::source(Sent::default(), false);
    assert_eq!(source.try_next_replica(&complete()), None);
    assert!(!source.has_tried_replicas());
}

#[test]
fn the_sender_of_a_wrong_piece_is_excluded_while_another_is_left() {
    let senders = vec![vec![0], vec![1], vec![0, 1]];
    let (source, sent) = source(Sent { senders, bytes: vec![8, 8], ..Sent::default() }, true);
    let of = |bytes: &[u8]| Hasher::of(Algorithm::Adler32, bytes);
    let wrong =
        |start: u64| WrongPiece { range: start..start + 4, seen: of(b"x"), expected: of(b"y") };
    let error = source.wrong_piece(&wrong(8));
    assert!(error.to_string().starts_with("server 0 and server 1: bytes 8 to 12"), "{error}");
    assert!(lock(&sent.excluded).is_empty(), "either may have sent it");
    let error = source.wrong_piece(&wrong(0));
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().starts_with("server 0: bytes 0 to 4"), "{error}");
    source.wrong_piece(&wrong(4));
    assert!(lock(&sent.excluded).keys().eq([&0]), "the last replica stays");
}

#[test]
fn a_response_of_another_version_is_an_error_and_a_strong_validator_replaces_a_weak_one() {
    let (source, _) = source(Sent::default(), false);
    let of = |size: u64, validator: &str| ResponseMeta {
        size: Some(size),
        validator: Some(validator.to_owned()),
        ..ResponseMeta::default()
    };
    let validator = |source: &FileSource| source.request(0..4).validator.unwrap();
    assert_eq!(validator(&source), "W/\"a\"");
    source.check_response(&of(16, "\"a\"")).unwrap();
    assert_eq!(validator(&source), "\"a\"");
    source.check_response(&of(16, "W/\"a\"")).unwrap();
    assert_eq!(validator(&source), "\"a\"");
    for changed in [of(17, "\"a\""), of(16, "\"b\"")] {
        let error = source.check_response(&changed).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Changed, "{error}");
    }
    let request = source.request(4..8);
    assert_eq!((request.ranges, request.size, request.refuses_pages), (vec![4..8], Some(16), true));
}

#[test]
fn pieces_are_balanced_where_a_worker_that_ends_late_matters() {
    let millis = Duration::from_millis;
    let of = |latency: Option<u64>, replicas: usize| {
        let latency = latency.map(millis);
        source(Sent { latency, bytes: vec![0; replicas], ..Sent::default() }, replicas > 0).0
    };
    assert_eq!(of(Some(1), 0).balancing_rtt(false), None);
    assert_eq!(of(Some(30), 0).balancing_rtt(false), Some(millis(30)));
    assert_eq!(of(None, 0).balancing_rtt(false), None);
    // Connections that are limited one by one, and replicas.
    assert_eq!(of(Some(1), 0).balancing_rtt(true), Some(MIN_BALANCING_RTT));
    assert_eq!(of(Some(1), 2).balancing_rtt(false), Some(REPLICA_BALANCING_RTT));
    assert_eq!(of(Some(1), 1).balancing_rtt(false), None);
}

#[test]
fn the_version_now_has_what_replicas_and_catalogue_state() {
    let stated = Hasher::of(Algorithm::Adler32, b"a");
    let catalogued = Hasher::of(Algorithm::Md5, b"a");
    let (source, _) = source(Sent::default(), false);
    assert_eq!(source.version_now(Some(stated.clone())), *source.version());
    let (source, _) = self::source(Sent::default(), true);
    let version = source.version_now(Some(stated.clone()));
    assert_eq!(version.checksum, Some(stated.to_string()));
    assert_eq!(version.replicas.len(), 1);
    let sent = Sent { checksum: Some(catalogued.clone()), ..Sent::default() };
    let (source, _) = self::source(sent, true);
    assert_eq!(source.version_now(Some(stated)).checksum, Some(catalogued.to_string()));
}
