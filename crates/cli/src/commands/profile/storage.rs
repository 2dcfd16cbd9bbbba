//! `hither profile storage`: measures the rates of the storage of a directory.

use super::{ENDS, progress_line, show};
use crate::arguments::Storage;
use crate::exit::CommandError;
use crate::interrupt;
use crate::output::print;
use hither::{Error, ErrorKind};
use hither_load::connections::MIN_BULK;
use hither_profile::storage::{MIN_FILE_BYTES, StorageError, StorageOptions, profile_storage};
use hither_transfer::WRITE_BYTES;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub(super) fn run(request: &Storage, json: bool) -> Result<(), CommandError> {
    if request.size.is_some_and(|size| size < MIN_FILE_BYTES) {
        let what = format!("--size must be {MIN_FILE_BYTES} at least: less tells nothing");
        return Err(CommandError::usage(what));
    }
    let stop = Arc::new(AtomicBool::new(false));
    interrupt::handle({
        let stop = Arc::clone(&stop);
        move || stop.store(true, Ordering::Relaxed)
    });
    let time = Duration::from_secs_f64(request.seconds);
    let mut options = StorageOptions::new(request.path.clone(), time);
    options.file_bytes = request.size;
    options.copy_block_bytes = WRITE_BYTES;
    options.copy_workers = MIN_BULK;
    let bar = progress_line();
    let profile = profile_storage(&options, &stop, &mut |now| {
        let elapsed = now.elapsed.as_secs();
        let how_far = || {
            let time = time.as_secs();
            format!("profiling: {elapsed} s of {time} s, {} of {} cases; {ENDS}", now.done, now.all)
        };
        show(&bar, now.elapsed, how_far);
    });
    bar.finish_and_clear();
    let profile = profile.map_err(|error| Error::new(kind(&error), error.to_string()))?;
    let object = || serde_json::to_string(&profile).map_err(std::io::Error::from);
    Ok(print(&if json { object()? + "\n" } else { profile.to_text() })?)
}

fn kind(error: &StorageError) -> ErrorKind {
    match error {
        StorageError::NotFound(_) => ErrorKind::NotFound,
        StorageError::NotADirectory(_) => ErrorKind::Invalid,
        StorageError::Refused { .. } => ErrorKind::PermissionDenied,
        StorageError::NoSpace { .. } => ErrorKind::NoSpace,
        _ => ErrorKind::Local,
    }
}
