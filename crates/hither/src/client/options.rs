//! Client options in layers: options of the caller, environment, configuration file, defaults.
//!
//! Nothing here reads the environment or a terminal: the caller passes their contents.

mod option;
mod table;
pub(crate) mod units;
mod value;

pub use option::{ClientOption, OptionShape};
pub use table::ClientOptions;
pub use value::OptionValue;

use crate::client::config::{ClientConfig, DiskCacheConfig};
use crate::client::config_file;
#[cfg(feature = "s3")]
use crate::client::credentials::s3;
use crate::client::credentials::{self, credentials};
use crate::client::memory::cache_config;
use crate::client::mirrors::Mirror;
use crate::client::proxies::{self, proxies};
use hither_auth::{AwsProfileSource, Environment, Secret};
use hither_core::error::{Error, ErrorKind, Result, suggest::Suggestion};
use hither_read::CacheConfig;
use std::path::PathBuf;

/// The variables of the user's folders and name.
const USER_VARIABLES: [&str; 4] = ["XDG_CONFIG_HOME", "XDG_CACHE_HOME", "USER", "LOGNAME"];

impl ClientOptions {
    /// The environment variables that the layers below the options read.
    pub fn variables() -> impl Iterator<Item = &'static str> {
        let options = Self::TABLE.iter().filter_map(|option| option.variable);
        options
            .chain(USER_VARIABLES)
            .chain(credentials::S3_VARIABLES)
            .chain(AwsProfileSource::VARIABLES)
            .chain(proxies::VARIABLES)
            .chain(Environment::VARIABLES)
    }

    /// The environment of this process's user; `read` returns its variables.
    pub fn environment(read: impl Fn(&str) -> Option<String>) -> Environment {
        let empty = Environment::new(rustix::process::geteuid().as_raw());
        Self::variables().fold(empty, |known, name| match read(name) {
            Some(value) => known.with(name, value),
            None => known,
        })
    }

    /// The option that has `name` in an interface, which `name_of` returns for each option.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`], with similar names, if there is none.
    pub fn find(
        name: &str,
        name_of: fn(&ClientOption) -> Option<&'static str>,
    ) -> Result<&'static ClientOption> {
        Self::TABLE.iter().find(|option| name_of(option) == Some(name)).ok_or_else(|| {
            let names = Self::TABLE.iter().filter_map(name_of);
            let suggestion = Suggestion::similar_or_all(name, names);
            let what = format!("there is no option {name:?}{suggestion}");
            Error::new(ErrorKind::Invalid, what)
        })
    }

    /// The options with the replicas of the file at `url` among the mirrors.
    #[must_use]
    pub fn for_file(mut self, url: &str) -> Self {
        let elsewhere = std::mem::take(&mut self.replicas);
        if !elsewhere.is_empty() {
            self.mirrors.push(Mirror { prefix: url.to_owned(), elsewhere });
        }
        self
    }

    /// The configuration of a client with these options. `ask` prompts for a missing password, with
    /// the given question; the password is kept.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] for invalid values, [`ErrorKind::Local`] for a configuration file
    /// that cannot be read.
    pub fn config(
        &mut self,
        environment: &Environment,
        ask: impl FnOnce(&str) -> Result<Secret>,
    ) -> Result<ClientConfig> {
        let file = config_file::read(self.config.as_deref(), environment)?;
        self.check_files()?;
        let variables = Self::from_variables(environment)?;
        if let (Some(user), None) = (&self.user, &self.password) {
            self.password = Some(match variables.password.clone() {
                Some(password) => password,
                None => ask(&format!("Password of {user}: "))?,
            });
        }
        self.clone().over(variables, environment, file)
    }

    /// The options that variables of the environment set.
    fn from_variables(environment: &Environment) -> Result<Self> {
        let mut options = Self::default();
        for option in Self::TABLE {
            if let Some(name) = option.variable
                && let Some(text) = variable(environment, name)
            {
                let value = OptionValue::text(text);
                option
                    .read(&mut options, &value)
                    .map_err(|expected| option.refused(name, &value, &expected))?;
            }
        }
        Ok(options)
    }

    /// The configuration of these options over those of variables, which are over those of a file.
    pub(crate) fn over(
        self,
        variables: Self,
        environment: &Environment,
        file: Self,
    ) -> Result<ClientConfig> {
        let mut config = ClientConfig { cache: cache_config(), ..ClientConfig::default() };
        if let Some(bytes) = self.cache {
            config.cache = CacheConfig::with_budget(bytes);
        }
        config.decode_threads = self.decode_threads.unwrap_or_default();
        if let Some(max) =
            self.max_connections.or(variables.max_connections).or(file.max_connections)
        {
            config.transport.max_connections = usize::from(max.get());
        }
        if let Some(limit) = self.connect_timeout.or(file.connect_timeout) {
            config.transport.connect_timeout = limit;
        }
        if let Some(limit) = self.stall_timeout.or(file.stall_timeout) {
            config.transport.no_progress_timeout = limit;
            config.transport.first_byte_timeout = limit * 2;
        }
        if let Some(verify) = self.verify.or(file.verify) {
            config.transport.verify = verify;
        }
        for (name, value) in file.headers.iter().chain(&self.headers) {
            config.transport.fields.add(name, value.expose())?;
        }
        for mirror in self.mirrors.iter().chain(&file.mirrors) {
            config.mirrors.add(mirror.clone());
        }
        let [option, of_file] =
            [&self.proxy, &file.proxy].map(|it| it.as_ref().map(Secret::expose));
        config.transport.proxies = proxies(option, environment, of_file, file.no_proxy.as_deref())?;
        let sources = [&self, &variables, &file].map(|layer| &layer.source_addresses);
        if let Some(sources) = sources.into_iter().find(|sources| !sources.is_empty()) {
            config.transport.sources.clone_from(sources);
        }
        #[cfg(feature = "s3")]
        {
            config.s3 = s3::of_environment(environment, self.anonymous);
            config.s3_profile = Some(s3::profile_of(environment, &config.s3, self.anonymous));
        }
        config.transport.tls.insecure = self.insecure;
        let login = variable(environment, "USER").or_else(|| variable(environment, "LOGNAME"));
        config.transport.login = login.unwrap_or_default().to_owned();
        let bytes = self.disk_cache.or(file.disk_cache).filter(|bytes| *bytes > 0);
        config.disk_cache = bytes.map(|bytes| DiskCacheConfig { bytes });
        let staleness = self.staleness.or(variables.staleness).or(file.staleness);
        config.staleness = staleness.unwrap_or_default();
        config.trace = self.trace_over(&variables);
        if !self.no_store {
            let default = || folder(environment, "XDG_CACHE_HOME", ".cache");
            let default = || default().map(|folder| folder.join("hither"));
            let named = [&self, &variables, &file].into_iter().find_map(|it| it.store.clone());
            config.store = named.or_else(default).filter(|path| !path.as_os_str().is_empty());
        }
        config.transport.credentials = credentials(self, environment, file)?;
        Ok(config)
    }

    /// The trace file that a client with these options writes, if any.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] for a variable with an invalid value.
    pub fn trace_path(&self, environment: &Environment) -> Result<Option<PathBuf>> {
        Ok(self.trace_over(&Self::from_variables(environment)?))
    }

    fn trace_over(&self, variables: &Self) -> Option<PathBuf> {
        let path = self.trace.clone().or_else(|| variables.trace.clone())?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::config_file::parse;
    use hither_transport::PageChecksums;
    use std::collections::BTreeSet;
    use std::num::NonZeroU16;
    use std::time::Duration;

    #[test]
    fn options_come_before_variables_and_variables_before_the_file() {
        let file = "max_connections = 3\nstore = '/file'\nstaleness = '1h'\nverify = 'always'\n";
        let config = |options: ClientOptions, variables: &[(&str, &str)]| {
            let empty = Environment::new(1);
            let environment =
                variables.iter().fold(empty, |known, (name, value)| known.with(name, *value));
            let variables = ClientOptions::from_variables(&environment).unwrap();
            options.over(variables, &environment, parse(file).unwrap()).unwrap()
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
        let options = ClientOptions {
            max_connections: NonZeroU16::new(7),
            no_store: true,
            ..Default::default()
        };
        let from_options = config(options, &variables);
        assert_eq!(from_options.transport.max_connections, 7);
        assert_eq!(from_options.store, None);
    }

    #[test]
    fn every_interface_has_a_name_for_every_option() {
        let without = |name_of: fn(&ClientOption) -> Option<&'static str>| -> Vec<_> {
            let names: Vec<_> = ClientOptions::TABLE.iter().filter_map(name_of).collect();
            assert_eq!(BTreeSet::from_iter(&names).len(), names.len(), "a name stands twice");
            let absent = ClientOptions::TABLE.iter().filter(|it| name_of(it).is_none());
            absent.map(|option| option.name).collect()
        };
        // Others see a command line; `--replica` stands for mirrors there, `--no-store` for a value
        // of `store`.
        let absent = ["cache", "decode_threads", "no_proxy", "mirrors", "token", "password"];
        assert_eq!(without(|it| it.flag), absent);
        assert_eq!(without(|it| it.python), ["no_store", "replicas", "no_proxy"]);
        let absent = ["no_store", "decode_threads", "replicas", "no_proxy", "mirrors"];
        assert_eq!(without(|it| it.c), absent);
        for option in ClientOptions::TABLE {
            assert!(option.meaning.ends_with('.'), "{option:?}");
            assert!(!option.flag.is_some_and(|flag| flag.contains('_')), "{option:?}");
            assert_eq!(option.flag.is_some(), !option.help.is_empty(), "{option:?}");
            assert!(option.key.is_none() || !option.example.is_empty(), "{option:?}");
        }
    }

    #[test]
    fn variables_and_keys_refuse_what_an_option_refuses_with_the_same_sentence() {
        let mut refused = BTreeSet::new();
        for option in ClientOptions::TABLE {
            if option.shape == OptionShape::Repeated {
                continue;
            }
            for text in ["?", "0", "1025", "-1", "1e9", "maybe", "100000000T"] {
                let sentence = option.read(&mut ClientOptions::default(), &OptionValue::text(text));
                let variable = option.variable.map(|name| {
                    ClientOptions::from_variables(&Environment::new(1).with(name, text)).map(drop)
                });
                let key = option.key.map(|key| {
                    parse(&match key.split_once('.') {
                        Some((table, key)) => format!("[{table}]\n{key} = {text:?}"),
                        None => format!("{key} = {text:?}"),
                    })
                    .map(drop)
                });
                for found in [variable, key].into_iter().flatten() {
                    match (&sentence, found) {
                        (Ok(()), found) => found.unwrap(),
                        (Err(sentence), found) => {
                            let error = found.unwrap_err().to_string();
                            assert!(error.ends_with(sentence), "{error}: {sentence}");
                            refused.insert(option.name);
                        }
                    }
                }
            }
        }
        for name in ["max_connections", "staleness", "disk_cache", "stall_timeout", "verify"] {
            assert!(refused.contains(name), "{name}: {refused:?}");
        }
    }
}
