//! `hither profile network`: measures the path to a file.

use super::{progress_line, show};
use crate::arguments::{GlobalArgs, Network};
use crate::environment::client;
use crate::exit::CommandError;
use crate::interrupt;
use crate::output::{human_bytes, print};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub(super) fn run(request: &Network, common: &GlobalArgs) -> Result<(), CommandError> {
    if !common.client.options.replicas.is_empty() {
        return Err(CommandError::usage("--replica: the path to one server is measured"));
    }
    let client = client(&common.without_store(), &request.url)?;
    let stopped = Arc::new(AtomicBool::new(false));
    let stopper = Arc::clone(&stopped);
    interrupt::handle(move || stopper.store(true, Ordering::Relaxed));
    let bar = progress_line();
    let duration = Duration::from_secs_f64(request.seconds);
    let profiling = client.profile_path(&request.url, duration, request.bytes, |now, bytes| {
        show(&bar, now, || format!("{now:.0?} of {duration:?}, {}", human_bytes(bytes)));
        !stopped.load(Ordering::Relaxed)
    });
    let profile = client.block_on(profiling)?;
    bar.finish_and_clear();
    let object = || serde_json::to_string(&profile).map_err(std::io::Error::from);
    Ok(print(&if common.json { object()? + "\n" } else { profile.to_text() })?)
}
