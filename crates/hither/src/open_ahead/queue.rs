//! The queues of files that wait to be opened ahead, one per server, and the memory limit of all.

use crate::open_ahead::folder::FolderAccess;
use crate::open_ahead::task::{OpenAheadTask, TaskOutcome};
use hither_core::sync::lock;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;
use tokio::runtime::Handle;

/// The largest number of prefetched bytes that are reserved for open files.
const MAX_RESERVED_BYTES: u64 = 64 << 20;

/// Opens files ahead of use. All files of a client share it.
#[derive(Debug)]
pub(crate) struct OpenAheadQueue {
    runtime: Handle,
    servers: Mutex<HashMap<String, ServerQueue>>,
    folders: Mutex<HashMap<String, Arc<FolderAccess>>>,
    reserved_bytes: AtomicU64,
}

/// The queue of one server.
#[derive(Debug, Default)]
struct ServerQueue {
    /// Files in the order of their turn. Files that were dropped, or that left the queue early, are
    /// skipped.
    waiting: VecDeque<Weak<OpenAheadTask>>,
    running: usize,
    /// The file that the program opened last.
    last: Weak<OpenAheadTask>,
}

/// Prefetched bytes that are reserved for an open file.
#[derive(Debug)]
pub(crate) struct MemoryReservation {
    queue: Arc<OpenAheadQueue>,
    bytes: AtomicU64,
}

impl OpenAheadQueue {
    pub(crate) fn new(runtime: Handle) -> Arc<Self> {
        Arc::new(Self {
            runtime,
            servers: Mutex::default(),
            folders: Mutex::default(),
            reserved_bytes: AtomicU64::new(0),
        })
    }

    /// Registers a file that the program has opened. If the previous file of the server was not
    /// used yet, both are opened ahead.
    pub(crate) fn was_opened(self: &Arc<Self>, file: &Arc<OpenAheadTask>) {
        let before = {
            let mut servers = self.servers();
            // Only the first file of a server allocates.
            if !servers.contains_key(file.server()) {
                servers.insert(file.server().to_owned(), ServerQueue::default());
            }
            let Some(server) = servers.get_mut(file.server()) else { return };
            std::mem::replace(&mut server.last, Arc::downgrade(file)).upgrade()
        };
        if let Some(before) = before.filter(|before| !before.is_used()) {
            self.enqueue(&before);
            self.enqueue(file);
        }
    }

    /// Puts a file at the end of its server's queue, unless it was there before. One that is used
    /// starts: its use may have come too early to start it.
    pub(crate) fn enqueue(self: &Arc<Self>, file: &Arc<OpenAheadTask>) {
        if file.enqueue() {
            self.servers()
                .entry(file.server().to_owned())
                .or_default()
                .waiting
                .push_back(Arc::downgrade(file));
            self.advance(file.server());
            if file.is_used() && file.take_turn() {
                self.start(Arc::clone(file));
            }
        }
    }

    /// The access pattern of a folder.
    pub(crate) fn folder(&self, path: &str) -> Arc<FolderAccess> {
        let mut folders = lock(&self.folders);
        Arc::clone(folders.entry(path.to_owned()).or_default())
    }

    /// Queues files that are open and unused again, because their folder's access pattern has
    /// changed and more ranges are to be prefetched. They go before files that are still closed:
    /// the program opened them earlier, and will likely use them earlier.
    pub(crate) fn pattern_changed(self: &Arc<Self>, server_name: &str, folder: &FolderAccess) {
        let mut requeued = Vec::new();
        for file in folder.take_unused().iter().filter_map(Weak::upgrade) {
            if file.requeue() {
                requeued.push(Arc::downgrade(&file));
            } else if !file.is_used() {
                // It has all ranges of this pattern, but may lack some of the next one.
                folder.add_unused(&file);
            }
        }
        if let Some(server) = self.servers().get_mut(server_name) {
            requeued.into_iter().rev().for_each(|file| server.waiting.push_front(file));
        }
        self.advance(server_name);
    }

    /// Starts opening a file now, whatever the queue.
    pub(crate) fn start(self: &Arc<Self>, file: Arc<OpenAheadTask>) {
        if let Some(server) = self.servers().get_mut(file.server()) {
            server.running += 1;
        }
        let queue = Arc::clone(self);
        self.runtime.spawn(async move { queue.run(file).await });
    }

    /// Returns true if memory is left for further prefetched bytes.
    pub(crate) fn has_room(&self) -> bool {
        self.reserved_bytes.load(Ordering::Relaxed) < MAX_RESERVED_BYTES
    }

    /// Reserves bytes until the reservation is dropped.
    pub(crate) fn reserve(self: &Arc<Self>, bytes: u64) -> MemoryReservation {
        self.reserved_bytes.fetch_add(bytes, Ordering::Relaxed);
        MemoryReservation { queue: Arc::clone(self), bytes: AtomicU64::new(bytes) }
    }

    /// Starts opening as many files as the limits allow.
    fn advance(self: &Arc<Self>, server_name: &str) {
        loop {
            let next = {
                let mut servers = self.servers();
                let Some(server) = servers.get_mut(server_name) else { return };
                let Some(nth) = server.next(self.has_room()) else { return };
                server.waiting.remove(nth).and_then(|file| file.upgrade())
            };
            if let Some(file) = next.filter(|file| file.take_turn()) {
                self.start(file);
            }
        }
    }

    /// Opens a file, and queues it again if that is needed.
    async fn run(self: Arc<Self>, file: Arc<OpenAheadTask>) {
        let outcome = file.run().await;
        let server_name = file.server().to_owned();
        if let Some(server) = self.servers().get_mut(&server_name) {
            server.running = server.running.saturating_sub(1);
        }
        match outcome {
            TaskOutcome::Later(after) => self.requeue_after(Arc::downgrade(&file), after),
            // The access pattern has changed while the file was being opened.
            TaskOutcome::Opened if file.requeue() => {
                if let Some(server) = self.servers().get_mut(&server_name) {
                    server.waiting.push_front(Arc::downgrade(&file));
                }
            }
            TaskOutcome::Opened | TaskOutcome::Done => {}
        }
        drop(file);
        self.advance(&server_name);
    }

    /// Queues a file again after a delay, if it is still open then.
    fn requeue_after(self: &Arc<Self>, file: Weak<OpenAheadTask>, after: Duration) {
        let queue = Arc::clone(self);
        self.runtime.spawn(async move {
            tokio::time::sleep(after).await;
            if let Some(file) = file.upgrade() {
                queue.enqueue(&file);
            }
        });
    }

    fn servers(&self) -> MutexGuard<'_, HashMap<String, ServerQueue>> {
        lock(&self.servers)
    }
}

impl ServerQueue {
    /// The position in the queue of the next file to open, if there is one.
    fn next(&mut self, has_room: bool) -> Option<usize> {
        let first = loop {
            match self.waiting.front()?.upgrade() {
                Some(first) => break first,
                None => drop(self.waiting.pop_front()),
            }
        };
        if self.running >= first.max_at_once() {
            return None;
        }
        if has_room {
            return Some(0);
        }
        self.waiting.iter().position(|file| file.upgrade().is_some_and(|file| file.is_awaited()))
    }
}

impl MemoryReservation {
    /// Adds bytes to the reservation.
    pub(crate) fn add(&self, bytes: u64) {
        self.queue.reserved_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Ends the reservation: the bytes have another owner, or are dropped.
    pub(crate) fn release(&self) {
        let bytes = self.bytes.swap(0, Ordering::Relaxed);
        let before = self.queue.reserved_bytes.fetch_sub(bytes, Ordering::Relaxed);
        if before >= MAX_RESERVED_BYTES && self.queue.has_room() {
            // On another task, because the caller may hold the lock of the queues.
            let queue = Arc::clone(&self.queue);
            self.queue.runtime.spawn(async move {
                let names: Vec<String> = queue.servers().keys().cloned().collect();
                names.iter().for_each(|server_name| queue.advance(server_name));
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
    use hither_testkit::waiting::wait_until;

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
        let other = client();
        let client = client();
        let open = |nth| client.open(&peer.url_of(&format!("/{nth}"))).unwrap();
        let files: Vec<_> = (0..50).map(open).collect();
        let release = other.file(&peer.url_of("/release")).unwrap();
        assert!(wait_until(|| !peer.log().is_empty()));
        // The only connection is busy until the request of the other client, which follows the use
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
