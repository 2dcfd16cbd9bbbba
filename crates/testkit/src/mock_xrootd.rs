//! A server of XRootD's own protocol on the loopback that misbehaves on demand.
//!
//! It serves one byte vector under every path. Requests are taken apart by [`hither_xrd::server`], and answered as a good
//! data server does: a login without proof, handles from the lowest free one on, vectors in the order asked for and
//! refused as a whole beyond the end of the file, pages with checksums. What a broken server, a manager in trouble or a bad
//! path can do to that is a table of [`Fault`]s, one line each.
//!
//! A fault strikes at a [`FaultStage`]: at whole connections, counted in the order of acceptance, or at requests of one kind,
//! counted over all connections in the order of arrival; [`FaultTrigger`] says which of them. Those of connections strike at a
//! [`BreakPoint`], a byte of what one side sends, so that a recorded exchange can be broken off at each of its bytes. Those of
//! requests change the meaning of an answer first (another offset, a part less, a wait), then its bytes.
//!
//! Every request is logged as it arrived. The peer has a thread and a runtime of its own, so blocking tests can use it too;
//! dropping it ends both. Nothing in it waits for time to pass: what is late comes right behind its announcement, and what
//! never comes keeps the connection open.

mod behaviours;
mod connection;
mod fault;
mod faulty_stream;
mod responses;

pub use crate::mock_http::FaultTrigger;
pub use behaviours::{AffectedReads, XrootdBehaviour, manners};
pub use fault::{BreakPoint, Fault, FaultStage};

use crate::test_server::TestServer;
use bytes::Bytes;
use connection::serve;
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One request as it arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Logged {
    /// Number of the connection, from 0 in the order of acceptance.
    pub connection: usize,
    /// The protocol's name of it, such as `open`.
    pub name: &'static str,
    /// The path and what stands behind it, of an open.
    pub path: Option<String>,
    /// What is read.
    pub ranges: Vec<Range<u64>>,
    /// It is a page that arrived damaged before.
    pub again: bool,
}

/// The server.
#[derive(Debug)]
pub struct MockXrootdServer {
    shared: Arc<Shared>,
    running: TestServer,
}

/// What the connections share.
#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    bytes: Bytes,
    faults: Vec<(FaultStage, FaultTrigger, Fault)>,
    /// Requests, and connections, of each kind so far.
    seen: HashMap<FaultStage, usize>,
    /// Bytes that crossed each connection: from the client, and to it.
    crossed: Vec<(usize, usize)>,
    log: Vec<Logged>,
}

impl MockXrootdServer {
    /// Serves `bytes` on a free port of 127.0.0.1.
    ///
    /// # Errors
    ///
    /// No socket, runtime or thread can be made.
    pub fn start(bytes: impl Into<Bytes>) -> io::Result<Self> {
        let state = State { bytes: bytes.into(), ..State::default() };
        let shared = Arc::new(Shared { state: Mutex::new(state) });
        let served = Arc::clone(&shared);
        let running = TestServer::start("xrootd peer", |listener| serve(listener, served))?;
        Ok(Self { shared, running })
    }

    /// With one more fault.
    #[must_use]
    pub fn with_fault(self, step: FaultStage, when: FaultTrigger, fault: Fault) -> Self {
        self.add_fault(step, when, fault);
        self
    }

    /// From now on one more fault. What it strikes is counted from here on.
    pub fn add_fault(&self, step: FaultStage, when: FaultTrigger, fault: Fault) {
        let mut state = self.shared.state();
        state.seen.clear();
        state.faults.push((step, when, fault));
    }

    /// From now on no faults.
    pub fn clear_faults(&self) {
        self.shared.state().faults.clear();
    }

    /// Its host and port.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.running.address()
    }

    /// The URL of the file.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_of("/data/file.root")
    }

    /// The URL of the file under another path.
    #[must_use]
    pub fn url_of(&self, path: &str) -> String {
        format!("root://{}/{path}", self.running.address())
    }

    /// All requests so far, in the order of arrival.
    #[must_use]
    pub fn log(&self) -> Vec<Logged> {
        self.shared.state().log.clone()
    }

    /// Bytes that crossed each connection so far, in the order of acceptance: from the client, and to it.
    #[must_use]
    pub fn crossed(&self) -> Vec<(usize, usize)> {
        self.shared.state().crossed.clone()
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The faults that strike the next one of these kinds; `target` is the path, if it is a request for one.
    fn strikes(&mut self, steps: &[FaultStage], target: &str) -> Vec<Fault> {
        let mut faults = Vec::new();
        for step in steps {
            let seen = self.seen.entry(*step).or_default();
            let nth = std::mem::replace(seen, *seen + 1);
            let of_step = self.faults.iter().filter(|(of, ..)| of == step);
            let strike = of_step.filter(|(_, when, _)| when.includes(nth, target, nth == 0));
            faults.extend(strike.map(|(.., fault)| fault.clone()));
        }
        faults
    }
}

#[cfg(test)]
mod tests;
