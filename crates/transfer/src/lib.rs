//! Bulk movement: files and trees, copied in parallel blocks, resumable and checksummed.
//!
//! [`copy`] moves what is at some [`CopyPath`]s to a [`Destination`], through this machine. Where bytes come from and go to
//! is behind `hither-core`'s `Source` and `Storage`; what is decided here is which bytes move when, on how many lanes,
//! what is kept in memory meanwhile, what an interruption costs, and when a file may have its name.

mod blocks;
mod budget;
mod file;
mod finish;
mod inlet;
mod job;
mod journal;
mod lane;
mod names;
mod open;
mod options;
mod order;
mod pace;
mod part_file;
mod progress;
mod queue;
mod start;
mod summary;
mod upload;
mod version;
mod walk;
mod write;

pub use job::copy;
pub use names::{CopyPath, Destination};
pub use options::{CopyOptions, OverwritePolicy, Verify};
pub use progress::{CopyProgress, ProgressSnapshot};
pub use summary::{CopyFailure, CopySummary, FileChecksum};
pub use upload::upload;
