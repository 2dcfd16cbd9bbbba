//! Copies of files and directories, with progress.

use crate::client::{Client, with_client};
use crate::error::ErrorObject;
use crate::foreign::{pairs, text};
use crate::options::copy_options;
use hither::{CopyProgress, Error, ErrorKind};
use std::ffi::{c_char, c_int, c_void};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

/// Interval between two calls of a progress callback: short enough for a smooth progress bar and
/// for Ctrl-C.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// Progress of a copy. Files and bytes found grow until all directories are listed.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    /// Files found so far.
    pub files_found: u64,
    /// Files that have their final name, or were skipped, or failed.
    pub files_done: u64,
    /// Bytes of the files found.
    pub bytes_found: u64,
    /// Bytes of these that need not be moved any more.
    pub bytes_done: u64,
    /// Bytes that arrived.
    pub bytes_arrived: u64,
}

/// A function that is called with the progress of a copy and the program's own pointer, on the
/// thread that called hither_copy, ten times a second and at the end. The copy goes on if it
/// returns 0, and is cancelled otherwise.
pub type ProgressFunction =
    Option<extern "C" fn(progress: *const Progress, user_data: *mut c_void) -> c_int>;

/// Copies a file or directory, both named by URL or local path. `options` lists names and values in
/// turn and ends with NULL; NULL stands for no options; docs/guides/c.md lists the names. With the
/// option third_party, the servers copy between each other. `progress` may be NULL. Returns 0, -1
/// after an error.
#[unsafe(no_mangle)]
pub extern "C" fn hither_copy(
    client: Option<&Client>,
    source: *const c_char,
    destination: *const c_char,
    options: *const *const c_char,
    progress: ProgressFunction,
    user_data: *mut c_void,
    error: Option<&mut *mut ErrorObject>,
) -> c_int {
    with_client(client, error, -1, |client| {
        let sources = [text("the source", source)?.to_owned()];
        let destination = text("the destination", destination)?;
        let options = copy_options(client, &pairs(options)?)?;
        let figures = Arc::new(CopyProgress::default());
        let goes_on = || progress.is_none_or(|call| call(&snapshot(&figures), user_data) == 0);
        let mut copy = pin!(client.copy(&sources, &[], destination, options, Arc::clone(&figures)));
        let summary = loop {
            let step = async { tokio::time::timeout(PROGRESS_INTERVAL, &mut copy).await };
            match client.block_on(step) {
                Ok(done) => break done?,
                Err(_) if goes_on() => {}
                Err(_) => return Err(Error::new(ErrorKind::Cancelled, "the copy was cancelled")),
            }
        };
        goes_on();
        summary.error().map_or(Ok(0), Err)
    })
}

fn snapshot(progress: &CopyProgress) -> Progress {
    let it = progress.figures();
    Progress {
        files_found: it.files_found,
        files_done: it.files_done,
        bytes_found: it.bytes_found,
        bytes_done: it.bytes_done,
        bytes_arrived: it.bytes_arrived,
    }
}
