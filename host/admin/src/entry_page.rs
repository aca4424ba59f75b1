//! The page that leads a browser to the operator's pages.
//!
//! The address has a code, and other users of the machine can read the arguments of a browser. So `hexad status --web`
//! gives the browser the path of this page, which only the host's user can read. The code is valid once, and for five
//! minutes.

use std::io;
use std::path::{Path, PathBuf};

use hexad_support::private_files;
use maud::{DOCTYPE, html};

/// The file in the data folder.
pub const FILE_NAME: &str = "operator.html";

/// Writes the page into a folder, in place of the last one.
pub fn write(folder: &Path, address: &str) -> io::Result<PathBuf> {
    let document = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="referrer" content="no-referrer";
                meta http-equiv="refresh" content={ "0;url=" (address) };
                title { "hexad operator" }
            }
            body { p { a href=(address) { "To the operator's pages" } } }
        }
    };
    // Browsers resolve relative paths differently.
    let path = folder.canonicalize()?.join(FILE_NAME);
    private_files::replace(&path, &[document.into_string().as_bytes()])?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_page_is_private_and_leads_to_the_last_address() {
        let folder = tempfile::tempdir().unwrap();
        for address in ["http://127.0.0.1:1/operator/sign-in?code=ab", "http://h/\"><script>&code=cd"] {
            let path = write(folder.path(), address).unwrap();
            assert!(path.is_absolute());
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
        let text = fs::read_to_string(folder.path().join(FILE_NAME)).unwrap();
        assert!(text.contains("content=\"0;url=http://h/&quot;&gt;&lt;script&gt;&amp;code=cd\""), "{text}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
