//! The warnings of `hexad status` about a machine that is too small for its host.

use bytesize::ByteSize;

use crate::admin::HostStatus;

/// A line for each resource that the host may use up.
pub fn resource_warnings(host: &HostStatus) -> String {
    let mut text = String::new();
    // A host of an earlier build does not report the machine's memory.
    if host.memory.machine > 0 && host.memory.budget > host.memory.machine {
        text += &format!(
            "WARNING: the budget is more than the {} of the machine or container: under load the system may end the \
             host; give it more memory, or lower --send-buffer and --memory\n",
            ByteSize(host.memory.machine)
        );
    }
    if let (Some(open), Some(most)) = (host.descriptors, host.max_descriptors)
        && open as u64 >= most / 4 * 3
    {
        text += &format!(
            "WARNING: {open} files and sockets are open of {most}; raise the limit (`ulimit -Hn`, or `LimitNOFILE` of \
             systemd), and restart the host\n"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_is_too_small_is_named() {
        let earlier = r#"{"version":"0.1.0","uptime":1.0,"connections":3,"resident_memory":1,"store_size":1,
            "memory":{"budget":1073741824,"guests":1,"guests_limit":1,"guests_denied":0,"send_buffer":1},
            "store_commits":1,"unrouted":1,"memo":{"hits":1,"misses":1,"answers":1,"size":1},"spans":null}"#;
        let mut host: HostStatus = serde_json::from_str(earlier).unwrap();
        assert_eq!(resource_warnings(&host), "");
        host.memory.machine = 1 << 30;
        (host.descriptors, host.max_descriptors) = (Some(95), Some(128));
        assert_eq!(resource_warnings(&host), "");
        host.memory.budget += 1;
        host.descriptors = Some(96);
        let text = resource_warnings(&host);
        let starts =
            ["WARNING: the budget is more than the 1.0 GiB of ", "WARNING: 96 files and sockets are open of 128; "];
        assert!(text.lines().zip(starts).all(|(line, start)| line.starts_with(start)), "{text}");
        assert_eq!(text.lines().count(), 2);
    }
}
