//! Tasks on threads that may block, which are cancelled when no caller waits for them any more.
//!
//! A thread cannot be interrupted, so dropping a future does not end its work by itself. Dropping a
//! [`BlockingTask`] takes work that has not begun out of the queue. Work that has begun gets a
//! [`Cancellation`], and checks it between two blocks or two entries. Permits are moved into the
//! work, so that they are released when the work has ended, and no earlier.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use tokio::task::{JoinError, JoinHandle};

/// Signals to work that no caller waits for its result any more.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cancellation(Arc<AtomicBool>);

impl Cancellation {
    /// Fails if no caller waits for the result any more.
    pub(crate) fn check(&self) -> io::Result<()> {
        if self.0.load(Ordering::Relaxed) {
            Err(io::Error::other("nobody waits for the result any more"))
        } else {
            Ok(())
        }
    }

    fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Work on another thread. Dropping it cancels the work.
#[derive(Debug)]
pub(crate) struct BlockingTask<T> {
    handle: JoinHandle<T>,
    cancellation: Cancellation,
}

impl<T> Future for BlockingTask<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.handle).poll(cx)
    }
}

impl<T> Drop for BlockingTask<T> {
    fn drop(&mut self) {
        self.cancellation.cancel();
        self.handle.abort();
    }
}

/// Runs `work` on a thread that may block.
pub(crate) fn spawn<T: Send + 'static>(
    work: impl FnOnce(&Cancellation) -> T + Send + 'static,
) -> BlockingTask<T> {
    let cancellation = Cancellation::default();
    let observed = cancellation.clone();
    let handle = tokio::task::spawn_blocking(move || work(&observed));
    BlockingTask { handle, cancellation }
}

/// Runs a future, which may spawn such work, on a task of its own.
pub(crate) fn spawn_async<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> BlockingTask<T> {
    BlockingTask { handle: tokio::spawn(work), cancellation: Cancellation::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;

    const TIMEOUT: Duration = Duration::from_secs(60);

    #[test]
    fn dropping_a_task_ends_its_work_and_begins_no_queued_work() {
        let runtime =
            tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
        let _inside = runtime.enter();
        let (began, begins) = mpsc::channel();
        let (ended, ends) = mpsc::channel();
        let running = spawn(move |cancellation| {
            began.send(()).unwrap();
            while cancellation.check().is_ok() {
                std::thread::yield_now();
            }
            ended.send("cancelled").unwrap();
        });
        begins.recv_timeout(TIMEOUT).unwrap();
        let (queued, begins) = mpsc::channel::<()>();
        drop(spawn(move |_| queued.send(())));
        drop(running);
        assert_eq!(ends.recv_timeout(TIMEOUT), Ok("cancelled"));
        assert!(begins.recv_timeout(TIMEOUT).is_err(), "queued work was dropped");
    }

    #[test]
    fn a_task_returns_the_result_of_its_work() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let done = runtime.block_on(async { spawn(|c| c.check().is_ok()).await });
        assert!(done.unwrap());
    }
}
