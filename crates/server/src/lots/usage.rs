//! The space that files below a directory use.

use crate::backend::path::PRIVATE;
use crate::lots::accounts::footprint;
use std::fmt::Debug;
use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};

/// The maximum depth of nested directories.
const MAX_DEPTH: usize = 128;

/// Counts files.
pub(crate) trait UsageCounter: Send + Sync + Debug {
    /// Bytes at and below a path, in whole blocks; 0 if nothing is there.
    fn below(&self, path: &str) -> io::Result<u64>;
}

/// Files below a local directory. Symbolic links are neither followed nor counted, and none may be
/// on the way to the path: the same file would belong to two lots.
#[derive(Debug)]
pub(crate) struct DirectoryUsage(pub(crate) PathBuf);

impl UsageCounter for DirectoryUsage {
    fn below(&self, path: &str) -> io::Result<u64> {
        let mut current = self.0.clone();
        for name in path.split('/').filter(|name| !name.is_empty()) {
            current.push(name);
            match metadata(&current)? {
                None => return Ok(0),
                Some(meta) if meta.is_symlink() => {
                    let what = "the path contains a symbolic link";
                    return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
                }
                Some(_) => {}
            }
        }
        count(&current, MAX_DEPTH)
    }
}

fn count(path: &Path, depth: usize) -> io::Result<u64> {
    let Some(meta) = metadata(path)? else { return Ok(0) };
    if meta.is_file() {
        return Ok(footprint(meta.len()));
    }
    if !meta.is_dir() || depth == 0 {
        return Ok(0);
    }
    let mut bytes: u64 = 0;
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        // Unnamed files are pending; the files of the lots themselves belong to none.
        if !entry.file_name().as_encoded_bytes().starts_with(PRIVATE.as_bytes()) {
            bytes = bytes.saturating_add(count(&entry.path(), depth - 1)?);
        }
    }
    Ok(bytes)
}

/// Returns none if the file was removed meanwhile.
fn metadata(path: &Path) -> io::Result<Option<Metadata>> {
    match fs::symlink_metadata(path) {
        Ok(meta) => Ok(Some(meta)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_count_in_blocks_and_links_do_not() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir_all(at("a/b")).unwrap();
        fs::write(at("a/one"), [0; 1]).unwrap();
        fs::write(at("a/b/more"), [0; 4097]).unwrap();
        fs::write(at("empty"), []).unwrap();
        fs::write(at("a/.hither-put-1"), [0; 9]).unwrap();
        std::os::unix::fs::symlink(at("a"), at("a/b/link")).unwrap();
        std::os::unix::fs::symlink(at("a"), at("link")).unwrap();
        let usage = DirectoryUsage(folder.path().to_owned());
        for (path, bytes) in [
            ("", 12_288),
            ("a", 12_288),
            ("a/b", 8_192),
            ("a/one", 4_096),
            ("empty", 0),
            ("no/where", 0),
            ("a/one/x", 0),
        ] {
            assert_eq!(usage.below(path).unwrap(), bytes, "{path}");
        }
        assert!(usage.below("link/b").is_err());
    }
}
