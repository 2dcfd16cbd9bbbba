//! Network namespaces: created and removed with `ip netns`, entered with `setns`.

use crate::error::local;
use hither_core::Result;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::Command;

/// An end of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The client's end.
    Client,
    /// The server's end.
    Server,
}

impl Side {
    /// Both ends, client first.
    pub const BOTH: [Self; 2] = [Self::Client, Self::Server];

    /// Its name in commands.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
        }
    }
}

/// The namespace at one end of the link `link`: `hw-LINK-c` or `hw-LINK-s`.
#[must_use]
pub fn of(link: &str, side: Side) -> String {
    format!("hw-{link}-{}", &side.name()[..1])
}

fn path(namespace: &str) -> PathBuf {
    PathBuf::from("/run/netns").join(namespace)
}

/// Returns true if the namespace exists.
#[must_use]
pub fn exists(namespace: &str) -> bool {
    path(namespace).exists()
}

/// Runs `ip` with `arguments` and returns its output.
///
/// # Errors
/// `ip` (Debian package iproute2) is missing or fails; the message quotes it.
pub fn ip(arguments: &[&str]) -> Result<String> {
    let shown = arguments.join(" ");
    let output = Command::new("ip").args(arguments).output().map_err(|error| {
        local(format!("cannot run ip {shown}, install iproute2")).with_source(error)
    })?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        return Err(local(format!("ip {shown} failed: {}", words.trim())));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Creates a namespace.
///
/// # Errors
/// The errors of [`ip`].
pub fn add(namespace: &str) -> Result<()> {
    ip(&["netns", "add", namespace]).map(drop)
}

/// Removes a namespace if it exists, and kills the programs in it.
///
/// # Errors
/// The errors of [`ip`].
pub fn remove(namespace: &str) -> Result<()> {
    if !exists(namespace) {
        return Ok(());
    }
    for pid in ip(&["netns", "pids", namespace])?.split_whitespace() {
        if let Some(pid) = pid.parse().ok().and_then(rustix::process::Pid::from_raw) {
            // The process may have exited already.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
    ip(&["netns", "del", namespace]).map(drop)
}

/// Moves the calling thread into the namespace; it cannot move back.
///
/// # Errors
/// The namespace does not exist, or the caller is not root.
pub fn enter(namespace: &str) -> Result<()> {
    let file = File::open(path(namespace)).map_err(|error| {
        local(format!("no network namespace {namespace}, is the link up?")).with_source(error)
    })?;
    move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).map_err(|error| {
        local(format!("cannot enter the network namespace {namespace}")).with_source(error)
    })
}

/// Runs `work` on a thread inside the namespace and waits for it. Sockets and TUN devices that it
/// opens stay in the namespace, whichever thread uses them.
///
/// # Errors
/// The errors of [`enter`] and of `work`.
pub fn within<T: Send>(namespace: &str, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    std::thread::scope(|scope| {
        scope
            .spawn(|| {
                enter(namespace)?;
                work()
            })
            .join()
            .unwrap_or_else(|_| Err(local(format!("a thread in {namespace} panicked"))))
    })
}
