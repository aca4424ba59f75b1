//! Resources of the process, from procfs. `None` where there is none.

/// Files and sockets of the process.
pub fn open_descriptors() -> Option<usize> {
    // Without the descriptor of the folder itself.
    Some(std::fs::read_dir("/proc/self/fd").ok()?.count().saturating_sub(1))
}

/// The resident memory, from procfs: the second field has its pages.
pub fn resident_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}
