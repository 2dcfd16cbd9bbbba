//! How long a file is to be left alone that its server has to make ready first.

use hither_core::error::{Error, Retry};
use std::sync::{Mutex, PoisonError};
use tokio::time::Instant;

/// When a file may be asked for again; at any time, unless its server said otherwise.
#[derive(Debug, Default)]
pub(crate) struct PutOff(Mutex<Option<Instant>>);

impl PutOff {
    /// Notes what was said of it when a request failed.
    pub(crate) fn learn(&self, error: &Error) {
        if let Retry::Later { after } = error.retry() {
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
