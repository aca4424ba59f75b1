//! Progress on standard error, if that is a terminal.

use std::io::{self, IsTerminal};

use indicatif::{ProgressBar, ProgressStyle};

const BYTES: &str = "{prefix} [{wide_bar}] {bytes}/{total_bytes} {bytes_per_sec} {eta}";
const ITEMS: &str = "{prefix} [{wide_bar}] {pos}/{len} {per_sec} {eta}";

/// A bar that counts bytes.
pub fn bytes(label: &'static str, total: u64) -> ProgressBar {
    bar(BYTES, label, total)
}

/// A bar that counts items.
pub fn items(label: &'static str, total: u64) -> ProgressBar {
    bar(ITEMS, label, total)
}

/// A message, for work whose size is unknown.
pub fn spinner() -> ProgressBar {
    if io::stderr().is_terminal() { ProgressBar::new_spinner() } else { ProgressBar::hidden() }
}

fn bar(template: &str, label: &'static str, total: u64) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(total).with_style(style.progress_chars("=> ")).with_prefix(label)
}
