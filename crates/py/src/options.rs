//! Client options from Python.

use hither::{ClientConfig, ClientOptions, CredentialOptions, Error, ErrorKind, Mirror, Secret};
use pyo3::FromPyObject;
use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

/// Options that the package passes as a mapping with these keys; None takes the command's default.
#[derive(Debug, Clone, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct PyClientOptions {
    max_connections: Option<u16>,
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
    headers: Vec<(String, String)>,
    proxy: Option<String>,
    source_addresses: Vec<String>,
    insecure: bool,
    trace: Option<PathBuf>,
    config: Option<PathBuf>,
    token: Option<SecretText>,
    token_file: Option<PathBuf>,
    token_command: Option<String>,
    user: Option<String>,
    password: Option<SecretText>,
    cert: Option<PathBuf>,
    key: Option<PathBuf>,
    proxy_cert: Option<PathBuf>,
    ca: Option<PathBuf>,
    ca_dir: Option<PathBuf>,
    share_credentials: Vec<String>,
    credentials_over_http: bool,
    anonymous: bool,
}

/// A secret, which `Debug` does not show.
#[derive(Clone)]
struct SecretText(Secret);

impl std::fmt::Debug for SecretText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl<'py> FromPyObject<'_, 'py> for SecretText {
    type Error = pyo3::PyErr;

    fn extract(object: pyo3::Borrowed<'_, 'py, pyo3::PyAny>) -> Result<Self, Self::Error> {
        Ok(Self(Secret::new(object.extract::<String>()?)))
    }
}

impl PyClientOptions {
    /// The configuration: these options, then the environment, then the configuration file.
    pub(crate) fn config(&self) -> Result<ClientConfig, Error> {
        let mut config = hither_cli::client_config(self.client_options()?, self.config.as_deref())?;
        if let Some(bytes) = self.cache_bytes {
            config.cache = hither::CacheConfig::with_budget(bytes);
        }
        config.decode_threads = self.decode_threads.unwrap_or_default();
        Ok(config)
    }

    fn client_options(&self) -> Result<ClientOptions, Error> {
        let it = self.clone();
        let staleness = it.staleness.map(|seconds| {
            Duration::try_from_secs_f64(seconds).map_err(|_| {
                Error::new(ErrorKind::Invalid, format!("staleness is {seconds}, expected seconds"))
            })
        });
        let mirrors = it.mirrors.into_iter();
        Ok(ClientOptions {
            max_connections: it.max_connections,
            store: it.store,
            no_store: it.no_store,
            disk_cache: it.disk_cache_bytes,
            staleness: staleness.transpose()?,
            connect_timeout: it.connect_timeout,
            stall_timeout: it.stall_timeout,
            verify: it.verify.as_deref().map(str::parse).transpose()?,
            mirrors: mirrors.map(|(prefix, elsewhere)| Mirror { prefix, elsewhere }).collect(),
            headers: it.headers,
            proxy: it.proxy,
            source_addresses: it
                .source_addresses
                .iter()
                .map(|it| it.parse())
                .collect::<Result<_, _>>()?,
            insecure: it.insecure,
            trace: it.trace,
            credentials: CredentialOptions {
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
            },
        })
    }
}
