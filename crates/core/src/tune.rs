//! tune.

pub mod concurrency_limit;
pub mod connections;
pub mod limit_discovery;
pub mod link;
pub(crate) mod straggler;
