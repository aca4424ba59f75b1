//! Corpora of inputs, and random changes of them.

use crate::*;
use fastrand::Rng;
use std::sync::{Mutex, Once};

/// The inputs in `corpus/<folder>` with the names of their files.
pub fn corpus(folder: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(folder);
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let mut seeds: Vec<_> = files
        .map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), std::fs::read(path).unwrap()))
        .collect();
    seeds.sort();
    seeds
}

/// An endless iterator of changed inputs, the same in every run. A change moves parts of the inputs, or leaves them
/// out.
pub struct Changes {
    seeds: Vec<Vec<Vec<u8>>>,
    /// Parts that a change inserts.
    pieces: &'static [&'static [u8]],
    rng: Rng,
}

impl Changes {
    /// `parts` are those of an input.
    pub fn new<'a>(
        seeds: impl IntoIterator<Item = &'a [u8]>,
        parts: impl Fn(&'a [u8]) -> Vec<&'a [u8]>,
        pieces: &'static [&'static [u8]],
    ) -> Self {
        let seeds = seeds.into_iter().map(|seed| parts(seed).into_iter().map(<[u8]>::to_vec).collect());
        Self { seeds: seeds.collect(), pieces, rng: Rng::with_seed(1) }
    }

    /// The same of the inputs in `corpus/<folder>`.
    pub fn of_corpus(folder: &str, parts: impl Fn(&[u8]) -> Vec<&[u8]>, pieces: &'static [&'static [u8]]) -> Self {
        let corpus = corpus(folder);
        Self::new(corpus.iter().map(|(_, bytes)| bytes.as_slice()), parts, pieces)
    }

    fn piece(&mut self) -> Vec<u8> {
        let piece = self.rng.usize(..self.pieces.len());
        self.pieces[piece].to_vec()
    }
}

impl Iterator for Changes {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        let seed = self.rng.usize(..self.seeds.len());
        let mut parts = self.seeds[seed].clone();
        for _ in 0..=self.rng.usize(..4) {
            let at = self.rng.usize(..parts.len() + 1);
            match self.rng.usize(..5) {
                0 => parts.insert(at, self.piece()),
                1 => parts.truncate(at.max(1)),
                2 => match parts.get(at).map(Vec::len) {
                    Some(1) => parts[at] = vec![self.rng.u8(..)],
                    Some(_) => parts[at] = self.piece(),
                    None => {}
                },
                3 => {
                    let end = parts.len().min(at + 1 + self.rng.usize(..20));
                    parts.drain(at..end);
                }
                _ => {
                    let other = self.rng.usize(..self.seeds.len());
                    let from = self.rng.usize(..self.seeds[other].len());
                    parts.extend_from_slice(&self.seeds[other][from..]);
                }
            }
        }
        Some(parts.concat())
    }
}

/// Each byte of an input.
pub fn bytes(input: &[u8]) -> Vec<&[u8]> {
    input.chunks(1).collect()
}

/// The threads of a host that a client's bytes reach, by the beginnings of their names.
const HOST_THREADS: [&str; 3] = ["shard-", "acceptor", "admin"];

/// Panics of such threads, of all hosts of this process.
static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Records panics of hosts from now on. The runtime catches a panic of a connection, so the client only sees the
/// connection's end.
pub fn watch_panics() {
    static WATCH: Once = Once::new();
    WATCH.call_once(|| {
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let thread = std::thread::current();
            if thread.name().is_some_and(|name| HOST_THREADS.iter().any(|start| name.starts_with(start))) {
                PANICS.lock().unwrap().push(panic.to_string());
            }
            report(panic);
        }));
    });
}

/// Checks that no host has panicked since the first call of `watch_panics`.
#[track_caller]
pub fn assert_no_panic() {
    let panics = PANICS.lock().unwrap().clone();
    assert!(panics.is_empty(), "{panics:?}");
}
