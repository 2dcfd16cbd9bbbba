//! Health checks, for load balancers, monitoring and people.
//!
//! They cover failures of a running server that its responses reveal late: the tree is readable
//! (within [`MAX_WAIT`]: a file system that hangs is as bad as a lost one), there is space where
//! files may be written, the certificate has not expired, and the server is not being stopped.

use crate::connection::tls::CertificateReloader;
use crate::context::ServerContext;
use crate::method::autoindex::human;
use crate::response::rfc3339;
use serde::Serialize;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::timeout;

/// The maximum time that the file system may take.
const MAX_WAIT: Duration = Duration::from_secs(5);

/// The results of all checks.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Health {
    /// True if every check passed.
    pub(crate) healthy: bool,
    checks: Checks,
}

#[derive(Debug, Clone, Serialize)]
struct Checks {
    running: Check,
    tree: Check,
    #[serde(skip_serializing_if = "Option::is_none")]
    space: Option<Check>,
    #[serde(skip_serializing_if = "Option::is_none")]
    certificate: Option<Check>,
}

#[derive(Debug, Clone, Serialize)]
struct Check {
    ok: bool,
    /// The observation in words.
    seen: String,
}

fn check(ok: bool, seen: impl Into<String>) -> Check {
    Check { ok, seen: seen.into() }
}

/// Runs all checks.
pub(crate) async fn check_all(
    context: &ServerContext,
    tls: Option<&CertificateReloader>,
    is_stopping: bool,
) -> Health {
    let writes = context.settings().authorizer.writes();
    let tree = match timeout(MAX_WAIT, context.backend.probe()).await {
        Ok(Ok(space)) => Ok(space),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("the file system has not responded for {} s", MAX_WAIT.as_secs())),
    };
    let minimum = context.limits().free_bytes;
    let space = tree.as_ref().ok().and_then(Option::as_ref).filter(|_| writes).map(|space| {
        let seen = format!("{} free", human(space.available));
        if space.available >= minimum {
            check(true, seen)
        } else {
            check(false, format!("{seen}, expected at least {}", human(minimum)))
        }
    });
    let checks = Checks {
        running: if is_stopping {
            check(false, "the server is being stopped")
        } else {
            check(true, "the server accepts connections")
        },
        tree: match tree {
            Ok(_) => check(true, "what is served is readable"),
            Err(why) => check(false, why),
        },
        space,
        certificate: tls.and_then(CertificateReloader::not_after).map(certificate),
    };
    let all = [Some(&checks.running), Some(&checks.tree), checks.space.as_ref()];
    let healthy = all.into_iter().chain([checks.certificate.as_ref()]).flatten().all(|c| c.ok);
    Health { healthy, checks }
}

fn certificate(not_after: i64) -> Check {
    let end = UNIX_EPOCH + Duration::from_secs(u64::try_from(not_after).unwrap_or_default());
    let date = rfc3339(end).unwrap_or_default();
    if end > SystemTime::now() {
        check(true, format!("the certificate is valid until {date}"))
    } else {
        check(false, format!("the certificate expired at {date}"))
    }
}
