//! How long a file is to be left alone that its server has to make ready first.

use crate::exchange::Settled;
use hither_core::error::Retry;
use std::sync::{Mutex, PoisonError};
use tokio::time::Instant;

/// When a file may be asked for again; at any time, unless its server said otherwise.
#[derive(Debug, Default)]
pub(crate) struct PutOff(Mutex<Option<Instant>>);

impl PutOff {
    /// Notes what the answer to a request said of it.
    pub(crate) fn learn(&self, settled: &Settled) {
        if let Some(Retry::Later { after }) = settled.outcome.as_ref().err().map(|e| e.retry()) {
            let mut until = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            *until = Instant::now().checked_add(after);
        }
    }

    /// Waits as long as was asked for.
    pub(crate) async fn wait(&self) {
        let until = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(until) = until {
            tokio::time::sleep_until(until).await;
        }
    }
}
