//! The configuration file of a client, in TOML.

use crate::client::mirrors::Mirror;
use crate::client::options::folder;
use hither_auth::Environment;
use hither_core::error::{Result, invalid_toml};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A configuration file that was read.
#[derive(Debug, Default)]
pub struct ConfigFile(pub(crate) Section);

/// A key of the configuration file.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct ConfigKey {
    /// The name, with that of its table.
    pub name: &'static str,
    /// A value in TOML.
    pub example: &'static str,
    /// The default in words.
    pub default: &'static str,
    /// The meaning in one sentence.
    pub meaning: &'static str,
}

const fn key(
    name: &'static str,
    example: &'static str,
    default: &'static str,
    meaning: &'static str,
) -> ConfigKey {
    ConfigKey { name, example, default, meaning }
}

impl ConfigFile {
    /// All keys.
    pub const KEYS: &[ConfigKey] = &[
        key("max_connections", "64", "64", "Maximum number of connections per server."),
        key(
            "store",
            "'/data/hither'",
            "hither in the cache folder",
            "Folder that remembers servers and files between runs; empty for none.",
        ),
        key(
            "staleness",
            "'30m'",
            "0",
            "Age up to which stored metadata is used without validation, as in 90s, 30m, 12h or 7d.",
        ),
        key(
            "disk_cache",
            "'20G'",
            "none",
            "Maximum size of the disk cache in bytes, as in 500M or 20G.",
        ),
        key("connect_timeout", "15.0", "15", "Time limit for opening a connection, in seconds."),
        key(
            "stall_timeout",
            "30.0",
            "30",
            "Time limit for a transfer without progress, in seconds; twice that until the first byte.",
        ),
        key(
            "verify",
            "'long'",
            "never",
            "Unencrypted root:// reads to verify with page checksums: never, long or always.",
        ),
        key(
            "headers",
            "{ 'X-Site' = 'T2' }",
            "none",
            "Header fields that are added to all HTTP requests.",
        ),
        key("proxy", "'http://proxy:3128'", "none", "Proxy for all servers."),
        key(
            "no_proxy",
            "'localhost,.example.org'",
            "none",
            "Hosts that are reached without a proxy.",
        ),
        key(
            "source_address",
            "['eth0', 'eth1']",
            "none",
            "Addresses or interfaces of this machine over which connections are spread evenly.",
        ),
        key(
            "mirror.prefix",
            "'http://host/data/'",
            "",
            "Beginning of the URLs that have replicas; `[[mirror]]` may be repeated.",
        ),
        key(
            "mirror.elsewhere",
            "['http://other/data/']",
            "",
            "Beginnings of the URLs of replicas, the best first.",
        ),
        key(
            "credentials.token_file",
            "'/home/me/token'",
            "discovered",
            "File with a bearer token.",
        ),
        key(
            "credentials.token_command",
            "'oidc-token prod'",
            "none",
            "Command that prints a bearer token.",
        ),
        key("credentials.cert", "'/home/me/cert.pem'", "discovered", "Client certificate, PEM."),
        key(
            "credentials.key",
            "'/home/me/key.pem'",
            "the certificate's file",
            "Key of the certificate, PEM, not encrypted.",
        ),
        key("credentials.proxy_cert", "'/tmp/x509up_u1000'", "discovered", "X.509 proxy, PEM."),
        key("credentials.ca", "'/etc/ca.pem'", "none", "Further certificate authorities, PEM."),
        key(
            "credentials.ca_dir",
            "'/etc/grid-security/certificates'",
            "discovered",
            "Folder of certificate authorities.",
        ),
        key(
            "credentials.share",
            "['*.example.org']",
            "none",
            "Hosts to which credentials may follow a redirect.",
        ),
        key(
            "credentials.over_http",
            "false",
            "false",
            "Send credentials unencrypted over http:// to other machines.",
        ),
    ];

    /// Reads the text of a configuration file.
    ///
    /// # Errors
    ///
    /// [`hither_core::ErrorKind::Invalid`] with line and column, for text that is not TOML,
    /// for unknown keys and for values of the wrong type. It repeats no value: it may be secret.
    pub fn parse(text: &str) -> Result<Self> {
        let parsed = toml::from_str(text).map(Self);
        parsed.map_err(|error: toml::de::Error| invalid_toml(text, error.span(), error.message()))
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
    pub(crate) max_connections: Option<u16>,
    /// The folder of the store; the empty string for none.
    pub(crate) store: Option<PathBuf>,
    /// The age up to which stored metadata is used without validation, as text such as "30m".
    pub(crate) staleness: Option<String>,
    /// The largest size of the disk cache, as text such as "20G".
    pub(crate) disk_cache: Option<String>,
    /// The time limit for opening a connection, in seconds.
    pub(crate) connect_timeout: Option<f64>,
    /// The time limit for a transfer without progress, in seconds.
    pub(crate) stall_timeout: Option<f64>,
    /// The unencrypted root:// reads that are verified with page checksums, as text such as
    /// "always".
    pub(crate) verify: Option<String>,
    /// Header fields that are added to all HTTP requests.
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, String>,
    /// Replicas.
    #[serde(default)]
    pub(crate) mirror: Vec<MirrorSection>,
    /// The proxy for all servers.
    pub(crate) proxy: Option<String>,
    /// Hosts that are reached without a proxy, separated by commas.
    pub(crate) no_proxy: Option<String>,
    /// Addresses or interfaces over which connections are spread.
    #[serde(default)]
    pub(crate) source_address: Vec<String>,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::options::ClientOptions;
    use std::collections::BTreeSet;

    /// The keys of a table that `serde` names in its error about an unknown one.
    fn expected(table: &str) -> BTreeSet<String> {
        let error = ConfigFile::parse(&format!("{table}\nunknown = 1\n")).unwrap_err().to_string();
        let names =
            error.split("expected one of").nth(1).or_else(|| error.split("expected ").nth(1));
        names.unwrap().split('`').skip(1).step_by(2).map(str::to_owned).collect()
    }

    #[test]
    fn every_key_is_listed_and_its_example_is_valid() {
        let of = |table: &str| -> BTreeSet<String> {
            let names = ConfigFile::KEYS.iter().map(|key| key.name);
            let names = names.filter_map(|name| match name.split_once('.') {
                Some((its, name)) => (its == table).then_some(name),
                None => table.is_empty().then_some(name),
            });
            names.map(str::to_owned).collect()
        };
        let tables = ["mirror", "credentials"].map(str::to_owned);
        let top: BTreeSet<_> = of("").into_iter().chain(tables).collect();
        assert_eq!(top, expected(""));
        assert_eq!(of("mirror"), expected("[[mirror]]"));
        assert_eq!(of("credentials"), expected("[credentials]"));
        let mut text = String::new();
        let mut table = "";
        for key in ConfigFile::KEYS {
            let (its, name) = key.name.split_once('.').unwrap_or(("", key.name));
            if its != table {
                text += if its == "mirror" { "[[mirror]]\n" } else { "[credentials]\n" };
                table = its;
            }
            text += &format!("{name} = {}\n", key.example);
        }
        ConfigFile::parse(&text).unwrap();
    }

    #[test]
    fn the_listed_defaults_are_those_of_the_client() {
        let config = |text: &str| {
            let file = ConfigFile::parse(text).unwrap();
            let config = ClientOptions::default().into_config(&Environment::new(1), file);
            format!("{:?}", config.unwrap())
        };
        let mut compared = 0;
        for key in ConfigFile::KEYS {
            // The others are words for what happens without the key.
            let is_value =
                key.default.parse::<f64>().is_ok() || ["never", "false"].contains(&key.default);
            if is_value {
                let quote = if key.example.starts_with('\'') { "'" } else { "" };
                let text = format!("{} = {quote}{}{quote}", key.name, key.default);
                assert_eq!(config(&text), config(""), "{text}");
                compared += 1;
            }
        }
        assert_eq!(compared, 6);
    }
}
