//! Sources over HTTP and local files: session pools, lanes, multi-range reads.
