//! Request coalescing: concurrent lookups of one path share their requests.
//!
//! A *question* is such a shared lookup. The first client starts a task that sends the requests.
//! All clients, including the first, watch the answer grow until it is enough for them. The task
//! continues when they have left, because its answer is cached for others. When too many questions
//! are open, each new one aborts one without waiting clients, so that a slow endpoint does not
//! delay names that others have.

use hither_core::error::{Error, ErrorKind, Result};
use hither_core::sync::lock;
use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex};
use tokio::sync::watch;
use tokio::task::AbortHandle;

/// Maximum number of open questions, each of which sends requests to many endpoints. It also bounds
/// the load from clients that request random names.
const MAX_QUESTIONS: usize = 4_096;

/// The open questions, by path.
type OpenQuestions<A> = Arc<Mutex<HashMap<Arc<str>, Question<A>>>>;

/// An open question.
#[derive(Debug)]
struct Question<A> {
    answer: watch::Receiver<A>,
    /// Has a clone for each client that waits.
    clients: Arc<()>,
    task: AbortHandle,
}

impl<A> Question<A> {
    fn is_waited_for(&self) -> bool {
        Arc::strong_count(&self.clients) > 1
    }

    fn join(&self) -> (watch::Receiver<A>, Arc<()>) {
        (self.answer.clone(), Arc::clone(&self.clients))
    }
}

/// Questions about paths, whose answers begin as the default and grow.
#[derive(Debug)]
pub(crate) struct Questions<A>(OpenQuestions<A>);

impl<A> Default for Questions<A> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

/// Removes a question when its task ends, also if it fails.
struct EndOnDrop<A> {
    open: OpenQuestions<A>,
    path: Arc<str>,
}

impl<A> Drop for EndOnDrop<A> {
    fn drop(&mut self) {
        let mut open = lock(&self.open);
        // It may have been aborted and opened again since.
        if open.get_key_value(&self.path).is_some_and(|(asked, _)| Arc::ptr_eq(asked, &self.path)) {
            open.remove(&self.path);
        }
    }
}

impl<A: Clone + Default + Send + Sync + 'static> Questions<A> {
    /// Waits for an answer that is `enough`. If the question is not open yet, `ask` sends the
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
            Error::new(ErrorKind::Cancelled, "the question to the endpoints was given up")
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
        if let Some(asked) = open.get(&path) {
            return Ok(asked.join());
        }
        if open.len() >= MAX_QUESTIONS {
            let given_up = open.iter().find(|(_, asked)| !asked.is_waited_for());
            let given_up = given_up.map(|(path, _)| Arc::clone(path));
            let Some(question) = given_up.and_then(|path| open.remove(&path)) else {
                let what = format!("{MAX_QUESTIONS} questions wait for endpoints: try again later");
                return Err(Error::new(ErrorKind::Unavailable, what));
            };
            question.task.abort();
        }
        let (sender, answer) = watch::channel(A::default());
        let end = EndOnDrop { open: Arc::clone(&self.0), path: Arc::clone(&path) };
        let asking = ask(sender);
        let task = tokio::spawn(async move {
            let _end = end;
            asking.await;
        });
        let question = Question { answer, clients: Arc::default(), task: task.abort_handle() };
        let joined = question.join();
        open.insert(path, question);
        Ok(joined)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
    async fn clients_share_a_question_and_leave_when_they_have_enough() {
        let questions = Questions::default();
        let began = tokio::time::Instant::now();
        let first = questions.wait("a", count, |number| *number >= 1);
        let never = |_| async { unreachable!("it was asked already") };
        let all = questions.wait("a", never, |number| *number >= 2);
        let other = questions.wait("b", count, |number| *number >= 1);
        let (first, all, other) = tokio::join!(first, all, other);
        assert_eq!((first.unwrap(), all.unwrap(), other.unwrap()), (1, 2, 1));
        assert_eq!(began.elapsed(), Duration::from_secs(2));
        // The tasks end after their last answers.
        sleep(Duration::from_secs(1)).await;
        assert!(lock(&questions.0).is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn questions_are_bounded() {
        let questions = Questions::<u32>::default();
        let join = |number: usize| questions.join(&number.to_string(), count).unwrap();
        let waiting: Vec<_> = (0..MAX_QUESTIONS).map(join).collect();
        let refused = questions.wait("more", count, |_| true).await;
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Unavailable);
        drop(waiting);
        sleep(Duration::from_secs(3)).await;
        assert_eq!(questions.wait("more", count, |number| *number == 2).await.unwrap(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_that_nobody_waits_for_makes_room() {
        let questions = Questions::<u32>::default();
        for number in 0..=MAX_QUESTIONS {
            let first = questions.wait(&number.to_string(), count, |_| true).await;
            assert_eq!(first.unwrap(), 0);
        }
        assert_eq!(lock(&questions.0).len(), MAX_QUESTIONS);
        // One that was given up can be asked again, which its end does not undo.
        let gone = (0..MAX_QUESTIONS).map(|number| number.to_string());
        let is_gone = |path: &String| !lock(&questions.0).contains_key(path.as_str());
        let gone = gone.into_iter().find(is_gone).unwrap();
        assert_eq!(questions.wait(&gone, count, |number| *number == 2).await.unwrap(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_that_is_given_up_is_an_error_and_can_be_asked_again() {
        let questions = Questions::<u32>::default();
        let give_up = |sender| async move { drop(sender) };
        let given_up = questions.wait("a", give_up, |number| *number > 0).await;
        assert_eq!(given_up.unwrap_err().kind(), ErrorKind::Cancelled);
        assert_eq!(questions.wait("a", count, |number| *number > 0).await.unwrap(), 1);
    }
}
