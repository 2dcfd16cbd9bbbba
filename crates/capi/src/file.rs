//! Open files: positional reads, vector reads, hints.

use crate::border::{free, guarded, own};
use crate::client::{Client, with_client};
use crate::error::ErrorObject;
use crate::foreign::{Piece, buffer, handle, invalid, items, pairs, text};
use crate::options::open_options;
use hither::{Error, HintId, PerProcess, RemoteFile};
use std::ffi::{c_char, c_int, c_void};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// An open file. It keeps its client.
#[derive(Debug)]
pub struct File(PerProcess<OpenedFile>);

/// A hint that can be cancelled. It keeps its file.
#[derive(Debug)]
pub struct Hint(PerProcess<(OpenedFile, Option<HintId>)>);

/// A file and its client.
#[derive(Debug, Clone)]
pub(crate) struct OpenedFile {
    pub(crate) file: RemoteFile,
    client: Arc<hither::Client>,
}

/// The file behind a pointer.
pub(crate) fn opened(file: Option<&File>) -> Result<&OpenedFile, Error> {
    own(&handle("the file", file)?.0)
}

/// The ranges of pieces.
pub(crate) fn ranges(pieces: &[Piece]) -> Result<Vec<Range<u64>>, Error> {
    pieces.iter().map(Piece::range).collect()
}

/// Checks the memory of pieces before a read of them is requested; returns the pieces.
pub(crate) fn checked<'a>(pieces: *const Piece, count: usize) -> Result<&'a [Piece], Error> {
    let pieces = items("the list of pieces", pieces, count)?;
    pieces.iter().try_for_each(Piece::check)?;
    Ok(pieces)
}

/// Copies bytes into the memory of pieces, and returns the number of bytes.
pub(crate) fn fill<B: AsRef<[u8]>>(pieces: &[Piece], found: &[B]) -> Result<i64, Error> {
    let mut total = 0;
    for (piece, bytes) in pieces.iter().zip(found) {
        total += piece.fill(bytes.as_ref())?;
    }
    count(total)
}

fn new_file(file: RemoteFile, client: &Arc<hither::Client>) -> Box<File> {
    Box::new(File(PerProcess::new(OpenedFile { file, client: Arc::clone(client) })))
}

fn count(bytes: usize) -> Result<i64, Error> {
    i64::try_from(bytes).map_err(|_| invalid(format!("{bytes} bytes are too many")))
}

/// Opens a file by URL (http, https, dav, davs, root, roots, s3) or local path. Sends no request,
/// except for a Metalink document: a missing remote file is reported by its first use. Returns NULL
/// after an error.
#[unsafe(no_mangle)]
pub extern "C" fn hither_open(
    client: Option<&Client>,
    url: *const c_char,
    error: Option<&mut *mut ErrorObject>,
) -> Option<Box<File>> {
    with_client(client, error, None, |client| {
        Ok(Some(new_file(client.open(text("the URL", url)?)?, client)))
    })
}

/// Opens a file as hither_open does. `options` lists names and values in turn and ends with NULL;
/// NULL stands for no options; docs/guides/c.md lists the names. Returns NULL after an error.
#[unsafe(no_mangle)]
pub extern "C" fn hither_open_with(
    client: Option<&Client>,
    url: *const c_char,
    options: *const *const c_char,
    error: Option<&mut *mut ErrorObject>,
) -> Option<Box<File>> {
    with_client(client, error, None, |client| {
        let (options, tail) = open_options(&pairs(options)?)?;
        let file = client.open_with(text("the URL", url)?, options)?;
        if let Some(bytes) = tail {
            file.prefetch_ends(bytes);
        }
        Ok(Some(new_file(file, client)))
    })
}

/// Opens the file of a handle once more, with other options, in the version that the handle reads:
/// as soon as the file is seen to have changed, reads of both fail with HITHER_KIND_CHANGED, where
/// hither_open would read the new version. They share their bytes in memory; each is closed. Sends
/// a request only if nothing was read yet. `options` as for hither_open_with. Returns NULL after an
/// error.
#[unsafe(no_mangle)]
pub extern "C" fn hither_open_again(
    file: Option<&File>,
    options: *const *const c_char,
    error: Option<&mut *mut ErrorObject>,
) -> Option<Box<File>> {
    guarded(error, None, || {
        let OpenedFile { file, client } = opened(file)?;
        let (options, _) = open_options(&pairs(options)?)?;
        Ok(Some(new_file(file.open_again(client, options)?, client)))
    })
}

/// Closes a file and cancels its prefetches. NULL does nothing.
#[unsafe(no_mangle)]
pub extern "C" fn hither_close(file: Option<Box<File>>) {
    free(file);
}

/// Returns the size of a file in bytes, -1 after an error. Takes no request after the first read.
#[unsafe(no_mangle)]
pub extern "C" fn hither_size(file: Option<&File>, error: Option<&mut *mut ErrorObject>) -> i64 {
    guarded(error, -1, || {
        let OpenedFile { file, client } = opened(file)?;
        let size = file.stat(client)?.size;
        i64::try_from(size).map_err(|_| invalid(format!("{size} bytes are too many")))
    })
}

/// Reads from `offset` until `length` bytes are read or the file ends. Returns the number of bytes,
/// -1 after an error.
#[unsafe(no_mangle)]
pub extern "C" fn hither_pread(
    file: Option<&File>,
    target: *mut c_void,
    length: usize,
    offset: u64,
    error: Option<&mut *mut ErrorObject>,
) -> i64 {
    guarded(error, -1, || {
        let OpenedFile { file, client } = opened(file)?;
        count(file.read_at(client, offset, buffer("the buffer", target, length)?)?)
    })
}

/// Reads many pieces at once, in as few requests and round trips as the server allows: thousands in
/// one call are fast. They may overlap and be in any order. Returns the number of bytes, -1 after
/// an error, also if a piece goes beyond the end of the file; no piece is filled then.
#[unsafe(no_mangle)]
pub extern "C" fn hither_preadv(
    file: Option<&File>,
    pieces: *const Piece,
    count: usize,
    error: Option<&mut *mut ErrorObject>,
) -> i64 {
    guarded(error, -1, || {
        let OpenedFile { file, client } = opened(file)?;
        let pieces = checked(pieces, count)?;
        fill(pieces, &file.read_ranges(client, &ranges(pieces)?)?)
    })
}

/// Announces pieces that will be read, in this order, about `within_seconds` from now. They are
/// fetched ahead of the reads, in few requests, as far as the cache has room. Their buffers are not
/// used. Unless `hint` is NULL, stores a handle there, to be freed with hither_hint_free. Returns
/// 0, -1 after an error. Does nothing for local files.
#[unsafe(no_mangle)]
pub extern "C" fn hither_hint_new(
    file: Option<&File>,
    pieces: *const Piece,
    count: usize,
    within_seconds: f64,
    hint: Option<&mut *mut Hint>,
    error: Option<&mut *mut ErrorObject>,
) -> c_int {
    guarded(error, -1, || {
        let opened = opened(file)?;
        let ranges = ranges(items("the list of pieces", pieces, count)?)?;
        let within = Duration::try_from_secs_f64(within_seconds)
            .map_err(|_| invalid(format!("within_seconds is {within_seconds}")))?;
        let _entered = opened.client.runtime().enter();
        let id = opened.file.hint(&ranges, within);
        if let Some(place) = hint {
            *place = Box::into_raw(Box::new(Hint(PerProcess::new((opened.clone(), id)))));
        }
        Ok(0)
    })
}

/// Takes a hint back: what was not requested yet will not be requested. Returns 0, -1 after an
/// error.
#[unsafe(no_mangle)]
pub extern "C" fn hither_hint_cancel(
    hint: Option<&Hint>,
    error: Option<&mut *mut ErrorObject>,
) -> c_int {
    guarded(error, -1, || {
        let (opened, id) = own(&handle("the hint", hint)?.0)?;
        if let Some(id) = id {
            opened.file.cancel(*id);
        }
        Ok(0)
    })
}

/// Frees the handle of a hint, which remains given. NULL does nothing.
#[unsafe(no_mangle)]
pub extern "C" fn hither_hint_free(hint: Option<Box<Hint>>) {
    free(hint);
}
