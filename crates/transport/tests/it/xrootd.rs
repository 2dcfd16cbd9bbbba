//! XRootD's own protocol.

mod changes;
mod faults;
mod managers;
mod real_server;
mod staging;
