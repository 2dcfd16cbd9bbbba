//! Variables, configuration file and password, read for the library.

use crate::arguments::GlobalArgs;
use crate::output::eprint_line;
use crate::password_prompt::ask_password;
use hither::{
    Client, ClientConfig, ClientOptions, ConfigFile, Environment, Error, ErrorKind, Secret,
};
use std::path::{Path, PathBuf};

/// A client with the options of the command line, for a command about the file at `url`.
pub(crate) fn client(arguments: &GlobalArgs, url: &str) -> Result<Client, Error> {
    let config = client_config(arguments.options(url), arguments.config.as_deref())?;
    let client = Client::new(config)?;
    if let Some(error) = client.store_error() {
        eprint_line(&format!("hither: the store cannot be used: {error}"));
    }
    Ok(client)
}

/// The configuration of a client: `options` first, then the environment, then `config_file` (by
/// default the user's own), then the defaults. Asks for a password that is missing.
///
/// # Errors
///
/// [`ErrorKind::Invalid`] for values that make no sense, [`ErrorKind::Local`] for a configuration
/// file that cannot be read.
pub fn client_config(
    mut options: ClientOptions,
    config_file: Option<&Path>,
) -> Result<ClientConfig, Error> {
    let environment = environment();
    let file = read_config_file(config_file, &environment)?;
    let credentials = &mut options.credentials;
    credentials.check_files()?;
    if let (Some(user), None) = (&credentials.user, &credentials.password) {
        credentials.password = Some(match variable("HITHER_PASSWORD") {
            Some(password) => Secret::new(password),
            None => ask_password(&format!("Password of {user}: "))?,
        });
    }
    options.into_config(&environment, file)
}

/// The trace file that the command writes, if any.
pub(crate) fn trace_path(arguments: &GlobalArgs) -> Option<PathBuf> {
    ClientOptions::trace_path(arguments.trace.clone(), &environment())
}

/// A variable that is set to something.
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn environment() -> Environment {
    let empty = Environment::new(rustix::process::geteuid().as_raw());
    let names = ClientOptions::VARIABLES.iter().chain(&Environment::VARIABLES);
    names.fold(empty, |known, name| match variable(name) {
        Some(value) => known.with(name, value),
        None => known,
    })
}

fn read_config_file(named: Option<&Path>, environment: &Environment) -> Result<ConfigFile, Error> {
    let path = named.map(Path::to_owned).or_else(|| ConfigFile::default_path(environment));
    let Some(path) = path else { return Ok(ConfigFile::default()) };
    match std::fs::read_to_string(&path) {
        Ok(text) => ConfigFile::parse(&text).map_err(|error| error.context(path.display())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && named.is_none() => {
            Ok(ConfigFile::default())
        }
        Err(error) => {
            let what = format!("cannot read {}", path.display());
            Err(Error::new(ErrorKind::Local, what).with_source(error))
        }
    }
}
