//! The mock server over XRootD: connections, and faults of single requests.

mod files;

use super::answers::Site;
use super::behaviour::{ChangeFault, OF_ANOTHER_CLIENT, ReadFault, WebDavFault};
use super::faulty::damaged;
use bytes::{Bytes, BytesMut};
use hither_core::sync::lock;
use hither_xrd::server::{Connection, IncomingRequest, Response};
use hither_xrd::wire::{
    ErrorCode, FileHandle, LoginResponse, OpenRequest, PROTOCOL_VERSION, ProtocolResponse, Request,
    SessionId, StreamId, open, query_kind, server,
};
use std::collections::BTreeMap;
use std::io;
use std::sync::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// An open file.
#[derive(Debug)]
struct OpenFile {
    path: String,
    /// The number of the file, to write into it.
    number: u64,
    /// The bytes when it was opened, to read them.
    bytes: Bytes,
}

/// The state of a connection.
#[derive(Debug, Default)]
struct Session {
    connection: Connection,
    files: BTreeMap<u8, OpenFile>,
}

/// The response that is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sent {
    Whole,
    /// None; the connection is closed.
    NothingAndClosed,
    /// None; the connection stays open, and nothing more is sent.
    Nothing,
    HalfAndClosed,
    /// Half of it, and nothing more.
    Half,
}

/// Serves a connection until it has to be closed.
pub(super) async fn serve_connection(mut stream: TcpStream, site: &Mutex<Site>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut session = Session::default();
    let mut buffer = BytesMut::new();
    while stream.read_buf(&mut buffer).await? > 0 {
        let mut received = buffer.split().freeze();
        while let Some(incoming) = session.connection.receive(&mut received).map_err(invalid)? {
            let mut sent = Sent::Whole;
            if let IncomingRequest::Request { stream: id, request } = incoming {
                sent = lock(site).respond_xrootd(&mut session, id, request);
            }
            let bytes = session.connection.outgoing().take_all();
            let length = match sent {
                Sent::Whole => bytes.len(),
                Sent::Half | Sent::HalfAndClosed => bytes.len() / 2,
                Sent::Nothing | Sent::NothingAndClosed => 0,
            };
            stream.write_all(bytes.get(..length).unwrap_or_default()).await?;
            match sent {
                Sent::Whole => {}
                Sent::HalfAndClosed | Sent::NothingAndClosed => return Ok(()),
                Sent::Half | Sent::Nothing => {
                    super::until_closed(&mut stream).await;
                    return Ok(());
                }
            }
        }
        let rest = session.connection.outgoing().take_all();
        stream.write_all(&rest).await?;
    }
    Ok(())
}

fn invalid<E: std::error::Error + Send + Sync + 'static>(error: E) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

/// The path of a request, without the opaque information.
fn plain(path: &str) -> String {
    let path = path.split('?').next().unwrap_or_default();
    format!("/{}", path.trim_start_matches('/'))
}

fn refused(code: ErrorCode) -> Response {
    Response::error(code, "refused")
}

/// The response of this protocol with the meaning of a status of HTTP.
fn of_status(status: u16) -> Response {
    refused(match status {
        400 => ErrorCode::ARG_INVALID,
        401 => ErrorCode::AUTH_FAILED,
        403 => ErrorCode::NOT_AUTHORIZED,
        404 => ErrorCode::NOT_FOUND,
        405 | 501 => ErrorCode::UNSUPPORTED,
        408 | 425 => ErrorCode::OVERLOADED,
        412 => ErrorCode::IT_EXISTS,
        423 => ErrorCode::FILE_LOCKED,
        429 | 503 => return Response::wait(0, "busy"),
        502 => ErrorCode::IO_ERROR,
        507 => ErrorCode::NO_SPACE,
        409 | 504 => ErrorCode::FS_ERROR,
        _ => ErrorCode::SERVER_ERROR,
    })
}

impl Session {
    fn file(&self, handle: FileHandle) -> Option<&OpenFile> {
        let FileHandle([number, ..]) = handle;
        self.files.get(&number)
    }

    /// The method of WebDAV that a request stands for, and its path.
    fn subject(&self, request: &Request) -> Option<(&'static str, String)> {
        let of = |handle: &FileHandle| self.file(*handle).map(|it| it.path.clone());
        Some(match request {
            Request::Open(it) => (if writes(it) { "PUT" } else { "GET" }, plain(&it.path)),
            Request::Read { handle, .. } => ("GET", of(handle)?),
            Request::ReadVector(segments) => ("GET", of(&segments.first()?.handle)?),
            Request::Write { handle, .. } => ("PUT", of(handle)?),
            Request::Stat(path) => ("HEAD", plain(path)),
            Request::Query { kind, text } if *kind == query_kind::CHECKSUM => ("HEAD", plain(text)),
            Request::List { path, .. } => ("PROPFIND", plain(path)),
            Request::MakeDirectory { path, .. } => ("MKCOL", plain(path)),
            Request::Remove(path) | Request::RemoveDirectory(path) => ("DELETE", plain(path)),
            Request::Rename { from, .. } => ("MOVE", plain(from)),
            _ => return None,
        })
    }
}

fn writes(request: &OpenRequest) -> bool {
    request.options & (open::DELETE | open::NEW | open::UPDATE | open::WRITE) != 0
}

impl Site {
    fn respond_xrootd(&mut self, session: &mut Session, id: StreamId, request: Request) -> Sent {
        match request {
            Request::Protocol(_) => {
                let flags = server::IS_SERVER;
                let answer = ProtocolResponse { version: PROTOCOL_VERSION, flags, signing: None };
                session.connection.answer_protocol(id, &answer);
                return Sent::Whole;
            }
            Request::Login(_) => {
                let answer = LoginResponse { session: SessionId([7; 16]), methods: Vec::new() };
                session.connection.answer_login(id, &answer);
                return Sent::Whole;
            }
            _ => {}
        }
        let Some((method, path)) = session.subject(&request) else {
            let response = self.carry_out_xrootd(session, request, None);
            session.connection.answer(id, &response);
            return Sent::Whole;
        };
        let is_change = matches!(method, "PUT" | "MOVE" | "DELETE" | "MKCOL");
        let (response, sent) = match self.planned(method, &path) {
            Some(WebDavFault::Status(status)) => (of_status(status), Sent::Whole),
            Some(WebDavFault::Change(fault)) if is_change => {
                self.change_wrongly_xrootd(session, &path, request, fault)
            }
            Some(WebDavFault::Read(fault)) if !is_change => {
                if let ReadFault::Replaced(bytes) = &fault {
                    self.replace(&path, bytes);
                }
                let sent = match fault {
                    ReadFault::Dropped => Sent::NothingAndClosed,
                    ReadFault::Silent => Sent::Nothing,
                    ReadFault::Cut => Sent::HalfAndClosed,
                    ReadFault::Stalled => Sent::Half,
                    _ => Sent::Whole,
                };
                (self.carry_out_xrootd(session, request, Some(&fault)), sent)
            }
            _ => (self.carry_out_xrootd(session, request, None), Sent::Whole),
        };
        session.connection.answer(id, &response);
        sent
    }

    fn change_wrongly_xrootd(
        &mut self,
        session: &mut Session,
        path: &str,
        mut request: Request,
        fault: ChangeFault,
    ) -> (Response, Sent) {
        if let Request::Write { data, .. } = &mut request {
            match fault {
                ChangeFault::Half | ChangeFault::HalfLost => data.truncate(data.len() / 2),
                ChangeFault::Damaged => *data = damaged(data).into(),
                _ => {}
            }
        }
        match fault {
            ChangeFault::Dropped => return (Response::nothing(), Sent::NothingAndClosed),
            ChangeFault::Silent => return (Response::nothing(), Sent::Nothing),
            _ => {}
        }
        let response = self.carry_out_xrootd(session, request, None);
        let is_done = !matches!(response, Response::Error(_));
        match fault {
            ChangeFault::LostAndMadeAgain if is_done => {
                self.insert(path, Some(OF_ANOTHER_CLIENT.to_vec()));
                (response, Sent::NothingAndClosed)
            }
            ChangeFault::LostAndMadeAgain => {
                self.happened.pop();
                (response, Sent::NothingAndClosed)
            }
            ChangeFault::Lost | ChangeFault::HalfLost => (response, Sent::NothingAndClosed),
            ChangeFault::LostInSilence => (response, Sent::Nothing),
            ChangeFault::Done(status, ..) if status >= 500 => (of_status(status), Sent::Whole),
            _ => (response, Sent::Whole),
        }
    }
}
