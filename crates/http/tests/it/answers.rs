//! Forms of answers that no recorded server gave.

use hither_http::{
    RangeResponse, RangeResponseError, ResponseHead, RetryAfter, Validator, classify,
};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use std::time::Duration;

fn headers(fields: &[(&str, &str)]) -> HeaderMap {
    let fields = fields.iter().map(|(name, value)| {
        let name: HeaderName = name.parse().unwrap();
        (name, HeaderValue::from_str(value).unwrap())
    });
    fields.collect()
}

fn answer(
    status: u16,
    fields: &[(&str, &str)],
    asked: usize,
) -> Result<RangeResponse, RangeResponseError> {
    classify(StatusCode::from_u16(status).unwrap(), &headers(fields), asked)
}

fn boundary_of(content_type: &str) -> Option<Vec<u8>> {
    match answer(206, &[("content-type", content_type)], 2) {
        Ok(RangeResponse::Multipart { boundary }) => Some(boundary),
        Err(RangeResponseError::NoBoundary { .. }) => None,
        other => panic!("{content_type}: {other:?}"),
    }
}

#[test]
fn boundaries_are_found_in_any_spelling() {
    for (content_type, boundary) in [
        ("multipart/byteranges; boundary=abc", "abc"),
        ("Multipart/ByteRanges;Boundary=abc", "abc"),
        ("multipart/x-byteranges; boundary=abc ", "abc"),
        ("multipart/byteranges; charset=utf-8; boundary=\"a/b:c; d\"", "a/b:c; d"),
        ("multipart/byteranges; x=\"; boundary=no\"; boundary=yes", "yes"),
        ("multipart/byteranges; flag; boundary = abc ; x=y", "abc"),
        (r#"multipart/byteranges; boundary="a\"b\\c""#, r#"a"b\c"#),
        ("multipart/byteranges; boundary==_x=", "=_x="),
    ] {
        assert_eq!(
            boundary_of(content_type).as_deref(),
            Some(boundary.as_bytes()),
            "{content_type}"
        );
    }
}

#[test]
fn a_multipart_answer_needs_a_usable_boundary() {
    let long = format!("multipart/byteranges; boundary={}", "x".repeat(201));
    for content_type in [
        "multipart/byteranges",
        "multipart/byteranges;",
        "multipart/byteranges; boundary",
        "multipart/byteranges; boundary=",
        "multipart/byteranges; boundary=\"\"",
        "multipart/byteranges; boundary=\"abc",
        "multipart/byteranges; boundary=\"abc\\",
        "multipart/byteranges; notboundary=abc",
        &long,
    ] {
        assert_eq!(boundary_of(content_type), None, "{content_type}");
    }
}

#[test]
fn a_stored_multipart_message_is_one_range() {
    let fields =
        [("content-type", "multipart/byteranges; boundary=x"), ("content-range", "bytes 0-9/50")];
    assert_eq!(
        answer(206, &fields, 1),
        Ok(RangeResponse::Single { range: 0..10, total: Some(50) })
    );
    assert_eq!(answer(206, &fields, 2), Ok(RangeResponse::Multipart { boundary: b"x".to_vec() }));
}

#[test]
fn a_partial_answer_has_to_say_where_it_belongs() {
    let nowhere = answer(206, &[("content-type", "text/plain")], 1);
    assert_eq!(
        nowhere,
        Err(RangeResponseError::NoContentRange { content_type: "text/plain".into() })
    );
    let nothing = answer(206, &[("content-range", "bytes */50")], 1);
    assert_eq!(nothing, Err(RangeResponseError::SatisfiedNothing { total: 50 }));
    assert!(matches!(
        answer(206, &[("content-range", "bytes 9-0/50")], 1),
        Err(RangeResponseError::ContentRange(_))
    ));
}

#[test]
fn a_part_with_the_status_of_a_whole_file_is_a_part() {
    let ok = |range: &str, length: Option<&str>| {
        let length = length.map(|length| ("content-length", length));
        let fields = [Some(("content-range", range)), length];
        answer(200, &fields.into_iter().flatten().collect::<Vec<_>>(), 1)
    };
    let single = |total| Ok(RangeResponse::Single { range: 0..10, total });
    assert_eq!(ok("bytes 0-9/50", Some("10")), single(Some(50)), "rclone serve s3");
    assert_eq!(ok("bytes 0-9/50", None), single(Some(50)));
    assert_eq!(ok("bytes 0-9/*", Some("10")), single(None));
    let other = Err(RangeResponseError::OtherLength { length: 20, range_bytes: 10 });
    assert_eq!(ok("bytes 0-9/50", Some("20")), other);
    let whole = |size| Ok(RangeResponse::Whole { size });
    assert_eq!(ok("bytes 0-9/50", Some("50")), whole(Some(50)));
    assert_eq!(ok("bytes 0-49/50", None), whole(None));
    assert_eq!(ok("bytes */50", Some("50")), whole(Some(50)));
    assert_eq!(ok("nonsense", Some("50")), whole(Some(50)));
    let fields = [("content-range", "bytes 0-9/50"), ("content-length", "10")];
    assert_eq!(ResponseHead::of(StatusCode::OK, &headers(&fields)).size, Some(50));
}

#[test]
fn whole_files_have_the_size_of_the_body_unless_it_is_encoded() {
    let whole = |fields: &[(&str, &str)]| answer(200, fields, 3).unwrap();
    assert_eq!(whole(&[("content-length", "50")]), RangeResponse::Whole { size: Some(50) });
    assert_eq!(whole(&[]), RangeResponse::Whole { size: None });
    assert_eq!(whole(&[("content-length", "5x")]), RangeResponse::Whole { size: None });
    let encoded = [("content-length", "50"), ("content-encoding", "gzip")];
    assert_eq!(whole(&encoded), RangeResponse::Whole { size: None });
    let facts = ResponseHead::of(StatusCode::OK, &headers(&encoded));
    assert_eq!((facts.size, facts.content_encoding.as_deref()), (None, Some("gzip")));
    let identity = [("content-length", "50"), ("content-encoding", "Identity")];
    assert_eq!(whole(&identity), RangeResponse::Whole { size: Some(50) });
}

#[test]
fn only_a_request_for_several_ranges_can_be_too_large() {
    for status in [400, 413, 414, 431] {
        let status_code = StatusCode::from_u16(status).unwrap();
        assert_eq!(answer(status, &[], 2), Ok(RangeResponse::TooLarge { status: status_code }));
        assert_eq!(answer(status, &[], 1), Ok(RangeResponse::Refused { status: status_code }));
    }
}

#[test]
fn redirects_need_a_place_to_go_to() {
    for status in [301, 302, 303, 307, 308] {
        let status_code = StatusCode::from_u16(status).unwrap();
        for location in ["../other?x=1", "/späti"] {
            let expected =
                Ok(RangeResponse::Redirect { status: status_code, location: location.to_owned() });
            assert_eq!(answer(status, &[("location", location)], 2), expected);
        }
        let nowhere = Err(RangeResponseError::NoLocation { status: status_code });
        assert_eq!(answer(status, &[], 2), nowhere);
        assert_eq!(answer(status, &[("location", " ")], 2), nowhere);
    }
}

#[test]
fn every_other_status_is_a_refusal() {
    for status in [204, 300, 304, 401, 403, 404, 412, 429, 500, 503, 599] {
        let status_code = StatusCode::from_u16(status).unwrap();
        assert_eq!(answer(status, &[], 2), Ok(RangeResponse::Refused { status: status_code }));
    }
}

#[test]
fn an_unsatisfied_answer_needs_no_readable_size() {
    for value in ["bytes */x", "bytes 0-9/50", ""] {
        assert_eq!(
            answer(416, &[("content-range", value)], 1),
            Ok(RangeResponse::Unsatisfied { size: None })
        );
    }
    let status = StatusCode::RANGE_NOT_SATISFIABLE;
    assert_eq!(answer(416, &[], 0), Ok(RangeResponse::Refused { status }), "without a range");
}

#[test]
fn a_weak_tag_is_no_validator_for_ranges() {
    let date = "Sat, 21 Nov 2026 11:57:38 GMT";
    let of = |tag: &str| Validator::of(&headers(&[("etag", tag), ("last-modified", date)]));
    let strong = of("\"abc\"").unwrap();
    assert_eq!(strong.if_range(), "\"abc\"");
    for tag in ["W/\"abc\"", "abc", "\"", "\"a\"b\"", ""] {
        assert_eq!(of(tag), Some(Validator::LastModified(HeaderValue::from_static(date))), "{tag}");
    }
    assert_eq!(Validator::of(&headers(&[("etag", "W/\"abc\"")])), None);
}

#[test]
fn the_date_of_the_second_of_the_response_is_no_validator() {
    let now = "Sat, 21 Nov 2026 11:57:38 GMT";
    let before = "Sat, 21 Nov 2026 11:57:37 GMT";
    let of = |date: &str, modified: &str| {
        Validator::of(&headers(&[("date", date), ("last-modified", modified)])).is_some()
    };
    assert!(of(now, before));
    assert!(!of(now, now));
    // The clock of the storage is ahead of the server's.
    assert!(!of(before, now));
    assert!(of("junk", now));
}

#[test]
fn retry_after_is_a_delay_or_a_date_by_the_clock_of_the_server() {
    let seen = |fields: &[(&'static str, &'static str)]| {
        ResponseHead::of(StatusCode::SERVICE_UNAVAILABLE, &headers(fields)).retry_after
    };
    let of = |value| seen(&[("retry-after", value)]);
    let delay = |seconds| Some(RetryAfter::Delay(Duration::from_secs(seconds)));
    assert_eq!(of("120"), delay(120));
    assert_eq!(of("99999999999999999999"), delay(u64::MAX));
    let date = "Sat, 21 Nov 2026 11:57:38 GMT";
    let dated = of(date).unwrap();
    let parsed = httpdate::parse_http_date(date).unwrap();
    assert_eq!(dated, RetryAfter::Date(parsed));
    let minute = Duration::from_secs(60);
    assert_eq!(
        (dated.delay(parsed - minute), dated.delay(parsed + minute)),
        (minute, Duration::ZERO)
    );
    for (sent, seconds) in
        [("Sat, 21 Nov 2026 11:57:08 GMT", 30), ("Sat, 21 Nov 2026 11:57:38 GMT", 0)]
    {
        assert_eq!(seen(&[("retry-after", date), ("date", sent)]), delay(seconds));
    }
    for junk in ["", "soon", "-1", "1.5", "Sat, 21 Nov"] {
        assert_eq!(of(junk), None, "{junk}");
    }
}
