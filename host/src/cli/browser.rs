//! The browser of the user who runs a command.

use std::ffi::OsString;
use std::process::{Command, Stdio};

/// Opens an address, where there is a desktop. If that is not possible, the user has the address in the
/// command's output.
pub fn open(address: &str) {
    let has_desktop = ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some());
    let program = match (std::env::var_os("BROWSER"), has_desktop) {
        (Some(program), _) if !program.is_empty() => program,
        _ if cfg!(target_os = "macos") => OsString::from("open"),
        (_, true) => OsString::from("xdg-open"),
        (_, false) => return,
    };
    let started =
        Command::new(&program).arg(address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    if let Err(error) = started {
        tracing::debug!(?program, %error, "no browser was started");
    }
}
