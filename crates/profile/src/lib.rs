//! Whole-system profiles of transfer servers: the time of all CPUs by kind of work, its cost per
//! gigabyte, and the reasons for which the server's threads waited. Also profiles of the storage
//! below a directory ([`storage`]), and sweeps over settings of transfers ([`sweep`]). Linux only.
//!
//! The server is not instrumented, and no code runs in it: the kernel interrupts each CPU about a
//! hundred times a second and records its call chain ([`Profiler`]).
//!
//! ```no_run
//! use hither_profile::{Options, Profiler, Target};
//!
//! let (_stopper, stop) = std::sync::mpsc::channel();
//! let mut options = Options::new(Target::Process(4711));
//! options.duration = Some(std::time::Duration::from_secs(60));
//! let profile = Profiler::prepare().run(options, &stop, &mut |_| true)?;
//! println!("{}", profile.to_text());
//! # Ok::<(), hither_profile::TargetError>(())
//! ```
//!
//! # Where to start reading
//!
//! - where a server's time goes: `src/profile.rs`, `src/classify.rs`;
//! - how settings of transfers are measured: `src/sweep.rs`, `src/sweep/journal.rs`,
//!   `src/sweep/transfers.rs`;
//! - how storage is measured: `src/storage.rs`, `src/storage/case.rs`.

#![cfg(target_os = "linux")]

mod category;
mod classify;
mod connections;
mod counters;
mod kernel_symbols;
mod off_cpu;
mod perf_events;
mod profile;
mod report;
mod sampler;
pub mod storage;
pub mod sweep;
mod tally;
mod target;
mod user_symbols;

pub use category::Category;
pub use connections::Connection;
pub use counters::Counters;
pub use off_cpu::OffCpu;
pub use profile::{Options, Profiler, Progress, TargetError};
pub use report::{Profile, Sampling};
pub use tally::ModuleId;
pub use target::Target;
