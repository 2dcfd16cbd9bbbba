//! The progress of a session, on which timeouts are based.

use bytes::Bytes;
use hither_xrd::client::{File, Pipelining, RequestId, Session, SessionConfig};
use hither_xrd::server::{Connection, IncomingRequest, Response};
use hither_xrd::wire::{
    FileHandle, LoginResponse, OpenRequest, OpenResponse, ProtocolResponse, Redirect, Request,
    SessionId, StreamId,
};

/// A session that has requested ten bytes of a file, and its server.
struct Reading {
    session: Session,
    server: Connection,
    file: File,
    read: RequestId,
    stream: StreamId,
}

impl Reading {
    fn start() -> Self {
        let mut setup = SessionConfig::new("test");
        setup.pipelining = Pipelining::Login;
        let mut session = Session::new(setup);
        let mut server = Connection::default();
        let (file, _) = session.open(OpenRequest::for_reading("/f"));
        let read = session.read(file, 0..10);
        let stream = Self::stream_of_read(&mut session, &mut server);
        Self { session, server, file, read, stream }
    }

    /// The stream of the next read that the server receives; it responds to all before.
    fn stream_of_read(session: &mut Session, server: &mut Connection) -> StreamId {
        loop {
            let mut sent = session.outgoing().take_all();
            while let Some(incoming) = server.receive(&mut sent).unwrap() {
                let IncomingRequest::Request { stream, request } = incoming else { panic!() };
                match request {
                    Request::Protocol(_) => {
                        let answer = ProtocolResponse { version: 0x511, flags: 1, signing: None };
                        server.answer_protocol(stream, &answer);
                    }
                    Request::Login(_) => {
                        let session = SessionId([3; 16]);
                        server.answer_login(stream, &LoginResponse { session, methods: vec![] });
                    }
                    Request::Open(_) => {
                        let opened = OpenResponse { handle: FileHandle([0; 4]), status: None };
                        server.answer(stream, &Response::opened(&opened));
                    }
                    Request::Read { .. } => return stream,
                    _ => {}
                }
            }
            let mut answers = server.outgoing().take_all();
            while session.receive(&mut answers).unwrap().is_some() {}
        }
    }

    /// The progress that these bytes of the server cause.
    fn progress_by(&mut self, mut bytes: Bytes) -> u64 {
        let before = self.session.progress();
        while self.session.receive(&mut bytes).unwrap().is_some() {}
        self.session.progress() - before
    }

    /// The progress that a response causes.
    fn progress(&mut self, response: &Response) -> u64 {
        self.server.answer(self.stream, response);
        let bytes = self.server.outgoing().take_all();
        self.progress_by(bytes)
    }
}

#[test]
fn bytes_for_a_request_and_its_end_are_progress() {
    let mut reading = Reading::start();
    let message = b"\0\0\x0f\xa1\0\0\0\x0b\0\0\x13\x8a\0\0\0\0hi\0";
    for _ in 0..3 {
        assert_eq!(reading.progress(&Response::Partial(Bytes::new())), 0);
        assert_eq!(reading.progress(&Response::Later(5)), 0);
        assert_eq!(reading.progress_by(Bytes::from_static(message)), 0);
    }
    assert_eq!(reading.progress(&Response::Partial(Bytes::from_static(b"012"))), 3);
    assert_eq!(reading.progress(&Response::Ok(Bytes::from_static(b"3456789"))), 7 + 1);
}

#[test]
fn a_cancelled_read_makes_no_more_progress_than_it_has_bytes() {
    let mut reading = Reading::start();
    assert_eq!(reading.progress(&Response::Partial(Bytes::from_static(b"01"))), 2);
    reading.session.cancel(reading.read);
    let piece = Response::Partial(Bytes::from_static(b"23456"));
    assert_eq!([(); 3].map(|()| reading.progress(&piece)), [5, 3, 0]);
}

#[test]
fn a_redirected_read_leaves_no_bytes_to_expect() {
    let mut reading = Reading::start();
    reading.session.read(reading.file, 100..200);
    let first = reading.stream;
    reading.stream = Reading::stream_of_read(&mut reading.session, &mut reading.server);
    let redirect = Redirect::to("other", 1094);
    assert_eq!(reading.progress(&Response::Redirect(redirect)), 1);
    reading.session.cancel(reading.read);
    reading.stream = first;
    let piece = Response::Partial(Bytes::from_static(b"012345"));
    assert_eq!([(); 3].map(|()| reading.progress(&piece)), [6, 4, 0]);
}
