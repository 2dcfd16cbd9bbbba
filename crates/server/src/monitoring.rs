//! Monitoring of a server: access log, metrics, health, status page.

pub(crate) mod access_log;
pub(crate) mod admin_server;
mod backend_servers;
pub(crate) mod copy_counters;
pub(crate) mod health;
pub(crate) mod metrics;
pub(crate) mod request_record;
pub(crate) mod request_stats;
pub(crate) mod sliding_window;
pub(crate) mod stats;
pub(crate) mod status_page;
