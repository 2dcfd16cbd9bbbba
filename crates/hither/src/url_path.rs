//! The paths that URLs name, and the refusal of one that is a directory.

use hither_core::error::{Error, ErrorKind, Result};
use hither_core::storage::{FileKind, check_path};
use percent_encoding::percent_decode_str;
use std::fmt::Display;

/// The path of a URL in its storage.
pub(crate) fn decoded(path: &str) -> Result<String> {
    let mut names = Vec::new();
    for name in path.split('/').filter(|name| !name.is_empty()) {
        let name = percent_decode_str(name).decode_utf8().map_err(|_| {
            Error::new(ErrorKind::Invalid, format!("{name:?} is not UTF-8 when decoded"))
        })?;
        if name.contains('/') {
            let what = format!("{name:?} contains an encoded slash, which names cannot have");
            return Err(Error::new(ErrorKind::Invalid, what));
        }
        names.push(name);
    }
    let path = names.join("/");
    check_path(&path)?;
    Ok(path)
}

/// Fails for a directory where a file is expected.
pub(crate) fn refuse_directory(kind: FileKind, place: impl Display) -> Result<()> {
    if kind != FileKind::Directory {
        return Ok(());
    }
    let what = format!("{place} is a directory: list it with ls, copy it with cp -r");
    Err(Error::new(ErrorKind::Invalid, what))
}
