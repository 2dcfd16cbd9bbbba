//! Control of a link's forwarder over a Unix socket: one JSON object per line as the request, and
//! one line as the response.

use crate::clock;
use crate::error::local;
use crate::observer::Observer;
use crate::registry::folder;
use crate::report::Report;
use hither_core::Result;
use hither_core::sync::lock;
use rustix::event::{EventfdFlags, eventfd};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Maximum size of a request. Responses have no limit.
const MAX_QUESTION: u64 = 4096;

/// A request to the forwarder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "ask")]
pub enum ControlRequest {
    /// Check that the forwarder responds.
    Ping,
    /// Return the counters, of connections to one port if given; then reset them if `reset`.
    Stats {
        /// Port of the server.
        port: Option<u16>,
        /// Reset the counters.
        reset: bool,
    },
    /// Stop.
    Stop,
}

/// State shared by the forwarding loop and the control thread.
#[derive(Debug)]
pub struct ForwarderControl {
    /// The counters.
    pub observer: Mutex<Observer>,
    /// True if the loop has to stop.
    pub stop: AtomicBool,
    /// Readable when `stop` is set.
    pub wake: OwnedFd,
}

impl ForwarderControl {
    /// Creates the state with empty counters.
    ///
    /// # Errors
    /// The process has no file descriptor left.
    pub fn new() -> Result<Arc<Self>> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|error| local("cannot make an eventfd").with_source(error))?;
        let observer = Mutex::new(Observer::new(clock::now()));
        Ok(Arc::new(Self { observer, stop: AtomicBool::new(false), wake }))
    }

    /// Stops the loop.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        // The only error is a counter at its maximum, which wakes the loop as well.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    fn answer(&self, question: ControlRequest) -> Option<Report> {
        match question {
            ControlRequest::Ping => None,
            ControlRequest::Stats { port, reset } => {
                let mut live = lock(&self.observer);
                let now = clock::now();
                // The report of a long run takes a while to compute; packets must not wait for it.
                let seen = live.clone();
                if reset {
                    live.reset(now);
                }
                drop(live);
                Some(seen.report(now, port))
            }
            ControlRequest::Stop => {
                self.stop();
                None
            }
        }
    }
}

/// Answers requests about the link `name` on its own thread, until the process exits.
///
/// # Errors
/// The socket cannot be created.
pub fn serve(name: &str, shared: &Arc<ForwarderControl>) -> Result<()> {
    let path = folder(name).join("control.sock");
    let _ = std::fs::remove_file(&path);
    let listener = UnixListener::bind(&path).map_err(|error| {
        local(format!("cannot listen on {}", path.display())).with_source(error)
    })?;
    let shared = Arc::clone(shared);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // If the caller has hung up, the error is ignored and the next caller is served.
            let _ = converse(&stream, &shared);
        }
    });
    Ok(())
}

fn converse(mut stream: &UnixStream, shared: &ForwarderControl) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.set_write_timeout(Some(Duration::from_secs(5)))?;
    let mut line = String::new();
    BufReader::new(stream.take(MAX_QUESTION)).read_line(&mut line)?;
    let question = serde_json::from_str(&line)?;
    let mut answer = serde_json::to_vec(&shared.answer(question))?;
    answer.push(b'\n');
    stream.write_all(&answer)
}

/// Sends a request to the forwarder of the link `name`. Returns a report if the request was for
/// counters.
///
/// # Errors
/// No forwarder of this link responds.
pub fn ask(name: &str, question: ControlRequest) -> Result<Option<Report>> {
    let exchange = || -> std::io::Result<Option<Report>> {
        let mut stream = UnixStream::connect(folder(name).join("control.sock"))?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        let mut line = serde_json::to_vec(&question)?;
        line.push(b'\n');
        stream.write_all(&line)?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(serde_json::from_str(&text)?)
    };
    exchange().map_err(|error| {
        local(format!("link {name} does not answer, bring it up with hither-wan up {name}"))
            .with_source(error)
    })
}
