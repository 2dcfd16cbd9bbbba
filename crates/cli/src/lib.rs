//! The `hither` command: arguments, progress, output. It converts and decides nothing.
//!
//! As a library it is for other programs that are the command ([`run`]), or that are configured as it is
//! ([`client_config`], [`copy_options`]): the Python package is both.

mod arguments;
mod command_line;
mod commands;
mod configuration;
mod credentials;
mod exit;
mod password_prompt;
mod plot;
mod progress_bar;
mod proxies;

pub use arguments::GlobalArgs;
pub use command_line::run;
pub use commands::{copy_options, place_of};
pub use configuration::client_config;
pub use credentials::CredentialArgs;
