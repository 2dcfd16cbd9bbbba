//! GET and HEAD (RFC 9110): files whole and in ranges, directories as pages.

use crate::answer::Answer;
use crate::files::place::Place;
use crate::files::tree::{Found, Kind};
use crate::method::page;
use crate::refusal::Refusal;
use crate::replicas;
use crate::rights::authorizer::Action;
use crate::sending::body::{Body, Supplied};
use crate::sending::pieces::{Form, Pieces};
use crate::site::{Call, Site, accept_query};
use hither_http::byteranges::Byteranges;
use hither_http::conditions::{Verdict, Version, evaluate, range_counts};
use hither_http::range_set;
use hither_http::vector::ACCEPT_QUERY;
use http::header::HeaderMap;
use http::{Method, StatusCode, header};
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::time::SystemTime;

pub(crate) async fn answer(site: &Site, call: &Call) -> Result<Answer, Refusal> {
    site.allow(call, &call.place, Action::Read)?;
    if let Some(document) = replicas::document(site, call).await? {
        return Ok(document);
    }
    let found = site.disk.find(call.place.path()).await?;
    if found.meta.kind == Kind::Directory {
        return directory(site, call).await;
    }
    if call.place.is_directory() {
        return Err(Refusal::not_found());
    }
    let now = SystemTime::now();
    let version = found.meta.version(now);
    match evaluate(&call.headers, Some(&version), true) {
        Verdict::Failed => return Err(Refusal::failed_precondition()),
        Verdict::NotModified => {
            let mut answer = Answer::empty(StatusCode::NOT_MODIFIED);
            describe(&mut answer, &version);
            return Ok(answer);
        }
        Verdict::Proceed => {}
    }
    let size = found.meta.size;
    let is_get = call.method == Method::GET;
    let chosen = match is_get && range_counts(&call.headers, &version, now) {
        true => choose(&call.headers, size, site.limits().ranges)?,
        false => Chosen::Whole,
    };
    let kind = media_type(call.place.path());
    let sums = site.sums.wanted(site, call, &found).await;
    let mut elsewhere = Answer::empty(StatusCode::OK);
    site.rules().replicas.announce(&mut elsewhere, &call.place, &found);
    let mut answer = match chosen {
        Chosen::Whole => {
            let all = if size > 0 { vec![0..size] } else { Vec::new() };
            send(site, found, StatusCode::OK, Form::Plain, all)
        }
        Chosen::One(range) => {
            let field = format!("bytes {}-{}/{size}", range.start, range.end - 1);
            let answer = send(site, found, StatusCode::PARTIAL_CONTENT, Form::Plain, vec![range]);
            answer.with(header::CONTENT_RANGE, &field)
        }
        Chosen::Several(ranges) => {
            parts(site, found, StatusCode::PARTIAL_CONTENT, &call.place, ranges)
        }
    };
    if !answer.headers.contains_key(header::CONTENT_TYPE) {
        answer.set(header::CONTENT_TYPE, kind);
    }
    answer.body.by(call.peer.shortcut.as_ref());
    describe(&mut answer, &version);
    answer.headers.extend(elsewhere.headers);
    answer.headers.extend(sums);
    if !is_get {
        answer.set(header::CONTENT_LENGTH, &size.to_string());
        answer.body = Body::Empty;
        answer.ranges = None;
    }
    Ok(answer)
}

/// What every answer about a file says of it.
pub(crate) fn describe(answer: &mut Answer, version: &Version) {
    answer.set(header::ETAG, &version.etag);
    // A date that the next change may have as well is no help to anybody.
    if version.etag.starts_with('"') {
        answer.set(header::LAST_MODIFIED, &httpdate::fmt_http_date(version.modified));
    }
    answer.set(header::ACCEPT_RANGES, "bytes");
    answer.set(ACCEPT_QUERY, &accept_query());
    answer.set(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
}

/// An answer with bytes of a file.
pub(crate) fn send(
    site: &Site,
    found: Found,
    status: StatusCode,
    form: Form,
    ranges: Vec<Range<u64>>,
) -> Answer {
    let count = ranges.len();
    let pieces = Pieces::new(found.file, form, ranges, site.limits().block_bytes);
    let length = pieces.total_bytes();
    let mut answer = Answer::empty(status);
    answer.ranges = Some(count);
    answer.body = Body::Supplied(Supplied::new(Box::new(pieces), Some(length), &site.memory));
    answer
}

/// An answer with several ranges as parts.
pub(crate) fn parts(
    site: &Site,
    found: Found,
    status: StatusCode,
    place: &Place,
    ranges: Vec<Range<u64>>,
) -> Answer {
    let boundary = RandomState::new().hash_one(());
    let parts = Byteranges::new(boundary, media_type(place.path()), found.meta.size);
    let kind = parts.content_type();
    send(site, found, status, Form::Parts(parts), ranges).with(header::CONTENT_TYPE, &kind)
}

/// What of a file is sent.
#[derive(Debug, PartialEq, Eq)]
enum Chosen {
    Whole,
    One(Range<u64>),
    Several(Vec<Range<u64>>),
}

/// What a `Range` field chooses of a file of `size` bytes. Ranges that together are more than the file are answered with the
/// file: so many bytes were asked for more than once.
fn choose(headers: &HeaderMap, size: u64, most: usize) -> Result<Chosen, Refusal> {
    let Some(field) = headers.get(header::RANGE) else { return Ok(Chosen::Whole) };
    let unsatisfied = |what: String| {
        Refusal::new(StatusCode::RANGE_NOT_SATISFIABLE, what)
            .with(header::CONTENT_RANGE, &format!("bytes */{size}"))
    };
    let asked = match range_set::parse(field.as_bytes(), most) {
        Ok(Some(asked)) => asked,
        Ok(None) => return Ok(Chosen::Whole),
        Err(error) => return Err(unsatisfied(error.to_string())),
    };
    let mut ranges: Vec<_> = asked.iter().filter_map(|asked| asked.within(size)).collect();
    let bytes = ranges.iter().try_fold(0u64, |sum, range| sum.checked_add(range.end - range.start));
    match ranges.len() {
        0 => Err(unsatisfied(format!("the file has {size} bytes: no range lies in it"))),
        1 => Ok(ranges.pop().map_or(Chosen::Whole, Chosen::One)),
        _ if bytes.is_none_or(|bytes| bytes > size) => Ok(Chosen::Whole),
        _ => Ok(Chosen::Several(ranges)),
    }
}

async fn directory(site: &Site, call: &Call) -> Result<Answer, Refusal> {
    if !call.place.is_directory() {
        let there = call.place.href(true);
        let what = format!("the directory is at {there}");
        return Err(
            Refusal::new(StatusCode::MOVED_PERMANENTLY, what).with(header::LOCATION, &there)
        );
    }
    page::answer(site, call).await
}

/// The type of a file by its name: what browsers may show without running it, else just bytes.
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
    fn ranges_are_chosen_as_http_says() {
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
