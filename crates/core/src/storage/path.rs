//! Rules for paths in a storage.

use crate::error::{Error, ErrorKind, Result};
use std::fmt::Display;
use std::hash::{BuildHasher, Hash, RandomState};

const BEFORE: &str = ".hither-";
const AFTER: &str = ".part";
const DIGITS: usize = 16;
const PARTIAL_BYTES: usize = BEFORE.len() + DIGITS + AFTER.len();

/// Ends of the names of files that servers send as HTML pages.
const PAGES: [&str; 9] = ["html", "htm", "xhtml", "shtml", "php", "asp", "aspx", "jsp", "cgi"];

/// Fails for a path that is invalid in a storage: a slash at either end, an empty component, `.` or
/// `..`, NUL. The empty path is the root.
///
/// # Errors
///
/// [`ErrorKind::Invalid`], with the reason.
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

/// Fails for a path that cannot be written, removed or renamed: one that [`check_path`] refuses, or
/// the root of `storage`.
///
/// # Errors
///
/// [`ErrorKind::Invalid`], with the reason.
pub fn check_name(path: &str, storage: &dyn Display) -> Result<()> {
    check_path(path)?;
    if path.is_empty() {
        let what = format!("{storage} is the root of the storage: name something in it");
        return Err(Error::new(ErrorKind::Invalid, what));
    }
    Ok(())
}

/// Fails if the entry at `from` cannot be renamed or copied to `to`: for what [`check_name`]
/// refuses, and if both are one path, of which a copy and a removal would leave nothing.
///
/// # Errors
///
/// [`ErrorKind::Invalid`], with the reason.
pub fn check_new_name(from: &str, to: &str, storage: &dyn Display) -> Result<()> {
    check_name(from, storage)?;
    check_name(to, storage)?;
    if from == to {
        let what = format!("{from:?} would replace itself: give it another name");
        return Err(Error::new(ErrorKind::Invalid, what));
    }
    Ok(())
}

/// The directory that a name is in.
#[must_use]
pub fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

/// The last component of a path.
#[must_use]
pub fn file_name(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

/// Returns true if the file at `path` has the name of an HTML page.
#[must_use]
pub fn is_page(path: &str) -> bool {
    let kind = file_name(path).rsplit_once('.').map_or("", |(_, kind)| kind);
    PAGES.iter().any(|page| kind.eq_ignore_ascii_case(page))
}

/// The path of another name in the directory that `path` is in.
#[must_use]
pub fn sibling(path: &str, name: &str) -> String {
    join(parent(path), name)
}

/// The path of a name in a directory.
#[must_use]
pub fn join(directory: &str, name: &str) -> String {
    if directory.is_empty() { name.to_owned() } else { format!("{directory}/{name}") }
}

/// The name under which a file is written in its directory before it gets its own name. `number`
/// distinguishes uploads.
#[must_use]
pub fn partial_name(number: u64) -> String {
    format!("{BEFORE}{number:0DIGITS$x}{AFTER}")
}

/// A [`partial_name`] for `target` that is different at every call, in every process.
#[must_use]
pub fn unique_partial_name(target: impl Hash) -> String {
    // A hasher with random keys: numbers that no other process has.
    partial_name(RandomState::new().hash_one(target))
}

/// Returns true if the last component of `path` is one that [`partial_name`] makes: an upload that
/// was interrupted or is in progress. Copies skip it.
#[must_use]
pub fn is_partial(path: &str) -> bool {
    file_name(path).strip_prefix(BEFORE).and_then(|rest| rest.strip_suffix(AFTER)).is_some_and(
        |digits| {
            digits.len() == DIGITS && digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
        },
    )
}

/// Puts the name of the file at `path` in the place of partial names in the message of an error
/// about its upload: users only know its final name.
#[must_use]
pub fn hide_partial_name(error: Error, path: &str) -> Error {
    error.map_message(|message| {
        let mut shown = String::with_capacity(message.len());
        let mut rest = &*message;
        while let Some((before, from)) = rest.find(BEFORE).and_then(|at| rest.split_at_checked(at))
        {
            let partial = from.get(..PARTIAL_BYTES).filter(|name| is_partial(name));
            shown.push_str(before);
            shown.push_str(partial.map_or(BEFORE, |_| file_name(path)));
            rest = from.get(partial.map_or(BEFORE.len(), str::len)..).unwrap_or_default();
        }
        shown + rest
    })
}

/// `token` if it is only the name of such a file: the token of an upload, and not a path that
/// leaves the directory.
#[must_use]
pub fn partial_token(token: &str) -> Option<&str> {
    (!token.contains('/') && is_partial(token)).then_some(token)
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
    fn the_root_has_no_name() {
        assert!(check_name("a/b", &"there").is_ok());
        for path in ["", "a//b"] {
            assert_eq!(
                check_name(path, &"there").unwrap_err().kind(),
                ErrorKind::Invalid,
                "{path:?}"
            );
        }
        assert!(check_name("", &"there").unwrap_err().to_string().contains("there is the root"));
    }

    #[test]
    fn paths_are_joined_and_split() {
        for (path, directory, name) in [("a/b/c", "a/b", "c"), ("a", "", "a"), ("", "", "")] {
            assert_eq!((parent(path), file_name(path)), (directory, name));
        }
        assert_eq!((sibling("a/b", "c"), sibling("a", "c")), ("a/c".to_owned(), "c".to_owned()));
    }

    #[test]
    fn a_token_names_a_file_in_the_same_directory() {
        let name = partial_name(1);
        assert_eq!(partial_token(&name), Some(&*name));
        for token in [format!("../{name}"), format!("/{name}"), "x".to_owned(), String::new()] {
            assert_eq!(partial_token(&token), None);
        }
    }

    #[test]
    fn errors_name_a_file_and_not_its_partial_name() {
        let partial = partial_name(7);
        for (message, shown) in [
            (format!("http://h/d/{partial}: 507"), "http://h/d/f: 507".to_owned()),
            (format!("{partial} to {partial}"), "f to f".to_owned()),
            (".hither-x.part, .hither-é".to_owned(), ".hither-x.part, .hither-é".to_owned()),
            (format!(".hither-{partial}"), ".hither-f".to_owned()),
        ] {
            let error = hide_partial_name(Error::new(ErrorKind::NoSpace, message), "d/f");
            assert_eq!((error.kind(), error.to_string()), (ErrorKind::NoSpace, shown));
        }
    }

    #[test]
    fn partial_files_are_recognized_by_name() {
        let name = partial_name(0xabc);
        assert!(is_partial(&name) && is_partial(&format!("dir/{name}")));
        for name in ["", "x.part", ".hither-.part", ".hither-00000000000000zz.part", ".hither"] {
            assert!(!is_partial(name), "{name:?}");
        }
    }
}
