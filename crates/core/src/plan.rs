//! Plans: from wanted ranges to requests.
//!
//! A plan is pure arithmetic over ranges: sort, merge, cut to the limits, distribute. It follows
//! two principles.
//!
//! **Merging has a price.** In a request of many ranges, one more range costs its framing in the
//! response and its text in the request, some 120 bytes, not a round trip. A gap is therefore read
//! over only if it is no larger than that price ([`Limits::range_cost_bytes`](crate::Limits)), and
//! only if it is small compared with both of its neighbours ([`PlanConfig::waste`]); the second
//! rule keeps gaps from outweighing many tiny ranges. The rule is applied to merged neighbours
//! until nothing changes, so that planning the output of a plan returns the same plan.
//!
//! Where a request holds one range only, one more range costs a whole request. Its price is the
//! number of bytes that could arrive meanwhile ([`crate::source::request_cost`]). A gap that costs
//! less is read over, whatever its neighbours are: there is no second rule, and a plan costs no
//! more than all bytes between the first range and the last.
//!
//! **Shares are equal.** Every request costs a round trip on its connection, whatever it carries,
//! and the congestion windows of all connections grow at the same rate. So the work is cut into as
//! many equal shares of bytes as there are connections, in file order, each share a run of
//! neighbouring ranges; a range larger than a share is cut. There are more requests than
//! connections only where the limits require them; then each connection takes the next one when it
//! becomes free, and [`PlanConfig::balanced`] picks a number of connections that all get equally
//! many.

mod stripes;

use crate::Limits;
use crate::range;
use std::ops::Range;
pub use stripes::striped;

/// Parameters of a plan.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct PlanConfig {
    /// Shares to cut the work into; at least 1.
    pub connections: usize,
    /// A gap is read over only if it is at most this fraction of the smaller of its neighbours.
    /// 0.05 by default: the bytes fetched stay below 1.25 times the wanted bytes even for the worst
    /// input, and below 1.05 times for ordinary ones.
    pub waste: f64,
    /// A range is not cut into pieces smaller than this, in bytes. One segment of TCP by default:
    /// less cannot arrive sooner.
    pub min_cut_bytes: u64,
}

impl Default for PlanConfig {
    fn default() -> Self {
        Self { connections: 1, waste: 0.05, min_cut_bytes: 1448 }
    }
}

impl PlanConfig {
    /// The default for a number of connections.
    #[must_use]
    pub fn for_connections(connections: usize) -> Self {
        Self { connections: connections.max(1), ..Self::default() }
    }

    /// The default for about `connections` connections, at most `cap`: where the limits need more
    /// requests than that, a number that gives every connection equally many. Twelve
    /// requests on eight connections would leave four of them, with windows grown for an eighth of
    /// the path, to carry the last third of the work.
    #[must_use]
    pub fn balanced(
        wanted: &[Range<u64>],
        limits: &Limits,
        connections: usize,
        cap: usize,
    ) -> Self {
        let needed = fewest_requests(wanted, limits);
        let connections = connections.max(1);
        if needed <= connections {
            return Self::for_connections(connections);
        }
        // Rounds to the nearest: half as many connections again are better than another turn,
        // because turns leave gaps.
        let turns = (2 * needed - connections).div_ceil(2 * connections);
        let even = needed.div_ceil(turns);
        Self::for_connections(if even <= cap { even } else { connections })
    }
}

/// Requests that together cover the wanted ranges.
///
/// Invariant: all ranges of all requests are disjoint and ascending, and every request keeps the
/// limits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// The requests, each a list of ascending ranges.
    pub requests: Vec<Vec<Range<u64>>>,
}

impl Plan {
    /// Plans `wanted`: any order, overlaps, duplicates and empty ranges allowed.
    #[must_use]
    pub fn new(wanted: &[Range<u64>], limits: &Limits, config: &PlanConfig) -> Self {
        let ranges = read_over(wanted, limits, config.waste);
        let mut distributor = RangeDistributor::new(&ranges, limits, config);
        for range in ranges {
            distributor.assign(range);
        }
        Self { requests: distributor.finish() }
    }

    /// Bytes that the plan fetches.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.requests.iter().map(|ranges| range::total_bytes(ranges)).fold(0, u64::saturating_add)
    }

    /// Every range of every request, ascending.
    pub fn ranges(&self) -> impl Iterator<Item = &Range<u64>> {
        self.requests.iter().flatten()
    }
}

/// The ranges of requests for `wanted` before they are cut, including the gaps that cost less than
/// another range. No gap is read over with a `waste` of 0 ([`PlanConfig::waste`]).
#[must_use]
pub fn read_over(wanted: &[Range<u64>], limits: &Limits, waste: f64) -> Vec<Range<u64>> {
    let waste = if limits.is_single() && waste > 0.0 { f64::INFINITY } else { waste };
    merge(&range::merged(wanted, 0), limits.range_cost_bytes, waste)
}

/// The fewest requests that `limits` allow for `wanted`, in any order; gaps are not read over.
#[must_use]
pub fn fewest_requests(wanted: &[Range<u64>], limits: &Limits) -> usize {
    min_requests(&range::merged(wanted, 0), limits).0
}

/// The gaps between `ranges`, sorted and disjoint, that cost less to read over than one more range
/// does, for callers that keep those bytes: at most 64 KiB each.
#[must_use]
pub fn gaps_worth_reading(ranges: &[Range<u64>], limits: &Limits) -> Vec<Range<u64>> {
    let cost = limits.range_cost_bytes.min(MAX_KEPT_GAP_BYTES);
    let limits = Limits { range_cost_bytes: cost, ..*limits };
    range::difference(&read_over(ranges, &limits, PlanConfig::default().waste), ranges)
}

/// Half a cell of the cache, so that no cell holds only bytes of gaps.
const MAX_KEPT_GAP_BYTES: u64 = 64 << 10;

/// Reads over gaps of up to `gap_bytes` that are small compared with both neighbours. A stack
/// suffices for the fixed point: only the last range ever grows, and each time it does, its left
/// neighbour is checked again.
fn merge(sorted: &[Range<u64>], gap_bytes: u64, waste: f64) -> Vec<Range<u64>> {
    #[expect(clippy::cast_precision_loss, reason = "a threshold; gaps are small")]
    let small = |left: &Range<u64>, right: &Range<u64>| {
        let gap = right.start - left.end;
        gap <= gap_bytes && gap as f64 <= waste * range::len(left).min(range::len(right)) as f64
    };
    let mut stack: Vec<Range<u64>> = Vec::with_capacity(sorted.len());
    for range in sorted {
        stack.push(range.clone());
        while let [.., left, right] = stack.as_mut_slice() {
            if !small(left, right) {
                break;
            }
            left.end = right.end;
            stack.pop();
        }
    }
    stack
}

/// The unit of equal shares: bytes, or where a limit needs more requests than there are
/// connections, whatever it limits, because some requests with equal bytes would exceed that limit,
/// and each of these would need one more request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Measure {
    Bytes,
    Text,
    Ranges,
}

impl Measure {
    fn of(self, range: &Range<u64>) -> u64 {
        match self {
            Self::Bytes => range::len(range),
            Self::Text => Limits::range_text_bytes(range) as u64,
            Self::Ranges => 1,
        }
    }
}

/// Fewest requests that the limits allow, and the limit that requires them.
fn min_requests(ranges: &[Range<u64>], limits: &Limits) -> (usize, Measure) {
    let text: usize = ranges.iter().map(Limits::range_text_bytes).sum();
    let by_bytes = range::total_bytes(ranges).div_ceil(limits.max_total_bytes.max(1));
    [
        (usize::try_from(by_bytes).unwrap_or(usize::MAX), Measure::Bytes),
        (text.div_ceil(limits.max_header_bytes.max(1)), Measure::Text),
        (ranges.len().div_ceil(limits.max_ranges.max(1)), Measure::Ranges),
    ]
    .into_iter()
    .max_by_key(|&(requests, _)| requests)
    .unwrap_or((1, Measure::Bytes))
}

/// Cuts a run of ranges into requests.
struct RangeDistributor<'a> {
    limits: &'a Limits,
    min_cut_bytes: u64,
    measure: Measure,
    shares: usize,
    /// Of all that is to be assigned.
    total: u64,
    assigned: u64,
    requests: Vec<Vec<Range<u64>>>,
    open: Vec<Range<u64>>,
    open_bytes: u64,
    open_text: usize,
}

impl<'a> RangeDistributor<'a> {
    fn new(ranges: &[Range<u64>], limits: &'a Limits, config: &PlanConfig) -> Self {
        let connections = config.connections.max(1);
        let (needed, binding) = min_requests(ranges, limits);
        // Equal shares of bytes would exceed a limit that is nearly reached, too.
        let limits_rule = needed > 1 && needed + needed / 8 >= connections;
        let (measure, shares) =
            if limits_rule { (binding, needed) } else { (Measure::Bytes, connections) };
        Self {
            limits,
            min_cut_bytes: config.min_cut_bytes.max(1),
            measure,
            shares,
            total: ranges.iter().map(|range| measure.of(range)).fold(0, u64::saturating_add),
            assigned: 0,
            requests: Vec::new(),
            open: Vec::new(),
            open_bytes: 0,
            open_text: 0,
        }
    }

    fn assign(&mut self, mut range: Range<u64>) {
        while range.start < range.end {
            let take = self.take_bytes(range::len(&range));
            let piece = range.start..range.start + take;
            let text = Limits::range_text_bytes(&piece);
            let full = take == 0
                || self.open.len() >= self.limits.max_ranges.max(1)
                || self.open_text + text > self.limits.max_header_bytes;
            if full && !self.open.is_empty() {
                self.close();
                continue;
            }
            range.start = piece.end;
            self.open_text += text;
            self.open_bytes += take;
            self.assigned = self.assigned.saturating_add(self.measure.of(&piece));
            self.open.push(piece);
            if self.share_room() == 0 {
                self.close();
            }
        }
    }

    /// Bytes of a range of `len` bytes that go into the open request; 0 only if that is not empty.
    fn take_bytes(&self, len: u64) -> u64 {
        let hard = self.limits.max_range_bytes.max(1);
        let hard = hard.min(self.limits.max_total_bytes.max(1).saturating_sub(self.open_bytes));
        let share = match self.measure {
            Measure::Bytes => self.share_room(),
            Measure::Text | Measure::Ranges => u64::MAX,
        };
        let wanted = if share >= len {
            len
        } else if share >= self.min_cut_bytes && len - share >= self.min_cut_bytes {
            share
        } else if share >= len / 2 || self.open.is_empty() {
            // A tiny piece on either side of a cut would cost a range and save nothing; the next
            // share compensates for it.
            len
        } else {
            0
        };
        wanted.min(hard)
    }

    /// Rest of the open share. Its end is counted from the start of all shares, so the next share
    /// is smaller by the excess of this one, and shares by bytes never outnumber the connections.
    fn share_room(&self) -> u64 {
        let done = (self.requests.len() + 1).min(self.shares) as u128;
        let end = (u128::from(self.total) * done).div_ceil(self.shares as u128);
        u64::try_from(end).unwrap_or(u64::MAX).saturating_sub(self.assigned)
    }

    fn close(&mut self) {
        if !self.open.is_empty() {
            self.requests.push(std::mem::take(&mut self.open));
        }
        self.open_bytes = 0;
        self.open_text = 0;
    }

    fn finish(mut self) -> Vec<Vec<Range<u64>>> {
        self.close();
        self.requests
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn limits(
        max_ranges: usize,
        max_header_bytes: usize,
        max_range: u64,
        max_total: u64,
    ) -> Limits {
        Limits {
            max_ranges,
            max_header_bytes,
            max_range_bytes: max_range,
            max_total_bytes: max_total,
            range_cost_bytes: 120,
        }
    }

    fn any_ranges() -> impl Strategy<Value = Vec<Range<u64>>> {
        let one = prop_oneof![
            4 => (0u64..50_000, 0u64..200),
            2 => (0u64..1_000_000, 0u64..20_000),
            1 => (0u64..100, 0u64..1),
            1 => (u64::MAX - 5000..u64::MAX, 0u64..2000),
        ]
        .prop_map(|(start, n)| start..start.saturating_add(n));
        prop::collection::vec(one, 0..120)
    }

    fn any_limits() -> impl Strategy<Value = Limits> {
        (1usize..50, 64usize..2000, 200u64..100_000, 200u64..1_000_000)
            .prop_map(|(ranges, header, range, total)| limits(ranges, header, range, total))
    }

    /// Cost of a request in the planner's model: bytes fetched plus framing.
    fn cost(ranges: &[Range<u64>], limits: &Limits) -> u64 {
        range::total_bytes(ranges).saturating_add(ranges.len() as u64 * limits.range_cost_bytes)
    }

    proptest! {
        #[test]
        fn every_wanted_byte_is_covered_once(wanted in any_ranges(), l in any_limits(), connections in 1usize..70) {
            let plan = Plan::new(&wanted, &l, &PlanConfig::for_connections(connections));
            let fetched: Vec<_> = plan.ranges().cloned().collect();
            prop_assert!(range::difference(&range::merged(&wanted, 0), &range::merged(&fetched, 0)).is_empty());
            prop_assert!(fetched.windows(2).all(|w| w[0].end <= w[1].start), "overlap or disorder");
            prop_assert!(fetched.iter().all(|r| r.start < r.end));
        }

        #[test]
        fn no_request_exceeds_a_limit(wanted in any_ranges(), l in any_limits(), connections in 1usize..70) {
            for request in Plan::new(&wanted, &l, &PlanConfig::for_connections(connections)).requests {
                prop_assert!(!request.is_empty() && request.len() <= l.max_ranges);
                let text: usize = request.iter().map(Limits::range_text_bytes).sum();
                prop_assert!(text <= l.max_header_bytes);
                prop_assert!(request.iter().all(|r| range::len(r) <= l.max_range_bytes));
                prop_assert!(range::total_bytes(&request) <= l.max_total_bytes);
            }
        }

        #[test]
        fn waste_stays_below_a_quarter(wanted in any_ranges(), connections in 1usize..70) {
            let plan = Plan::new(&wanted, &Limits { range_cost_bytes: 120, ..Limits::unlimited() }, &PlanConfig::for_connections(connections));
            let useful = range::total_bytes(&range::merged(&wanted, 0));
            prop_assert!(plan.bytes() * 4 <= useful.saturating_mul(5));
        }

        #[test]
        fn single_ranges_cost_no_more_than_all_or_none_of_the_gaps(wanted in any_ranges(), price in 0u64..10_000) {
            let l = Limits { max_ranges: 1, range_cost_bytes: price, ..Limits::unlimited() };
            let plain = range::merged(&wanted, 0);
            let joined = read_over(&wanted, &l, PlanConfig::default().waste);
            prop_assert!(cost(&joined, &l) <= cost(&plain, &l));
            if let (Some(first), Some(last)) = (plain.first(), plain.last()) {
                prop_assert!(cost(&joined, &l) <= cost(&[first.start..last.end], &l));
            }
            prop_assert!(joined.windows(2).all(|two| two[1].start - two[0].end > price));
            prop_assert_eq!(read_over(&wanted, &l, 0.0), plain);
        }

        #[test]
        fn order_and_duplicates_do_not_matter(wanted in any_ranges(), l in any_limits(), connections in 1usize..70) {
            let config = PlanConfig::for_connections(connections);
            let mut shuffled: Vec<_> = wanted.iter().rev().cloned().collect();
            shuffled.extend(wanted.iter().step_by(2).cloned());
            prop_assert_eq!(Plan::new(&wanted, &l, &config), Plan::new(&shuffled, &l, &config));
        }

        #[test]
        fn planning_a_plan_changes_nothing(wanted in any_ranges(), l in any_limits(), connections in 1usize..70) {
            let config = PlanConfig::for_connections(connections);
            let plan = Plan::new(&wanted, &l, &config);
            let again: Vec<_> = plan.ranges().cloned().collect();
            prop_assert_eq!(Plan::new(&again, &l, &config), plan);
        }

        #[test]
        fn merging_never_takes_longer_than_not_merging(wanted in any_ranges()) {
            let l = Limits { range_cost_bytes: 120, ..Limits::unlimited() };
            let plain = range::merged(&wanted, 0);
            let merged = merge(&plain, 120, 0.05);
            prop_assert!(cost(&merged, &l) <= cost(&plain, &l));
        }
    }

    #[test]
    fn one_large_range_is_striped_over_the_connections() {
        let plan =
            Plan::new(&[1000..1_191_087], &Limits::unlimited(), &PlanConfig::for_connections(64));
        assert_eq!(plan.requests.len(), 64);
        assert!(plan.requests.iter().all(|r| r.len() == 1 && range::len(&r[0]) <= 18_596));
    }

    #[test]
    fn requests_are_spread_evenly_over_connections() {
        let baskets: Vec<_> = (0..4880u64).map(|i| i * 56_000..i * 56_000 + 1395).collect();
        let nginx = limits(10_000, 8_100, u64::MAX, u64::MAX);
        let connections =
            |connections, cap| PlanConfig::balanced(&baskets, &nginx, connections, cap).connections;
        assert_eq!([connections(1, 64), connections(2, 64), connections(3, 64)], [1, 2, 3]);
        assert_eq!([connections(5, 64), connections(8, 64), connections(64, 64)], [6, 12, 64]);
        assert_eq!([connections(1, 1), connections(2, 2), connections(8, 8)], [1, 2, 8]);
    }

    #[test]
    fn scattered_baskets_make_one_request_per_connection() {
        let baskets: Vec<_> = (0..4880u64).map(|i| i * 56_000..i * 56_000 + 1395).collect();
        let plan = Plan::new(
            &baskets,
            &limits(10_000, 7_900, u64::MAX, u64::MAX),
            &PlanConfig::for_connections(64),
        );
        assert_eq!(plan.requests.len(), 64);
        let plan = Plan::new(
            &baskets,
            &limits(10_000, 7_900, u64::MAX, u64::MAX),
            &PlanConfig::for_connections(1),
        );
        assert_eq!(plan.requests.len(), 12);
    }
}
