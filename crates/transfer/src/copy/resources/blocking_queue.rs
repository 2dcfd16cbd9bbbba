//! Blocking work of many small files, on few threads.
//!
//! Waking a thread for one task costs more than most tasks: creating, writing and renaming a file
//! in memory. So tasks wait in a queue, and a thread that has finished one takes the next. Another
//! thread joins only where more than [`MAX_WAITING_EACH`] tasks wait for each running thread: one
//! or two threads are enough for a local disk, and up to [`MAX_THREADS`] work concurrently on a
//! file system whose every call takes a round trip.

use hither_core::sync::lock;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;

/// Pieces that wait for each thread before another one joins.
const MAX_WAITING_EACH: usize = 8;
/// The largest number of threads of a copy.
const MAX_THREADS: usize = 32;

type Work = Box<dyn FnOnce() + Send>;

/// The queue of a copy.
#[derive(Default)]
pub(crate) struct BlockingQueue {
    inside: Mutex<Inside>,
}

#[derive(Default)]
struct Inside {
    waiting: VecDeque<Work>,
    threads: usize,
}

impl BlockingQueue {
    /// Runs `work` on a thread that may block. None if it panicked.
    pub(crate) async fn run<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let (done, result) = oneshot::channel();
        // A caller that no longer waits does not need the result.
        self.push(Box::new(move || drop(done.send(work()))));
        result.await.ok()
    }

    fn push(self: &Arc<Self>, work: Work) {
        let mut inside = lock(&self.inside);
        inside.waiting.push_back(work);
        let is_behind = inside.waiting.len() > inside.threads * MAX_WAITING_EACH;
        if is_behind && inside.threads < MAX_THREADS {
            inside.threads += 1;
            drop(inside);
            let queue = Arc::clone(self);
            spawn_blocking(move || queue.work());
        }
    }

    /// Works until nothing waits.
    fn work(&self) {
        while let Some(work) = self.next() {
            // The sender inside is dropped, which ends the wait of the caller.
            drop(catch_unwind(AssertUnwindSafe(work)));
        }
    }

    fn next(&self) -> Option<Work> {
        let mut inside = lock(&self.inside);
        let work = inside.waiting.pop_front();
        if work.is_none() {
            inside.threads -= 1;
        }
        work
    }
}

impl std::fmt::Debug for BlockingQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let inside = lock(&self.inside);
        f.debug_struct("BlockingQueue")
            .field("waiting", &inside.waiting.len())
            .field("threads", &inside.threads)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[tokio::test]
    async fn one_thread_does_what_does_not_block() {
        let queue = Arc::new(BlockingQueue::default());
        let (release, held) = mpsc::channel::<()>();
        let first = tokio::spawn({
            let queue = Arc::clone(&queue);
            async move { queue.run(move || held.recv()).await }
        });
        tokio::task::yield_now().await;
        let mut rest: Vec<_> = (0..MAX_WAITING_EACH - 1)
            .map(|n| {
                Box::pin({
                    let queue = Arc::clone(&queue);
                    async move { queue.run(move || n).await }
                })
            })
            .collect();
        for one in &mut rest {
            assert!(futures_util::poll!(one).is_pending());
        }
        assert_eq!(lock(&queue.inside).threads, 1);
        release.send(()).unwrap();
        first.await.unwrap().unwrap().unwrap();
        for (n, one) in rest.into_iter().enumerate() {
            assert_eq!(one.await, Some(n));
        }
    }

    #[tokio::test]
    async fn more_threads_join_where_each_is_held_up() {
        let queue = Arc::new(BlockingQueue::default());
        let barrier = Arc::new(std::sync::Barrier::new(2));
        let last = MAX_WAITING_EACH + 1;
        let all = (0..=last).map(|n| {
            let (queue, barrier) = (Arc::clone(&queue), Arc::clone(&barrier));
            tokio::spawn(async move {
                queue.run(move || (n == 0 || n == last).then(|| barrier.wait())).await
            })
        });
        for one in all.collect::<Vec<_>>() {
            assert!(one.await.unwrap().is_some());
        }
    }

    #[tokio::test]
    async fn a_panic_ends_its_own_work_only() {
        let queue = Arc::new(BlockingQueue::default());
        assert_eq!(queue.run(|| assert!(std::hint::black_box(false), "meant to fail")).await, None);
        assert_eq!(queue.run(|| 1).await, Some(1));
    }
}
