//! The shared parts of all third-party copies: egress rules, connections, slots.

use crate::http_error::HttpError;
use crate::monitoring::copy_counters::CopyCounters;
use crate::third_party::copy_slot::{CopyDirection, CopySlot};
use crate::third_party::egress_rules::EgressRules;
use crate::third_party::remote::{self, RemoteState};
use crate::third_party::settings::ThirdPartySettings;
use hither_core::error::{Error, ErrorKind, Result};
use hither_transport::{Location, Network};
use http::{StatusCode, header};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tracing::debug;

/// The maximum time to wait for the other server before the client gets its response.
const FIRST_LOOK_TIMEOUT: Duration = Duration::from_secs(10);

/// The shared parts of all third-party copies.
#[derive(Debug)]
pub(crate) struct ThirdPartyCopier {
    pub(crate) settings: ThirdPartySettings,
    hosts: Arc<EgressRules>,
    pub(crate) network: Arc<Network>,
    slots: Arc<Semaphore>,
}

impl ThirdPartyCopier {
    /// Creates a copier, whose connections are driven by `runtime`.
    pub(crate) fn open(settings: ThirdPartySettings, runtime: Handle) -> Result<Arc<Self>> {
        let hosts = Arc::new(settings.host_rules()?);
        let config = settings.transport(Arc::clone(&hosts))?;
        let network = Network::new(config, runtime, None);
        let slots = Arc::new(Semaphore::new(settings.transfers));
        Ok(Arc::new(Self { settings, hosts, network, slots }))
    }

    /// Takes a slot; 503 if all are in use.
    pub(crate) fn take_slot(
        &self,
        direction: CopyDirection,
        counters: &Arc<CopyCounters>,
    ) -> Result<CopySlot, HttpError> {
        let permit = Arc::clone(&self.slots).try_acquire_owned().map_err(|_| {
            let limit = self.settings.transfers;
            debug!(limit, "third-party copy rejected: all slots are in use");
            let what = format!("this server runs at most {limit} third-party copies at a time");
            HttpError::new(StatusCode::SERVICE_UNAVAILABLE, what).with(header::RETRY_AFTER, "10")
        })?;
        Ok(CopySlot::new(counters, direction, permit))
    }

    /// Returns the state of the file on the other server, unknown if that takes longer than
    /// [`FIRST_LOOK_TIMEOUT`]. Fails if the rules do not allow the connection.
    pub(crate) async fn first_look(
        &self,
        location: &Location,
    ) -> Result<Result<RemoteState>, HttpError> {
        self.hosts.check(location).map_err(|error| forbidden(&error))?;
        let look = remote::look(&self.network, location);
        let looked = tokio::time::timeout(FIRST_LOOK_TIMEOUT, look).await;
        match &looked {
            Ok(Ok(state)) => debug!(url = %location, ?state, "file on the other server looked up"),
            Ok(Err(error)) => debug!(url = %location, %error, "the other server failed"),
            Err(_) => debug!(url = %location, "the other server has not responded yet"),
        }
        match looked {
            // This is an error of the egress filter; a status of the other server is none here.
            Ok(Err(error)) if error.kind() == ErrorKind::PermissionDenied => Err(forbidden(&error)),
            Ok(looked) => Ok(looked),
            Err(_) => Ok(Ok(RemoteState::Unknown)),
        }
    }
}

fn forbidden(error: &Error) -> HttpError {
    HttpError::new(StatusCode::FORBIDDEN, error.to_string())
}

/// Turns an error of this server into one for the end of a report.
pub(crate) fn local_error(error: HttpError) -> Error {
    let kind = match error.status {
        StatusCode::INSUFFICIENT_STORAGE => ErrorKind::NoSpace,
        StatusCode::PRECONDITION_FAILED => ErrorKind::AlreadyExists,
        StatusCode::PAYLOAD_TOO_LARGE => ErrorKind::TooLarge,
        _ => ErrorKind::Local,
    };
    Error::new(kind, error.what)
}
