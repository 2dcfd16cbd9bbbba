//! The parts of a request that the mock server needs.

use std::ops::Range;

/// The head of a request.
#[derive(Debug, Clone, Default)]
pub(super) struct ReceivedRequest {
    pub(super) method: String,
    pub(super) target: String,
    pub(super) ranges: Option<String>,
    pub(super) if_range: Option<String>,
    pub(super) accept: Option<String>,
    pub(super) authorization: Option<String>,
    pub(super) body_bytes: usize,
}

impl ReceivedRequest {
    /// Parses a head that ends with an empty line; missing fields are empty.
    pub(super) fn parse(head: &[u8]) -> Self {
        let text = String::from_utf8_lossy(head);
        let mut lines = text.lines();
        let mut words = lines.next().unwrap_or_default().split(' ').map(str::to_owned);
        let mut question = Self {
            method: words.next().unwrap_or_default(),
            target: words.next().unwrap_or_default(),
            ..Self::default()
        };
        for (name, value) in lines.filter_map(|line| line.split_once(':')) {
            let value = value.trim().to_owned();
            match name.to_ascii_lowercase().as_str() {
                "range" => question.ranges = value.strip_prefix("bytes=").map(str::to_owned),
                "accept" => question.accept = Some(value),
                "authorization" => question.authorization = Some(value),
                "content-length" => question.body_bytes = value.parse().unwrap_or_default(),
                "if-range" => question.if_range = Some(value),
                _ => {}
            }
        }
        question
    }

    /// The requested ranges in their order, in a file of `size` bytes; ranges beyond it are
    /// omitted.
    pub(super) fn within(&self, size: u64, suffixes: bool) -> Vec<Range<u64>> {
        let specs = self.ranges.iter().flat_map(|ranges| ranges.split(','));
        let ranges = specs.filter_map(|spec| {
            let (first, last) = spec.trim().split_once('-')?;
            if first.is_empty() {
                let tail: u64 = last.parse().ok()?;
                return suffixes.then(|| size.saturating_sub(tail)..size);
            }
            let end =
                if last.is_empty() { size } else { last.parse::<u64>().ok()?.checked_add(1)? };
            Some(first.parse().ok()?..end.min(size))
        });
        ranges.filter(|range| range.start < range.end).collect()
    }

    pub(super) fn has_suffix(&self) -> bool {
        let mut specs = self.ranges.iter().flat_map(|ranges| ranges.split(','));
        specs.any(|spec| spec.trim().starts_with('-'))
    }

    pub(super) fn accepts(&self, media: &str) -> bool {
        self.accept.as_ref().is_some_and(|accept| accept.contains(media))
    }

    /// Bytes of the value of `Range`, without `bytes=`.
    pub(super) fn header_bytes(&self) -> usize {
        self.ranges.as_ref().map_or(0, String::len)
    }

    pub(super) fn ranges_asked(&self) -> usize {
        self.ranges.iter().flat_map(|ranges| ranges.split(',')).count()
    }
}
