//! The space that files below a directory use.

use crate::backend::path::PRIVATE;
use crate::lots::accounts::Space;
use std::fmt::Debug;
use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};

/// The maximum depth of nested directories.
const MAX_DEPTH: usize = 128;

/// Counts files.
pub(crate) trait UsageCounter: Send + Sync + Debug {
    /// Space at and below a path; none if it does not exist.
    fn below(&self, path: &str) -> io::Result<Space>;
}

/// Files below a local directory. Symbolic links count as empty files. They are not followed, and
/// none may be on the way to the path: the same file would belong to two lots.
#[derive(Debug)]
pub(crate) struct DirectoryUsage(pub(crate) PathBuf);

impl UsageCounter for DirectoryUsage {
    fn below(&self, path: &str) -> io::Result<Space> {
        let mut current = self.0.clone();
        for name in path.split('/').filter(|name| !name.is_empty()) {
            current.push(name);
            match metadata(&current)? {
                None => return Ok(Space::default()),
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

fn count(path: &Path, depth: usize) -> io::Result<Space> {
    let Some(meta) = metadata(path)? else { return Ok(Space::default()) };
    if meta.is_file() {
        return Ok(Space::of_file(meta.len()));
    }
    let mut space = Space::of_name();
    if !meta.is_dir() || depth == 0 {
        return Ok(space);
    }
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        // Unnamed files are pending; the files of the lots themselves belong to none.
        if !entry.file_name().as_encoded_bytes().starts_with(PRIVATE.as_bytes()) {
            space = space + count(&entry.path(), depth - 1)?;
        }
    }
    Ok(space)
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
    fn files_count_in_blocks_and_all_names_count() {
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
        for (path, bytes, files) in [
            ("", 12_288, 8),
            ("a", 12_288, 5),
            ("a/b", 8_192, 3),
            ("a/one", 4_096, 1),
            ("empty", 0, 1),
            ("no/where", 0, 0),
            ("a/one/x", 0, 0),
        ] {
            assert_eq!(usage.below(path).unwrap(), Space { bytes, files }, "{path}");
        }
        assert!(usage.below("link/b").is_err());
    }
}
