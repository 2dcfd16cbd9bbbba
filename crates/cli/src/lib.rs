//! The `hither` command: arguments, environment, progress and output. All decisions are made in
//! `hither`.
//!
//! As a library it exports [`run`], which the Python package calls.
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
mod log;
mod output;
mod per_argument;
mod plot;
mod progress_bar;
#[cfg(test)]
mod tests;

pub use command_line::run;
pub use output::standard_streams::note_closed_streams;
