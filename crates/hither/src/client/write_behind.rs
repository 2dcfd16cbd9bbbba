//! Background writes to the disk, which the end of a client waits for.
//!
//! Readers never wait for the disk: metadata and cached blocks are written on a thread that may
//! block. A runtime that ends drops the tasks that have not started. A program that ends as soon as
//! it has its data would therefore lose most of the learned metadata, and the next run would
//! request them again. The writes therefore wait in a queue, which the end of the client flushes.
//!
//! There is one queue, because a later write of a file contains more than an earlier one. If the
//! disk is so slow that the queue holds [`MAX_BYTES`], further writes are dropped: a cache may lose
//! values, but must not fill the memory.

use hither_core::sync::lock;
use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;
use tokio::runtime::Handle;

/// The time limit of a flush. Writes that take longer are lost, as a cache may lose them.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);
/// The largest number of bytes in the queue, unless a single write has more.
const MAX_BYTES: u64 = 64 << 20;

type Write = Box<dyn FnOnce() + Send>;

/// The queue of writes.
#[derive(Default)]
pub(crate) struct WriteBehindQueue {
    queue: Mutex<WriteQueue>,
    done: Condvar,
}

#[derive(Default)]
struct WriteQueue {
    /// The writes, and the number of bytes of each.
    waiting: VecDeque<(Write, u64)>,
    bytes: u64,
    /// True while a thread empties the queue.
    busy: bool,
}

impl fmt::Debug for WriteBehindQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteBehindQueue").field("waiting", &self.queue().waiting.len()).finish()
    }
}

impl WriteBehindQueue {
    /// Runs `write`, which holds `bytes` bytes, on a blocking thread of `runtime`, after the writes
    /// before it.
    pub(crate) fn enqueue(
        self: &Arc<Self>,
        runtime: &Handle,
        bytes: u64,
        write: impl FnOnce() + Send + 'static,
    ) {
        let mut queue = self.queue();
        if !queue.waiting.is_empty() && queue.bytes.saturating_add(bytes) > MAX_BYTES {
            return;
        }
        queue.bytes = queue.bytes.saturating_add(bytes);
        queue.waiting.push_back((Box::new(write), bytes));
        if !queue.busy {
            queue.busy = true;
            let writes = Arc::clone(self);
            drop(runtime.spawn_blocking(move || writes.work()));
        }
    }

    /// Waits until everything is written, within the time limit.
    pub(crate) fn flush(&self) {
        drop(self.done.wait_timeout_while(self.queue(), FLUSH_TIMEOUT, |queue| queue.busy));
    }

    fn work(&self) {
        while let Some((write, bytes)) = self.next() {
            // A write that panics must not stop the others. The panic hook has reported it.
            drop(catch_unwind(AssertUnwindSafe(write)));
            let mut queue = self.queue();
            queue.bytes = queue.bytes.saturating_sub(bytes);
        }
    }

    fn next(&self) -> Option<(Write, u64)> {
        let mut queue = self.queue();
        let next = queue.waiting.pop_front();
        if next.is_none() {
            queue.busy = false;
            self.done.notify_all();
        }
        next
    }

    fn queue(&self) -> MutexGuard<'_, WriteQueue> {
        lock(&self.queue)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn a_flush_waits_for_all_writes_in_order() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build();
        let runtime = runtime.unwrap();
        let writes = Arc::new(WriteBehindQueue::default());
        let (written, all) = mpsc::channel();
        for nth in 0..100 {
            let written = written.clone();
            writes.enqueue(runtime.handle(), 1, move || {
                written.send(nth).unwrap();
                assert!(nth != 50, "a write that panics stops no other");
            });
        }
        writes.flush();
        assert_eq!(all.try_iter().collect::<Vec<_>>(), (0..100).collect::<Vec<_>>());
        let queue = writes.queue();
        assert_eq!((queue.bytes, queue.busy), (0, false));
    }

    #[test]
    fn a_slow_disk_does_not_fill_the_memory() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build();
        let runtime = runtime.unwrap();
        let writes = Arc::new(WriteBehindQueue::default());
        let (go, stand) = mpsc::channel::<()>();
        let (written, all) = mpsc::channel();
        let (begun, first) = mpsc::channel();
        writes.enqueue(runtime.handle(), 1, move || {
            begun.send(()).unwrap();
            stand.recv().unwrap_err();
        });
        first.recv().unwrap();
        for nth in 0..3 {
            let written = written.clone();
            writes.enqueue(runtime.handle(), MAX_BYTES, move || written.send(nth).unwrap());
        }
        drop(go);
        writes.flush();
        assert_eq!(all.try_iter().collect::<Vec<_>>(), [0]);
    }
}
