//! A file with several replicas: which of them gets a request, and the consequences of a failure.
//!
//! [`Replicas`] is a [`Source`](hither_core::Source) over other sources, so that code above it does
//! not depend on the number of servers. The policy has four parts:
//!
//! **Selection** (`selection`). Replicas are used in the order given, the first usable one for all
//! requests, because its connections are open and its limits known. Others join when all its
//! connections are in use, or when a job has become so large that several servers are likely to be
//! faster than one; then each request goes to the replica where it should end first, by the speed
//! of earlier requests.
//!
//! **Failure** (`failure`). Every error is attributed to the request, to the replica's file, to its
//! server, or to chance. After an error that is not the request's own, the rest of the request goes
//! to the next replica immediately; parts that arrived are kept. A replica whose file is another
//! one, or is missing, is excluded for as long as the file is open, with a
//! [notice](hither_core::ReplicaSet::notices). The reader sees an error only when every replica has
//! failed at one request: the last one, with the others in its message. Or when the end of a
//! response shows that its bytes, which were delivered, are of another version.
//!
//! **Health** ([`Health`]). A server that cannot be reached, or that breaks connections, is skipped
//! for a while by all files of the client. Code outside this module that chooses among servers uses
//! and updates the same record ([`Health::record_error`]), so that the state of each server is
//! consistent.
//!
//! **Hedging** (`hedging`). A request that has received nothing for
//! [`ReplicasConfig::hedge_after`], or is very slow, is sent to another replica as well. The first
//! to finish wins and the other one is dropped. [`ReplicasConfig::waste`] bounds the bytes
//! requested twice.
//!
//! **Bulk jobs** (`bulk`). A copy requests the whole file, so all replicas share its requests from
//! the beginning, in proportion to their measured rates.
//!
//! **Identity.** The first response settles the size of the file; requests to the other replicas
//! carry it, so that a response of another size fails before its first byte is delivered. Entity
//! tags differ between servers and are compared only with those of the same replica, by its own
//! [`VersionBinding`](hither_core::VersionBinding). Where the file's checksum is known, the
//! checksum of a replica other than the first is requested before its use, if its server can
//! compute one. Replicas that only a response names are compared with the others before their bytes
//! are used (`replica/admission.rs`).
//!
//! The search for replicas, in catalogues and at servers, is a [`ReplicaDiscovery`] that transport
//! implements; nothing here connects to a server.
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
