//! The layer on which a directory lies, from `/proc/self/mountinfo` (proc_pid_mountinfo(5)), and
//! the device below it, if any.

use serde::Serialize;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The layer that is measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Layer {
    /// The type of the file system, for example `ext4` or `fuse.sshfs`.
    pub file_system: String,
    /// `disk`, `memory`, `network`, `fuse`, `overlay`, `device` or `other`.
    pub kind: &'static str,
    /// The mounted device, server or directory, as the kernel shows it.
    pub source: String,
    /// The directory of the mount.
    pub mount_point: PathBuf,
    /// The block device below; none for other layers.
    pub device: Option<PathBuf>,
}

impl Layer {
    /// The layer on which `path` lies.
    pub(super) fn of(path: &Path) -> std::io::Result<Self> {
        let path = fs::canonicalize(path)?;
        let metadata = fs::metadata(&path)?;
        if metadata.rdev() != 0 {
            return Ok(Self {
                file_system: "none".to_owned(),
                kind: "device",
                source: path.display().to_string(),
                mount_point: PathBuf::new(),
                device: block_device(metadata.rdev()),
            });
        }
        let mounts = fs::read("/proc/self/mountinfo")?;
        let mount = mount_of(&String::from_utf8_lossy(&mounts), &path).unwrap_or_default();
        let device = block_device(metadata.dev());
        let kind = kind(&mount.file_system, device.is_some());
        let Mount { file_system, source, mount_point } = mount;
        Ok(Self { file_system, kind, source, mount_point, device })
    }
}

/// The device with this number.
fn block_device(number: u64) -> Option<PathBuf> {
    let major = rustix::fs::major(number);
    let minor = rustix::fs::minor(number);
    let entry = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()?;
    entry.file_name().map(|name| Path::new("/dev").join(name))
}

fn kind(file_system: &str, has_device: bool) -> &'static str {
    match file_system.split_once('.').map_or(file_system, |(kind, _)| kind) {
        "fuse" | "fuseblk" => "fuse",
        "overlay" => "overlay",
        "tmpfs" | "ramfs" => "memory",
        "nfs" | "nfs4" | "cifs" | "smb3" | "9p" | "afs" | "beegfs" | "ceph" | "gpfs" | "lustre"
        | "virtiofs" => "network",
        _ if has_device => "disk",
        "btrfs" | "zfs" | "bcachefs" => "disk",
        _ => "other",
    }
}

#[derive(Debug, Default, PartialEq)]
struct Mount {
    file_system: String,
    source: String,
    mount_point: PathBuf,
}

/// The mount that covers `path`: the last of those with the longest mount point.
fn mount_of(mounts: &str, path: &Path) -> Option<Mount> {
    let covering = mounts.lines().filter_map(parse).filter(|it| path.starts_with(&it.mount_point));
    covering.max_by_key(|it| it.mount_point.components().count())
}

fn parse(line: &str) -> Option<Mount> {
    let (mount, file_system) = line.split_once(" - ")?;
    let mut fields = file_system.split(' ');
    Some(Mount {
        file_system: fields.next()?.to_owned(),
        source: unescaped(fields.next()?),
        mount_point: unescaped(mount.split(' ').nth(4)?).into(),
    })
}

/// Replaces the octal escapes of the kernel.
fn unescaped(text: &str) -> String {
    let text = text.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n");
    text.replace("\\134", "\\")
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "21 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n\
        30 21 0:40 / /mnt/my\\040data rw shared:1 - fuse.sshfs host:/data rw,user_id=0\n\
        31 21 0:41 / /mnt rw - tmpfs tmpfs rw\n\
        32 21 7:0 / /mnt rw - xfs /dev/loop0 rw\n";

    #[test]
    fn the_mount_that_covers_a_path_is_found() {
        let of = |path: &str| {
            let mount = mount_of(MOUNTS, Path::new(path)).unwrap();
            (mount.file_system, mount.source)
        };
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(of("/home/me"), pair("ext4", "/dev/vda"));
        assert_eq!(of("/mnt/my data/run7"), pair("fuse.sshfs", "host:/data"));
        assert_eq!(of("/mnt/other"), pair("xfs", "/dev/loop0"));
        assert_eq!(mount_of("nonsense\n", Path::new("/")), None);
    }

    #[test]
    fn layers_have_kinds() {
        assert_eq!(kind("fuse.sshfs", false), "fuse");
        assert_eq!(kind("nfs4", false), "network");
        assert_eq!(kind("ext4", true), "disk");
        assert_eq!(kind("proc", false), "other");
    }
}
