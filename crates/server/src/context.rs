//! One request, from its head to its answer.
//!
//! In this order: its target becomes a name ([`NamespacePath`]); [`Authorizer`] says whether that may be done with it; the file of its
//! method does it; the answer gets what every answer carries, and a line in the access log.

use crate::answer::ServerResponse;
use crate::authorization::authorizer::{AccessRequest, Action, Authorizer, Decision};
use crate::backend::disk::DiskBackend;
use crate::backend::disk::checksums::ChecksumCache;
use crate::backend::disk::lot_charging::LotCharging;
use crate::backend::path::NamespacePath;
use crate::connection::incoming_body::IncomingBody;
use crate::connection::sendfile::{PlaceholderMemory, SendfileQueue};
use crate::connection::tcp_info::SocketRef;
use crate::connection::write_stall::WriteStallWatchdog;
use crate::http_error::HttpError;
use crate::method::lots;
use crate::method::{collection, copy_move, get, propfind, proppatch, put, query};
use crate::monitoring::request_record::{RequestRecord, RequestRecorder};
use crate::response::buffer_pool::BufferPool;
use crate::response::recorded_body::RecordedBody;
use crate::settings::ServerLimits;
use crate::settings::live::LiveSettings;
use crate::third_party::CopyCounters;
use hither_http::vector::{ACCEPT_QUERY, RANGES_TYPE};
use http::header::HeaderMap;
use http::{Method, Request, Response, StatusCode, Version, header};
use hyper::body::Incoming;
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock};

/// What is served, and how.
#[derive(Debug)]
pub(crate) struct ServerContext {
    rules: RwLock<Arc<LiveSettings>>,
    pub(crate) disk: DiskBackend,
    pub(crate) memory: Arc<BufferPool>,
    pub(crate) area: PlaceholderMemory,
    pub(crate) sums: ChecksumCache,
    pub(crate) space: LotCharging,
    pub(crate) records: RequestRecorder,
    /// What became of copies from and to other servers.
    pub(crate) copies: Arc<CopyCounters>,
}

/// The other end of a connection.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    pub(crate) is_secure: bool,
    /// The distinguished name of its certificate, if it has shown one.
    pub(crate) certificate: Option<Arc<str>>,
    /// What the kernel knows of the connection.
    pub(crate) link: Arc<SocketRef>,
    /// What is on its way to it.
    pub(crate) held: Arc<WriteStallWatchdog>,
    /// Past memory to its socket, where there is such a way.
    pub(crate) shortcut: Option<Arc<SendfileQueue>>,
}

/// A request.
#[derive(Debug)]
pub(crate) struct ServerRequest {
    pub(crate) method: Method,
    pub(crate) place: NamespacePath,
    /// What stands behind the path.
    pub(crate) query: Option<String>,
    pub(crate) headers: HeaderMap,
    pub(crate) body: IncomingBody,
    pub(crate) peer: Peer,
    /// The host that was asked, with its port if it was named.
    pub(crate) host: Option<String>,
}

impl ServerRequest {
    /// The text of a field, if there is one and it is text.
    pub(crate) fn text(&self, name: impl header::AsHeaderName) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim)
    }
}

/// The methods that are understood.
const READING: &str = "OPTIONS, GET, HEAD, QUERY, PROPFIND";
const WRITING: &str =
    "OPTIONS, GET, HEAD, QUERY, PROPFIND, PUT, DELETE, MKCOL, COPY, MOVE, PROPPATCH";

impl ServerContext {
    pub(crate) fn new(
        rules: LiveSettings,
        disk: DiskBackend,
        records: RequestRecorder,
        space: LotCharging,
    ) -> Self {
        let memory = Arc::new(BufferPool::new(rules.limits.memory_bytes));
        let rules = RwLock::new(Arc::new(rules));
        let (area, sums, copies) =
            (PlaceholderMemory::default(), ChecksumCache::default(), Arc::default());
        Self { rules, disk, memory, area, sums, space, records, copies }
    }

    /// What holds at the moment.
    pub(crate) fn rules(&self) -> Arc<LiveSettings> {
        Arc::clone(&self.rules.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// From now on these hold.
    pub(crate) fn change(&self, rules: LiveSettings) {
        *self.rules.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(rules);
    }

    pub(crate) fn limits(&self) -> Arc<ServerLimits> {
        Arc::clone(&self.rules().limits)
    }

    /// Answers a request.
    pub(crate) async fn handle(
        self: &Arc<Self>,
        request: Request<Incoming>,
        peer: Peer,
    ) -> Response<RecordedBody> {
        let mut note = self.records.begin(&request, &peer);
        let held = (request.version() >= Version::HTTP_2).then(|| Arc::clone(&peer.held));
        let done = self.done(request, peer, &mut note).await;
        let mut answer = done.unwrap_or_else(|refusal| {
            note.reason(&refusal.what);
            refusal.answer()
        });
        answer.set(header::SERVER, concat!("hither/", env!("CARGO_PKG_VERSION")));
        note.answered(answer.status, answer.ranges);
        let mut response =
            Response::new(RecordedBody::new(answer.body, note, held.map(|held| held.answer())));
        *response.status_mut() = answer.status;
        *response.headers_mut() = answer.headers;
        response
    }

    async fn done(
        self: &Arc<Self>,
        request: Request<Incoming>,
        mut peer: Peer,
        note: &mut RequestRecord,
    ) -> Result<ServerResponse, HttpError> {
        let (head, body) = request.into_parts();
        if head.version >= Version::HTTP_2 {
            // Its data lies in frames among those of other streams.
            peer.shortcut = None;
        }
        if head.method == Method::OPTIONS {
            let lots = self.space.lots().and_then(|_| NamespacePath::parse(head.uri.path()).ok());
            return Ok(match lots.and_then(|place| lots::methods(&place)) {
                Some(methods) => ServerResponse::empty(StatusCode::OK).with(header::ALLOW, methods),
                None => self.options(),
            });
        }
        let place = NamespacePath::parse(head.uri.path())?;
        let host = head.headers.get(header::HOST).and_then(|host| host.to_str().ok());
        let host = host.or_else(|| head.uri.authority().map(http::uri::Authority::as_str));
        let host = host.map(str::to_owned);
        let query = head.uri.query().map(str::to_owned);
        let body = IncomingBody::new(body, &self.limits(), note.tally());
        let (method, headers) = (head.method, head.headers);
        let call = ServerRequest { method, place, query, headers, body, peer, host };
        let prepared = self.rules().authorizer.prepare(&call.headers);
        if let Some(prepared) = prepared {
            prepared.await;
        }
        note.file(call.place.path());
        if note.wants_name()
            && let Ok(name) =
                self.rules().authorizer.name(&asking(&call, &call.place, Action::Read))
        {
            note.name(name);
        }
        if let Some(lots) = self.space.lots().filter(|_| lots::below(&call.place).is_some()) {
            return lots::answer(self, lots, call).await;
        }
        match call.method.as_str() {
            "GET" | "HEAD" => get::answer(self, &call).await,
            "QUERY" => query::answer(self, call).await,
            "PROPFIND" => propfind::answer(self, call).await,
            "PUT" => put::answer(self, call).await,
            "MKCOL" => collection::make(self, &call).await,
            "DELETE" => collection::delete(self, &call).await,
            "COPY" | "MOVE" => copy_move::answer(self, &call).await,
            "PROPPATCH" => proppatch::answer(self, call).await,
            _ => Err(HttpError::new(StatusCode::METHOD_NOT_ALLOWED, "no such method here")
                .with(header::ALLOW, self.methods())),
        }
    }

    /// Fails unless that may be done with that name.
    pub(crate) fn authorize(
        &self,
        call: &ServerRequest,
        place: &NamespacePath,
        action: Action,
    ) -> Result<(), HttpError> {
        verdict(self.rules().authorizer.decide(&asking(call, place, action)))
    }

    /// Which of the names below one that may be read somebody may see.
    pub(crate) fn view(&self, call: &ServerRequest) -> ListingFilter {
        let authorizer = Arc::clone(&self.rules().authorizer);
        let (headers, peer) = (call.headers.clone(), call.peer.clone());
        ListingFilter(authorizer.hides().then(|| Box::new(Viewer { authorizer, headers, peer })))
    }

    /// What to call whoever sent a request; fails if that is not known and has to be.
    pub(crate) fn name(&self, call: &ServerRequest) -> Result<String, HttpError> {
        let name = self.rules().authorizer.name(&asking(call, &call.place, Action::Read));
        name.or_else(|decision| verdict(decision).map(|()| String::new()))
    }

    /// Fails unless something may come to be under that name. Tells whether what has the name may be replaced.
    pub(crate) fn allow_writing(
        &self,
        call: &ServerRequest,
        place: &NamespacePath,
    ) -> Result<bool, HttpError> {
        match self.authorize(call, place, Action::Modify) {
            Ok(()) => Ok(true),
            Err(_) => self.authorize(call, place, Action::Create).map(|()| false),
        }
    }

    fn methods(&self) -> &'static str {
        if self.rules().authorizer.writes() { WRITING } else { READING }
    }

    fn options(&self) -> ServerResponse {
        ServerResponse::empty(StatusCode::OK)
            .with(header::ALLOW, self.methods())
            .with(header::ACCEPT_RANGES, "bytes")
            .with(header::HeaderName::from_static("dav"), "1")
            .with(ACCEPT_QUERY, &accept_query())
    }
}

/// Which names somebody may see in a listing.
#[derive(Debug)]
pub(crate) struct ListingFilter(Option<Box<Viewer>>);

#[derive(Debug)]
struct Viewer {
    authorizer: Arc<dyn Authorizer>,
    headers: HeaderMap,
    peer: Peer,
}

impl ListingFilter {
    /// Whether they may see that one.
    pub(crate) fn shows(&self, path: &str) -> bool {
        let Some(viewer) = &self.0 else { return true };
        let Viewer { authorizer, headers, peer } = &**viewer;
        let asking = AccessRequest {
            action: Action::Read,
            path,
            headers,
            peer: peer.address,
            is_secure: peer.is_secure,
            certificate: peer.certificate.as_ref(),
        };
        authorizer.decide(&asking) == Decision::Allowed
    }
}

fn asking<'a>(
    call: &'a ServerRequest,
    place: &'a NamespacePath,
    action: Action,
) -> AccessRequest<'a> {
    let Peer { address: peer, is_secure, ref certificate, .. } = call.peer;
    let (path, headers, certificate) = (place.path(), &call.headers, certificate.as_ref());
    AccessRequest { action, path, headers, peer, is_secure, certificate }
}

fn verdict(decision: Decision) -> Result<(), HttpError> {
    match decision {
        Decision::Allowed => Ok(()),
        Decision::Refused { status, reason, challenge } => {
            let refusal = HttpError::new(status, reason);
            Err(match challenge {
                Some(challenge) => refusal.with(header::WWW_AUTHENTICATE, &challenge),
                None => refusal,
            })
        }
    }
}

/// The value of `Accept-Query`.
pub(crate) fn accept_query() -> String {
    format!("\"{RANGES_TYPE}\"")
}
