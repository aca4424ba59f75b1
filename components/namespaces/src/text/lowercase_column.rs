//! A column of lower-case texts, searched by words.

use directory::catalog::Texts;
use memchr::memmem::Finder;
use std::cell::OnceCell;
use std::ops::Range;

/// A column of lower-case texts.
pub(super) struct LowercaseColumn {
    rows: usize,
    text: String,
    /// The end of each row's text, in bytes.
    ends: Vec<u32>,
    trigrams: OnceCell<Trigrams>,
}

impl LowercaseColumn {
    pub(super) fn of(texts: &Texts, rows: usize) -> Self {
        if texts.all().is_ascii() {
            let ends = (0..rows).map(|row| texts.range(row).end as u32).collect();
            return LowercaseColumn { rows, text: texts.all().to_ascii_lowercase(), ends, trigrams: OnceCell::new() };
        }
        let (mut text, mut ends) = (String::with_capacity(texts.all().len()), Vec::with_capacity(rows));
        for row in 0..rows {
            text.extend(texts.get(row).chars().flat_map(char::to_lowercase));
            ends.push(text.len() as u32);
        }
        LowercaseColumn { rows, text, ends, trigrams: OnceCell::new() }
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    fn range(&self, row: usize) -> Range<usize> {
        let end_of = |row: usize| self.ends.get(row).map_or(0, |end| *end as usize);
        row.checked_sub(1).map_or(0, end_of)..end_of(row)
    }

    pub(super) fn get(&self, row: usize) -> &str {
        self.text.get(self.range(row)).unwrap_or_default()
    }

    /// The rows whose text contains all of these words.
    pub(super) fn rows_with<W: AsRef<str>>(&self, words: &[W]) -> Rows {
        let mut found = Rows::empty(self.rows);
        match self.candidates(words) {
            Candidates::Exactly(rows) => rows.iter().for_each(|row| found.add(*row as usize)),
            candidates => {
                let finders: Vec<Finder> = words.iter().map(|word| Finder::new(word.as_ref())).collect();
                let contains_all = |text: &str| finders.iter().all(|finder| finder.find(text.as_bytes()).is_some());
                self.filter(candidates, contains_all, &mut found);
            }
        }
        found
    }

    /// The rows whose text contains `word` and satisfies `is_match`.
    pub(super) fn rows_where(&self, word: &str, is_match: impl Fn(&str) -> bool) -> Rows {
        let mut found = Rows::empty(self.rows);
        self.filter(self.candidates(&[word]), is_match, &mut found);
        found
    }

    fn filter(&self, candidates: Candidates, is_match: impl Fn(&str) -> bool, found: &mut Rows) {
        let mut check = |row: usize| {
            if is_match(self.get(row)) {
                found.add(row);
            }
        };
        match candidates {
            Candidates::All => (0..self.rows).for_each(check),
            Candidates::Exactly(rows) => rows.iter().for_each(|row| check(*row as usize)),
            Candidates::Among(rows) => rows.iter().for_each(|row| check(*row as usize)),
        }
    }

    fn candidates<W: AsRef<str>>(&self, words: &[W]) -> Candidates<'_> {
        let trigrams = self.trigrams.get_or_init(|| {
            Trigrams::of(
                &self.text,
                self.ends.iter().scan(0, |start, end| {
                    let range = *start as usize..*end as usize;
                    *start = *end;
                    Some(range)
                }),
            )
        });
        trigrams.candidates(words)
    }
}

/// A set of row numbers, as a bitmap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rows(Vec<u64>);

impl Rows {
    pub(super) fn empty(rows: usize) -> Self {
        Rows(vec![0; rows.div_ceil(64)])
    }

    pub(super) fn add(&mut self, row: usize) {
        if let Some(word) = self.0.get_mut(row / 64) {
            *word |= 1 << (row % 64);
        }
    }

    pub(super) fn contains(&self, row: usize) -> bool {
        self.0.get(row / 64).is_some_and(|word| word >> (row % 64) & 1 == 1)
    }

    pub(super) fn intersect(&mut self, other: &Rows) {
        self.0.iter_mut().zip(&other.0).for_each(|(word, other)| *word &= other);
    }

    pub(super) fn union(&mut self, other: &Rows) {
        self.0.iter_mut().zip(&other.0).for_each(|(word, other)| *word |= other);
    }

    /// The rows, ascending.
    pub fn iter(&self) -> impl Iterator<Item = usize> {
        self.0.iter().enumerate().flat_map(|(at, word)| {
            let mut left = *word;
            std::iter::from_fn(move || {
                let bit = left.trailing_zeros();
                left &= left.checked_sub(1)?;
                Some(at * 64 + bit as usize)
            })
        })
    }
}

/// The posting lists of all trigrams. Trigrams are hashed to buckets, so several may share a bucket.
pub(super) struct Trigrams {
    /// The start of the posting list of each bucket in `rows`, and then the end of the last list.
    starts: Vec<u32>,
    /// Rows ascend in each list. A row repeats as often as its text has the trigram.
    rows: Vec<u32>,
}

/// The rows that may contain all words of a query.
pub(super) enum Candidates<'a> {
    /// The words are too short for trigrams.
    All,
    /// Exactly these rows contain them.
    Exactly(&'a [u32]),
    /// Only these rows may contain them.
    Among(Vec<u32>),
}

/// Bits of a byte class.
const BITS: u32 = 6;
const BUCKETS: usize = 1 << (3 * BITS);

/// Each lower class has a single byte. All other bytes share the remaining classes.
const SHARED_CLASS: u8 = 40;

/// The class of each byte. Common bytes of lower-case paths and names have classes of their own.
const CLASSES: [u8; 256] = classes();

#[allow(clippy::indexing_slicing, reason = "at compile time")]
const fn classes() -> [u8; 256] {
    let mut classes = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let other = SHARED_CLASS + (byte % (64 - SHARED_CLASS as usize)) as u8;
        classes[byte] = match byte as u8 {
            letter @ b'a'..=b'z' => letter - b'a',
            digit @ b'0'..=b'9' => 26 + (digit - b'0'),
            b'-' => 36,
            b'_' => 37,
            b'.' => 38,
            b' ' => 39,
            _ => other,
        };
        byte += 1;
    }
    classes
}

fn class(byte: u8) -> u8 {
    CLASSES.get(usize::from(byte)).copied().unwrap_or(SHARED_CLASS)
}

/// The bucket of a trigram.
fn bucket(trigram: &[u8; 3]) -> usize {
    trigram.iter().fold(0, |bucket, byte| bucket << BITS | usize::from(class(*byte)))
}

impl Trigrams {
    /// Builds the index of consecutive ranges of `text`, one per row.
    pub(super) fn of(text: &str, rows: impl Iterator<Item = Range<usize>> + Clone) -> Self {
        let buckets = |range: Range<usize>| {
            let text = text.as_bytes().get(range).unwrap_or_default();
            text.array_windows::<3>().map(bucket)
        };
        let mut starts = vec![0_u32; BUCKETS + 1];
        for bucket in rows.clone().flat_map(buckets) {
            if let Some(next) = starts.get_mut(bucket + 1) {
                *next += 1;
            }
        }
        let mut total = 0;
        for start in &mut starts {
            total += *start;
            *start = total;
        }
        let mut next = starts.clone();
        let mut filled = vec![0; total as usize];
        for (row, range) in rows.enumerate() {
            for bucket in buckets(range) {
                let Some(at) = next.get_mut(bucket) else { continue };
                if let Some(cell) = filled.get_mut(*at as usize) {
                    *cell = row as u32;
                }
                *at += 1;
            }
        }
        Trigrams { starts, rows: filled }
    }

    fn posting_list(&self, bucket: usize) -> &[u32] {
        let start = |bucket: usize| self.starts.get(bucket).map_or(0, |start| *start as usize);
        self.rows.get(start(bucket)..start(bucket + 1)).unwrap_or_default()
    }

    /// The rows that have all trigrams of all words: a superset of the matching rows.
    pub(super) fn candidates<W: AsRef<str>>(&self, words: &[W]) -> Candidates<'_> {
        let trigrams = words.iter().flat_map(|word| word.as_ref().as_bytes().array_windows::<3>());
        let mut buckets: Vec<usize> = trigrams.map(bucket).collect();
        buckets.sort_unstable();
        buckets.dedup();
        let mut lists: Vec<&[u32]> = buckets.iter().map(|bucket| self.posting_list(*bucket)).collect();
        lists.sort_unstable_by_key(|rows| rows.len());
        let Some((rarest, more)) = lists.split_first() else { return Candidates::All };
        if let ([word], []) = (words, more)
            && word.as_ref().len() == 3
            && word.as_ref().bytes().all(|byte| class(byte) < SHARED_CLASS)
        {
            return Candidates::Exactly(rarest);
        }
        let mut rows = rarest.to_vec();
        rows.dedup();
        for list in more {
            if rows.len() <= FEW_CANDIDATES {
                break;
            }
            rows = if list.len() / rows.len() < SEARCH_FACTOR {
                intersect_by_bitmap(&rows, list)
            } else {
                intersect_by_search(&rows, list)
            };
        }
        Candidates::Among(rows)
    }
}

/// Up to this many candidates are checked directly, without further intersections.
const FEW_CANDIDATES: usize = 32;

/// If a list is this many times longer than the candidates, each candidate is searched in it.
const SEARCH_FACTOR: usize = 16;

/// The intersection of two ascending lists, by a bitmap. The loop does not branch on row values, because the processor
/// would mispredict the branch.
fn intersect_by_bitmap(rows: &[u32], list: &[u32]) -> Vec<u32> {
    let first = rows.first().map_or(0, |row| *row / 64);
    let last = rows.last().map_or(0, |row| *row / 64);
    let mut marks = vec![0_u64; (last - first) as usize + 1];
    for row in rows {
        if let Some(mark) = marks.get_mut((row / 64 - first) as usize) {
            *mark |= 1 << (row % 64);
        }
    }
    let (mut found, mut count) = (vec![0; list.len()], 0);
    for row in list {
        let mark = marks.get((row / 64).wrapping_sub(first) as usize).copied().unwrap_or(0);
        if let Some(next) = found.get_mut(count) {
            *next = *row;
        }
        count += (mark >> (row % 64) & 1) as usize;
    }
    found.truncate(count);
    found.dedup();
    found
}

/// The same intersection, by searching each row in a much longer list.
fn intersect_by_search(rows: &[u32], list: &[u32]) -> Vec<u32> {
    let mut rest = list;
    let is_in_list = |row: &&u32| {
        rest = seek(rest, **row);
        rest.first() == Some(*row)
    };
    rows.iter().filter(is_in_list).copied().collect()
}

/// The rest of an ascending list from the first row that is not below `row`. It is a galloping search.
fn seek(list: &[u32], row: u32) -> &[u32] {
    let mut step = 1;
    while list.get(step).is_some_and(|found| *found < row) {
        step *= 2;
    }
    let near = list.get(..=step).unwrap_or(list);
    list.get(near.partition_point(|found| *found < row)..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seek_skips_to_the_row_or_the_next_larger_one() {
        let list: Vec<u32> = (0..100).map(|n| n / 2 * 3).collect();
        for row in 0..160 {
            let expected: Vec<u32> = list.iter().copied().filter(|found| *found >= row).collect();
            assert_eq!(seek(&list, row), expected, "{row}");
        }
        assert_eq!(seek(&[], 1), [0; 0]);
    }

    #[test]
    fn rows_in_both_lists_are_found_in_either_way() {
        let every = |step: u32, times: u32, most: u32| -> Vec<u32> {
            (0..most).flat_map(|n| std::iter::repeat_n(n * step, times as usize)).collect()
        };
        for (a, b) in [(2, 3), (3, 2), (64, 1), (1, 64), (7, 7), (63, 65)] {
            let (rows, list) = (every(a, 1, 300), every(b, 2, 400));
            let expected: Vec<u32> = rows.iter().copied().filter(|row| list.contains(row)).collect();
            assert_eq!(intersect_by_bitmap(&rows, &list), expected, "{a} {b}");
            assert_eq!(intersect_by_search(&rows, &list), expected, "{a} {b}");
        }
        assert_eq!((intersect_by_bitmap(&[500], &[1, 499, 501]), intersect_by_bitmap(&[500], &[])), (vec![], vec![]));
    }

    #[test]
    fn usual_bytes_share_no_class() {
        let usual = || (b'a'..=b'z').chain(b'0'..=b'9').chain(*b"-_. ");
        let mut seen: Vec<u8> = usual().map(class).collect();
        seen.sort_unstable();
        assert_eq!(seen, (0..SHARED_CLASS).collect::<Vec<_>>());
        let others = (0..=255).filter(|byte| !usual().any(|usual| usual == *byte));
        assert!(others.map(class).all(|class| (SHARED_CLASS..64).contains(&class)));
    }

    #[test]
    fn rows_have_the_rarest_trigram_of_all_words() {
        let texts = ["abcd", "bcda", "abcabc", "ab", "xabcx", "abc/a"];
        let ends: Vec<usize> = texts
            .iter()
            .scan(0, |end, text| {
                *end += text.len();
                Some(*end)
            })
            .collect();
        let ranges = ends.iter().zip(texts).map(|(end, text)| end - text.len()..*end);
        let trigrams = Trigrams::of(&texts.concat(), ranges);
        let among = |words: &[&str]| match trigrams.candidates(words) {
            Candidates::All => None,
            Candidates::Exactly(rows) => Some(rows.to_vec()),
            Candidates::Among(rows) => Some(rows),
        };
        assert_eq!(among(&["abc"]), Some(vec![0, 2, 2, 4, 5]), "as often as it is there");
        assert_eq!(among(&["abcd"]), Some(vec![0, 1]), "few are not compared with more lists");
        assert_eq!(among(&["bca", "cab"]), Some(vec![2]));
        assert_eq!(among(&["abc", "bc/"]), Some(vec![5]));
        assert_eq!(among(&["zzz"]), Some(vec![]));
        assert_eq!((among(&["ab"]), among(&["ab", "bc"]), among(&[])), (None, None, None));
        assert_eq!(among(&["ab", "bcd"]), Some(vec![0, 1]), "a short word tells nothing");
    }

    #[test]
    fn many_rows_have_all_trigrams() {
        // Each hundredth text has both words, and the others have one of them.
        let texts: Vec<&str> =
            (0..10_000).map(|n| if n % 100 == 0 { "one two" } else { ["one", "two"][n % 2] }).collect();
        let ends: Vec<usize> = texts
            .iter()
            .scan(0, |end, text| {
                *end += text.len();
                Some(*end)
            })
            .collect();
        let ranges = ends.iter().zip(&texts).map(|(end, text)| end - text.len()..*end);
        let trigrams = Trigrams::of(&texts.concat(), ranges);
        let Candidates::Among(rows) = trigrams.candidates(&["one", "two"]) else { panic!("the words are long enough") };
        assert_eq!(rows, (0..10_000).step_by(100).collect::<Vec<u32>>());
    }
}
