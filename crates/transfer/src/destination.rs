//! Sources, destination and target paths of a copy.
//!
//! As in `cp`: a source goes *into* a destination that is a directory, under its own last name, and
//! becomes the destination where there is nothing of that name. A destination that ends with a
//! slash is meant as a directory, and made if it is not there; so is one that takes several
//! sources. `.` at the end of a source directory means its contents.
//!
//! Names come from servers, so they are checked before they become part of a local path: `..`, the
//! empty name and names with a slash or NUL would lead out of the destination.

pub(crate) mod folding;

use hither_core::{Error, ErrorKind, Result, Storage};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A name in a storage.
#[derive(Debug, Clone)]
pub struct CopyPath {
    /// The storage that has the name.
    pub storage: Arc<dyn Storage>,
    /// The name, from the storage's root.
    pub path: String,
    /// The local path, if the name is on this machine.
    pub local: Option<PathBuf>,
    /// Written with a slash at the end: a directory is meant.
    pub is_directory: bool,
    /// Written with `/.` at the end: the contents of the directory are meant, not the directory.
    pub contents: bool,
}

/// The destination of a copy.
#[derive(Debug, Clone)]
pub enum Destination {
    /// A file or directory.
    Path(CopyPath),
    /// A file of exactly this name, also if a directory has that name.
    File(CopyPath),
    /// The standard output: the bytes of files, one after the other.
    Output,
    /// No target: all bytes are fetched and discarded.
    Discard,
}

/// The target of one file or directory.
#[derive(Debug, Clone)]
pub(crate) enum Target {
    Local(PathBuf),
    Remote(Arc<dyn Storage>, String),
    Output,
    Discard,
}

impl CopyPath {
    /// For messages and the journal.
    pub(crate) fn name(&self) -> String {
        match &self.local {
            Some(path) => path.display().to_string(),
            None => remote_name(&*self.storage, &self.path),
        }
    }

    /// The path of the name `relative` below it, and its local path.
    #[must_use]
    pub fn below(&self, relative: &str) -> (String, Option<PathBuf>) {
        let path = if relative.is_empty() {
            self.path.clone()
        } else {
            hither_core::storage::join(&self.path, relative)
        };
        (path, self.local.as_ref().map(|local| local.join(relative)))
    }

    /// The last component; none for a root.
    pub(crate) fn last_name(&self) -> Option<&str> {
        self.path.rsplit('/').next().filter(|name| !name.is_empty())
    }

    pub(crate) fn target(&self) -> Target {
        match &self.local {
            Some(path) => Target::Local(path.clone()),
            None => Target::Remote(Arc::clone(&self.storage), self.path.clone()),
        }
    }
}

impl Destination {
    /// The target of `source`: below the destination if that is a directory that takes it in
    /// (`into`), else the destination itself.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] if the source has no name of its own to go by.
    pub(crate) fn target(&self, source: &CopyPath, into: bool) -> Result<Target> {
        match self {
            Self::Output => Ok(Target::Output),
            Self::Discard => Ok(Target::Discard),
            Self::File(place) => Ok(place.target()),
            Self::Path(place) if !into || source.contents => Ok(place.target()),
            Self::Path(place) => {
                let name = source.last_name().ok_or_else(|| {
                    Error::new(
                        ErrorKind::Invalid,
                        format!("{} has no name: write {0}/. to copy its contents", source.name()),
                    )
                })?;
                place.target().join(name)
            }
        }
    }

    pub(crate) fn name(&self) -> String {
        match self {
            Self::Path(place) | Self::File(place) => place.name(),
            Self::Output => "-".to_owned(),
            Self::Discard => "/dev/null".to_owned(),
        }
    }
}

impl Target {
    /// The target of `name` below this one.
    pub(crate) fn join(&self, name: &str) -> Result<Self> {
        if matches!(name, "" | "." | "..") || name.contains(['/', '\0']) {
            return Err(Error::new(
                ErrorKind::Protocol,
                format!("listed name {name:?} is not valid, left out"),
            ));
        }
        Ok(match self {
            Self::Local(path) => Self::Local(path.join(name)),
            Self::Remote(storage, path) if path.is_empty() => {
                Self::Remote(Arc::clone(storage), name.to_owned())
            }
            Self::Remote(storage, path) => {
                Self::Remote(Arc::clone(storage), format!("{path}/{name}"))
            }
            Self::Output => Self::Output,
            Self::Discard => Self::Discard,
        })
    }

    pub(crate) fn name(&self) -> String {
        match self {
            Self::Local(path) => path.display().to_string(),
            Self::Remote(storage, path) => remote_name(&**storage, path),
            Self::Output => "-".to_owned(),
            Self::Discard => "/dev/null".to_owned(),
        }
    }

    /// The name of its server, or of this machine.
    pub(crate) fn server(&self) -> String {
        match self {
            Self::Remote(storage, _) => storage.name(),
            Self::Local(_) | Self::Output | Self::Discard => "local".to_owned(),
        }
    }

    /// The directory of a local target.
    pub(crate) fn folder(&self) -> Option<&Path> {
        match self {
            Self::Local(path) => {
                let folder = path.parent()?;
                Some(if folder.as_os_str().is_empty() { Path::new(".") } else { folder })
            }
            _ => None,
        }
    }
}

pub(crate) fn remote_name(storage: &dyn Storage, path: &str) -> String {
    let root = storage.name();
    format!("{}/{path}", root.trim_end_matches('/'))
}
