//! Bulk movement: files and trees, copied in parallel blocks, resumable and checksummed.
//!
//! [`copy`] moves the files at some [`CopyPath`]s to a [`Destination`], through this machine.
//! `hither-core`'s `Source` and `Storage` hide where bytes come from and go to. This crate decides
//! which bytes move when, on how many workers, how much memory they take meanwhile, what an
//! interruption costs, and when a file gets its final name. [`sync`] copies what differs between
//! two trees and may delete the rest, [`check`] reports the differences.
//!
//! # Where to start reading
//!
//! - how a copy is divided among workers: `src/copy.rs`, `src/file/fetch.rs`,
//!   `src/copy/piece_size.rs`; how many workers and files there are at a time:
//!   `crates/tune/src/controller.rs`;
//! - how hundreds of small files are in flight: `src/copy/worker.rs`,
//!   `src/copy/resources/blocking_queue.rs`, `src/tree/group_sync.rs`;
//! - how small files move together: `docs/protocols/tree.md`, then `src/tree.rs`,
//!   `crates/server/src/method/tree.rs`, `crates/server/src/method/tree/upload.rs`;
//! - how trees are compared and mirrored: `src/compare.rs`, `src/sync.rs`, `src/filter.rs`;
//! - which names a destination takes for one: `src/destination/folding.rs`,
//!   `src/compare/tree_pair/alike.rs`.

mod compare;
mod control;
mod copy;
mod destination;
mod file;
mod filter;
mod journal;
mod options;
mod progress;
mod server_actions;
mod stage_clocks;
mod summary;
mod sync;
mod tree;
mod upload;

pub use compare::equality::CompareBy;
pub use compare::{CheckOptions, CheckSummary, DifferenceKind, TreeDifference, check};
pub use control::CopyControl;
pub use copy::bandwidth_limiter::{BandwidthLimit, BandwidthLimiter};
pub use copy::copy;
pub use copy::listed::{copy_listed, copy_range, source_name};
pub use copy::resources::unseen::unlisted_names;
pub use copy::setup::refuse_clashes;
pub use destination::folding::{SeenPaths, coarse, is_one_name, is_plain, name_difference};
pub use destination::{CopyPath, Destination};
pub use file::fetch::WRITE_BYTES;
pub use filter::{Filter, FilterOptions};
pub use options::{CopyOptions, OverwritePolicy, Verify};
pub use progress::{CopyProgress, ProgressSnapshot};
pub use server_actions::staging::StagingWait;
pub use server_actions::{MovedBytes, Stager, Staging, ThirdPartyMove, ThirdPartyMover};
pub use stage_clocks::CopyStages;
pub use summary::{CopyFailure, CopySummary, FileChecksum};
pub use sync::{SyncOptions, sync};
pub use tree::resumed_walk::ResumedWalk;
pub use upload::upload;
