//! Files that are staged from tape to disk before they are copied.
//!
//! All files are found first and requested together, because a tape library orders its reads by the
//! position on tape. Each file is copied as soon as it is on disk.

use crate::copy::context::CopyContext;
use crate::copy::resources::job_clock::JobClock;
use crate::file::item::CopyItem;
use crate::server_actions::{Stager, Staging};
use hither_core::storage::StagingState;
use hither_core::{Backoff, Clock, Error, ErrorKind, Result, RetryPolicy, retry};
use std::sync::Arc;
use std::time::Duration;

/// The interval of polls at first, and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const MAX_PAUSE: Duration = Duration::from_secs(30);
/// The number of polls in a row that may fail.
const ATTEMPTS: u32 = 10;
/// The number of polls in a row that do not mention a file which has failed then: ten seconds at
/// the beginning, when a busy server may not have noted all files of the request.
const MAX_UNLISTED: u32 = 9;

/// A wait for files that are being staged.
#[derive(Debug)]
pub struct StagingWait {
    staging: Box<dyn Staging>,
    states: Vec<StagingState>,
    /// The polls in a row that have not mentioned each file.
    unlisted: Vec<u32>,
    clock: JobClock,
    /// The time until the next poll.
    pause: Duration,
    /// The interval after the next poll.
    interval: Duration,
    /// The polls in a row that failed.
    backoff: Backoff,
    /// The time from the beginning after which no further poll is sent.
    limit: Duration,
}

impl StagingWait {
    /// Waits for all files of `staging`, in this number.
    #[must_use]
    pub fn new(staging: Box<dyn Staging>, files: usize) -> Self {
        let states = vec![StagingState::Waiting; files];
        Self {
            staging,
            states,
            unlisted: vec![0; files],
            clock: JobClock::start(),
            pause: Duration::ZERO,
            interval: FIRST_PAUSE,
            backoff: Backoff::default(),
            limit: Duration::MAX,
        }
    }

    /// Ends after `limit`, with a last poll: nothing is known of files before the first one, and
    /// later what the one before said may no longer be true.
    #[must_use]
    pub fn within(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Polls until further files are on disk or have failed. Returns their numbers and states; none
    /// if all files have ended, or at the limit.
    ///
    /// # Errors
    ///
    /// The error of a poll: of the tenth in a row if servers cannot be reached, or of the last one
    /// within the limit.
    pub async fn next(&mut self) -> Result<Vec<(usize, StagingState)>> {
        while self.states.iter().any(|state| !state.is_final()) {
            if !self.pause.is_zero() {
                let left = self.limit.saturating_sub(self.clock.now());
                if left.is_zero() {
                    break;
                }
                self.clock.sleep(self.pause.min(left)).await;
            }
            match self.staging.progress().await {
                Ok(states) => {
                    self.backoff = Backoff::default();
                    self.pause = self.interval;
                    self.interval = self.interval.mul_f64(1.5).min(MAX_PAUSE);
                    let settled = self.settled(states);
                    if !settled.is_empty() {
                        return Ok(settled);
                    }
                }
                Err(error) => {
                    let mut policy = RetryPolicy::once();
                    policy.attempts = ATTEMPTS;
                    policy.min_pause = self.interval;
                    policy.max_pause = MAX_PAUSE;
                    let retry = error.retry_anew();
                    let pause = self.backoff.next(&policy, retry, false, &self.clock);
                    let Some(pause) = pause.filter(|_| self.clock.now() < self.limit) else {
                        return Err(error);
                    };
                    retry::note(&error, retry, pause);
                    self.pause = pause;
                }
            }
        }
        Ok(Vec::new())
    }

    /// The files that have ended.
    fn settled(&mut self, states: Vec<StagingState>) -> Vec<(usize, StagingState)> {
        let mut settled = Vec::new();
        let files = self.states.iter_mut().zip(&mut self.unlisted);
        for (nth, ((slot, unlisted), state)) in files.zip(states).enumerate() {
            if slot.is_final() {
                continue;
            }
            *unlisted = if state == StagingState::Unlisted { *unlisted + 1 } else { 0 };
            *slot = if *unlisted < MAX_UNLISTED { state } else { unlisted_file() };
            if slot.is_final() {
                settled.push((nth, slot.clone()));
            }
        }
        settled
    }
}

/// The state of a file that the server does not stage.
fn unlisted_file() -> StagingState {
    let why = "the request does not have this file at the server any more, or never did";
    StagingState::Failed(why.to_owned())
}

/// Stages all files that were found, and queues each when it is on disk.
pub(crate) async fn run(shared: &CopyContext, stager: &dyn Stager) {
    let items = std::mem::take(&mut *hither_core::sync::lock(&shared.to_stage));
    if items.is_empty() {
        return;
    }
    let files = items.iter().map(|item| (Arc::clone(&item.storage), item.path.clone())).collect();
    let mut waiting: Vec<Option<CopyItem>> = items.into_iter().map(Some).collect();
    let staging = match stager.stage(files).await {
        Ok(staging) => staging,
        Err(error) => return fail_all(shared, waiting, &error),
    };
    staging.notices().into_iter().for_each(|notice| shared.results().note(notice));
    let mut wait = StagingWait::new(staging, waiting.len());
    loop {
        match wait.next().await {
            Ok(settled) if settled.is_empty() => return,
            Ok(settled) => {
                for (nth, state) in settled {
                    if let Some(item) = waiting.get_mut(nth).and_then(Option::take) {
                        settle(shared, item, state).await;
                    }
                }
            }
            Err(error) => return fail_all(shared, waiting, &error),
        }
    }
}

async fn settle(shared: &CopyContext, mut item: CopyItem, state: StagingState) {
    if let StagingState::Failed(why) = state {
        let what = format!("{} cannot be staged: {why:?}", item.name);
        return shared.results().failed(item.name, Error::new(ErrorKind::Unavailable, what));
    }
    // The file on disk has another validator than its stub.
    if let Some(entry) = &mut item.entry {
        entry.validator = None;
    }
    shared.queue.found(item).await;
}

fn fail_all(shared: &CopyContext, waiting: Vec<Option<CopyItem>>, error: &Error) {
    for item in waiting.into_iter().flatten() {
        shared.results().failed(item.name, error.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_core::future::BoxFuture;
    use std::collections::VecDeque;
    use tokio::time::Instant;

    /// The answers to polls.
    #[derive(Debug)]
    struct Answers(VecDeque<Result<Vec<StagingState>>>);

    impl Staging for Answers {
        fn progress(&mut self) -> BoxFuture<'_, Result<Vec<StagingState>>> {
            Box::pin(async { self.0.pop_front().unwrap() })
        }

        fn notices(&self) -> Vec<String> {
            Vec::new()
        }
    }

    fn wait(answers: impl IntoIterator<Item = Result<Vec<StagingState>>>) -> StagingWait {
        StagingWait::new(Box::new(Answers(answers.into_iter().collect())), 2)
    }

    fn online() -> Result<Vec<StagingState>> {
        Ok(vec![StagingState::Online, StagingState::Online])
    }

    fn unreachable() -> Result<Vec<StagingState>> {
        Err(Error::new(ErrorKind::Unavailable, "the server is down"))
    }

    #[tokio::test(start_paused = true)]
    async fn files_are_handed_out_once_as_they_settle() {
        use StagingState::{Online, Waiting};
        let lost = StagingState::Failed("no tape".to_owned());
        let mut wait = wait([
            Ok(vec![Waiting, Online]),
            unreachable(),
            Ok(vec![Waiting, Waiting]),
            Ok(vec![lost.clone(), Online]),
        ]);
        let begun = Instant::now();
        assert_eq!(wait.next().await.unwrap(), [(1, Online)]);
        assert_eq!(begun.elapsed(), Duration::ZERO);
        assert_eq!(wait.next().await.unwrap(), [(0, lost)]);
        // The pause after the poll that failed is random.
        let waited = begun.elapsed().as_millis();
        assert!((200 + 300 + 300..=200 + 900 + 300).contains(&waited), "{waited}");
        assert_eq!(wait.next().await.unwrap(), []);
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_that_many_polls_in_a_row_do_not_mention_has_failed() {
        use StagingState::{Failed, Online, Unlisted, Waiting};
        let unlisted = |polls: u32| (0..polls).map(|_| Ok(vec![Unlisted, Unlisted]));
        let mut polls: Vec<_> = unlisted(MAX_UNLISTED - 1).collect();
        polls.push(Ok(vec![Waiting, Unlisted]));
        polls.extend(unlisted(MAX_UNLISTED - 1));
        polls.push(Ok(vec![Online, Unlisted]));
        let mut wait = wait(polls);
        let settled = wait.next().await.unwrap();
        assert!(matches!(settled.as_slice(), [(1, Failed(_))]), "{settled:?}");
        assert_eq!(wait.next().await.unwrap(), [(0, Online)]);
        assert_eq!(wait.next().await.unwrap(), []);
    }

    #[tokio::test(start_paused = true)]
    async fn a_limit_ends_the_wait_with_a_poll() {
        use StagingState::{Online, Waiting};
        let begun = Instant::now();
        let mut wait = wait([
            Ok(vec![Waiting, Waiting]),
            Ok(vec![Waiting, Waiting]),
            Ok(vec![Online, Waiting]),
        ])
        .within(Duration::from_millis(300));
        assert_eq!(wait.next().await.unwrap(), [(0, Online)]);
        assert_eq!(wait.next().await.unwrap(), []);
        assert_eq!(begun.elapsed(), Duration::from_millis(300));
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_poll_may_end_after_the_limit() {
        let mut late = wait([online()]).within(Duration::ZERO);
        assert_eq!(late.next().await.unwrap().len(), 2);
        let mut failing = wait([unreachable()]).within(Duration::ZERO);
        assert_eq!(failing.next().await.unwrap_err().kind(), ErrorKind::Unavailable);
    }

    #[tokio::test(start_paused = true)]
    async fn ten_polls_in_a_row_may_fail_and_no_refusal() {
        let mut lasting = wait(std::iter::repeat_with(unreachable).take(10));
        assert_eq!(lasting.next().await.unwrap_err().kind(), ErrorKind::Unavailable);
        let mut passing = wait(std::iter::repeat_with(unreachable).take(9).chain([online()]));
        assert_eq!(passing.next().await.unwrap().len(), 2);
        let refused = || Err(Error::new(ErrorKind::PermissionDenied, "no"));
        assert!(wait([refused()]).next().await.is_err());
    }
}
