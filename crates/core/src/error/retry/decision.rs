//! Decides whether a failed request may be sent again. Nothing else does.
//!
//! The code that notices a failure states facts: what failed ([`Failure`]), and what the request
//! does at the server ([`Effect`]). [`Error::retry`] makes a decision of them ([`Retry`]).
//!
//! *Changes.* A request that changes what others see (PUT to the name of a file, MOVE, COPY,
//! DELETE, MKCOL, POST, `kXR_mv`, `kXR_rm`, `kXR_mkdir`) is never repeated if it may have been
//! carried out. That most of these methods are idempotent (RFC 9110 section 9.2.2) is not enough:
//! another client may have made a file meanwhile, which the second request would remove or replace.
//! The decision is [`Retry::LookFirst`]: a caller that continues looks at the server first.
//!
//! *Refusals.* After 408, 425, 429 and 503 the server has not carried out the request, whatever it
//! was (RFC 6585 section 4, RFC 8470 section 5.2, RFC 9110 sections 15.5.9 and 15.6.4).

use crate::error::{Error, ErrorKind};
use std::io;
use std::time::Duration;

/// The longest `Retry-After` that is honoured: with a longer one another server is better.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(60);
/// The pause before a file that is being staged is requested again, where the server states none.
const STAGING_PAUSE: Duration = Duration::from_secs(5);
/// The shortest pause before such a request.
const MIN_STAGING_PAUSE: Duration = Duration::from_millis(200);
/// The pause before a file that is locked is requested again.
const LOCKED_PAUSE: Duration = Duration::from_secs(1);

/// The decision about a failed request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// No retry helps.
    Never,
    /// An immediate retry may succeed: it is another request, or goes to another server.
    AtOnce,
    /// The same server may answer the same request.
    SameServer {
        /// The pause that the server has requested; zero if it has not.
        after: Duration,
    },
    /// The server refused the request for now, because it is busy.
    Busy {
        /// The pause that the server has requested; zero if it has not.
        after: Duration,
    },
    /// The server works, but has to make this file ready first, as from tape. This does not count
    /// as a failure.
    Later {
        /// The pause before the next request.
        after: Duration,
    },
    /// Only another replica may answer.
    OtherServer,
    /// The request may have been carried out: look at the server before it is repeated.
    LookFirst,
}

impl Retry {
    /// Returns true if the same server may answer, sooner or later.
    #[must_use]
    pub fn may_succeed(self) -> bool {
        !matches!(self, Self::Never | Self::OtherServer | Self::LookFirst)
    }
}

/// The fact about a failure that decides about a retry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Failure {
    /// Only the kind of the error is known.
    #[default]
    Unknown,
    /// A status of HTTP.
    Status {
        /// The number.
        code: u16,
        /// The pause of `Retry-After`.
        after: Option<Duration>,
    },
    /// An error code of the XRootD protocol (`kXR_...`).
    Xrootd {
        /// The number.
        code: u32,
    },
    /// No connection was made, so that nothing was sent.
    NotConnected(io::ErrorKind),
    /// The connection broke, or a timeout expired, before the response was complete.
    Interrupted(Delivery),
    /// The response is malformed: it may have been damaged in transit.
    Garbled,
    /// The request was too large, and will be sent in smaller ones.
    TooLarge,
    /// The server has to make the file ready first.
    Staging {
        /// The pause before the next request.
        after: Duration,
    },
    /// The next request will go to another server, or to another address of this one.
    Redirected,
    /// Only this server cannot answer: another one may.
    OneServer,
}

/// The part of a request that has left this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// Nothing.
    Unsent,
    /// The header, and less than the whole body: no server can have carried it out.
    Partial,
    /// All of it, as far as is known.
    Sent,
}

/// The effect of a request at the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Effect {
    /// None: it reads.
    #[default]
    Read,
    /// It writes what no other client uses, as a file under a partial name, and can be repeated.
    Own,
    /// It changes what others see.
    Change,
}

impl Failure {
    /// The failure that an S3 error code means, else the `status` of the response.
    #[must_use]
    pub fn of_s3(code: Option<&str>, status: u16, after: Option<Duration>) -> Self {
        let code = match code.unwrap_or_default() {
            "SlowDown"
            | "ServiceUnavailable"
            | "TooManyRequests"
            | "RequestLimitExceeded"
            | "Throttling"
            | "ThrottlingException" => 503,
            "InternalError" => 500,
            // With status 400: the store has not received the whole request.
            "RequestTimeout" => 408,
            _ => status,
        };
        Self::Status { code, after }
    }

    /// Returns true if the request may have been carried out although it failed.
    fn may_be_carried_out(self, kind: ErrorKind) -> bool {
        match self {
            Self::Unknown => is_passing(kind),
            Self::Status { code, .. } => match code {
                501 | 503 | 505 | 507 | 511 => false,
                code => matches!(code, 200..=299 | 500..=599),
            },
            Self::Xrootd { code } => !matches!(
                code,
                xrootd::ARG_INVALID..=xrootd::FILE_NOT_OPEN
                    | xrootd::INVALID_REQUEST
                    | xrootd::NO_MEMORY..=xrootd::NOT_FOUND
                    | xrootd::UNSUPPORTED..=xrootd::IS_DIRECTORY
                    | xrootd::IT_EXISTS
                    | xrootd::CHECKSUM
                    | xrootd::OVER_QUOTA..=xrootd::TOO_MANY_ERRORS
            ),
            Self::Interrupted(delivery) => delivery == Delivery::Sent,
            Self::Garbled => true,
            Self::NotConnected(_)
            | Self::TooLarge
            | Self::Staging { .. }
            | Self::Redirected
            | Self::OneServer => false,
        }
    }

    /// The decision about a request that may be repeated.
    fn decide(self, kind: ErrorKind) -> Retry {
        match self {
            Self::Staging { after } => Retry::Later { after },
            Self::OneServer => Retry::OtherServer,
            Self::TooLarge | Self::Redirected => Retry::AtOnce,
            Self::Interrupted(_) | Self::Garbled => Retry::SameServer { after: Duration::ZERO },
            // A server was there and reset the connection, as overloaded ones do.
            Self::NotConnected(io::ErrorKind::ConnectionReset) => {
                Retry::SameServer { after: Duration::ZERO }
            }
            Self::Xrootd { code } => of_xrootd(code, kind),
            _ if !is_passing(kind) => Retry::Never,
            Self::Status { code, after } => of_status(code, after),
            Self::Unknown | Self::NotConnected(_) => Retry::OtherServer,
        }
    }
}

impl Error {
    /// The decision about a retry of the request that failed.
    #[must_use]
    pub fn retry(&self) -> Retry {
        let retry = self.failure().decide(self.kind());
        if retry != Retry::Never && self.may_have_been_carried_out() {
            return Retry::LookFirst;
        }
        retry
    }

    /// Returns true if the request changes what others see, and may have been carried out.
    #[must_use]
    pub fn may_have_been_carried_out(&self) -> bool {
        self.effect() == Effect::Change && self.failure().may_be_carried_out(self.kind())
    }

    /// The decision about an operation that restarts and checks source and target again, as the
    /// copy of a file.
    #[must_use]
    pub fn retry_anew(&self) -> Retry {
        if !is_passing(self.kind()) && self.kind() != ErrorKind::Corrupt {
            return Retry::Never;
        }
        match self.retry() {
            Retry::SameServer { after } | Retry::Busy { after } | Retry::Later { after } => {
                Retry::SameServer { after }
            }
            _ => Retry::SameServer { after: Duration::ZERO },
        }
    }
}

/// Returns true for errors that may concern one server only, or may be temporary.
fn is_passing(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Unavailable | ErrorKind::Timeout | ErrorKind::Protocol)
}

fn of_status(code: u16, after: Option<Duration>) -> Retry {
    let stated = after.unwrap_or_default();
    match code {
        202 => Retry::Later { after: after.map_or(STAGING_PAUSE, |it| it.max(MIN_STAGING_PAUSE)) },
        423 => Retry::SameServer { after: LOCKED_PAUSE },
        501 | 505 => Retry::OtherServer,
        408 | 425 | 429 | 500..=599 if stated > MAX_RETRY_AFTER => Retry::OtherServer,
        408 | 425 | 429 | 503 => Retry::Busy { after: stated },
        500..=599 => Retry::SameServer { after: stated },
        _ => Retry::OtherServer,
    }
}

/// The decision by an error code of XRootD. Servers use the codes loosely: a file that cannot be
/// opened may be an I/O error or a file system error. So those justify a request to another server,
/// but no second one to the same.
fn of_xrootd(code: u32, kind: ErrorKind) -> Retry {
    match code {
        // Its limits, memory or checksums are not those of others.
        xrootd::ARG_TOO_LONG | xrootd::NO_MEMORY | xrootd::CHECKSUM | xrootd::TOO_MANY_ERRORS => {
            Retry::OtherServer
        }
        _ if !is_passing(kind) => Retry::Never,
        xrootd::FILE_NOT_OPEN => Retry::SameServer { after: Duration::ZERO },
        xrootd::FILE_LOCKED | xrootd::IN_PROGRESS => Retry::SameServer { after: LOCKED_PAUSE },
        xrootd::OVERLOADED => Retry::Busy { after: Duration::ZERO },
        _ => Retry::OtherServer,
    }
}

/// Error codes of `XProtocol.hh`, as far as decisions depend on them.
mod xrootd {
    pub(super) const ARG_INVALID: u32 = 3000;
    pub(super) const ARG_TOO_LONG: u32 = 3002;
    pub(super) const FILE_LOCKED: u32 = 3003;
    pub(super) const FILE_NOT_OPEN: u32 = 3004;
    pub(super) const INVALID_REQUEST: u32 = 3006;
    pub(super) const NO_MEMORY: u32 = 3008;
    pub(super) const NOT_FOUND: u32 = 3011;
    pub(super) const UNSUPPORTED: u32 = 3013;
    pub(super) const IS_DIRECTORY: u32 = 3016;
    pub(super) const IT_EXISTS: u32 = 3018;
    pub(super) const CHECKSUM: u32 = 3019;
    pub(super) const IN_PROGRESS: u32 = 3020;
    pub(super) const OVER_QUOTA: u32 = 3021;
    pub(super) const OVERLOADED: u32 = 3024;
    pub(super) const TOO_MANY_ERRORS: u32 = 3033;
}
