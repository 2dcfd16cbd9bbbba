//! A file with several replicas: which of them gets a request, and what follows from a failure.
//!
//! [`Replicas`] is a [`Source`](hither_core::Source) over other sources, so that nothing above it
//! knows how many servers there are. One policy, in four parts:
//!
//! **Selection** (`selection`). Replicas are used in the order given, the first usable one for
//! everything, because its connections are open and its limits known. Others join in when its
//! connections are all taken, or when a job has become so large that several servers are likely to
//! be faster than one; then each request goes to the replica where it should end first, by the
//! speed of the requests before it.
//!
//! **Failure** (`failure`). Every error is attributed to the request, to the replica's file, to its
//! server, or to chance. An error that is not the request's own sends the rest of the request to
//! the next replica at once; parts that arrived are kept. A replica whose file is another one, or
//! is missing, is excluded for as long as the file is open, with a
//! [notice](hither_core::ReplicaSet::notices). Only when every replica has failed at one request
//! does the reader see an error: the last one, with the others in its message.
//!
//! **Health** ([`Health`]). A server that cannot be reached, or that breaks connections, is skipped
//! for a while by all files of the client. Code outside this module that chooses among servers asks
//! and reports here as well ([`Health::record_error`]), so that there is one opinion of each
//! server.
//!
//! **Hedging** (`hedging`). A request that has brought nothing for [`ReplicasConfig::hedge_after`],
//! or crawls, is sent to another replica as well. The first to finish wins and the other one is
//! dropped. [`ReplicasConfig::waste`] bounds the bytes requested twice.
//!
//! **Bulk jobs** (`bulk`). A copy asks for the whole file, so all replicas share its requests from
//! the beginning, in proportion to what each has been measured to bring.
//!
//! **Identity.** The first response settles the size of the file; requests to the other replicas
//! carry it, so that a response of another size fails before its first byte is handed on. Entity
//! tags differ between servers and are compared only with those of the same replica, by its own
//! [`VersionBinding`](hither_core::VersionBinding). Where the file's checksum is known, a replica
//! other than the first is asked for its own before it is used, if its server can compute one.
//!
//! Where replicas are looked for, in catalogues and at servers, is a [`ReplicaDiscovery`] that
//! transport implements; nothing here connects to a server.
//!
//! # Where to start reading
//!
//! - how a copy uses replicas, and finds the wrong one: `src/replicas/bulk.rs`,
//!   `crates/transfer/src/file/source.rs`, `crates/transfer/src/file/checks.rs`;
//! - what happens when a server fails: `src/replicas.rs`,
//!   `crates/transport/src/connect/outage.rs`.

mod replicas;

pub use replicas::{
    ChecksumQuery, FailureScope, Health, Replica, ReplicaDiscovery, Replicas, ReplicasConfig,
    classify,
};
