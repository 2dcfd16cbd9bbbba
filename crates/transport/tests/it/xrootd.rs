//! The XRootD protocol.

mod changes;
mod faults;
mod managers;
mod real_server;
mod refusals;
mod staging;
