//! The interface to access decisions: every request passes through it.
//!
//! Every request calls [`Authorizer::decide`] once for each path that it touches, before anything
//! at that path is looked up. The proofs of the client's identity (tokens, client certificates)
//! come with the [`AccessRequest`]; the decision allows the action, or has the status and reason of
//! the error.

use hither_auth::DistinguishedName;
use http::{HeaderMap, StatusCode};
use std::fmt::Debug;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

/// An action on a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// Reads a file, its properties, or the names in a directory.
    Read,
    /// Creates a file or directory that does not exist.
    Create,
    /// Changes, replaces, moves or removes an existing file or directory.
    Modify,
}

/// A request to the authorizer: the client, the action and the path.
#[derive(Debug, Clone, Copy)]
pub struct AccessRequest<'a> {
    /// The action.
    pub action: Action,
    /// The path below the root: decoded, with single slashes between components, none at the ends.
    pub path: &'a str,
    /// The header fields of the request.
    pub headers: &'a HeaderMap,
    /// The address of the client.
    pub peer: SocketAddr,
    /// True if the connection is encrypted (TLS).
    pub is_secure: bool,
    /// The distinguished name of the client's certificate, if it has sent one that was verified.
    pub certificate: Option<&'a Arc<DistinguishedName>>,
}

/// Work that has to end before a decision.
pub type PrepareFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A decision of the authorizer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The action is allowed.
    Allowed,
    /// The action is denied.
    Refused {
        /// 401 or 403.
        status: StatusCode,
        /// The reason, for the client.
        reason: String,
        /// The value of `WWW-Authenticate`, if other credentials might help.
        challenge: Option<String>,
    },
}

/// Decides which client may do what.
pub trait Authorizer: Send + Sync + Debug {
    /// Decides on one action.
    fn decide(&self, asking: &AccessRequest<'_>) -> Decision;
    /// Returns true if any client may write anything; OPTIONS lists the methods accordingly.
    fn writes(&self) -> bool;
    /// Returns true if a client that may read a directory may not read some entries below it. Then
    /// each entry of a listing needs a decision of its own.
    fn hides(&self) -> bool;
    /// The name of the client, for the access log and for what it owns. The action and the path do
    /// not matter.
    ///
    /// # Errors
    /// The decision for a client without a name.
    fn name(&self, asking: &AccessRequest<'_>) -> Result<String, Decision>;
    /// Work that has to end before decisions on a request with these header fields. Each request
    /// waits for it once.
    fn prepare(&self, headers: &HeaderMap) -> Option<PrepareFuture>;
}

/// Allows every client to read, and to write unless the server is read-only.
#[derive(Debug, Clone, Copy)]
pub struct AllowAll {
    /// True if clients may write.
    pub write: bool,
}

impl Authorizer for AllowAll {
    fn decide(&self, asking: &AccessRequest<'_>) -> Decision {
        if asking.action == Action::Read || self.write {
            return Decision::Allowed;
        }
        Decision::Refused {
            status: StatusCode::FORBIDDEN,
            reason: "this server is read-only; --write or `write = true` enables writing"
                .to_owned(),
            challenge: None,
        }
    }

    fn writes(&self) -> bool {
        self.write
    }

    fn hides(&self) -> bool {
        false
    }

    fn name(&self, _: &AccessRequest<'_>) -> Result<String, Decision> {
        Ok(String::new())
    }

    fn prepare(&self, _: &HeaderMap) -> Option<PrepareFuture> {
        None
    }
}
