//! The memory and the descriptors of this process.

use std::fs;
use std::path::Path;

use rustix::process::{Resource, getrlimit};

/// The memory to assume if the system does not report it.
const ASSUMED: u64 = 2 * 1024 * 1024 * 1024;

/// The memory of the machine, or of the container or service that the process is part of, in bytes.
pub fn memory() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let machine = total_memory(&text);
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let group = control_group_limit(&groups, |path| fs::read_to_string(Path::new("/sys/fs/cgroup").join(path)).ok());
    machine.into_iter().chain(group).min().unwrap_or(ASSUMED)
}

/// The resident memory of this process, in bytes. `None` without procfs.
pub fn resident_memory() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/statm").ok()?;
    // The second field counts its pages.
    let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
    pages.checked_mul(rustix::param::page_size() as u64)
}

/// The files and sockets that are open. `None` without procfs.
pub fn open_descriptors() -> Option<usize> {
    // Without the descriptor of the folder itself.
    Some(fs::read_dir("/proc/self/fd").ok()?.count().saturating_sub(1))
}

/// How many files and sockets may be open; `None` without a limit.
pub fn max_descriptors() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// `MemTotal` of proc_meminfo(5).
fn total_memory(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// The lowest memory limit of a control group and its ancestors, of either version: see cgroups(7). `read` reads a file
/// below the folder of control groups. In a container, a group's path may be one of the machine, and the limit is at the
/// top.
fn control_group_limit(groups: &str, read: impl Fn(&str) -> Option<String>) -> Option<u64> {
    let files = groups.lines().flat_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next().unwrap_or_default(), fields.next());
        let (folder, file) = match controllers {
            "" => ("", "memory.max"),
            _ => ("memory", "memory.limit_in_bytes"),
        };
        let path = path.filter(|_| controllers.split(',').any(|name| name.is_empty() || name == "memory"));
        let groups = path.into_iter().flat_map(|path| Path::new(path.trim_start_matches('/')).ancestors());
        groups.map(move |group| Path::new(folder).join(group).join(file))
    });
    files.filter_map(|file| read(file.to_str()?)?.trim().parse::<u64>().ok()).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machines_memory_is_known() {
        assert_eq!(total_memory("MemTotal:       16000 kB\nMemFree: 1 kB\n"), Some(16_384_000));
        assert_eq!(total_memory("MemFree: 1 kB\n"), None);
        assert!(memory() > 64 << 20);
        assert!(resident_memory().unwrap() > 1 << 20);
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
