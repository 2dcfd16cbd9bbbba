//! Client and server against each other: any pieces, any order and form of responses, any wrong
//! prediction.

use bytes::{Buf, Bytes, BytesMut};
use hither_netem::random::Random;
use hither_xrd::client::{
    Completion, Credential, Pipelining, RequestId, ServerProfile, Session, SessionConfig,
    SessionError, SessionEvent, TlsMode,
};
use hither_xrd::server::{Connection, IncomingRequest, Response};
use hither_xrd::wire::dirlist;
use hither_xrd::wire::{
    DirlistEntry, ErrorCode, FileHandle, LoginResponse, OpenRequest, OpenResponse,
    ProtocolResponse, Redirect, Request, SecurityMethod, Segment, SessionId, StatInfo, StreamId,
    server,
};
use proptest::prelude::*;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Range;

/// The behaviour of a server.
#[derive(Debug, Clone, Default)]
struct Habits {
    flags: u32,
    methods: Vec<&'static str>,
    handle: u8,
    /// Number of times that an open has to be repeated.
    waits: usize,
    /// The response to an open is announced for later.
    later: bool,
    redirects: bool,
    /// The pieces of vector reads are in any order.
    shuffles: bool,
    /// Responses overtake each other.
    overtakes: bool,
    /// One of this many pages arrives damaged, unless it is requested again.
    damages: u64,
    /// Maximum size of a frame.
    frame_bytes: usize,
}

/// A server with one file, `/f`.
struct Model {
    connection: Connection,
    habits: Habits,
    content: Bytes,
    /// Number of times the file is open.
    open: usize,
    /// Responses that are not sent yet, by request: late ones, and those that open the file when
    /// they are sent.
    pending: Vec<VecDeque<(StreamId, Sent)>>,
    broken: bool,
    /// Number of accepted requests, by name.
    taken: BTreeMap<&'static str, usize>,
}

enum Sent {
    Now(Response),
    Late(Response),
}

impl Model {
    fn new(habits: Habits, content: Bytes) -> Self {
        let (connection, pending) = (Connection::default(), Vec::new());
        Self {
            connection,
            habits,
            content,
            open: 0,
            pending,
            broken: false,
            taken: BTreeMap::new(),
        }
    }

    fn receive(&mut self, bytes: &mut Bytes, random: &mut Random) {
        while !self.broken {
            match self.connection.receive(bytes).unwrap() {
                None => return,
                Some(IncomingRequest::Request { stream, request }) => {
                    *self.taken.entry(request.name()).or_default() += 1;
                    self.take(stream, request, random);
                }
                // As xrootd does: it closes the connection.
                Some(IncomingRequest::TooEarly { .. }) => self.broken = true,
                Some(other) => panic!("{other:?}"),
            }
        }
    }

    fn take(&mut self, stream: StreamId, request: Request, random: &mut Random) {
        match request {
            Request::Protocol(asked) => {
                let wanted = if asked.flags & 4 == 0 {
                    0
                } else {
                    server::GOTO_TLS & (self.habits.flags >> 1)
                };
                let flags = self.habits.flags | wanted;
                let answer = ProtocolResponse { version: 0x511, flags, signing: None };
                self.connection.answer_protocol(stream, &answer);
            }
            Request::Login(_) => {
                let methods = self.habits.methods.iter();
                let methods = methods
                    .map(|name| SecurityMethod { name: (*name).into(), parameters: String::new() })
                    .collect();
                let answer = LoginResponse { session: SessionId([3; 16]), methods };
                self.connection.answer_login(stream, &answer);
            }
            Request::Auth { credentials, .. } if credentials.ends_with(b"mallory\0") => {
                let refusal = Response::error(ErrorCode::AUTH_FAILED, "mallory may not");
                self.connection.answer(stream, &refusal);
            }
            Request::Auth { .. } if self.habits.methods.is_empty() => {
                let refusal = Response::error(ErrorCode::INVALID_REQUEST, "not wanted");
                self.connection.answer(stream, &refusal);
            }
            Request::Auth { .. } => self.connection.answer_auth(stream),
            request => {
                let answers = self.answers(request, random);
                self.pending.push(answers.into_iter().map(|answer| (stream, answer)).collect());
            }
        }
    }

    fn answers(&mut self, request: Request, random: &mut Random) -> Vec<Sent> {
        let now = |answer| vec![Sent::Now(answer)];
        let handle = FileHandle([0, 0, 0, self.habits.handle]);
        let closed = self.open == 0;
        match request {
            Request::Open(_) if self.habits.redirects => {
                now(Response::Redirect(Redirect::to("elsewhere", 1095)))
            }
            Request::Open(_) if self.habits.waits > 0 => {
                self.habits.waits -= 1;
                now(Response::wait(5, "fetching it"))
            }
            Request::Open(open) if open.path == "/f" => {
                let size = self.content.len() as u64;
                let status = Some(StatInfo { size, ..StatInfo::default() });
                let answer = Response::opened(&OpenResponse { handle, status });
                if self.habits.later {
                    return vec![Sent::Now(Response::Later(60)), Sent::Late(answer)];
                }
                self.open += 1;
                now(answer)
            }
            Request::Open(_) => now(Response::error(ErrorCode::NOT_FOUND, "no such file")),
            Request::Read { handle: asked, .. } | Request::ReadPages { handle: asked, .. }
                if closed || asked != handle =>
            {
                now(Response::error(ErrorCode::FILE_NOT_OPEN, "not an open file"))
            }
            Request::ReadVector(segments)
                if closed || segments.iter().any(|segment| segment.handle != handle) =>
            {
                now(Response::error(ErrorCode::FILE_NOT_OPEN, "not an open file"))
            }
            Request::Read { offset, length, .. } => {
                let data = self.slice(offset, length.into());
                self.in_frames(data)
            }
            Request::ReadVector(segments) => self.vector(segments, random),
            Request::ReadPages { offset, length, again, .. } => {
                self.pages(offset, length.into(), again)
            }
            Request::List { .. } => {
                let entries: Vec<_> = (0..300)
                    .map(|number| DirlistEntry {
                        name: format!("entry {number}"),
                        is_utf8: true,
                        status: Some(StatInfo { size: number, ..StatInfo::default() }),
                    })
                    .collect();
                let text = DirlistEntry::to_text(&entries, true);
                self.in_frames(text.into())
            }
            Request::Query { .. } => now(Response::text("2097136\n7\n")),
            Request::Close(_) => {
                self.open -= 1;
                now(Response::nothing())
            }
            other => panic!("{other:?}"),
        }
    }

    fn slice(&self, offset: u64, length: u64) -> Bytes {
        let size = self.content.len() as u64;
        let range = offset.min(size)..(offset + length).min(size);
        self.content
            .slice(usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap())
    }

    fn in_frames(&self, mut data: Bytes) -> Vec<Sent> {
        let mut answers = Vec::new();
        while data.len() > self.habits.frame_bytes {
            answers.push(Sent::Now(Response::Partial(data.split_to(self.habits.frame_bytes))));
        }
        answers.push(Sent::Now(Response::Ok(data)));
        answers
    }

    fn vector(&self, mut segments: Vec<Segment>, random: &mut Random) -> Vec<Sent> {
        if self.habits.shuffles {
            for at in 1..segments.len() {
                segments.swap(at, usize::try_from(random.next_u64()).unwrap() % (at + 1));
            }
        }
        let found: Vec<_> = segments
            .into_iter()
            .map(|segment| (segment, self.slice(segment.offset, segment.length.into())))
            .collect();
        self.in_frames(Response::segments(&found))
    }

    fn pages(&self, offset: u64, length: u64, again: bool) -> Vec<Sent> {
        let data = self.slice(offset, length);
        let frame = (self.habits.frame_bytes / 4096).max(1) * 4096;
        let mut answers = Vec::new();
        let mut at = offset;
        let mut rest = data;
        loop {
            let count = rest.len().min(frame - usize::try_from(at % 4096).unwrap());
            let piece = rest.split_to(count);
            let mut answer = Response::pages(at, &piece, rest.is_empty());
            if let Response::Status(_, pages) = &mut answer
                && !again
                && self.habits.damages > 0
                && (at / 4096).is_multiple_of(self.habits.damages)
                && pages.len() > 4
            {
                let mut damaged = BytesMut::from(&pages[..]);
                damaged[4] ^= 1;
                *pages = damaged.freeze();
            }
            answers.push(Sent::Now(answer));
            at += count as u64;
            if rest.is_empty() {
                return answers;
            }
        }
    }

    /// Sends one frame of a pending response: of any request, or of the first.
    fn send_one(&mut self, random: &mut Random) -> bool {
        self.pending.retain(|answers| !answers.is_empty());
        if self.pending.is_empty() {
            return false;
        }
        let many = if self.habits.overtakes { self.pending.len() } else { 1 };
        let chosen = usize::try_from(random.next_u64()).unwrap() % many;
        match self.pending[chosen].pop_front() {
            Some((stream, Sent::Now(answer))) => self.connection.answer(stream, &answer),
            Some((stream, Sent::Late(answer))) => {
                self.open += 1;
                self.connection.answer_late(stream, &answer);
            }
            None => {}
        }
        true
    }
}

/// The results of all requests.
#[derive(Debug, Default)]
struct Seen {
    data: HashMap<RequestId, Vec<(u64, Bytes)>>,
    ends: HashMap<RequestId, Vec<SessionEvent>>,
    names: Vec<String>,
    waits: usize,
    error: Option<SessionError>,
}

impl Seen {
    fn take(&mut self, event: SessionEvent, session: &mut Session) {
        match event {
            SessionEvent::Data { request_id, offset, bytes } => {
                self.data.entry(request_id).or_default().push((offset, bytes));
            }
            SessionEvent::Done { request_id, .. }
            | SessionEvent::Failed { request_id, .. }
            | SessionEvent::Redirect { request_id, .. } => {
                self.ends.entry(request_id).or_default().push(event);
            }
            SessionEvent::Entries { entries, .. } => {
                self.names.extend(entries.into_iter().map(|entry| entry.name))
            }
            SessionEvent::Wait { request_id, seconds, .. } => {
                assert_eq!(seconds, 5);
                self.waits += 1;
                session.resume(request_id);
            }
            _ => {}
        }
    }

    /// Checks that the bytes of these ranges arrived for the request, each once; missing ranges
    /// must be empty.
    fn check(&self, request_id: RequestId, ranges: &[Range<u64>], content: &[u8]) {
        let mut expected: Vec<u64> = ranges.iter().flat_map(Clone::clone).collect();
        let mut found = Vec::new();
        for (offset, bytes) in self.data.get(&request_id).into_iter().flatten() {
            for (at, byte) in (*offset..).zip(bytes) {
                assert_eq!(*byte, content[usize::try_from(at).unwrap()], "byte {at}");
                found.push(at);
            }
        }
        expected.sort_unstable();
        found.sort_unstable();
        assert!(expected == found, "{} bytes expected, {} found", expected.len(), found.len());
        assert_eq!(self.ends[&request_id].len(), 1, "{:?}", self.ends[&request_id]);
    }

    fn reply(&self, request_id: RequestId) -> &Completion {
        match &self.ends[&request_id][..] {
            [SessionEvent::Done { completion, .. }] => completion,
            other => panic!("{other:?}"),
        }
    }
}

/// Exchanges messages until nothing is in flight.
fn talk(session: &mut Session, model: &mut Model, seed: u64, most: usize) -> Seen {
    let mut random = Random::new(seed);
    let mut seen = Seen::default();
    loop {
        let mut moved = false;
        let count = usize::try_from(random.next_u64()).unwrap() % most + 1;
        if session.outgoing().has_remaining() {
            let count = count.min(session.outgoing().remaining());
            let mut bytes = session.outgoing().copy_to_bytes(count);
            model.receive(&mut bytes, &mut random);
            moved = true;
        }
        moved |= model.send_one(&mut random);
        let waiting = model.connection.outgoing();
        let count = count.min(waiting.remaining());
        let mut bytes = waiting.copy_to_bytes(count);
        moved |= !bytes.is_empty();
        loop {
            match session.receive(&mut bytes) {
                Ok(Some(event)) => seen.take(event, session),
                Ok(None) => break,
                Err(error) => {
                    seen.error = Some(error);
                    return seen;
                }
            }
        }
        if model.broken && !model.connection.outgoing().has_remaining() {
            seen.error = Some(session.ended());
            return seen;
        }
        if !moved {
            return seen;
        }
    }
}

fn content() -> Bytes {
    crate::xrootd::content(60_000).into()
}

fn setup(pipelining: Pipelining) -> SessionConfig {
    let mut setup = SessionConfig::new("pair");
    setup.pipelining = pipelining;
    setup.credentials = vec![Credential::Unix { user: "ann".into(), group: String::new() }];
    setup
}

fn habits() -> impl Strategy<Value = Habits> {
    (0..3_u8, 0..3_usize, any::<[bool; 3]>(), 0..4_u64, 1..30_000_usize).prop_map(
        |(handle, waits, [later, shuffles, overtakes], damages, frame_bytes)| Habits {
            handle,
            waits,
            later,
            shuffles,
            overtakes,
            damages,
            frame_bytes,
            ..Habits::default()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(50))]
    #[test]
    fn every_byte_arrives_once_from_every_kind_of_server(
        habits in habits(), pipelining in 0..3_usize, wants_proof: bool, seed: u64,
        most in prop_oneof![Just(1_usize), 2..50_usize, Just(1 << 20)],
        asked in prop::collection::vec((0..70_000_u64, 1..5_000_u64), 1..40),
        read in (0..70_000_u64, 1..30_000_u64), pages in (0..59_000_u64, 1..30_000_u64),
    ) {
        let content = content();
        let size = content.len() as u64;
        let mut setup = setup([Pipelining::Steps, Pipelining::Login, Pipelining::Full][pipelining]);
        let mut habits = habits;
        if wants_proof {
            habits.methods = vec!["gsi", "unix"];
            setup.profile.methods = vec!["gsi".into(), "unix".into()];
            setup.profile.method = Some("unix".into());
        }
        let mut model = Model::new(habits.clone(), content.clone());
        let mut session = Session::new(setup);
        let (file, open) = session.open(OpenRequest::for_reading("/f"));
        let ranges: Vec<_> = asked.iter().map(|(at, length)| *at..at + length).collect();
        let within = |ranges: &[Range<u64>]| -> Vec<_> {
            ranges.iter().map(|range| range.start.min(size)..range.end.min(size)).collect()
        };
        let vector = session.read_vector(file, &ranges);
        let plain = session.read(file, read.0..read.0 + read.1);
        let paged = session.read_pages(file, pages.0..pages.0 + pages.1, false);
        let list = session.submit(Request::List { path: "/".into(), options: dirlist::STAT });
        let cancelled = session.read(file, 0..1000);
        session.cancel(cancelled);
        let seen = talk(&mut session, &mut model, seed, most);
        prop_assert_eq!(seen.error.as_ref(), None);
        let opened = matches!(seen.reply(open), Completion::Opened { status: Some(status), .. } if status.size == size);
        prop_assert!(opened);
        prop_assert_eq!(seen.waits, habits.waits);
        seen.check(vector, &within(&ranges), &content);
        seen.check(plain, &within(&[read.0..read.0 + read.1]), &content);
        prop_assert_eq!(seen.names.len(), 300);
        prop_assert_eq!(seen.reply(list), &Completion::Nothing);
        prop_assert!(!seen.ends.contains_key(&cancelled) && !seen.data.contains_key(&cancelled));

        let Completion::Read { missing, damaged } = seen.reply(paged).clone() else { panic!() };
        let end = (pages.0 + pages.1).min(size);
        let beyond: Vec<_> = Some(end..pages.0 + pages.1).into_iter().filter(|range| !range.is_empty()).collect();
        prop_assert_eq!(missing, beyond);
        let damaged_bytes = |at: u64| damaged.iter().any(|range| range.contains(&at));
        let good: Vec<_> = (pages.0..end).filter(|at| !damaged_bytes(*at)).map(|at| at..at + 1).collect();
        seen.check(paged, &good, &content);
        prop_assert!(habits.damages > 0 || damaged.is_empty());
        let repairs: Vec<_> =
            damaged.iter().map(|range| (session.read_pages(file, range.clone(), true), range.clone())).collect();
        let seen = talk(&mut session, &mut model, seed, most);
        for (request_id, range) in repairs {
            seen.check(request_id, &[range], &content);
        }
        prop_assert_eq!(session.pending(), 0);
        prop_assert_eq!(session.in_flight(), 0);
        prop_assert_eq!(session.profile().first_handle, Some([0, 0, 0, habits.handle]));
        prop_assert_eq!(session.vector_limits().elements, 7);
    }

    #[test]
    fn a_cancelled_read_leaves_nothing_behind(seed: u64, most in 1..2000_usize, when in 0..40_usize) {
        let content = content();
        let habits = Habits { frame_bytes: 3000, overtakes: true, ..Habits::default() };
        let mut model = Model::new(habits, content.clone());
        let mut session = Session::new(setup(Pipelining::Full));
        let mut random = Random::new(seed);
        let (file, open) = session.open(OpenRequest::for_reading("/f"));
        let gone = session.read(file, 0..50_000);
        let (other, gone_open) = session.open(OpenRequest::for_reading("/f"));
        let kept = session.read_vector(file, &[5..5_000, 40_000..41_000]);
        let mut seen = Seen::default();
        for step in 0.. {
            if step == when {
                session.cancel(gone);
                session.cancel(gone_open);
            }
            let all = session.outgoing().take_all();
            model.receive(&mut all.clone(), &mut random);
            let sent = model.send_one(&mut random);
            let count = model.connection.outgoing().remaining().min(most);
            let mut bytes = model.connection.outgoing().copy_to_bytes(count);
            let idle = all.is_empty() && !sent && bytes.is_empty();
            while let Some(event) = session.receive(&mut bytes).unwrap() {
                seen.take(event, &mut session);
            }
            if step > when && idle {
                break;
            }
        }
        let done = seen.ends.contains_key(&gone_open);
        prop_assert_eq!(model.taken.get("close").copied().unwrap_or(0), usize::from(!done));
        seen.check(kept, &[5..5_000, 40_000..41_000], &content);
        let opened = matches!(seen.reply(open), Completion::Opened { .. });
        prop_assert!(opened);
        prop_assert_eq!((session.pending(), session.in_flight()), (0, 0));
        let late = session.read(other, 0..1);
        let event = session.receive(&mut Bytes::new()).unwrap();
        prop_assert_eq!(event.is_some(), !done, "{:?} {:?}", late, event);
    }
}

#[test]
fn a_redirected_open_takes_its_reads_along() {
    let mut model =
        Model::new(Habits { redirects: true, frame_bytes: 1, ..Habits::default() }, content());
    let mut session = Session::new(setup(Pipelining::Full));
    let (file, open) = session.open(OpenRequest::for_reading("/f"));
    let read = session.read(file, 3..9);
    let seen = talk(&mut session, &mut model, 1, 1000);
    let redirect = Redirect::to("elsewhere", 1095);
    assert_eq!(
        seen.ends[&open],
        [SessionEvent::Redirect { request_id: open, redirect, missing: vec![] }]
    );
    assert!(
        matches!(&seen.ends[&read][..], [SessionEvent::Failed { missing, .. }] if *missing == [3..9])
    );
    assert_eq!((session.pending(), session.in_flight()), (0, 0));
}

#[test]
fn a_server_that_came_to_want_proof_is_found_out() {
    for pipelining in [Pipelining::Steps, Pipelining::Login, Pipelining::Full] {
        let habits = Habits { methods: vec!["unix"], frame_bytes: 10, ..Habits::default() };
        let mut model = Model::new(habits, content());
        let mut session = Session::new(setup(pipelining));
        let (file, _) = session.open(OpenRequest::for_reading("/f"));
        let read = session.read(file, 0..10);
        let seen = talk(&mut session, &mut model, 1, 1000);
        if pipelining == Pipelining::Full {
            assert!(
                matches!(seen.error, Some(SessionError::Mispredicted { .. })),
                "{:?}",
                seen.error
            );
            assert_eq!(session.profile().methods, ["unix"]);
        } else {
            seen.check(read, &[0..10], &content());
        }
    }
}

#[test]
fn the_next_credential_is_tried_and_what_is_not_possible_is_named() {
    let run = |methods: Vec<&'static str>, credentials: Vec<Credential>| {
        let mut model =
            Model::new(Habits { methods, frame_bytes: 9, ..Habits::default() }, content());
        let mut setup = setup(Pipelining::Login);
        setup.credentials = credentials;
        let mut session = Session::new(setup);
        let seen = talk(&mut session, &mut model, 1, 1000);
        (session.profile().method.clone(), seen.error.map(|error| error.to_string()))
    };
    let mallory = Credential::Unix { user: "mallory".into(), group: String::new() };
    let accepted = run(vec!["unix", "host"], vec![mallory.clone(), Credential::Host]);
    assert_eq!(accepted, (Some("host".into()), None));
    let refused = run(vec!["unix"], vec![mallory]).1.unwrap();
    assert_eq!(
        refused,
        "the server requires authentication by unix: unix was rejected: mallory may not"
    );
    let gsi = run(vec!["gsi"], vec![Credential::Host]).1.unwrap();
    assert!(
        gsi.starts_with(
            "the server requires authentication by gsi: gsi (X.509 proxies) is not implemented"
        ),
        "{gsi}"
    );
    let token = run(vec!["ztn"], vec![Credential::Token("t".into())]).1.unwrap();
    assert!(token.contains("over TLS only"), "{token}");
}

/// The drivers on both sides do TLS; the test only marks its start.
#[test]
fn tls_begins_where_both_ends_think_it_does() {
    for at_once in [true, false] {
        let flags = server::HAVE_TLS | server::IS_SERVER;
        let mut model =
            Model::new(Habits { flags, frame_bytes: 100, ..Habits::default() }, content());
        let mut setup = setup(Pipelining::Full);
        setup.tls = if at_once { TlsMode::RequiredAtOnce } else { TlsMode::Required };
        let mut session = Session::new(setup);
        assert_eq!(session.greets_at_once(), at_once);
        let (file, _) = session.open(OpenRequest::for_reading("/f"));
        let read = session.read(file, 0..1000);
        let mut random = Random::new(1);
        let mut clear = session.outgoing().take_all();
        assert_eq!(clear.len(), 20 + 24);
        model.receive(&mut clear, &mut random);
        assert!(model.connection.awaits_tls());
        let answer = model.connection.outgoing().take_all();
        let mut bytes: Bytes = [&answer[..], b"what TLS says"].concat().into();
        assert_eq!(session.receive(&mut bytes).unwrap(), Some(SessionEvent::StartTls));
        assert_eq!(session.receive(&mut bytes).unwrap(), None);
        assert_eq!(bytes, "what TLS says");
        assert!(session.outgoing().take_all().is_empty());
        session.tls_started();
        model.connection.tls_started();
        let seen = talk(&mut session, &mut model, 1, 1 << 20);
        seen.check(read, &[0..1000], &content());
        assert!(session.profile().has_tls());
    }
}

#[test]
fn a_server_without_tls_is_not_talked_to_in_clear() {
    let mut model = Model::new(Habits { frame_bytes: 100, ..Habits::default() }, content());
    let mut setup = setup(Pipelining::Full);
    setup.tls = TlsMode::Required;
    let mut session = Session::new(setup);
    let seen = talk(&mut session, &mut model, 1, 1000);
    assert_eq!(seen.error, Some(SessionError::NoTls));
    assert_eq!(model.taken.len(), 1, "{:?}", model.taken);
}

#[test]
fn a_learned_profile_suffices_for_one_round_trip() {
    let habits = Habits { methods: vec!["unix"], handle: 2, frame_bytes: 500, ..Habits::default() };
    let mut profile = ServerProfile::default();
    for expected in [Pipelining::Login, Pipelining::Full] {
        assert_eq!(profile.pipelining(), expected);
        let mut setup = setup(profile.pipelining());
        setup.profile = profile.clone();
        let mut model = Model::new(habits.clone(), content());
        let mut session = Session::new(setup);
        let (file, _) = session.open(OpenRequest::for_reading("/f"));
        let read = session.read(file, 0..2000);
        let mut all = session.outgoing().take_all();
        model.receive(&mut all, &mut Random::new(1));
        assert_eq!(model.taken.contains_key("read"), expected == Pipelining::Full);
        let seen = talk(&mut session, &mut model, 1, 1 << 20);
        seen.check(read, &[0..2000], &content());
        assert_eq!(model.taken["read"], 1);
        profile = session.profile().clone();
    }
}
