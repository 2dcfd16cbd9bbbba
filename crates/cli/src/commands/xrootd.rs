//! Commands that only XRootD servers support.

pub(super) mod chmod;
pub(super) mod locate;
