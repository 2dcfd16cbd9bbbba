//! What a server tells of itself: access log, metrics, health, status page.

pub(crate) mod access_log;
pub(crate) mod health;
pub(crate) mod meters;
pub(crate) mod metrics;
pub(crate) mod monitor;
pub(crate) mod note;
pub(crate) mod recent;
pub(crate) mod status;
