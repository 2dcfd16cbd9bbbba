//! The names in a directory, and the names missing from its listing.

use super::{DirEntry, FileKind};
use crate::{Error, ErrorKind, Result};

/// The names in a directory, as far as its server shows them. Nothing may be concluded from a name
/// that is absent unless the listing [is complete](Listing::is_complete).
#[derive(Debug, Clone, Default)]
pub struct Listing {
    /// The names that can be used.
    pub entries: Vec<DirEntry>,
    /// Names that are listed and cannot be used, each as its path with the reason.
    pub failed: Vec<(String, Error)>,
    /// Parts of the listing that could not be read: they may have any names.
    pub gaps: Vec<Error>,
    /// The reason why the server may have names that it does not list, where its listings omit
    /// some.
    pub hidden: Option<&'static str>,
}

impl From<Vec<DirEntry>> for Listing {
    /// A complete listing.
    fn from(entries: Vec<DirEntry>) -> Self {
        Self { entries, ..Self::default() }
    }
}

impl Listing {
    /// Returns true if the entries are all names of the directory.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        let is_named = |entry: &DirEntry| entry.kind != FileKind::Unnamed;
        let is_whole = self.failed.is_empty() && self.gaps.is_empty() && self.hidden.is_none();
        is_whole && self.entries.iter().all(is_named)
    }

    /// The entries for a caller that shows them: names that cannot be used are of
    /// [`FileKind::Other`].
    ///
    /// # Errors
    /// That of a part of the listing that could not be read.
    pub fn into_entries(self) -> Result<Vec<DirEntry>> {
        if let Some(gap) = self.gaps.into_iter().next() {
            return Err(gap);
        }
        let mut entries = self.entries;
        let unknown = |path| DirEntry { size: None, ..DirEntry::new(path, FileKind::Other, 0) };
        entries.extend(self.failed.into_iter().map(|(path, _)| unknown(path)));
        entries.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(entries)
    }

    /// The same listing with each entry replaced by the result of `change`.
    #[must_use]
    pub fn map(self, change: impl FnMut(DirEntry) -> DirEntry) -> Self {
        Self { entries: self.entries.into_iter().map(change).collect(), ..self }
    }

    /// Adds another part of the same directory's listing.
    pub fn append(&mut self, other: Self) {
        self.entries.extend(other.entries);
        self.failed.extend(other.failed);
        self.gaps.extend(other.gaps);
        self.hidden = self.hidden.or(other.hidden);
    }
}

impl DirEntry {
    /// This entry as one whose name is not UTF-8.
    #[must_use]
    pub fn into_unnamed(self) -> Self {
        let size = self.size.filter(|_| self.kind != FileKind::Directory);
        Self { kind: FileKind::Unnamed, size, validator: None, ..self }
    }

    /// Fails for an entry that cannot be opened because its name is not UTF-8.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if it may be a directory.
    pub fn check_reachable(&self) -> Result<()> {
        if self.kind != FileKind::Unnamed || self.size.is_some() {
            return Ok(());
        }
        let path = &self.path;
        let what = format!("{path}: the name is not UTF-8: what it has is not known: rename it");
        Err(Error::new(ErrorKind::Unsupported, what))
    }
}
