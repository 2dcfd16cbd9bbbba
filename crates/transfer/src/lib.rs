//! Bulk movement: files and trees, copied in parallel blocks, resumable and checksummed.
//!
//! [`copy`] moves what is at some [`CopyPath`]s to a [`Destination`], through this machine. Where
//! bytes come from and go to is behind `hither-core`'s `Source` and `Storage`; what is decided here
//! is which bytes move when, on how many workers, what is kept in memory meanwhile, what an
//! interruption costs, and when a file may have its name.

mod copy;
mod destination;
mod file;
mod journal;
mod options;
mod progress;
mod summary;
mod upload;

pub use copy::copy;
pub use destination::{CopyPath, Destination};
pub use options::{CopyOptions, OverwritePolicy, Verify};
pub use progress::{CopyProgress, ProgressSnapshot};
pub use summary::{CopyFailure, CopySummary, FileChecksum};
pub use upload::upload;
