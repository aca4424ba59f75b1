//! Progress on standard error: a bar on a terminal, otherwise a line at intervals.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle, WeakProgressBar};

const BYTES: &str = "{prefix} [{wide_bar}] {bytes}/{total_bytes} {bytes_per_sec} {eta}";
const ITEMS: &str = "{prefix} [{wide_bar}] {pos}/{len} {per_sec} {eta}";

/// The interval of the lines if standard error is not a terminal, for example in a log of a timer. Shorter work prints
/// no line.
const LINE_EVERY: Duration = Duration::from_secs(30);

/// A bar that counts bytes.
pub fn bytes(label: &'static str, total: u64) -> ProgressBar {
    bar(BYTES, label, total)
}

/// A bar that counts items.
pub fn items(label: &'static str, total: u64) -> ProgressBar {
    bar(ITEMS, label, total)
}

/// A message for work of unknown size.
pub fn spinner() -> ProgressBar {
    match io::stderr().is_terminal() {
        true => ProgressBar::new_spinner(),
        false => in_lines(ProgressBar::no_length()),
    }
}

fn bar(template: &str, label: &'static str, total: u64) -> ProgressBar {
    let bar = ProgressBar::new(total).with_prefix(label);
    if !io::stderr().is_terminal() {
        return in_lines(bar);
    }
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    bar.with_style(style.progress_chars("=> "))
}

/// Prints lines for the bar until it is finished or dropped. indicatif draws only on terminals.
fn in_lines(bar: ProgressBar) -> ProgressBar {
    let weak = bar.downgrade();
    let write = |line: &str| drop(writeln!(io::stderr(), "{line}"));
    std::thread::spawn(move || write_lines(&weak, || std::thread::sleep(LINE_EVERY), write));
    bar
}

fn write_lines(bar: &WeakProgressBar, mut wait: impl FnMut(), mut write: impl FnMut(&str)) {
    loop {
        wait();
        match bar.upgrade() {
            Some(bar) if !bar.is_finished() => write(&line(&bar)),
            _ => return,
        }
    }
}

fn line(bar: &ProgressBar) -> String {
    match bar.length() {
        Some(length) => format!("{}: {} of {length}", bar.prefix(), bar.position()),
        None => bar.message(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_work_writes_lines_until_it_is_finished() {
        for (is_finished, bar) in [true, false].map(|finished| (finished, ProgressBar::hidden())) {
            let (weak, mut bar) = (bar.downgrade(), Some(bar));
            let (mut waits, mut lines) = (0, Vec::new());
            let wait = || {
                waits += 1;
                match (waits, &bar) {
                    (3, Some(shown)) if is_finished => shown.finish_and_clear(),
                    (3, _) => bar = None,
                    (_, shown) => shown.as_ref().unwrap().set_message(format!("admin: {waits} roots")),
                }
            };
            write_lines(&weak, wait, |line| lines.push(line.to_owned()));
            assert_eq!((waits, lines.join(", ").as_str()), (3, "admin: 1 roots, admin: 2 roots"));
        }
    }

    #[test]
    fn a_line_says_how_much_is_done() {
        let bar = ProgressBar::hidden().with_prefix("commits");
        bar.set_length(200);
        bar.inc(30);
        assert_eq!(line(&bar), "commits: 30 of 200");
    }
}
