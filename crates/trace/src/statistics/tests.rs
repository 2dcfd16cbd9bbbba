use super::*;
use crate::{CacheStatus, ReadTimes};
use std::ops::Range;

/// A read that waits for `wait` microseconds.
fn read(file: u32, at: u64, wait: u64, ranges: &[Range<u64>], absent_bytes: u64) -> TracedRead {
    let submitted = Duration::from_micros(at);
    let completed = submitted + Duration::from_micros(wait);
    let found = if absent_bytes > 0 { CacheStatus::Miss } else { CacheStatus::Hit };
    let times = ReadTimes { submitted, completed, consumed: completed };
    TracedRead { file, thread: 0, ranges: ranges.to_vec(), times, found, absent_bytes }
}

fn statistics(reads: Vec<TracedRead>) -> Statistics {
    let names = ["a", "b"].map(str::to_owned);
    let mut reads = reads.into_iter().map(Ok);
    Statistics::of(&mut reads, |_| names.to_vec()).unwrap()
}

#[test]
fn statistics_of_a_known_trace_are_exact() {
    let of = statistics(vec![
        read(0, 0, 100, &[0..100], 100),
        // sequential, then back over the same bytes, then far away
        read(0, 200, 0, &[100..200], 0),
        read(0, 210, 0, &[50..150], 0),
        read(0, 300, 50, &[10_000_150..10_000_250], 20),
    ]);
    assert_eq!(
        (of.all.clone(), of.threads),
        (FileStatistics { name: String::new(), ..of.files[0].clone() }, 1)
    );
    let file = &of.files[0];
    assert_eq!((file.name.as_str(), file.reads, file.vector_reads, file.ranges), ("a", 4, 0, 4));
    assert_eq!((file.bytes, file.distinct_bytes, file.reread_share()), (400, 300, 0.25));
    assert_eq!((file.present, file.in_flight, file.partial, file.absent), (2, 0, 1, 1));
    assert_eq!((file.absent_bytes, file.miss_share()), (120, 0.5));
    let Displacements { count, sequential, backward, near, .. } = file.displacements;
    assert_eq!((count, sequential, backward, near), (3, 1, 1, 2));
    assert_eq!((file.displacements.plain.above, file.displacements.plain.counts[100]), (1, 2));
    let filled = |bins: &[Bin]| -> Vec<_> {
        let filled = bins.iter().filter(|bin| bin.count > 0);
        filled.map(|bin| (bin.from, bin.to, bin.count)).collect()
    };
    let expected = [(-200, -100, 1), (0, 1, 1), (10_000_000, 20_000_000, 1)];
    assert_eq!(filled(&file.displacements.logarithmic), expected);
    assert_eq!(filled(&file.sizes), [(64, 128, 4)]);
    assert_eq!((file.runs.count, file.runs.longest_ranges, file.runs.longest_bytes), (3, 2, 200));
    assert_eq!(filled(&file.runs.lengths), [(1, 2, 2), (2, 4, 1)]);
    let near = |a: f64, b: f64| (a - b).abs() < 1e-12;
    assert!(near(of.seconds, 350e-6) && near(of.waited_seconds, 150e-6), "{of:?}");
    assert!(near(of.waited_share(), 150.0 / 350.0) && near(file.longest_wait_seconds, 100e-6));
}

#[test]
fn statistics_of_two_files_are_independent() {
    let reads = (0..10).flat_map(|i| {
        [
            read(0, 10 * i, 0, &[i * 7..i * 7 + 7], 0),
            read(1, 10 * i + 5, 0, &[900 - i * 9..909 - i * 9], 0),
        ]
    });
    let of = statistics(reads.collect());
    let told = |file: &FileStatistics| (file.displacements.sequential, file.runs.count);
    assert_eq!(of.files.iter().map(told).collect::<Vec<_>>(), [(9, 1), (0, 10)]);
    assert_eq!(told(&of.all), (9, 11));
    assert_eq!((of.all.reads, of.all.distinct_bytes), (20, 160));
    assert_eq!(of.all.displacements.count, 18);
}

#[test]
fn a_vector_read_counts_as_its_ranges() {
    let of = statistics(vec![read(0, 0, 10, &[0..10, 10..30, 50..60], 40)]);
    let file = &of.files[0];
    assert_eq!((file.reads, file.vector_reads, file.ranges, file.bytes), (1, 1, 3, 40));
    assert_eq!((file.displacements.sequential, file.displacements.near), (1, 2));
    assert_eq!((file.absent, file.partial), (1, 0));
}

#[test]
fn overlapping_waits_of_a_thread_count_once() {
    let of = statistics(vec![
        read(0, 0, 100, &[0..1], 1),
        read(0, 50, 100, &[5..6], 1),
        read(0, 60, 10, &[9..10], 1),
        read(0, 350, 50, &[7..8], 1),
    ]);
    assert!((of.waited_seconds - 200e-6).abs() < 1e-12, "{}", of.waited_seconds);
    assert!((of.all.waited_seconds - 260e-6).abs() < 1e-12);
    assert!((of.waited_share() - 0.5).abs() < 1e-12);
}

#[test]
fn an_empty_trace_has_statistics() {
    let of = statistics(Vec::new());
    assert_eq!((of.all.reads, of.files.len(), of.waited_share()), (0, 0, 0.0));
}
