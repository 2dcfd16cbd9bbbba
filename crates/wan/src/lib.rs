//! A WAN emulator at packet level: real kernel TCP between two network namespaces. Linux, root.
//!
//! ```text
//!  namespace hw-NAME-c                                   namespace hw-NAME-s
//!  client program                                            server program
//!  kernel TCP                                                    kernel TCP
//!  wan0 10.77.k.1  ──►  shaper: loss, queue, rate, delay  ──►  wan0 10.77.k.2
//!                  ◄──  shaper: loss, queue, rate, delay  ◄──
//!                        forwarder (one process), observer
//! ```
//!
//! One forwarder process ([`forwarder`]) holds both TUN devices. [`shaper`] decides what the link
//! does to each packet, [`observer`] counts round trips by watching packets; neither does I/O.
//! [`lifecycle`] brings links up and down, [`control`] requests counters from a running forwarder,
//! [`validate`] measures links with `ping` and `iperf3`.
//!
//! Kernel settings: each namespace gets its congestion control (`net.ipv4.tcp_congestion_control`)
//! and `net.ipv4.tcp_no_metrics_save=1`, so that a connection does not inherit windows from an
//! earlier one; buffers stay at the kernel's defaults. A namespace may only choose a congestion
//! control that the machine allows. So `up` appends it to `net.ipv4.tcp_allowed_congestion_control`
//! of the root namespace if it is missing there, and leaves it there: programs may then choose it,
//! but no default changes.
//!
//! # Where to start reading
//!
//! - what the link does to a packet: `src/shaper.rs`; who carries it: `src/forwarder.rs`;
//! - how round trips are counted: `src/observer.rs`, with definitions in `crates/wan/README.md`;
//! - how a link comes up and goes, also after a crash: `src/lifecycle.rs`.

#![cfg(target_os = "linux")]

pub mod cli;
pub mod clock;
pub mod control;
mod error;
pub mod forwarder;
pub mod lifecycle;
pub mod namespace;
pub mod observer;
pub mod packet;
pub mod registry;
pub mod report;
pub mod shaper;
pub mod validate;
pub mod wakeup_latency;
