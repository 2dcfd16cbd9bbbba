//! Records of the links that are up: one folder each under `/run/hither-wan`.
//!
//! | file | content |
//! |---|---|
//! | `lock` | held while links are brought up or taken down |
//! | `NAME/link.json` | [`LinkRecord`]: the requested link |
//! | `NAME/pid` | the forwarder's process |
//! | `NAME/control.sock` | the forwarder's control socket |
//! | `NAME/log` | the forwarder's error output |

use crate::error::local;
use hither_core::{Error, ErrorKind, Result};
use hither_netem::link::Link;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

const RUNTIME: &str = "/run/hither-wan";

/// Maximum length of a link's name: its namespaces are `hw-NAME-c` and `hw-NAME-s`.
const MAX_NAME: usize = 32;

/// The record of a link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LinkRecord {
    /// Its name.
    pub name: String,
    /// Its description.
    pub link: Link,
    /// Congestion control of both ends.
    pub congestion: String,
    /// TUN devices pass runs of segments uncut.
    pub offload: bool,
    /// Third byte of its addresses.
    pub subnet: u8,
    /// Process whose exit removes the link.
    pub owner: Option<i32>,
    /// A token that distinguishes this link from an earlier one of the same name.
    pub token: u64,
}

impl LinkRecord {
    /// The client's address.
    #[must_use]
    pub fn client(&self) -> Ipv4Addr {
        Ipv4Addr::new(10, 77, self.subnet, 1)
    }

    /// The server's address.
    #[must_use]
    pub fn server(&self) -> Ipv4Addr {
        Ipv4Addr::new(10, 77, self.subnet, 2)
    }
}

/// Checks that `name` can be part of file and namespace names.
///
/// # Errors
/// [`ErrorKind::Invalid`] if it is empty, too long, or contains anything but letters, digits, `-`
/// and `_`.
pub fn check_name(name: &str) -> Result<()> {
    let good = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(good) {
        return Err(Error::new(
            ErrorKind::Invalid,
            format!(
                "link name {name:?}: expected 1 to {MAX_NAME} letters, digits, dashes or \
                 underscores"
            ),
        ));
    }
    Ok(())
}

/// The folder of a link.
#[must_use]
pub fn folder(name: &str) -> PathBuf {
    Path::new(RUNTIME).join(name)
}

/// Holds the lock over all links until dropped.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

/// Waits for the lock over all links.
///
/// # Errors
/// The runtime folder cannot be written, which needs root.
pub fn lock() -> Result<Lock> {
    let path = Path::new(RUNTIME).join("lock");
    let file = fs::create_dir_all(RUNTIME).and_then(|()| File::create(&path)).map_err(|error| {
        local(format!("cannot write {}, this needs root", path.display())).with_source(error)
    })?;
    flock(&file, FlockOperation::LockExclusive)
        .map_err(|error| local(format!("cannot lock {}", path.display())).with_source(error))?;
    Ok(Lock { _file: file })
}

/// Writes the record of a link; creates its folder.
///
/// # Errors
/// The runtime folder cannot be written.
pub fn save(saved: &LinkRecord) -> Result<()> {
    let folder = folder(&saved.name);
    let text = serde_json::to_string_pretty(saved)
        .map_err(|error| local("cannot write the link as json").with_source(error))?;
    fs::create_dir_all(&folder)
        .and_then(|()| fs::write(folder.join("link.json"), text))
        .map_err(|error| local(format!("cannot write {}", folder.display())).with_source(error))
}

/// The record of a link; `None` if it is absent or unreadable, as after a crash while writing.
#[must_use]
pub fn load(name: &str) -> Option<LinkRecord> {
    serde_json::from_slice(&fs::read(folder(name).join("link.json")).ok()?).ok()
}

/// The names of all links with a folder or a namespace, sorted.
///
/// # Errors
/// `ip` cannot be run.
pub fn names() -> Result<Vec<String>> {
    let mut names: Vec<String> = fs::read_dir(RUNTIME)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.path().is_dir())
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    for line in crate::namespace::ip(&["netns", "list"])?.lines() {
        let namespace = line.split_whitespace().next().unwrap_or_default();
        let name = namespace
            .strip_prefix("hw-")
            .and_then(|it| it.strip_suffix("-c").or_else(|| it.strip_suffix("-s")));
        names.extend(name.map(ToOwned::to_owned));
    }
    names.retain(|name| check_name(name).is_ok());
    names.sort();
    names.dedup();
    Ok(names)
}

/// An unused subnet; hold the lock until the record is saved.
///
/// # Errors
/// All 254 are in use.
pub fn free_subnet() -> Result<u8> {
    let used: Vec<u8> =
        names()?.iter().filter_map(|name| load(name)).map(|saved| saved.subnet).collect();
    (1..255).find(|subnet| !used.contains(subnet)).ok_or_else(|| {
        local("saw 254 links up, expected a free subnet; take some down with hither-wan down")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_leave_the_folder() {
        for name in ["", ".", "..", "a/b", "a b", "é", &"x".repeat(33)] {
            assert!(check_name(name).is_err(), "{name:?}");
        }
        assert!(check_name("G-bbr_2").is_ok());
    }
}
