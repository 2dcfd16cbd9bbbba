//! Requests to endpoints: each has a deadline, and counts for the health of its endpoint.

use super::{NameSpace, is_negative};
use crate::endpoint::Endpoint;
use hither_core::error::{Delivery, Effect, Error, ErrorKind, Failure, Result};
use std::future::Future;
use std::time::Duration;

impl NameSpace {
    /// Sends a request to an endpoint, and records its result.
    pub(crate) async fn ask<T>(
        &self,
        endpoint: &Endpoint,
        deadline: Duration,
        request: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        self.request(endpoint, deadline, Effect::Read, request).await
    }

    /// Lets an endpoint change the entries at `paths`, and invalidates what is cached about them,
    /// whatever the result. The error states if the change may have been carried out.
    pub(crate) async fn change<T>(
        &self,
        endpoint: &Endpoint,
        paths: &[&str],
        change: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let note = async || {
            for path in paths {
                self.note_change(path).await;
            }
        };
        // Before the request, too: this future may be dropped before the response arrives.
        note().await;
        let deadline = self.settings.listing_deadline();
        let answer = self.request(endpoint, deadline, Effect::Change, change).await;
        note().await;
        answer
    }

    async fn request<T>(
        &self,
        endpoint: &Endpoint,
        deadline: Duration,
        effect: Effect,
        request: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let began = self.clock.now();
        let answer = tokio::time::timeout(deadline, request).await.unwrap_or_else(|_| {
            let what = format!(
                "{} has not answered within {} s",
                endpoint.storage.name(),
                deadline.as_secs_f64()
            );
            // One late response may be chance.
            let sent = Failure::Interrupted(Delivery::Sent);
            let error = Error::new(ErrorKind::Timeout, what).with_failure(sent);
            Err(error.of_request(effect, "change"))
        });
        match &answer {
            Ok(_) => self.record_answer(endpoint, began),
            Err(error) if is_negative(error) || error.kind() == ErrorKind::Invalid => {
                self.record_answer(endpoint, began);
            }
            Err(error) => {
                endpoint.record_failure();
                // A change is not retried, but for the health of the endpoint its failure counts
                // like that of a read.
                let as_read = error.clone().with_effect(Effect::Read);
                let is_down = self.health.record_error(&endpoint.name, &as_read);
                tracing::debug!(endpoint = endpoint.name, %error, is_down, "no answer");
            }
        }
        answer
    }

    fn record_answer(&self, endpoint: &Endpoint, began: Duration) {
        endpoint.record_answer(self.clock.now().saturating_sub(began));
        // An endpoint that counts as down is used again only after good probes.
        if !self.health.is_down(&endpoint.name) {
            self.health.record_success(&endpoint.name);
        }
    }
}
