//! Checksums of whole files: their algorithms, their values, and how they are computed.
//!
//! An [`Algorithm`] is one of those that catalogues and servers of scientific data state. A
//! [`Checksum`] is a value of it, written as `adler32:0123abcd` and compared as bytes. A [`Hasher`]
//! computes one from bytes in order; sums of Adler-32 and CRC-32C can also be computed from parts
//! and joined ([`Checksum::followed_by`]).
//!
//! Reading files, and the header fields of HTTP in which checksums travel, are not part of this
//! crate: those fields are in `hither_http::digest`.

mod checksum;

pub use checksum::{Algorithm, Checksum, ChecksumError, Hasher};
