//! One request, sent to the server that it is redirected to.

use crate::context::MonotonicClock;
use crate::layers::credential::RequestCredential;
use crate::layers::redirects::{Attempts, MAX_XROOTD_REDIRECTS};
use crate::location::Location;
use crate::network::Network;
use crate::xrootd::job::{JobError, Operation, OperationJob, OperationResponse, SessionCommand};
use crate::xrootd::session_pool::{SessionHandle, SessionPool};
use crate::xrootd::target::XrootdTarget;
use hither_auth::Action;
use hither_core::error::{Error, Failure, Result, Retry};
use hither_core::retry;
use std::sync::Arc;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// A job that is cancelled when it is dropped.
pub(super) struct PendingJob {
    lease: Arc<SessionHandle>,
    id: u64,
    over: bool,
}

impl PendingJob {
    /// The job `id` in the session of `lease`.
    pub(super) fn new(lease: Arc<SessionHandle>, id: u64) -> Self {
        Self { lease, id, over: false }
    }

    /// Waits for its result.
    pub(super) async fn end<T>(
        mut self,
        answer: oneshot::Receiver<Result<T, JobError>>,
    ) -> Result<T, JobError> {
        let result = answer.await;
        self.over = true;
        result.unwrap_or_else(|_| Err(self.lease.too_late()))
    }
}

impl Drop for PendingJob {
    fn drop(&mut self) {
        if !self.over {
            self.lease.tell(SessionCommand::Cancel(self.id));
        }
    }
}

/// Sends a request in this session.
pub(super) async fn request_in(
    sessions: &SessionPool,
    lease: &Arc<SessionHandle>,
    what: Operation,
) -> Result<OperationResponse, JobError> {
    let (reply, answer) = oneshot::channel();
    let id = sessions.number();
    let round_trip = sessions.next_round_trip();
    lease.tell(SessionCommand::Operation(id, OperationJob { what, round_trip, reply }));
    PendingJob::new(Arc::clone(lease), id).end(answer).await
}

/// Sends a request in the least busy session with `place`. Waits for a server that refuses
/// connections.
async fn request_at(
    network: &Network,
    place: &XrootdTarget,
    what: &Operation,
) -> (Arc<SessionHandle>, Result<OperationResponse, JobError>) {
    loop {
        let lease = place.sessions.lease(what.bytes(), what.name());
        let reply = request_in(&place.sessions, &lease, what.clone()).await;
        let Err(JobError::Failed(error)) = reply else { return (lease, reply) };
        if let Err(error) = network.wait_for_restart(&place.location, error).await {
            return (lease, Err(JobError::Failed(error)));
        }
    }
}

/// A response and its origin.
pub(super) struct ServerReply {
    pub(super) answered: OperationResponse,
    pub(super) place: XrootdTarget,
    pub(super) lease: Arc<SessionHandle>,
    /// The operation.
    pub(super) what: Operation,
}

/// Sends the operation that `make` creates for the path at `location`, and follows redirects.
/// `action` is the permission that it needs. Failed requests are repeated where that may help,
/// except for a change that may have been carried out, and a listing of which entries have arrived.
///
/// # Errors
///
/// The errors of the server and of connections.
pub(super) async fn ask(
    network: &Network,
    location: &Location,
    action: Action,
    make: impl Fn(String) -> Operation + Send + Sync,
) -> Result<ServerReply> {
    let began = Instant::now();
    let attempt = || async {
        request_once(network, location, action, &make).await.map_err(|(error, what)| {
            let has_entries = matches!(what, Some(Operation::List(_, it)) if it.has_sent());
            network.failed(error, began, has_entries)
        })
    };
    let policy = network.config().retry_policy();
    let reply = retry::run(&policy, &MonotonicClock::start(), attempt).await;
    reply.map_err(|error| match error.retry() {
        // The wait has taken place already.
        Retry::Busy { .. } => error.with_failure(Failure::OneServer),
        _ => error,
    })
}

/// Sends the operation, and follows redirects. An error contains the operation, if it was sent.
async fn request_once(
    network: &Network,
    location: &Location,
    action: Action,
    make: &(impl Fn(String) -> Operation + Send + Sync),
) -> Result<ServerReply, (Error, Option<Operation>)> {
    let unsent = |error| (error, None);
    let mut place = XrootdTarget::new(location.clone(), network);
    let mut attempts = Attempts::new(location, MAX_XROOTD_REDIRECTS);
    let mut credential = RequestCredential::default();
    loop {
        attempts.count().map_err(unsent)?;
        let what = make(place.path(network, &[]).await.map_err(unsent)?);
        let (lease, reply) = request_at(network, &place, &what).await;
        match reply {
            Ok(answered) => return Ok(ServerReply { answered, place, lease, what }),
            Err(JobError::Elsewhere(redirect)) => {
                place = place.redirected(&redirect, network).map_err(unsent)?;
            }
            Err(JobError::WantsTls) => place = place.again(network),
            Err(JobError::TooLate) => {}
            Err(JobError::Failed(error)) => {
                if let Some(clear) = place.without_tls(&error, network) {
                    place = clear;
                    continue;
                }
                if place.renew(network, &error, &mut credential).await {
                    continue;
                }
                let error = place.explained(network, action, error);
                return Err((error.of_request(what.effect(), "request"), Some(what)));
            }
        }
    }
}
