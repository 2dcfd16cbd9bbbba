//! Client options in layers: options of the caller, environment, configuration file, defaults.
//!
//! Nothing here reads the environment, a file or a terminal: the caller hands in what it has read.

use crate::client::config::{ClientConfig, DiskCacheConfig};
use crate::client::config_file::{ConfigFile, Section};
#[cfg(feature = "s3")]
use crate::client::credentials::s3;
use crate::client::credentials::{CredentialOptions, credentials};
use crate::client::memory::cache_config;
use crate::client::mirrors::Mirror;
use crate::client::proxies::proxies;
use hither_auth::Environment;
use hither_core::error::{Error, ErrorKind, Result};
use hither_transport::{PageChecksums, SourceAddress};
use std::path::PathBuf;
use std::time::Duration;

/// Options of a client, as a user gives them. An option that is absent is taken from the
/// environment, then from the configuration file, then from the defaults.
#[derive(Debug, Clone, Default)]
pub struct ClientOptions {
    /// The largest number of connections to one server.
    pub max_connections: Option<u16>,
    /// The folder that remembers servers and files between runs.
    pub store: Option<PathBuf>,
    /// Use no store, whatever the other layers say.
    pub no_store: bool,
    /// The largest size of the disk cache, in bytes; 0 for none.
    pub disk_cache: Option<u64>,
    /// The age up to which stored metadata is used without validation.
    pub staleness: Option<Duration>,
    /// The time limit for opening a connection, in seconds.
    pub connect_timeout: Option<f64>,
    /// The time limit for a transfer without progress, in seconds.
    pub stall_timeout: Option<f64>,
    /// The unencrypted root:// reads that are verified with page checksums.
    pub verify: Option<PageChecksums>,
    /// Replicas, before those of the configuration file.
    pub mirrors: Vec<Mirror>,
    /// Names and values of header fields that are added to all HTTP requests.
    pub headers: Vec<(String, String)>,
    /// The proxy for all servers; the empty string for none.
    pub proxy: Option<String>,
    /// The addresses or interfaces over which connections are spread evenly.
    pub source_addresses: Vec<SourceAddress>,
    /// Accept any server certificate.
    pub insecure: bool,
    /// The trace file to write. `%p` stands for the process number.
    pub trace: Option<PathBuf>,
    /// Credentials.
    pub credentials: CredentialOptions,
}

impl ClientOptions {
    /// The environment variables that the layers below the options read.
    pub const VARIABLES: [&str; 34] = [
        "HITHER_MAX_CONNECTIONS",
        "HITHER_STORE",
        "HITHER_STALENESS",
        "HITHER_SOURCE_ADDRESS",
        "HITHER_TRACE",
        "XDG_CONFIG_HOME",
        "XDG_CACHE_HOME",
        "USER",
        "LOGNAME",
        "AWS_ENDPOINT_URL_S3",
        "AWS_ENDPOINT_URL",
        "AWS_REGION",
        "AWS_DEFAULT_REGION",
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        // Those of `AwsProfileSource::VARIABLES`.
        "AWS_PROFILE",
        "AWS_SHARED_CREDENTIALS_FILE",
        "AWS_CONFIG_FILE",
        "http_proxy",
        "https_proxy",
        "HTTPS_PROXY",
        "all_proxy",
        "ALL_PROXY",
        "no_proxy",
        "NO_PROXY",
        // Those of `Environment::VARIABLES`, but for the two folders above.
        "BEARER_TOKEN",
        "BEARER_TOKEN_FILE",
        "XDG_RUNTIME_DIR",
        "X509_USER_PROXY",
        "X509_USER_CERT",
        "X509_USER_KEY",
        "X509_CERT_DIR",
        "NETRC",
    ];

    /// The configuration of a client with these options.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] for values that make no sense.
    pub fn into_config(self, environment: &Environment, file: ConfigFile) -> Result<ClientConfig> {
        let Section {
            max_connections,
            store,
            staleness,
            disk_cache,
            connect_timeout,
            stall_timeout,
            verify,
            headers,
            mirror,
            proxy,
            no_proxy,
            source_address,
            credentials: credential_section,
        } = file.0;
        let mut config = ClientConfig { cache: cache_config(), ..ClientConfig::default() };
        let from_environment = variable(environment, "HITHER_MAX_CONNECTIONS");
        let from_environment = from_environment.map(connection_count).transpose()?;
        if let Some(max) = self.max_connections.or(from_environment).or(max_connections) {
            if max == 0 {
                let what = "max_connections is 0, expected at least 1 connection";
                return Err(Error::new(ErrorKind::Invalid, what));
            }
            config.transport.max_connections = usize::from(max);
        }
        if let Some(seconds) = self.connect_timeout.or(connect_timeout) {
            config.transport.connect_timeout = timeout("connect_timeout", seconds)?;
        }
        if let Some(seconds) = self.stall_timeout.or(stall_timeout) {
            let limit = timeout("stall_timeout", seconds)?;
            config.transport.no_progress_timeout = limit;
            config.transport.first_byte_timeout = limit * 2;
        }
        let from_file = verify.as_deref().map(str::parse).transpose()?;
        if let Some(verify) = self.verify.or(from_file) {
            config.transport.verify = verify;
        }
        for (name, value) in
            headers.iter().chain(self.headers.iter().map(|(name, value)| (name, value)))
        {
            config.transport.fields.add(name, value)?;
        }
        for mirror in self.mirrors.into_iter().chain(mirror.into_iter().map(Mirror::from)) {
            config.mirrors.add(mirror);
        }
        config.transport.proxies =
            proxies(self.proxy.as_deref(), environment, proxy.as_deref(), no_proxy.as_deref())?;
        config.transport.sources =
            source_addresses(self.source_addresses, environment, &source_address)?;
        #[cfg(feature = "s3")]
        {
            let anonymous = self.credentials.anonymous;
            config.s3 = s3::of_environment(environment, anonymous);
            config.s3_profile = Some(s3::profile_of(environment, &config.s3, anonymous));
        }
        config.transport.credentials =
            credentials(self.credentials, environment, credential_section)?;
        config.transport.tls.insecure = self.insecure;
        let login = variable(environment, "USER").or_else(|| variable(environment, "LOGNAME"));
        config.transport.login = login.unwrap_or_default().to_owned();
        if !self.no_store {
            let store = self.store.or_else(|| environment.path("HITHER_STORE")).or(store);
            let default = || folder(environment, "XDG_CACHE_HOME", ".cache");
            let store = store.or_else(|| default().map(|folder| folder.join("hither")));
            config.store = store.filter(|path| !path.as_os_str().is_empty());
        }
        let from_file = disk_cache.as_deref().map(|text| named("disk_cache", byte_size(text)));
        let bytes = self.disk_cache.or(from_file.transpose()?).filter(|bytes| *bytes > 0);
        config.disk_cache = bytes.map(|bytes| DiskCacheConfig { bytes });
        let from_environment = variable(environment, "HITHER_STALENESS")
            .map(|text| named("HITHER_STALENESS", duration(text)));
        let from_file = staleness.as_deref().map(|text| named("staleness", duration(text)));
        let staleness = from_environment.or(from_file).transpose()?;
        config.staleness = self.staleness.or(staleness).unwrap_or_default();
        config.trace = Self::trace_path(self.trace, environment);
        Ok(config)
    }

    /// The trace file that a client with the option `trace` writes, if any.
    #[must_use]
    pub fn trace_path(trace: Option<PathBuf>, environment: &Environment) -> Option<PathBuf> {
        let path = trace.or_else(|| environment.path("HITHER_TRACE"))?;
        // One variable then serves many processes.
        let text = path.to_str().map(|text| text.replace("%p", &std::process::id().to_string()));
        Some(text.map_or(path, PathBuf::from))
    }
}

/// The value of a variable that is set and not empty.
pub(crate) fn variable<'a>(environment: &'a Environment, name: &str) -> Option<&'a str> {
    environment.variable(name).map(|value| value.expose())
}

/// A folder of the XDG base directory specification.
pub(crate) fn folder(environment: &Environment, name: &str, below_home: &str) -> Option<PathBuf> {
    let absolute = |path: PathBuf| path.is_absolute().then_some(path);
    let set = environment.path(name).and_then(absolute);
    set.or_else(|| environment.path("HOME").map(|home| home.join(below_home)).and_then(absolute))
}

/// Names the setting whose value is wrong.
fn named<T>(name: &str, parsed: std::result::Result<T, String>) -> Result<T> {
    parsed.map_err(|why| Error::new(ErrorKind::Invalid, format!("{name}: {why}")))
}

/// The source addresses of the first layer that has any.
fn source_addresses(
    given: Vec<SourceAddress>,
    environment: &Environment,
    from_file: &[String],
) -> Result<Vec<SourceAddress>> {
    if !given.is_empty() {
        return Ok(given);
    }
    match variable(environment, "HITHER_SOURCE_ADDRESS") {
        Some(text) => text.split(',').map(str::parse).collect(),
        None => from_file.iter().map(|text| text.parse()).collect(),
    }
}

fn connection_count(text: &str) -> Result<u16> {
    text.parse::<u16>().ok().filter(|count| *count > 0).ok_or_else(|| {
        let what = format!("HITHER_MAX_CONNECTIONS is {text:?}, expected a number of connections");
        Error::new(ErrorKind::Invalid, what)
    })
}

fn timeout(name: &str, seconds: f64) -> Result<Duration> {
    let limit = Duration::try_from_secs_f64(seconds).ok().filter(|limit| !limit.is_zero());
    limit.ok_or_else(|| {
        Error::new(ErrorKind::Invalid, format!("{name} is {seconds}, expected seconds"))
    })
}

/// Reads a whole number of seconds, minutes, hours or days.
///
/// # Errors
///
/// A sentence about what was expected.
pub fn duration(text: &str) -> std::result::Result<Duration, String> {
    let units = [('s', 1), ('m', 60), ('h', 3_600), ('d', 86_400)];
    scaled(text, &units).map(Duration::from_secs).ok_or_else(|| {
        format!("{text:?} is not a duration: expected seconds, or as in 90s, 30m, 12h or 7d")
    })
}

/// Reads a number of bytes, with k, M, G or T for powers of a thousand.
///
/// # Errors
///
/// A sentence about what was expected.
pub fn byte_size(text: &str) -> std::result::Result<u64, String> {
    let units = [
        ('k', 1_000),
        ('K', 1_000),
        ('M', 1_000_000),
        ('G', 1_000_000_000),
        ('T', 1_000_000_000_000),
    ];
    scaled(text, &units)
        .ok_or_else(|| format!("{text:?} is not a size: expected bytes, as in 500M or 20G"))
}

/// A whole number with one of these units or none.
fn scaled(text: &str, units: &[(char, u64)]) -> Option<u64> {
    let text = text.trim();
    let unit = units.iter().find_map(|(unit, factor)| Some((text.strip_suffix(*unit)?, *factor)));
    let (digits, factor) = unit.unwrap_or((text, 1));
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_whole_numbers_of_a_unit() {
        for (text, seconds) in
            [("0", 0), ("90", 90), ("90s", 90), ("30m", 1800), ("2h", 7200), ("1d", 86_400)]
        {
            assert_eq!(duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for wrong in ["", "h", "1.5h", "-1", "1w", "213503982334602d"] {
            assert!(duration(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn sizes_count_in_powers_of_a_thousand() {
        for (text, bytes) in [("0", 0), ("7", 7), ("2k", 2_000), ("500M", 500_000_000)] {
            assert_eq!(byte_size(text), Ok(bytes), "{text}");
        }
        for wrong in ["", "G", "1.5G", "1MiB", "99999999T"] {
            assert!(byte_size(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn options_come_before_variables_and_variables_before_the_file() {
        let file = "max_connections = 3\nstore = '/file'\nstaleness = '1h'\nverify = 'always'\n";
        let config = |options: ClientOptions, variables: &[(&str, &str)]| {
            let empty = Environment::new(1);
            let environment =
                variables.iter().fold(empty, |known, (name, value)| known.with(name, *value));
            options.into_config(&environment, ConfigFile::parse(file).unwrap()).unwrap()
        };
        let variables = [("HITHER_MAX_CONNECTIONS", "5"), ("HITHER_STORE", "/env")];
        let from_file = config(ClientOptions::default(), &[]);
        assert_eq!(from_file.transport.max_connections, 3);
        assert_eq!(from_file.store, Some("/file".into()));
        assert_eq!(from_file.staleness, Duration::from_secs(3600));
        assert_eq!(from_file.transport.verify, PageChecksums::Always);
        let from_environment = config(ClientOptions::default(), &variables);
        assert_eq!(from_environment.transport.max_connections, 5);
        assert_eq!(from_environment.store, Some("/env".into()));
        let options =
            ClientOptions { max_connections: Some(7), no_store: true, ..Default::default() };
        let from_options = config(options, &variables);
        assert_eq!(from_options.transport.max_connections, 7);
        assert_eq!(from_options.store, None);
    }

    #[test]
    fn every_variable_of_credentials_is_listed() {
        for name in Environment::VARIABLES {
            assert!(ClientOptions::VARIABLES.contains(&name) || name == "HOME", "{name}");
        }
    }
}
