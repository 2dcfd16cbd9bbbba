//! A file in a bucket, read through a signed URL.
//!
//! The signature is part of the URL and valid for an hour. After half of that a new one is made,
//! which costs no request. It is valid for GET only, so if the store knows no suffix ranges,
//! reading the end of a file of unknown size asks for the size first, with a signature of its own.
//! Object stores support one range per request, which is assumed from the start, and `If-Match`.

use super::{S3Storage, entity_tag};
use crate::context::MonotonicClock;
use crate::http::exchange::RangeCondition;
use crate::http::source::HttpSource;
use crate::http::source::counted_size::{self, CountedSize};
use crate::location::Location;
use futures_core::future::BoxFuture;
use hither_core::endpoint::{Endpoint, RangeSupport};
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::sync::lock;
use hither_core::{Clock, Limits, LinkEstimate, PartSink, Request, ResponseMeta, Source};
use http::Method;
use object_store::path::Path;
use object_store::signer::Signer;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

const VALID: Duration = Duration::from_secs(3600);
const RENEWED: Duration = Duration::from_secs(1800);

/// A file in a bucket.
#[derive(Debug)]
pub(super) struct PresignedSource {
    s3: S3Storage,
    path: String,
    key: Path,
    clock: MonotonicClock,
    current: Mutex<(Arc<HttpSource>, Duration)>,
    counted_size: CountedSize,
}

impl PresignedSource {
    pub(super) fn new(s3: S3Storage, path: String, key: Path) -> Result<Self> {
        let clock = MonotonicClock::start();
        // Signing does not wait where the key is available.
        let source = futures_util::FutureExt::now_or_never(signed(&s3, &path, &key));
        let source = source.unwrap_or_else(|| Err(s3.missing(&path)))?;
        let current = Mutex::new((source, clock.now()));
        Ok(Self { s3, path, key, clock, current, counted_size: CountedSize::default() })
    }

    fn current(&self) -> MutexGuard<'_, (Arc<HttpSource>, Duration)> {
        lock(&self.current)
    }

    fn source(&self) -> Arc<HttpSource> {
        Arc::clone(&self.current().0)
    }

    async fn fresh(&self) -> Result<Arc<HttpSource>> {
        let (source, since) = self.current().clone();
        if self.clock.now().saturating_sub(since) < RENEWED {
            return Ok(source);
        }
        let source = signed(&self.s3, &self.path, &self.key).await?;
        *self.current() = (Arc::clone(&source), self.clock.now());
        Ok(source)
    }

    /// The location with its current signature.
    pub(super) fn location(&self) -> Location {
        self.source().location().clone()
    }

    /// The error of a request for the properties of the object, which describes problems of keys
    /// and regions better than that of a signed URL; `error` if there is none.
    async fn explained(&self, error: Error) -> Error {
        self.s3.file(&self.path).await.err().unwrap_or(error)
    }

    async fn fetch_signed(&self, mut request: Request, sink: PartSink) -> Result<ResponseMeta> {
        let source = self.fresh().await?;
        let shared = Arc::new(Mutex::new(sink));
        let sink = || -> PartSink {
            let shared = Arc::clone(&shared);
            Box::new(move |part| (lock(&shared))(part))
        };
        if request.tail == 0 || source.takes_suffix() {
            let fetched = source.fetch(request.clone(), sink()).await;
            if fetched.is_ok() || request.tail == 0 || source.takes_suffix() {
                return fetched;
            }
        }
        // The URL is signed for GET, so a HEAD to it cannot return the size.
        let meta = self.s3.file(&self.path).await?.ok_or_else(|| self.s3.missing(&self.path))?;
        let size = Some(meta.size);
        request.version.bind(&self.name(), size, entity_tag(meta.e_tag).as_deref())?;
        request.size = size;
        source.fetch(request, sink()).await
    }
}

/// Returns true for errors whose reason the store may report.
fn is_refusal(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::PermissionDenied | ErrorKind::Unauthenticated | ErrorKind::Protocol)
}

async fn signed(s3: &S3Storage, path: &str, key: &Path) -> Result<Arc<HttpSource>> {
    let mut url = s3.store.signed_url(Method::GET, key, VALID).await;
    if let (Ok(url), None) = (&mut url, &s3.identity) {
        url.set_query(None);
    }
    let url = url.map_err(|error| s3.failed(path, error))?;
    let location = Location::parse(url.as_str())?.without_credentials();
    let pool = s3.network.pool(&location);
    pool.server().assume(RangeSupport::Single);
    let source = HttpSource::new(location, Arc::clone(&s3.network));
    Ok(Arc::new(source.with_condition(RangeCondition::IfMatch)))
}

impl Source for PresignedSource {
    fn name(&self) -> String {
        self.s3.shown(&self.path)
    }

    fn limits(&self) -> Limits {
        self.source().limits()
    }

    fn link(&self) -> LinkEstimate {
        self.source().link()
    }

    fn clock(&self) -> &dyn Clock {
        &self.clock
    }

    fn endpoint(&self) -> Endpoint {
        self.source().endpoint()
    }

    fn max_connections(&self) -> usize {
        self.source().max_connections()
    }

    fn max_requests(&self) -> usize {
        self.source().max_requests()
    }

    fn expect_small_files(&self) {
        self.source().expect_small_files();
    }

    fn idle_connections(&self) -> usize {
        self.source().idle_connections()
    }

    fn preconnect(&self, connections: usize) {
        self.source().preconnect(connections);
    }

    fn expect_bulk(&self) {
        self.source().expect_bulk();
    }

    fn fetch(&self, request: Request, sink: PartSink) -> BoxFuture<'_, Result<ResponseMeta>> {
        Box::pin(async move {
            let expected = request.size.or_else(|| request.version.size());
            let answer = match self.fetch_signed(request, sink).await {
                Err(error) if is_refusal(error.kind()) => return Err(self.explained(error).await),
                fetched => fetched?,
            };
            let stated = async {
                let found = counted_size::unless_temporary(self.s3.file(&self.path).await)?;
                Ok(found.flatten().map(|it| it.size))
            };
            self.counted_size.check(self.name(), &answer, expected, stated).await?;
            Ok(answer)
        })
    }
}
