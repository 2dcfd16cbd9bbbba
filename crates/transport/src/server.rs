//! What is known of one server, shared by all files on it, and how it wants to be treated.

use crate::exchange::{Outcome, Settled};
use crate::respond;
use hither_core::endpoint::{Endpoint, NameSupport, RangeSupport};
use hither_core::error::{ErrorKind, Result, Retry};
use hither_core::{Limits, Request};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::time::Instant;

/// The record of a server and its wishes.
#[derive(Debug)]
pub(crate) struct Server {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    endpoint: Endpoint,
    /// Fewest ranges in a request that was refused as too large, or is known to be by servers of this make; 0 for none.
    refused_ranges: usize,
    /// The server asked not to be bothered before this instant.
    not_before: Option<Instant>,
}

impl Server {
    pub(crate) fn new(endpoint: Endpoint) -> Self {
        Self { state: Mutex::new(State { endpoint, refused_ranges: 0, not_before: None }) }
    }

    /// The record, without what the pool knows of the path.
    pub(crate) fn endpoint(&self) -> Endpoint {
        self.state().endpoint.clone()
    }

    pub(crate) fn limits(&self) -> Limits {
        self.state().endpoint.limits()
    }

    pub(crate) fn ranges(&self) -> RangeSupport {
        self.state().endpoint.ranges
    }

    /// Whether a request for the end of the file may ask for it by suffix, with `ranges` others beside it.
    pub(crate) fn takes_suffix(&self, ranges: usize) -> bool {
        let endpoint = &self.state().endpoint;
        match endpoint.ranges {
            RangeSupport::Unknown | RangeSupport::Multi => {
                endpoint.suffix && ranges < endpoint.max_ranges
            }
            RangeSupport::Single => false,
            // No range is sent at all, and the length of the answer tells where the tail begins.
            _ => true,
        }
    }

    /// What it can do for those who list and write.
    pub(crate) fn names(&self) -> NameSupport {
        self.state().endpoint.names
    }

    /// Learns something about that.
    pub(crate) fn learn_names(&self, learn: impl FnOnce(&mut NameSupport)) {
        learn(&mut self.state().endpoint.names);
    }

    /// Waits as long as the server has asked for.
    pub(crate) async fn wait_until_welcome(&self) {
        let not_before = self.state().not_before;
        if let Some(instant) = not_before {
            tokio::time::sleep_until(instant).await;
        }
    }

    /// Learns from how a request went.
    pub(crate) fn learn(&self, request: &Request, result: &Settled) {
        let ranges = request.ranges.len() + usize::from(request.tail > 0);
        let text_bytes: usize = request.ranges.iter().map(Limits::range_text_bytes).sum();
        let mut state = self.state();
        if let Some(hint) = &result.hint {
            respond::apply_hint(&mut state.endpoint, hint);
            if let (0, Some(most)) = (state.refused_ranges, hint.max_ranges) {
                state.refused_ranges = most + 1;
            }
        }
        // A server that has answered several ranges before has not forgotten how: there were too many.
        let learned = result.learned.filter(|&support| {
            support != RangeSupport::Single
                || state.endpoint.ranges != RangeSupport::Multi
                || ranges <= 2
        });
        if let Some(support) = learned {
            state.endpoint.ranges = support;
        }
        if request.tail > 0 && result.tail_refused {
            state.endpoint.suffix = false;
        }
        state.conclude(&result.outcome, result, ranges, text_bytes, learned.is_some());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn conclude(
        &mut self,
        outcome: &Result<Outcome>,
        result: &Settled,
        ranges: usize,
        text_bytes: usize,
        learned: bool,
    ) {
        match outcome {
            Ok(Outcome::Complete(_)) if ranges > 1 && result.multipart => {
                respond::raise(&mut self.endpoint, ranges, text_bytes, self.refused_ranges);
            }
            // That it knows no suffix says nothing about the number of ranges.
            Err(_) if result.tail_refused => {}
            Err(error) if error.kind() == ErrorKind::TooLarge && !learned => {
                respond::lower(&mut self.endpoint, ranges, text_bytes);
                self.refused_ranges = match self.refused_ranges {
                    0 => ranges,
                    fewest => fewest.min(ranges),
                };
            }
            Err(error) => {
                if let Retry::SameServer { after } = error.retry() {
                    self.not_before = Some(Instant::now() + after);
                }
            }
            Ok(_) => {}
        }
    }
}
