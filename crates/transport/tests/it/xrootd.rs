//! XRootD's own protocol.

mod faults;
mod managers;
mod real_server;
mod refusals;
mod staging;
