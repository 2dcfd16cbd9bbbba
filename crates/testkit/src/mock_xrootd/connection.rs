//! Connections of the mock server: requests and responses.

use super::fault::{Fault, FaultStage};
use super::faulty_stream::FaultyStream;
use super::responses::Files;
use super::tree::subject;
use super::{Logged, Shared};
use hither_xrd::server::{Connection, IncomingRequest};
use hither_xrd::wire::{OpenRequest, Request};
use std::io;
use std::ops::Range;
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// Accepts connections until accepting fails.
pub(super) async fn serve(listener: TcpListener, shared: Arc<Shared>) -> io::Result<()> {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await?;
        let (number, faults) = {
            let mut state = shared.state();
            state.crossed.push((0, 0));
            (state.crossed.len() - 1, state.strikes(&[FaultStage::Connection], ""))
        };
        let line = (stream, number, Arc::clone(&shared));
        connections.spawn(async move { converse(line, faults).await });
    }
}

/// Responds to the requests of one connection until either end closes it.
async fn converse(
    (stream, number, shared): (TcpStream, usize, Arc<Shared>),
    faults: Vec<Fault>,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let here = stream.local_addr()?;
    let mut line = FaultyStream::new(stream, number, Arc::clone(&shared), faults);
    if let Some(banner) = line.banner() {
        line.write(banner).await?;
        return line.strike().await;
    }
    let mut connection = Connection::default();
    let mut files = Files::new(here);
    let mut nth = 0;
    loop {
        let mut bytes = line.read().await?;
        if bytes.is_empty() {
            return line.strike().await;
        }
        loop {
            let incoming = match connection.receive(&mut bytes) {
                Ok(Some(incoming)) => incoming,
                Ok(None) => break,
                // Bytes that are not a request cause no response.
                Err(_) => return line.reset(),
            };
            let early = matches!(incoming, IncomingRequest::TooEarly { .. });
            let mut answer = Vec::from(connection.outgoing().take_all());
            let mut is_dropped = false;
            let mut is_unanswered = false;
            if let IncomingRequest::Request { stream, request } = incoming {
                let faults = note(&shared, number, &request);
                let mut state = shared.state();
                if matches!(request, Request::Open(_) | Request::Stat { .. }) {
                    files.see(state.bytes.clone(), state.replaced);
                }
                let tree = state.tree.as_mut();
                answer.extend(files.answer(&mut connection, stream, request, &faults, tree));
                is_dropped = faults.contains(&Fault::Dropped);
                is_unanswered = faults.contains(&Fault::Unanswered);
            }
            if !line.write(&answer).await? || is_dropped || line.ends_behind(nth) {
                return line.strike().await;
            }
            shared.state().stalls += usize::from(is_unanswered);
            if early {
                return line.reset();
            }
            nth += 1;
        }
        // The response to the handshake, if it arrived without a request.
        let rest = connection.outgoing().take_all();
        if !line.write(&rest).await? {
            return line.strike().await;
        }
    }
}

/// Logs a request; returns the faults that apply to it.
fn note(shared: &Shared, connection: usize, request: &Request) -> Vec<Fault> {
    let (path, step) = match request {
        Request::Protocol(_) => (None, Some(FaultStage::Protocol)),
        Request::Login(_) => (None, Some(FaultStage::Login)),
        Request::Query { .. } => (None, Some(FaultStage::Query)),
        Request::Open(OpenRequest { path, .. }) => (Some(path.clone()), Some(FaultStage::Open)),
        Request::Read { .. } | Request::ReadVector(_) | Request::ReadPages { .. } => {
            (None, Some(FaultStage::Read))
        }
        Request::Write { .. } => (None, Some(FaultStage::Write)),
        _ => (subject(request).map(str::to_owned), subject(request).map(|_| FaultStage::Change)),
    };
    let steps: Vec<FaultStage> = [FaultStage::Request].into_iter().chain(step).collect();
    let logged = Logged {
        connection,
        name: request.name(),
        ranges: ranges(request),
        again: matches!(request, Request::ReadPages { again: true, .. }),
        path,
    };
    let mut state = shared.state();
    let nth = state.log.len();
    if let Some((_, bytes)) = state.next_bytes.take_if(|(at, _)| *at <= nth) {
        state.bytes = bytes;
        state.replaced += 1;
    }
    let faults = state.strikes(&steps, logged.path.as_deref().unwrap_or_default());
    state.log.push(logged);
    faults
}

/// The ranges of a read.
fn ranges(request: &Request) -> Vec<Range<u64>> {
    let range = |offset: u64, length: u32| offset..offset.saturating_add(length.into());
    match request {
        Request::Read { offset, length, .. } | Request::ReadPages { offset, length, .. } => {
            vec![range(*offset, *length)]
        }
        Request::ReadVector(segments) => {
            segments.iter().map(|segment| range(segment.offset, segment.length)).collect()
        }
        _ => Vec::new(),
    }
}
