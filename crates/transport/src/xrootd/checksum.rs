//! Checksums that servers report.

use crate::location::Location;
use crate::network::Network;
use crate::xrootd::job::Operation;
use crate::xrootd::request::ask;
use crate::xrootd::target::with_words;
use futures_core::future::BoxFuture;
use hither_auth::Action;
use hither_checksum::{Algorithm, Checksum};
use hither_core::error::{ErrorKind, Result};
use hither_replicas::ChecksumQuery;
use hither_xrd::client::Completion;
use hither_xrd::wire::{self, Request, query_kind};
use std::sync::Arc;

/// A file whose checksum can be requested from its server.
#[derive(Debug)]
pub(crate) struct XrootdDigest {
    location: Location,
    network: Arc<Network>,
}

impl XrootdDigest {
    /// The file at `location`.
    pub(crate) fn new(location: Location, network: Arc<Network>) -> Self {
        Self { location, network }
    }
}

impl ChecksumQuery for XrootdDigest {
    fn checksum(&self, algorithm: Algorithm) -> BoxFuture<'_, Result<Option<Checksum>>> {
        Box::pin(checksum(&self.network, &self.location, algorithm))
    }
}

/// The checksum of the file at `location`, if its server can report it.
pub(super) async fn checksum(
    network: &Network,
    location: &Location,
    algorithm: Algorithm,
) -> Result<Option<Checksum>> {
    let query = |path: String| {
        let text = with_words(path, &format!("cks.type={}", algorithm.name()));
        Operation::Request(Request::Query { kind: query_kind::CHECKSUM, text })
    };
    let reported = match ask(network, location, Action::Read, query).await {
        Ok(reply) => match reply.answered.reply {
            Completion::Text(text) => wire::checksum(&text).ok(),
            _ => None,
        },
        Err(error) => match error.kind() {
            // The server computes no checksum, or none of this kind.
            ErrorKind::Unsupported | ErrorKind::Invalid => None,
            // XRootD says so by a code for internal errors.
            _ if error.to_string().contains("not supported") => None,
            _ => return Err(error),
        },
    };
    let reported = reported.filter(|(name, _)| name == algorithm.name());
    Ok(reported.and_then(|(_, value)| Checksum::from_hex(algorithm, &value).ok()))
}
