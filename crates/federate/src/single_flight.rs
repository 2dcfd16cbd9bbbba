//! Request coalescing: clients that look up one path at the same time share one lookup.
//!
//! The first client starts a task that sends the requests. All clients, including the first, watch
//! the answer grow until it is enough for them. The task continues when they have left, because its
//! answer is cached for others. When too many lookups are open, each new one aborts one without
//! waiting clients, so that a slow endpoint does not delay names that others have.

use hither_core::error::{Error, ErrorKind, Result};
use hither_core::sync::lock;
use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex};
use tokio::sync::watch;
use tokio::task::AbortHandle;

/// Maximum number of open lookups, each of which sends requests to many endpoints. It also bounds
/// the load from clients that request random names.
const MAX_LOOKUPS: usize = 4_096;

/// The open lookups, by path.
type OpenLookups<A> = Arc<Mutex<HashMap<Arc<str>, Lookup<A>>>>;

/// An open lookup.
#[derive(Debug)]
struct Lookup<A> {
    answer: watch::Receiver<A>,
    /// Has a clone for each client that waits.
    clients: Arc<()>,
    task: AbortHandle,
}

impl<A> Lookup<A> {
    fn is_waited_for(&self) -> bool {
        Arc::strong_count(&self.clients) > 1
    }

    fn join(&self) -> (watch::Receiver<A>, Arc<()>) {
        (self.answer.clone(), Arc::clone(&self.clients))
    }
}

/// At most one lookup of each path at a time. Its answer begins as the default and grows.
#[derive(Debug)]
pub(crate) struct SingleFlight<A>(OpenLookups<A>);

impl<A> Default for SingleFlight<A> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

/// Removes a lookup when its task ends, also if it fails.
struct EndOnDrop<A> {
    open: OpenLookups<A>,
    path: Arc<str>,
}

impl<A> Drop for EndOnDrop<A> {
    fn drop(&mut self) {
        let mut open = lock(&self.open);
        // It may have been aborted and opened again since.
        if open.get_key_value(&self.path).is_some_and(|(key, _)| Arc::ptr_eq(key, &self.path)) {
            open.remove(&self.path);
        }
    }
}

impl<A: Clone + Default + Send + Sync + 'static> SingleFlight<A> {
    /// Waits for an answer that is `enough`. If the lookup is not open yet, `ask` sends the
    /// requests, and publishes the answer as it grows.
    pub(crate) async fn wait<F>(
        &self,
        path: &str,
        ask: impl FnOnce(watch::Sender<A>) -> F,
        enough: impl Fn(&A) -> bool,
    ) -> Result<A>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (mut answer, _waiting) = self.join(path, ask)?;
        let found = answer.wait_for(enough).await;
        found.map(|answer| answer.clone()).map_err(|_| {
            Error::new(ErrorKind::Cancelled, "the lookup at the endpoints was aborted")
        })
    }

    fn join<F>(
        &self,
        path: &str,
        ask: impl FnOnce(watch::Sender<A>) -> F,
    ) -> Result<(watch::Receiver<A>, Arc<()>)>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let path: Arc<str> = path.into();
        let mut open = lock(&self.0);
        if let Some(lookup) = open.get(&path) {
            return Ok(lookup.join());
        }
        if open.len() >= MAX_LOOKUPS {
            let abandoned = open.iter().find(|(_, lookup)| !lookup.is_waited_for());
            let abandoned = abandoned.map(|(path, _)| Arc::clone(path));
            let Some(lookup) = abandoned.and_then(|path| open.remove(&path)) else {
                let what = format!("{MAX_LOOKUPS} lookups wait for endpoints: try again later");
                return Err(Error::new(ErrorKind::Unavailable, what));
            };
            lookup.task.abort();
        }
        let (sender, answer) = watch::channel(A::default());
        let lookups = Arc::clone(&self.0);
        let key = Arc::clone(&path);
        let requests = ask(sender);
        let task = tokio::spawn(async move {
            // Not before: a runtime that is shutting down drops the task here, under the lock.
            let _end = EndOnDrop { open: lookups, path: key };
            requests.await;
        });
        let lookup = Lookup { answer, clients: Arc::default(), task: task.abort_handle() };
        let joined = lookup.join();
        open.insert(path, lookup);
        Ok(joined)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};
    use std::time::Duration;
    use tokio::time::sleep;

    /// Sends 1 and 2 after a second each.
    async fn count(sender: watch::Sender<u32>) {
        for number in [1, 2] {
            sleep(Duration::from_secs(1)).await;
            sender.send_replace(number);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn clients_share_a_lookup_and_leave_when_they_have_enough() {
        let lookups = SingleFlight::default();
        let began = tokio::time::Instant::now();
        let first = lookups.wait("a", count, |number| *number >= 1);
        let never = |_| async { unreachable!("the requests were sent already") };
        let all = lookups.wait("a", never, |number| *number >= 2);
        let other = lookups.wait("b", count, |number| *number >= 1);
        let (first, all, other) = tokio::join!(first, all, other);
        assert_eq!((first.unwrap(), all.unwrap(), other.unwrap()), (1, 2, 1));
        assert_eq!(began.elapsed(), Duration::from_secs(2));
        // The tasks end after their last answers.
        sleep(Duration::from_secs(1)).await;
        assert!(lock(&lookups.0).is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn lookups_are_bounded() {
        let lookups = SingleFlight::<u32>::default();
        let join = |number: usize| lookups.join(&number.to_string(), count).unwrap();
        let waiting: Vec<_> = (0..MAX_LOOKUPS).map(join).collect();
        let refused = lookups.wait("more", count, |_| true).await;
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Unavailable);
        drop(waiting);
        sleep(Duration::from_secs(3)).await;
        assert_eq!(lookups.wait("more", count, |number| *number == 2).await.unwrap(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_lookup_without_waiting_clients_makes_room() {
        let lookups = SingleFlight::<u32>::default();
        for number in 0..=MAX_LOOKUPS {
            let first = lookups.wait(&number.to_string(), count, |_| true).await;
            assert_eq!(first.unwrap(), 0);
        }
        assert_eq!(lock(&lookups.0).len(), MAX_LOOKUPS);
        // An aborted lookup can start again, and the end of the first does not remove the second.
        let gone = (0..MAX_LOOKUPS).map(|number| number.to_string());
        let is_gone = |path: &String| !lock(&lookups.0).contains_key(path.as_str());
        let gone = gone.into_iter().find(is_gone).unwrap();
        assert_eq!(lookups.wait(&gone, count, |number| *number == 2).await.unwrap(), 2);
    }

    #[test]
    fn a_lookup_that_begins_while_the_runtime_shuts_down_is_an_error() {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let handle = runtime.handle().clone();
        drop(runtime);
        let (ends, ended) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let _inside = handle.enter();
            let lookups = SingleFlight::default();
            let lookup = pin!(lookups.wait("a", count, |number| *number > 0));
            let answer = lookup.poll(&mut Context::from_waker(Waker::noop()));
            let Poll::Ready(Err(error)) = answer else { panic!("{answer:?}") };
            ends.send(error.kind()).unwrap();
        });
        let kind = ended.recv_timeout(Duration::from_secs(10)).unwrap();
        assert_eq!(kind, ErrorKind::Cancelled);
    }

    #[tokio::test(start_paused = true)]
    async fn an_abandoned_lookup_is_an_error_and_can_be_started_again() {
        let lookups = SingleFlight::<u32>::default();
        let abandon = |sender| async move { drop(sender) };
        let abandoned = lookups.wait("a", abandon, |number| *number > 0).await;
        assert_eq!(abandoned.unwrap_err().kind(), ErrorKind::Cancelled);
        assert_eq!(lookups.wait("a", count, |number| *number > 0).await.unwrap(), 1);
    }
}
