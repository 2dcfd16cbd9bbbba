//! Virtual time: futures run one after the other on this thread. When all of them wait, the clock
//! jumps to the next timer.
//!
//! A job of hours takes only the time of its computation, independent of the load of the machine.
//! Timers are exact to the nanosecond, unlike those of tokio's paused clock, and no async runtime
//! is needed.

use futures_core::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use hither_core::Clock;
use hither_core::sync::lock;
use hither_netem::random::Random;
use std::collections::BTreeMap;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

/// A clock, and the futures that wait for it. Clones are the same clock.
#[derive(Debug, Clone, Default)]
pub struct VirtualTime {
    shared: Arc<Mutex<Timers>>,
}

#[derive(Debug, Default)]
struct Timers {
    now: Duration,
    /// By time, then by the order in which they were set.
    waiting: BTreeMap<(Duration, u64), Waker>,
    set: u64,
    random: Random,
    spawned: Vec<Spawned>,
}

/// A spawned future that has not been polled yet.
struct Spawned(BoxFuture<'static, ()>);

impl std::fmt::Debug for Spawned {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Spawned")
    }
}

/// True once a future has been woken.
#[derive(Debug)]
struct WakeFlag(AtomicBool);

impl Wake for WakeFlag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl VirtualTime {
    /// A clock that shows zero.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A clock that shows zero, with random numbers of its own.
    #[must_use]
    pub fn with_seed(seed: u64) -> Self {
        let timers = Timers { random: Random::new(seed), ..Timers::default() };
        Self { shared: Arc::new(Mutex::new(timers)) }
    }

    /// Runs `task` concurrently with the work of [`VirtualTime::run`], until that work ends.
    pub fn spawn(&self, task: BoxFuture<'static, ()>) {
        lock(&self.shared).spawned.push(Spawned(task));
    }

    /// Runs `work` to its end. Returns none once `stop` is true, or if it waits for something that
    /// this clock cannot wake.
    pub fn run<T>(&self, work: impl Future<Output = T>, stop: &AtomicBool) -> Option<T> {
        let mut work = pin!(work);
        let mut tasks = FuturesUnordered::new();
        let woken = Arc::new(WakeFlag(AtomicBool::new(true)));
        let waker = Waker::from(Arc::clone(&woken));
        let mut context = Context::from_waker(&waker);
        loop {
            while woken.0.swap(false, Ordering::Relaxed) {
                if let Poll::Ready(result) = work.as_mut().poll(&mut context) {
                    return Some(result);
                }
                self.run_tasks(&mut tasks, &mut context);
            }
            if stop.load(Ordering::Relaxed) || !self.advance() {
                return None;
            }
        }
    }

    /// Polls the woken tasks, until none is left.
    fn run_tasks(
        &self,
        tasks: &mut FuturesUnordered<BoxFuture<'static, ()>>,
        context: &mut Context<'_>,
    ) {
        loop {
            let spawned = std::mem::take(&mut lock(&self.shared).spawned);
            let none_new = spawned.is_empty();
            tasks.extend(spawned.into_iter().map(|task| task.0));
            match tasks.poll_next_unpin(context) {
                Poll::Ready(Some(())) => {}
                Poll::Ready(None) | Poll::Pending if none_new => return,
                Poll::Ready(None) | Poll::Pending => {}
            }
        }
    }

    /// Moves the clock to the next timer and wakes it. Returns false if there is none.
    fn advance(&self) -> bool {
        let mut timers = lock(&self.shared);
        let Some(((at, _), waker)) = timers.waiting.pop_first() else { return false };
        timers.now = at;
        drop(timers);
        waker.wake();
        true
    }
}

impl Clock for VirtualTime {
    fn now(&self) -> Duration {
        lock(&self.shared).now
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let at = self.now().saturating_add(duration);
        Box::pin(Timer { shared: Arc::clone(&self.shared), at, key: None })
    }

    fn random(&self) -> u64 {
        lock(&self.shared).random.next_u64()
    }
}

/// A future that completes at a time.
struct Timer {
    shared: Arc<Mutex<Timers>>,
    at: Duration,
    /// Its key in `waiting`, while it waits.
    key: Option<(Duration, u64)>,
}

impl Future for Timer {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let shared = Arc::clone(&self.shared);
        let mut timers = lock(&shared);
        if timers.now >= self.at {
            return Poll::Ready(());
        }
        let at = self.at;
        let key = *self.key.get_or_insert_with(|| {
            timers.set += 1;
            (at, timers.set)
        });
        timers.waiting.insert(key, context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            lock(&self.shared).waiting.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    static GOES_ON: AtomicBool = AtomicBool::new(false);

    #[test]
    fn tasks_wake_in_the_order_of_their_times() {
        let time = VirtualTime::new();
        let seen = Arc::new(Mutex::new(Vec::new()));
        for wait in [3, 1, 2] {
            let (clock, seen) = (time.clone(), Arc::clone(&seen));
            time.spawn(Box::pin(async move {
                clock.sleep(wait * MS).await;
                clock.sleep(Duration::from_nanos(1)).await;
                lock(&seen).push((wait, clock.now()));
            }));
        }
        assert_eq!(time.run(time.sleep(5 * MS), &GOES_ON), Some(()));
        let expected = [1, 2, 3].map(|wait| (wait, wait * MS + Duration::from_nanos(1)));
        assert_eq!((*lock(&seen)).as_slice(), expected);
        assert_eq!(time.now(), 5 * MS);
    }

    #[test]
    fn a_task_may_spawn_another() {
        let time = VirtualTime::new();
        let (clock, again) = (time.clone(), time.clone());
        let done = Arc::new(AtomicBool::new(false));
        let set = Arc::clone(&done);
        time.spawn(Box::pin(async move {
            again.spawn(Box::pin(async move {
                clock.sleep(MS).await;
                set.store(true, Ordering::Relaxed);
            }));
        }));
        assert_eq!(time.run(time.sleep(2 * MS), &GOES_ON), Some(()));
        assert!(done.load(Ordering::Relaxed));
    }

    #[test]
    fn work_that_waits_for_nothing_ends_without_a_result() {
        let time = VirtualTime::new();
        assert_eq!(time.run(std::future::pending::<()>(), &GOES_ON), None);
        let stopped = AtomicBool::new(true);
        assert_eq!(time.run(time.sleep(MS), &stopped), None);
    }

    #[test]
    fn a_dropped_timer_does_not_move_the_clock() {
        let time = VirtualTime::new();
        let mut early = time.sleep(MS);
        let waker = Waker::noop();
        assert!(early.as_mut().poll(&mut Context::from_waker(waker)).is_pending());
        drop(early);
        assert!(lock(&time.shared).waiting.is_empty());
    }
}
