//! Environment variables and the password, read for the library.

use crate::arguments::GlobalArgs;
use crate::output::eprint_line;
use hither::{Client, ClientConfig, ClientOptions, Error, ask_password};
use std::path::PathBuf;

/// A client with the options of the command line, for a command on the file at `url`.
pub(crate) fn client(arguments: &GlobalArgs, url: &str) -> Result<Client, Error> {
    let client = Client::new(client_config(arguments.options(url))?)?;
    if let Some(error) = client.store_error() {
        eprint_line(&format!("hither: the store cannot be used: {error}"));
    }
    Ok(client)
}

/// The configuration of a client: `options` first, then the environment, then the configuration
/// file, then the defaults. Prompts for a missing password.
pub(crate) fn client_config(mut options: ClientOptions) -> Result<ClientConfig, Error> {
    options.config(&ClientOptions::environment(variable), ask_password)
}

/// The trace file that the command writes, if any.
pub(crate) fn trace_path(arguments: &GlobalArgs) -> Result<Option<PathBuf>, Error> {
    arguments.client.options.trace_path(&ClientOptions::environment(variable))
}

/// The folder for what a program keeps when it stops: that of the service, else that of the user.
pub(crate) fn state_folder() -> Option<PathBuf> {
    // systemd names several folders with colons in between.
    if let Some(folders) = variable("STATE_DIRECTORY") {
        return folders.split(':').next().map(PathBuf::from);
    }
    let home = || variable("HOME").map(|home| PathBuf::from(home).join(".local/state"));
    let states = variable("XDG_STATE_HOME").map(PathBuf::from).or_else(home)?;
    Some(states.join("hither"))
}

/// An environment variable that is set and not empty.
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
