//! The access log: a JSON object in a line for every request, when its answer has ended, however it did.
//!
//! Lines are written by a thread of their own. If the disk cannot keep up, requests do not wait for it: lines are left out,
//! and the next one says how many.

use crate::body::Body;
use bytes::Bytes;
use hither_core::error::{Error, ErrorKind, Result};
use http::StatusCode;
use hyper::body::{Frame, SizeHint};
use serde::Serialize;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::task::{Context, Poll, ready};
use std::time::SystemTime;
use tokio::time::Instant;

/// Lines that may wait to be written.
const MOST_WAITING: usize = 16_384;
/// Longest text of a client that is kept.
const MOST_TEXT: usize = 512;

/// What is noted of a request.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Line {
    time: String,
    peer: SocketAddr,
    protocol: &'static str,
    tls: bool,
    method: String,
    target: String,
    status: u16,
    /// Ranges that were sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    ranges: Option<usize>,
    /// Bytes of the body of the answer that were handed to the connection.
    sent: u64,
    /// Milliseconds until the head of the answer, and until its end.
    head_ms: f64,
    ms: f64,
    /// Whether all of the answer was handed to the connection.
    complete: bool,
    #[serde(skip_serializing_if = "String::is_empty")]
    agent: String,
}

/// Where lines go.
#[derive(Debug, Clone)]
pub(crate) struct AccessLog(Option<Arc<Lines>>);

#[derive(Debug)]
struct Lines {
    feed: SyncSender<Line>,
    lost: AtomicU64,
}

impl AccessLog {
    /// A log in a file, `-` for the standard error; none if there is no path.
    pub(crate) fn open(path: Option<&Path>) -> Result<Self> {
        let Some(path) = path else { return Ok(Self(None)) };
        let cannot = |error: io::Error| {
            let what = format!("cannot write the access log {}", path.display());
            Error::new(ErrorKind::Local, what).with_source(error)
        };
        let out: Box<dyn Write + Send> = match path.as_os_str() == "-" {
            true => Box::new(io::stderr()),
            false => {
                Box::new(OpenOptions::new().append(true).create(true).open(path).map_err(cannot)?)
            }
        };
        let (feed, lines) = sync_channel(MOST_WAITING);
        let log = Arc::new(Lines { feed, lost: AtomicU64::new(0) });
        std::thread::Builder::new()
            .name("hither-log".to_owned())
            .spawn(move || write_all(&lines, out))
            .map_err(cannot)?;
        Ok(Self(Some(log)))
    }

    /// Notes a request; give its answer to what comes back.
    pub(crate) fn begin<B>(&self, request: &http::Request<B>, peer: SocketAddr, tls: bool) -> Note {
        let log = self.0.clone();
        let line = log.as_ref().map(|_| Line {
            time: crate::iso_date::format(SystemTime::now()),
            peer,
            protocol: match request.version() {
                http::Version::HTTP_2 => "h2",
                http::Version::HTTP_10 => "http/1.0",
                _ => "http/1.1",
            },
            tls,
            method: short(request.method().as_str()),
            target: short(&request.uri().to_string()),
            status: 0,
            ranges: None,
            sent: 0,
            head_ms: 0.0,
            ms: 0.0,
            complete: false,
            agent: agent(request),
        });
        Note { log, line, began: Instant::now() }
    }
}

fn agent<B>(request: &http::Request<B>) -> String {
    let agent = request.headers().get(http::header::USER_AGENT);
    agent.and_then(|agent| agent.to_str().ok()).map(short).unwrap_or_default()
}

fn short(text: &str) -> String {
    text.chars().take(MOST_TEXT).collect()
}

fn write_all(lines: &Receiver<Line>, mut out: Box<dyn Write + Send>) {
    while let Ok(line) = lines.recv() {
        let mut text = Vec::new();
        let mut line = Some(line);
        // Whatever waits goes with it.
        while let Some(next) = line.take() {
            if serde_json::to_writer(&mut text, &next).is_ok() {
                text.push(b'\n');
            }
            line = if text.len() < 64 << 10 { lines.try_recv().ok() } else { None };
        }
        // There is nobody to tell that the log cannot be written.
        drop(out.write_all(&text).and_then(|()| out.flush()));
    }
}

/// A request of which a line will be written.
#[derive(Debug)]
pub(crate) struct Note {
    log: Option<Arc<Lines>>,
    line: Option<Line>,
    began: Instant,
}

impl Note {
    /// The head of the answer is ready: from now on its body is watched.
    pub(crate) fn answered(
        mut self,
        status: StatusCode,
        ranges: Option<usize>,
        body: Body,
    ) -> Watched {
        let ms = self.milliseconds();
        if let Some(line) = &mut self.line {
            line.status = status.as_u16();
            line.ranges = ranges;
            line.head_ms = ms;
            line.complete = hyper::body::Body::is_end_stream(&body);
        }
        Watched { body, note: self }
    }

    fn milliseconds(&self) -> f64 {
        (self.began.elapsed().as_secs_f64() * 1e6).round() / 1e3
    }
}

impl Drop for Note {
    fn drop(&mut self) {
        let ms = self.milliseconds();
        let (Some(mut line), Some(log)) = (self.line.take(), &self.log) else { return };
        line.ms = ms;
        let lost = log.lost.swap(0, Ordering::Relaxed);
        if lost > 0 {
            line.agent = format!("{} ({lost} lines were left out before this one)", line.agent);
        }
        if log.feed.try_send(line).is_err() {
            log.lost.fetch_add(lost + 1, Ordering::Relaxed);
        }
    }
}

/// The body of an answer; the line is written when it is dropped.
#[derive(Debug)]
pub(crate) struct Watched {
    body: Body,
    note: Note,
}

impl hyper::body::Body for Watched {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        let over = self.body.is_end_stream();
        if let Some(line) = &mut self.note.line {
            match &frame {
                Some(Ok(frame)) => line.sent += frame.data_ref().map_or(0, Bytes::len) as u64,
                Some(Err(_)) => {}
                None => line.complete = true,
            }
            line.complete |= over && !matches!(frame, Some(Err(_)));
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
