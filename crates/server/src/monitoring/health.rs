//! Whether the server can do its work, for those that decide by that: load balancers, monitoring, people.
//!
//! What is looked at is what breaks while a server runs and what its answers would show last: the tree can be read (within
//! [`PATIENCE`]: a file system that hangs is as bad as one that is gone), there is room for files where files may be written, the
//! certificate has not expired, and nobody has told the server to stop.

use crate::connection::tls::CertificateReloader;
use crate::context::ServerContext;
use crate::iso_date;
use crate::method::autoindex::human;
use serde::Serialize;
use std::io;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::timeout;

/// How long the file system may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// What was found.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Health {
    /// Whether all is well.
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
    /// What was seen.
    seen: String,
}

fn check(ok: bool, seen: impl Into<String>) -> Check {
    Check { ok, seen: seen.into() }
}

/// Looks at all of it.
pub(crate) async fn look(
    context: &ServerContext,
    tls: Option<&CertificateReloader>,
    is_stopping: bool,
) -> Health {
    let writes = context.settings().authorizer.writes();
    let looked = context.disk.run(|tree| -> io::Result<(u64, u64)> {
        tree.probe()?;
        tree.space("")
    });
    let tree = match timeout(PATIENCE, looked).await {
        Ok(Ok(space)) => Ok(space),
        Ok(Err(refusal)) => Err(refusal.what),
        Err(_) => Err(format!("the file system has not responded for {} s", PATIENCE.as_secs())),
    };
    let least = context.limits().free_bytes;
    let space = tree.as_ref().ok().filter(|_| writes).map(|(free, _)| {
        let seen = format!("{} free", human(*free));
        match *free >= least {
            true => check(true, seen),
            false => check(false, format!("{seen}, expected at least {}", human(least))),
        }
    });
    let checks = Checks {
        running: match is_stopping {
            true => check(false, "the server is being stopped"),
            false => check(true, "the server accepts connections"),
        },
        tree: match tree {
            Ok(_) => check(true, "the served directory is readable"),
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
    let date = iso_date::format(end);
    match end > SystemTime::now() {
        true => check(true, format!("the certificate is valid until {date}")),
        false => check(false, format!("the certificate expired at {date}")),
    }
}
