//! The shared state of all requests: current settings, backend, memory, counters.

use crate::authorization::authorizer::{Action, Decision};
use crate::backend::path::NamespacePath;
use crate::backend::tape::TapeDoor;
use crate::backend::{
    Backend, BackendError, BackendErrorKind, BackendFuture, FileReader, LinkFilter,
};
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
use http::StatusCode;
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
    /// Files on tape, if this server has some.
    pub(crate) tape: Option<Arc<TapeDoor>>,
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
        tape: Option<Arc<TapeDoor>>,
        memory: Arc<BufferPool>,
    ) -> Self {
        Self {
            backend,
            memory,
            lots,
            tape,
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

    /// Runs `work` on a path that a request reads, and that the client may read. If it has a
    /// symbolic link, `work` runs again on the path to which the links lead.
    pub(crate) async fn follow<T>(
        &self,
        request: &ServerRequest,
        path: &str,
        work: impl for<'p> Fn(&'p (dyn Backend + 'static), &'p str) -> BackendFuture<'p, T>,
    ) -> Result<T, HttpError> {
        match work(&*self.backend, path).await {
            Err(error) if error.kind() == BackendErrorKind::Link => {
                let target = self.link_target(request, path, error).await?;
                Ok(work(&*self.backend, target.path()).await?)
            }
            done => Ok(done?),
        }
    }

    /// Opens a file that a request reads. Fails if its bytes are on tape.
    pub(crate) async fn open(
        &self,
        request: &ServerRequest,
    ) -> Result<Arc<dyn FileReader>, HttpError> {
        let reader = self.follow(request, request.path.path(), Backend::open).await?;
        if let Some(tape) = self.tape.as_ref().filter(|_| !reader.metadata().is_directory()) {
            tape.check_on_disk(request.path.path()).await?;
        }
        Ok(reader)
    }

    /// The path without links to which the links in `path` lead. Fails, with `error` if the server
    /// follows no links, unless the client may read there.
    pub(crate) async fn link_target(
        &self,
        request: &ServerRequest,
        path: &str,
        error: BackendError,
    ) -> Result<NamespacePath, HttpError> {
        if !self.settings().links {
            return Err(error.into());
        }
        let target = NamespacePath::resolved(self.backend.resolve(path).await?);
        self.authorize(request, &target, Action::Read).map_err(|_| {
            // The reason would name a path that the client may not know.
            let what = "a symbolic link in the path leads to where this client may not read";
            HttpError::new(StatusCode::FORBIDDEN, what)
        })?;
        Ok(target)
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

    /// The name that the authorizer gives the client; fails if it has none and needs one.
    pub(crate) fn client_name(&self, request: &ServerRequest) -> Result<String, HttpError> {
        let access = request.access(&request.path, Action::Read);
        let name = self.settings().authorizer.name(&access);
        name.or_else(|decision| allowed(decision).map(|()| String::new()))
    }

    /// The filter for trees that this client lists or copies.
    pub(crate) fn tree_filter(&self, request: &ServerRequest) -> Arc<TreeFilter> {
        let settings = self.settings();
        let headers = request.headers.clone();
        let peer = request.peer.clone();
        Arc::new(TreeFilter { settings, headers, peer })
    }
}

/// Decides which entries of a tree a client may see.
#[derive(Debug)]
pub(crate) struct TreeFilter {
    settings: Arc<LiveSettings>,
    headers: HeaderMap,
    peer: Peer,
}

impl TreeFilter {
    /// Returns true if the client may see a path below one that it may read.
    pub(crate) fn shows(&self, path: &str) -> bool {
        !self.settings.authorizer.hides() || self.may_read(path)
    }

    /// The filter for links in the tree.
    pub(crate) fn links(self: &Arc<Self>) -> LinkFilter {
        let filter = Arc::clone(self);
        Arc::new(move |path| filter.settings.links && filter.may_read(path))
    }

    fn may_read(&self, path: &str) -> bool {
        let Self { settings, headers, peer } = self;
        let access = crate::authorization::authorizer::AccessRequest {
            action: Action::Read,
            path,
            headers,
            peer: peer.address,
            is_secure: peer.is_secure,
            certificate: peer.certificate.as_ref(),
        };
        settings.authorizer.decide(&access) == Decision::Allowed
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
