use super::*;
use crate::TraceWriter;
use proptest::prelude::*;

fn read() -> impl Strategy<Value = TracedRead> {
    let offset = prop_oneof![0..100_000_u64, any::<u64>()];
    let ranges = prop::collection::vec((offset, 0..9000_u64), 0..4)
        .prop_map(|all| all.into_iter().map(|(at, n)| at..at.saturating_add(n)).collect());
    let times = (0..u64::MAX >> 20, 0..1000_u64, 0..1000_u64, any::<bool>());
    (0..3_u32, 0..3_u32, ranges, times, 0..3_usize, any::<u64>()).prop_map(
        |(file, thread, ranges, (submitted, wait, rest, slow), found, absent)| {
            let ranges: Vec<Range<u64>> = ranges;
            let (wait, rest) = if slow { (wait, rest) } else { (0, 0) };
            let times = ReadTimes {
                submitted: Duration::from_nanos(submitted),
                completed: Duration::from_nanos(submitted + wait),
                consumed: Duration::from_nanos(submitted + wait + rest),
            };
            let found = [CacheStatus::Hit, CacheStatus::InFlight, CacheStatus::Miss][found];
            let total = range::total_bytes(&ranges);
            let absent_bytes = match found {
                CacheStatus::Miss => absent.checked_rem(total).map_or(0, |rest| rest + 1),
                _ => 0,
            };
            TracedRead { file, thread, ranges, times, found, absent_bytes }
        },
    )
}

const NAMES_OF_FILES: [&str; 3] = ["http://host/a", "b", "é"];

fn written(reads: &[TracedRead]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = TraceWriter::new(&mut bytes).unwrap();
    for (number, name) in (0..).zip(NAMES_OF_FILES) {
        assert_eq!(writer.number(name).unwrap(), number);
        assert_eq!(writer.number(name).unwrap(), number);
    }
    reads.iter().for_each(|read| writer.record(&read.event()).unwrap());
    writer.flush().unwrap();
    bytes
}

fn whole(bytes: &[u8]) -> (Vec<TracedRead>, u64) {
    let mut reader = TraceReader::new(bytes).unwrap();
    let reads = reader.by_ref().map(Result::unwrap).collect();
    assert!(reader.names().iter().zip(NAMES_OF_FILES).all(|(name, expected)| name == expected));
    (reads, reader.cut_bytes())
}

proptest! {
    #[test]
    fn a_written_trace_is_read_back(reads in prop::collection::vec(read(), 0..200)) {
        prop_assert_eq!(whole(&written(&reads)), (reads, 0));
    }

    #[test]
    fn a_truncated_trace_is_read_up_to_its_end(
        reads in prop::collection::vec(read(), 0..60),
        cut in any::<prop::sample::Index>(),
    ) {
        let bytes = written(&reads);
        let cut = HEADER_BYTES + cut.index(bytes.len() - HEADER_BYTES);
        let (found, cut_bytes) = whole(&bytes[..cut]);
        prop_assert!(reads.starts_with(&found));
        // the decoded bytes and the rest are the complete input
        let kept = cut - usize::try_from(cut_bytes).unwrap();
        prop_assert_eq!(whole(&bytes[..kept]), (found, 0));
    }

    #[test]
    fn a_flipped_byte_never_adds_reads(
        reads in prop::collection::vec(read(), 1..60),
        place in any::<prop::sample::Index>(),
        flip in 1..=255_u8,
    ) {
        let mut bytes = written(&reads);
        let place = place.index(bytes.len());
        bytes[place] ^= flip;
        let Ok(reader) = TraceReader::new(&bytes[..]) else { return Ok(()) };
        let found: Vec<_> = reader.map_while(Result::ok).collect();
        prop_assert!(reads.starts_with(&found));
    }

    #[test]
    fn any_payload_is_read_or_an_error(payload in prop::collection::vec(any::<u8>(), 0..300), kind in 0..4_u8) {
        let mut bytes = written(&[]);
        let head = [vec![kind], u32::try_from(payload.len()).unwrap().to_le_bytes().to_vec()].concat();
        let sum = checksum(&head, &payload);
        bytes.extend([head, sum.to_le_bytes().to_vec(), payload].concat());
        let reader = TraceReader::new(&bytes[..]).unwrap();
        prop_assert!(reader.take_while(Result::is_ok).count() <= 150);
    }
}

#[test]
fn a_read_of_very_many_ranges_is_written_in_parts() {
    let ranges: Vec<Range<u64>> = (0..150_000).map(|i| i * 10..i * 10 + 3).collect();
    let times = ReadTimes::at_once(Duration::from_secs(1));
    let absent_bytes = 150_000 * 3 - 5;
    let read =
        TracedRead { file: 0, thread: 0, ranges, times, found: CacheStatus::Miss, absent_bytes };
    let (reads, _) = whole(&written(std::slice::from_ref(&read)));
    assert_eq!(reads.len(), 3);
    assert_eq!(reads.iter().flat_map(|read| read.ranges.clone()).collect::<Vec<_>>(), read.ranges);
    assert_eq!(reads.iter().map(|read| read.absent_bytes).sum::<u64>(), absent_bytes);
}

#[test]
fn a_killed_process_loses_at_most_the_last_second() {
    let mut bytes = Vec::new();
    let mut writer = TraceWriter::new(&mut bytes).unwrap();
    let file = writer.number("a").unwrap();
    for second in 0..10 {
        let times = ReadTimes::at_once(Duration::from_secs(second));
        let event = ReadEvent {
            file,
            thread: 0,
            ranges: &[0..100],
            times,
            found: CacheStatus::Hit,
            absent_bytes: 0,
        };
        writer.record(&event).unwrap();
    }
    // never flushed
    drop(writer);
    assert!(TraceReader::new(&bytes[..]).unwrap().count() >= 9);
}

#[test]
fn other_formats_and_later_versions_are_an_error() {
    let kind = |bytes: &[u8]| TraceReader::new(bytes).map(drop).map_err(|error| error.kind());
    assert_eq!(kind(b"root\0\0"), Err(ErrorKind::Corrupt));
    assert_eq!(kind(b""), Err(ErrorKind::Corrupt));
    let mut bytes = written(&[]);
    bytes[8] = 2;
    assert_eq!(kind(&bytes), Err(ErrorKind::Unsupported));
    bytes[8] = 1;
    bytes[15] ^= 1;
    assert_eq!(kind(&bytes), Err(ErrorKind::Corrupt));
}

#[test]
fn a_typical_read_takes_few_bytes() {
    let mut at = 1000;
    let reads: Vec<_> = (0..1000_u64)
        .map(|i| {
            at += 700;
            let start = 5_000_000 + i * 40_000 % 500_000;
            TracedRead {
                file: 0,
                thread: 0,
                ranges: vec![start..start + 1000],
                times: ReadTimes::at_once(Duration::from_nanos(at)),
                found: CacheStatus::Hit,
                absent_bytes: 0,
            }
        })
        .collect();
    let bytes = written(&reads).len();
    assert!(bytes <= 8 * 1000 + 100, "{bytes}");
}
