//! The processes of a profile.
//!
//! Threads and processes start and end while samples are taken. So a process is assigned to the
//! target, by its ancestors, its control group or its user, when it is first sampled.

use crate::classify::Owner;
use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;

/// Maximum number of remembered processes; later ones count as others.
const MAX_PROCESSES: usize = 65_536;
const MAX_ANCESTORS: usize = 64;

/// The processes to profile.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Target {
    /// The whole machine.
    Machine,
    /// A process and its descendants.
    Process(u32),
    /// The processes of a systemd unit, with or without `.service`.
    Unit(String),
    /// The processes of a user, by user id.
    User(u32),
}

/// A process as it was first sampled.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Process {
    pub(crate) owner: Owner,
    pub(crate) name: String,
}

/// The processes that were sampled.
#[derive(Debug)]
pub(crate) struct Processes {
    target: Target,
    known: HashMap<u32, Process>,
}

impl Processes {
    pub(crate) fn new(target: Target) -> Self {
        Self { target, known: HashMap::new() }
    }

    /// The process with this id, which is looked up once.
    pub(crate) fn get(&mut self, process: u32) -> Process {
        if let Some(known) = self.known.get(&process) {
            return known.clone();
        }
        let name = stat(process).map(|stat| stat.name);
        let owner = match process {
            0 => Owner::Idle,
            _ if process == std::process::id() => Owner::Profiler,
            _ if self.contains(process) => Owner::Profiled,
            _ => Owner::Other,
        };
        let found = Process { owner, name: name.unwrap_or_else(|| "ended".to_owned()) };
        if self.known.len() < MAX_PROCESSES {
            self.known.insert(process, found.clone());
        }
        found
    }

    /// Returns true if a process belongs to the target.
    fn contains(&self, process: u32) -> bool {
        match &self.target {
            Target::Machine => true,
            Target::Process(first) => {
                let parent = |process: &u32| stat(*process).map(|stat| stat.parent);
                let mut line = std::iter::successors(Some(process), parent).take(MAX_ANCESTORS);
                line.any(|ancestor| ancestor == *first)
            }
            Target::Unit(unit) => fs::read_to_string(format!("/proc/{process}/cgroup"))
                .is_ok_and(|groups| is_in_unit(&groups, unit)),
            Target::User(user) => {
                fs::metadata(format!("/proc/{process}")).is_ok_and(|it| it.uid() == *user)
            }
        }
    }

    /// The processes of the target that were sampled.
    pub(crate) fn sampled(&self) -> impl Iterator<Item = u32> {
        let profiled = self.known.iter().filter(|(_, it)| it.owner == Owner::Profiled);
        profiled.map(|(process, _)| *process).filter(|_| self.target != Target::Machine)
    }

    /// All running processes of the target, without this one; empty for the whole machine.
    pub(crate) fn running(&self) -> Vec<u32> {
        if self.target == Target::Machine {
            return Vec::new();
        }
        let own = std::process::id();
        numbers("/proc").filter(|it| *it != own && self.contains(*it)).collect()
    }

    /// CPU time of the running processes and of their children that have ended, in ticks; none if
    /// no process runs.
    pub(crate) fn cpu_ticks(&self) -> Option<u64> {
        let ticks = |it: Stat| it.user_ticks + it.kernel_ticks + it.children_ticks;
        let all = self.running().into_iter().filter_map(stat).map(ticks);
        all.reduce(|sum, ticks| sum + ticks)
    }
}

/// The entries of a directory whose names are numbers.
pub(crate) fn numbers(directory: &str) -> impl Iterator<Item = u32> + use<> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The threads of a process.
pub(crate) fn threads(process: u32) -> impl Iterator<Item = u32> + use<> {
    numbers(&format!("/proc/{process}/task"))
}

/// Returns true if one of the control groups, in the lines of `/proc/PID/cgroup`, belongs to a
/// unit.
fn is_in_unit(groups: &str, unit: &str) -> bool {
    let is_unit = |part: &str| part == unit || part.strip_suffix(".service") == Some(unit);
    groups.lines().any(|line| line.split(['/', ':']).any(is_unit))
}

/// Fields of `/proc/PID/stat`, proc_pid_stat(5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) name: String,
    pub(crate) parent: u32,
    /// Of the process, in ticks.
    pub(crate) user_ticks: u64,
    pub(crate) kernel_ticks: u64,
    /// Of children that have ended and were waited for.
    pub(crate) children_ticks: u64,
    pub(crate) minor_faults: u64,
    pub(crate) major_faults: u64,
}

pub(crate) fn stat(process: u32) -> Option<Stat> {
    parse_stat(&String::from_utf8_lossy(&fs::read(format!("/proc/{process}/stat")).ok()?))
}

fn parse_stat(text: &str) -> Option<Stat> {
    // The name is in brackets and may itself contain brackets.
    let (start, rest) = text.rsplit_once(')')?;
    let name = start.split_once('(')?.1;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some(Stat {
        name: name.chars().filter(|it| !it.is_control() && *it != ';').collect(),
        parent: fields.get(1)?.parse().ok()?,
        user_ticks: number(11)?,
        kernel_ticks: number(12)?,
        children_ticks: number(13)? + number(14)?,
        minor_faults: number(7)?,
        major_faults: number(9)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_process_may_contain_brackets() {
        let stat = parse_stat("42 (a) b) S 7 0 0 0 -1 0 10 0 3 0 500 60 4 3 20").unwrap();
        let expected = Stat {
            name: "a) b".to_owned(),
            parent: 7,
            user_ticks: 500,
            kernel_ticks: 60,
            children_ticks: 7,
            minor_faults: 10,
            major_faults: 3,
        };
        assert_eq!(stat, expected);
        assert_eq!(parse_stat("42 (a"), None);
        assert_eq!(parse_stat("42 (a) S 7"), None);
    }

    #[test]
    fn units_are_found_in_control_groups() {
        let groups = "4:memory:/x\n0::/system.slice/nginx.service/worker\n";
        assert!(is_in_unit(groups, "nginx") && is_in_unit(groups, "nginx.service"));
        assert!(!is_in_unit(groups, "ngin") && !is_in_unit(groups, "slice"));
    }

    #[test]
    fn this_process_is_the_profiler_and_its_parent_is_not() {
        let own = std::process::id();
        let parent = stat(own).unwrap().parent;
        let mut processes = Processes::new(Target::Process(parent));
        assert_eq!(processes.get(own).owner, Owner::Profiler);
        assert_eq!(processes.get(parent).owner, Owner::Profiled);
        assert!(processes.running().contains(&parent) && !processes.running().contains(&own));
        assert_eq!(Processes::new(Target::Unit("no such".to_owned())).running(), []);
    }
}
