//! Files and directories that are written, renamed and removed, and checksums.

use crate::client::{Client, with_client};
use crate::entry::Entry;
use crate::error::ErrorObject;
use crate::foreign::{bytes, c_string, invalid, text};
use hither::{Error, ErrorKind, Replaceable};
use std::ffi::{c_char, c_int, c_void};
use std::path::Path;

/// Runs an operation without a result. Returns 0, -1 after an error.
fn run(
    client: Option<&Client>,
    error: Option<&mut *mut ErrorObject>,
    body: impl FnOnce(&hither::Client) -> Result<(), Error>,
) -> c_int {
    with_client(client, error, -1, |client| body(client).map(|()| 0))
}

/// Writes `length` bytes to the file at `url`, which appears when it is complete. If there is a
/// file, replaces it if `overwrite` is true, else fails. Returns 0, -1 after an error.
#[unsafe(no_mangle)]
pub extern "C" fn hither_put(
    client: Option<&Client>,
    url: *const c_char,
    data: *const c_void,
    length: usize,
    overwrite: bool,
    error: Option<&mut *mut ErrorObject>,
) -> c_int {
    put(client, url, (data, length), || overwrite.into(), error)
}

/// Writes as hither_put does if the file at `url` is still the one that `expected` describes, an
/// entry of hither_stat; if `expected` is NULL, if there is none. Else nothing is written, and the
/// error is of HITHER_KIND_CHANGED or HITHER_KIND_ALREADY_EXISTS. The server compares where it can
/// (If-Match, If-None-Match), else the library does so just before. Returns 0, -1 after an error.
#[unsafe(no_mangle)]
pub extern "C" fn hither_put_if(
    client: Option<&Client>,
    url: *const c_char,
    data: *const c_void,
    length: usize,
    expected: Option<&Entry>,
    error: Option<&mut *mut ErrorObject>,
) -> c_int {
    put(client, url, (data, length), || replaceable(expected), error)
}

fn put(
    client: Option<&Client>,
    url: *const c_char,
    (data, length): (*const c_void, usize),
    replaceable: impl FnOnce() -> Replaceable,
    error: Option<&mut *mut ErrorObject>,
) -> c_int {
    run(client, error, |client| {
        let url = text("the URL", url)?;
        // The library owns what it sends, because connections send it from other threads.
        let data = bytes("the data", data, length)?.to_vec();
        client.block_on(client.put(url, data.into(), replaceable())).map(drop)
    })
}

/// Copies the local file `path` to exactly `url`, in parallel pieces, and compares checksums. If
/// there is a file, replaces it if `overwrite` is true, else fails. Returns 0, -1 after an error.
#[unsafe(no_mangle)]
pub extern "C" fn hither_put_file(
    client: Option<&Client>,
    url: *const c_char,
    path: *const c_char,
    overwrite: bool,
    error: Option<&mut *mut ErrorObject>,
) -> c_int {
    put_file(client, url, path, || overwrite.into(), error)
}

/// Copies as hither_put_file does, under the condition of hither_put_if. Returns 0, -1 after an
/// error.
#[unsafe(no_mangle)]
pub extern "C" fn hither_put_file_if(
    client: Option<&Client>,
    url: *const c_char,
    path: *const c_char,
    expected: Option<&Entry>,
    error: Option<&mut *mut ErrorObject>,
) -> c_int {
    put_file(client, url, path, || replaceable(expected), error)
}

fn put_file(
    client: Option<&Client>,
    url: *const c_char,
    path: *const c_char,
    replaceable: impl FnOnce() -> Replaceable,
    error: Option<&mut *mut ErrorObject>,
) -> c_int {
    run(client, error, |client| {
        let path = Path::new(text("the path", path)?);
        client.block_on(client.put_file(text("the URL", url)?, path, replaceable())).map(drop)
    })
}

/// The version that an entry describes; without one, none.
fn replaceable(expected: Option<&Entry>) -> Replaceable {
    expected.map_or(Replaceable::Nothing, |entry| Replaceable::Version(entry.known.clone()))
}

/// Copies the file at `url` to exactly the local file `path`, in parallel pieces, and compares
/// checksums. If there is a file, replaces it if `overwrite` is true, else fails. Returns 0, -1
/// after an error.
#[unsafe(no_mangle)]
pub extern "C" fn hither_get_file(
    client: Option<&Client>,
    url: *const c_char,
    path: *const c_char,
    overwrite: bool,
    error: Option<&mut *mut ErrorObject>,
) -> c_int {
    run(client, error, |client| {
        let path = Path::new(text("the path", path)?);
        client.block_on(client.get_file(text("the URL", url)?, path, overwrite)).map(drop)
    })
}

/// Makes a directory. Returns 0, -1 after an error.
#[unsafe(no_mangle)]
pub extern "C" fn hither_mkdir(
    client: Option<&Client>,
    url: *const c_char,
    error: Option<&mut *mut ErrorObject>,
) -> c_int {
    run(client, error, |client| {
        let at = client.storage_path(text("the URL", url)?)?;
        client.block_on(at.storage.make_directory(&at.path))
    })
}

/// Removes a file or directory; a directory that is not empty only if `recursive` is true. Returns
/// 0, -1 after an error.
#[unsafe(no_mangle)]
pub extern "C" fn hither_remove(
    client: Option<&Client>,
    url: *const c_char,
    recursive: bool,
    error: Option<&mut *mut ErrorObject>,
) -> c_int {
    run(client, error, |client| {
        let at = client.storage_path(text("the URL", url)?)?;
        if at.path.is_empty() {
            return Err(invalid("the root of a server cannot be removed"));
        }
        if recursive {
            client.block_on(at.storage.remove_tree(&at.path))
        } else {
            client.block_on(at.storage.remove(&at.path))
        }
    })
}

/// Renames a file or directory on its server. If there is something of the new name, replaces it if
/// `overwrite` is true, else fails. Returns 0, -1 after an error.
#[unsafe(no_mangle)]
pub extern "C" fn hither_rename(
    client: Option<&Client>,
    from: *const c_char,
    to: *const c_char,
    overwrite: bool,
    error: Option<&mut *mut ErrorObject>,
) -> c_int {
    run(client, error, |client| {
        let from = client.storage_path(text("the old URL", from)?)?;
        let to = client.storage_path(text("the new URL", to)?)?;
        if from.server != to.server {
            let what = "the two names are on different servers: copy, then remove";
            return Err(Error::new(ErrorKind::Unsupported, what));
        }
        client.block_on(from.storage.rename(&from.path, &to.path, overwrite))
    })
}

/// Returns the checksum of a file as "ALGORITHM:HEX": the server's, else computed from the bytes.
/// `algorithm` is adler32, crc32c, md5, sha256 or sha512. Free the text with hither_string_free.
/// Returns NULL after an error.
#[unsafe(no_mangle)]
pub extern "C" fn hither_checksum(
    client: Option<&Client>,
    url: *const c_char,
    algorithm: *const c_char,
    error: Option<&mut *mut ErrorObject>,
) -> *mut c_char {
    with_client(client, error, std::ptr::null_mut(), |client| {
        let algorithm = text("the algorithm", algorithm)?.parse()?;
        let checksum = client.block_on(client.checksum(text("the URL", url)?, algorithm))?;
        Ok(c_string(&checksum.value.to_string()).into_raw())
    })
}
