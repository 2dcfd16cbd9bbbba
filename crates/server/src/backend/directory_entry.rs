//! An entry of a directory, and names that no request can address.

use crate::backend::path::encoded_name;
use crate::backend::{BackendError, EntryDescription};
use std::str::from_utf8;

/// The description of an entry, or the reason why it can only be named.
pub type Described = Result<EntryDescription, BackendError>;

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// The name, without slashes; as the path of a URL has it if there is a `refusal`.
    pub name: String,
    /// True for a directory itself, false for a link to one.
    pub is_directory: bool,
    /// The reason why requests for this name fail. The name is listed with it, so that clients know
    /// that it exists.
    pub refusal: Option<&'static str>,
}

/// The entries of a directory, in the order of their names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DirectoryListing {
    /// The entries that clients may see.
    pub entries: Vec<DirectoryEntry>,
    /// True if there may be more, because they come from a listing that may hide names.
    pub hides_names: bool,
}

impl From<Vec<DirectoryEntry>> for DirectoryListing {
    /// A listing that hides nothing.
    fn from(entries: Vec<DirectoryEntry>) -> Self {
        Self { entries, hides_names: false }
    }
}

impl DirectoryEntry {
    /// The entry with these bytes as its name.
    #[must_use]
    pub fn new(name: &[u8], is_directory: bool) -> Self {
        match from_utf8(name) {
            Err(_) => Self::refused(name, is_directory, "the name is not UTF-8: rename it"),
            Ok(text) if text.chars().any(char::is_control) => {
                Self::refused(name, is_directory, "the name has a control character: rename it")
            }
            Ok(text) => Self { name: text.to_owned(), is_directory, refusal: None },
        }
    }

    /// An entry that is listed with this reason only.
    #[must_use]
    pub fn refused(name: &[u8], is_directory: bool, why: &'static str) -> Self {
        Self { name: encoded_name(name), is_directory, refusal: Some(why) }
    }
}
