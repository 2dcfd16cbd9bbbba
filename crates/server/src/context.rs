//! The shared state of all requests: current settings, backend, memory, counters.

use crate::authorization::authorizer::{Action, Authorizer, Decision};
use crate::backend::Backend;
use crate::backend::path::NamespacePath;
use crate::connection::peer::Peer;
use crate::http_error::HttpError;
use crate::lots::Lots;
use crate::method::unfinished_files::UnfinishedFiles;
use crate::monitoring::copy_counters::CopyCounters;
use crate::monitoring::request_record::RequestRecorder;
use crate::request::ServerRequest;
use crate::response::buffer_pool::BufferPool;
use crate::settings::ServerLimits;
use crate::settings::live::LiveSettings;
use http::header::{self, HeaderMap};
use std::sync::{Arc, PoisonError, RwLock};
use tracing::debug;

/// The shared state of all requests.
#[derive(Debug)]
pub(crate) struct ServerContext {
    settings: RwLock<Arc<LiveSettings>>,
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) memory: Arc<BufferPool>,
    /// Space reservations, if this server has them.
    pub(crate) lots: Option<Arc<Lots>>,
    pub(crate) records: RequestRecorder,
    /// Third-party copies, counted by outcome.
    pub(crate) copies: Arc<CopyCounters>,
    pub(crate) unfinished: UnfinishedFiles,
}

impl ServerContext {
    pub(crate) fn new(
        settings: LiveSettings,
        backend: Arc<dyn Backend>,
        records: RequestRecorder,
        lots: Option<Arc<Lots>>,
        memory: Arc<BufferPool>,
    ) -> Self {
        Self {
            backend,
            memory,
            lots,
            records,
            copies: Arc::default(),
            unfinished: UnfinishedFiles::default(),
            settings: RwLock::new(Arc::new(settings)),
        }
    }

    /// The current settings.
    pub(crate) fn settings(&self) -> Arc<LiveSettings> {
        Arc::clone(&self.settings.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the settings for further requests.
    pub(crate) fn change_settings(&self, settings: LiveSettings) {
        *self.settings.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(settings);
    }

    pub(crate) fn limits(&self) -> Arc<ServerLimits> {
        Arc::clone(&self.settings().limits)
    }

    /// Fails unless the client may perform `action` on a path.
    pub(crate) fn authorize(
        &self,
        request: &ServerRequest,
        path: &NamespacePath,
        action: Action,
    ) -> Result<(), HttpError> {
        let allowed = self.decide(request, path, action);
        if let Err(denied) = &allowed {
            let status = denied.status.as_u16();
            let reason = &denied.what;
            debug!(?action, %path, status, reason, "authorization denied");
        }
        allowed
    }

    fn decide(
        &self,
        request: &ServerRequest,
        path: &NamespacePath,
        action: Action,
    ) -> Result<(), HttpError> {
        allowed(self.settings().authorizer.decide(&request.access(path, action)))
    }

    /// Fails unless the client may write to a path. Returns true if it may replace an existing
    /// file.
    pub(crate) fn authorize_writing(
        &self,
        request: &ServerRequest,
        path: &NamespacePath,
    ) -> Result<bool, HttpError> {
        match self.decide(request, path, Action::Modify) {
            Ok(()) => Ok(true),
            Err(_) => self.authorize(request, path, Action::Create).map(|()| false),
        }
    }

    /// The client's name as the authorizer knows it; fails if it has none and needs one.
    pub(crate) fn client_name(&self, request: &ServerRequest) -> Result<String, HttpError> {
        let access = request.access(&request.path, Action::Read);
        let name = self.settings().authorizer.name(&access);
        name.or_else(|decision| allowed(decision).map(|()| String::new()))
    }

    /// The filter for listings that this client is shown.
    pub(crate) fn listing_filter(&self, request: &ServerRequest) -> ListingFilter {
        let authorizer = Arc::clone(&self.settings().authorizer);
        let headers = request.headers.clone();
        let peer = request.peer.clone();
        ListingFilter(authorizer.hides().then(|| Box::new(Viewer { authorizer, headers, peer })))
    }
}

/// Decides which entries of a listing a client may see.
#[derive(Debug)]
pub(crate) struct ListingFilter(Option<Box<Viewer>>);

#[derive(Debug)]
struct Viewer {
    authorizer: Arc<dyn Authorizer>,
    headers: HeaderMap,
    peer: Peer,
}

impl ListingFilter {
    /// True if the client may see that path.
    pub(crate) fn shows(&self, path: &str) -> bool {
        let Some(viewer) = &self.0 else { return true };
        let Viewer { authorizer, headers, peer } = &**viewer;
        let access = crate::authorization::authorizer::AccessRequest {
            action: Action::Read,
            path,
            headers,
            peer: peer.address,
            is_secure: peer.is_secure,
            certificate: peer.certificate.as_ref(),
        };
        authorizer.decide(&access) == Decision::Allowed
    }
}

fn allowed(decision: Decision) -> Result<(), HttpError> {
    match decision {
        Decision::Allowed => Ok(()),
        Decision::Refused { status, reason, challenge } => {
            let error = HttpError::new(status, reason);
            Err(match challenge {
                Some(challenge) => error.with(header::WWW_AUTHENTICATE, &challenge),
                None => error,
            })
        }
    }
}
