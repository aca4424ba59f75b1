//! Text for a terminal.

use anyhow::Error;

/// `text` without characters that control a terminal: it may come from a server or a file.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// An error with its causes on one line. A cause that the text before it names already is left out.
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

#[cfg(test)]
mod tests {
    use std::io;

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
    fn every_cause_is_named_once() {
        let error = Error::new(io::Error::other("no space")).context("cannot write");
        assert_eq!(one_line(&error), "cannot write: no space");
        let error = Error::new(Unreadable { source: io::Error::other("no such file") });
        assert_eq!(one_line(&error), "cannot read the file: no such file; name another");
    }
}
