//! What a server is told: the tree, where to listen, and how much anybody may take.

pub(crate) mod live;
pub(crate) mod reload;
use crate::authorization::settings::AuthSettings;
use crate::connection::socket_options::NetworkSettings;
use crate::lots::settings::LotSettings;
use crate::replica_map::{ReplicaMap, ReplicaSettings};
use crate::third_party::settings::ThirdPartySettings;
use hither_core::error::{Error, ErrorKind, Result};
use serde::Deserialize;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// Where a server listens unless it is told otherwise.
const DEFAULT_PORT: u16 = 8080;

/// How to serve a tree. By default: on loopback, for reading alone, to everybody who can reach it.
///
/// As a file it is TOML with the same names:
///
/// ```
/// use hither_server::Settings;
///
/// let text = r#"
///     root = "/data"
///     listen = ["0.0.0.0:443", "[::]:443"]
///     write = true
///     access_log = "/var/log/hither/access.json"
///     [tls]
///     certificate = "/etc/hither/host.pem"
///     key = "/etc/hither/host.key"
///     [limits]
///     ranges = 50000
/// "#;
/// let settings = Settings::from_toml(text)?;
/// assert_eq!((settings.listen.len(), settings.limits.ranges), (2, 50_000));
/// # Ok::<(), hither_core::Error>(())
/// ```
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Settings {
    /// The directory that is served.
    #[serde(default)]
    pub root: PathBuf,
    /// Addresses and ports to listen at; port 0 takes one that is free.
    #[serde(default = "loopback")]
    pub listen: Vec<SocketAddr>,
    /// Whether files may be written, moved and removed.
    #[serde(default)]
    pub write: bool,
    /// Whether what is put, copied, moved or made is on the disk before the client is told that it is: then it outlasts a
    /// loss of power. Yes if not said; it costs a wait for the disk with each file.
    #[serde(default = "yes")]
    pub durable: bool,
    /// The certificate to show; without one, it is plain HTTP.
    #[serde(default)]
    pub tls: Option<TlsFiles>,
    /// A file for the access log, `-` for the standard error; no log if there is none.
    #[serde(default)]
    pub access_log: Option<PathBuf>,
    /// An address and port for metrics, health and a status page, over plain HTTP and for everybody who can reach it; none
    /// if it is not said.
    #[serde(default)]
    pub metrics: Option<SocketAddr>,
    /// How connections send.
    #[serde(default)]
    pub network: NetworkSettings,
    /// Bounds.
    #[serde(default)]
    pub limits: ServerLimits,
    /// Who may do what. Without it everybody who can reach the server may read, and write if `write` says so.
    #[serde(default)]
    pub auth: Option<AuthSettings>,
    /// Whether space may be reserved.
    #[serde(default)]
    pub lots: Option<LotSettings>,
    /// Where else files are.
    #[serde(default)]
    pub replicas: Vec<ReplicaSettings>,
    /// Whether files are copied from and to other servers.
    #[serde(default)]
    pub third_party: Option<ThirdPartySettings>,
}

/// A certificate and its key, in PEM. Files that change are read again.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsFiles {
    /// The certificate, and those between it and the authority.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// How much anybody may take. What all of them take together is bounded by connections and memory.
///
/// In the worst case a server holds `memory_bytes`, and for each connection a header of `header_bytes` that is arriving and
/// the same again of a list of ranges.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ServerLimits {
    /// Connections at a time; further ones wait.
    pub connections: usize,
    /// Most bytes of the header of a request.
    pub header_bytes: usize,
    /// Most ranges in a request.
    pub ranges: usize,
    /// Most bytes of a file that is put; none if there is no bound.
    pub file_bytes: Option<u64>,
    /// Most bytes of a body of XML.
    pub document_bytes: usize,
    /// Most names in an answer to PROPFIND or on a page.
    pub names: usize,
    /// Bytes of file data that may be in memory at a time, on their way from disk or from the network.
    pub memory_bytes: usize,
    /// Bytes that are read from disk at a time for one answer; twice as many are held for it.
    pub block_bytes: usize,
    /// Threads that read and write.
    pub disk_threads: usize,
    /// Bytes that have to be free for a server that writes to call itself healthy.
    pub free_bytes: u64,
    /// Seconds that a connection may be idle, or take to send a header.
    pub idle_seconds: f64,
    /// Seconds without any progress amid a request or an answer.
    pub stall_seconds: f64,
    /// Bytes a second that a body or an answer must come to while it is the client's turn, after the first minute of that.
    pub min_rate: u64,
    /// Seconds after which parts of an upload that nobody goes on with are removed.
    pub unfinished_seconds: f64,
    /// Seconds that what is under way may take when the server is told to stop.
    pub stop_seconds: f64,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            connections: 16_384,
            header_bytes: 1 << 20,
            ranges: 20_000,
            file_bytes: None,
            document_bytes: 1 << 20,
            names: 100_000,
            memory_bytes: 512 << 20,
            block_bytes: 256 << 10,
            disk_threads: 32,
            free_bytes: 64 << 20,
            idle_seconds: 120.0,
            stall_seconds: 60.0,
            min_rate: 100,
            unfinished_seconds: 7.0 * 24.0 * 3_600.0,
            stop_seconds: 10.0,
        }
    }
}

fn yes() -> bool {
    true
}

fn loopback() -> Vec<SocketAddr> {
    vec![SocketAddr::from((Ipv4Addr::LOCALHOST, DEFAULT_PORT))]
}

impl Settings {
    /// The defaults for a tree.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self {
            root: root.into(),
            listen: loopback(),
            write: false,
            durable: true,
            tls: None,
            access_log: None,
            metrics: None,
            network: NetworkSettings::default(),
            limits: ServerLimits::default(),
            auth: None,
            lots: None,
            replicas: Vec::new(),
            third_party: None,
        }
    }

    /// Reads a configuration file.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`], saying which line.
    pub fn from_toml(text: &str) -> Result<Self> {
        toml::from_str(text).map_err(|error| Error::new(ErrorKind::Invalid, error.to_string()))
    }

    /// Fails for values that make no sense.
    pub(crate) fn check(&self) -> Result<()> {
        let limits = &self.limits;
        let counts = [
            ("connections", limits.connections, 1),
            ("header_bytes", limits.header_bytes, 8 << 10),
            ("ranges", limits.ranges, 1),
            ("document_bytes", limits.document_bytes, 1 << 10),
            ("names", limits.names, 1),
            ("block_bytes", limits.block_bytes, 4 << 10),
            ("memory_bytes", limits.memory_bytes, limits.block_bytes.saturating_mul(4)),
            ("disk_threads", limits.disk_threads, 1),
        ];
        for (name, value, least) in counts {
            if value < least {
                return Err(invalid(format!(
                    "limits.{name} is {value}, expected at least {least}"
                )));
            }
        }
        if limits.block_bytes > hither_http::vector::MAX_FRAME_BYTES as usize {
            return Err(invalid("limits.block_bytes is more than the maximum of 1 MiB".to_owned()));
        }
        for (name, seconds) in [
            ("idle_seconds", limits.idle_seconds),
            ("stall_seconds", limits.stall_seconds),
            ("unfinished_seconds", limits.unfinished_seconds),
            ("stop_seconds", limits.stop_seconds),
        ] {
            if !(0.001..1e9).contains(&seconds) {
                return Err(invalid(format!(
                    "limits.{name} is {seconds}, expected 0.001 to 1e9 seconds"
                )));
            }
        }
        ReplicaMap::new(&self.replicas)?;
        if let Some(third_party) = &self.third_party {
            third_party.check()?;
        }
        self.network.check()?;
        match self.listen.is_empty() {
            true => Err(invalid("listen is empty, expected at least one address".to_owned())),
            false => Ok(()),
        }
    }
}

fn invalid(what: String) -> Error {
    Error::new(ErrorKind::Invalid, what)
}

impl ServerLimits {
    pub(crate) fn idle(&self) -> Duration {
        Duration::from_secs_f64(self.idle_seconds)
    }

    pub(crate) fn stall(&self) -> Duration {
        Duration::from_secs_f64(self.stall_seconds)
    }

    pub(crate) fn unfinished(&self) -> Duration {
        Duration::from_secs_f64(self.unfinished_seconds)
    }

    pub(crate) fn stop(&self) -> Duration {
        Duration::from_secs_f64(self.stop_seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_served_to_this_machine_for_reading() {
        let settings = Settings::new("/data");
        assert!(settings.listen.iter().all(|address| address.ip().is_loopback()));
        assert!(!settings.write && settings.tls.is_none());
        assert!(settings.check().is_ok());
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_name() {
        for (text, named) in [
            ("lissten = []", "lissten"),
            ("[limits]\nranges = -1", "ranges"),
            ("[limits]\nrange = 1", "range"),
            ("[tls]\nkey = 'k'", "certificate"),
        ] {
            let error = Settings::from_toml(text).unwrap_err();
            assert!(error.to_string().contains(named), "{error}");
        }
        for (text, named) in [
            ("listen = []", "listen"),
            ("[limits]\nranges = 0", "ranges"),
            ("[limits]\nmemory_bytes = 1000", "memory_bytes"),
            ("[limits]\nblock_bytes = 2000000", "block_bytes"),
            ("[limits]\nstall_seconds = nan", "stall_seconds"),
        ] {
            let error = Settings::from_toml(text).unwrap().check().unwrap_err();
            assert!(error.to_string().contains(named), "{error}");
        }
    }
}
