//! Files are opened ahead of use, side by side, without a change of the program.
//!
//! Opening a file from afar costs a round trip at the least: its size, what tells its version, its first bytes. A program
//! that opens a thousand files one after the other pays a thousand of them one after the other, unless the opening runs
//! in the background, as in `XrdClient`'s parallel open of 2006. So [`crate::Client::open`] returns at once, and
//!
//! - a file that is the only one stays as it is: its first use asks for what it wants, and nothing is asked besides;
//! - as soon as a further file of the same server is opened while the one before has not been used, both are opened in the
//!   background, and so is every one that follows. Whoever opens, reads and closes file after file is not helped by
//!   that, and pays nothing for it.
//!
//! **Bounds.** Per server no more files are being opened than there may be connections: requests never stand in line for
//! a connection, so that one that is waited for is next. Files are opened in the order in which the program opened
//! them. What was fetched ahead is bounded over all files ([`MAX_HELD_BYTES`]); beyond it nothing is opened ahead until
//! files are dropped, and of a file that is waited for only size and version are kept.
//!
//! **Habits.** What the program reads of the first files of a folder is brought along with the opening of those that
//! follow (`habit.rs`), and fetched of those that were open by then and not used yet, before more files are opened.
//!
//! **First use.** It waits for the file's opening; if that has not begun it begins there and then, whatever the line. A file
//! that is dropped before its opening began is not opened; one that failed is silent about it until it is used.
//!
//! **Files that take long.** One that its server has to make ready first (202, or 503 with `Retry-After`) gives its place
//! to the next, and comes back at the end of the line when the time is over that the server named. Trouble that may pass
//! (a broken connection) is treated in the same way, [`MAX_FAILURES`] times.

use crate::open_ahead::folder::FolderAccess;
use crate::open_ahead::task::{OpenAheadTask, TaskOutcome};
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::runtime::Handle;

/// Bytes that were fetched by opening files ahead and are held for files that are open.
const MAX_HELD_BYTES: u64 = 64 << 20;

/// Opens files ahead of use; shared by all files of a client.
#[derive(Debug)]
pub(crate) struct OpenAheadQueue {
    runtime: Handle,
    servers: Mutex<HashMap<String, ServerQueue>>,
    datasets: Mutex<HashMap<String, Arc<FolderAccess>>>,
    held_bytes: AtomicU64,
}

/// The files of one server.
#[derive(Debug, Default)]
struct ServerQueue {
    /// In the order of their turn. Those that were dropped, or whose turn came early, are passed over.
    line: VecDeque<Weak<OpenAheadTask>>,
    running: usize,
    /// The one that the program opened last.
    last: Weak<OpenAheadTask>,
}

/// Bytes that are held for an open file.
#[derive(Debug)]
pub(crate) struct MemoryReservation {
    opener: Arc<OpenAheadQueue>,
    bytes: AtomicU64,
}

impl OpenAheadQueue {
    pub(crate) fn new(runtime: Handle) -> Arc<Self> {
        let held_bytes = AtomicU64::new(0);
        let (servers, datasets) = (Mutex::default(), Mutex::default());
        Arc::new(Self { runtime, servers, datasets, held_bytes })
    }

    /// The program has opened a file. If it had opened another one before and not used that yet, both are opened ahead.
    pub(crate) fn was_opened(self: &Arc<Self>, file: &Arc<OpenAheadTask>) {
        let before = {
            let mut servers = self.servers();
            // Without an allocation for all but the first file of a server.
            if !servers.contains_key(file.site()) {
                servers.insert(file.site().to_owned(), ServerQueue::default());
            }
            let Some(server) = servers.get_mut(file.site()) else { return };
            std::mem::replace(&mut server.last, Arc::downgrade(file)).upgrade()
        };
        if let Some(before) = before.filter(|before| !before.is_used()) {
            self.enqueue(&before);
            self.enqueue(file);
        }
    }

    /// Puts a file at the end of its server's line, unless it was there before.
    pub(crate) fn enqueue(self: &Arc<Self>, file: &Arc<OpenAheadTask>) {
        if file.enqueue() {
            self.servers()
                .entry(file.site().to_owned())
                .or_default()
                .line
                .push_back(Arc::downgrade(file));
            self.advance(file.site());
        }
    }

    /// The files of a folder.
    pub(crate) fn dataset(&self, folder: &str) -> Arc<FolderAccess> {
        let mut datasets = self.datasets.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(datasets.entry(folder.to_owned()).or_default())
    }

    /// More is wanted of files that are open and were not used yet. They go before those that are to be opened, because
    /// the program opened them before, and so will likely use them before.
    pub(crate) fn habit_changed(self: &Arc<Self>, site: &str, dataset: &FolderAccess) {
        let mut again = Vec::new();
        for file in dataset.take_unused().iter().filter_map(Weak::upgrade) {
            match file.stand_in_line_for_more() {
                true => again.push(Arc::downgrade(&file)),
                // Of what has become a habit just now it has everything; perhaps not of the next.
                false if !file.is_used() => dataset.unused(&file),
                false => {}
            }
        }
        if let Some(server) = self.servers().get_mut(site) {
            again.into_iter().rev().for_each(|file| server.line.push_front(file));
        }
        self.advance(site);
    }

    /// Begins with a file now, whatever the line.
    pub(crate) fn begin(self: &Arc<Self>, file: Arc<OpenAheadTask>) {
        if let Some(server) = self.servers().get_mut(file.site()) {
            server.running += 1;
        }
        let opener = Arc::clone(self);
        self.runtime.spawn(async move { opener.run(file).await });
    }

    /// Whether more may be fetched ahead.
    pub(crate) fn has_room(&self) -> bool {
        self.held_bytes.load(Ordering::Relaxed) < MAX_HELD_BYTES
    }

    /// Counts bytes as held until what is returned is dropped.
    pub(crate) fn hold(self: &Arc<Self>, bytes: u64) -> MemoryReservation {
        self.held_bytes.fetch_add(bytes, Ordering::Relaxed);
        MemoryReservation { opener: Arc::clone(self), bytes: AtomicU64::new(bytes) }
    }

    /// Begins with as many files as there is room for.
    fn advance(self: &Arc<Self>, site: &str) {
        loop {
            let next = {
                let mut servers = self.servers();
                let Some(server) = servers.get_mut(site) else { return };
                let Some(nth) = server.next(self.has_room()) else { return };
                server.line.remove(nth).and_then(|file| file.upgrade())
            };
            if let Some(file) = next.filter(|file| file.take_turn()) {
                self.begin(file);
            }
        }
    }

    /// Opens a file, and sees to what becomes of it.
    async fn run(self: Arc<Self>, file: Arc<OpenAheadTask>) {
        let turn = file.run(&self).await;
        let site = file.site().to_owned();
        if let Some(server) = self.servers().get_mut(&site) {
            server.running = server.running.saturating_sub(1);
        }
        match turn {
            TaskOutcome::Later(after) => self.come_back(Arc::downgrade(&file), after),
            // The habit has changed while it was being opened.
            TaskOutcome::Opened if file.stand_in_line_for_more() => {
                if let Some(server) = self.servers().get_mut(&site) {
                    server.line.push_front(Arc::downgrade(&file));
                }
            }
            TaskOutcome::Opened | TaskOutcome::Done => {}
        }
        drop(file);
        self.advance(&site);
    }

    /// Puts a file back in line after a while, if it still lives then.
    fn come_back(self: &Arc<Self>, file: Weak<OpenAheadTask>, after: Duration) {
        let opener = Arc::clone(self);
        self.runtime.spawn(async move {
            tokio::time::sleep(after).await;
            let Some(file) = file.upgrade() else { return };
            match file.is_used() {
                true if file.enqueue() && file.take_turn() => opener.begin(file),
                _ => opener.enqueue(&file),
            }
        });
    }

    fn servers(&self) -> MutexGuard<'_, HashMap<String, ServerQueue>> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ServerQueue {
    /// The place in line of the next file to begin with, if there is one.
    fn next(&mut self, has_room: bool) -> Option<usize> {
        let first = loop {
            match self.line.front()?.upgrade() {
                Some(first) => break first,
                None => drop(self.line.pop_front()),
            }
        };
        if self.running >= first.max_at_once() {
            return None;
        }
        if has_room {
            return Some(0);
        }
        self.line.iter().position(|file| file.upgrade().is_some_and(|file| file.is_awaited()))
    }
}

impl MemoryReservation {
    /// Counts more bytes along.
    pub(crate) fn add(&self, bytes: u64) {
        self.opener.held_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// They are held elsewhere now.
    pub(crate) fn release(&self) {
        let bytes = self.bytes.swap(0, Ordering::Relaxed);
        let before = self.opener.held_bytes.fetch_sub(bytes, Ordering::Relaxed);
        if before >= MAX_HELD_BYTES && self.opener.has_room() {
            // Elsewhere, because whoever drops a file may be at work on a line.
            let opener = Arc::clone(&self.opener);
            self.opener.runtime.spawn(async move {
                let sites: Vec<String> = opener.servers().keys().cloned().collect();
                sites.iter().for_each(|site| opener.advance(site));
            });
        }
    }
}

impl Drop for MemoryReservation {
    fn drop(&mut self) {
        self.release();
    }
}

#[cfg(test)]
mod tests {
    use crate::{Client, ClientConfig};
    use hither_testkit::mock_http::{Fault, FaultTrigger, MockHttpServer};
    use std::time::Duration;

    fn client() -> Client {
        let mut config = ClientConfig::default();
        config.transport.max_connections = 1;
        Client::new(config).unwrap()
    }

    #[test]
    fn first_use_jumps_the_line() {
        let peer = MockHttpServer::start(vec![7; 100_000])
            .unwrap()
            .with_fault(FaultTrigger::Nth(0), Fault::Hold(2));
        let (client, other) = (client(), client());
        let open = |nth| client.open(&peer.url_of(&format!("/{nth}"))).unwrap();
        let files: Vec<_> = (0..50).map(open).collect();
        let release = other.file(&peer.url_of("/release")).unwrap();
        for _ in 0..10_000 {
            if !peer.log().is_empty() {
                break;
            }
            std::thread::park_timeout(Duration::from_millis(1));
        }
        // The only connection is held until the other client asks, which it does when the file has been used.
        let (opened, released) = client.run(async {
            futures_util::future::join(files[40].opened(), release.first_byte(None)).await
        });
        assert_eq!(opened.unwrap().unwrap().size, Some(100_000));
        released.unwrap();
        let order: Vec<_> = peer.log().into_iter().map(|it| it.target).take(3).collect();
        assert_eq!(order, ["/0", "/release", "/40"]);
        drop(files);
    }
}
