//! Several files in one session, from servers with different numberings of handles: whatever handle
//! is predicted, the bytes of a read are those of its file.

use bytes::{Buf, Bytes};
use hither_netem::random::Random;
use hither_xrd::client::{
    Completion, File, HandleNumbering, Pipelining, RequestId, ServerProfile, Session,
    SessionConfig, SessionEvent,
};
use hither_xrd::server::{Connection, IncomingRequest, Response};
use hither_xrd::wire::{
    ErrorCode, FileHandle, LoginResponse, OpenRequest, OpenResponse, ProtocolResponse, Redirect,
    Request, SessionId, StatInfo, StreamId,
};
use proptest::prelude::*;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::ops::Range;

const SIZE: u64 = 2000;

fn byte(file: &str, at: u64) -> u8 {
    let seed = file.bytes().fold(7_u64, |seed, letter| seed * 31 + u64::from(letter));
    (seed.wrapping_mul(0x9E37_79B9).wrapping_add(at.wrapping_mul(131)) >> 3).to_le_bytes()[0]
}

/// A server that executes requests in their order, and sends the responses in any order.
struct Server {
    connection: Connection,
    numbering: HandleNumbering,
    overtakes: bool,
    open: BTreeMap<u32, String>,
    waits: HashMap<String, usize>,
    pending: Vec<VecDeque<(StreamId, Response, bool)>>,
    reads: usize,
}

impl Server {
    fn new(numbering: HandleNumbering, overtakes: bool) -> Self {
        Self {
            connection: Connection::default(),
            numbering,
            overtakes,
            open: BTreeMap::new(),
            waits: HashMap::new(),
            pending: Vec::new(),
            reads: 0,
        }
    }

    fn handle(&self, number: u32) -> FileHandle {
        FileHandle(match self.numbering {
            HandleNumbering::LittleEndian => number.to_le_bytes(),
            HandleNumbering::BigEndian => number.to_be_bytes(),
            HandleNumbering::Other => (number * 77).to_le_bytes(),
        })
    }

    fn receive(&mut self, bytes: &mut Bytes) {
        while let Some(incoming) = self.connection.receive(bytes).unwrap() {
            let IncomingRequest::Request { stream, request } = incoming else {
                panic!("{incoming:?}")
            };
            match request {
                Request::Protocol(_) => {
                    let answer = ProtocolResponse { version: 0x511, flags: 1, signing: None };
                    self.connection.answer_protocol(stream, &answer);
                }
                Request::Login(_) => {
                    let answer = LoginResponse { session: SessionId([3; 16]), methods: Vec::new() };
                    self.connection.answer_login(stream, &answer);
                }
                request => {
                    let answers = self.answers(request).into_iter();
                    self.pending
                        .push(answers.map(|(answer, late)| (stream, answer, late)).collect());
                }
            }
        }
    }

    fn answers(&mut self, request: Request) -> Vec<(Response, bool)> {
        let of = |server: &Self, handle| {
            let known = server.open.iter().find(|(number, _)| server.handle(**number) == handle);
            known.map(|(number, name)| (*number, name.clone()))
        };
        let answer = match request {
            Request::Open(open) => return self.opened(&open.path),
            Request::Read { handle, offset, length, .. } => {
                self.reads += 1;
                match of(self, handle) {
                    Some((_, name)) => {
                        let end = (offset + u64::from(length)).min(SIZE);
                        Response::Ok((offset..end).map(|at| byte(&name, at)).collect())
                    }
                    None => Response::error(ErrorCode::FILE_NOT_OPEN, "not an open file"),
                }
            }
            Request::Close(handle) => match of(self, handle) {
                Some((number, _)) => {
                    self.open.remove(&number);
                    Response::nothing()
                }
                None => Response::error(ErrorCode::FILE_NOT_OPEN, "not an open file"),
            },
            Request::Query { .. } => Response::text("2097136\n7\n"),
            other => panic!("{other:?}"),
        };
        vec![(answer, false)]
    }

    fn opened(&mut self, path: &str) -> Vec<(Response, bool)> {
        if path.starts_with("/none") {
            return vec![(Response::error(ErrorCode::NOT_FOUND, "no such file"), false)];
        }
        if path.starts_with("/far") {
            return vec![(Response::Redirect(Redirect::to("elsewhere", 1095)), false)];
        }
        if path.starts_with("/wait") {
            let times = self.waits.entry(path.to_owned()).or_default();
            *times += 1;
            if *times == 1 {
                return vec![(Response::wait(5, "fetching it"), false)];
            }
        }
        let number = (0..).find(|number| !self.open.contains_key(number)).unwrap();
        self.open.insert(number, path.to_owned());
        let status = Some(StatInfo { size: SIZE, ..StatInfo::default() });
        let answer = Response::opened(&OpenResponse { handle: self.handle(number), status });
        if path.starts_with("/late") {
            vec![(Response::Later(60), false), (answer, true)]
        } else {
            vec![(answer, false)]
        }
    }

    /// Sends a frame of a pending response: of any request, or of the first.
    fn send_one(&mut self, random: &mut Random) {
        self.pending.retain(|answers| !answers.is_empty());
        let many = if self.overtakes { self.pending.len() } else { self.pending.len().min(1) };
        if many == 0 {
            return;
        }
        let chosen = usize::try_from(random.next_u64() % many as u64).unwrap();
        match self.pending[chosen].pop_front() {
            Some((stream, answer, true)) => self.connection.answer_late(stream, &answer),
            Some((stream, answer, false)) => self.connection.answer(stream, &answer),
            None => {}
        }
    }
}

/// A client, and the responses to its requests.
struct Client {
    session: Session,
    data: HashMap<RequestId, Vec<(u64, Bytes)>>,
    ends: HashMap<RequestId, SessionEvent>,
}

impl Client {
    fn new(pipelining: Pipelining, profile: ServerProfile) -> Self {
        let mut setup = SessionConfig::new("pair");
        (setup.pipelining, setup.profile) = (pipelining, profile);
        Self { session: Session::new(setup), data: HashMap::new(), ends: HashMap::new() }
    }

    /// Transfers some bytes in both directions. Returns false if there were none.
    fn step(&mut self, server: &mut Server, random: &mut Random, most: usize) -> bool {
        let count = |of: usize| of.min(most);
        let out = self.session.outgoing();
        let mut bytes = out.copy_to_bytes(count(out.remaining()));
        let mut moved = !bytes.is_empty();
        server.receive(&mut bytes);
        server.send_one(random);
        let out = server.connection.outgoing();
        let mut bytes = out.copy_to_bytes(count(out.remaining()));
        moved |= !bytes.is_empty() || !server.pending.is_empty();
        while let Some(event) = self.session.receive(&mut bytes).unwrap() {
            match event {
                SessionEvent::Data { request_id, offset, bytes } => {
                    self.data.entry(request_id).or_default().push((offset, bytes));
                }
                SessionEvent::Wait { request_id, .. } => self.session.resume(request_id),
                SessionEvent::Done { request_id, .. }
                | SessionEvent::Failed { request_id, .. }
                | SessionEvent::Redirect { request_id, .. } => {
                    assert!(self.ends.insert(request_id, event).is_none(), "it was over");
                }
                _ => {}
            }
        }
        moved
    }

    fn finish(&mut self, server: &mut Server, random: &mut Random, most: usize) {
        while self.step(server, random, most) {}
    }

    /// Checks that the bytes that arrived are those of the file: all of them, unless it `may_fail`.
    fn check(&self, name: &str, request_id: RequestId, range: &Range<u64>, may_fail: bool) {
        let got = self.data.get(&request_id).into_iter().flatten();
        let mut found: Vec<u64> = Vec::new();
        for (offset, bytes) in got {
            for (at, found_byte) in (*offset..).zip(bytes) {
                assert_eq!(*found_byte, byte(name, at), "byte {at} of {name}");
                found.push(at);
            }
        }
        found.sort_unstable();
        match &self.ends[&request_id] {
            SessionEvent::Done { completion: Completion::Read { .. }, .. } => {
                assert!(range.clone().eq(found), "{name} {range:?}");
            }
            SessionEvent::Failed { failure, .. } => {
                let absent = name.starts_with("/none") || name.starts_with("/far");
                assert!(absent || may_fail, "{name}: {failure}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[derive(Debug, Clone)]
enum Step {
    Open(&'static str),
    /// A read of one of the open files.
    Read(usize, u64, u64),
    Close(usize),
    CancelOpen(usize),
    Talk(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let kinds = prop_oneof![4 => Just("/file"), 1 => Just("/none"), 1 => Just("/far"), 1 => Just("/wait"), 1 => Just("/late")];
    let step = prop_oneof![
        3 => kinds.prop_map(Step::Open),
        4 => (any::<usize>(), 0..SIZE, 1..200_u64).prop_map(|(of, at, length)| Step::Read(of, at, length)),
        2 => any::<usize>().prop_map(Step::Close),
        1 => any::<usize>().prop_map(Step::CancelOpen),
        3 => (0..20_usize).prop_map(Step::Talk),
    ];
    prop::collection::vec(step, 1..80)
}

fn numberings() -> impl Strategy<Value = HandleNumbering> {
    let of = [HandleNumbering::LittleEndian, HandleNumbering::BigEndian, HandleNumbering::Other];
    prop::sample::select(of.to_vec())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn reads_reach_their_own_files(
        steps in steps(), numbering in numberings(), known in prop::option::of(numberings()),
        overtakes: bool, pipelining in 0..3_usize, seed: u64, most in prop_oneof![1..100_usize, Just(1 << 20)],
    ) {
        let mut profile = ServerProfile::default();
        profile.numbering = known;
        profile.first_handle = known.map(|_| [0; 4]);
        let mut server = Server::new(numbering, overtakes);
        let mut client = Client::new([Pipelining::Steps, Pipelining::Login, Pipelining::Full][pipelining], profile);
        let mut random = Random::new(seed);
        let mut files: Vec<(String, File, RequestId)> = Vec::new();
        let (mut reads, mut closed) = (Vec::new(), HashSet::new());
        for (nth, step) in steps.into_iter().enumerate() {
            match step {
                Step::Open(kind) => {
                    let path = format!("{kind}{nth}");
                    let (file, request_id) = client.session.open(OpenRequest::for_reading(path.clone()));
                    files.push((path, file, request_id));
                }
                Step::Read(of, at, length) if !files.is_empty() => {
                    let (path, file, _) = &files[of % files.len()];
                    let range = at..(at + length).min(SIZE);
                    reads.push((path.clone(), client.session.read(*file, range.clone()), range));
                }
                Step::Close(of) if !files.is_empty() => {
                    let (path, file, _) = files.swap_remove(of % files.len());
                    client.session.close(file);
                    closed.insert(path);
                }
                Step::CancelOpen(of) if !files.is_empty() => {
                    let (path, _, request_id) = files.swap_remove(of % files.len());
                    client.session.cancel(request_id);
                    // Once it is open, there is nothing to cancel; before that, its reads fail.
                    reads.retain(|(of, ..)| *of != path);
                }
                Step::Talk(times) => {
                    for _ in 0..times {
                        client.step(&mut server, &mut random, most);
                    }
                }
                _ => {}
            }
        }
        client.finish(&mut server, &mut random, most);
        for (path, request_id, range) in &reads {
            // The response to a close ends earlier requests without a response.
            client.check(path, *request_id, range, overtakes && closed.contains(path));
        }
        prop_assert_eq!((client.session.pending(), client.session.in_flight()), (0, 0));
    }
}

#[test]
fn numbering_is_learned() {
    for numbering in
        [HandleNumbering::LittleEndian, HandleNumbering::BigEndian, HandleNumbering::Other]
    {
        let mut server = Server::new(numbering, false);
        let mut client = Client::new(Pipelining::Full, ServerProfile::default());
        for nth in 0..300 {
            client.session.open(OpenRequest::for_reading(format!("/file{nth}")));
            client.finish(&mut server, &mut Random::new(1), 1 << 20);
        }
        assert_eq!(client.session.profile().numbering, Some(numbering));
    }
}

#[test]
fn a_right_guess_is_sent_once_and_a_wrong_one_twice() {
    for (numbering, known, sent) in [
        (HandleNumbering::LittleEndian, HandleNumbering::LittleEndian, 1),
        (HandleNumbering::BigEndian, HandleNumbering::BigEndian, 1),
        (HandleNumbering::Other, HandleNumbering::Other, 1),
        (HandleNumbering::BigEndian, HandleNumbering::LittleEndian, 2),
    ] {
        let mut profile = ServerProfile::default();
        (profile.numbering, profile.first_handle) = (Some(known), Some([0; 4]));
        let mut server = Server::new(numbering, false);
        let mut client = Client::new(Pipelining::Full, profile);
        let mut random = Random::new(1);
        client.session.open(OpenRequest::for_reading("/file"));
        client.finish(&mut server, &mut random, 1 << 20);
        let (file, open) = client.session.open(OpenRequest::for_reading("/file-more"));
        let read = client.session.read(file, 3..900);
        let mut both = client.session.outgoing().take_all();
        server.receive(&mut both);
        assert_eq!(server.reads, usize::from(known != HandleNumbering::Other), "{known:?}");
        client.finish(&mut server, &mut random, 1 << 20);
        client.check("/file-more", read, &(3..900), false);
        assert!(matches!(client.ends[&open], SessionEvent::Done { .. }));
        assert_eq!(server.reads, sent, "{numbering:?} taken for {known:?}");
    }
}
