//! Values on disk that the next process need not learn again: properties of servers, metadata of
//! files, learned sets of branches, tuned settings of copies, and cached ranges.
//!
//! A [`Store`] is a directory that several processes share without locks. It is a cache in the
//! strict sense: every value may be evicted at any time, no value is trusted, and no failure of the
//! store stops a job.
//!
//! ```
//! use hither_store::{FileMetadata, MetadataKey, Store, StoreConfig};
//! use std::time::SystemTime;
//!
//! # let folder = tempfile::tempdir()?;
//! # let directory = folder.path().join("hither");
//! let now = SystemTime::now();
//! let store = Store::open(&directory, StoreConfig::default())?;
//! let key = MetadataKey { url: "http://host/file.root".into(), identity: String::new() };
//! let learned = FileMetadata {
//!     size: 1_000_000,
//!     validator: Some("\"6b018732\"".into()),
//!     pieces: vec![(0, "root".into())],
//!     learned: now,
//! };
//! store.put_metadata(&key, &learned, now);
//! let again = store.metadata(&key, now).expect("it was just written");
//! assert_eq!(again.pieces, learned.pieces);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Where to start reading
//!
//! - files and directories that only their user may have made: `src/own_file.rs`,
//!   `src/private_dir.rs`;
//! - ranges on disk: `src/disk_cache.rs`, `crates/hither/src/file/disk_cache.rs`.

mod connection_slots;
mod disk_cache;
mod endpoint;
mod learned;
mod metadata;
mod own_file;
mod private_dir;
mod record;
mod store;

pub use connection_slots::ConnectionSlot;
pub use disk_cache::{DiskCache, DiskCacheFile, DiskCacheKey};
pub use learned::LearnedTree;
pub use metadata::{FileMetadata, MetadataKey};
pub use own_file::open_own_file;
pub use private_dir::open_private_directory;
pub use store::{Store, StoreConfig};
