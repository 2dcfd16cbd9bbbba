//! How a Python program wants its client.

use hither::{ClientConfig, Error, ErrorKind, Mirror, Secret};
use hither_cli::{CredentialArgs, GlobalArgs};
use pyo3::FromPyObject;
use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

/// What the package hands over: a mapping with these keys. None is what the command would do.
#[derive(Debug, Clone, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct PyClientOptions {
    connections: Option<u16>,
    cache_bytes: Option<u64>,
    store: Option<PathBuf>,
    no_store: bool,
    disk_cache_bytes: Option<u64>,
    decode_threads: Option<usize>,
    connect_timeout: Option<f64>,
    stall_timeout: Option<f64>,
    staleness: Option<f64>,
    verify: Option<String>,
    mirrors: HashMap<String, Vec<String>>,
    proxy: Option<String>,
    insecure: bool,
    trace: Option<PathBuf>,
    config: Option<PathBuf>,
    token: Option<Text>,
    token_file: Option<PathBuf>,
    token_command: Option<String>,
    user: Option<String>,
    password: Option<Text>,
    cert: Option<PathBuf>,
    key: Option<PathBuf>,
    proxy_cert: Option<PathBuf>,
    ca: Option<PathBuf>,
    ca_dir: Option<PathBuf>,
    share_credentials: Vec<String>,
    credentials_over_http: bool,
    anonymous: bool,
}

/// A text that is not shown.
#[derive(Clone)]
struct Text(Secret);

impl std::fmt::Debug for Text {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl<'py> FromPyObject<'_, 'py> for Text {
    type Error = pyo3::PyErr;

    fn extract(object: pyo3::Borrowed<'_, 'py, pyo3::PyAny>) -> Result<Self, Self::Error> {
        Ok(Self(Secret::new(object.extract::<String>()?)))
    }
}

impl PyClientOptions {
    /// The configuration, with what the environment says now.
    pub(crate) fn config(&self) -> Result<ClientConfig, Error> {
        let mut config = hither_cli::client_config(&self.as_options())?;
        if let Some(bytes) = self.cache_bytes {
            config.cache = hither::CacheConfig::with_budget(bytes);
        }
        config.decode_threads = self.decode_threads.unwrap_or_default();
        if let Some(seconds) = self.staleness {
            config.staleness = Duration::try_from_secs_f64(seconds).map_err(|_| {
                Error::new(ErrorKind::Invalid, format!("staleness is {seconds}, expected seconds"))
            })?;
        }
        if let Some(what) = &self.verify {
            config.transport.verify = what.parse()?;
        }
        for (prefix, elsewhere) in self.mirrors.clone() {
            config.mirrors.add(Mirror { prefix, elsewhere });
        }
        Ok(config)
    }

    /// What a user of the command would say.
    fn as_options(&self) -> GlobalArgs {
        let it = self.clone();
        let credentials = CredentialArgs {
            token: it.token.map(|text| text.0),
            token_file: it.token_file,
            token_command: it.token_command,
            user: it.user,
            password: it.password.map(|text| text.0),
            cert: it.cert,
            key: it.key,
            proxy_cert: it.proxy_cert,
            ca: it.ca,
            ca_dir: it.ca_dir,
            share_credentials: it.share_credentials,
            credentials_over_http: it.credentials_over_http,
            anonymous: it.anonymous,
        };
        GlobalArgs {
            connections: it.connections,
            store: it.store,
            no_store: it.no_store,
            disk_cache: it.disk_cache_bytes,
            connect_timeout: it.connect_timeout,
            stall_timeout: it.stall_timeout,
            proxy: it.proxy,
            insecure: it.insecure,
            trace: it.trace,
            config: it.config,
            credentials,
            ..GlobalArgs::default()
        }
    }
}
