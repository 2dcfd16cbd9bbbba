//! GET and HEAD (RFC 9110): whole files, ranges of files, directories as pages.

use crate::authorization::authorizer::Action;
use crate::backend::path::NamespacePath;
use crate::backend::{Backend, ChecksumMode, FileRanges, FileReader};
use crate::context::ServerContext;
use crate::http_error::HttpError;
use crate::method::autoindex;
use crate::method::digest_fields;
use crate::method::metalink;
use crate::request::ServerRequest;
use crate::response::ServerResponse;
use crate::response::accept_query;
use crate::response::body::{BlockBody, ResponseBody};
use crate::response::buffer_pool::ConnectionMemory;
use crate::response::range_encoder::{RangeEncoder, RangeFormat};
use crate::response::streamed_ranges::StreamedRanges;
use hither_http::conditions::{ConditionResult, Version, evaluate, if_range_matches};
use hither_http::date::http_date;
use hither_http::multipart::writer::MultipartWriter;
use hither_http::range_set;
use hither_http::vector::ACCEPT_QUERY;
use http::header::HeaderMap;
use http::{Method, StatusCode, header};
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::sync::Arc;
use std::time::SystemTime;

pub(crate) async fn handle(
    context: &ServerContext,
    request: &ServerRequest,
) -> Result<ServerResponse, HttpError> {
    context.authorize(request, &request.path, Action::Read)?;
    if let Some(document) = metalink::document(context, request).await? {
        return Ok(document);
    }
    let is_get = request.method == Method::GET;
    let reader = if is_get {
        context.open(request).await?
    } else {
        context.follow(request, request.path.path(), Backend::open).await?
    };
    if reader.metadata().is_directory() {
        return directory(context, request).await;
    }
    if request.path.is_directory() {
        return Err(HttpError::not_found());
    }
    match evaluate(&request.headers, Some(&reader.metadata().version), true) {
        ConditionResult::Failed => return Err(HttpError::precondition_failed()),
        ConditionResult::NotModified => {
            let mut answer = ServerResponse::empty(StatusCode::NOT_MODIFIED);
            describe(&mut answer, &reader.metadata().version);
            return Ok(answer);
        }
        ConditionResult::Proceed => {}
    }
    let version = &reader.metadata().version;
    let chosen = if is_get && if_range_matches(&request.headers, version, SystemTime::now()) {
        choose(&request.headers, reader.metadata().open_bytes(), context.limits().ranges)?
    } else {
        Chosen::Whole
    };
    let kind = media_type(request.path.path());
    let (reader, sums) = with_checksums(context, request, reader).await?;
    let version = &reader.metadata().version;
    let size = reader.metadata().open_bytes();
    let mut elsewhere = ServerResponse::empty(StatusCode::OK);
    let replicas = Arc::clone(&context.settings().replicas);
    metalink::announce(&replicas, &mut elsewhere, &request.path, &*reader).await;
    let memory = &request.peer.memory;
    let mut answer = match chosen {
        Chosen::Whole => {
            let all = if size > 0 { vec![0..size] } else { Vec::new() };
            send(context, memory, &reader, StatusCode::OK, RangeFormat::Plain, all)
        }
        Chosen::One(range) => {
            let field = format!("bytes {}-{}/{size}", range.start, range.end - 1);
            let answer = send(
                context,
                memory,
                &reader,
                StatusCode::PARTIAL_CONTENT,
                RangeFormat::Plain,
                vec![range],
            );
            answer.with(header::CONTENT_RANGE, &field)
        }
        Chosen::Several(ranges) => {
            parts(context, memory, &reader, StatusCode::PARTIAL_CONTENT, &request.path, ranges)
        }
    };
    if !answer.headers.contains_key(header::CONTENT_TYPE) {
        answer.set(header::CONTENT_TYPE, kind);
    }
    describe(&mut answer, version);
    answer.headers.extend(elsewhere.headers);
    answer.headers.extend(sums);
    if !is_get {
        answer.set(header::CONTENT_LENGTH, &size.to_string());
        answer.body = ResponseBody::Empty;
        answer.ranges = None;
    }
    Ok(answer)
}

/// The fields with the checksums that a request asks for, and the file that it is answered about. A
/// file that changes while its checksum is computed for HEAD has none, and is opened again: a
/// client that has read it sees the change from the tag.
async fn with_checksums(
    context: &ServerContext,
    request: &ServerRequest,
    reader: Arc<dyn FileReader>,
) -> Result<(Arc<dyn FileReader>, HeaderMap), HttpError> {
    let is_head = request.method != Method::GET && digest_fields::is_wanted(&request.headers);
    let mode = match &context.tape {
        // A checksum that is not stored would stage the file from tape.
        Some(tape) if is_head => {
            let on_disk = tape.check_on_disk(request.path.path()).await.is_ok();
            if on_disk { ChecksumMode::Compute } else { ChecksumMode::Cached }
        }
        _ => ChecksumMode::Compute,
    };
    let sums = digest_fields::wanted(&*reader, &request.headers, mode).await;
    if !is_head || !sums.is_empty() || reader.is_current().await.unwrap_or(true) {
        return Ok((reader, sums));
    }
    let now = context.follow(request, request.path.path(), Backend::open).await?;
    Ok((if now.metadata().is_directory() { reader } else { now }, sums))
}

/// Sets the fields that every response about a file has.
pub(crate) fn describe(answer: &mut ServerResponse, version: &Version) {
    // A file that is relayed from another server has none.
    if !version.etag.is_empty() {
        answer.set(header::ETAG, &version.etag);
    }
    // A weak tag means that the next change may have the same date: then there is no date.
    if version.etag.starts_with('"')
        && let Some(date) = http_date(version.modified)
    {
        answer.set(header::LAST_MODIFIED, &date);
    }
    answer.set(header::ACCEPT_RANGES, "bytes");
    answer.set(ACCEPT_QUERY, &accept_query());
    answer.set(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
}

/// A response with ranges of a file.
pub(crate) fn send(
    context: &ServerContext,
    memory: &Arc<ConnectionMemory>,
    reader: &Arc<dyn FileReader>,
    status: StatusCode,
    form: RangeFormat,
    ranges: Vec<Range<u64>>,
) -> ServerResponse {
    let count = ranges.len();
    let max_block = context.limits().block_bytes;
    let block = memory.block_bytes(max_block);
    let body = match reader.ranges(&ranges) {
        FileRanges::Local(file) => {
            let encoder = RangeEncoder::new(file, form, ranges, block);
            let length = encoder.total_bytes();
            let body = BlockBody::new(Box::new(encoder), Some(length), memory, max_block);
            ResponseBody::Supplied(body)
        }
        FileRanges::Stream(pieces) => StreamedRanges {
            pieces,
            format: form,
            ranges,
            block: block as u64,
            memory: Arc::clone(memory),
        }
        .into_body(),
    };
    ServerResponse { body, ranges: Some(count), ..ServerResponse::empty(status) }
}

/// A response with several ranges as the parts of a multipart body.
pub(crate) fn parts(
    context: &ServerContext,
    memory: &Arc<ConnectionMemory>,
    reader: &Arc<dyn FileReader>,
    status: StatusCode,
    place: &NamespacePath,
    ranges: Vec<Range<u64>>,
) -> ServerResponse {
    let boundary = RandomState::new().hash_one(());
    let parts =
        MultipartWriter::new(boundary, media_type(place.path()), reader.metadata().open_bytes());
    let kind = parts.content_type();
    send(context, memory, reader, status, RangeFormat::Parts(parts), ranges)
        .with(header::CONTENT_TYPE, &kind)
}

/// The part of a file that a response has.
#[derive(Debug, PartialEq, Eq)]
enum Chosen {
    Whole,
    One(Range<u64>),
    Several(Vec<Range<u64>>),
}

/// Chooses the part of a file of `size` bytes that a `Range` field requests. Ranges that together
/// are longer than the file request some bytes more than once: the response is the whole file.
fn choose(headers: &HeaderMap, size: u64, most: usize) -> Result<Chosen, HttpError> {
    let Some(field) = headers.get(header::RANGE) else { return Ok(Chosen::Whole) };
    let unsatisfied = |what: String| {
        HttpError::new(StatusCode::RANGE_NOT_SATISFIABLE, what)
            .with(header::CONTENT_RANGE, &format!("bytes */{size}"))
    };
    let specs = match range_set::parse(field.as_bytes(), most) {
        Ok(Some(specs)) => specs,
        Ok(None) => return Ok(Chosen::Whole),
        Err(error) => return Err(unsatisfied(error.to_string())),
    };
    let mut ranges: Vec<_> = specs.iter().filter_map(|spec| spec.within(size)).collect();
    let bytes = ranges.iter().try_fold(0u64, |sum, range| sum.checked_add(range.end - range.start));
    match ranges.len() {
        0 => Err(unsatisfied(format!("no range lies within the {size} bytes of the file"))),
        1 => Ok(ranges.pop().map_or(Chosen::Whole, Chosen::One)),
        _ if bytes.is_none_or(|bytes| bytes > size) => Ok(Chosen::Whole),
        _ => Ok(Chosen::Several(ranges)),
    }
}

async fn directory(
    context: &ServerContext,
    request: &ServerRequest,
) -> Result<ServerResponse, HttpError> {
    if !request.path.is_directory() {
        let there = request.path.href(true);
        let what = format!("this is a directory, its URL is {there}");
        return Err(
            HttpError::new(StatusCode::MOVED_PERMANENTLY, what).with(header::LOCATION, &there)
        );
    }
    autoindex::handle(context, request).await
}

/// The media type of a file by its name. Only types that browsers show without running them are
/// named.
pub(crate) fn media_type(path: &str) -> &'static str {
    let extension = path.rsplit_once('.').map_or("", |(_, extension)| extension);
    match extension.to_ascii_lowercase().as_str() {
        "txt" | "log" | "md" | "csv" | "yaml" | "yml" | "toml" => "text/plain; charset=utf-8",
        "json" => "application/json",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "pdf" => "application/pdf",
        "root" => "application/x-root",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn chosen(field: &'static str, size: u64) -> Result<Chosen, StatusCode> {
        let headers = HeaderMap::from_iter([(header::RANGE, HeaderValue::from_static(field))]);
        choose(&headers, size, 4).map_err(|refusal| refusal.status)
    }

    #[test]
    fn ranges_are_chosen_by_the_rules_of_http() {
        use Chosen::{One, Several, Whole};
        let refused = Err(StatusCode::RANGE_NOT_SATISFIABLE);
        for (field, expected) in [
            ("bytes=0-9", Ok(One(0..10))),
            ("bytes=-10", Ok(One(90..100))),
            ("bytes=0-9,200-", Ok(One(0..10))),
            ("bytes=20-29,0-9", Ok(Several(vec![20..30, 0..10]))),
            ("bytes=0-9,0-9", Ok(Several(vec![0..10, 0..10]))),
            ("bytes=0-59,30-99", Ok(Whole)),
            ("bytes=9-0", Ok(Whole)),
            ("lines=0-9", Ok(Whole)),
            ("bytes=100-", refused),
            ("bytes=-0", Err(StatusCode::RANGE_NOT_SATISFIABLE)),
            ("bytes=0-0,1-1,2-2,3-3,4-4", Err(StatusCode::RANGE_NOT_SATISFIABLE)),
        ] {
            assert_eq!(chosen(field, 100), expected, "{field}");
        }
        assert_eq!(chosen("bytes=0-", 0), Err(StatusCode::RANGE_NOT_SATISFIABLE));
    }
}
