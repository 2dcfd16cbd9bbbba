//! A walk by a stream of the server. A walk that breaks off continues after the last name that
//! arrived.

use crate::destination::remote_name;
use hither_core::retry::{self, Failed, RetryPolicy, Retryable};
use hither_core::storage::{Storage, TreeEvent, TreeEvents, TreeRequest};
use hither_core::{Clock, Error, ErrorKind, Result};
use std::fmt::{Debug, Formatter};
use tracing::debug;

/// The events of a walk.
pub struct ResumedWalk<'a> {
    storage: &'a dyn Storage,
    directory: &'a str,
    policy: &'a RetryPolicy,
    clock: &'a dyn Clock,
    stream: Option<Box<dyn TreeEvents>>,
    /// The last name that came.
    last: String,
    /// Events have come since the last failure.
    progressed: bool,
}

impl<'a> ResumedWalk<'a> {
    /// Requests everything below a directory. None if it is not a directory, or if its storage has
    /// no streams.
    ///
    /// # Errors
    ///
    /// The last one of the requests, if `policy` allows no other.
    pub async fn begin(
        storage: &'a dyn Storage,
        directory: &'a str,
        policy: &'a RetryPolicy,
        clock: &'a dyn Clock,
    ) -> Result<Option<Self>> {
        let ask = || async move { Ok(ask(storage, directory, "").await?) };
        let stream = retry::run(policy, clock, ask).await?;
        let last = String::new();
        let walk = |stream| Self {
            storage,
            directory,
            policy,
            clock,
            stream: Some(stream),
            last,
            progressed: false,
        };
        Ok(stream.map(walk))
    }

    /// The next events, as many as have arrived; none at the end.
    ///
    /// # Errors
    ///
    /// As [`begin`](Self::begin); [`ErrorKind::Changed`] if the walk broke off, and the directory
    /// is none any more.
    pub async fn next(&mut self) -> Result<Vec<TreeEvent>> {
        retry::run(self.policy, self.clock, NextEvents(self)).await
    }

    async fn receive(&mut self) -> Result<Vec<TreeEvent>> {
        let stream = match &mut self.stream {
            Some(stream) => stream,
            None => match ask(self.storage, self.directory, &self.last).await? {
                Some(stream) => self.stream.insert(stream),
                None => {
                    let name = remote_name(self.storage, self.directory);
                    let what = format!("{name} is no longer a directory");
                    return Err(Error::new(ErrorKind::Changed, what));
                }
            },
        };
        let events = stream.next().await?;
        let last = events.iter().rev().find_map(|event| match event {
            TreeEvent::Directory(path) => Some(format!("{path}/")),
            TreeEvent::File(file) | TreeEvent::Content(file, _) => Some(file.relative.clone()),
            TreeEvent::Failed(..) | TreeEvent::LeftOut(..) => None,
        });
        if let Some(last) = last {
            self.last = last;
            self.progressed = true;
        }
        Ok(events)
    }
}

async fn ask(
    storage: &dyn Storage,
    directory: &str,
    after: &str,
) -> Result<Option<Box<dyn TreeEvents>>> {
    storage.tree(directory, TreeRequest::Walk { after: after.to_owned() }).await
}

impl Debug for ResumedWalk<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ResumedWalk").field("directory", &self.directory).finish_non_exhaustive()
    }
}

struct NextEvents<'b, 'a>(&'b mut ResumedWalk<'a>);

impl Retryable for NextEvents<'_, '_> {
    type Done = Vec<TreeEvent>;

    async fn attempt(&mut self) -> Result<Vec<TreeEvent>, Failed> {
        let Self(walk) = self;
        walk.receive().await.map_err(|error| {
            debug!(walk.last, %error, "the walk broke off");
            walk.stream = None;
            Failed::from(error).after_progress(std::mem::take(&mut walk.progressed))
        })
    }
}
