//! What is being written to disk in the background, for the end of a client to wait for.
//!
//! Nobody who reads waits for the disk: what was learned is written on a thread that may. A runtime that ends drops what
//! that has not begun, so a program that ends as soon as it has what it wanted would keep the least of what it learned,
//! and the next run would ask again. So there is a line, which the end of the client waits for.
//!
//! It is one line, because what is written of a file later has more in it. Where the disk is so slow that the line holds
//! [`MAX_BYTES`], further writes are left out: a cache may forget, but not fill the memory.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::runtime::Handle;

/// The end of a client waits so long. What takes longer is lost, which is what a cache may do.
const LAST_WRITES: Duration = Duration::from_secs(5);
/// Bytes that wait to be written, unless it is a single write that has more.
const MAX_BYTES: u64 = 64 << 20;

type Write = Box<dyn FnOnce() + Send>;

/// Writes that are not done.
#[derive(Default)]
pub(crate) struct WriteBehindQueue {
    line: Mutex<Line>,
    done: Condvar,
}

#[derive(Default)]
struct Line {
    /// And how many bytes each has.
    waiting: VecDeque<(Write, u64)>,
    bytes: u64,
    /// There is a thread that works on it.
    busy: bool,
}

impl fmt::Debug for WriteBehindQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LastWrites").field("waiting", &self.line().waiting.len()).finish()
    }
}

impl WriteBehindQueue {
    /// Has `write`, which holds so many bytes, run on a thread of `runtime` that may wait, after those before it.
    pub(crate) fn enqueue(
        self: &Arc<Self>,
        runtime: &Handle,
        bytes: u64,
        write: impl FnOnce() + Send + 'static,
    ) {
        let mut line = self.line();
        if !line.waiting.is_empty() && line.bytes.saturating_add(bytes) > MAX_BYTES {
            return;
        }
        line.bytes = line.bytes.saturating_add(bytes);
        line.waiting.push_back((Box::new(write), bytes));
        if !line.busy {
            line.busy = true;
            let writes = Arc::clone(self);
            drop(runtime.spawn_blocking(move || writes.work()));
        }
    }

    /// Waits until everything is written, but not for ever.
    pub(crate) fn flush(&self) {
        drop(self.done.wait_timeout_while(self.line(), LAST_WRITES, |line| line.busy));
    }

    fn work(&self) {
        while let Some((write, bytes)) = self.next() {
            // One that fails must not keep the others from being written. The hook has told of it.
            drop(catch_unwind(AssertUnwindSafe(write)));
            let mut line = self.line();
            line.bytes = line.bytes.saturating_sub(bytes);
        }
    }

    fn next(&self) -> Option<(Write, u64)> {
        let mut line = self.line();
        let next = line.waiting.pop_front();
        if next.is_none() {
            line.busy = false;
            self.done.notify_all();
        }
        next
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn what_was_handed_over_is_written_in_order_before_the_end() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build();
        let (runtime, writes) = (runtime.unwrap(), Arc::new(WriteBehindQueue::default()));
        let (written, all) = mpsc::channel();
        for nth in 0..100 {
            let written = written.clone();
            writes.enqueue(runtime.handle(), 1, move || {
                written.send(nth).unwrap();
                assert!(nth != 50, "one that fails holds up no other");
            });
        }
        writes.flush();
        assert_eq!(all.try_iter().collect::<Vec<_>>(), (0..100).collect::<Vec<_>>());
        let line = writes.line();
        assert_eq!((line.bytes, line.busy), (0, false));
    }

    #[test]
    fn a_slow_disk_does_not_fill_the_memory() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build();
        let (runtime, writes) = (runtime.unwrap(), Arc::new(WriteBehindQueue::default()));
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
