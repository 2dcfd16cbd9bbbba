//! The timeouts, in virtual time, against a scripted server.

use super::*;
use crate::counters::progress::PoolProgress;
use crate::xrootd::command_channel::{CommandSender, command_channel};
use crate::xrootd::entry_sender::{EntrySender, ListingError};
use crate::xrootd::job::{FileVersion, Operation, OperationJob, ReadJob};
use crate::xrootd::shared_file::SharedFile;
use hither_core::{Request, Retry};
use hither_xrd::client::{Pipelining, SessionConfig};
use hither_xrd::server::{Connection, IncomingRequest, Response};
use hither_xrd::wire::{
    self, ErrorCode, FileHandle, LoginResponse, OpenResponse, ProtocolResponse, SessionId,
    StatInfo, StreamId,
};
use std::ops::Range;
use std::sync::mpsc;
use tokio::io::DuplexStream;
use tokio::sync::oneshot;

/// The length of a request for a part of a long range.
const PIECE: u64 = 128 * 1024;

/// Responses to one request, each after a number of seconds. From the second one on, they are
/// asynchronous unless they are partial.
type Script = Vec<(u64, Response)>;

/// Stands for a message to users in a script.
fn message() -> Response {
    Response::error(ErrorCode(0), "a message")
}

/// A server that handles logins, and responds to all else by `script`, which gets the request and
/// the number of equal ones before it.
async fn serve(mut stream: DuplexStream, script: impl Fn(&wire::Request, usize) -> Script) {
    let mut connection = Connection::default();
    let mut asked = HashMap::new();
    let mut buffer = BytesMut::new();
    while stream.read_buf(&mut buffer).await.is_ok_and(|read| read > 0) {
        let mut bytes = buffer.split().freeze();
        while let Ok(Some(IncomingRequest::Request { stream: id, request })) =
            connection.receive(&mut bytes)
        {
            let count = asked.entry(request.name()).or_insert(0);
            match &request {
                wire::Request::Protocol(_) => {
                    let answer = ProtocolResponse { version: 0x520, flags: 1, signing: None };
                    connection.answer_protocol(id, &answer);
                }
                wire::Request::Login(_) if script(&request, *count).is_empty() => {
                    let answer = LoginResponse { session: SessionId([1; 16]), methods: Vec::new() };
                    connection.answer_login(id, &answer);
                }
                request => answer(&mut connection, &mut stream, id, script(request, *count)).await,
            }
            *count += 1;
        }
        flush(&mut connection, &mut stream).await;
    }
}

async fn answer(
    connection: &mut Connection,
    stream: &mut DuplexStream,
    id: StreamId,
    script: Script,
) {
    for (nth, (after, answer)) in script.into_iter().enumerate() {
        flush(connection, stream).await;
        tokio::time::sleep(Duration::from_secs(after)).await;
        if answer == message() {
            // kXR_attn on stream 0, of the kind kXR_asyncms.
            let bytes = b"\0\0\x0f\xa1\0\0\0\x0b\0\0\x13\x8a\0\0\0\0hi\0";
            drop(stream.write_all(bytes).await);
        } else if nth > 0 && !matches!(answer, Response::Partial(_)) {
            connection.answer_late(id, &answer);
        } else {
            connection.answer(id, &answer);
        }
    }
}

async fn flush(connection: &mut Connection, stream: &mut DuplexStream) {
    let bytes = connection.outgoing().take_all();
    drop(stream.write_all(&bytes).await);
}

fn opened() -> Response {
    opened_with(1000)
}

fn opened_with(size: u64) -> Response {
    let status = StatInfo { size, modified: 5, ..StatInfo::default() };
    Response::opened(&OpenResponse { handle: FileHandle([0; 4]), status: Some(status) })
}

/// A response that is announced every 100 s and does not come.
fn announced(seconds: u32) -> Script {
    (0..100).map(|nth: u64| (100 * nth.min(1), Response::Later(seconds))).collect()
}

/// The result of a read of 10 bytes, and its duration.
async fn read(
    script: impl Fn(&wire::Request, usize) -> Script + Send + Sync + 'static,
) -> (Result<FileVersion, JobError>, Duration) {
    read_beside(None, script).await
}

/// Reads as [`read`] does, in a session that has another job, too.
async fn read_beside(
    other: Option<SessionCommand>,
    script: impl Fn(&wire::Request, usize) -> Script + Send + Sync + 'static,
) -> (Result<FileVersion, JobError>, Duration) {
    read_range(0..10, |_| other, script).await
}

/// The result of a read of this range in a session that has another job, too, maybe of the same
/// file.
async fn read_range(
    range: Range<u64>,
    other: impl FnOnce(&Arc<SharedFile>) -> Option<SessionCommand>,
    script: impl Fn(&wire::Request, usize) -> Script + Send + Sync + 'static,
) -> (Result<FileVersion, JobError>, Duration) {
    in_session(script, async |orders, name| {
        let start = Instant::now();
        let (reply, came) = oneshot::channel();
        orders.send(SessionCommand::Fetch(1, read_job(name, range, reply)));
        other(name).into_iter().for_each(|other| orders.send(other));
        (came.await.unwrap(), start.elapsed())
    })
    .await
}

/// The result of `work`, which gives orders to a session, mostly about a file.
async fn in_session<T>(
    script: impl Fn(&wire::Request, usize) -> Script + Send + Sync + 'static,
    work: impl AsyncFnOnce(&CommandSender, &Arc<SharedFile>) -> T,
) -> T {
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    let server = tokio::spawn(serve(theirs, script));
    let mut setup = SessionConfig::new("test");
    setup.pipelining = Pipelining::Login;
    let (orders, mut commands) = command_channel();
    let name = Arc::new(SharedFile::for_reading("/f".to_owned()));
    let parts = DriverParts {
        session: Session::new(setup),
        first: Vec::new(),
        commands: &mut commands,
        meter: Arc::new(ConnectionMeter::new(Arc::default(), PoolProgress::default())),
        load: Arc::new(SessionLoad::alone()),
        // The server has no checksums of pages.
        config: TransportConfig { verify: PageChecksums::Never, ..TransportConfig::default() },
        name: "root://test".to_owned(),
        rtt: Duration::from_millis(1),
        round_trip: 1,
        ahead: false,
    };
    let driving = Driver::new(parts, ours).run();
    let working = async {
        let seen = work(&orders, &name).await;
        drop(orders);
        seen
    };
    let (seen, _) = tokio::join!(working, driving);
    server.abort();
    seen
}

fn read_job(
    name: &Arc<SharedFile>,
    range: Range<u64>,
    reply: oneshot::Sender<Result<FileVersion, JobError>>,
) -> ReadJob {
    let request = Request { ranges: vec![range], ..Request::default() };
    ReadJob { name: Arc::clone(name), request, sink: Box::new(|_| ()), round_trip: 1, reply }
}

fn kind(came: Result<FileVersion, JobError>) -> ErrorKind {
    match came {
        Err(JobError::Failed(error)) => error.kind(),
        other => panic!("{other:?}"),
    }
}

fn ten() -> Response {
    Response::Ok(Bytes::from_static(&[1; 10]))
}

/// The response to a read of one range or of several; none to another request.
fn zeros(request: &wire::Request) -> Option<Response> {
    let mut bytes = Vec::new();
    match request {
        wire::Request::Read { length, .. } => bytes.resize(*length as usize, 0),
        wire::Request::ReadVector(segments) => {
            for wire::Segment { handle, length, offset } in segments {
                bytes.extend(handle.0);
                bytes.extend(length.to_be_bytes());
                bytes.extend(offset.to_be_bytes());
                bytes.resize(bytes.len() + *length as usize, 0);
            }
        }
        _ => return None,
    }
    Some(Response::Ok(bytes.into()))
}

#[tokio::test(start_paused = true)]
async fn a_request_is_sent_again_after_the_wait_that_the_server_asks_for() {
    // Together longer than any timeout.
    let (came, took) = read(|request, before| match (request, before) {
        (wire::Request::Login(_), 0) => vec![(0, Response::wait(40, "full"))],
        (wire::Request::Open(_), _) => vec![(0, opened())],
        (wire::Request::Read { .. }, 0) => vec![(0, Response::wait(50, "full"))],
        (wire::Request::Read { .. }, _) => vec![(0, ten())],
        _ => Vec::new(),
    })
    .await;
    assert_eq!(came.unwrap().size, Some(1000));
    assert_eq!(took.as_secs(), 90);
}

#[tokio::test(start_paused = true)]
async fn a_request_fails_when_its_waits_exceed_the_first_byte_timeout() {
    for login in [true, false] {
        let (came, took) = read(move |request, _| match request {
            wire::Request::Login(_) if login => vec![(0, Response::wait(20, "full"))],
            wire::Request::Open(_) => vec![(0, opened())],
            wire::Request::Read { .. } => vec![(0, Response::wait(20, "full"))],
            _ => Vec::new(),
        })
        .await;
        assert_eq!((kind(came), took.as_secs()), (ErrorKind::Unavailable, 60), "login: {login}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_long_wait_for_staging_is_returned_at_once() {
    let (came, took) = read(|request, _| match request {
        wire::Request::Open(_) => vec![(0, Response::wait(1800, "staging"))],
        _ => Vec::new(),
    })
    .await;
    assert_eq!(took.as_secs(), 0);
    match came {
        Err(JobError::Failed(error)) => {
            assert_eq!(error.retry(), Retry::Later { after: Duration::from_secs(1800) });
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn an_announced_response_is_awaited_as_long_as_announced() {
    for (after, good) in [(299, true), (100_000, false)] {
        let (came, took) = read(move |request, _| match request {
            wire::Request::Open(_) => vec![(0, opened())],
            wire::Request::Read { .. } => vec![(0, Response::Later(300)), (after, ten())],
            _ => Vec::new(),
        })
        .await;
        let expected = if good { 299 } else { 300 };
        assert_eq!((came.is_ok(), took.as_secs()), (good, expected));
    }
}

#[tokio::test(start_paused = true)]
async fn a_response_that_is_announced_again_and_again_is_awaited_for_ten_minutes() {
    for (opens, seconds) in [(true, 300), (false, 300), (false, 3600)] {
        let (came, took) = read(move |request, _| match request {
            wire::Request::Open(_) if opens => announced(seconds),
            wire::Request::Open(_) => vec![(0, opened())],
            wire::Request::Read { .. } => announced(seconds),
            _ => Vec::new(),
        })
        .await;
        assert_eq!((kind(came), took.as_secs()), (ErrorKind::Timeout, 600), "{opens} {seconds}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_times_out() {
    let config = TransportConfig::default();
    let (came, took) = read(|request, _| match request {
        wire::Request::Open(_) => vec![(0, opened())],
        _ => Vec::new(),
    })
    .await;
    // The server has sent something before.
    assert_eq!((kind(came), took), (ErrorKind::Timeout, config.no_progress_timeout));
    let (came, took) = read(|request, _| match request {
        wire::Request::Open(_) => vec![(0, opened())],
        wire::Request::Read { .. } => vec![(25, Response::Partial(Bytes::from_static(&[1; 5])))],
        _ => Vec::new(),
    })
    .await;
    assert_eq!(kind(came), ErrorKind::Timeout);
    assert_eq!(took, config.no_progress_timeout + Duration::from_secs(25));
}

#[tokio::test(start_paused = true)]
async fn frames_without_data_and_messages_are_no_sign_of_life() {
    let most = TransportConfig::default().no_progress_timeout;
    for sent in [Response::Partial(Bytes::new()), message()] {
        for opens in [true, false] {
            let endless: Script = (0..1000).map(|_| (10, sent.clone())).collect();
            let (came, took) = read(move |request, _| match request {
                wire::Request::Open(_) if opens => endless.clone(),
                wire::Request::Open(_) => vec![(0, opened())],
                wire::Request::Read { .. } => endless.clone(),
                _ => Vec::new(),
            })
            .await;
            assert_eq!((kind(came), took), (ErrorKind::Timeout, most), "{sent:?} {opens}");
        }
    }
    // A byte is one.
    let (came, took) = read(|request, _| match request {
        wire::Request::Open(_) => vec![(0, opened())],
        wire::Request::Read { .. } => {
            let byte = (25, Response::Partial(Bytes::from_static(&[1])));
            vec![byte; 10].into_iter().chain([(0, Response::nothing())]).collect()
        }
        _ => Vec::new(),
    })
    .await;
    assert_eq!((came.is_ok(), took.as_secs()), (true, 250));
}

#[tokio::test(start_paused = true)]
async fn a_request_without_a_response_fails_while_others_get_theirs() {
    let (sender, mut entries) = EntrySender::channel(1 << 20);
    let (reply, listed) = oneshot::channel();
    let what = Operation::List("/d".to_owned(), sender);
    let list = SessionCommand::Operation(2, OperationJob { what, round_trip: 1, reply });
    let (came, took) = read_beside(Some(list), |request, _| match request {
        wire::Request::Open(_) => vec![(0, opened())],
        wire::Request::List { .. } => {
            let first = (0, Response::Partial(Bytes::from_static(b".\n0 0 0 0\n")));
            let entry = (10, Response::Partial(Bytes::from_static(b"n\n1 5 16 0\n")));
            std::iter::once(first).chain(vec![entry; 1000]).collect()
        }
        _ => Vec::new(),
    })
    .await;
    assert_eq!((kind(came), took.as_secs()), (ErrorKind::Timeout, 660));
    let listed_before = std::iter::from_fn(|| entries.try_recv().ok()).count();
    assert!(listed_before > 60, "{listed_before}");
    drop(listed);
}

#[tokio::test(start_paused = true)]
async fn an_operation_without_a_response_fails_whatever_else_is_sent() {
    for opens in [true, false] {
        let (reply, operated) = oneshot::channel();
        let lost = Arc::new(SharedFile::for_reading("/lost".to_owned()));
        let what = if opens { Operation::Open(lost) } else { Operation::Close(lost) };
        let other = SessionCommand::Operation(2, OperationJob { what, round_trip: 1, reply });
        let start = Instant::now();
        let operated = tokio::spawn(async move {
            let came = operated.await.unwrap();
            (came, start.elapsed().as_secs())
        });
        // Each response to the read is followed by another request.
        let (came, took) = read_range(
            0..100 * PIECE,
            |_| Some(other),
            move |request, _| match request {
                wire::Request::Open(open) if opens && open.path == "/lost" => Vec::new(),
                wire::Request::Open(_) => vec![(0, opened_with(100 * PIECE))],
                request => zeros(request).map(|zeros| (10, zeros)).into_iter().collect(),
            },
        )
        .await;
        assert!(came.is_ok() && took.as_secs() > 900, "{came:?} {took:?}");
        match operated.await.unwrap() {
            (Err(JobError::Failed(error)), 660) => assert_eq!(error.kind(), ErrorKind::Timeout),
            other => panic!("{opens}: {other:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_long_read_fails_at_once_when_the_server_has_lost_its_file() {
    let (reply, _refused) = oneshot::channel();
    let other =
        |name: &Arc<SharedFile>| Some(SessionCommand::Fetch(2, read_job(name, 0..10, reply)));
    let (came, took) = read_range(0..100 * PIECE, other, |request, _| match request {
        wire::Request::Open(_) => vec![(0, opened_with(100 * PIECE))],
        wire::Request::Read { length: 10, .. } => {
            vec![(0, Response::error(ErrorCode::FILE_NOT_OPEN, "not an open file"))]
        }
        request => zeros(request).map(|zeros| (0, zeros)).into_iter().collect(),
    })
    .await;
    match came {
        Err(JobError::Failed(error)) => {
            assert_eq!(error.retry(), Retry::SameServer { after: Duration::ZERO });
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(took, Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_tail_is_requested_once_though_another_read_opens_the_file_again() {
    let (requested, seen) = mpsc::channel();
    let script = move |request: &wire::Request, _| match request {
        wire::Request::Open(_) => vec![(0, opened())],
        wire::Request::Read { length: 10, .. } => {
            vec![(0, Response::error(ErrorCode::FILE_NOT_OPEN, "not an open file"))]
        }
        wire::Request::Read { length, .. } => {
            requested.send(*length).unwrap();
            // The response to the one for the tail does not come.
            let tail = (*length == 5).then_some(Response::Later(50));
            vec![(0, tail.unwrap_or_else(|| zeros(request).unwrap()))]
        }
        _ => Vec::new(),
    };
    in_session(script, async |orders, name| {
        let read = |id, range, tail| {
            let (reply, came) = oneshot::channel();
            let mut job = read_job(name, range, reply);
            job.request.tail = tail;
            orders.send(SessionCommand::Fetch(id, job));
            came
        };
        let _with_tail = read(1, 0..20, 5);
        tokio::time::sleep(Duration::from_secs(1)).await;
        read(2, 0..10, 0).await.unwrap().unwrap_err();
        // It opens the file once more.
        read(3, 0..30, 0).await.unwrap().unwrap();
    })
    .await;
    let mut lengths: Vec<_> = seen.try_iter().collect();
    lengths.sort_unstable();
    assert_eq!(lengths, [5, 20, 30]);
}

#[tokio::test(start_paused = true)]
async fn no_entry_of_a_listing_that_began_again_is_passed_on_twice() {
    let entries = || Bytes::from_static(b".\n0 0 0 0\nn\n1 5 16 0\n");
    for has_begun in [false, true] {
        let (sender, mut received) = EntrySender::channel(1 << 20);
        let (reply, _listed) = oneshot::channel();
        let what = Operation::List("/d".to_owned(), sender);
        let list = SessionCommand::Operation(2, OperationJob { what, round_trip: 1, reply });
        let (came, _) = read_beside(Some(list), move |request, before| match (request, before) {
            (wire::Request::Open(_), _) => vec![(0, opened())],
            (wire::Request::List { .. }, 0) => {
                let begun = has_begun.then(|| (0, Response::Partial(entries())));
                begun.into_iter().chain([(0, Response::wait(1, "full"))]).collect()
            }
            (wire::Request::List { .. }, _) => vec![(0, Response::Ok(entries()))],
            // It ends after the listing.
            (wire::Request::Read { .. }, 0) => vec![(0, Response::wait(10, "full"))],
            (wire::Request::Read { .. }, _) => vec![(0, ten())],
            _ => Vec::new(),
        })
        .await;
        came.unwrap();
        let received: Vec<_> = std::iter::from_fn(|| received.try_recv().ok()).collect();
        let passed_on = received.iter().filter(|it| it.is_ok()).count();
        assert_eq!(passed_on, 1, "{received:?}");
        let is_repeated = received.contains(&Err(ListingError::Repeated));
        assert_eq!(is_repeated, has_begun, "{received:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_short_read_is_an_error_that_allows_a_retry() {
    let (came, _) = read(|request, _| match request {
        wire::Request::Open(_) => vec![(0, opened())],
        wire::Request::Read { .. } => vec![(0, Response::Ok(Bytes::from_static(&[1; 7])))],
        _ => Vec::new(),
    })
    .await;
    match came {
        Err(JobError::Failed(error)) => {
            assert_eq!(error.retry(), Retry::SameServer { after: Duration::ZERO });
            assert!(error.to_string().contains("3 bytes at 7"), "{error}");
        }
        other => panic!("{other:?}"),
    }
}
