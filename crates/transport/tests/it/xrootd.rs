//! XRootD's own protocol.

mod faults;
mod managers;
mod real_server;
mod staging;
