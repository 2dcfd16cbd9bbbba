//! Third-party copy, as grids do it over HTTP: a client has two servers move a file between them, and watches.
//!
//! A `COPY` goes to one of the two, the active one. With `Source` it fetches the file from there and keeps it under the name of
//! the request (a *pull*, [`pull`]); with `Destination` on another server it sends the file of that name there (a *push*,
//! [`push`]). `TransferHeader…` fields are what the active one shows the other, mostly a token. The answer is 202 at
//! once and a text that goes on as long as the copy does ([`report`]): its last line says what became of it.
//!
//! **What is known before it moves is told before.** Whether the client may, whether the host is one to speak to, whether
//! there is something of that name, and, if the other server tells a size, whether there is room: each is a status. For
//! that the other server is asked first, but not waited for longer than [`PATIENCE`].
//!
//! **A pull** is a copy of `hither-transfer` into a file without a name: the same connections, pieces, repetitions and checks as
//! those of `hither cp`. It gets its name when it is whole, and what the source says it is. Whatever happens before leaves
//! nothing. **A push** is one plain PUT to the very name, as the rights of grids' tokens are for that; who takes PUTs in
//! place has a part of the file when one breaks off, so what was not there before is removed again.
//!
//! **When the client goes, so does the copy**: its answer is dropped, and with it the work.

mod checksum_comparison;
mod cidr;
mod copy_request;
mod egress_rules;
mod perf_markers;
mod pull;
mod pull_target;
mod push;
mod remote;
pub(crate) mod settings;
mod stall_watchdog;

pub(crate) use cidr::Cidr;
pub(crate) use egress_rules::EgressRules;
pub(crate) use perf_markers::PerfMarkerStream;
pub(crate) use pull::answer as pull;
pub(crate) use push::answer as push;

use crate::http_error::HttpError;
use crate::third_party::settings::ThirdPartySettings;
use hither_core::error::{Error, ErrorKind, Result};
use hither_transport::{Location, Network};
use http::{StatusCode, header};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How long the other server is waited for before the client gets its answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// What all copies share.
#[derive(Debug)]
pub(crate) struct ThirdPartyCopier {
    settings: ThirdPartySettings,
    hosts: Arc<EgressRules>,
    network: Arc<Network>,
    places: Arc<Semaphore>,
    /// Most bytes of a push that are on their way.
    under_way: u64,
}

/// Counts what becomes of copies.
#[derive(Debug, Default)]
pub(crate) struct CopyCounters {
    under_way: AtomicU64,
    pulled: AtomicU64,
    pushed: AtomicU64,
    bytes_pulled: AtomicU64,
    bytes_pushed: AtomicU64,
    failed: AtomicU64,
    cancelled: AtomicU64,
}

/// What became of copies so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct CopyTotals {
    /// Going on now.
    pub(crate) under_way: u64,
    /// Files fetched, and sent.
    pub(crate) pulled: u64,
    pub(crate) pushed: u64,
    /// Their bytes.
    pub(crate) bytes_pulled: u64,
    pub(crate) bytes_pushed: u64,
    /// What failed, and what its client gave up.
    pub(crate) failed: u64,
    pub(crate) cancelled: u64,
}

impl CopyCounters {
    pub(crate) fn now(&self) -> CopyTotals {
        let now = |count: &AtomicU64| count.load(Ordering::Relaxed);
        CopyTotals {
            under_way: now(&self.under_way),
            pulled: now(&self.pulled),
            pushed: now(&self.pushed),
            bytes_pulled: now(&self.bytes_pulled),
            bytes_pushed: now(&self.bytes_pushed),
            failed: now(&self.failed),
            cancelled: now(&self.cancelled),
        }
    }
}

/// Where a file goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CopyDirection {
    Pull,
    Push,
}

/// The place of one copy among those that may go on at a time.
#[derive(Debug)]
struct CopySlot {
    counts: Arc<CopyCounters>,
    direction: CopyDirection,
    is_told: bool,
    _place: OwnedSemaphorePermit,
}

impl CopySlot {
    /// It is over: so many bytes were moved, or it failed.
    fn over(mut self, outcome: &Result<u64>) {
        self.is_told = true;
        let counts = &self.counts;
        let (files, bytes) = match self.direction {
            CopyDirection::Pull => (&counts.pulled, &counts.bytes_pulled),
            CopyDirection::Push => (&counts.pushed, &counts.bytes_pushed),
        };
        match outcome {
            Ok(moved) => {
                files.fetch_add(1, Ordering::Relaxed);
                bytes.fetch_add(*moved, Ordering::Relaxed);
            }
            Err(_) => {
                counts.failed.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

impl Drop for CopySlot {
    fn drop(&mut self) {
        self.counts.under_way.fetch_sub(1, Ordering::Relaxed);
        if !self.is_told {
            self.counts.cancelled.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl ThirdPartyCopier {
    /// As the settings say; connections are driven by `runtime`.
    pub(crate) fn open(settings: ThirdPartySettings, runtime: Handle) -> Result<Arc<Self>> {
        let hosts = Arc::new(settings.host_rules()?);
        let config = settings.transport(Arc::clone(&hosts))?;
        let network = Network::new(config, runtime, None);
        let places = Arc::new(Semaphore::new(settings.transfers));
        let under_way = push::under_way();
        Ok(Arc::new(Self { settings, hosts, network, places, under_way }))
    }

    fn take(
        &self,
        direction: CopyDirection,
        counts: &Arc<CopyCounters>,
    ) -> Result<CopySlot, HttpError> {
        let place = Arc::clone(&self.places).try_acquire_owned().map_err(|_| {
            let what = format!(
                "{} files are being copied from and to other servers, which is as many as this server does at a time",
                self.settings.transfers
            );
            HttpError::new(StatusCode::SERVICE_UNAVAILABLE, what).with(header::RETRY_AFTER, "10")
        })?;
        let counts = Arc::clone(counts);
        counts.under_way.fetch_add(1, Ordering::Relaxed);
        Ok(CopySlot { counts, direction, is_told: false, _place: place })
    }

    /// Asks the other server what it has, without waiting for longer than [`PATIENCE`]. Fails where it must not be asked.
    async fn first_look(
        &self,
        location: &Location,
    ) -> Result<Result<remote::RemoteState>, HttpError> {
        self.hosts.check(location).map_err(|error| forbidden(&error))?;
        match tokio::time::timeout(PATIENCE, remote::look(&self.network, location)).await {
            // What answers with a status is no error here: it is the gate.
            Ok(Err(error)) if error.kind() == ErrorKind::PermissionDenied => Err(forbidden(&error)),
            Ok(looked) => Ok(looked),
            Err(_) => Ok(Ok(remote::RemoteState::Unknown)),
        }
    }
}

fn forbidden(error: &Error) -> HttpError {
    HttpError::new(StatusCode::FORBIDDEN, error.to_string())
}

/// A refusal of this server, for the end of a report.
fn failed(refusal: HttpError) -> Error {
    let kind = match refusal.status {
        StatusCode::INSUFFICIENT_STORAGE => ErrorKind::NoSpace,
        StatusCode::PRECONDITION_FAILED => ErrorKind::AlreadyExists,
        StatusCode::PAYLOAD_TOO_LARGE => ErrorKind::TooLarge,
        _ => ErrorKind::Local,
    };
    Error::new(kind, refusal.what)
}
