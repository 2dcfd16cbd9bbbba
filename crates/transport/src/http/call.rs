//! HTTP requests other than range reads: the namespace, uploads, small documents.
//!
//! An [`HttpRequest`] uses the same connections and counters as reads do. Its response is read
//! whole, up to a maximum. Redirects are followed with the same method as long as the body can be
//! sent again; 303 turns a read into a GET (RFC 9110 section 15.4.4), and ends a change.
//!
//! *Retries* ([`hither_core::retry`]). A request to a busy server (408, 425, 429, 503) is repeated
//! until the first-byte timeout has passed, whatever the method. An interrupted request is sent
//! again if it only reads, or writes a resource that only this client knows, and if the earlier
//! attempts took less than that time. [`layers`](crate::layers) names the files that decide what
//! happens to a redirected or rejected request, and to one whose connection was closed. A change
//! whose whole request was sent is never repeated: its error says so
//! ([`Error::may_have_been_carried_out`]).
//!
//! Uploads may take hours, so the request as a whole has no timeout: the no-progress timeout
//! applies while the body is sent, and the first-byte timeout from its end to the header of the
//! response.

mod body;
pub(crate) mod change;
mod message;

pub(crate) use message::{BodyWatcher, is_read};
pub use message::{HttpRequest, HttpResponse};

use crate::authorization;
use crate::context::MonotonicClock;
use crate::http::request;
use crate::http::request_body::BoxBody;
use crate::http::request_body::{RequestBody, SendProgress, TrackedBody};
use crate::http::status_error;
use crate::layers::credential::RequestCredential;
use crate::layers::redirects::{self, Attempts, MAX_HTTP_REDIRECTS};
use crate::layers::stale_connections::{FailedRequest, StaleConnections};
use crate::location::Location;
use crate::network::Network;
use crate::pool::request_sender::RequestSender;
use crate::pool::{Pool, http1};
use bytes::Bytes;
use hither_core::error::{Error, ErrorKind, Failure, Result, Retry};
use hither_core::retry::{self, Failed};
use hither_core::sync::lock;
use hither_http::metalink::links;
use http::{HeaderMap, Method, StatusCode, header};
use hyper::body::Incoming;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tracing::debug;

/// A larger body, in bytes, is sent only after the server has accepted the request.
const EXPECT_BYTES: u64 = 1 << 20;

/// The status, the fields and the body of a response.
type Answer = (StatusCode, HeaderMap, Bytes);

impl Network {
    /// Sends a request and reads its response, as often as it may be repeated.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unavailable`], [`ErrorKind::Timeout`], [`ErrorKind::Protocol`] if there is no
    /// response. Every response is a success here, whatever its status.
    pub async fn call(&self, call: HttpRequest) -> Result<HttpResponse> {
        let began = Instant::now();
        let refusal = Mutex::new(None);
        let attempt = || async {
            let reply = match self.call_once(call.clone()).await {
                Ok(reply) => reply,
                Err(error) => {
                    let error = error.of_request(call.effect, &call.method);
                    return Err(self.failed(error, began, call.is_sent_once()));
                }
            };
            if reply.status.is_success() || !call.waits_while_busy() {
                return Ok(reply);
            }
            let error = status_error::of_response(&reply, call.method.as_str());
            if !matches!(error.retry(), Retry::Busy { .. }) {
                return Ok(reply);
            }
            *lock(&refusal) = Some(HttpResponse { has_waited: true, ..reply });
            Err(Failed::from(error))
        };
        match retry::run(&self.config().retry_policy(), &MonotonicClock::start(), attempt).await {
            // The caller knows what the status means.
            Err(error) if matches!(error.retry(), Retry::Busy { .. }) => {
                lock(&refusal).take().ok_or(error)
            }
            done => done,
        }
    }

    /// Sends a request and reads its response, behind redirects.
    async fn call_once(&self, mut call: HttpRequest) -> Result<HttpResponse> {
        let mut attempts = Attempts::new(&call.location, MAX_HTTP_REDIRECTS);
        let mut credential = RequestCredential::default();
        let mut expect = true;
        // A path in a federation whose director has not been asked yet.
        let mut named = call.location.is_named().then(|| call.location.clone());
        if let Some(named) = &named
            && let Some(known) = self.known_servers(named, &call.method).into_iter().next()
        {
            call.location = known;
        }
        loop {
            if call.location.is_named() {
                call.location = self.director_of(&call.location).await?;
                named = None;
            }
            attempts.count()?;
            let pool = self.pool(&call.location);
            credential.prepare(&call.location, pool.config()).await?;
            let failover = call.failover;
            call.failover |= named.is_some();
            let answer = answered(&pool, &call, expect).await;
            call.failover = failover;
            let is_wrong_guess = call.content.is_whole()
                && match &answer {
                    Ok((status, ..)) => *status == StatusCode::NOT_FOUND,
                    Err(error) => {
                        matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Timeout)
                    }
                };
            if is_wrong_guess && let Some(named) = named.take() {
                if answer.is_err() {
                    self.forget_servers(&named, &call.method);
                }
                call.location = named;
                continue;
            }
            let (status, headers, body) = answer?;
            if status == StatusCode::EXPECTATION_FAILED && expect && call.content.is_whole() {
                expect = false;
                continue;
            }
            let again = status == StatusCode::UNAUTHORIZED && call.content.is_whole();
            if again && credential.renew(&call.location, pool.config()).await {
                continue;
            }
            let credentials = &pool.config().credentials;
            if let Some(next) = redirects::next_request(&call, status, &headers, credentials)? {
                let links = links(&headers).resolved(|url| call.location.absolute_of(url));
                self.learn_servers(&call.location, &call.method, &next.location, &links);
                call = next;
                continue;
            }
            let HttpRequest { location, method, effect, .. } = call;
            let refusal =
                authorization::refusal(&location, pool.config(), &method, status, &headers, &body);
            return Ok(HttpResponse {
                status,
                headers,
                body,
                location,
                refusal,
                effect,
                has_waited: false,
            });
        }
    }
}

/// Sends `call`, on another connection if one was closed meanwhile.
async fn answered(pool: &Arc<Pool>, call: &HttpRequest, expect: bool) -> Result<Answer> {
    // All idle connections may have been closed meanwhile.
    let mut stale = StaleConnections::at_most(pool.max_connections());
    loop {
        let attempted = attempt(pool, call, expect).await;
        if attempted.as_ref().map_or(true, |(status, ..)| is_of_proxy(*status)) {
            pool.server().note_interruption();
        }
        match attempted {
            Ok(answer) => return Ok(answer),
            Err(failed)
                if call.content.is_whole()
                    && stale.sends_again(&call.location, failed.is_stale) => {}
            Err(failed) => return Err(failed.error),
        }
    }
}

/// Returns true for a status with which a proxy reports that its server does not respond.
fn is_of_proxy(status: StatusCode) -> bool {
    matches!(status.as_u16(), 502..=504)
}

async fn attempt(
    pool: &Arc<Pool>,
    call: &HttpRequest,
    expect: bool,
) -> Result<Answer, FailedRequest> {
    pool.server().wait_retry_after().await;
    let acquired = if call.failover { pool.acquire_now().await } else { pool.acquire().await };
    let mut leased = acquired.map_err(Error::without_connection)?;
    let Some(sender) = leased.sender() else {
        return Err(Error::new(ErrorKind::Cancelled, "the connection was closed").into());
    };
    let mut builder = request::builder(call.method.clone(), &call.location, pool);
    if let Some(fields) = builder.headers_mut() {
        if !matches!(call.content, RequestBody::Empty) {
            fields.insert(header::CONTENT_LENGTH, call.content.len().into());
        }
        // A given field replaces the default one.
        fields.extend(call.headers.clone());
    }
    // Whether a POST is accepted was learned before.
    let is_large = call.content.len() > EXPECT_BYTES || call.location.is_at_director();
    let gated = expect && call.method != Method::POST && is_large && call.content.len() > 0;
    let gate = gated.then(|| {
        let (opened, gate) = oneshot::channel();
        builder = std::mem::take(&mut builder).header(header::EXPECT, "100-continue");
        open_on_continue(&mut builder, opened);
        gate
    });
    let (body, progress) = TrackedBody::new(call.content.clone(), gate);
    let request = builder.body(BoxBody::new(body)).map_err(|error| {
        let what = format!("{}: the URL cannot be sent in a request", call.location);
        Error::new(ErrorKind::Invalid, what).with_source(error)
    })?;
    let has_answered = sender.has_answered();
    let sent = Instant::now();
    let sent_at = SystemTime::now();
    let response = exchanged(sender, request, &call.location, pool, &progress)
        .await
        .map_err(|error| FailedRequest::new(error, has_answered, call.effect))?;
    let (head, body) = response.into_parts();
    pool.server().saw_date(&head.headers, sent_at);
    let (body, is_read) = if head.status.is_success() {
        (body::collected(body, call, pool).await?, true)
    } else {
        let sent = (&call.location, &call.headers);
        request::collected_reason(body, call.max_reply_bytes, sent, pool).await
    };
    change::learn_xrdhttp(pool, &call.method, &head.headers, &body);
    debug!(
        method = %call.method,
        url = %call.location,
        status = head.status.as_u16(),
        bytes = body.len(),
        duration = ?sent.elapsed(),
        "request answered"
    );
    // After a response that came before the body was sent, the server would take the rest of the
    // body for a request.
    if is_read && progress.is_done() && !http1::is_last(&head) {
        leased.give_back();
    }
    Ok((head.status, head.headers, body))
}

/// Sends a request and waits for the header of its response.
async fn exchanged(
    sender: &mut RequestSender,
    request: http::Request<BoxBody>,
    location: &Location,
    pool: &Pool,
    progress: &SendProgress,
) -> Result<http::Response<Incoming>> {
    let mut answer = Box::pin(async {
        sender.ready().await?;
        sender.begin(pool.link().rtt, 0);
        sender.send(request).await
    });
    let mut taken = progress.taken();
    let response = loop {
        let leaving = !progress.is_done();
        let clock = if leaving {
            pool.config().no_progress_timeout
        } else {
            pool.config().first_byte_timeout
        };
        if let Ok(answer) = tokio::time::timeout(clock, &mut answer).await {
            break answer;
        }
        let before = std::mem::replace(&mut taken, progress.taken());
        if leaving && (progress.is_waiting() || taken != before || progress.is_done()) {
            continue;
        }
        let what = if leaving { "the server accepted no byte" } else { "no response" };
        return Err(Error::new(
            ErrorKind::Timeout,
            format!("{location}: {what} for {} s", clock.as_secs_f64()),
        )
        .with_failure(Failure::Interrupted(progress.delivery())));
    };
    drop(answer);
    let response =
        response.map_err(|error| request::cut(location, sender, error, progress.delivery()))?;
    sender.answered();
    sender.record(&response);
    request::check_transfer_coding(&response, location)?;
    Ok(response)
}

/// Releases a body when the server responds with "100 Continue".
fn open_on_continue(builder: &mut http::request::Builder, opened: oneshot::Sender<()>) {
    let opened = Mutex::new(Some(opened));
    let mut bearer = http::Request::new(());
    hyper::ext::on_informational(&mut bearer, move |response| {
        if response.status() == StatusCode::CONTINUE
            && let Some(opened) = lock(&opened).take()
        {
            // The body may already be on its way without it.
            let _ = opened.send(());
        }
    });
    if let Some(extensions) = builder.extensions_mut() {
        extensions.extend(std::mem::take(bearer.extensions_mut()));
    }
}
