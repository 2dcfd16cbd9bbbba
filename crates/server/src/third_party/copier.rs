//! The shared parts of all third-party copies: egress rules, connections, slots.

use crate::connection::table::ClientAddress;
use crate::context::ServerContext;
use crate::http_error::HttpError;
use crate::request::ServerRequest;
use crate::third_party::copy_slot::{CopyDirection, CopySlot, CopySlots, RETRY_AFTER};
use crate::third_party::egress_rules::EgressRules;
use crate::third_party::remote::{self, RemoteState};
use crate::third_party::settings::ThirdPartySettings;
use hither_core::error::{Error, ErrorKind, Result};
use hither_transport::{Location, Network};
use http::{StatusCode, header};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::runtime::Handle;
use tracing::debug;

/// The maximum time to wait for the other server before the client gets its response.
const FIRST_LOOK_TIMEOUT: Duration = Duration::from_secs(10);

/// The shared parts of all third-party copies.
#[derive(Debug)]
pub(crate) struct ThirdPartyCopier {
    pub(crate) settings: ThirdPartySettings,
    hosts: Arc<EgressRules>,
    pub(crate) network: Arc<Network>,
    pub(super) slots: Arc<CopySlots>,
}

impl ThirdPartyCopier {
    /// Creates a copier, whose connections are driven by `runtime`. It keeps temporary files in
    /// `folder`, the only one where the confined server can.
    pub(crate) fn open(
        settings: ThirdPartySettings,
        folder: &Path,
        runtime: Handle,
    ) -> Result<Arc<Self>> {
        let hosts = Arc::new(settings.host_rules()?);
        let mut config = settings.transport(Arc::clone(&hosts))?;
        config.spool = Some(folder.to_owned());
        let network = Network::new(config, runtime, None);
        let slots = Arc::new(CopySlots::new(settings.transfers));
        Ok(Arc::new(Self { settings, hosts, network, slots }))
    }

    /// Takes a slot; 503 if the client may have no more at present.
    pub(crate) fn take_slot(
        &self,
        context: &ServerContext,
        request: &ServerRequest,
        direction: CopyDirection,
    ) -> Result<CopySlot, HttpError> {
        let name = context.client_name(request).unwrap_or_default();
        // The address identifies a client without a name.
        let client = if name.is_empty() {
            format!("{:?}", ClientAddress::from(request.peer.address.ip()))
        } else {
            name
        };
        let counters = &context.copies;
        let permit = self.slots.take(&client).ok_or_else(|| {
            let limit = self.settings.transfers;
            debug!(limit, client, "third-party copy rejected: there is no slot for this client");
            counters.refused.fetch_add(1, Ordering::Relaxed);
            let what = format!(
                "this server runs at most {limit} third-party copies at a time, of which each \
                 client gets a share: try again later"
            );
            let seconds = RETRY_AFTER.as_secs().to_string();
            HttpError::new(StatusCode::SERVICE_UNAVAILABLE, what)
                .with(header::RETRY_AFTER, &seconds)
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
            // The egress filter's error; a status of the other server is not an error here.
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
