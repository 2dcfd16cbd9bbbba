//! The `hither` command: arguments, environment, progress, output. It converts and decides nothing.
//!
//! As a library it has what the Python package takes from the command: [`run`], and
//! [`client_config`], which reads the environment and the configuration file, and the user's clock.
//!
//! # Where to start reading
//!
//! - how ROOT reads and writes through the library: decision 0058, then `root/THitherFile.h`,
//!   `root/HitherLoader.cxx`, `src/commands/root_setup.rs`.

mod arguments;
mod command_line;
mod commands;
mod environment;
mod exit;
mod interrupt;
mod local_time;
mod log;
mod output;
mod password_prompt;
mod per_argument;
mod plot;
mod progress_bar;
#[cfg(test)]
mod reference;

pub use command_line::run;
pub use environment::client_config;
pub use local_time::minute_of_week;
pub use output::standard_streams::note_closed_streams;
