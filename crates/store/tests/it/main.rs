//! The store on a real file system.

#![expect(clippy::unwrap_used, reason = "tests say where they fail by panicking")]

mod blocks;
mod connection_slots;
mod damage;
mod directory;
mod eviction;
mod expiry;
mod learned;
mod sharing;
mod values;
