//! Arguments, environment, configuration file, defaults: in this order.

use crate::arguments::{GlobalArgs, size, staleness};
use crate::credentials::{Section, credentials};
use crate::exit::CommandError;
use crate::proxies::proxies;
use hither::{Client, ClientConfig, DiskCacheConfig, Mirror, S3Config};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The configuration file, TOML.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ConfigFile {
    /// Most connections to a server.
    connections: Option<u16>,
    /// Where to remember; the empty string for nowhere.
    store: Option<PathBuf>,
    /// How long what is remembered of a file is used without asking, as text such as "30m".
    staleness: Option<String>,
    /// Bytes of parts of files to keep on disk, as a number or as text such as "20G".
    disk_cache: Option<String>,
    /// Seconds to wait for a connection.
    connect_timeout: Option<f64>,
    /// Seconds to wait without a byte arriving.
    stall_timeout: Option<f64>,
    /// What is verified over root://, as text such as "always".
    verify: Option<String>,
    /// Places that hold the same files.
    #[serde(default)]
    mirror: Vec<MirrorRule>,
    /// Proxy for all servers.
    proxy: Option<String>,
    /// Hosts that need none, separated by commas.
    no_proxy: Option<String>,
    /// Who to be.
    #[serde(default)]
    credentials: Section,
}

/// `[[mirror]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct MirrorRule {
    /// The beginning of URLs.
    prefix: String,
    /// What may stand in its place, the best first.
    elsewhere: Vec<String>,
}

/// A client as the user wants it, for a command about the file at `url`.
pub(crate) fn client(common: &GlobalArgs, url: &str) -> Result<Client, CommandError> {
    let client = Client::new(configured(common, url)?)?;
    if let Some(error) = client.store_error() {
        eprint_line(&format!("hither: nothing is remembered between runs: {error}"));
    }
    Ok(client)
}

/// What the command would give its client: `common` first, then the environment, the configuration file, the defaults.
///
/// # Errors
///
/// [`hither::ErrorKind::Invalid`] for values that make no sense, [`hither::ErrorKind::Local`] for a configuration file that
/// cannot be read.
pub fn client_config(common: &GlobalArgs) -> Result<ClientConfig, hither::Error> {
    Ok(configured(common, "")?)
}

fn configured(common: &GlobalArgs, url: &str) -> Result<ClientConfig, CommandError> {
    let file = read_file(common.config.as_deref())?;
    let mut config = ClientConfig::default();
    let from_environment = match environment("HITHER_CONNECTIONS") {
        Some(text) => Some(text.parse::<u16>().ok().filter(|&n| n > 0).ok_or_else(|| {
            CommandError::usage(format!(
                "HITHER_CONNECTIONS is {text:?}, expected a number of connections"
            ))
        })?),
        None => None,
    };
    if let Some(connections) = common.connections.or(from_environment).or(file.connections) {
        config.transport.max_connections = usize::from(connections.max(1));
    }
    if let Some(seconds) = common.connect_timeout.or(file.connect_timeout) {
        config.transport.connect_timeout = duration("connect_timeout", seconds)?;
    }
    if let Some(seconds) = common.stall_timeout.or(file.stall_timeout) {
        let clock = duration("stall_timeout", seconds)?;
        config.transport.no_progress_timeout = clock;
        config.transport.first_byte_timeout = clock * 2;
    }
    let from_file = file.verify.as_deref().map(str::parse).transpose()?;
    if let Some(what) = common.verify.or(from_file) {
        config.transport.verify = what;
    }
    if !common.replica.is_empty() {
        let elsewhere = common.replica.clone();
        config.mirrors.add(Mirror { prefix: url.to_owned(), elsewhere });
    }
    for MirrorRule { prefix, elsewhere } in file.mirror {
        config.mirrors.add(Mirror { prefix, elsewhere });
    }
    let (proxy, direct) = (file.proxy.as_deref(), file.no_proxy.as_deref());
    config.transport.proxies = proxies(common.proxy.as_deref(), proxy, direct)?;
    config.transport.credentials = credentials(&common.credentials, file.credentials)?;
    config.transport.tls.insecure = common.insecure;
    config.transport.login =
        environment("USER").or_else(|| environment("LOGNAME")).unwrap_or_default();
    config.s3 = s3();
    let store = common.store.clone();
    let store = store.or_else(|| environment("HITHER_STORE").map(PathBuf::from)).or(file.store);
    config.store = store.or_else(default_store).filter(|path| !path.as_os_str().is_empty());
    if common.no_store {
        config.store = None;
    }
    let configured = file.disk_cache.as_deref().map(size).transpose();
    let configured = configured.map_err(|why| CommandError::usage(format!("disk_cache: {why}")))?;
    let bytes = common.disk_cache.or(configured).filter(|bytes| *bytes > 0);
    config.disk_cache = bytes.map(|bytes| DiskCacheConfig { bytes });
    let configured =
        [("HITHER_STALENESS", environment("HITHER_STALENESS")), ("staleness", file.staleness)];
    let configured = configured.into_iter().find_map(|(name, text)| Some((name, text?)));
    let configured = configured.map(|(name, text)| {
        staleness(&text).map_err(|why| CommandError::usage(format!("{name}: {why}")))
    });
    config.staleness = common.staleness.or(configured.transpose()?).unwrap_or_default();
    config.trace = trace(common);
    Ok(config)
}

fn duration(name: &str, seconds: f64) -> Result<Duration, CommandError> {
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|clock| !clock.is_zero())
        .ok_or_else(|| CommandError::usage(format!("{name} is {seconds}, expected seconds")))
}

/// Where to write a trace, if anywhere.
pub(crate) fn trace(common: &GlobalArgs) -> Option<PathBuf> {
    let named = common.trace.clone();
    named.or_else(|| environment("HITHER_TRACE").map(PathBuf::from)).map(numbered)
}

/// With the number of this process in place of `%p`, so that one variable does for many processes.
fn numbered(path: PathBuf) -> PathBuf {
    match path.to_str() {
        Some(text) => text.replace("%p", &std::process::id().to_string()).into(),
        None => path,
    }
}

fn read_file(named: Option<&Path>) -> Result<ConfigFile, CommandError> {
    let default = || folder("XDG_CONFIG_HOME", ".config").map(|dir| dir.join("hither/config.toml"));
    let Some(path) = named.map(Path::to_owned).or_else(default) else {
        return Ok(ConfigFile::default());
    };
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && named.is_none() => {
            return Ok(ConfigFile::default());
        }
        Err(error) => {
            return Err(CommandError::local(format!("cannot read {}", path.display()), error));
        }
    };
    toml::from_str(&text)
        .map_err(|error| CommandError::usage(format!("{}: {error}", path.display())))
}

fn default_store() -> Option<PathBuf> {
    folder("XDG_CACHE_HOME", ".cache").map(|dir| dir.join("hither"))
}

/// A folder of the XDG base directory specification.
fn folder(variable: &str, below_home: &str) -> Option<PathBuf> {
    let absolute = |path: PathBuf| path.is_absolute().then_some(path);
    let set = environment(variable).map(PathBuf::from).and_then(absolute);
    set.or_else(|| {
        environment("HOME").map(|home| PathBuf::from(home).join(below_home)).and_then(absolute)
    })
}

/// What the programs of Amazon's object store are told, by the same names.
fn s3() -> S3Config {
    let endpoint = environment("AWS_ENDPOINT_URL_S3").or_else(|| environment("AWS_ENDPOINT_URL"));
    let region = environment("AWS_REGION").or_else(|| environment("AWS_DEFAULT_REGION"));
    S3Config {
        endpoint,
        region,
        access_key_id: environment("AWS_ACCESS_KEY_ID"),
        secret_access_key: environment("AWS_SECRET_ACCESS_KEY"),
        session_token: environment("AWS_SESSION_TOKEN"),
    }
}

/// A variable that is set to something.
pub(crate) fn environment(variable: &str) -> Option<String> {
    std::env::var(variable).ok().filter(|value| !value.is_empty())
}

/// A line for the person at the terminal, apart from the output.
pub(crate) fn eprint_line(line: &str) {
    use std::io::Write;
    // A terminal that is gone cannot be told so.
    drop(writeln!(std::io::stderr(), "{line}"));
}
