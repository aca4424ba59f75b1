//! The files and sockets of the process. `None` if the system does not report them.

use rustix::process::{Resource, getrlimit};

/// How many are open, from procfs.
pub fn open_descriptors() -> Option<usize> {
    // Without the descriptor of the folder itself.
    Some(std::fs::read_dir("/proc/self/fd").ok()?.count().saturating_sub(1))
}

/// How many it may have open; `None` without a limit.
pub fn max_descriptors() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}
