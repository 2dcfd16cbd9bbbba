//! Timers that are exact to some tens of microseconds.
//!
//! The runtime's own timers have a resolution of a millisecond, which is ten times the delay of a
//! campus network. One thread sleeps until the earliest deadline and wakes its tasks.

use hither_core::sync::lock;
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;
use tokio::time::Instant;

/// A timer that wakes tasks at given times. Its thread ends with the last handle.
#[derive(Debug, Default)]
pub(super) struct PreciseTimer {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    /// The tasks to wake at each deadline.
    queue: BTreeMap<Instant, Vec<oneshot::Sender<()>>>,
    closed: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        lock(&self.waiting)
    }

    fn run(&self) {
        let mut waiting = self.lock();
        while !waiting.closed {
            let now = Instant::now();
            while let Some(due) = waiting.queue.first_entry().filter(|first| *first.key() <= now) {
                for wake in due.remove() {
                    // Cancelled tasks have dropped their receiver.
                    let _ = wake.send(());
                }
            }
            waiting = match waiting.queue.first_key_value() {
                Some((due, _)) => {
                    let left = due.saturating_duration_since(now);
                    self.changed
                        .wait_timeout(waiting, left)
                        .unwrap_or_else(PoisonError::into_inner)
                        .0
                }
                None => self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }
}

impl PreciseTimer {
    /// Starts the thread.
    pub(super) fn new() -> Self {
        let alarm = Self::default();
        let shared = Arc::clone(&alarm.shared);
        std::thread::spawn(move || shared.run());
        alarm
    }

    fn set(&self, due: Instant, wake: oneshot::Sender<()>) {
        let mut waiting = self.shared.lock();
        let first = waiting.queue.first_key_value().is_none_or(|(first, _)| due < *first);
        waiting.queue.entry(due).or_default().push(wake);
        if first {
            self.shared.changed.notify_one();
        }
    }

    /// Waits until `due`.
    pub(super) async fn until(&self, due: Instant) {
        if due <= Instant::now() {
            return;
        }
        let (wake, woken) = oneshot::channel();
        self.set(due, wake);
        // The sender is dropped only with the timer itself, which is borrowed here.
        let _ = woken.await;
    }
}

impl Drop for PreciseTimer {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test]
    async fn wakes_in_the_order_of_the_instants_and_not_early() {
        let alarm = PreciseTimer::new();
        let start = Instant::now();
        let order = Mutex::new(Vec::new());
        let at = |millis| {
            let alarm = &alarm;
            let order = &order;
            async move {
                let due = start + Duration::from_millis(millis);
                alarm.until(due).await;
                assert!(Instant::now() >= due);
                order.lock().unwrap().push(millis);
            }
        };
        tokio::join!(at(30), at(0), at(10), at(20));
        assert_eq!(*order.lock().unwrap(), [0, 10, 20, 30]);
    }
}
