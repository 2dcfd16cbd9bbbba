//! QUERY (RFC 10008) with a list of ranges; [`hither_http::vector`] describes request and response.
//! A query of a tree goes to [`tree`].

use crate::authorization::authorizer::Action;
use crate::context::ServerContext;
use crate::http_error::HttpError;
use crate::method::{get, tree};
use crate::request::ServerRequest;
use crate::response::ServerResponse;
use crate::response::accept_query;
use crate::response::range_encoder::RangeFormat;
use hither_http::conditions::{ConditionResult, evaluate};
use hither_http::tree::QUERY_TYPE;
use hither_http::vector::{ACCEPT_QUERY, FRAMES_TYPE, RANGES_TYPE, RangeList, RangeListError};
use http::{StatusCode, header};
use std::ops::Range;
use std::sync::Arc;

const PARTS_TYPE: &str = "multipart/byteranges";

/// The form of the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Frames,
    Parts,
}

pub(crate) async fn handle(
    context: &Arc<ServerContext>,
    mut request: ServerRequest,
) -> Result<ServerResponse, HttpError> {
    context.authorize(&request, &request.path, Action::Read)?;
    let kind = request.text(header::CONTENT_TYPE);
    if kind.is_some_and(|kind| essence(kind).eq_ignore_ascii_case(QUERY_TYPE)) {
        return tree::query(context, request).await;
    }
    check_type(request.text(header::CONTENT_TYPE))?;
    let format = accepted_format(request.text(header::ACCEPT)).ok_or_else(|| {
        let what =
            format!("the response can be {FRAMES_TYPE} or {PARTS_TYPE}, and Accept allows neither");
        HttpError::new(StatusCode::NOT_ACCEPTABLE, what)
    })?;
    let max = context.limits().ranges;
    let list = request.body.collect(RangeList::max_bytes(max)).await?;
    let list = RangeList::decode(&list, max).map_err(|error| {
        let status = match error {
            RangeListError::TooMany { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            _ => StatusCode::BAD_REQUEST,
        };
        HttpError::new(status, error.to_string())
    })?;
    let memory = &request.peer.memory;
    let path = &request.path;
    let reader = context.open(&request).await?;
    if reader.metadata().is_directory() || path.is_directory() {
        return Err(HttpError::not_found());
    }
    let version = &reader.metadata().version;
    let size = reader.metadata().open_bytes();
    let mut answer = match evaluate(&request.headers, Some(version), true) {
        ConditionResult::Failed => return Err(HttpError::precondition_failed()),
        ConditionResult::NotModified => ServerResponse::empty(StatusCode::NOT_MODIFIED),
        ConditionResult::Proceed => {
            let ranges = within(list, size);
            match format {
                Format::Frames => {
                    let form = RangeFormat::Frames { size };
                    let ranges = merged(ranges);
                    let answer = get::send(context, memory, &reader, StatusCode::OK, form, ranges);
                    answer.with(header::CONTENT_TYPE, FRAMES_TYPE)
                }
                Format::Parts => {
                    check_parts(&ranges, size)?;
                    get::parts(context, memory, &reader, StatusCode::OK, path, ranges)
                }
            }
        }
    };
    get::describe(&mut answer, version);
    answer.set(header::VARY, "accept");
    Ok(answer)
}

fn check_type(kind: Option<&str>) -> Result<(), HttpError> {
    let Some(kind) = kind else {
        let what = "the request has no Content-Type";
        return Err(HttpError::new(StatusCode::BAD_REQUEST, what));
    };
    if essence(kind).eq_ignore_ascii_case(RANGES_TYPE) {
        Ok(())
    } else {
        let what = format!("Content-Type is {:?}, expected {RANGES_TYPE}", essence(kind));
        Err(HttpError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, what)
            .with(ACCEPT_QUERY, &accept_query()))
    }
}

/// A media type without its parameters.
pub(crate) fn essence(kind: &str) -> &str {
    kind.split(';').next().unwrap_or_default().trim()
}

/// The form that an `Accept` field allows: a form that it names before one that it does not
/// exclude, frames before parts.
fn accepted_format(accept: Option<&str>) -> Option<Format> {
    let Some(accept) = accept else { return Some(Format::Frames) };
    let named = |kind: &str| {
        let mut items = accept.split(',').filter(|item| !is_excluded(item)).map(essence);
        items.any(|item| item.eq_ignore_ascii_case(kind))
    };
    if named(FRAMES_TYPE) {
        return Some(Format::Frames);
    }
    if named(PARTS_TYPE) || named("multipart/*") {
        return Some(Format::Parts);
    }
    (named("*/*") || named("application/*")).then_some(Format::Frames)
}

/// Returns true if an item has the weight 0.
fn is_excluded(item: &str) -> bool {
    let weight = item.split(';').skip(1).find_map(|parameter| parameter.trim().strip_prefix("q="));
    weight.and_then(|weight| weight.trim().parse::<f32>().ok()).is_some_and(|weight| weight <= 0.0)
}

/// The parts of the ranges that lie within a file of `size` bytes.
fn within(list: RangeList, size: u64) -> Vec<Range<u64>> {
    let tail = (list.tail > 0).then(|| size.saturating_sub(list.tail)..size);
    let ranges = list.ranges.into_iter().chain(tail);
    ranges.map(|range| range.start..range.end.min(size)).filter(|r| r.start < r.end).collect()
}

/// The ranges in the order of the file, merged where they touch or overlap: every byte once.
fn merged(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_unstable_by_key(|range| range.start);
    ranges.dedup_by(|next, last| {
        let touch = next.start <= last.end;
        if touch {
            last.end = last.end.max(next.end);
        }
        touch
    });
    ranges
}

/// Fails if there is no range, or if the ranges add up to more than twice the file. Parts are sent
/// as they were requested, so bytes in which they overlap are sent again.
fn check_parts(ranges: &[Range<u64>], size: u64) -> Result<(), HttpError> {
    let bytes = ranges.iter().try_fold(0u64, |sum, range| sum.checked_add(range.end - range.start));
    if ranges.is_empty() {
        return Err(HttpError::new(
            StatusCode::RANGE_NOT_SATISFIABLE,
            format!("no range lies within the {size} bytes of the file"),
        )
        .with(header::CONTENT_RANGE, &format!("bytes */{size}")));
    }
    if bytes.is_none_or(|bytes| bytes > size.saturating_mul(2)) {
        let what = "the ranges add up to more than twice the file: request frames, or fewer bytes";
        return Err(HttpError::new(StatusCode::UNPROCESSABLE_ENTITY, what));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn formats_that_are_named_come_before_those_of_wildcards() {
        for (accept, expected) in [
            (None, Some(Format::Frames)),
            (Some("*/*"), Some(Format::Frames)),
            (Some("multipart/byteranges, */*;q=0.1"), Some(Format::Parts)),
            (Some("application/vnd.hither.frames.v1, multipart/byteranges"), Some(Format::Frames)),
            (Some("application/vnd.hither.frames.v1;q=0, multipart/*"), Some(Format::Parts)),
            (Some("text/html"), None),
        ] {
            assert_eq!(accepted_format(accept), expected, "{accept:?}");
        }
    }

    proptest! {
        #[test]
        fn every_byte_is_sent_once(list in prop::collection::vec((0..200u64, 1..30u64), 0..20), tail in 0..40u64) {
            let ranges: Vec<_> = list.into_iter().map(|(start, len)| start..start + len).collect();
            let wanted = |byte: u64| {
                byte < 150 && (ranges.iter().any(|range| range.contains(&byte)) || byte + tail >= 150)
            };
            let sent = merged(within(RangeList { ranges: ranges.clone(), tail }, 150));
            for byte in 0..250 {
                let times = sent.iter().filter(|range| range.contains(&byte)).count();
                prop_assert_eq!(times, usize::from(wanted(byte)), "byte {}", byte);
            }
            prop_assert!(sent.is_sorted_by(|a, b| a.end < b.start));
        }
    }
}
