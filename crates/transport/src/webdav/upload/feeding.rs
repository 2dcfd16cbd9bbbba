//! The state of an upload that is one PUT.

use crate::http::call::change::ChangeOutcome;
use bytes::Bytes;
use hither_core::error::Result;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// A PUT that is being fed.
#[derive(Debug, Default)]
pub(super) struct StreamUpload {
    /// Bytes that were passed to the request.
    pub(super) fed: u64,
    pub(super) feed: Option<mpsc::Sender<Bytes>>,
    pub(super) answer: Option<JoinHandle<Result<ChangeOutcome>>>,
}

impl Drop for StreamUpload {
    fn drop(&mut self) {
        if let Some(answer) = &self.answer {
            answer.abort();
        }
    }
}
