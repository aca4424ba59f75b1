//! Text for a terminal.

use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;

use anyhow::Error;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// `text` without characters that control a terminal: it may come from a server or a file.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// An error with its causes on one line. A cause that the text before already has is left out.
pub fn one_line(error: &Error) -> String {
    let mut line = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if line.is_empty() {
            line = cause;
        } else if !line.contains(&cause) {
            line = format!("{line}: {cause}");
        }
    }
    line
}

/// Writes text of a serving command to standard output. When the reader has gone, the command goes on, because the
/// reader may have all that it needs.
pub fn announce(text: &str) {
    let mut out = io::stdout();
    if let Err(error) = out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        tracing::warn!(%error, "cannot write to standard output; the text for it is lost");
    }
}

/// Whether a command failed only because the reader of its output has gone, as `head` does after ten lines.
pub fn has_lost_reader(error: &Error) -> bool {
    is_broken_pipe(error) && (is_without_reader(io::stdout()) || is_without_reader(io::stderr()))
}

/// The broken pipe can also be one to another program.
fn is_broken_pipe(error: &Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| cause.kind() == ErrorKind::BrokenPipe)
}

fn is_without_reader(output: impl AsFd) -> bool {
    let mut polled = [PollFd::new(&output, PollFlags::empty())];
    let is_polled = poll(&mut polled, Some(&Timespec::default())).is_ok();
    is_polled && polled.iter().any(|output| output.revents().intersects(PollFlags::ERR | PollFlags::HUP))
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot read the file: {source}; name another")]
    struct Unreadable {
        source: io::Error,
    }

    #[test]
    fn control_characters_are_replaced() {
        assert_eq!(printable("1\x1b[2J"), "1\u{fffd}[2J");
    }

    #[test]
    fn a_pipe_without_a_reader_is_told_from_one_that_is_read() {
        let (reader, mut writer) = io::pipe().unwrap();
        assert!(!is_without_reader(&writer));
        drop(reader);
        assert!(is_without_reader(&writer));
        let written = writer.write_all(b"a line").context("cannot write");
        assert!(is_broken_pipe(&written.unwrap_err()));
        assert!(!is_broken_pipe(&Error::new(io::Error::other("no space"))));
        assert!(!is_without_reader(tempfile::tempfile().unwrap()));
    }

    #[test]
    fn every_cause_is_named_once() {
        let error = Error::new(io::Error::other("no space")).context("cannot write");
        assert_eq!(one_line(&error), "cannot write: no space");
        let error = Error::new(Unreadable { source: io::Error::other("no such file") });
        assert_eq!(one_line(&error), "cannot read the file: no such file; name another");
    }
}
