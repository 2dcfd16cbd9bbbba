//! Support for tests of copies.

pub(crate) mod scripted;
