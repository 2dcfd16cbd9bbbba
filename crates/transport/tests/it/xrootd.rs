//! The XRootD protocol.

mod faults;
mod managers;
mod real_server;
mod refusals;
mod staging;
