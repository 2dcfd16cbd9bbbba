//! Bodies that are not what they claim: a clear error, no panic, no hang, bounded memory.

use crate::parts;
use bytes::Bytes;
use hither_http::multipart::{MAX_BOUNDARY_BYTES, MAX_HEADER_BYTES};
use hither_http::{ContentRange, ContentRangeError, MultipartError, MultipartReader};
use proptest::prelude::*;

fn error_of(body: &str) -> MultipartError {
    let (_, ended) = parts::read(b"b", body.as_bytes(), &[]);
    let every: Vec<usize> = (0..body.len()).collect();
    assert_eq!(parts::read(b"b", body.as_bytes(), &every).1, ended, "whatever the split");
    ended.unwrap_err()
}

#[test]
fn each_fault_has_its_own_error() {
    assert_eq!(error_of("--b\r\nX: y\r\n\r\ndata"), MultipartError::NoContentRange);
    assert_eq!(
        error_of("--b\r\nnonsense\r\n\r\n"),
        MultipartError::Field { seen: "nonsense".into() }
    );
    assert_eq!(
        error_of("--b\r\nContent-Range: bytes 0-9/9\r\n\r\n"),
        ContentRangeError::PastTheEnd { last: 9, total: 9 }.into()
    );
    assert_eq!(
        error_of("--b\r\nContent-Range: bytes */9\r\n\r\n"),
        MultipartError::UnsatisfiedPart { total: 9 }
    );
    assert_eq!(
        error_of("--b\r\nContent-Range: bytes 0-1/9\r\nContent-Range: bytes 0-2/9\r\n\r\n"),
        MultipartError::TwoContentRanges { seen: " bytes 0-2/9".into() }
    );
    assert_eq!(
        error_of("--b\r\nContent-Range: bytes 0-1/9\r\n\r\nabHTTP/1.1 500 oh\r\n"),
        MultipartError::ServerFailed { seen: "HTTP/1.1 500 oh".into() }
    );
    assert_eq!(
        error_of("--b\r\nContent-Range: bytes 0-1/9\r\n\r\nab\r\nHTTP/1.1 500 oh\r\n"),
        MultipartError::ServerFailed { seen: "HTTP/1.1 500 oh".into() }
    );
    assert_eq!(
        error_of("--b\r\nHTTP/1.1 500 oh\r\n"),
        MultipartError::ServerFailed { seen: "HTTP/1.1 500 oh".into() }
    );
    assert_eq!(
        error_of("--b\r\nContent-Range: bytes 0-1/9\r\n\r\nab\r\n--bc\r\n"),
        MultipartError::Delimiter { end: 2, seen: "--bc".into() }
    );
    assert_eq!(
        error_of("--b\r\nContent-Range: bytes 5-8/9\r\n\r\nab"),
        MultipartError::Truncated { complete: 0, missing: Some(7..9) }
    );
    assert_eq!(error_of(""), MultipartError::Truncated { complete: 0, missing: None });
}

#[test]
fn a_part_does_not_end_without_its_delimiter() {
    for (data, complete) in [("0\r\n--b--\r\n", 0), ("0123456789", 0), ("0123456789\r\n--b\r\n", 1)]
    {
        let body = format!("--b\r\nContent-Range: bytes 0-9/99\r\n\r\n{data}");
        let (found, ended) = parts::read(b"b", body.as_bytes(), &[]);
        assert_eq!(found.parts.len() as u64, complete, "{data:?}");
        assert_eq!(ended, Err(MultipartError::Truncated { complete, missing: None }), "{data:?}");
    }
}

#[test]
fn bytes_that_may_be_of_a_delimiter_are_found() {
    let reader = MultipartReader::new(b"bb").unwrap();
    for (data, certain) in [
        ("", Some(0)),
        ("abc", Some(3)),
        ("abc\r\n--bb--\r\n", None),
        ("abc\n--bb\nxyz", None),
        ("--bb--", None),
        ("abc\r\n--b", Some(3)),
        ("abc\n-", Some(3)),
        ("abc\n", Some(3)),
        ("abc\r", Some(3)),
        ("abc\r\n--ab", Some(9)),
        ("abc--bb", Some(7)),
    ] {
        assert_eq!(reader.before_delimiter(data.as_bytes()), certain, "{data:?}");
    }
}

#[test]
fn messages_name_what_was_seen_and_expected() {
    assert_eq!(
        error_of("--b\r\nContent-Range: bytes 5-8/9\r\n\r\nab").to_string(),
        "the response ended after 0 complete parts with bytes 7..9 of the next one missing, before its closing delimiter"
    );
    assert_eq!(
        error_of("--b\r\nContent-Range: bytes 0-1/9\r\n\r\nab\r\n\x01!\r\n").to_string(),
        "a part that ends at byte 2 is followed by \"\\x01!\", expected the delimiter of the next part"
    );
}

#[test]
fn a_range_of_64_bits_takes_no_memory() {
    let head = format!("--b\r\nContent-Range: bytes 1-{}/{}\r\n\r\nab", u64::MAX - 1, u64::MAX);
    let missing = Some(3..u64::MAX);
    assert_eq!(error_of(&head), MultipartError::Truncated { complete: 0, missing });
}

#[test]
fn boundaries_have_one_to_200_bytes() {
    for length in [0, MAX_BOUNDARY_BYTES + 1] {
        let refused = MultipartReader::new(&vec![b'x'; length]).unwrap_err();
        assert_eq!(refused, MultipartError::Boundary { length });
    }
    MultipartReader::new(&[b'x'; MAX_BOUNDARY_BYTES]).unwrap();
}

/// Text that never ends: before the first part, among its fields, after it.
#[test]
fn endless_text_is_cut_off() {
    let line = [b'x'; 100];
    for head in ["", "--b\r\n", "--b\r\nX: ", "--b\r\nContent-Range: bytes 0-1/9\r\n\r\nab"] {
        for separator in ["", ": \r\n", "\r\n\t"] {
            let mut parser = MultipartReader::new(b"b").unwrap();
            let mut fed = 0;
            let mut piece = Bytes::copy_from_slice(head.as_bytes());
            let error = loop {
                match parser.next(&mut piece) {
                    Ok(Some(_)) => {}
                    Ok(None) => {
                        assert!(fed <= MAX_HEADER_BYTES + 200, "{head:?} {separator:?}");
                        piece = Bytes::from([&line[..], separator.as_bytes()].concat());
                        fed += piece.len();
                    }
                    Err(error) => break error,
                }
            };
            let known = matches!(
                error,
                MultipartError::HeaderTooLarge
                    | MultipartError::Field { .. }
                    | MultipartError::Delimiter { .. }
            );
            assert!(known, "{head:?} {separator:?} ended with {error:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn arbitrary_bytes_never_panic(
        body in prop::collection::vec(any::<u8>(), 0..600),
        cuts in prop::collection::vec(any::<usize>(), 0..10),
    ) {
        let _ = parts::read(b"b", &body, &cuts);
        let _ = ContentRange::parse(&body);
    }

    /// Pieces of real messages in any order get much further than arbitrary bytes.
    #[test]
    fn shuffled_messages_never_panic(
        pieces in prop::collection::vec(prop::sample::select(vec![
            "--b", "--", "\r\n", "\n", "\r", "b", ":", "Content-Range: bytes 0-9/10", "content-range:bytes 3-4/*",
            "Content-Range: bytes */10", "Content-Range: bytes 18446744073709551614-18446744073709551614/*",
            "HTTP/1.1 500 no", " ", "\t", "0123456789", "x", "\r\n\r\n", "\r\n--b\r\n", "\r\n--b--",
        ]), 0..40),
        cuts in prop::collection::vec(any::<usize>(), 0..10),
    ) {
        let body = pieces.concat();
        let (whole, ended) = parts::read(b"b", body.as_bytes(), &[]);
        let (split, ended_split) = parts::read(b"b", body.as_bytes(), &cuts);
        prop_assert_eq!(whole, split);
        prop_assert_eq!(ended, ended_split);
    }
}
