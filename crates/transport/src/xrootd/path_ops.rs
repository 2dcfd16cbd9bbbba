//! Operations on paths that only XRootD has: locating replicas, staging from tape, permissions,
//! extended attributes.

use crate::location::Location;
use crate::network::Network;
use crate::xrootd::job::Operation;
use crate::xrootd::request::ask;
use hither_auth::Action;
use hither_core::error::{Error, ErrorKind, Result};
use hither_xrd::client::Completion;
use hither_xrd::wire::locate;
use hither_xrd::wire::{self, LocateEntryKind, PrepareRequest, Request, prepare};
use std::collections::HashSet;
use std::sync::Arc;

/// The maximum number of managers that are asked about one file, in a cluster of clusters.
const MAX_MANAGERS: usize = 64;
/// The highest priority of a request to stage files.
const HIGHEST_PRIORITY: u8 = 3;

/// A path on an XRootD server.
#[derive(Debug, Clone)]
pub struct XrootdPath {
    location: Location,
    network: Arc<Network>,
}

/// A server that has a replica of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReplicaServer {
    /// Its URL, without the path.
    pub server: String,
    /// The replica is writable.
    pub writable: bool,
    /// The replica is still being fetched, from tape or another server.
    pub pending: bool,
}

/// An action on files that may be on tape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PrepareAction {
    /// Fetches them to disk, to be read.
    Stage {
        /// The priority, from 0 to 3, the highest. Larger values count as 3.
        priority: u8,
    },
    /// Releases them: they need not stay on disk.
    Evict,
}

/// An extended attribute of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExtendedAttribute {
    /// The name.
    pub name: String,
    /// The value, any bytes.
    pub value: Vec<u8>,
}

impl XrootdPath {
    /// The path at `location`. Nothing is requested yet.
    #[must_use]
    pub fn new(location: Location, network: Arc<Network>) -> Self {
        Self { location, network }
    }

    /// Asks the server of this path.
    pub(super) async fn request_here(
        &self,
        action: Action,
        make: impl Fn(String) -> Request + Send + Sync,
    ) -> Result<Completion> {
        self.ask(&self.location, action, make).await
    }

    /// Another path on the same server, from its root.
    pub(super) fn beside(&self, path: &str) -> Self {
        Self { location: self.location.root().below(path, false), ..self.clone() }
    }

    /// The path as the server writes it.
    pub(super) fn plain_path(&self) -> String {
        self.location.plain_path()
    }

    async fn ask(
        &self,
        location: &Location,
        action: Action,
        make: impl Fn(String) -> Request + Send + Sync,
    ) -> Result<Completion> {
        let make = move |path| Operation::Request(make(path));
        Ok(ask(&self.network, location, action, make).await?.answered.reply)
    }

    fn unexpected(&self, request: &str) -> Error {
        let what =
            format!("{}: the server sent an unexpected response to {request}", self.location);
        Error::new(ErrorKind::Protocol, what)
    }

    /// The servers that have the file, in the order of the response. Managers among them are asked,
    /// too.
    ///
    /// # Errors
    ///
    /// The errors of servers, such as [`ErrorKind::NotFound`] where none has the file, and of
    /// connections.
    pub async fn locate(&self) -> Result<Vec<ReplicaServer>> {
        let mut waiting = vec![self.location.clone()];
        let mut managers = HashSet::new();
        let mut seen = HashSet::new();
        let mut holders = Vec::new();
        while let Some(manager) = waiting.pop() {
            if managers.len() >= MAX_MANAGERS || !managers.insert(manager.origin()) {
                continue;
            }
            let request = |path| Request::Locate { path, options: locate::NAMES };
            let reply = self.ask(&manager, Action::Read, request).await;
            let found = match reply {
                Ok(Completion::Locations(found)) => found,
                Ok(_) => return Err(self.unexpected("locate")),
                // One of several managers may not know the file; the manager that the user named
                // has to.
                Err(error) if managers.len() > 1 && error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            for place in found {
                let location = self.at(&place.address)?;
                match place.kind {
                    LocateEntryKind::Manager | LocateEntryKind::PendingManager => {
                        waiting.push(location)
                    }
                    LocateEntryKind::Server | LocateEntryKind::PendingServer => {
                        let server = location.origin();
                        if seen.insert(server.clone()) {
                            let pending = place.kind == LocateEntryKind::PendingServer;
                            holders.push(ReplicaServer {
                                server,
                                writable: place.writable,
                                pending,
                            });
                        }
                    }
                }
            }
        }
        Ok(holders)
    }

    /// The file on the server at `address`: `host:port`, or `[address]:port`, where an IPv4 address
    /// may be written as an IPv6 address.
    fn at(&self, address: &str) -> Result<Location> {
        let malformed = || {
            let what = format!("{}: {address:?} is not a server address", self.location);
            Error::new(ErrorKind::Protocol, what)
        };
        let (host, port) = address.rsplit_once(':').ok_or_else(malformed)?;
        let port = port.parse().map_err(|_| malformed())?;
        let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        // `[::10.0.0.1]` and `[::ffff:10.0.0.1]` stand for 10.0.0.1.
        let v4 = inner.and_then(|inner| inner.rsplit(':').next()).filter(|last| last.contains('.'));
        let credentials = &self.network.config().credentials;
        self.location.redirected_to_host(v4.unwrap_or(host), port, None, credentials)
    }

    /// Stages or releases this file and those at `further` paths of the same server. Returns
    /// immediately, with the request id that the server assigned.
    ///
    /// # Errors
    ///
    /// The errors of the server and of connections.
    pub async fn prepare(&self, further: &[String], how: PrepareAction) -> Result<String> {
        let (options, more_options, priority) = match how {
            PrepareAction::Stage { priority } => (prepare::STAGE | prepare::NO_ERRORS, 0, priority),
            PrepareAction::Evict => (0, prepare::EVICT, 0),
        };
        let request = |path: String| {
            let words = path.split_once('?').map(|(_, words)| words.to_owned());
            let others = further.iter().map(|path| match &words {
                Some(words) => format!("/{path}?{words}"),
                None => format!("/{path}"),
            });
            let paths = std::iter::once(path).chain(others).collect();
            let priority = priority.min(HIGHEST_PRIORITY);
            Request::Prepare(PrepareRequest { options, priority, port: 0, more_options, paths })
        };
        match self.ask(&self.location, Action::Read, request).await? {
            Completion::Text(text) => {
                let text = String::from_utf8_lossy(&text);
                Ok(text.trim_end_matches(['\0', '\n']).to_owned())
            }
            Completion::Nothing => Ok(String::new()),
            _ => Err(self.unexpected("prepare")),
        }
    }

    /// Changes the permissions of a file or directory: nine bits, as in `0o640`.
    ///
    /// # Errors
    ///
    /// The errors of the server and of connections.
    pub async fn change_mode(&self, mode: u16) -> Result<()> {
        let request = |path| Request::ChangeMode { path, mode };
        self.ask(&self.location, Action::Modify, request).await.map(drop)
    }

    /// The extended attributes of a file; none on servers without support for them.
    ///
    /// # Errors
    ///
    /// The errors of the server and of connections.
    pub async fn attributes(&self) -> Result<Vec<ExtendedAttribute>> {
        match self.ask(&self.location, Action::Read, Request::ListAttributes).await {
            Ok(Completion::Attributes(found)) => {
                let attribute = |wire::Attribute { name, value }| ExtendedAttribute {
                    name,
                    value: value.to_vec(),
                };
                Ok(found.into_iter().map(attribute).collect())
            }
            Ok(_) => Err(self.unexpected("the request for attributes")),
            Err(error) if error.kind() == ErrorKind::Unsupported => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::TransportConfig;

    #[tokio::test]
    async fn addresses_of_servers_are_understood() {
        let network =
            Network::new(TransportConfig::default(), tokio::runtime::Handle::current(), None);
        let manager = Location::parse("root://manager//a/f").unwrap();
        let name = XrootdPath::new(manager, network);
        for (address, server) in [
            ("data.example:1095", "root://data.example:1095"),
            ("[::10.0.0.1]:1094", "root://10.0.0.1:1094"),
            ("[::ffff:10.0.0.1]:1094", "root://10.0.0.1:1094"),
            ("[2001:db8::1]:1094", "root://[2001:db8::1]:1094"),
        ] {
            assert_eq!(name.at(address).unwrap().origin(), server);
        }
        for address in ["nowhere", "host:port", "[::1]", "a/b:1"] {
            let refused = name.at(address).map(|place| place.origin());
            assert_eq!(refused.unwrap_err().kind(), ErrorKind::Protocol, "{address}");
        }
    }
}
