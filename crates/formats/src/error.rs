//! Errors of a file: which part of it is wrong, and how.

use hither_core::ErrorKind;
use hither_core::error::suggest::Suggestion;

/// A result with this crate's [`FormatError`].
pub type Result<T, E = FormatError> = std::result::Result<T, E>;

/// Reason why a file, a tree or a branch cannot be read.
///
/// Converts into [`hither_core::Error`] for other crates; its [`hither_core::ErrorKind`] determines
/// the exit code.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// The file does not begin like a ROOT file: probably an error page, or another format.
    #[error("not a ROOT file: it begins with {seen}, expected `root` and a version number")]
    NotRoot {
        /// The first bytes, as text if they are text.
        seen: String,
    },
    /// The bytes violate the format, or contradict each other.
    #[error("{what} is corrupt: {why}")]
    Corrupt {
        /// The part of the file.
        what: String,
        /// The bytes found, and those expected.
        why: String,
    },
    /// Bytes are missing at the end; the file may still be open for writing, or was copied
    /// partially.
    #[error("{what} is cut off: {needed} bytes are needed, {available} are there")]
    Truncated {
        /// The part of the file.
        what: String,
        /// Number of bytes needed.
        needed: u64,
        /// Number of bytes present.
        available: u64,
    },
    /// A branch of a type that this crate cannot decode.
    #[error("branch `{branch}` of type `{type_name}` is unsupported: {why}")]
    Unsupported {
        /// Path of the branch.
        branch: String,
        /// Its C++ type, as far as known.
        type_name: String,
        /// The missing feature, and an alternative if there is one.
        why: String,
    },
    /// A feature of a file or object that this crate cannot read.
    #[error("unsupported: {what}")]
    UnsupportedFeature {
        /// The feature.
        what: String,
    },
    /// There is no object of that name.
    #[error("no {kind} `{name}`{suggestion}")]
    NotFound {
        /// The kind of object: `tree`, `branch`, `directory`.
        kind: &'static str,
        /// The requested name.
        name: String,
        /// Names that exist.
        suggestion: Suggestion,
    },
    /// The file has no tree, and the caller named none.
    #[error("no tree in this file{suggestion}")]
    NoTree {
        /// The other objects, with their classes.
        suggestion: Suggestion,
    },
    /// There are several objects, and the caller named none of them.
    #[error("which {kind}? {}", listed(.choices))]
    Several {
        /// The kind of object: `tree`, `RNTuple`, `branch`.
        kind: &'static str,
        /// The names to choose from.
        choices: Vec<String>,
    },
    /// The caller's arguments contradict each other.
    #[error("{what}")]
    Invalid {
        /// The contradiction.
        what: String,
    },
}

impl FormatError {
    pub(crate) fn corrupt(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self::Corrupt { what: what.into(), why: why.into() }
    }

    /// The error kind on which callers decide.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NotRoot { .. } | Self::Corrupt { .. } | Self::Truncated { .. } => {
                ErrorKind::Corrupt
            }
            Self::Unsupported { .. } | Self::UnsupportedFeature { .. } => ErrorKind::Unsupported,
            Self::NotFound { .. } | Self::NoTree { .. } => ErrorKind::NotFound,
            Self::Several { .. } | Self::Invalid { .. } => ErrorKind::Invalid,
        }
    }
}

impl From<FormatError> for hither_core::Error {
    fn from(error: FormatError) -> Self {
        let whole = Self::new(error.kind(), error.to_string());
        match error {
            // Bindings use the source: to distinguish a missing name in a file from a missing file,
            // and for the branch that is unsupported.
            FormatError::NotFound { .. }
            | FormatError::NoTree { .. }
            | FormatError::Unsupported { .. } => whole.with_source(error),
            _ => whole,
        }
    }
}

/// Maximum number of names that an error message lists.
const LISTED: usize = 20;

fn listed(names: &[String]) -> String {
    let shown = names.iter().take(LISTED).map(|name| format!("`{name}`")).collect::<Vec<_>>();
    let rest = names.len().saturating_sub(LISTED);
    let more = if rest > 0 { format!(" and {rest} more") } else { String::new() };
    format!("there are {}{more}", shown.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_for_an_unknown_name_suggests_similar_ones() {
        let suggestion = Suggestion::similar("e33", ["E33", "rawtr"]);
        let error = FormatError::NotFound { kind: "branch", name: "e33".into(), suggestion };
        assert_eq!(error.to_string(), "no branch `e33`; did you mean `E33`?");
        assert_eq!(hither_core::Error::from(error).kind(), ErrorKind::NotFound);
    }

    #[test]
    fn long_lists_are_cut() {
        let choices = (0..30).map(|i| i.to_string()).collect();
        let text = FormatError::Several { kind: "tree", choices }.to_string();
        assert!(text.ends_with("`19` and 10 more"), "{text}");
    }
}
