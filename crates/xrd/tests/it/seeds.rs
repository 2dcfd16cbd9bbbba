//! Replays the seeds of the fuzz targets, unchanged and damaged: the first inputs of a fuzzer,
//! without a fuzzer.

use crate::any_bytes;
use bytes::Bytes;
use hither_testkit::fuzz_seeds;
use hither_xrd::server::{Connection, Response};
use hither_xrd::wire::{
    DirlistEntry, ErrorCode, FileHandle, HANDSHAKE, LoginResponse, OpenResponse, ProtocolResponse,
    Segment, SessionId, StatInfo, StreamId,
};
use std::ops::Range;
use std::path::Path;

#[test]
fn seeds_of_responses() {
    let count = fuzz_seeds::replay("xrd_responses", &[0x0f, 0xa1, 0x7f, 0xff], |data| {
        any_bytes::responses(data);
    })
    .unwrap();
    assert!(count >= 5, "{count} seeds");
}

#[test]
fn seeds_of_requests() {
    let count =
        fuzz_seeds::replay("xrd_requests", &[0x0b, 0xd1, 0xff, 0xff], any_bytes::requests).unwrap();
    assert!(count >= 5, "{count} seeds");
}

/// Responses to the requests of `any_bytes::responses`, so that a fuzzer gets beyond the open.
/// `HITHER_WRITE_SEEDS=1 cargo test -p hither-xrd --test it seeds` writes them again.
#[test]
fn seeds_that_answer_everything_are_those_in_the_folder() {
    for (name, late) in [("all", false), ("late", true)] {
        let seed = all_responses(late);
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/xrd_responses").join(name);
        if std::env::var_os("HITHER_WRITE_SEEDS").is_some() {
            std::fs::write(&path, &seed).unwrap();
        }
        assert_eq!(any_bytes::responses(&seed), 9, "{name}");
        assert!(std::fs::read(&path).unwrap() == seed, "{name} is not what would be written");
    }
}

/// The responses to all requests, after the first byte of a seed. With `late`, the response to the
/// open is announced for later.
fn all_responses(late: bool) -> Vec<u8> {
    let mut server = Connection::default();
    let mut bytes: Bytes = HANDSHAKE.to_vec().into();
    server.receive(&mut bytes).unwrap();
    let protocol = ProtocolResponse { version: 0x511, flags: 0x0030_0001, signing: None };
    server.answer_protocol(StreamId(1), &protocol);
    let methods = Vec::new();
    server.answer_login(StreamId(2), &LoginResponse { session: SessionId([5; 16]), methods });
    let handle = FileHandle::default();
    let status = Some(StatInfo { size: 20_000, ..StatInfo::default() });
    let opened = Response::opened(&OpenResponse { handle, status });
    if late {
        server.answer(StreamId(3), &Response::Later(9));
        server.answer_late(StreamId(3), &opened);
    } else {
        server.answer(StreamId(3), &opened);
    }
    let segment = |range: Range<u32>| {
        let length = range.end - range.start;
        let data = vec![7; length as usize].into();
        (Segment { handle, length, offset: range.start.into() }, data)
    };
    let segments = Response::segments(&[segment(0..10), segment(5..9), segment(100..200)]);
    // A read that was sent again has another stream. The late ones follow all others except the
    // write, which waits for the open.
    let (first, write) = if late { (13, 17) } else { (4, 13) };
    let stream = |number: u16| StreamId(first + number);
    server.answer(stream(0), &Response::Partial(vec![7; 400].into()));
    server.answer(stream(1), &Response::Ok(segments));
    server.answer(stream(0), &Response::Ok(vec![7; 600].into()));
    server.answer(stream(2), &Response::Ok(Response::segments(&[segment(4000..9000)])));
    server.answer(stream(3), &Response::pages(4000, &[7; 8288], false));
    server.answer(stream(3), &Response::pages(12_288, &[7; 100], true));
    let status = Some(StatInfo::default());
    let entries = [DirlistEntry { name: "a".into(), is_utf8: true, status }];
    server.answer(StreamId(8), &Response::Ok(DirlistEntry::to_text(&entries, true).into()));
    server.answer(StreamId(9), &Response::text("oss.space=1&oss.free=1"));
    server.answer(StreamId(10), &Response::text("Sr[::1]:1094"));
    server.answer(StreamId(11), &Response::Ok(b"U.a\0\0\0\0\x01b"[..].into()));
    // The responses to the cancelled read and the write.
    server.answer(StreamId(12), &Response::error(ErrorCode::CANCELLED, "no"));
    server.answer(StreamId(write), &Response::nothing());
    [&[0][..], &server.outgoing().take_all()].concat()
}
