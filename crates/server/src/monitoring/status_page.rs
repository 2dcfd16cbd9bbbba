//! The status page: the present and the last minutes of the server, for people.
//!
//! The page contains its first data, and requests new data (`status.json`) every two seconds. It
//! loads nothing from other hosts, and its content policy forbids that: the policy names the only
//! script by its hash.

use crate::backend::referral::BackendServer;
use crate::monitoring::health::Health;
use crate::monitoring::metrics::GaugeValues;
use crate::monitoring::sliding_window::WindowSummary;
use crate::monitoring::stats::ServerStats;
use crate::response::rfc3339;
use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::time::SystemTime;

const PAGE: &str = include_str!("status_page/page.html");
const STYLE: &str = include_str!("status_page/page.css");
const SCRIPT: &str = include_str!("status_page/page.js");

/// The data of the page.
#[derive(Debug, Serialize)]
pub(crate) struct Status<'a> {
    version: &'static str,
    time: String,
    uptime_seconds: u64,
    urls: &'a [String],
    health: Health,
    connections: Level,
    /// Active requests, and uploads among them.
    requests_open: i64,
    uploads_open: i64,
    requests_total: u64,
    sent_bytes_total: u64,
    received_bytes_total: u64,
    memory_bytes: Level,
    #[serde(skip_serializing_if = "Option::is_none")]
    lots: Option<LotLevels>,
    log_lines_lost: u64,
    past: WindowSummary,
    /// The servers behind the backend.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    servers: Vec<BackendServer>,
}

/// A quantity and its maximum.
#[derive(Debug, Serialize)]
struct Level {
    now: u64,
    max: u64,
}

#[derive(Debug, Serialize)]
struct LotLevels {
    count: u64,
    reserved_bytes: u64,
    used_bytes: u64,
}

impl<'a> Status<'a> {
    pub(crate) fn new(
        urls: &'a [String],
        stats: &ServerStats,
        levels: &GaugeValues,
        has_lots: bool,
        health: Health,
    ) -> Self {
        let metrics = &stats.metrics;
        let (requests_open, uploads_open) = metrics.active();
        let connections = u64::try_from(metrics.connections.get()).unwrap_or_default();
        Self {
            version: env!("CARGO_PKG_VERSION"),
            time: rfc3339(SystemTime::now()).unwrap_or_default(),
            uptime_seconds: levels.uptime_seconds,
            urls,
            health,
            connections: Level { now: connections, max: levels.max_connections },
            requests_open,
            uploads_open,
            requests_total: metrics.requests(),
            sent_bytes_total: metrics.sent.get(),
            received_bytes_total: metrics.received.get(),
            memory_bytes: Level { now: levels.memory, max: levels.max_memory },
            lots: has_lots.then_some(LotLevels {
                count: levels.lots,
                reserved_bytes: levels.lots_reserved,
                used_bytes: levels.lots_used.bytes,
            }),
            log_lines_lost: levels.lines_lost,
            past: stats.recent.summary(),
            servers: Vec::new(),
        }
    }

    /// The same with the servers behind the backend.
    pub(crate) fn with_servers(self, servers: Vec<BackendServer>) -> Self {
        Self { servers, ..self }
    }
}

/// The page with its first data, which is JSON.
pub(crate) fn page(data: &str) -> String {
    // The data contains names of files: `<` is escaped, so that none can end the element.
    let data = data.replace('<', "\\u003c");
    let page = PAGE.replace("{style}", STYLE).replace("{script}", SCRIPT);
    page.replace("{figures}", &data)
}

/// The content security policy of the page.
pub(crate) fn policy() -> String {
    let hash = BASE64_STANDARD.encode(Sha256::digest(SCRIPT));
    format!(
        "default-src 'none'; script-src 'sha256-{hash}'; style-src 'unsafe-inline'; \
         connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_complete_and_names_of_files_cannot_end_an_element() {
        let page = page(r#"{"path":"</script><b>"}"#);
        assert!(page.contains(r#"{"path":"\u003c/script>\u003cb>"}"#), "{page}");
        assert!(page.contains(&format!("<script>{SCRIPT}</script>")), "as it was hashed");
        for open in ["{style}", "{script}", "{figures}", "http://", "https://"] {
            assert!(!page.contains(open), "{open}");
        }
    }
}
