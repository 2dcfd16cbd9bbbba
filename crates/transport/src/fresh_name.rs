//! Names that nobody else uses.

use hither_core::storage::partial_name;
use std::hash::{BuildHasher, Hash, RandomState};

/// A name for a file to lie under while it is written to `target`. Another one at every call.
pub(crate) fn fresh_name(target: impl Hash) -> String {
    // A hasher with random keys: this process's source of numbers that nobody else has.
    partial_name(RandomState::new().hash_one(target))
}
