//! `hither trace` and `hither simulate`.

mod import;
mod replay;
mod show;
mod simulate;

pub(super) use import::run as import;
pub(super) use replay::run as replay;
pub(super) use show::run as show;
pub(super) use simulate::run as simulate;
