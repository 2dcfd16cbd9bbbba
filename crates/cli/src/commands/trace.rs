//! `hither trace`.

mod import;
mod replay;
mod show;

pub(super) use import::run as import;
pub(super) use replay::run as replay;
pub(super) use show::run as show;
