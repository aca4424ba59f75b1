//! The output of `git cat-file --batch`, cut into batches between two objects. Objects are streamed,
//! so their size is not bounded by memory.

use std::io::{self, BufRead, BufReader, Read};
use std::process::{Child, ChildStdout};

use anyhow::{Context, Result, bail};

/// The bounds of one request, in bytes and in objects. A request that fails is sent again as a whole.
const BYTES: u64 = 16 << 20;
const OBJECTS: u64 = 20_000;

/// The longest line before an object, in bytes.
const MAX_LINE: u64 = 200;

pub struct Batches {
    git: Child,
    output: BufReader<ChildStdout>,
}

impl Batches {
    pub fn new(mut git: Child) -> Result<Self> {
        let output = git.stdout.take().context("git has no output")?;
        Ok(Batches { git, output: BufReader::with_capacity(256 << 10, output) })
    }

    /// The next batch; none at the end.
    pub fn next(&mut self) -> io::Result<Option<Batch<'_, BufReader<ChildStdout>>>> {
        let ended = self.output.fill_buf()?.is_empty();
        Ok((!ended).then(|| Batch::new(&mut self.output)))
    }

    /// Waits for git, which must succeed.
    pub fn end(mut self) -> Result<()> {
        let status = self.git.wait()?;
        if !status.success() {
            bail!("git cat-file failed: {status}");
        }
        Ok(())
    }
}

/// Whole objects, of about [`BYTES`] together.
pub struct Batch<'a, R> {
    output: &'a mut R,
    /// Bytes of the current object that were not read yet, with the line end after it.
    remaining: u64,
    header: Vec<u8>,
    /// How much of `header` was read by the caller.
    consumed: usize,
    bytes: u64,
    objects: u64,
    failure: Option<String>,
}

impl<'a, R: BufRead> Batch<'a, R> {
    fn new(output: &'a mut R) -> Self {
        Batch { output, remaining: 0, header: Vec::new(), consumed: 0, bytes: 0, objects: 0, failure: None }
    }

    /// Why git's output ended early, if it did.
    pub fn take_failure(&mut self) -> Option<String> {
        self.failure.take()
    }

    /// Reads the line before the next object; false if the batch is full, or at the end.
    fn begin_object(&mut self) -> io::Result<bool> {
        if self.bytes >= BYTES || self.objects >= OBJECTS {
            return Ok(false);
        }
        self.header.clear();
        self.consumed = 0;
        self.output.take(MAX_LINE).read_until(b'\n', &mut self.header)?;
        if self.header.is_empty() {
            return Ok(false);
        }
        let line = String::from_utf8_lossy(&self.header);
        let size = line.strip_suffix('\n').and_then(|line| line.split(' ').nth(2)?.parse::<u64>().ok());
        let Some(size) = size else {
            let reason = format!("git cannot print an object: {}; run `git fsck`", line.trim());
            self.failure = Some(reason.clone());
            return Err(io::Error::other(reason));
        };
        self.remaining = size + 1;
        self.bytes += size;
        self.objects += 1;
        Ok(true)
    }
}

impl<R: BufRead> Read for Batch<'_, R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        // Many objects are small: one call reads several.
        while filled < into.len() {
            let Some(room) = into.get_mut(filled..) else { break };
            if let Some(header) = self.header.get(self.consumed..).filter(|rest| !rest.is_empty()) {
                let taken = header.len().min(room.len());
                room.iter_mut().zip(header).for_each(|(to, from)| *to = *from);
                self.consumed += taken;
                filled += taken;
            } else if self.remaining > 0 {
                let limit = usize::try_from(self.remaining).map_or(room.len(), |remaining| remaining.min(room.len()));
                let taken = self.output.read(room.get_mut(..limit).unwrap_or_default())?;
                if taken == 0 {
                    let reason = "git stopped within an object".to_owned();
                    self.failure = Some(reason.clone());
                    return Err(io::Error::other(reason));
                }
                self.remaining -= taken as u64;
                filled += taken;
            } else if !self.begin_object()? {
                break;
            }
        }
        Ok(filled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u64) -> String {
        format!("{number:040x}")
    }

    fn read(batch: &mut Batch<&[u8]>, step: usize) -> io::Result<Vec<u8>> {
        let (mut all, mut part) = (Vec::new(), vec![0; step]);
        loop {
            match batch.read(&mut part)? {
                0 => return Ok(all),
                taken => all.extend_from_slice(&part[..taken]),
            }
        }
    }

    #[test]
    fn a_batch_ends_between_objects_and_nothing_is_lost() {
        let objects: Vec<u8> =
            (0..2 * OBJECTS + 5).flat_map(|number| format!("{} blob 3\na\nb\n", id(number)).into_bytes()).collect();
        for step in [7, 4096] {
            let mut rest = objects.as_slice();
            let mut sent = Vec::new();
            let mut counts = Vec::new();
            while !rest.is_empty() {
                let mut batch = Batch::new(&mut rest);
                sent.extend(read(&mut batch, step).unwrap());
                counts.push(batch.objects);
            }
            assert!(sent == objects);
            assert_eq!(counts, [OBJECTS, OBJECTS, 5]);
        }
    }

    #[test]
    fn a_large_object_is_a_batch_of_its_own_with_what_came_before() {
        let large = format!("{} blob {}\n{}\n", id(1), BYTES, "x".repeat(BYTES as usize));
        let all = format!("{} blob 0\n\n{large}{} tree 0\n\n", id(0), id(2));
        let mut rest = all.as_bytes();
        assert_eq!(read(&mut Batch::new(&mut rest), 1 << 16).unwrap().len(), all.len() - 48 - 1);
        assert_eq!(rest, format!("{} tree 0\n\n", id(2)).as_bytes());
    }

    #[test]
    fn what_git_cannot_print_is_an_error() {
        for (printed, reason) in
            [(format!("{} missing\n", id(1)), "cannot print"), (format!("{} blob 5\nab", id(1)), "within an object")]
        {
            let mut rest = printed.as_bytes();
            let mut batch = Batch::new(&mut rest);
            assert!(read(&mut batch, 100).is_err());
            assert!(batch.take_failure().unwrap().contains(reason));
        }
    }
}
