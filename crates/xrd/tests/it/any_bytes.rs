//! Arbitrary bytes from a server or a client: nothing panics, and all output stems from the input.

use bytes::Bytes;
use hither_xrd::client::{Credential, Pipelining, Session, SessionConfig, SessionEvent};
use hither_xrd::server::{Connection, IncomingRequest, Response};
use hither_xrd::wire::dirlist;
use hither_xrd::wire::{LoginResponse, OpenRequest, Request, SessionId, VectorLimits, query_kind};
use std::collections::HashMap;

/// Feeds a session with these bytes. The first byte selects the size of the pieces. Returns the
/// number of its nine requests that succeeded.
pub(crate) fn responses(data: &[u8]) -> usize {
    let mut done = 0;
    let Some((first, data)) = data.split_first() else { return 0 };
    let mut setup = SessionConfig::new("any");
    setup.pipelining = if first & 1 == 0 { Pipelining::Full } else { Pipelining::Login };
    setup.credentials = vec![Credential::Host];
    setup.profile.vector_limits = Some(VectorLimits { elements: 3, ..VectorLimits::default() });
    let mut session = Session::new(setup);
    let (file, open) = session.open(OpenRequest::for_reading("/f"));
    let ranges = [0..10, 5..9, 100..200, 4000..9000];
    let mut limits = HashMap::from([
        (session.read(file, 0..1000), 1000),
        (session.read_vector(file, &ranges), 5114),
        (session.read_pages(file, 4000..20_000, false), 16_000),
    ]);
    for request in [
        Request::List { path: "/".into(), options: dirlist::STAT },
        Request::Query { kind: query_kind::SPACE, text: "/".into() },
        Request::Locate { path: "/f".into(), options: 0 },
        Request::ListAttributes("/f".into()),
    ] {
        limits.insert(session.submit(request), 0);
    }
    limits.insert(open, 0);
    limits.insert(session.write(file, 0, Bytes::from_static(b"data")), 0);
    let cancelled = session.read(file, 0..77);
    session.cancel(cancelled);
    let size = if first & 2 == 0 { data.len().max(1) } else { usize::from(*first) + 1 };
    for piece in data.chunks(size) {
        let mut piece = Bytes::copy_from_slice(piece);
        loop {
            match session.receive(&mut piece) {
                Ok(None) => break,
                Err(_) => return done,
                Ok(Some(SessionEvent::StartTls)) => session.tls_started(),
                Ok(Some(SessionEvent::Wait { request_id, .. })) => session.resume(request_id),
                Ok(Some(SessionEvent::Data { request_id, bytes, .. })) => {
                    let left =
                        limits.get_mut(&request_id).expect("data of a request_id that is not over");
                    *left = usize::checked_sub(*left, bytes.len()).expect("no more than was asked");
                }
                Ok(Some(
                    ref event @ (SessionEvent::Done { request_id, .. }
                    | SessionEvent::Failed { request_id, .. }
                    | SessionEvent::Redirect { request_id, .. }),
                )) => {
                    done += usize::from(matches!(event, SessionEvent::Done { .. }));
                    let known = limits.remove(&request_id).is_some();
                    assert!(
                        known || request_id == hither_xrd::client::RequestId::SETUP,
                        "{request_id:?} ended twice"
                    );
                }
                Ok(Some(_)) => {}
            }
        }
        session.outgoing().take_all();
    }
    done
}

/// Feeds these bytes to a server.
pub(crate) fn requests(data: &[u8]) {
    let Some((first, data)) = data.split_first() else { return };
    let mut server = Connection::default();
    server.max_payload_bytes = 1 << 20;
    let size = if first & 1 == 0 { data.len().max(1) } else { usize::from(*first) };
    for piece in data.chunks(size) {
        let mut piece = Bytes::copy_from_slice(piece);
        loop {
            match server.receive(&mut piece) {
                Ok(None) => break,
                Err(_) => return,
                Ok(Some(IncomingRequest::Request { stream, request: Request::Login(_) })) => {
                    let (session, methods) = (SessionId::default(), Vec::new());
                    server.answer_login(stream, &LoginResponse { session, methods });
                }
                Ok(Some(IncomingRequest::Request { stream, request })) => {
                    // A decoded request can be encoded again.
                    let mut again = hither_xrd::wire::WriteQueue::default();
                    drop(request.encode(stream, &mut again));
                    drop(format!("{request:?}"));
                    server.answer(stream, &Response::nothing());
                }
                Ok(Some(_)) => {}
            }
        }
        server.outgoing().take_all();
    }
}
