//! Dead properties, which clients give to files (RFC 4918 section 4). They are kept in one extended
//! attribute of the file, so that they move with it.

use crate::backend::DeadProperties;
use crate::backend::disk::confined_dir::ConfinedDir;
use crate::backend::disk::metadata::OWN_ATTRIBUTES;
use hither_core::sync::lock;
use hither_http::propfind::{PropertyName, PropertyUpdate};
use rustix::fs::{XattrFlags, fgetxattr, fremovexattr, fsetxattr};
use rustix::io::Errno;
use std::fs::File;
use std::io;

/// The maximum size of the attribute: the limit of the kernel.
const MAX_BYTES: usize = 64 << 10;

fn attribute() -> String {
    format!("{OWN_ATTRIBUTES}properties")
}

/// The properties of a file; empty if there are none, or if they cannot be read.
pub(crate) fn read(file: &File) -> DeadProperties {
    let mut value = vec![0; MAX_BYTES];
    let Ok(length) = fgetxattr(file, &*attribute(), &mut value) else {
        return DeadProperties::new();
    };
    let kept: Vec<(String, String, String)> =
        serde_json::from_slice(value.get(..length).unwrap_or_default()).unwrap_or_default();
    let property = |(namespace, local, value)| (PropertyName { namespace, local }, value);
    kept.into_iter().map(property).collect()
}

/// Changes the properties of a file, one request at a time.
pub(crate) fn change(
    tree: &ConfinedDir,
    path: &str,
    updates: Vec<PropertyUpdate>,
) -> io::Result<()> {
    let _one = lock(&tree.patching);
    let found = tree.find(path)?;
    let mut properties = read(&found.file);
    for update in updates {
        match update {
            PropertyUpdate::Set { name, value } => drop(properties.insert(name, value)),
            PropertyUpdate::Remove(name) => drop(properties.remove(&name)),
        }
    }
    if properties.is_empty() {
        return match fremovexattr(&found.file, &*attribute()) {
            Ok(()) | Err(Errno::NODATA) => Ok(()),
            Err(errno) => Err(errno.into()),
        };
    }
    let kept: Vec<_> =
        properties.iter().map(|(name, value)| (&name.namespace, &name.local, value)).collect();
    let text = serde_json::to_vec(&kept)?;
    match fsetxattr(&found.file, &*attribute(), &text, XattrFlags::empty()) {
        // The attribute is full: for the client that is a lack of space.
        Err(Errno::TOOBIG | Errno::RANGE) => Err(Errno::NOSPC.into()),
        done => Ok(done?),
    }
}
