//! The store on a real file system.

#![expect(clippy::unwrap_used, reason = "tests say where they fail by panicking")]

mod blocks;
mod damage;
mod directory;
mod eviction;
mod expiry;
mod lanes;
mod learned;
mod sharing;
mod values;
