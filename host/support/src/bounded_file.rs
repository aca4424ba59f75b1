//! Reads files that the host has not made. The bytes of a file are bounded, because a device has no end. The wait is
//! bounded too, because a pipe may have no writer.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::time::Timespec;

/// The largest component, in bytes.
pub const MAX_COMPONENT_BYTES: usize = 256 * 1024 * 1024;

/// How long the content of a pipe or a terminal may take to arrive, for example from a shell's `<(...)`.
const MAX_WAIT: Duration = Duration::from_secs(10);

pub fn read_component(path: &Path) -> io::Result<Vec<u8>> {
    read(path, MAX_COMPONENT_BYTES)
}

/// Reads a file of at most `limit` bytes.
pub fn read(path: &Path, limit: usize) -> io::Result<Vec<u8>> {
    read_within(path, limit, MAX_WAIT)
}

/// As [`read`], with another bound on the wait. Only irregular files make it wait.
fn read_within(path: &Path, limit: usize, max_wait: Duration) -> io::Result<Vec<u8>> {
    // Without the flag, opening a pipe waits for a writer.
    let file = OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path)?;
    let metadata = file.metadata()?;
    let too_large =
        || io::Error::new(io::ErrorKind::FileTooLarge, format!("it has more than {limit} bytes, which is the limit"));
    if metadata.len() > limit as u64 {
        return Err(too_large());
    }
    let mut content = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or_default());
    let max_bytes = limit as u64 + 1;
    if metadata.is_file() {
        file.take(max_bytes).read_to_end(&mut content)?;
    } else {
        let waiting = WaitingReader { file, started: Instant::now(), max_wait };
        waiting.take(max_bytes).read_to_end(&mut content)?;
    }
    if content.len() > limit { Err(too_large()) } else { Ok(content) }
}

/// Reads a text of at most `limit` bytes.
pub fn read_text(path: &Path, limit: usize) -> io::Result<String> {
    String::from_utf8(read(path, limit)?).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// A pipe, a terminal or a device, opened with `O_NONBLOCK`. All reads together wait for `max_wait` at most.
struct WaitingReader {
    file: File,
    started: Instant,
    max_wait: Duration,
}

impl WaitingReader {
    /// Waits until a read does not block: bytes have come, or the last writer has gone. It also waits for a pipe's
    /// first writer.
    fn wait(&self) -> io::Result<()> {
        loop {
            let left = self.max_wait.saturating_sub(self.started.elapsed());
            let timeout = Timespec::try_from(left).map_err(io::Error::other)?;
            match poll(&mut [PollFd::new(&self.file, PollFlags::IN)], Some(&timeout)) {
                Ok(0) => {
                    let reason = format!("it is no regular file, and its end did not come within {:?}", self.max_wait);
                    return Err(io::Error::new(io::ErrorKind::TimedOut, reason));
                }
                Err(Errno::INTR) => {}
                ready => return ready.map(drop).map_err(io::Error::from),
            }
        }
    }
}

impl Read for WaitingReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            self.wait()?;
            match self.file.read(buffer) {
                // Another reader took the bytes.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return result,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::io::Write;
    use std::process::{Command, Stdio};

    use super::*;

    /// A wait that no test reaches.
    const LONG: Duration = Duration::from_secs(3600);

    fn pipe(folder: &tempfile::TempDir) -> std::path::PathBuf {
        let path = folder.path().join("pipe");
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        path
    }

    #[test]
    fn a_pipe_whose_content_does_not_come_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = pipe(&folder);
        let refuse = || {
            let error = read_within(&path, 1000, Duration::from_millis(10)).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
            assert_eq!(error.to_string(), "it is no regular file, and its end did not come within 10ms");
        };
        refuse();
        // A writer that writes nothing, and then too little.
        let mut writer = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        refuse();
        writer.write_all(b"a part").unwrap();
        refuse();
    }

    #[test]
    fn a_pipe_is_read_to_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = pipe(&folder);
        // More than a pipe holds, so that writer and reader wait for each other.
        let content = vec![7; 1 << 20];
        std::thread::scope(|scope| {
            scope.spawn(|| std::fs::write(&path, &content).unwrap());
            assert!(read_within(&path, content.len(), LONG).unwrap() == content);
            scope.spawn(|| std::fs::write(&path, &content[..1001]));
            assert_eq!(read_within(&path, 1000, LONG).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        });
        // A pipe without a name, as a shell's `<(...)`.
        let echo = Command::new("echo").arg("text").stdout(Stdio::piped()).spawn().unwrap();
        let output = std::os::fd::AsRawFd::as_raw_fd(echo.stdout.as_ref().unwrap());
        assert_eq!(read_within(Path::new(&format!("/dev/fd/{output}")), 10, LONG).unwrap(), b"text\n");
        echo.wait_with_output().unwrap();
    }

    #[test]
    fn a_file_without_an_end_is_refused() {
        let error = read(Path::new("/dev/zero"), 1000).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(error.to_string(), "it has more than 1000 bytes, which is the limit");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, [1; 10]).unwrap();
        assert_eq!(read(&path, 10).unwrap(), [1; 10]);
        assert_eq!(read(&path, 9).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    }
}
