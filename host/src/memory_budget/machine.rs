//! How much memory this process can have.

use std::fs;
use std::path::Path;

/// If the system does not tell.
const ASSUMED: u64 = 2 * 1024 * 1024 * 1024;

/// The machine's memory, or that of the container or service that the process is part of, in bytes.
pub fn memory() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let machine = total_memory(&text);
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let group = control_group_limit(&groups, |path| fs::read_to_string(Path::new("/sys/fs/cgroup").join(path)).ok());
    machine.into_iter().chain(group).min().unwrap_or(ASSUMED)
}

/// `MemTotal` of proc_meminfo(5).
fn total_memory(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// The lowest limit of a control group and those above it, of either version (cgroups(7)). `read` reads a
/// file below the folder of control groups.
fn control_group_limit(groups: &str, read: impl Fn(&str) -> Option<String>) -> Option<u64> {
    let mut limits = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let (folder, file) = match controllers {
            "" => ("", "memory.max"),
            _ if controllers.split(',').any(|name| name == "memory") => ("memory/", "memory.limit_in_bytes"),
            _ => continue,
        };
        // In a container, the path may be one of the machine, and the limit is at the top.
        for group in Path::new(path.trim_start_matches('/')).ancestors() {
            let file = format!("{folder}{}", group.join(file).display());
            limits.extend(read(&file).and_then(|text| text.trim().parse::<u64>().ok()));
        }
    }
    limits.into_iter().min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machines_memory_is_known() {
        assert_eq!(total_memory("MemTotal:       16000 kB\nMemFree: 1 kB\n"), Some(16_384_000));
        assert_eq!(total_memory("MemFree: 1 kB\n"), None);
        assert!(memory() > 64 << 20);
    }

    #[test]
    fn the_lowest_limit_of_a_control_group_counts() {
        let limit = |groups: &str, files: &[(&str, &str)]| {
            control_group_limit(groups, |path| {
                files.iter().find(|(name, _)| *name == path).map(|(_, text)| (*text).to_owned())
            })
        };
        let nested = [("a/b/memory.max", "max\n"), ("a/memory.max", "1000\n"), ("memory.max", "2000\n")];
        assert_eq!(limit("0::/a/b\n", &nested), Some(1000));
        assert_eq!(limit("0::/\n", &[("memory.max", "7\n")]), Some(7));
        assert_eq!(limit("5:cpu,memory:/x\n0::/\n", &[("memory/x/memory.limit_in_bytes", "9")]), Some(9));
        assert_eq!(limit("0::/a\n", &[]), None);
        assert_eq!(limit("nonsense", &[]), None);
    }
}
