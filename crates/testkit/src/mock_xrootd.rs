//! A mock XRootD server on the loopback with programmable faults.
//!
//! It serves one byte vector under every path, or files that requests can write, rename and remove
//! ([`MockXrootdServer::start_tree`]). [`hither_xrd::server`] decodes the requests, and the
//! server responds like a correct data server: a login without authentication, the lowest free
//! handle for each open, vectors in the requested order and rejected as a whole beyond the end of
//! the file, pages with checksums. A [`Fault`], one line each, is a deviation from that: of a
//! broken server, a failing manager or a bad network.
//!
//! A fault applies at a [`FaultStage`]: to whole connections, counted in the order of acceptance,
//! or to requests of one kind, counted over all connections in the order of arrival;
//! [`FaultTrigger`] selects them. Faults of connections apply at a [`BreakPoint`], a byte that one
//! side sends, so that a recorded exchange can be broken off at each of its bytes. Faults of
//! requests change the meaning of a response first (another offset, a part less, a wait), then its
//! bytes.
//!
//! Every request is logged on arrival. The server has its own thread and runtime, so that blocking
//! tests can use it too; dropping it stops both. It never waits for time to pass: a late response
//! follows its announcement directly, and a missing one leaves the connection open.

mod behaviours;
mod connection;
mod fault;
mod faulty_stream;
mod responses;
mod tree;

pub use crate::mock_http::FaultTrigger;
pub use behaviours::{AffectedReads, XrootdBehaviour, behaviours};
pub use fault::{BreakPoint, Fault, FaultStage};

use crate::test_server::TestServer;
use bytes::Bytes;
use connection::serve;
use hither_core::sync::lock;
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};
use tree::Tree;

/// A request as it arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Logged {
    /// Number of the connection, from 0 in the order of acceptance.
    pub connection: usize,
    /// Its name in the protocol, such as `open`.
    pub name: &'static str,
    /// The path of an open, with its parameters.
    pub path: Option<String>,
    /// The ranges to read.
    pub ranges: Vec<Range<u64>>,
    /// The request repeats one for a page that arrived damaged.
    pub again: bool,
}

/// The server.
#[derive(Debug)]
pub struct MockXrootdServer {
    shared: Arc<Shared>,
    running: TestServer,
}

/// State shared by the connections.
#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    bytes: Bytes,
    /// Number of replacements of the file, which its time of modification shows.
    replaced: i64,
    /// The files, if there are several.
    tree: Option<Tree>,
    /// The bytes that replace the file at the request with this number.
    next_bytes: Option<(usize, Bytes)>,
    faults: Vec<(FaultStage, FaultTrigger, Fault)>,
    /// Number of requests and connections of each kind so far.
    seen: HashMap<FaultStage, usize>,
    /// Bytes from and to the client on each connection.
    crossed: Vec<(usize, usize)>,
    stalls: usize,
    log: Vec<Logged>,
}

impl MockXrootdServer {
    /// Serves `bytes` on a free port of 127.0.0.1.
    ///
    /// # Errors
    ///
    /// No socket, runtime or thread can be created.
    pub fn start(bytes: impl Into<Bytes>) -> io::Result<Self> {
        Self::serving(State { bytes: bytes.into(), ..State::default() })
    }

    /// Serves the directory `/d`, in which requests can change names, on a free port of 127.0.0.1.
    ///
    /// # Errors
    ///
    /// No socket, runtime or thread can be created.
    pub fn start_tree() -> io::Result<Self> {
        let mut tree = Tree::default();
        tree.make("/d", None);
        Self::serving(State { tree: Some(tree), ..State::default() })
    }

    fn serving(state: State) -> io::Result<Self> {
        let shared = Arc::new(Shared { state: Mutex::new(state) });
        let served = Arc::clone(&shared);
        let running = TestServer::start("xrootd peer", |listener| serve(listener, served))?;
        Ok(Self { shared, running })
    }

    /// Adds a fault.
    #[must_use]
    pub fn with_fault(self, step: FaultStage, when: FaultTrigger, fault: Fault) -> Self {
        self.add_fault(step, when, fault);
        self
    }

    /// Adds a fault; requests are counted from here on.
    pub fn add_fault(&self, step: FaultStage, when: FaultTrigger, fault: Fault) {
        let mut state = self.shared.state();
        state.seen.clear();
        state.faults.push((step, when, fault));
    }

    /// Removes all faults.
    pub fn clear_faults(&self) {
        self.shared.state().faults.clear();
    }

    /// Replaces the file at the request numbered `request`, counted from 0 over all connections.
    /// Open handles still read the old file.
    pub fn replace_at(&self, request: usize, bytes: impl Into<Bytes>) {
        self.shared.state().next_bytes = Some((request, bytes.into()));
    }

    /// Stores a file, as another client would.
    pub fn store(&self, path: &str, bytes: &[u8]) {
        self.shared.state().tree.get_or_insert_default().make(path, Some(bytes));
    }

    /// Makes a directory, as another client would.
    pub fn make_directory(&self, path: &str) {
        self.shared.state().tree.get_or_insert_default().make(path, None);
    }

    /// The paths of all files and directories below `/d`. Those of directories end with a slash.
    #[must_use]
    pub fn paths(&self) -> Vec<String> {
        let state = self.shared.state();
        let paths = state.tree.iter().flat_map(Tree::paths).filter(|path| path != "/d/");
        paths.collect()
    }

    /// The bytes of a stored file.
    #[must_use]
    pub fn bytes(&self, path: &str) -> Option<Vec<u8>> {
        self.shared.state().tree.as_ref()?.bytes(path)
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

    /// Number of requests so far that get no response ([`Fault::Unanswered`]).
    #[must_use]
    pub fn stalls(&self) -> usize {
        self.shared.state().stalls
    }

    /// All requests so far, in the order of arrival.
    #[must_use]
    pub fn log(&self) -> Vec<Logged> {
        self.shared.state().log.clone()
    }

    /// Bytes from and to the client on each connection so far, in the order of acceptance.
    #[must_use]
    pub fn crossed(&self) -> Vec<(usize, usize)> {
        self.shared.state().crossed.clone()
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl State {
    /// The faults that apply to the next request of these kinds; `target` is its path, if any.
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
