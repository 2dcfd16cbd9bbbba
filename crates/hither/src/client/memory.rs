//! Default limits of the cache, which depend on the memory that the process may use.

use hither_read::CacheConfig;
use std::fs;
use std::path::Path;

/// Divisor of the usable memory that gives the largest default budget of a cache. Sixteen processes
/// on a machine are common, and each of them needs most of its memory for something else.
const CACHE_SHARE: u64 = 16;

/// The default limits of a cache, lowered to a share of the memory that this process may use.
pub(crate) fn cache_config() -> CacheConfig {
    let budget = CacheConfig::default().budget_bytes;
    let share = usable_bytes(Path::new("/")).map(|bytes| bytes / CACHE_SHARE);
    CacheConfig::with_budget(share.map_or(budget, |share| share.min(budget)))
}

/// The memory of the machine, or the lowest limit of the control groups (version 1 or 2) of this
/// process, in bytes; none if the system states neither. Files are read below `root`.
fn usable_bytes(root: &Path) -> Option<u64> {
    let machine = fs::read_to_string(root.join("proc/meminfo")).unwrap_or_default();
    let machine = machine.lines().find_map(|line| {
        let kibibytes = line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB")?;
        kibibytes.parse::<u64>().ok()?.checked_mul(1024)
    });
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let limits = groups.lines().filter_map(|line| group_limit(root, line));
    machine.into_iter().chain(limits).min()
}

/// The lowest memory limit of a control group and those above it. `line` is
/// `HIERARCHY:CONTROLLERS:PATH`, as in `/proc/self/cgroup`.
fn group_limit(root: &Path, line: &str) -> Option<u64> {
    let mut fields = line.splitn(3, ':').skip(1);
    let controllers = fields.next()?;
    let path = Path::new(fields.next()?.trim_start_matches('/'));
    let place = match controllers {
        "" => ("sys/fs/cgroup", "memory.max"),
        _ if controllers.split(',').any(|it| it == "memory") => {
            ("sys/fs/cgroup/memory", "memory.limit_in_bytes")
        }
        _ => return None,
    };
    let limits = path.ancestors().filter_map(|group| {
        let file = root.join(place.0).join(group).join(place.1);
        // A group of version 2 without a limit says "max".
        fs::read_to_string(file).ok()?.trim().parse().ok()
    });
    limits.min()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usable(files: &[(&str, &str)]) -> Option<u64> {
        let root = tempfile::tempdir().unwrap();
        for (name, content) in files {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        usable_bytes(root.path())
    }

    #[test]
    fn the_lowest_limit_counts() {
        let machine = ("proc/meminfo", "MemTotal:       24000 kB\nMemFree:        100 kB\n");
        let limit = "sys/fs/cgroup/job/memory.max";
        let second = ("proc/self/cgroup", "0::/job/task\n");
        for (expected, files) in [
            (None, vec![]),
            (None, vec![("proc/meminfo", "MemTotal: many kB"), ("proc/self/cgroup", "nonsense")]),
            (Some(24_576_000), vec![machine]),
            (Some(24_576_000), vec![machine, second, (limit, "max\n")]),
            (Some(9_000_000), vec![machine, second, (limit, "9000000\n")]),
            (
                Some(8_000_000),
                vec![
                    machine,
                    second,
                    (limit, "9000000\n"),
                    ("sys/fs/cgroup/job/task/memory.max", "8000000\n"),
                ],
            ),
            (Some(7_000_000), vec![second, ("sys/fs/cgroup/memory.max", "7000000\n")]),
            (
                Some(6_000_000),
                vec![
                    machine,
                    ("proc/self/cgroup", "3:cpu:/a\n2:blkio,memory:/b\n1:memoryless:/c\n"),
                    ("sys/fs/cgroup/memory/b/memory.limit_in_bytes", "6000000\n"),
                    ("sys/fs/cgroup/memory/c/memory.limit_in_bytes", "1\n"),
                ],
            ),
        ] {
            assert_eq!(usable(&files), expected, "{files:?}");
        }
    }

    #[test]
    fn the_default_is_at_most_64_mib() {
        let config = cache_config();
        assert!(config.budget_bytes <= 64 << 20);
        assert_eq!(config, CacheConfig::with_budget(config.budget_bytes));
    }
}
