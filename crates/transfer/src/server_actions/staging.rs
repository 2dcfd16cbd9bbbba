//! Files that are brought from tape to disk before they are copied.
//!
//! All files are found first, so that they are asked for in one request: a tape library orders what
//! it reads by where it lies. Each is copied as soon as it is on disk.

use crate::copy::context::CopyContext;
use crate::file::CopyItem;
use crate::server_actions::Stager;
use hither_core::storage::StagingState;
use hither_core::{Error, ErrorKind};
use std::sync::Arc;
use std::time::Duration;
use tracing::debug;

/// Time between two questions for progress at first, and at the most.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const MAX_PAUSE: Duration = Duration::from_secs(30);
/// Questions in a row that may fail.
const MAX_FAILURES: u32 = 10;

/// Returns the pause after a pause of this length.
#[must_use]
pub fn next_pause(pause: Option<Duration>) -> Duration {
    pause.map_or(FIRST_PAUSE, |pause| pause.mul_f64(1.5).min(MAX_PAUSE))
}

/// Stages all files that were found, and queues each when it is on disk.
pub(crate) async fn run(shared: &CopyContext, stager: &dyn Stager) {
    let items = std::mem::take(&mut *hither_core::sync::lock(&shared.to_stage));
    if items.is_empty() {
        return;
    }
    let files = items.iter().map(|item| (Arc::clone(&item.storage), item.path.clone())).collect();
    let mut waiting: Vec<Option<CopyItem>> = items.into_iter().map(Some).collect();
    let mut staging = match stager.stage(files).await {
        Ok(staging) => staging,
        Err(error) => return fail_all(shared, waiting, &error),
    };
    staging.notices().into_iter().for_each(|notice| shared.note(notice));
    let mut pause = None;
    let mut failures = 0;
    loop {
        match staging.progress().await {
            Ok(states) => {
                failures = 0;
                for (slot, state) in waiting.iter_mut().zip(states) {
                    settle(shared, slot, state).await;
                }
            }
            Err(error) => {
                failures += 1;
                debug!(%error, failures, "staging cannot be followed");
                let is_final = !matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Timeout);
                if is_final || failures >= MAX_FAILURES {
                    return fail_all(shared, waiting, &error);
                }
            }
        }
        if waiting.iter().all(Option::is_none) {
            return;
        }
        let next = next_pause(pause);
        pause = Some(next);
        tokio::time::sleep(next).await;
    }
}

async fn settle(shared: &CopyContext, slot: &mut Option<CopyItem>, state: StagingState) {
    match state {
        StagingState::Waiting => {}
        StagingState::Online => {
            if let Some(mut item) = slot.take() {
                // The file on disk has another validator than its stub.
                if let Some(entry) = &mut item.entry {
                    entry.validator = None;
                }
                shared.queue.found(item).await;
            }
        }
        StagingState::Failed(why) => {
            if let Some(item) = slot.take() {
                let what = format!("{} cannot be staged: {why:?}", item.name);
                shared.failed(item.name, Error::new(ErrorKind::Unavailable, what));
            }
        }
    }
}

fn fail_all(shared: &CopyContext, waiting: Vec<Option<CopyItem>>, error: &Error) {
    for item in waiting.into_iter().flatten() {
        shared.failed(item.name, error.clone());
    }
}
