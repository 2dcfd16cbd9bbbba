//! Tests of files that are read through the cache.

mod interleavings;
