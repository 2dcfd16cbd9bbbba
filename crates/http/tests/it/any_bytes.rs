//! Properties that hold for any bytes: for the fuzz targets, and for the replay of their seeds.

use crate::parts;
use bytes::Bytes;
use hither_checksum::Algorithm;
use hither_http::conditions::{ConditionResult, Version, evaluate, if_range_matches};
use hither_http::if_header::IfHeader;
use hither_http::metalink::{self, LOWEST_PRIORITY, Metalink};
use hither_http::tree::{self, TreeQuery, TreeReader, TreeRecord, TreeWriter};
use hither_http::vector::RangeList;
use hither_http::vector::frames::{FrameEvent, FrameReader};
use hither_http::{
    ContentRange, MultipartReader, PelicanNamespace, digest, digests, object_list, pelican,
    propfind, range_set,
};
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{StatusCode, Uri};
use std::convert::Infallible;
use std::time::{Duration, UNIX_EPOCH};

/// A line with the boundary, then a body: the events do not depend on the pieces in which it is
/// fed.
pub(crate) fn multipart(data: &[u8]) {
    let (boundary, body) = match data.iter().position(|byte| *byte == b'\n') {
        Some(end) => (&data[..end], &data[end + 1..]),
        None => (&b"b"[..], data),
    };
    if MultipartReader::new(boundary).is_err() {
        return;
    }
    let (whole, ended) = parts::read(boundary, body, &[]);
    let cuts: Vec<usize> = (0..body.len()).step_by(1 + body.len() / 50).collect();
    assert_eq!(parts::read(boundary, body, &cuts), (whole, ended));
    // Nor is anything kept of what comes out: only text waits for its end.
    let mut parser = MultipartReader::new(boundary).unwrap();
    let mut piece = Bytes::copy_from_slice(body);
    while let Ok(Some(_)) = parser.next(&mut piece) {}
}

/// A document: what is read of it is within bounds, sorted and absolute.
pub(crate) fn metalink(data: &[u8]) {
    let bounds = metalink::MetalinkLimits::default();
    let Ok(metalink) = Metalink::parse(data, &bounds) else { return };
    assert!(metalink.files.len() <= bounds.max_files);
    for file in &metalink.files {
        assert!(file.replicas.len() <= bounds.max_replicas);
        assert!(file.replicas.is_sorted_by_key(|replica| replica.priority));
        assert!(metalink.file(&file.name).is_some());
        for replica in &file.replicas {
            assert!((1..=LOWEST_PRIORITY).contains(&replica.priority));
            assert!(replica.url.contains("://") && !replica.url.contains(['\n', ' ']));
        }
        for digest in &file.digests {
            assert_eq!(digest.value().len(), digest.algorithm().width());
        }
    }
}

/// A page of a list: what it holds is in the document.
pub(crate) fn object_list(data: &[u8]) {
    let Ok(page) = object_list::parse(data, 1 << 16) else { return };
    let keys = page.objects.iter().map(|object| &object.key).chain(&page.prefixes);
    assert!(keys.map(String::len).sum::<usize>() <= data.len());
    assert!(page.next.is_none_or(|token| !token.is_empty()));
}

/// A listing: names are below what was asked for.
pub(crate) fn propfind_response(data: &[u8]) {
    let asked = Uri::from_static("http://127.0.0.1:8471/data/");
    let Ok(found) = propfind::parse(data, &asked, &propfind::PropfindLimits::default()) else {
        return;
    };
    for resource in found {
        let mut names = resource.path.split('/');
        let is_name = |name: &str| !matches!(name, "" | "." | "..") && !name.contains('\0');
        assert!(resource.path.is_empty() || names.all(is_name), "{resource:?}");
    }
}

/// A list of ranges, or a `Range` field: parsed ranges are within bounds, and a list encodes to
/// itself.
pub(crate) fn range_request(data: &[u8]) {
    if let Ok(list) = RangeList::decode(data, 100) {
        assert!(
            list.ranges.len() <= 100 && list.ranges.iter().all(|range| range.start < range.end)
        );
        assert_eq!(RangeList::decode(&list.encode(), 100), Ok(list));
    }
    if let Ok(Some(asked)) = range_set::parse(data, 100) {
        assert!((1..=100).contains(&asked.len()));
        for range in asked.into_iter().filter_map(|asked| asked.within(1000)) {
            assert!(range.start < range.end && range.end <= 1000);
        }
    }
}

/// An answer in frames: what comes out lies in the file, and is the same however it was fed.
pub(crate) fn framed_response(data: &[u8]) {
    let read = |step: usize| {
        let (mut frames, mut size, mut bytes_at) = (FrameReader::default(), None, Vec::new());
        for piece in data.chunks(step) {
            let mut piece = Bytes::copy_from_slice(piece);
            loop {
                match frames.next(&mut piece) {
                    Ok(Some(FrameEvent::Size(told))) => size = Some(told),
                    Ok(Some(FrameEvent::Data { offset, bytes })) => {
                        assert!(offset + bytes.len() as u64 <= size.unwrap());
                        bytes_at.extend((offset..).zip(bytes));
                    }
                    Ok(None) => break,
                    Err(error) => return (size, bytes_at, Err(error)),
                }
            }
        }
        (size, bytes_at, frames.finish())
    };
    assert_eq!(read(1), read(data.len().max(1)));
}

/// A stream of records, or a query of a tree: paths lead nowhere else, the records do not depend on
/// the pieces in which they are fed, and a query encodes to itself.
pub(crate) fn tree(data: &[u8]) {
    let read = |step: usize| {
        let mut reader = TreeReader::default();
        let mut records = Vec::new();
        for piece in data.chunks(step) {
            let mut piece = Bytes::copy_from_slice(piece);
            loop {
                match reader.next(&mut piece) {
                    Ok(Some(TreeRecord::Content(entry, pieces))) => {
                        let content = Bytes::from(pieces.concat());
                        let pieces =
                            Some(content).filter(|it| !it.is_empty()).into_iter().collect();
                        records.push(TreeRecord::Content(entry, pieces));
                    }
                    Ok(Some(record)) => records.push(record),
                    Ok(None) => break,
                    Err(error) => return (records, Err(error)),
                }
            }
        }
        (records, reader.finish())
    };
    let (records, ended) = read(data.len().max(1));
    assert_eq!(read(1), (records.clone(), ended));
    let written = written(&records);
    let mut reader = TreeReader::default();
    let mut rest = Bytes::from(written);
    for record in &records {
        assert_eq!(reader.next(&mut rest), Ok(Some(record.clone())), "records are read as written");
        let path = match record {
            TreeRecord::Directory(entry)
            | TreeRecord::File(entry)
            | TreeRecord::Stored(entry)
            | TreeRecord::Content(entry, _) => &entry.path,
            TreeRecord::Failed { path, .. } | TreeRecord::LeftOut { path, .. } => path,
        };
        assert!(tree::check_path(path), "{record:?}");
    }
    assert_eq!(reader.next(&mut rest), Ok(None));
    assert_eq!(reader.finish(), Ok(()));
    if let Ok(query) = TreeQuery::decode(data) {
        assert_eq!(TreeQuery::decode(&query.encode()), Ok(query));
    }
}

/// A stream of these records.
fn written(records: &[TreeRecord]) -> Vec<u8> {
    let mut writer = TreeWriter::default();
    let mut out = Vec::new();
    for record in records {
        match record {
            TreeRecord::Directory(entry) => writer.directory(entry, &mut out),
            TreeRecord::File(entry) => writer.file(entry, &mut out),
            TreeRecord::Stored(entry) => writer.stored(entry, &mut out),
            TreeRecord::Content(entry, pieces) => {
                let write = |out: &mut Vec<u8>| {
                    out.extend_from_slice(&pieces.concat());
                    Ok::<_, Infallible>(())
                };
                writer.content(entry, &mut out, write).unwrap();
            }
            TreeRecord::Failed { path, status, reason } => {
                writer.failed(path, *status, reason, &mut out);
            }
            TreeRecord::LeftOut { path, reason } => writer.left_out(path, reason, &mut out),
        }
    }
    writer.end(&mut out);
    out
}

/// The fields of a director: a namespace holds itself and what is below it, and is written as a
/// field again.
pub(crate) fn pelican_headers(data: &[u8]) {
    let Some(found) = PelicanNamespace::of(&header(data)) else { return };
    assert!(found.path.is_empty() || found.path.starts_with('/') && !found.path.ends_with('/'));
    assert!(found.issuers.len() <= 20);
    let path = &found.path;
    assert!(found.holds(path) && found.holds(&format!("{path}/f")));
    assert!(path.is_empty() || !found.holds(&format!("{path}f")));
    let again = HeaderValue::from_bytes(found.to_field().as_bytes()).unwrap();
    assert!(
        PelicanNamespace::of(
            &[(HeaderName::from_static(pelican::NAMESPACE), again)].into_iter().collect()
        )
        .is_some()
    );
}

/// The lines `Name: value` as fields.
fn header(data: &[u8]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for line in data.split(|byte| *byte == b'\n') {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let name = HeaderName::from_bytes(&line[..colon]);
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(&line[colon + 1..])) {
            headers.append(name, value);
        }
    }
    headers
}

/// The header of a request, as lines: its conditions hold for one version or fail, and a
/// `Content-Range`
/// that is read says what it was read as.
pub(crate) fn request_header(data: &[u8]) {
    let headers = header(data);
    let now = UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    let version = Version { etag: "\"1-2-3-4\"".to_owned(), modified: now };
    for version in [Some(&version), None] {
        let (read, write) = (evaluate(&headers, version, true), evaluate(&headers, version, false));
        assert_ne!(write, ConditionResult::NotModified);
        // What may be changed under these conditions may be read, or is known already.
        assert!(
            write != ConditionResult::Proceed || read != ConditionResult::Failed,
            "{headers:?}"
        );
    }
    let _counts = if_range_matches(&headers, &version, now);
    for digest in digests(StatusCode::OK, &headers) {
        assert_eq!(digest.value().len(), digest.algorithm().width());
        assert!(HeaderValue::from_str(&digest::to_repr_field(&digest)).is_ok());
    }
    drop((digest::wanted(&headers), digest::wanted_repr(&headers)));
    for field in [digest::CONTENT_DIGEST, digest::REPR_DIGEST, digest::DIGEST] {
        let found = digest::announced(&headers, &field, &[Algorithm::Md5]);
        // Whatever a field announces is verified, or refused.
        let is_ignored = found.is_ok_and(|found| found.is_empty());
        assert_eq!(is_ignored, !headers.contains_key(&field), "{headers:?}");
    }
    if let Ok(Some(header)) = IfHeader::parse(&headers) {
        let _held = header.holds(|resource| resource.is_none().then_some("\"1-2-3-4\""));
    }
    for value in headers.values() {
        if let Ok(ContentRange::Satisfied { range, total }) = ContentRange::parse(value.as_bytes())
        {
            assert!(range.start < range.end && total.is_none_or(|total| range.end <= total));
            let total = total.map_or_else(|| "*".to_owned(), |total| total.to_string());
            let field = format!("bytes {}-{}/{total}", range.start, range.end - 1);
            assert!(ContentRange::parse(field.as_bytes()).is_ok(), "{field}");
        }
    }
}

/// The body of a PROPFIND or PROPPATCH.
pub(crate) fn propfind_request(data: &[u8]) {
    drop(propfind::PropfindRequest::parse(data, 1 << 20));
    for change in propfind::PropertyUpdate::parse(data, 1 << 20).unwrap_or_default() {
        if let propfind::PropertyUpdate::Set { name, value } = change {
            let whole = propfind::element(
                &propfind::PropertyName::dav("propfind"),
                &format!("<D:prop>{}</D:prop>", propfind::element(&name, &value)),
            );
            // What was kept of it can be put into any document.
            let again = propfind::PropfindRequest::parse(whole.as_bytes(), 1 << 24);
            assert_eq!(again, Ok(propfind::PropfindRequest::These(vec![name])), "{whole}");
        }
    }
}
