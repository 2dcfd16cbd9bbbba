//! Confinement of the server's process, in case an attacker takes it over: to the files that its
//! settings name (Landlock), and to system calls that a server needs (seccomp).
//!
//! The threads that a thread starts inherit its confinement, which cannot be left. So it has to
//! begin before the server starts its threads, and is the task of the program, not of
//! [`Server::start`](crate::Server::start). Folders are allowed rather than files, so that a file
//! which is replaced, or named by a reload, is found again.

use crate::settings::Settings;
use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, RulesetStatus, path_beneath_rules,
};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tracing::{info, warn};

/// The version of Landlock whose rights are handled as far as the kernel knows them.
const LANDLOCK: ABI = ABI::V5;

/// The folders of the system that name resolution, authorities and the C library read.
const SYSTEM: [&str; 10] = [
    "/etc",
    "/usr",
    "/lib",
    "/lib64",
    "/proc",
    "/sys/fs/cgroup",
    "/dev/null",
    "/dev/urandom",
    "/run/systemd/resolve",
    "/run/nscd",
];

/// System calls that a server never makes; for the process they fail with EPERM.
const REFUSED: [libc::c_long; 46] = [
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_adjtimex,
    libc::SYS_bpf,
    libc::SYS_chroot,
    libc::SYS_clock_adjtime,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_fanotify_init,
    libc::SYS_finit_module,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_init_module,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    libc::SYS_kcmp,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_personality,
    libc::SYS_pivot_root,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_quotactl,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_setdomainname,
    libc::SYS_sethostname,
    libc::SYS_setns,
    libc::SYS_settimeofday,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
];

/// Confines the calling thread, and all that it starts from now on, to what a server with these
/// settings needs and to reading `others`. Rules that the kernel does not support, or a service
/// manager does not allow, are left out and logged.
pub fn confine(settings: &Settings, others: &[PathBuf]) {
    if !settings.sandbox {
        return;
    }
    let files = confine_files(settings, others).unwrap_or_else(|error| {
        warn!(%error, "Landlock failed");
        false
    });
    let calls = confine_calls().unwrap_or_else(|error| {
        warn!(%error, "seccomp failed");
        false
    });
    if files && calls {
        info!("confined to its files (Landlock) and system calls (seccomp)");
    } else {
        warn!(
            files,
            calls, "this kernel confines only a part: Landlock is for files, from Linux 5.19"
        );
    }
}

/// Returns false if the kernel cannot.
fn confine_files(settings: &Settings, others: &[PathBuf]) -> Result<bool, RulesetError> {
    let all = AccessFs::from_all(LANDLOCK);
    let special = AccessFs::Execute | AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev;
    let read: BitFlags<AccessFs> = AccessFs::ReadFile | AccessFs::ReadDir;
    // Without this right (before Linux 5.19), no file could be moved to another folder.
    let refer = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::Refer);
    let Ok(rules) = refer else { return Ok(false) };
    let status = rules
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(all)?
        .create()?
        .add_rules(path_beneath_rules(SYSTEM, read))?
        .add_rules(path_beneath_rules(readable(settings, others), read))?
        .add_rules(path_beneath_rules(writable(settings), all & !special))?
        .restrict_self()?;
    Ok(status.ruleset != RulesetStatus::NotEnforced)
}

fn writable(settings: &Settings) -> Vec<PathBuf> {
    let log = settings.access_log.as_deref().map(folder);
    log.into_iter().chain([settings.root.clone()]).collect()
}

fn readable(settings: &Settings, others: &[PathBuf]) -> Vec<PathBuf> {
    let mut files: Vec<&Path> = others.iter().map(PathBuf::as_path).collect();
    if let Some(tls) = &settings.tls {
        files.extend([&*tls.certificate, &*tls.key]);
    }
    if let Some(auth) = &settings.auth {
        files.extend(auth.authorities.as_deref());
        files.extend(auth.issuers.iter().filter_map(|issuer| issuer.keys.as_deref()));
    }
    files.extend(settings.third_party.as_ref().and_then(|it| it.authorities.as_deref()));
    // A certificate is often a link to the one of the year.
    let targets = files.iter().filter_map(|file| file.canonicalize().ok());
    files.iter().map(|file| folder(file)).chain(targets.map(|file| folder(&file))).collect()
}

/// The folder of a file; of a folder, the folder itself.
fn folder(file: &Path) -> PathBuf {
    match file.parent() {
        _ if file.is_dir() => file.to_owned(),
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// Returns false for a processor of which the numbers of system calls are not known.
fn confine_calls() -> Result<bool, seccompiler::Error> {
    let Ok(processor) = std::env::consts::ARCH.try_into() else { return Ok(false) };
    let refused: BTreeMap<i64, _> = REFUSED.iter().map(|call| (*call, Vec::new())).collect();
    let refuse = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let filter = SeccompFilter::new(refused, SeccompAction::Allow, refuse, processor);
    let program: BpfProgram = filter.and_then(TryInto::try_into)?;
    seccompiler::apply_filter(&program)?;
    Ok(true)
}
