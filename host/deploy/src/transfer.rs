//! The deployed components in a backup of the store. With them, a restored host serves the same components as the
//! original one.

use std::io;
use std::path::Path;

use hexad_store_sqlite::Attachment;
use hexad_support::bounded_file;
use hexad_support::digest::Digest;
use hexad_support::private_files;

use super::artifacts::Artifacts;
use super::policy::Signature;
use super::record::Records;

/// The folder in the data folder, and the record in it.
pub const FOLDER: &str = "components";
pub const RECORD: &str = "active.json";

/// How often the host reads the files again if a swap has changed them meanwhile.
const ATTEMPTS: u32 = 10;

/// Reads the record of active components in the data folder, and the record's components and signatures. `None` if no
/// component was ever swapped in.
pub fn read_deployed(data: &Path) -> io::Result<Vec<Attachment>> {
    let folder = data.join(FOLDER);
    let mut attempt = 1;
    loop {
        let before = read_optional(&folder.join(RECORD))?;
        let read = read_files(&folder, before.clone());
        let is_consistent = read_optional(&folder.join(RECORD))? == before;
        match read {
            Ok(files) if is_consistent => return Ok(files),
            Err(error) if is_consistent || attempt == ATTEMPTS => return Err(error),
            _ if attempt == ATTEMPTS => return Err(io::Error::other("components are swapped in all the time")),
            _ => attempt += 1,
        }
    }
}

fn read_files(folder: &Path, record: Option<Vec<u8>>) -> io::Result<Vec<Attachment>> {
    let Some(record) = record else { return Ok(Vec::new()) };
    let records = Records::open(folder.join(RECORD))?;
    let artifacts = Artifacts::open(folder.to_owned())?;
    let mut files = Vec::new();
    for digest in records.digests() {
        let path = artifacts.path(&digest);
        // The previous component may be missing: only a rollback needs it.
        if !artifacts.has(&digest) && !records.is_active(&digest) {
            continue;
        }
        let unusable = |error: io::Error| {
            let reason = format!("{}: {error}; restore it, or swap in a component anew", path.display());
            io::Error::new(error.kind(), reason)
        };
        files.push(attachment(&path, artifacts.read(&digest).map_err(unusable)?));
        let signature = Signature::beside(&path);
        files.extend(read_optional(&signature)?.map(|content| attachment(&signature, content)));
    }
    files.push(attachment(&folder.join(RECORD), record));
    Ok(files)
}

/// Writes the files of [`read_deployed`] into another data folder, the record last.
pub fn restore_deployed(data: &Path, files: Vec<Attachment>) -> io::Result<()> {
    let folder = data.join(FOLDER);
    let artifacts = Artifacts::open(folder.clone())?;
    let (records, files): (Vec<_>, Vec<_>) = files.into_iter().partition(|file| file.name == RECORD);
    for Attachment { name, content } in files {
        let parsed = |ending: &str| name.strip_suffix(ending).and_then(|digest| digest.parse::<Digest>().ok());
        if let Some(digest) = parsed(".wasm") {
            if Digest::of(&content) != digest {
                return Err(io::Error::new(io::ErrorKind::InvalidData, format!("{name} of the backup is damaged")));
            }
            artifacts.keep(&digest, &content, None)?;
        } else if let Some(digest) = parsed(".wasm.sig") {
            private_files::replace(&Signature::beside(&artifacts.path(&digest)), &[&content])?;
        } else {
            tracing::warn!(name = %name.escape_debug(), "the backup has a file that this version does not know");
        }
    }
    for record in records {
        private_files::replace(&folder.join(RECORD), &[&record.content])?;
        tracing::info!("the components that were swapped in were restored from the backup");
    }
    Ok(())
}

fn attachment(path: &Path, content: Vec<u8>) -> Attachment {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
    Attachment { name: name.unwrap_or_default(), content }
}

fn read_optional(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match bounded_file::read_component(path) {
        Ok(content) => Ok(Some(content)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
