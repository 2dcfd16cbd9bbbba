//! The access log: one line of JSON per request, written when its response has ended in any way.
//!
//! A thread of its own writes the lines. If the disk cannot keep up, requests do not wait for it:
//! lines are dropped, and the next one says how many. The thread also switches to another file, on
//! request and between two lines, so rotating the log loses or splits none.

use crate::connection::peer::Peer;
use crate::monitoring::request_stats::RequestStats;
use hither_core::error::{Error, ErrorKind, Result};
use hither_transport::TcpInfo;
use serde::Serialize;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, SystemTime};

/// The maximum number of lines that wait to be written.
const MAX_WAITING: usize = 16_384;
/// The maximum length of a text from a client; the rest is cut off.
const MAX_TEXT: usize = 512;
/// The approximate number of bytes written at a time.
const BATCH_BYTES: usize = 64 << 10;
/// The maximum time that shutdown waits for the log.
const MAX_FLUSH: Duration = Duration::from_secs(2);

/// The entry of one request.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct AccessLogEntry {
    time: String,
    peer: SocketAddr,
    /// The user, as the authorizer names them.
    #[serde(skip_serializing_if = "String::is_empty")]
    who: String,
    protocol: &'static str,
    tls: bool,
    method: String,
    target: String,
    status: u16,
    /// Why the request failed, or why its response ended early.
    #[serde(skip_serializing_if = "String::is_empty")]
    reason: String,
    /// The number of ranges sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    ranges: Option<usize>,
    /// Body bytes of the request, and those of the response that the connection took.
    received: u64,
    sent: u64,
    /// Milliseconds to the head and to the end of the response; see
    /// [`crate::monitoring::request_record`].
    head_ms: f64,
    ms: f64,
    disk_ms: f64,
    client_ms: f64,
    /// True if the connection took the whole response.
    complete: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    tcp: Option<TcpInfo>,
    #[serde(skip_serializing_if = "String::is_empty")]
    agent: String,
    /// Lines dropped before this one.
    #[serde(skip_serializing_if = "is_zero")]
    lost: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl AccessLogEntry {
    pub(crate) fn new<B>(request: &http::Request<B>, peer: &Peer) -> Self {
        let agent = request.headers().get(http::header::USER_AGENT);
        Self {
            time: crate::response::rfc3339_millis(SystemTime::now()),
            peer: peer.address,
            who: String::new(),
            protocol: match request.version() {
                http::Version::HTTP_2 => "h2",
                http::Version::HTTP_10 => "http/1.0",
                _ => "http/1.1",
            },
            tls: peer.is_secure,
            method: short(request.method().as_str()),
            target: short(&without_tokens(&request.uri().to_string())),
            status: 0,
            reason: String::new(),
            ranges: None,
            received: 0,
            sent: 0,
            head_ms: 0.0,
            ms: 0.0,
            disk_ms: 0.0,
            client_ms: 0.0,
            complete: false,
            tcp: None,
            agent: agent.and_then(|agent| agent.to_str().ok()).map(short).unwrap_or_default(),
            lost: 0,
        }
    }

    pub(crate) fn set_name(&mut self, name: &str) {
        self.who = short(name);
    }

    pub(crate) fn set_reason(&mut self, reason: &str) {
        self.reason = short(reason);
    }

    /// Fills in the results of a finished request.
    pub(crate) fn fill(&mut self, figures: &RequestStats, tcp: Option<TcpInfo>) {
        self.status = figures.status;
        self.ranges = figures.ranges;
        (self.received, self.sent) = (figures.received, figures.sent);
        self.head_ms = milliseconds(figures.head);
        self.ms = milliseconds(figures.whole);
        self.disk_ms = milliseconds(figures.disk);
        self.client_ms = milliseconds(figures.client);
        self.complete = figures.complete;
        self.tcp = tcp;
    }
}

/// Removes the tokens that some clients put into the query of a target.
fn without_tokens(target: &str) -> String {
    const SECRET: [&str; 3] = ["authz", "access_token", "token"];
    let Some((path, query)) = target.split_once('?') else { return target.to_owned() };
    let query = query.split('&').map(|item| match item.split_once('=') {
        Some((name, _)) if SECRET.iter().any(|secret| name.eq_ignore_ascii_case(secret)) => {
            format!("{name}=...")
        }
        _ => item.to_owned(),
    });
    format!("{path}?{}", query.collect::<Vec<_>>().join("&"))
}

fn milliseconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

fn short(text: &str) -> String {
    text.chars().take(MAX_TEXT).collect()
}

/// The sending end of the log.
#[derive(Debug, Clone)]
pub(crate) struct AccessLog(Option<Arc<Lines>>);

#[derive(Debug)]
struct Lines {
    sender: SyncSender<Message>,
    lost: Arc<LostLines>,
}

/// Lines that were dropped or could not be written: since the last written one, and in total.
#[derive(Debug, Default)]
struct LostLines {
    unreported: AtomicU64,
    total: AtomicU64,
}

impl LostLines {
    /// Counts lost lines, which would have reported `reported` others.
    fn add(&self, lines: u64, reported: u64) {
        self.unreported.fetch_add(lines.saturating_add(reported), Ordering::Relaxed);
        self.total.fetch_add(lines, Ordering::Relaxed);
    }
}

enum Message {
    Line(Box<AccessLogEntry>),
    /// Writes the following lines there.
    Reopen(Box<dyn Write + Send>),
    /// Responds when all lines before are written.
    Flush(SyncSender<()>),
}

impl AccessLog {
    /// Opens a log in a file, `-` for the standard error; without a path, nothing is logged.
    pub(crate) fn open(path: Option<&Path>) -> Result<Self> {
        let Some(path) = path else { return Ok(Self(None)) };
        let out = open_output(path)?;
        let (sender, messages) = sync_channel(MAX_WAITING);
        let lines = Lines { sender, lost: Arc::default() };
        let lost = Arc::clone(&lines.lost);
        std::thread::Builder::new()
            .name("hither-log".to_owned())
            .spawn(move || write_all(&messages, out, &lost))
            .map_err(|error| cannot(path, error))?;
        Ok(Self(Some(Arc::new(lines))))
    }

    /// Returns true if requests are logged.
    pub(crate) fn is_kept(&self) -> bool {
        self.0.is_some()
    }

    /// Continues in the file of that name, which may be a new one. May wait for the disk.
    ///
    /// # Errors
    /// The file cannot be opened: the log continues as before.
    pub(crate) fn reopen(&self, path: &Path) -> Result<()> {
        let Some(lines) = &self.0 else { return Ok(()) };
        // If the thread has ended, the server is about to end.
        let _ = lines.sender.send(Message::Reopen(open_output(path)?));
        Ok(())
    }

    /// Waits until all lines so far are written, at most [`MAX_FLUSH`].
    pub(crate) fn flush(&self) {
        let Some(lines) = &self.0 else { return };
        let (written, flushed) = sync_channel(1);
        let sender = lines.sender.clone();
        // The queue is full where the disk does not respond. That thread is not waited for.
        let sending =
            std::thread::Builder::new().spawn(move || drop(sender.send(Message::Flush(written))));
        if sending.is_ok() {
            let _ = flushed.recv_timeout(MAX_FLUSH);
        }
    }

    /// Lines dropped or not written so far.
    pub(crate) fn lost(&self) -> u64 {
        self.0.as_ref().map_or(0, |lines| lines.lost.total.load(Ordering::Relaxed))
    }

    pub(crate) fn write(&self, mut line: Box<AccessLogEntry>) {
        let Some(lines) = &self.0 else { return };
        line.lost = lines.lost.unreported.swap(0, Ordering::Relaxed);
        let reported = line.lost;
        if lines.sender.try_send(Message::Line(line)).is_err() {
            lines.lost.add(1, reported);
        }
    }
}

fn open_output(path: &Path) -> Result<Box<dyn Write + Send>> {
    if path.as_os_str() == "-" {
        return Ok(Box::new(io::stderr()));
    }
    let file = OpenOptions::new().append(true).create(true).open(path);
    file.map(|file| Box::new(file) as Box<dyn Write + Send>).map_err(|error| cannot(path, error))
}

fn cannot(path: &Path, error: io::Error) -> Error {
    let what = format!("cannot write the access log {}", path.display());
    Error::new(ErrorKind::Local, what).with_source(error)
}

fn write_all(messages: &Receiver<Message>, out: Box<dyn Write + Send>, lost: &LostLines) {
    let mut batch = Batch { out, text: Vec::new(), lines: 0, reported: 0 };
    while let Ok(message) = messages.recv() {
        let mut message = Some(message);
        // Lines that already wait join the batch.
        while let Some(next) = message.take() {
            match next {
                Message::Line(line) => batch.add(&line),
                Message::Reopen(other) => {
                    batch.write(lost);
                    batch.out = other;
                }
                Message::Flush(sender) => {
                    batch.write(lost);
                    // The receiver may have stopped waiting.
                    let _ = sender.send(());
                }
            }
            message = if batch.text.len() < BATCH_BYTES { messages.try_recv().ok() } else { None };
        }
        batch.write(lost);
    }
}

/// Lines that are written together.
struct Batch {
    out: Box<dyn Write + Send>,
    text: Vec<u8>,
    lines: u64,
    /// The lost lines that they report.
    reported: u64,
}

impl Batch {
    fn add(&mut self, line: &AccessLogEntry) {
        if serde_json::to_writer(&mut self.text, line).is_ok() {
            self.text.push(b'\n');
            self.lines += 1;
            self.reported = self.reported.saturating_add(line.lost);
        }
    }

    fn write(&mut self, lost: &LostLines) {
        if self.out.write_all(&self.text).and_then(|()| self.out.flush()).is_err() {
            // Only the metrics can show that.
            lost.add(self.lines, self.reported);
        }
        self.text.clear();
        (self.lines, self.reported) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::response::buffer_pool::{BufferPool, ConnectionMemory};
    use hither_testkit::waiting::wait_until;

    #[test]
    fn tokens_in_queries_are_removed() {
        for (target, kept) in [
            ("/a?b", "/a?b"),
            ("/a?authz=Bearer%20x&b=c", "/a?authz=...&b=c"),
            ("/a?b=c&Access_Token=x", "/a?b=c&Access_Token=..."),
        ] {
            assert_eq!(without_tokens(target), kept);
        }
    }

    #[test]
    fn lines_that_cannot_be_written_are_counted() {
        let log = AccessLog::open(Some(Path::new("/dev/full"))).unwrap();
        let pool = Arc::new(BufferPool::new(1 << 20));
        let line = || {
            let address = ([127, 0, 0, 1], 1).into();
            let peer = Peer {
                connection: 1,
                address,
                is_secure: false,
                certificate: None,
                socket: Arc::default(),
                monitor: Arc::default(),
                timing: Arc::default(),
                memory: Arc::new(ConnectionMemory::new(&pool, Arc::default())),
            };
            Box::new(AccessLogEntry::new(&http::Request::new(()), &peer))
        };
        log.write(line());
        log.write(line());
        // A flush may end before they are written: it does not wait for long.
        assert!(wait_until(|| log.lost() == 2), "{} lines", log.lost());
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("log");
        log.reopen(&file).unwrap();
        log.write(line());
        let text = || std::fs::read_to_string(&file).unwrap();
        assert!(wait_until(|| text().ends_with("\"lost\":2}\n")), "{}", text());
        assert_eq!(log.lost(), 2);
    }

    #[test]
    fn a_log_whose_disk_does_not_respond_is_not_waited_for() {
        // Nobody receives, as when the thread waits for the disk.
        let (sender, _messages) = sync_channel(0);
        let log = AccessLog(Some(Arc::new(Lines { sender, lost: Arc::default() })));
        let (ends, ended) = sync_channel(1);
        std::thread::spawn(move || {
            log.flush();
            ends.send(()).unwrap();
        });
        assert!(wait_until(|| ended.try_recv().is_ok()), "it is waited for");
    }

    #[test]
    fn a_log_that_cannot_be_reopened_continues() {
        let folder = tempfile::tempdir().unwrap();
        let log = AccessLog::open(Some(&folder.path().join("log"))).unwrap();
        assert!(log.reopen(&folder.path().join("no/log")).is_err());
        assert!(log.is_kept());
        assert!(AccessLog::open(None).unwrap().reopen(Path::new("/no/log")).is_ok());
    }
}
