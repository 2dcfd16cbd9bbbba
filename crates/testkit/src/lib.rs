//! Links (WAN emulation), misbehaving peers, data generators; for tests only.
//!
//! One description of a [`Link`], three realisations:
//! - `wan`: packets between two network namespaces, real kernel TCP on both ends; Linux, root (`hither-wan`);
//! - [`proxy`]: a TCP proxy on the loopback that delays and limits, without privileges and without TCP slow start
//!   (`hither-proxy`);
//! - [`memory`]: a source of bytes in virtual time, for tests of what reads them.
//!
//! What reads: [`jobs`], and [`simulated`], which plays a job through an advisor by arithmetic alone.
//!
//! And [`peer`] and [`xrootd_peer`], servers that misbehave on demand, [`storage_suite`], what every storage must do, [`root_writer`],
//! which writes the ROOT files that no ROOT would, and [`seeds`], which replays those of the fuzz targets.

mod dependency_chain;
pub mod fuzz_seeds;
pub mod link;
pub mod mock_http;
pub mod mock_xrootd;
pub mod prefetch_model;
pub mod random;
pub mod root_writer;
pub mod source;
pub mod storage_conformance;
pub mod tcp_proxy;
mod test_server;
mod timer;
mod turns;
#[cfg(target_os = "linux")]
pub mod wan;
pub mod workload;

pub use link::Link;
