//! Who made a commit, when, and what they wrote.

use super::id::ObjectId;
use kit::Timestamp;

/// The text of a commit. Bytes that are no UTF-8 are replaced.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct CommitText {
    pub parents: Vec<ObjectId>,
    pub author: Person,
    pub committer: Person,
    pub message: String,
}

/// An author or committer.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Person {
    pub name: String,
    pub email: String,
    /// ISO 8601 with milliseconds, in the person's time zone.
    pub date: String,
}

impl CommitText {
    /// What the contents of a commit have; lines that are missing are empty.
    pub fn parse(contents: &[u8]) -> Self {
        let text = String::from_utf8_lossy(contents);
        let (header, message) = text.split_once("\n\n").unwrap_or((&*text, ""));
        let field = |name: &str| header.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        let parents = header.lines().filter_map(|line| ObjectId::parse(line.strip_prefix("parent ")?)).collect();
        CommitText {
            parents,
            author: Person::parse(field("author ")),
            committer: Person::parse(field("committer ")),
            message: message.to_owned(),
        }
    }
}

impl Person {
    /// `Name <e-mail> seconds zone`.
    fn parse(line: &str) -> Self {
        let (name, rest) = line.split_once('<').unwrap_or((line, ""));
        let (email, time) = rest.rsplit_once('>').unwrap_or((rest, ""));
        let mut words = time.split_whitespace();
        let seconds: i64 = words.next().and_then(|seconds| seconds.parse().ok()).unwrap_or_default();
        let zone = words.next().and_then(Zone::parse).unwrap_or_default();
        let shifted = seconds.saturating_add(zone.seconds()).saturating_mul(1000);
        let date = Timestamp::from_millis(shifted).to_iso();
        let date = format!("{}{}", date.trim_end_matches('Z'), zone.text());
        Person { name: name.trim().to_owned(), email: email.to_owned(), date }
    }
}

/// The difference of a time zone from UTC.
#[derive(Default)]
struct Zone {
    is_west: bool,
    hours: i64,
    minutes: i64,
}

impl Zone {
    /// Reads `+0130`.
    fn parse(text: &str) -> Option<Self> {
        let (sign, digits) = text.split_at_checked(1)?;
        let number: i64 = digits.parse().ok().filter(|_| digits.len() == 4)?;
        let (hours, minutes) = (number / 100, number % 100);
        (hours < 24 && minutes < 60 && number >= 0).then_some(Zone { is_west: sign == "-", hours, minutes })
    }

    fn seconds(&self) -> i64 {
        let seconds = (self.hours * 60 + self.minutes) * 60;
        if self.is_west { -seconds } else { seconds }
    }

    fn text(&self) -> String {
        format!("{}{:02}:{:02}", if self.is_west { '-' } else { '+' }, self.hours, self.minutes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_and_their_time_zones() {
        for (line, name, email, date) in [
            ("A B <a@x> 1700000000 +0000", "A B", "a@x", "2023-11-14T22:13:20.000+00:00"),
            ("A <a@x> 1700000000 +0130", "A", "a@x", "2023-11-14T23:43:20.000+01:30"),
            ("A <a@x> 1700000000 -0800", "A", "a@x", "2023-11-14T14:13:20.000-08:00"),
            (" <> 0 +9999", "", "", "1970-01-01T00:00:00.000+00:00"),
            ("A <a>b> 1 x", "A", "a>b", "1970-01-01T00:00:01.000+00:00"),
            ("no address", "no address", "", "1970-01-01T00:00:00.000+00:00"),
        ] {
            let expected = Person { name: name.into(), email: email.into(), date: date.into() };
            assert_eq!(Person::parse(line), expected, "{line}");
        }
    }

    #[test]
    fn a_commit_without_anything() {
        assert_eq!(CommitText::parse(b"").message, "");
        assert_eq!(CommitText::parse(b"tree x\n\nwords\n\nmore").message, "words\n\nmore");
    }
}
