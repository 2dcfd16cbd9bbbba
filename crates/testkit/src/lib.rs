//! Links (WAN emulation), misbehaving peers, data generators; for tests only.
//!
//! One description of a [`Link`], three realisations:
//! - [`wan`]: packets between two network namespaces, real kernel TCP on both ends; Linux, root (`hither-wan`);

pub mod link;
pub mod random;
#[cfg(target_os = "linux")]
pub mod wan;

pub use link::Link;
