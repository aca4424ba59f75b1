//! Version runs, as in a log-structured merge tree. A run has some versions of a package: each version's upload, and
//! its records in the form of metadata. Runs are disjoint and immutable.
//!
//! As a package grows, its runs are merged in tiers by size. So metadata of thousands of versions is copied from a
//! handful of blobs, and publishing rewrites little.

use crate::manifest;
use kit::Timestamp;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// The three blobs of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VersionRun {
    pub index: Index,
    pub full: FormRecords,
    pub abbreviated: FormRecords,
}

/// The upload of each version: sorted lines `version TAB upload TAB milliseconds TAB state LF`. An unpublished version
/// keeps its line, because its number is never reused.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Index(pub String);

/// A version's line in an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexEntry<'a> {
    pub version: &'a str,
    /// The upload that holds the file.
    pub upload: &'a str,
    /// When the version was published.
    pub at: Timestamp,
    pub state: VersionState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VersionState {
    Listed,
    /// The number is not used again.
    Unpublished,
}

impl VersionState {
    /// Its name in the index.
    const fn name(self) -> &'static str {
        match self {
            VersionState::Listed => "listed",
            VersionState::Unpublished => "reserved",
        }
    }
}

impl<'a> IndexEntry<'a> {
    fn read(line: &'a str) -> Option<Self> {
        let mut fields = line.split('\t');
        let (version, upload, at, state) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
        let state =
            [VersionState::Listed, VersionState::Unpublished].into_iter().find(|known| known.name() == state)?;
        let at = Timestamp::from_millis(at.parse().ok()?);
        fields.next().is_none().then_some(IndexEntry { version, upload, at, state })
    }

    fn line(&self) -> String {
        format!("{}\t{}\t{}\t{}\n", self.version, self.upload, self.at.millis(), self.state.name())
    }
}

impl Index {
    pub fn entries(&self) -> impl Iterator<Item = IndexEntry<'_>> {
        entries(self.0.as_bytes())
    }
}

/// How many versions the text of an index lists. `None` if it is damaged: a line is no entry, or does not sort after
/// the line before it. Other readers of an index do not check its lines.
pub fn count_listed(index: &[u8]) -> Option<u64> {
    let (mut last, mut listed) = ("", 0);
    for line in index.split_inclusive(|byte| *byte == b'\n') {
        let entry = IndexEntry::read(std::str::from_utf8(line).ok()?.strip_suffix('\n')?)?;
        if entry.version <= last {
            return None;
        }
        last = entry.version;
        listed += u64::from(entry.state == VersionState::Listed);
    }
    Some(listed)
}

/// The entry of `version` in the text of an index, by binary search.
pub fn find<'a>(index: &'a [u8], version: &str) -> Option<IndexEntry<'a>> {
    let mut range = index;
    while !range.is_empty() {
        let (before, after) = range.split_at(range.len() / 2);
        let start = memchr::memrchr(b'\n', before).map_or(0, |at| at + 1);
        let end = memchr::memchr(b'\n', after).map_or(range.len(), |at| before.len() + at + 1);
        let line = range.get(start..end)?;
        let key = line.get(..memchr::memchr(b'\t', line)?)?;
        match key.cmp(version.as_bytes()) {
            std::cmp::Ordering::Equal => return IndexEntry::read(std::str::from_utf8(line).ok()?.trim_end()),
            std::cmp::Ordering::Less => range = range.get(end..)?,
            std::cmp::Ordering::Greater => range = range.get(..start)?,
        }
    }
    None
}

/// The entries in the text of an index.
pub fn entries(index: &[u8]) -> impl Iterator<Item = IndexEntry<'_>> {
    index.split(|byte| *byte == b'\n').filter_map(|line| IndexEntry::read(std::str::from_utf8(line).ok()?))
}

/// The entries in the text of an index, each with the offset at which it begins.
pub fn entries_with_offsets(index: &[u8]) -> impl Iterator<Item = (usize, IndexEntry<'_>)> {
    let mut next = 0;
    index.split(|byte| *byte == b'\n').filter_map(move |line| {
        let start = next;
        next += line.len() + 1;
        Some((start, IndexEntry::read(std::str::from_utf8(line).ok()?)?))
    })
}

/// The entry that begins at an offset.
pub fn entry_at(index: &[u8], start: usize) -> Option<IndexEntry<'_>> {
    entries(index.get(start..)?).next()
}

/// The records of one form of metadata, one a line, in the order of publication. Every line ends
/// with a comma and a line feed, so that forms are joined by copying. Stored as the length of
/// `versions` in decimal, a line feed, `versions`, `times`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FormRecords {
    /// Lines `"1.0.0":{…},`, in which [`manifest::URL_PLACEHOLDER`] stands for the address of the registry.
    pub versions: String,
    /// Lines `"1.0.0":"2026-11-21T05:49:56.123Z",`.
    pub times: String,
}

impl FormRecords {
    pub fn to_bytes(&self) -> Vec<u8> {
        format!("{}\n{}{}", self.versions.len(), self.versions, self.times).into_bytes()
    }

    pub fn read(bytes: &[u8]) -> Option<Self> {
        let (versions, times) = split(bytes)?;
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
        Some(FormRecords { versions: text(versions)?, times: text(times)? })
    }

    fn append(&mut self, other: &FormRecords) {
        self.versions.push_str(&other.versions);
        self.times.push_str(&other.times);
    }

    /// Whether it has exactly one line for each version that an index lists, with the version's time.
    pub fn is_of(&self, index: &Index) -> bool {
        let listed = index.entries().filter(|entry| entry.state == VersionState::Listed);
        let mut missing: BTreeMap<&str, Timestamp> = listed.map(|entry| (entry.version, entry.at)).collect();
        let mut times = String::new();
        for line in self.versions.split_inclusive('\n') {
            let record = line.strip_suffix('\n').and_then(record);
            match record.and_then(|(version, _)| missing.remove_entry(version)) {
                Some((version, at)) => times.push_str(&time_line(version, at)),
                None => return false,
            }
        }
        missing.is_empty() && times == self.times
    }

    /// Replaces each record by the result of `change`, or removes it with its time.
    fn retain(&mut self, mut change: impl FnMut(&str, &str) -> Option<String>) {
        let (mut versions, mut times) = (String::new(), String::new());
        for (line, time) in self.versions.lines().zip(self.times.lines()) {
            let Some((version, record)) = record(line) else { continue };
            if let Some(record) = change(version, record) {
                versions.push_str(&line_of(version, &record));
                times.push_str(time);
                times.push('\n');
            }
        }
        *self = FormRecords { versions, times };
    }
}

/// The lines `versions` and `times` of a stored form.
pub fn split(form: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = memchr::memchr(b'\n', form)?;
    let length = std::str::from_utf8(form.get(..end)?).ok()?.parse().ok()?;
    form.get(end + 1..)?.split_at_checked(length)
}

impl FormRecords {
    /// The version and the record of each line, in the order of publication.
    pub fn records(&self) -> impl Iterator<Item = (&str, &str)> {
        self.versions.lines().filter_map(record)
    }
}

/// The version and the record of a line of [`FormRecords::versions`].
fn record(line: &str) -> Option<(&str, &str)> {
    let (version, record) = line.strip_prefix('"')?.split_once("\":")?;
    Some((version, record.strip_suffix(',')?))
}

/// The record of `version` among the lines `versions` of a form.
pub fn record_of<'a>(versions: &'a [u8], version: &str) -> Option<&'a [u8]> {
    // Records have no line feeds, so a key after a line feed begins a line.
    let start = format!("\n\"{version}\":");
    let first = start.get(1..)?.as_bytes();
    let record = match versions.strip_prefix(first) {
        Some(record) => record,
        None => versions.get(memchr::memmem::find(versions, start.as_bytes())? + start.len()..)?,
    };
    record.get(..memchr::memchr(b'\n', record)?)?.strip_suffix(b",")
}

/// The versions that are deprecated, among the lines `versions` of a form.
pub fn deprecated(versions: &[u8]) -> BTreeSet<&str> {
    let lines = versions.split(|byte| *byte == b'\n').filter_map(|line| record(std::str::from_utf8(line).ok()?));
    lines.filter(|(_, record)| manifest::is_deprecated(record)).map(|(version, _)| version).collect()
}

/// The version of each line of a form, of `versions` or of `times`.
pub fn versions_of(lines: &[u8]) -> impl Iterator<Item = &[u8]> {
    lines.split_inclusive(|byte| *byte == b'\n').filter_map(version_of)
}

/// The version at the beginning of a line of a form.
fn version_of(line: &[u8]) -> Option<&[u8]> {
    let key = line.strip_prefix(b"\"")?;
    key.get(..memchr::memchr(b'"', key)?)
}

/// The lines of a form, of `versions` or of `times`, without those of `hidden` versions.
pub fn without<'a>(lines: &'a [u8], hidden: &HashSet<Vec<u8>>) -> Cow<'a, [u8]> {
    if versions_of(lines).all(|version| !hidden.contains(version)) {
        return Cow::Borrowed(lines);
    }
    let is_shown = |line: &&[u8]| version_of(line).is_some_and(|version| !hidden.contains(version));
    Cow::Owned(lines.split_inclusive(|byte| *byte == b'\n').filter(is_shown).collect::<Vec<_>>().concat())
}

fn line_of(version: &str, record: &str) -> String {
    format!("\"{version}\":{record},\n")
}

fn time_line(version: &str, at: Timestamp) -> String {
    format!("\"{version}\":\"{}\",\n", at.to_iso())
}

impl VersionRun {
    /// A run of one version. The records are those of [`manifest::Manifest`].
    pub fn of(entry: &IndexEntry, full: &str, abbreviated: &str) -> Self {
        let times = time_line(entry.version, entry.at);
        let form = |record| FormRecords { versions: line_of(entry.version, record), times: times.clone() };
        VersionRun { index: Index(entry.line()), full: form(full), abbreviated: form(abbreviated) }
    }

    /// Merges `runs`, which are in the order of publication, into one run.
    pub fn merge(runs: impl IntoIterator<Item = VersionRun>) -> Self {
        let mut merged = VersionRun::default();
        for run in runs {
            merged.index.0.push_str(&run.index.0);
            merged.full.append(&run.full);
            merged.abbreviated.append(&run.abbreviated);
        }
        let mut lines: Vec<&str> = merged.index.0.split_inclusive('\n').collect();
        // The separator sorts before every character of a version, so lines sort as versions do.
        lines.sort_unstable();
        merged.index.0 = lines.concat();
        merged
    }

    /// Sets the deprecation message of each version in `messages`; an empty message removes the
    /// deprecation.
    pub fn deprecate(&mut self, messages: &BTreeMap<String, String>) {
        for form in [&mut self.full, &mut self.abbreviated] {
            form.retain(|version, record| {
                Some(match messages.get(version) {
                    Some(message) => manifest::set_deprecated(record, message),
                    None => record.to_owned(),
                })
            });
        }
    }

    /// Removes the records of versions and marks them as unpublished in the index.
    pub fn unpublish(&mut self, is_removed: impl Fn(&str) -> bool) {
        for form in [&mut self.full, &mut self.abbreviated] {
            form.retain(|version, record| (!is_removed(version)).then(|| record.to_owned()));
        }
        let lines = self.index.entries().map(|mut entry| {
            if is_removed(entry.version) {
                entry.state = VersionState::Unpublished;
            }
            entry.line()
        });
        self.index = Index(lines.collect());
    }

    /// Its blobs as they are stored: the index, the full and the abbreviated form.
    pub fn to_blobs(&self) -> [Vec<u8>; 3] {
        [self.index.0.clone().into_bytes(), self.full.to_bytes(), self.abbreviated.to_bytes()]
    }

    /// How many versions metadata lists.
    pub fn listed(&self) -> u64 {
        self.index.entries().filter(|entry| entry.state == VersionState::Listed).count() as u64
    }

    /// The size that decides about merging, in bytes.
    pub fn size(&self) -> u64 {
        (self.full.versions.len() + self.index.0.len()) as u64
    }
}

/// Runs up to this size, in bytes, are merged with every publication: copying them costs less than reading one blob
/// more.
const SMALL_RUN: u64 = 16 * 1024;

/// A tier is this many times as large as the tier below. This many runs of a tier are merged into one run of the next
/// tier.
const TIER_FACTOR: u64 = 4;

/// Runs above this size, in bytes, are not merged further, so that no publication rewrites more than about
/// [`TIER_FACTOR`] times as much.
const LARGE_RUN: u64 = 1024 * 1024;

fn tier(size: u64) -> u32 {
    (size / SMALL_RUN).checked_ilog(TIER_FACTOR).map_or(0, |tier| tier + 1)
}

/// How many of the newest runs to merge with a new run of `size`. `sizes` are the sizes of the existing runs, oldest
/// first.
pub fn to_merge(sizes: &[u64], size: u64) -> usize {
    let mut rest = sizes;
    let mut total = size;
    while let Some((last, before)) = rest.split_last() {
        if last + total <= SMALL_RUN {
            total += last;
            rest = before;
            continue;
        }
        let count = rest.iter().rev().take_while(|size| **size <= LARGE_RUN && tier(**size) <= tier(total)).count();
        if total > LARGE_RUN || (count as u64) < TIER_FACTOR - 1 {
            break;
        }
        let (before, peers) = rest.split_at(rest.len() - count);
        total += peers.iter().sum::<u64>();
        rest = before;
    }
    sizes.len() - rest.len()
}

#[cfg(test)]
mod tests;
