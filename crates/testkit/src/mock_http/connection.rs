//! Connections of the mock server: requests and responses.

use super::fault::{Fault, ResponsePosition};
use super::request::ReceivedRequest;
use super::response::MockResponse;
use super::{Door, LoggedRequest, Shared};
use std::io;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// Maximum size of a request's head, enough for 10,000 ranges.
const MAX_HEAD_BYTES: usize = 512 * 1024;

/// Accepts connections until the listener is closed; open ones stay open.
pub(super) async fn serve(listener: TcpListener, shared: Arc<Shared>) -> io::Result<()> {
    let mut connections = JoinSet::new();
    let mut door = shared.door.subscribe();
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => accepted?.0,
            _ = door.wait_for(|door| *door != Door::Open) => break,
        };
        let number = {
            let mut state = shared.state();
            state.connections += 1;
            state.connections - 1
        };
        let shared = Arc::clone(&shared);
        connections.spawn(async move { converse(stream, number, &shared).await });
    }
    drop(listener);
    shared.door.send_replace(Door::Closed);
    std::future::pending().await
}

/// Responds to the requests of one connection until either end closes it.
async fn converse(mut stream: TcpStream, connection: usize, shared: &Shared) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = Vec::new();
    while let Some(head) = read_head(&mut stream, &mut buffer).await? {
        let question = ReceivedRequest::parse(&head);
        if read_body(&mut stream, &mut buffer, question.body_bytes).await?.is_none() {
            return Ok(());
        }
        let (nth, reply, faults) = note(shared, connection, &question);
        let held = faults.iter().find_map(|fault| match fault {
            Fault::Hold(requests) => Some(*requests),
            _ => None,
        });
        if let Some(requests) = held {
            let mut arrived = shared.arrived.subscribe();
            // The sender lives as long as the server.
            drop(arrived.wait_for(|arrived| *arrived >= requests).await);
        }
        if faults.contains(&Fault::NoMoreConnections) {
            let mut door = shared.door.subscribe();
            shared.door.send_if_modified(|door| {
                std::mem::replace(door, (*door).max(Door::Closing)) == Door::Open
            });
            drop(door.wait_for(|door| *door == Door::Closed).await);
        }
        answer_leaves(shared, nth);
        if !send(&mut stream, &reply, &faults, shared).await? {
            return Ok(());
        }
    }
    Ok(())
}

/// The next head; `None` at the end of the connection.
pub(crate) async fn read_head(
    stream: &mut TcpStream,
    buffer: &mut Vec<u8>,
) -> io::Result<Option<Vec<u8>>> {
    loop {
        if let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            let rest = buffer.split_off(end + 4);
            return Ok(Some(std::mem::replace(buffer, rest)));
        }
        if buffer.len() > MAX_HEAD_BYTES || stream.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    }
}

/// The next `length` bytes; `None` at the end of the connection.
pub(crate) async fn read_body(
    stream: &mut TcpStream,
    buffer: &mut Vec<u8>,
    length: usize,
) -> io::Result<Option<Vec<u8>>> {
    while buffer.len() < length {
        if stream.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    }
    Ok(Some(buffer.drain(..length).collect()))
}

/// Logs a request and prepares its response.
fn note(
    shared: &Shared,
    connection: usize,
    question: &ReceivedRequest,
) -> (usize, MockResponse, Vec<Fault>) {
    let mut state = shared.state();
    let nth = state.log.len();
    if let Some((_, file)) = state.next_file.take_if(|(at, _)| *at <= nth) {
        state.file = file;
    }
    let is_first = state.log.iter().all(|it| it.target != question.target);
    let faults: Vec<_> = state
        .faults
        .iter()
        .filter(|(when, _)| when.includes(nth, &question.target, is_first))
        .map(|(_, fault)| fault.clone())
        .collect();
    let reply = MockResponse::new(question, &state.file, &faults);
    let tick = state.next_tick();
    state.log.push(LoggedRequest {
        connection,
        method: question.method.clone(),
        target: question.target.clone(),
        ranges: question.ranges.clone(),
        if_range: question.if_range.clone(),
        authorization: question.authorization.clone(),
        status: reply.status,
        payload_bytes: reply.payload_bytes,
        ticks: (tick, None),
    });
    drop(state);
    shared.arrived.send_replace(nth + 1);
    (nth, reply, faults)
}

fn answer_leaves(shared: &Shared, nth: usize) {
    let mut state = shared.state();
    let tick = state.next_tick();
    if let Some(logged) = state.log.get_mut(nth) {
        logged.ticks.1 = Some(tick);
    }
}

/// Sends a response as far as its faults allow. Returns true if the connection continues.
async fn send(
    stream: &mut TcpStream,
    reply: &MockResponse,
    faults: &[Fault],
    shared: &Shared,
) -> io::Result<bool> {
    let part =
        |place: &ResponsePosition| reply.bytes.get(..reply.position(*place)).unwrap_or_default();
    for fault in faults {
        match fault {
            Fault::BlanksUnanswered if reply.has_blanks => {
                let mut sink = [0; 64];
                while stream.read(&mut sink).await? > 0 {}
                return Ok(false);
            }
            Fault::Close(place) => {
                stream.write_all(part(place)).await?;
                stream.shutdown().await?;
                return Ok(false);
            }
            Fault::Reset(place) => {
                stream.write_all(part(place)).await?;
                stream.set_zero_linger()?;
                return Ok(false);
            }
            Fault::Stall(place) => {
                stream.write_all(part(place)).await?;
                shared.state().stalls += 1;
                // Until the other end closes.
                let mut sink = [0; 64];
                while stream.read(&mut sink).await? > 0 {}
                return Ok(false);
            }
            _ => {}
        }
    }
    stream.write_all(&reply.bytes).await?;
    if reply.close {
        stream.shutdown().await?;
    }
    Ok(!reply.close)
}
