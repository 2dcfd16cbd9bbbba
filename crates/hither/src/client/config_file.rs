//! The configuration file of a client, in TOML.

use crate::client::mirrors::Mirror;
use crate::client::options::folder;
use hither_auth::Environment;
use hither_core::error::{Error, ErrorKind, Result};
use serde::Deserialize;
use std::path::PathBuf;

/// A configuration file that was read.
#[derive(Debug, Default)]
pub struct ConfigFile(pub(crate) Section);

impl ConfigFile {
    /// Reads the text of a configuration file.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] with line and column, for text that is not TOML, for unknown keys and
    /// for values of the wrong type.
    pub fn parse(text: &str) -> Result<Self> {
        let parsed = toml::from_str(text).map(Self);
        parsed.map_err(|error| Error::new(ErrorKind::Invalid, error.to_string()))
    }

    /// The path of the user's own configuration file.
    #[must_use]
    pub fn default_path(environment: &Environment) -> Option<PathBuf> {
        folder(environment, "XDG_CONFIG_HOME", ".config")
            .map(|folder| folder.join("hither/config.toml"))
    }
}

/// The keys at the top of the file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Section {
    /// The largest number of connections to one server.
    pub(crate) connections: Option<u16>,
    /// The folder of the store; the empty string for none.
    pub(crate) store: Option<PathBuf>,
    /// How long stored metadata is used without validation, as text such as "30m".
    pub(crate) staleness: Option<String>,
    /// The largest size of the disk cache, as text such as "20G".
    pub(crate) disk_cache: Option<String>,
    /// The time limit for opening a connection, in seconds.
    pub(crate) connect_timeout: Option<f64>,
    /// The time limit for a transfer without progress, in seconds.
    pub(crate) stall_timeout: Option<f64>,
    /// Which unencrypted root:// reads are verified with page checksums, as text such as "always".
    pub(crate) verify: Option<String>,
    /// Replicas.
    #[serde(default)]
    pub(crate) mirror: Vec<MirrorSection>,
    /// The proxy for all servers.
    pub(crate) proxy: Option<String>,
    /// Hosts that are reached without a proxy, separated by commas.
    pub(crate) no_proxy: Option<String>,
    /// Credentials.
    #[serde(default)]
    pub(crate) credentials: CredentialSection,
}

/// `[[mirror]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MirrorSection {
    prefix: String,
    elsewhere: Vec<String>,
}

impl From<MirrorSection> for Mirror {
    fn from(section: MirrorSection) -> Self {
        Self { prefix: section.prefix, elsewhere: section.elsewhere }
    }
}

/// `[credentials]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CredentialSection {
    /// A file with a token.
    pub(crate) token_file: Option<PathBuf>,
    /// A command that prints a token.
    pub(crate) token_command: Option<String>,
    /// A client certificate.
    pub(crate) cert: Option<PathBuf>,
    /// The key of the certificate.
    pub(crate) key: Option<PathBuf>,
    /// An X.509 proxy.
    pub(crate) proxy_cert: Option<PathBuf>,
    /// Further certificate authorities.
    pub(crate) ca: Option<PathBuf>,
    /// A folder of certificate authorities.
    pub(crate) ca_dir: Option<PathBuf>,
    /// Hosts to which credentials may follow a redirect.
    #[serde(default)]
    pub(crate) share: Vec<String>,
    /// Send credentials over http:// to other machines too.
    #[serde(default)]
    pub(crate) over_http: bool,
}
