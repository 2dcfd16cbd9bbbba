//! A simple driver for a blocking socket, or a replacement of one. It counts its round trips, and
//! records the bytes on the wire.

use bytes::{Buf, Bytes};
use hither_xrd::client::{
    Completion, RequestId, Session, SessionConfig, SessionError, SessionEvent,
};
use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// A message and its sender.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Said {
    Client(Vec<u8>),
    Server(Vec<u8>),
}

/// A socket, or a recording of one.
pub(crate) trait Wire: Read + Write {}

impl<T: Read + Write> Wire for T {}

pub(crate) struct Driver {
    pub(crate) session: Session,
    stream: Box<dyn Wire>,
    /// Number of writes that were followed by a wait: the round trips after that of TCP.
    pub(crate) round_trips: usize,
    pub(crate) said: Vec<Said>,
    /// The data of each request.
    pub(crate) data: HashMap<RequestId, Vec<(u64, Bytes)>>,
    pub(crate) events: Vec<SessionEvent>,
}

impl Driver {
    pub(crate) fn connect(port: u16, setup: SessionConfig) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Self::over(Box::new(stream), setup)
    }

    pub(crate) fn over(stream: Box<dyn Wire>, setup: SessionConfig) -> Self {
        let session = Session::new(setup);
        let (said, data, events) = (Vec::new(), HashMap::new(), Vec::new());
        Self { session, stream, round_trips: 0, said, data, events }
    }

    /// Continues until the request is over; returns the event that ended it.
    pub(crate) fn until(&mut self, wanted: RequestId) -> Result<SessionEvent, SessionError> {
        self.until_event(|event| match event {
            SessionEvent::Done { request_id, .. }
            | SessionEvent::Failed { request_id, .. }
            | SessionEvent::Redirect { request_id, .. } => *request_id == wanted,
            _ => false,
        })
    }

    pub(crate) fn reply(&mut self, wanted: RequestId) -> Completion {
        match self.until(wanted).unwrap() {
            SessionEvent::Done { completion, .. } => completion,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn until_event(
        &mut self,
        wanted: impl Fn(&SessionEvent) -> bool,
    ) -> Result<SessionEvent, SessionError> {
        let mut bytes = Bytes::new();
        loop {
            if let Some(found) = self.events.iter().position(&wanted) {
                return Ok(self.events.remove(found));
            }
            while let Some(event) = self.session.receive(&mut bytes)? {
                match event {
                    SessionEvent::Data { request_id, offset, bytes } => {
                        self.data.entry(request_id).or_default().push((offset, bytes));
                    }
                    event => self.events.push(event),
                }
            }
            if self.events.iter().any(&wanted) {
                continue;
            }
            self.flush();
            let mut buffer = vec![0; 256 * 1024];
            let count = self.stream.read(&mut buffer).unwrap_or(0);
            if count == 0 {
                return Err(self.session.ended());
            }
            buffer.truncate(count);
            self.said.push(Said::Server(buffer.clone()));
            bytes = buffer.into();
        }
    }

    fn flush(&mut self) {
        if self.session.outgoing().has_remaining() {
            let all = self.session.outgoing().take_all();
            self.stream.write_all(&all).unwrap();
            self.said.push(Said::Client(all.to_vec()));
            self.round_trips += 1;
        }
    }

    /// The bytes of a request's reads, joined. Checks that none arrived twice.
    pub(crate) fn bytes(&self, request_id: RequestId) -> Vec<u8> {
        let mut parts = self.data.get(&request_id).cloned().unwrap_or_default();
        parts.sort_by_key(|(offset, _)| *offset);
        parts.windows(2).for_each(|two| assert!(two[0].0 + two[0].1.len() as u64 <= two[1].0));
        parts.iter().flat_map(|(_, bytes)| bytes.iter().copied()).collect()
    }
}
