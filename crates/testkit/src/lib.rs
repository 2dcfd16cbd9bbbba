//! Servers, links and files with programmable properties for tests; never part of a release.
//!
//! - [`mock_http`] and [`mock_xrootd`]: servers with programmable faults and behaviours, and a log
//!   of requests.
//! - [`lossy_http`](mock_http::lossy_http): a server that loses connections during requests and
//!   responses.
//! - [`tcp_proxy`]: a TCP proxy on the loopback that delays connections and limits their rate
//!   (`hither-proxy`).
//! - [`workload`]: reading programs as lists of reads, reproducible by seed.
//! - [`root_writer`]: a writer of ROOT files, for layouts that ROOT no longer writes.
//! - [`waiting`]: waits for a condition, with a timeout.
//! - [`test_server`]: a port for a server that is another process.
//! - [`storage_conformance`]: tests that every implementation of `Storage` must pass.
//! - [`fuzz_seeds`]: a replay of the seeds of `fuzz/`, so that each fuzz target's parser is tested
//!   without a fuzzer.
//!
//! Links in virtual time are in `hither-simulate`, packet-level emulation in
//! `hither-wan`.
//!
//! # Where to start reading
//!
//! - how a server answers a request wrongly on purpose: `src/mock_http/fault.rs`,
//!   `src/mock_http/behaviours.rs`, and the same files of `mock_xrootd`;
//! - what every storage has to do: `src/storage_conformance.rs`;
//! - how a test waits: `src/waiting.rs`;
//! - a link without root, and why not with packets: `src/tcp_proxy.rs`,
//!   `docs/decisions/0066-a-proxy-beside-the-emulator.md`.

pub mod fuzz_seeds;
pub mod mock_http;
pub mod mock_xrootd;
pub mod root_writer;
pub mod storage_conformance;
pub mod tcp_proxy;
pub mod test_server;
pub mod waiting;
pub mod workload;
