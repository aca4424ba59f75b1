//! Files and folders that only the host's user may use, whatever the process's umask is.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;

const FILE_MODE: u32 = 0o600;
const FOLDER_MODE: u32 = 0o700;

/// The end of the names of files that are not complete. A killed host leaves them.
pub const UNFINISHED: &str = ".new";

/// Makes a folder with its parents. An existing folder keeps its mode, which its owner has chosen.
pub fn create_folder(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(path)?;
    fs::set_permissions(path, Permissions::from_mode(FOLDER_MODE))
}

/// Opens a file with these options, and makes it private, even if it was not. Refuses a folder, a pipe or a device with
/// [`io::ErrorKind::InvalidInput`].
pub fn open(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let irregular = || {
        let reason = "it is a folder, a pipe or a device and no file; move it away";
        io::Error::new(io::ErrorKind::InvalidInput, reason)
    };
    // Without the flag, opening a pipe waits for a program at its other end.
    let opened = options.mode(FILE_MODE).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path);
    let file = opened.map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::ISDIR | Errno::NXIO) => irregular(),
        _ => error,
    })?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(irregular());
    }
    if metadata.mode() & 0o777 != FILE_MODE && is_mine(&metadata) {
        file.set_permissions(Permissions::from_mode(FILE_MODE))?;
    }
    Ok(file)
}

/// Reads a file. Refuses a file of another user, a file that others can write, a link, a pipe and a device.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let mut file = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() || !is_mine(&metadata) || metadata.mode() & 0o022 != 0 {
        let reason = "it is no file of this user that others cannot write";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
    }
    let mut content = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or_default());
    file.read_to_end(&mut content)?;
    Ok(content)
}

/// Reads a secret, without the line break at its end. Refuses a file that other users can read or that its group can
/// write. The owner must be this user, or root, who writes the files of service managers.
pub fn read_secret(path: &Path, limit: usize) -> io::Result<String> {
    let file = OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path)?;
    let metadata = file.metadata()?;
    let is_trusted = is_mine(&metadata) || metadata.uid() == 0;
    if !metadata.is_file() || !is_trusted || metadata.mode() & 0o027 != 0 {
        let reason =
            "it is no file of this user or of root that others can neither read nor write; do `chmod 600` on it";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
    }
    if metadata.len() > limit as u64 {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it has more than {limit} bytes")));
    }
    let mut text = String::new();
    file.take(limit as u64).read_to_string(&mut text)?;
    let line = text.strip_suffix('\n').map(|line| line.strip_suffix('\r').unwrap_or(line));
    Ok(line.map(str::to_owned).unwrap_or(text))
}

/// Makes an empty file, or empties an existing one.
pub fn create(path: &Path) -> io::Result<File> {
    open(OpenOptions::new().write(true).create(true).truncate(true), path)
}

/// Replaces a file as a whole: after a crash it has its former content, or all of these parts. After an error, nothing
/// is left beside it, because on a full disk the store needs the room.
pub fn replace(path: &Path, parts: &[&[u8]]) -> io::Result<()> {
    // Two hosts can write the same file at once, so the name is a new one. Dropping the file removes this name.
    let name = path.file_name().unwrap_or_default();
    let mut file = tempfile::Builder::new().prefix(name).suffix(UNFINISHED).tempfile_in(folder_of(path))?;
    parts.iter().try_for_each(|part| file.write_all(part))?;
    rename_durably(file.path(), path)
}

/// Removes what a killed host has left unfinished in a folder. The data directory is locked.
pub fn remove_unfinished(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().ends_with(UNFINISHED) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Gives a complete file its name, in place of another file. It is on disk when this returns.
pub fn rename_durably(from: &Path, to: &Path) -> io::Result<()> {
    // Otherwise the name might survive a crash, and the content not.
    File::open(from)?.sync_all()?;
    fs::rename(from, to)?;
    File::open(folder_of(to))?.sync_all()
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Removes a file, if it exists.
pub fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Makes a file private that another program, or another version of this one, has made. Ignores a file that is missing
/// or belongs to another user.
pub fn make_private(path: &Path) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(metadata) if metadata.mode() & 0o077 != 0 && is_mine(&metadata) => {
            tracing::info!(path = %path.display(), "the file was readable by other users and is no longer");
            fs::set_permissions(path, Permissions::from_mode(FILE_MODE))
        }
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn is_mine(metadata: &fs::Metadata) -> bool {
    metadata.uid() == rustix::process::geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn files_are_private_also_if_they_were_there_before() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "secret").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        open(OpenOptions::new().append(true), &path).unwrap();
        assert_eq!(mode(&path), 0o600);
        fs::set_permissions(&path, Permissions::from_mode(0o664)).unwrap();
        make_private(&path).unwrap();
        assert_eq!(mode(&path), 0o600);
        make_private(&folder.path().join("missing")).unwrap();
        replace(&folder.path().join("other"), &[b"x", b"y"]).unwrap();
        assert_eq!(
            (mode(&folder.path().join("other")), fs::read(folder.path().join("other")).unwrap()),
            (0o600, b"xy".to_vec())
        );
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        replace(&path, &[b"another"]).unwrap();
        assert_eq!((mode(&path), fs::read(&path).unwrap()), (0o600, b"another".to_vec()));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    /// A failed rename stands for a full disk.
    #[test]
    fn a_file_that_cannot_be_replaced_leaves_nothing_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        // A file cannot replace a folder.
        fs::create_dir(&path).unwrap();
        replace(&path, &[b"new"]).unwrap_err();
        let names: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["file"]);
    }

    #[test]
    fn a_file_can_be_replaced_by_several_threads_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let replace = || (0..20).try_for_each(|_| replace(&path, &[b"whole"]));
        std::thread::scope(|scope| {
            let threads = [(); 4].map(|()| scope.spawn(replace));
            threads.into_iter().for_each(|thread| thread.join().unwrap().unwrap());
        });
        assert_eq!((fs::read(&path).unwrap(), fs::read_dir(folder.path()).unwrap().count()), (b"whole".to_vec(), 1));
    }

    #[test]
    fn a_pipe_a_device_and_a_folder_are_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let refuse = |result: io::Result<File>| {
            let error = result.map(drop).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
            assert_eq!(error.to_string(), "it is a folder, a pipe or a device and no file; move it away");
        };
        for path in [folder.path(), &pipe, Path::new("/dev/null")] {
            refuse(create(path));
            refuse(open(OpenOptions::new().append(true).read(true), path));
            refuse(open(OpenOptions::new().read(true), path));
        }
        // The pipe has a reader, so that it can be opened.
        let _reader = OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
        refuse(create(&pipe));
    }

    #[test]
    fn a_new_folder_is_private_and_one_that_is_there_keeps_its_mode() {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o750)).unwrap();
        create_folder(folder.path()).unwrap();
        assert_eq!(mode(folder.path()), 0o750);
        create_folder(&folder.path().join("a/b")).unwrap();
        assert_eq!((mode(&folder.path().join("a")), mode(&folder.path().join("a/b"))), (0o700, 0o700));
    }

    #[test]
    fn what_a_killed_host_left_unfinished_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let (whole, unfinished) = (folder.path().join("key"), folder.path().join(format!("keyAb12Cd{UNFINISHED}")));
        replace(&whole, &[b"key"]).unwrap();
        fs::write(&unfinished, "half").unwrap();
        remove_unfinished(folder.path());
        remove_unfinished(&folder.path().join("missing"));
        assert!(whole.exists() && !unfinished.exists());
    }
}
