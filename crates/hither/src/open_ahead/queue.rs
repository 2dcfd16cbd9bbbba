//! The queues of files that wait to be opened ahead, one per server, and the memory limit of all.

use crate::open_ahead::folder::FolderAccess;
use crate::open_ahead::task::{OpenAheadTask, TaskOutcome};
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::runtime::Handle;

/// The largest number of prefetched bytes that are held for open files.
const MAX_HELD_BYTES: u64 = 64 << 20;

/// Opens files ahead of use. All files of a client share it.
#[derive(Debug)]
pub(crate) struct OpenAheadQueue {
    runtime: Handle,
    servers: Mutex<HashMap<String, ServerQueue>>,
    datasets: Mutex<HashMap<String, Arc<FolderAccess>>>,
    held_bytes: AtomicU64,
}

/// The queue of one server.
#[derive(Debug, Default)]
struct ServerQueue {
    /// Files in the order of their turn. Files that were dropped, or that left the queue early, are
    /// skipped.
    line: VecDeque<Weak<OpenAheadTask>>,
    running: usize,
    /// The file that the program opened last.
    last: Weak<OpenAheadTask>,
}

/// Prefetched bytes that are held for an open file.
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

    /// Registers a file that the program has opened. If the previous file of the server was not used
    /// yet, both are opened ahead.
    pub(crate) fn was_opened(self: &Arc<Self>, file: &Arc<OpenAheadTask>) {
        let before = {
            let mut servers = self.servers();
            // Only the first file of a server allocates.
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

    /// Puts a file at the end of its server's queue, unless it was there before.
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

    /// The access pattern of a folder.
    pub(crate) fn dataset(&self, folder: &str) -> Arc<FolderAccess> {
        let mut datasets = self.datasets.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(datasets.entry(folder.to_owned()).or_default())
    }

    /// Queues files that are open and unused again, because their folder's access pattern has changed
    /// and more ranges are to be prefetched. They go before files that are still closed: the program
    /// opened them earlier, and will likely use them earlier.
    pub(crate) fn habit_changed(self: &Arc<Self>, site: &str, dataset: &FolderAccess) {
        let mut again = Vec::new();
        for file in dataset.take_unused().iter().filter_map(Weak::upgrade) {
            match file.stand_in_line_for_more() {
                true => again.push(Arc::downgrade(&file)),
                // It has all ranges of this pattern, but may lack some of the next one.
                false if !file.is_used() => dataset.unused(&file),
                false => {}
            }
        }
        if let Some(server) = self.servers().get_mut(site) {
            again.into_iter().rev().for_each(|file| server.line.push_front(file));
        }
        self.advance(site);
    }

    /// Starts opening a file now, whatever the queue.
    pub(crate) fn begin(self: &Arc<Self>, file: Arc<OpenAheadTask>) {
        if let Some(server) = self.servers().get_mut(file.site()) {
            server.running += 1;
        }
        let opener = Arc::clone(self);
        self.runtime.spawn(async move { opener.run(file).await });
    }

    /// Returns true if memory is left for further prefetched bytes.
    pub(crate) fn has_room(&self) -> bool {
        self.held_bytes.load(Ordering::Relaxed) < MAX_HELD_BYTES
    }

    /// Counts bytes as held until the reservation is dropped.
    pub(crate) fn hold(self: &Arc<Self>, bytes: u64) -> MemoryReservation {
        self.held_bytes.fetch_add(bytes, Ordering::Relaxed);
        MemoryReservation { opener: Arc::clone(self), bytes: AtomicU64::new(bytes) }
    }

    /// Starts opening as many files as the limits allow.
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

    /// Opens a file, and queues it again if that is needed.
    async fn run(self: Arc<Self>, file: Arc<OpenAheadTask>) {
        let turn = file.run(&self).await;
        let site = file.site().to_owned();
        if let Some(server) = self.servers().get_mut(&site) {
            server.running = server.running.saturating_sub(1);
        }
        match turn {
            TaskOutcome::Later(after) => self.come_back(Arc::downgrade(&file), after),
            // The access pattern has changed while the file was being opened.
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

    /// Queues a file again after a delay, if it is still open then.
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
    /// The position in the queue of the next file to open, if there is one.
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
    /// Adds bytes to the reservation.
    pub(crate) fn add(&self, bytes: u64) {
        self.opener.held_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Ends the reservation: the bytes are held elsewhere, or dropped.
    pub(crate) fn release(&self) {
        let bytes = self.bytes.swap(0, Ordering::Relaxed);
        let before = self.opener.held_bytes.fetch_sub(bytes, Ordering::Relaxed);
        if before >= MAX_HELD_BYTES && self.opener.has_room() {
            // On another task, because the caller may hold the lock of the queues.
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
    fn first_use_starts_a_queued_file_at_once() {
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
        // The only connection is held until the request of the other client, which follows the use
        // of the file.
        let (opened, released) = client.block_on(async {
            let opened = files[40].prefetched_ends();
            futures_util::future::join(opened, release.origin.first_byte(None)).await
        });
        assert_eq!(opened.unwrap().unwrap().size, Some(100_000));
        released.unwrap();
        let order: Vec<_> = peer.log().into_iter().map(|it| it.target).take(3).collect();
        assert_eq!(order, ["/0", "/release", "/40"]);
        drop(files);
    }
}
