//! What a path in a storage may be.

use crate::error::{Error, ErrorKind, Result};

const BEFORE: &str = ".hither-";
const AFTER: &str = ".part";
const DIGITS: usize = 16;

/// Fails for what is no path of a storage: a slash at either end, an empty component, `.` or `..`, NUL. The empty path is
/// the root.
///
/// # Errors
///
/// [`ErrorKind::Invalid`], saying what is wrong.
pub fn check_path(path: &str) -> Result<()> {
    let wrong = if path.is_empty() {
        None
    } else if path.contains('\0') {
        Some("contains a NUL")
    } else if path.starts_with('/') || path.ends_with('/') {
        Some("begins or ends with a slash")
    } else {
        path.split('/').find_map(|component| match component {
            "" => Some("contains an empty name"),
            "." | ".." => Some("contains \".\" or \"..\""),
            _ => None,
        })
    };
    wrong.map_or(Ok(()), |wrong| {
        Err(Error::new(ErrorKind::Invalid, format!("the path {path:?} {wrong}")))
    })
}

/// The name, beside that of the file, under which a file lies while it is written. `number` tells uploads apart.
#[must_use]
pub fn unfinished_name(number: u64) -> String {
    format!("{BEFORE}{number:0DIGITS$x}{AFTER}")
}

/// Whether the last component of `path` is one that [`unfinished_name`] makes: what an interrupted upload left, or one
/// that is under way. Copies leave it out.
#[must_use]
pub fn is_unfinished(path: &str) -> bool {
    let name = path.rsplit_once('/').map_or(path, |(_, name)| name);
    name.strip_prefix(BEFORE).and_then(|rest| rest.strip_suffix(AFTER)).is_some_and(|digits| {
        digits.len() == DIGITS && digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_below_the_root() {
        for path in ["", "a", "a/b c", "a/...", ".a/b", "ü/\u{1}"] {
            assert!(check_path(path).is_ok(), "{path:?}");
        }
        for path in ["/", "/a", "a/", "a//b", ".", "a/..", "../a", "a/./b", "a\0b"] {
            assert_eq!(check_path(path).unwrap_err().kind(), ErrorKind::Invalid, "{path:?}");
        }
    }

    #[test]
    fn unfinished_files_are_told_by_their_names() {
        let name = unfinished_name(0xabc);
        assert!(is_unfinished(&name) && is_unfinished(&format!("dir/{name}")));
        for name in ["", "x.part", ".hither-.part", ".hither-00000000000000zz.part", ".hither"] {
            assert!(!is_unfinished(name), "{name:?}");
        }
    }
}
