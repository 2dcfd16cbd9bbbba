//! open_ahead.

pub(crate) mod access_pattern;
pub(crate) mod folder;
pub(crate) mod gate;
pub(crate) mod open_many;
pub(crate) mod prefetched;
pub(crate) mod queue;
pub(crate) mod task;
