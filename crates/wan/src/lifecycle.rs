//! Bringing links up and down, even after crashes.
//!
//! `up` records the link and starts the forwarder, which creates everything else and reports when
//! it is ready. The two watch each other: if `up` is interrupted before it confirms, the forwarder
//! reads the end of its input and removes the link; if the forwarder fails, `up` prints the reason
//! and cleans up. Afterwards the forwarder runs alone. If it dies, the devices vanish with it and
//! the namespaces stay. The next `up` or `down` of the name finds a link that does not respond, and
//! removes its remains.

use crate::clock;
use crate::control::{ControlRequest, ask};
use crate::error::local;
use crate::forwarder::{KEEP, READY};
use crate::namespace::{self, Side};
use crate::registry::{self, LinkRecord, check_name, folder, free_subnet, load, lock, save};
use hither_core::{Error, ErrorKind, Result};
use hither_netem::link::Link;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The list of congestion controls that unprivileged sockets and other namespaces may choose.
const ALLOWED: &str = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";
const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";

/// The description of a link to bring up.
#[derive(Debug, Clone)]
pub struct LinkSpec {
    /// Its name.
    pub name: String,
    /// Its description.
    pub link: Link,
    /// Congestion control of both ends, by its name in the kernel.
    pub congestion: String,
    /// Offload: the devices pass runs of segments uncut. `None` enables it if it does not change
    /// the model.
    pub offload: Option<bool>,
    /// Process whose exit removes the link.
    pub owner: Option<i32>,
}

/// Brings a link up with `program` (this program) as its forwarder.
///
/// # Errors
/// The caller is not root; the name is invalid or taken by a working link; the kernel lacks the
/// congestion control or TUN devices; `ip` is missing.
pub fn up(program: &Path, wanted: &LinkSpec) -> Result<LinkRecord> {
    check_name(&wanted.name)?;
    if !rustix::process::geteuid().is_root() {
        return Err(Error::new(
            ErrorKind::PermissionDenied,
            "making network namespaces needs root; use hither-proxy without it",
        ));
    }
    let _lock = lock()?;
    if ask(&wanted.name, ControlRequest::Ping).is_ok() {
        return Err(Error::new(
            ErrorKind::Invalid,
            format!("link {0} is up already, take it down with hither-wan down {0}", wanted.name),
        ));
    }
    remove(&wanted.name)?;
    allow_congestion(&wanted.congestion)?;
    let Link { bandwidth, each, loss, .. } = wanted.link;
    let untouched = bandwidth.is_none() && each.is_none() && loss == 0.0;
    let saved = LinkRecord {
        name: wanted.name.clone(),
        link: wanted.link,
        congestion: wanted.congestion.clone(),
        offload: wanted.offload.unwrap_or(untouched),
        subnet: free_subnet()?,
        owner: wanted.owner,
        token: clock::now(),
    };
    save(&saved)?;
    start(program, &saved).inspect_err(|_| dismantle(&saved))?;
    Ok(saved)
}

/// Allows `congestion` in every namespace.
fn allow_congestion(congestion: &str) -> Result<()> {
    let read = |path: &str| {
        fs::read_to_string(path)
            .map_err(|error| local(format!("cannot read {path}")).with_source(error))
    };
    let has = |list: &str| list.split_whitespace().any(|it| it == congestion);
    let available = read(AVAILABLE)?;
    if !has(&available) {
        return Err(Error::new(
            ErrorKind::Unsupported,
            format!("saw congestion control {congestion:?}, the kernel has {}", available.trim()),
        ));
    }
    let allowed = read(ALLOWED)?;
    if !has(&allowed) {
        fs::write(ALLOWED, format!("{} {congestion}", allowed.trim()))
            .map_err(|error| local(format!("cannot write {ALLOWED}")).with_source(error))?;
    }
    Ok(())
}

/// Starts the forwarder and waits until it is ready.
fn start(program: &Path, saved: &LinkRecord) -> Result<()> {
    let failed = |error| local("cannot start the forwarder").with_source(error);
    let log = fs::File::create(folder(&saved.name).join("log")).map_err(failed)?;
    let mut child = Command::new(program)
        .args(["forward", &saved.name])
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(log)
        .process_group(0)
        .spawn()
        .map_err(failed)?;
    let mut said = String::new();
    if let Some(stdout) = child.stdout.take() {
        BufReader::new(stdout).read_line(&mut said).map_err(failed)?;
    }
    if said.trim() != READY {
        let _ = child.wait();
        let words = if said.is_empty() { "it ended without a word" } else { said.trim() };
        return Err(local(format!("the forwarder of {} failed: {words}", saved.name)));
    }
    if let Some(mut stdin) = child.stdin.take() {
        writeln!(stdin, "{KEEP}").map_err(failed)?;
    }
    Ok(())
}

/// Takes a link down, or removes its remains; succeeds if there are none.
///
/// # Errors
/// The caller is not root, or `ip` fails.
pub fn down(name: &str) -> Result<()> {
    check_name(name)?;
    let _lock = lock()?;
    remove(name)
}

/// Removes all of a link; the caller holds the lock.
fn remove(name: &str) -> Result<()> {
    end_forwarder(name);
    for side in Side::BOTH {
        namespace::remove(&namespace::of(name, side))?;
    }
    match fs::remove_dir_all(folder(name)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(local(format!("cannot remove {}", folder(name).display())).with_source(error))
        }
        _ => Ok(()),
    }
}

/// Asks the forwarder to exit, then kills it.
fn end_forwarder(name: &str) {
    let pid = fs::read_to_string(folder(name).join("pid")).ok();
    let Some(pid) = pid.and_then(|text| text.trim().parse().ok()).and_then(Pid::from_raw) else {
        return;
    };
    // The process is held by a descriptor before its command line is checked, so a reused process
    // id cannot be mistaken for it.
    let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { return };
    let line = fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).unwrap_or_default();
    let mut words = line.split(|byte| *byte == 0).rev().skip_while(|word| word.is_empty());
    if words.next() != Some(name.as_bytes()) || words.next() != Some(b"forward") {
        return;
    }
    let asked = ask(name, ControlRequest::Stop).is_ok();
    if !asked || !ends_within(&process, Duration::from_secs(2)) {
        let _ = pidfd_send_signal(&process, Signal::KILL);
        ends_within(&process, Duration::from_secs(2));
    }
}

/// Waits at most `limit` for a process to exit; returns true if it did.
fn ends_within(process: &std::os::fd::OwnedFd, limit: Duration) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let limit = Timespec {
        tv_sec: i64::try_from(limit.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(limit.subsec_nanos()),
    };
    let mut polled = [PollFd::new(process, PollFlags::IN)];
    poll(&mut polled, Some(&limit)).is_ok_and(|ready| ready > 0)
}

/// Removes everything of a forwarder's own link except the forwarder, unless a later link has taken
/// the name.
pub(crate) fn dismantle(saved: &LinkRecord) {
    let still = || load(&saved.name).is_some_and(|now| now.token == saved.token);
    for side in Side::BOTH {
        if still() {
            // If this fails, the next `up` or `down` removes the rest.
            let _ = namespace::remove(&namespace::of(&saved.name, side));
        }
    }
    if still() {
        let _ = fs::remove_dir_all(folder(&saved.name));
    }
}

/// Takes all links down.
///
/// # Errors
/// The errors of [`down`]; the other links are still taken down.
pub fn down_all() -> Result<()> {
    let mut outcome = Ok(());
    for name in registry::names()? {
        let this = down(&name);
        outcome = outcome.and(this);
    }
    outcome
}

/// A link, and whether its forwarder responds.
#[derive(Debug, Clone, serde::Serialize)]
pub struct LinkStatus {
    /// Its name.
    pub name: String,
    /// Its record, if there is one.
    pub saved: Option<LinkRecord>,
    /// True if its forwarder responds.
    pub alive: bool,
}

/// Lists all links, and the remains of crashed ones.
///
/// # Errors
/// `ip` cannot be run.
pub fn list() -> Result<Vec<LinkStatus>> {
    Ok(registry::names()?
        .into_iter()
        .map(|name| LinkStatus {
            saved: load(&name),
            alive: ask(&name, ControlRequest::Ping).is_ok(),
            name,
        })
        .collect())
}

/// Replaces this process with `command` at one end of a link. Returns only on failure.
#[must_use]
pub fn exec(name: &str, side: Side, command: &[std::ffi::OsString]) -> Error {
    let Some((program, arguments)) = command.split_first() else {
        return Error::new(ErrorKind::Invalid, "no command to run was given after --");
    };
    if let Err(error) = check_name(name).and_then(|()| ask(name, ControlRequest::Ping).map(drop)) {
        return error;
    }
    if let Err(error) = namespace::enter(&namespace::of(name, side)) {
        return error;
    }
    let error = Command::new(program).args(arguments).exec();
    let kind = if error.kind() == std::io::ErrorKind::NotFound {
        ErrorKind::NotFound
    } else {
        ErrorKind::Local
    };
    Error::new(kind, format!("cannot run {}", program.display())).with_source(error)
}
