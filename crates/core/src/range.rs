//! Sets of byte ranges.

use std::ops::Range;

/// Length in bytes; 0 for a range that runs backwards.
#[must_use]
pub fn len(range: &Range<u64>) -> u64 {
    range.end.saturating_sub(range.start)
}

/// Sum of the lengths, saturating.
#[must_use]
pub fn total_bytes(ranges: &[Range<u64>]) -> u64 {
    ranges.iter().map(len).fold(0, u64::saturating_add)
}

/// The same bytes as sorted, disjoint, non-empty ranges: empty ones dropped, and those that
/// overlap, touch, or leave no more than `gap_bytes` between them joined.
#[must_use]
pub fn merged(ranges: &[Range<u64>], gap_bytes: u64) -> Vec<Range<u64>> {
    let mut sorted: Vec<_> = ranges.iter().filter(|r| r.start < r.end).cloned().collect();
    sorted.sort_unstable_by_key(|r| (r.start, r.end));
    let mut out: Vec<Range<u64>> = Vec::with_capacity(sorted.len());
    for range in sorted {
        match out.last_mut() {
            Some(last) if range.start <= last.end.saturating_add(gap_bytes) => {
                last.end = last.end.max(range.end);
            }
            _ => out.push(range),
        }
    }
    out
}

/// The parts of `wanted` that are not in `have`. Both sorted and disjoint, as [`merged`] makes
/// them; so is the result.
#[must_use]
pub fn difference(wanted: &[Range<u64>], have: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut out = Vec::new();
    let mut next = 0;
    for range in wanted {
        let mut at = range.start;
        while next < have.len() && have[next].end <= at {
            next += 1;
        }
        let mut i = next;
        while let Some(known) = have.get(i).filter(|known| known.start < range.end) {
            if known.start > at {
                out.push(at..known.start);
            }
            at = at.max(known.end);
            i += 1;
        }
        if at < range.end {
            out.push(at..range.end);
        }
    }
    out
}

/// Returns true if all of `left` lies before all of `right`, or after it. Both sorted and disjoint.
#[must_use]
pub fn are_apart(left: &[Range<u64>], right: &[Range<u64>]) -> bool {
    let before = |one: &[Range<u64>], other: &[Range<u64>]| match (one.last(), other.first()) {
        (Some(last), Some(first)) => last.end <= first.start,
        _ => true,
    };
    before(left, right) || before(right, left)
}

/// The first `bytes` of `ranges`, in their order, and the others.
#[must_use]
pub fn divided(ranges: &[Range<u64>], bytes: u64) -> (Vec<Range<u64>>, Vec<Range<u64>>) {
    let mut left = bytes;
    let mut first = Vec::new();
    let mut rest = Vec::new();
    for range in ranges {
        let cut = range.start + len(range).min(left);
        left -= cut - range.start;
        first.extend(Some(range.start..cut).filter(|range| !range.is_empty()));
        rest.extend(Some(cut..range.end).filter(|range| !range.is_empty()));
    }
    (first, rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_splits_after_the_given_number_of_bytes() {
        let ranges = [10..14, 100..100, 50..60, 0..3];
        assert_eq!(divided(&ranges, 6), (vec![10..14, 50..52], vec![52..60, 0..3]));
        assert_eq!(divided(&ranges, 0).0, Vec::<Range<u64>>::new());
        assert_eq!(divided(&ranges, 99), (vec![10..14, 50..60, 0..3], Vec::new()));
    }
    use proptest::prelude::*;

    fn ranges() -> impl Strategy<Value = Vec<Range<u64>>> {
        prop::collection::vec((0u64..300, 0u64..40).prop_map(|(a, n)| a..a + n), 0..40)
    }

    fn bytes(ranges: &[Range<u64>]) -> std::collections::BTreeSet<u64> {
        ranges.iter().flat_map(Clone::clone).collect()
    }

    proptest! {
        #[test]
        fn merging_without_gap_keeps_the_bytes(r in ranges()) {
            let m = merged(&r, 0);
            prop_assert_eq!(bytes(&m), bytes(&r));
            prop_assert!(m.windows(2).all(|w| w[0].end < w[1].start));
            prop_assert_eq!(merged(&m, 0), m);
        }

        #[test]
        fn difference_is_set_difference(a in ranges(), b in ranges()) {
            let a = merged(&a, 0);
            let b = merged(&b, 0);
            let d = difference(&a, &b);
            prop_assert_eq!(bytes(&d), &bytes(&a) - &bytes(&b));
        }
    }

    #[test]
    fn extremes_do_not_overflow() {
        let r = [0..u64::MAX, u64::MAX - 1..u64::MAX, 5..5];
        assert_eq!(merged(&r, u64::MAX), vec![0..u64::MAX]);
        assert_eq!(total_bytes(&[0..u64::MAX, 0..u64::MAX]), u64::MAX);
    }
}
