//! The memory and the processors that this process can have.

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
    let group = control_group_limit(&groups, read_control_file);
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

/// Whether each of `threads` threads can have a processor of its own, all the time.
pub fn has_processors_for(threads: usize) -> bool {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    // The standard library applies a quota too, rounded to whole processors and at least one.
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    threads <= processors && !is_below_one_processor(&groups, read_control_file)
}

fn read_control_file(path: &str) -> Option<String> {
    fs::read_to_string(Path::new("/sys/fs/cgroup").join(path)).ok()
}

/// The lowest memory limit of a control group and its ancestors, of either version. `read` reads a file below the
/// folder of control groups.
fn control_group_limit(groups: &str, read: impl Fn(&str) -> Option<String>) -> Option<u64> {
    let limits = control_groups(groups, "memory").filter_map(|(group, is_unified)| {
        let file = if is_unified { "memory.max" } else { "memory.limit_in_bytes" };
        read(&format!("{group}{file}"))?.trim().parse::<u64>().ok()
    });
    limits.min()
}

/// Whether a control group or an ancestor has a quota of less than one processor: only a part of each period.
fn is_below_one_processor(groups: &str, read: impl Fn(&str) -> Option<String>) -> bool {
    let number = |text: &str| text.trim().parse::<u64>().ok();
    control_groups(groups, "cpu").any(|(group, is_unified)| {
        let quota = if is_unified {
            let limit = read(&format!("{group}cpu.max"));
            // `max` stands for no quota.
            limit.and_then(|limit| limit.split_once(' ').and_then(|(of, period)| number(of).zip(number(period))))
        } else {
            let [of, period] = ["cpu.cfs_quota_us", "cpu.cfs_period_us"].map(|file| read(&format!("{group}{file}")));
            // -1 stands for no quota.
            of.and_then(|of| number(&of)).zip(period.and_then(|period| number(&period)))
        };
        quota.is_some_and(|(of, period)| of < period)
    })
}

/// The folders of a control group and its ancestors that limit what `controller` counts, and whether each is of version
/// 2: see cgroups(7). In a container, the path may be one of the machine, and the limit is at the top.
fn control_groups(groups: &str, controller: &str) -> impl Iterator<Item = (String, bool)> {
    groups.lines().flat_map(move |line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next().unwrap_or_default(), fields.next());
        let is_unified = controllers.is_empty();
        let folder = if is_unified { String::new() } else { format!("{controller}/") };
        let path = path.filter(|_| is_unified || controllers.split(',').any(|name| name == controller));
        let groups = path.into_iter().flat_map(|path| Path::new(path.trim_start_matches('/')).ancestors());
        groups.map(move |group| (format!("{folder}{}", group.join("").display()), is_unified))
    })
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
    #[test]
    fn a_quota_below_one_processor_is_seen() {
        let is_below = |groups: &str, files: &[(&str, &str)]| {
            is_below_one_processor(groups, |path| {
                files.iter().find(|(name, _)| *name == path).map(|(_, text)| (*text).to_owned())
            })
        };
        assert!(is_below("0::/a/b\n", &[("a/b/cpu.max", "max 100000\n"), ("a/cpu.max", "20000 100000\n")]));
        assert!(is_below("0::/\n", &[("cpu.max", "99999 100000\n")]));
        for limit in ["100000 100000\n", "max 100000\n", "250000 100000\n", "", "x"] {
            assert!(!is_below("0::/\n", &[("cpu.max", limit)]), "{limit}");
        }
        let first = |quota| [("cpu/x/cpu.cfs_quota_us", quota), ("cpu/x/cpu.cfs_period_us", "100000\n")];
        assert!(is_below("5:cpu,cpuacct:/x\n", &first("50000\n")));
        assert!(!is_below("5:cpu,cpuacct:/x\n", &first("-1\n")));
        assert!(!is_below("5:memory:/x\n", &first("50000\n")));
        assert!(!is_below("0::/a\n", &[]) && !is_below("nonsense", &[]));
    }

    #[test]
    fn a_thread_needs_a_processor() {
        assert!(!has_processors_for(1_000_000));
    }
}
