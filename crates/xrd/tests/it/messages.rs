//! Every request is equal after encoding and decoding.

use bytes::Bytes;
use hither_xrd::server::{Connection, IncomingRequest};
use hither_xrd::wire::{
    FileHandle, HANDSHAKE, LoginRequest, LoginResponse, OpenRequest, OpenResponse, PrepareRequest,
    ProtocolRequest, ProtocolResponse, Redirect, RedirectTarget, Request, RequestHead,
    SecurityMethod, Segment, SessionId, Signing, StatInfo, StreamId, WriteQueue, parse_attributes,
    request_code,
};
use proptest::prelude::*;

fn path() -> impl Strategy<Value = String> {
    "/[a-z0-9/ ?=&ü.%]{0,40}"
}

fn handle() -> impl Strategy<Value = FileHandle> {
    any::<[u8; 4]>().prop_map(FileHandle)
}

fn offset() -> impl Strategy<Value = u64> {
    0..=i64::MAX.unsigned_abs()
}

fn length() -> impl Strategy<Value = u32> {
    0..=i32::MAX.unsigned_abs()
}

fn data() -> impl Strategy<Value = Bytes> {
    prop::collection::vec(any::<u8>(), 0..300).prop_map(Bytes::from)
}

fn on_sessions() -> impl Strategy<Value = Request> {
    let login = (any::<u32>(), "[a-z]{0,8}", any::<[u8; 3]>(), "[a-z=&]{0,30}");
    prop_oneof![
        (any::<u32>(), any::<u8>(), any::<u8>()).prop_map(|(version, flags, expect)| {
            Request::Protocol(ProtocolRequest { version, flags, expect })
        }),
        login.prop_map(|(process, user, [ability, more_ability, version], words)| {
            Request::Login(LoginRequest { process, user, ability, more_ability, version, words })
        }),
        (any::<[u8; 4]>(), data())
            .prop_map(|(method, credentials)| Request::Auth { method, credentials }),
        Just(Request::Ping),
        (any::<u16>(), "[a-z /]{0,30}").prop_map(|(kind, text)| Request::Query { kind, text }),
        (any::<[u8; 2]>(), any::<[u16; 2]>(), prop::collection::vec(path(), 0..5)).prop_map(
            |([options, priority], [port, more_options], paths)| {
                Request::Prepare(PrepareRequest { options, priority, port, more_options, paths })
            }
        ),
        (3031..3040_u16, any::<[u8; 16]>(), data())
            .prop_map(|(code, body, payload)| Request::Other { code, body, payload }),
    ]
}

fn on_files() -> impl Strategy<Value = Request> {
    let segment = (handle(), length(), offset()).prop_map(|(handle, length, offset)| Segment {
        handle,
        length,
        offset,
    });
    prop_oneof![
        (path(), any::<[u16; 3]>()).prop_map(|(path, [options, more_options, mode])| {
            Request::Open(OpenRequest { path, options, more_options, mode })
        }),
        handle().prop_map(Request::Close),
        handle().prop_map(Request::Sync),
        (handle(), offset(), length()).prop_map(|(handle, offset, length)| Request::Read {
            handle,
            offset,
            length
        }),
        prop::collection::vec(segment, 1..1025).prop_map(Request::ReadVector),
        (handle(), offset(), length(), any::<bool>()).prop_map(
            |(handle, offset, length, again)| {
                Request::ReadPages { handle, offset, length, again }
            }
        ),
        (handle(), offset(), data()).prop_map(|(handle, offset, data)| Request::Write {
            handle,
            offset,
            data
        }),
    ]
}

fn on_names() -> impl Strategy<Value = Request> {
    prop_oneof![
        path().prop_map(Request::Stat),
        path().prop_map(Request::ListAttributes),
        (path(), any::<u8>()).prop_map(|(path, options)| Request::List { path, options }),
        (path(), any::<bool>(), any::<u16>())
            .prop_map(|(path, parents, mode)| Request::MakeDirectory { path, parents, mode }),
        path().prop_map(Request::Remove),
        path().prop_map(Request::RemoveDirectory),
        (path(), path()).prop_map(|(from, to)| Request::Rename { from, to }),
        (path(), any::<u16>()).prop_map(|(path, mode)| Request::ChangeMode { path, mode }),
        (path(), any::<u16>()).prop_map(|(path, options)| Request::Locate { path, options }),
    ]
}

pub(crate) fn request() -> impl Strategy<Value = Request> {
    prop_oneof![on_sessions(), on_files(), on_names()]
}

/// Encodes a request and decodes it again.
fn there_and_back(request: &Request, stream: StreamId) -> (StreamId, Request) {
    let mut out = WriteQueue::default();
    request.encode(stream, &mut out).unwrap();
    let mut bytes = out.take_all();
    let head = RequestHead::decode(bytes.split_to(24).first_chunk().unwrap()).unwrap();
    assert_eq!(head.length as usize, bytes.len());
    assert_eq!(head.code, request.code());
    (head.stream, Request::decode(&head, &bytes).unwrap())
}

proptest! {
    #[test]
    fn requests_come_out_as_they_went_in(request in request(), stream: u16) {
        prop_assert_eq!(there_and_back(&request, StreamId(stream)), (StreamId(stream), request));
    }

    #[test]
    fn the_server_takes_requests_in_any_pieces(
        requests in prop::collection::vec(request(), 1..6),
        pieces in prop::collection::vec(1..40_usize, 1..10),
    ) {
        let mut out = WriteQueue::default();
        let login = Request::Login(LoginRequest::new("a", 1));
        login.encode(StreamId(9), &mut out).unwrap();
        for (number, request) in (0..).zip(&requests) {
            request.encode(StreamId(number), &mut out).unwrap();
        }
        let mut bytes: Bytes = [&HANDSHAKE[..], &out.take_all()].concat().into();
        let mut server = Connection::default();
        let mut seen = Vec::new();
        for piece in pieces.iter().cycle() {
            let mut piece = bytes.split_to(bytes.len().min(*piece));
            if piece.is_empty() {
                break;
            }
            while let Some(incoming) = server.receive(&mut piece).unwrap() {
                let IncomingRequest::Request { stream, request } = incoming else { panic!("{incoming:?}") };
                if stream == StreamId(9) && seen.is_empty() && request == login {
                    let (session, methods) = (SessionId::default(), Vec::new());
                    server.answer_login(stream, &LoginResponse { session, methods });
                } else {
                    seen.push(request);
                }
            }
        }
        prop_assert_eq!(seen, requests);
    }

    #[test]
    fn answers_to_the_set_up_come_out_as_they_went_in(
        version: u32, flags: u32, level: u8, overrides in prop::collection::vec(any::<[u8; 2]>(), 0..5),
        signs: bool, session: [u8; 16],
        methods in prop::collection::vec(("[a-z0-9]{1,4}", "[a-z0-9:,.]{0,20}"), 0..5),
    ) {
        let signing = signs.then_some(Signing { version: 0, options: 1, level, overrides });
        let protocol = ProtocolResponse { version, flags, signing };
        let mut out = bytes::BytesMut::new();
        protocol.encode(&mut out);
        prop_assert_eq!(ProtocolResponse::decode(&out).unwrap(), protocol);
        let methods = methods
            .into_iter()
            .map(|(name, parameters)| SecurityMethod { name, parameters })
            .collect();
        let login = LoginResponse { session: SessionId(session), methods };
        let mut out = bytes::BytesMut::new();
        login.encode(&mut out);
        prop_assert_eq!(LoginResponse::decode(&out).unwrap(), login);
    }

    #[test]
    fn answers_come_out_as_they_went_in(
        handle in handle(), size: u64, flags: u32, modified: i64, host in "[a-z.]{1,20}", port: u16,
        opaque in prop::option::of("[a-z=&]{1,20}"), login in prop::option::of("[a-z]{1,9}"),
        url_flags in 0..=i32::MAX.unsigned_abs(),
    ) {
        let status = StatInfo { id: "7".into(), size, flags, modified };
        let open = OpenResponse { handle, status: Some(status) };
        let mut out = bytes::BytesMut::new();
        open.encode(&mut out);
        prop_assert_eq!(OpenResponse::decode(&out).unwrap(), open);

        let server = Redirect { opaque, login, ..Redirect::to(host.clone(), port) };
        let url = RedirectTarget::Url(format!("https://{host}/x"));
        let url = Redirect { target: url, opaque: None, login: None, flags: url_flags };
        for redirect in [server, url] {
            let mut out = bytes::BytesMut::new();
            redirect.encode(&mut out).unwrap();
            prop_assert_eq!(Redirect::decode(&out).unwrap(), redirect);
        }
    }
}

#[test]
fn what_does_not_fit_the_wire_is_refused_and_nothing_of_it_sent() {
    let handle = FileHandle::default();
    let bad = [
        Request::Remove(String::new()),
        Request::Remove("/a\0b".into()),
        Request::Stat("/a\nb".into()),
        Request::Rename { from: "x".repeat(40_000), to: "/y".into() },
        Request::Read { handle, offset: 1 << 63, length: 1 },
        Request::Read { handle, offset: 0, length: 1 << 31 },
        Request::ListAttributes(String::new()),
    ];
    for request in bad {
        let mut out = WriteQueue::default();
        assert!(request.encode(StreamId(1), &mut out).is_err(), "{request:?}");
        assert!(out.take_all().is_empty());
    }
}

#[test]
fn too_many_elements_or_broken_paths_are_refused() {
    let head = |code, length| RequestHead { stream: StreamId(1), code, body: [0; 16], length };
    let refused = |code, payload: Vec<u8>| {
        Request::decode(&head(code, 0), &payload.into()).unwrap_err().to_string()
    };
    let elements = refused(request_code::READV, vec![0; 16 * 1025]);
    assert_eq!(elements, "number of elements of a vector read of 1025, expected at most 1024");
    assert!(refused(request_code::READV, vec![0; 17]).contains("17"));
    assert!(refused(request_code::OPEN, vec![0xff]).contains("UTF-8"));
    assert!(refused(request_code::MV, b"/nothing".to_vec()).contains("blank"));
}

#[test]
fn attributes_have_their_names_without_the_servers_prefix() {
    let found = parse_attributes(b"U.a\0\0\0\0\x02xyb\0\0\0\0\0").unwrap();
    let found: Vec<_> = found.iter().map(|one| (one.name.as_str(), &one.value[..])).collect();
    assert_eq!(found, [("a", &b"xy"[..]), ("b", b"")]);
    for cut in [&b"U.a"[..], b"U.a\0\0\0", b"U.a\0\0\0\0\x02x", b"U.a\0\xff\xff\xff\xff"] {
        assert!(parse_attributes(cut).is_err(), "{cut:?}");
    }
}

#[test]
fn what_is_secret_is_not_shown() {
    let secrets = [
        Request::Auth { method: *b"ztn\0", credentials: "hidden".into() },
        Request::Open(OpenRequest::for_reading("/f?authz=hidden")),
        Request::Login(LoginRequest { words: "hidden".into(), ..LoginRequest::new("a", 1) }),
    ];
    for request in secrets {
        assert!(!format!("{request:?}").contains("hidden"), "{request:?}");
    }
}
