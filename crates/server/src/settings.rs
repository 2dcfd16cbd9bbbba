//! The settings of a server, as its TOML file has them.

pub(crate) mod live;
pub(crate) mod reload;
use crate::authorization::settings::AuthSettings;
use crate::backend::tape::settings::TapeSettings;
use crate::connection::socket_options::NetworkSettings;
use crate::lots::settings::LotSettings;
use crate::referral::replica_map::{ReplicaMap, ReplicaSettings};
use crate::third_party::settings::ThirdPartySettings;
use hither_core::error::{Error, ErrorKind, Result, invalid_toml};
use serde::Deserialize;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// The default port.
const DEFAULT_PORT: u16 = 8080;

/// The settings of a server. By default it listens on loopback and is read-only, for every client.
///
/// The configuration file is TOML with the same names; `docs/reference/server-configuration.md`
/// lists all of them:
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
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Settings {
    /// The directory to serve; the argument of the command replaces it.
    #[serde(default)]
    pub root: PathBuf,
    /// Addresses and ports to listen on; port 0 takes a free port.
    #[serde(default = "loopback")]
    pub listen: Vec<SocketAddr>,
    /// Names of this server, beside `localhost`. Without `[auth]`, requests from this machine to a
    /// host that is neither one of them nor a loopback address are refused with 421: a web page
    /// could have made a browser send them. The same holds for `metrics`, with or without `[auth]`.
    #[serde(default)]
    pub names: Vec<String>,
    /// Allows clients to write, move and remove files.
    #[serde(default)]
    pub write: bool,
    /// Allows `write` without `[auth]` at addresses other than loopback: everybody who can reach
    /// one of them may then change the files.
    #[serde(default)]
    pub anonymous_write: bool,
    /// Reads through symbolic links that stay below `root`, where the client may also read what
    /// they lead to. By default only without `[auth]`. Nothing is ever written through a link.
    #[serde(default)]
    pub links: Option<bool>,
    /// Makes every change durable before its response: a file that was put, copied, moved or
    /// created then survives a loss of power. It costs a wait for the disk for each file.
    #[serde(default = "yes")]
    pub durable: bool,
    /// The certificate of the server; without it the server speaks plain HTTP.
    #[serde(default)]
    pub tls: Option<TlsFiles>,
    /// The file of the access log; `-` is the standard error.
    #[serde(default)]
    pub access_log: Option<PathBuf>,
    /// The address and port for metrics, health and the status page, over plain HTTP and without
    /// authentication.
    #[serde(default)]
    pub metrics: Option<SocketAddr>,
    /// Confines the process of `hither serve` to the folders that the settings name, and to the
    /// system calls that it needs, where the kernel can do that (Landlock, seccomp).
    #[serde(default = "yes")]
    pub sandbox: bool,
    /// Socket options of connections.
    #[serde(default)]
    pub network: NetworkSettings,
    /// Limits.
    #[serde(default)]
    pub limits: ServerLimits,
    /// Authorization. Without it every client may read, and write if `write` is set.
    #[serde(default)]
    pub auth: Option<AuthSettings>,
    /// Space reservations.
    #[serde(default)]
    pub lots: Option<LotSettings>,
    /// Replicas of folders on other servers.
    #[serde(default)]
    pub replicas: Vec<ReplicaSettings>,
    /// Third-party copies.
    #[serde(default)]
    pub third_party: Option<ThirdPartySettings>,
    /// Files on tape.
    #[serde(default)]
    pub tape: Option<TapeSettings>,
}

/// The files of a certificate and its key, in PEM. The server reads them again when they change.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(deny_unknown_fields)]
pub struct TlsFiles {
    /// The certificate, followed by the intermediate ones.
    pub certificate: PathBuf,
    /// The private key of the certificate.
    pub key: PathBuf,
}

/// The limits of a server.
///
/// In the worst case a server holds `memory_bytes`, and for each connection a list of `ranges` and
/// the buffers of TLS.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ServerLimits {
    /// Maximum number of connections. If there are more, those that are idle longest are closed; if
    /// none is idle, further ones wait.
    pub connections: usize,
    /// Maximum number of connections of one address (IPv4, or an IPv6 network of 64 bits). If there
    /// are more, those that are idle longest are closed; if none is idle, further ones are refused.
    pub connections_per_address: usize,
    /// Maximum size of a request's header, in bytes.
    pub header_bytes: usize,
    /// Maximum number of ranges in a request.
    pub ranges: usize,
    /// Maximum size of a file that a client puts, in bytes; by default as much as fits on the disk.
    pub file_bytes: Option<u64>,
    /// Maximum size of an XML body, in bytes.
    pub document_bytes: usize,
    /// Maximum number of entries in a listing.
    pub names: usize,
    /// Allows PROPFIND of a whole tree (`Depth: infinity`, also the default of a request without
    /// `Depth`), up to `names` entries.
    pub infinite_depth: bool,
    /// Maximum of file data, names in listings and incomplete headers in memory, in bytes. A client
    /// address gets a quarter of it, and less if others need some.
    pub memory_bytes: usize,
    /// Size of the blocks that are read from disk, in bytes; a response holds two of them. While
    /// memory is scarce, blocks have 16 KiB.
    pub block_bytes: usize,
    /// Number of threads that read and write files.
    pub disk_threads: usize,
    /// Disk space that is free for uploads below which a writable server reports itself unhealthy,
    /// in bytes.
    pub free_bytes: u64,
    /// Disk space that uploads leave free, in bytes; by default 1 % of the file system, at most
    /// 1 GiB. It does not apply to files in a lot.
    pub min_free_bytes: Option<u64>,
    /// Seconds that a connection may be idle, or take to send a header.
    pub idle_seconds: f64,
    /// Seconds without progress after which a request or response is ended.
    pub stall_seconds: f64,
    /// Minimum rate of a body in either direction while the server waits for the client, in bytes
    /// per second, in each minute of waiting.
    pub min_rate: u64,
    /// Maximum number of partial files of one client.
    pub unfinished_files: usize,
    /// Maximum of the sizes of a client's partial files together, in bytes; by default as much as
    /// fits on the disk.
    pub unfinished_bytes: Option<u64>,
    /// Age in seconds at which a partial file that nobody continues is removed; 6 hours if that is
    /// less and 90 % of the disk is used.
    pub unfinished_seconds: f64,
    /// Seconds that running requests get when the server stops.
    pub stop_seconds: f64,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            connections: 16_384,
            connections_per_address: 4_096,
            header_bytes: 64 << 10,
            ranges: 20_000,
            file_bytes: None,
            document_bytes: 1 << 20,
            names: 100_000,
            infinite_depth: false,
            memory_bytes: 512 << 20,
            block_bytes: 256 << 10,
            disk_threads: 32,
            free_bytes: 64 << 20,
            min_free_bytes: None,
            idle_seconds: 120.0,
            stall_seconds: 60.0,
            min_rate: 100,
            unfinished_files: 1000,
            unfinished_bytes: None,
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
            names: Vec::new(),
            write: false,
            anonymous_write: false,
            links: None,
            durable: true,
            tls: None,
            access_log: None,
            metrics: None,
            sandbox: true,
            network: NetworkSettings::default(),
            limits: ServerLimits::default(),
            auth: None,
            lots: None,
            replicas: Vec::new(),
            third_party: None,
            tape: None,
        }
    }

    /// Reads a configuration file.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`], saying which line.
    pub fn from_toml(text: &str) -> Result<Self> {
        toml::from_str(text)
            .map_err(|error: toml::de::Error| invalid_toml(text, error.span(), error.message()))
    }

    /// The first address to listen on that other machines may reach.
    fn exposed(&self) -> Option<&SocketAddr> {
        self.listen.iter().find(|address| !address.ip().to_canonical().is_loopback())
    }

    /// Fails for settings that are dangerous and not confirmed by another setting. A server with
    /// `has_authorizer` does not decide by its settings.
    pub(crate) fn check_exposure(&self, has_authorizer: bool) -> Result<()> {
        let Some(address) = self.exposed().filter(|_| !has_authorizer) else { return Ok(()) };
        match &self.auth {
            None if self.write && !self.anonymous_write => Err(invalid(format!(
                "without [auth], everybody who can reach {address} could change files: add [auth], \
                 listen on 127.0.0.1, or set `anonymous_write = true`"
            ))),
            Some(auth) if !auth.issuers.is_empty() && self.tls.is_none() && !auth.clear_text => {
                Err(invalid(format!(
                    "without [tls], everybody on the way to {address} could read the tokens of \
                     clients: add [tls], listen on 127.0.0.1, or set `clear_text = true` in [auth]"
                )))
            }
            _ => Ok(()),
        }
    }

    /// Warnings about settings, with the reason.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let has_certificates = self.auth.as_ref().is_some_and(|auth| !auth.certificates.is_empty());
        if has_certificates && self.tls.is_none() {
            warnings.push("auth.certificates has no effect without [tls]".to_owned());
        }
        if let Some(address) = self.exposed() {
            if self.write && self.auth.is_none() && self.anonymous_write {
                warnings.push(format!(
                    "anonymous_write: everybody who can reach {address} can change files"
                ));
            }
            let reads_tokens = self.auth.as_ref().is_some_and(|auth| !auth.issuers.is_empty());
            if reads_tokens && self.tls.is_none() {
                warnings.push(format!(
                    "auth.clear_text: everybody on the way to {address} can read tokens"
                ));
            }
        }
        if let Some(address) = self.metrics.filter(|it| !it.ip().to_canonical().is_loopback()) {
            warnings.push(format!(
                "metrics: everybody who can reach {address} sees names of files and people"
            ));
        }
        if self.third_party.as_ref().is_some_and(|third_party| third_party.clear_text) {
            warnings.push(
                "third_party.clear_text: copies and their tokens may be sent unencrypted"
                    .to_owned(),
            );
        }
        warnings
    }

    /// Fails for invalid values.
    pub(crate) fn check(&self) -> Result<()> {
        let limits = &self.limits;
        let counts = [
            ("connections", limits.connections, 1),
            ("connections_per_address", limits.connections_per_address, 1),
            ("header_bytes", limits.header_bytes, 8 << 10),
            ("ranges", limits.ranges, 1),
            ("document_bytes", limits.document_bytes, 1 << 10),
            ("names", limits.names, 1),
            ("block_bytes", limits.block_bytes, 4 << 10),
            ("memory_bytes", limits.memory_bytes, limits.block_bytes.saturating_mul(4)),
            ("disk_threads", limits.disk_threads, 1),
            ("unfinished_files", limits.unfinished_files, 1),
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
        if let Some(tape) = &self.tape {
            tape.check()?;
        }
        self.network.check()?;
        if self.listen.is_empty() {
            Err(invalid("listen is empty, expected at least one address".to_owned()))
        } else {
            Ok(())
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
mod tests;
