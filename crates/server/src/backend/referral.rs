//! Backends whose files are on other servers: the locations of files, and the state of the servers.

use crate::backend::{DirectoryEntry, EntryMetadata};
use hither_checksum::{Algorithm, Checksum};
use serde::Serialize;
use std::net::IpAddr;

/// A client's intended access to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Intent {
    /// Read it.
    Read,
    /// Create or replace it.
    Write,
}

/// A lookup of the location of a file for a client.
#[derive(Debug, Clone, Copy)]
pub struct LocateRequest<'a> {
    /// The path below the root.
    pub path: &'a str,
    /// The intent.
    pub intent: Intent,
    /// The address of the client.
    pub client: IpAddr,
    /// The name that the client's program gives itself, or the empty string.
    pub agent: &'a str,
    /// True if the client requests all replicas, and waits for them.
    pub wants_all: bool,
    /// The kind of checksum that the client requests, if one is known.
    pub checksum: Option<Algorithm>,
    /// True if the client requests the set of other files to which the response applies.
    pub wants_namespace: bool,
    /// The schemes of URLs that the client follows.
    pub schemes: &'a [&'a str],
}

impl LocateRequest<'_> {
    /// Returns true if the client follows this URL.
    #[must_use]
    pub fn follows(&self, url: &str) -> bool {
        let scheme = url.split_once("://").map(|(scheme, _)| scheme);
        scheme.is_some_and(|scheme| self.schemes.contains(&scheme))
    }
}

/// The location of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Located {
    /// The metadata of the entry at the path; none for a file that is to be created.
    pub metadata: Option<EntryMetadata>,
    /// The URL to which the client is redirected; none for a directory, and for a file that this
    /// server sends itself because the client can follow no URL of it.
    pub redirect: Option<String>,
    /// The URLs of all replicas, the best first.
    pub replicas: Vec<String>,
    /// The directory for whose files the same servers have the same paths, or the path of the file;
    /// none if it was not requested, or a URL does not end with that path.
    pub namespace: Option<String>,
    /// The checksum of the file, if it was requested and a replica stated it in time.
    pub checksum: Option<Checksum>,
}

/// The entries of a directory that are available at the moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AvailableEntries {
    /// The entries, in the order of their names.
    pub entries: Vec<DirectoryEntry>,
    /// The names of the servers that did not respond and may have more; none if there is none.
    pub missing: Option<String>,
}

/// A server behind a backend.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BackendServer {
    /// Its name in the configuration.
    pub name: String,
    /// False while it gets no requests because it did not respond.
    pub is_up: bool,
    /// The usual latency of its responses, in seconds.
    pub answer_seconds: f64,
    /// The number of requests to which it has responded.
    pub answered: u64,
    /// The number of requests to which it has not responded.
    pub failed: u64,
    /// The number of names for which it differs from most servers, or states too little.
    pub conflicts: u64,
}
