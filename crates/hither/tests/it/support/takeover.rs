//! Requests of which another connection has taken over the later half: on a busy machine a response
//! may be slow. The connection of the slow one ends when its first half is there.

use hither_testkit::mock_http::LoggedRequest;

/// The request that has taken over part of the request at this position; of several, the one with
/// most bytes.
pub(crate) fn of(log: &[LoggedRequest], slow: usize) -> Option<&LoggedRequest> {
    let later = log.get(slow + 1..)?;
    let slow = log.get(slow)?;
    if later.iter().any(|it| it.connection == slow.connection) {
        return None;
    }
    let takes = |fast: &&LoggedRequest| {
        let (slow, fast) = (positions(slow), positions(fast));
        let is_within = |it: &(u64, u64)| slow.iter().any(|of| of.0 <= it.0 && it.1 <= of.1);
        let is_later = fast.first().zip(slow.first()).is_some_and(|(fast, slow)| fast.0 > slow.0);
        let ends = [&fast, &slow].map(|it| it.last().map(|last| last.1));
        fast.iter().all(is_within) && is_later && ends[0] == ends[1]
    };
    later.iter().filter(takes).max_by_key(|fast| fast.payload_bytes)
}

/// The ranges of a request by position, first and last byte.
fn positions(logged: &LoggedRequest) -> Vec<(u64, u64)> {
    let ranges = logged.ranges.as_deref().unwrap_or_default().split(',');
    let position = |range: &str| {
        let (first, last) = range.split_once('-')?;
        Some((first.parse().ok()?, last.parse().ok()?))
    };
    ranges.filter_map(position).collect()
}
