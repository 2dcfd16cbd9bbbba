//! One question to a server, answered by whoever it redirects to.

use crate::location::Location;
use crate::network::Network;
use crate::xrootd::job::{Answered, Ask, Command, Trouble, What};
use crate::xrootd::place::{MOST_REDIRECTS, Place, in_a_circle};
use crate::xrootd::sessions::{Lease, Sessions};
use hither_auth::Action;
use hither_core::error::Result;
use std::sync::Arc;
use tokio::sync::oneshot;

/// A job that is cancelled when nobody waits for it any more.
pub(super) struct Awaited {
    lease: Arc<Lease>,
    id: u64,
    over: bool,
}

impl Awaited {
    /// The job `id` in the session of `lease`.
    pub(super) fn new(lease: Arc<Lease>, id: u64) -> Self {
        Self { lease, id, over: false }
    }

    /// Waits for the end of it.
    pub(super) async fn end<T>(
        mut self,
        answer: oneshot::Receiver<Result<T, Trouble>>,
    ) -> Result<T, Trouble> {
        let result = answer.await;
        self.over = true;
        result.unwrap_or_else(|_| Err(self.lease.too_late()))
    }
}

impl Drop for Awaited {
    fn drop(&mut self) {
        if !self.over {
            self.lease.tell(Command::Cancel(self.id));
        }
    }
}

/// Asks in this session.
pub(super) async fn ask_in(
    sessions: &Sessions,
    lease: &Arc<Lease>,
    what: What,
) -> Result<Answered, Trouble> {
    let (reply, answer) = oneshot::channel();
    let id = sessions.number();
    let flight = sessions.next_flight();
    lease.tell(Command::Ask(id, Ask { what, flight, reply }));
    Awaited::new(Arc::clone(lease), id).end(answer).await
}

/// An answer, and where it came from.
pub(super) struct Asked {
    pub(super) answered: Answered,
    pub(super) place: Place,
    pub(super) lease: Arc<Lease>,
    /// What was asked there.
    pub(super) what: What,
}

/// Asks at `location` what `make` makes of the path there, to do `action`, and wherever that leads to.
///
/// # Errors
///
/// What the server refuses, and what becomes of connections.
pub(super) async fn ask(
    network: &Network,
    location: &Location,
    action: Action,
    make: impl Fn(String) -> What + Send + Sync,
) -> Result<Asked> {
    let mut place = Place::new(location.clone(), network);
    let mut renewed = false;
    for _ in 0..=MOST_REDIRECTS {
        let what = make(place.path(network, &[]).await?);
        let lease = place.sessions.lease(what.bytes(), what.name());
        match ask_in(&place.sessions, &lease, what.clone()).await {
            Ok(answered) => return Ok(Asked { answered, place, lease, what }),
            Err(Trouble::Elsewhere(redirect)) => place = place.redirected(&redirect, network)?,
            Err(Trouble::WantsTls) => place = place.again(network),
            Err(Trouble::TooLate) => {}
            Err(Trouble::Failed(error)) => {
                if let Some(clear) = place.without_tls(&error, network) {
                    place = clear;
                    continue;
                }
                if !renewed && place.renewed(network, &error).await {
                    renewed = true;
                    continue;
                }
                return Err(place.explained(network, action, error));
            }
        }
    }
    Err(in_a_circle(location))
}
