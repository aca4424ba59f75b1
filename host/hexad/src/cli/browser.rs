//! The browser of the user who runs a command.

use std::ffi::OsString;
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use hexad_admin::entry_page;

/// Opens an address that no other user may see, if there is a desktop. The browser gets the path of a page in the data
/// folder, or in the temporary folder if `data` is `None`. If that fails, the user has the address in the command's
/// output.
pub fn open(address: &str, data: Option<&Path>) {
    let Some(program) = program() else { return };
    let started = write_page(address, data).and_then(|page| command(&program, &page).spawn());
    if let Err(error) = started {
        tracing::debug!(?program, %error, "no browser was started");
    }
}

fn program() -> Option<OsString> {
    let has_desktop = ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some());
    match (std::env::var_os("BROWSER"), has_desktop) {
        (Some(program), _) if !program.is_empty() => Some(program),
        _ if cfg!(target_os = "macos") => Some(OsString::from("open")),
        (_, true) => Some(OsString::from("xdg-open")),
        (_, false) => None,
    }
}

/// The data folder comes first, because browsers in a sandbox have a temporary folder of their own.
fn write_page(address: &str, data: Option<&Path>) -> io::Result<PathBuf> {
    match data {
        Some(data) => entry_page::write(data, address),
        None => {
            let private = Permissions::from_mode(0o700);
            let folder = tempfile::Builder::new().prefix("hexad-").permissions(private).tempdir()?;
            let page = entry_page::write(folder.path(), address)?;
            // The browser reads the page after this program has ended. The system clears its temporary folder.
            let _ = folder.keep();
            Ok(page)
        }
    }
}

fn command(program: &OsString, page: &Path) -> Command {
    let mut command = Command::new(program);
    command.arg(page).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_in_no_argument_and_its_page_in_a_private_folder() {
        let address = "http://127.0.0.1:1/operator/sign-in?code=secret";
        let data = tempfile::tempdir().unwrap();
        for data in [Some(data.path()), None] {
            let page = write_page(address, data).unwrap();
            let command = command(&OsString::from("browser"), &page);
            assert_eq!(command.get_args().collect::<Vec<_>>(), [page.as_os_str()]);
            assert!(std::fs::read_to_string(&page).unwrap().contains("code=secret"));
            if data.is_none() {
                let folder = page.parent().unwrap();
                assert_eq!(folder.metadata().unwrap().permissions().mode() & 0o777, 0o700);
                std::fs::remove_dir_all(folder).unwrap();
            }
        }
    }
}
