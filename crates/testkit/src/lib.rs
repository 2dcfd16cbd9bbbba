//! Links (WAN emulation) for tests.
pub mod link;
pub mod random;
pub mod wan;
pub use link::Link;
