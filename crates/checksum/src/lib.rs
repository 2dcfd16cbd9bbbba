//! Checksums of whole files: their algorithms, their values, and their computation.
//!
//! An [`Algorithm`] is one that catalogues and servers of scientific data use. A [`Checksum`] is a
//! value of it, written as `adler32:0123abcd` and compared as bytes. A [`Hasher`] computes one from
//! bytes in order; checksums of Adler-32 and CRC-32C can also be computed from parts and combined
//! ([`Checksum::followed_by`]).
//!
//! Reading files, and the HTTP header fields that contain checksums, are not part of this crate:
//! those fields are in `hither_http::digest`.
//!
//! # Where to start reading
//!
//! - the algorithms, how a value is written and compared, and how those of parts are combined:
//!   `src/checksum.rs`;
//! - how one is computed: `src/checksum/hasher.rs`.

mod checksum;

pub use checksum::{Algorithm, Checksum, ChecksumError, Hasher};
