//! The access log: a JSON object in a line for every request, when its answer has ended, however it did.
//!
//! Lines are written by a thread of their own. If the disk cannot keep up, requests do not wait for it: lines are left out,
//! and the next one says how many. The thread also takes over another file when it is told to, between two lines: none is lost
//! or torn when the old one is put away.

use crate::connection::peer::Peer;
use crate::connection::tcp_info::TcpInfo;
use crate::monitoring::request_stats::RequestStats;
use hither_core::error::{Error, ErrorKind, Result};
use serde::Serialize;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, SystemTime};

/// Lines that may wait to be written.
const MAX_WAITING: usize = 16_384;
/// Longest text of a client that is kept.
const MAX_TEXT: usize = 512;
/// Bytes that are written at a time, about.
const BATCH_BYTES: usize = 64 << 10;
/// How long the end of the server waits for its log.
const PATIENCE: Duration = Duration::from_secs(2);

/// What is noted of a request.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct AccessLogEntry {
    time: String,
    peer: SocketAddr,
    /// As the authorizer knows them.
    #[serde(skip_serializing_if = "String::is_empty")]
    who: String,
    protocol: &'static str,
    tls: bool,
    method: String,
    target: String,
    status: u16,
    /// Why it was refused, or why its answer broke off.
    #[serde(skip_serializing_if = "String::is_empty")]
    reason: String,
    /// Ranges that were sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    ranges: Option<usize>,
    /// Bytes of the body of the request, and of that of the answer that were handed to the connection.
    received: u64,
    sent: u64,
    /// Milliseconds until the head of the answer, and until its end; see [`crate::monitoring::note`].
    head_ms: f64,
    ms: f64,
    disk_ms: f64,
    client_ms: f64,
    /// Whether all of the answer was handed to the connection.
    complete: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    tcp: Option<TcpInfo>,
    #[serde(skip_serializing_if = "String::is_empty")]
    agent: String,
    /// Lines that were left out before this one.
    #[serde(skip_serializing_if = "is_zero")]
    lost: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks in this way")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl AccessLogEntry {
    pub(crate) fn new<B>(request: &http::Request<B>, peer: &Peer) -> Self {
        let agent = request.headers().get(http::header::USER_AGENT);
        Self {
            time: crate::iso_date::format(SystemTime::now()),
            peer: peer.address,
            who: String::new(),
            protocol: match request.version() {
                http::Version::HTTP_2 => "h2",
                http::Version::HTTP_10 => "http/1.0",
                _ => "http/1.1",
            },
            tls: peer.is_secure,
            method: short(request.method().as_str()),
            target: short(&without_secrets(&request.uri().to_string())),
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

    /// The request is over.
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

/// A target without the tokens that some clients put into its query.
fn without_secrets(target: &str) -> String {
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

/// Where lines go.
#[derive(Debug, Clone)]
pub(crate) struct AccessLog(Option<Arc<Lines>>);

#[derive(Debug)]
struct Lines {
    feed: SyncSender<Entry>,
    lost: Arc<Lost>,
}

/// Lines that were left out, or could not be written, since the last one that was not, and in all.
#[derive(Debug, Default)]
struct Lost {
    lately: AtomicU64,
    ever: AtomicU64,
}

impl Lost {
    /// So many, which would have told of `told` others.
    fn add(&self, lines: u64, told: u64) {
        self.lately.fetch_add(lines.saturating_add(told), Ordering::Relaxed);
        self.ever.fetch_add(lines, Ordering::Relaxed);
    }
}

enum Entry {
    Line(Box<AccessLogEntry>),
    /// From here on, lines go there.
    Out(Box<dyn Write + Send>),
    /// Whoever waits for that has all lines before it written.
    Written(SyncSender<()>),
}

impl AccessLog {
    /// A log in a file, `-` for the standard error; none if there is no path.
    pub(crate) fn open(path: Option<&Path>) -> Result<Self> {
        let Some(path) = path else { return Ok(Self(None)) };
        let out = opened(path)?;
        let (feed, entries) = sync_channel(MAX_WAITING);
        let lines = Lines { feed, lost: Arc::default() };
        let lost = Arc::clone(&lines.lost);
        std::thread::Builder::new()
            .name("hither-log".to_owned())
            .spawn(move || write_all(&entries, out, &lost))
            .map_err(|error| cannot(path, error))?;
        Ok(Self(Some(Arc::new(lines))))
    }

    /// Whether there is one.
    pub(crate) fn is_kept(&self) -> bool {
        self.0.is_some()
    }

    /// Goes on in the file of that name, which may be another than before. May wait for the disk.
    ///
    /// # Errors
    /// It cannot be opened: the log goes on as before.
    pub(crate) fn reopen(&self, path: &Path) -> Result<()> {
        let Some(lines) = &self.0 else { return Ok(()) };
        // If nobody receives any more, the server is about to end.
        let _ = lines.feed.send(Entry::Out(opened(path)?));
        Ok(())
    }

    /// Waits until all lines so far are written, or [`PATIENCE`] is over.
    pub(crate) fn flush(&self) {
        let Some(lines) = &self.0 else { return };
        let (written, all) = sync_channel(1);
        if lines.feed.send(Entry::Written(written)).is_ok() {
            let _ = all.recv_timeout(PATIENCE);
        }
    }

    /// Lines that were left out or could not be written so far.
    pub(crate) fn lost(&self) -> u64 {
        self.0.as_ref().map_or(0, |lines| lines.lost.ever.load(Ordering::Relaxed))
    }

    pub(crate) fn write(&self, mut line: Box<AccessLogEntry>) {
        let Some(lines) = &self.0 else { return };
        line.lost = lines.lost.lately.swap(0, Ordering::Relaxed);
        let told = line.lost;
        if lines.feed.try_send(Entry::Line(line)).is_err() {
            lines.lost.add(1, told);
        }
    }
}

fn opened(path: &Path) -> Result<Box<dyn Write + Send>> {
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

fn write_all(entries: &Receiver<Entry>, out: Box<dyn Write + Send>, lost: &Lost) {
    let mut batch = Batch { out, text: Vec::new(), lines: 0, told: 0 };
    while let Ok(entry) = entries.recv() {
        let mut entry = Some(entry);
        // Whatever waits goes with it.
        while let Some(next) = entry.take() {
            match next {
                Entry::Line(line) => batch.add(&line),
                Entry::Out(other) => {
                    batch.write(lost);
                    batch.out = other;
                }
                Entry::Written(whom) => {
                    batch.write(lost);
                    // They may have lost patience.
                    let _ = whom.send(());
                }
            }
            entry = if batch.text.len() < BATCH_BYTES { entries.try_recv().ok() } else { None };
        }
        batch.write(lost);
    }
}

/// Lines that are written together.
struct Batch {
    out: Box<dyn Write + Send>,
    text: Vec<u8>,
    lines: u64,
    /// Lost ones that they tell of.
    told: u64,
}

impl Batch {
    fn add(&mut self, line: &AccessLogEntry) {
        if serde_json::to_writer(&mut self.text, line).is_ok() {
            self.text.push(b'\n');
            self.lines += 1;
            self.told = self.told.saturating_add(line.lost);
        }
    }

    fn write(&mut self, lost: &Lost) {
        if self.out.write_all(&self.text).and_then(|()| self.out.flush()).is_err() {
            // There is nobody to tell but those who read the metrics.
            lost.add(self.lines, self.told);
        }
        self.text.clear();
        (self.lines, self.told) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_in_queries_are_left_out() {
        for (target, kept) in [
            ("/a?b", "/a?b"),
            ("/a?authz=Bearer%20x&b=c", "/a?authz=...&b=c"),
            ("/a?b=c&Access_Token=x", "/a?b=c&Access_Token=..."),
        ] {
            assert_eq!(without_secrets(target), kept);
        }
    }

    #[test]
    fn lines_that_cannot_be_written_are_counted() {
        let log = AccessLog::open(Some(Path::new("/dev/full"))).unwrap();
        let line = || {
            let address = ([127, 0, 0, 1], 1).into();
            let peer = Peer {
                address,
                is_secure: false,
                certificate: None,
                socket: Arc::default(),
                watchdog: Arc::default(),
                sendfile: None,
            };
            Box::new(AccessLogEntry::new(&http::Request::new(()), &peer))
        };
        log.write(line());
        log.write(line());
        log.flush();
        assert_eq!(log.lost(), 2);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("log");
        log.reopen(&file).unwrap();
        log.write(line());
        log.flush();
        let text = std::fs::read_to_string(file).unwrap();
        assert!(text.ends_with("\"lost\":2}\n"), "{text}");
        assert_eq!(log.lost(), 2);
    }

    #[test]
    fn a_log_that_cannot_be_opened_again_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let log = AccessLog::open(Some(&folder.path().join("log"))).unwrap();
        assert!(log.reopen(&folder.path().join("no/log")).is_err());
        assert!(log.is_kept());
        assert!(AccessLog::open(None).unwrap().reopen(Path::new("/no/log")).is_ok());
    }
}
