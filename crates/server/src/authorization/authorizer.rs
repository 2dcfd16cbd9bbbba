//! Who may do what: the one place in the way of a request where that is decided.
//!
//! Every request passes [`Authorizer::decide`] once for each name that it touches, before anything of that name is looked
//! at. What proves who is asking (tokens, certificates of clients) comes in with [`AccessRequest`]; a decision says yes, or how to
//! refuse.

use http::{HeaderMap, StatusCode};
use std::fmt::Debug;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

/// What somebody wants to do with a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// Read a file, its properties, or the names in a directory.
    Read,
    /// Make what is not there.
    Create,
    /// Change, replace, move or remove what is there.
    Modify,
}

/// Who asks for what.
#[derive(Debug, Clone, Copy)]
pub struct AccessRequest<'a> {
    /// What is to be done.
    pub action: Action,
    /// With which name: its path below the root, decoded, components parted by single slashes, none at the ends.
    pub path: &'a str,
    /// The header of the request.
    pub headers: &'a HeaderMap,
    /// The other end of the connection.
    pub peer: SocketAddr,
    /// Whether the connection is TLS.
    pub is_secure: bool,
    /// The distinguished name of the client's certificate, if it has shown one and that was verified.
    pub certificate: Option<&'a Arc<str>>,
}

/// What has to be waited for before a decision.
pub type PrepareFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Whether it may be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It may.
    Allowed,
    /// It may not.
    Refused {
        /// 401 or 403.
        status: StatusCode,
        /// Why, for the one who asked.
        reason: String,
        /// The value of `WWW-Authenticate`, if another proof might help.
        challenge: Option<String>,
    },
}

/// Decides who may do what.
pub trait Authorizer: Send + Sync + Debug {
    /// Whether that may be done.
    fn decide(&self, asking: &AccessRequest<'_>) -> Decision;
    /// Whether anything may be written by anybody: what OPTIONS says.
    fn writes(&self) -> bool;
    /// Whether anybody who may read a directory may perhaps not read all that is below it: then each name in a listing is
    /// decided on by itself.
    fn hides(&self) -> bool;
    /// What to call whoever asks, where something is theirs and in the access log; the action and the path are of no matter.
    ///
    /// # Errors
    /// The decision for who has no name.
    fn name(&self, asking: &AccessRequest<'_>) -> Result<String, Decision>;
    /// What has to be waited for before decisions about a request with this header: each request does so once.
    fn prepare(&self, headers: &HeaderMap) -> Option<PrepareFuture>;
}

/// Everybody may read, and write if that is allowed at all.
#[derive(Debug, Clone, Copy)]
pub struct AllowAll {
    /// Whether that is so.
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
