//! The last changes of deprecation messages. A client sends all messages of a package to change some of them; these
//! changes tell its own from messages that are out of date.

use crate::checksum::Checksum;

/// The most changes that are kept, because every request reads the package.
const KEPT: usize = 64;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MessageChanges {
    /// The revision of the package that changed a message last; 0 if none has since builds record it.
    pub last: u64,
    /// Every change after this revision is in `changes`.
    pub known_since: u64,
    /// Oldest first.
    pub changes: Vec<MessageChange>,
}

/// A revision changed the message of a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageChange {
    pub revision: u64,
    pub version: String,
    /// Of the message before, which is empty if there was none.
    pub before: Checksum,
}

/// A message in a client's document, where the package has another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SentMessage {
    /// The client has changed it.
    Changed,
    /// Another client has changed it since the document's revision, and this one has not.
    Outdated,
    /// Both have changed it, or it is not known who has.
    Conflicting,
}

impl MessageChanges {
    /// Notes that `revision` changes the messages of these versions, which are given with their messages before.
    pub fn record(&mut self, revision: u64, changed: impl IntoIterator<Item = (String, String)>) {
        let change = |(version, before): (String, String)| {
            let before = Checksum::of(before.as_bytes());
            MessageChange { revision, version, before }
        };
        self.changes.extend(changed.into_iter().map(change));
        if let Some(excess) = self.changes.len().checked_sub(KEPT + 1)
            && let Some(newest) = self.changes.get(excess)
        {
            self.known_since = newest.revision;
            self.changes.retain(|change| change.revision > self.known_since);
        }
        self.last = revision;
    }

    /// What a message means in a document of `revision`, if the version has another one now.
    pub fn compare(&self, revision: u64, version: &str, message: &str) -> SentMessage {
        if revision >= self.last {
            return SentMessage::Changed;
        }
        if revision < self.known_since {
            return SentMessage::Conflicting;
        }
        match self.changes.iter().find(|change| change.revision > revision && change.version == version) {
            None => SentMessage::Changed,
            Some(first) if first.before == Checksum::of(message.as_bytes()) => SentMessage::Outdated,
            Some(_) => SentMessage::Conflicting,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(changes: &mut MessageChanges, revision: u64, changed: &[(&str, &str)]) {
        changes.record(revision, changed.iter().map(|(version, before)| ((*version).to_owned(), (*before).to_owned())));
    }

    #[test]
    fn a_message_is_outdated_if_it_was_the_one_of_the_documents_revision() {
        let mut changes = MessageChanges::default();
        record(&mut changes, 5, &[("1.0.0", ""), ("1.1.0", "old")]);
        record(&mut changes, 8, &[("1.0.0", "a")]);
        for (revision, version, message, expected) in [
            (4, "1.0.0", "", SentMessage::Outdated),
            (4, "1.0.0", "a", SentMessage::Conflicting),
            (4, "1.1.0", "old", SentMessage::Outdated),
            (4, "1.1.0", "", SentMessage::Conflicting),
            (4, "2.0.0", "b", SentMessage::Changed),
            (5, "1.0.0", "a", SentMessage::Outdated),
            (5, "1.0.0", "", SentMessage::Conflicting),
            (5, "1.1.0", "", SentMessage::Changed),
            (8, "1.0.0", "a", SentMessage::Changed),
        ] {
            assert_eq!(changes.compare(revision, version, message), expected, "{revision} {version} `{message}`");
        }
    }

    #[test]
    fn what_is_forgotten_conflicts() {
        let mut changes = MessageChanges::default();
        let versions: Vec<String> = (0..KEPT).map(|patch| format!("1.0.{patch}")).collect();
        let all: Vec<(&str, &str)> = versions.iter().map(|version| (version.as_str(), "")).collect();
        record(&mut changes, 1, &[("1.0.0", "")]);
        record(&mut changes, 2, &all);
        assert_eq!(changes.compare(0, "2.0.0", "a"), SentMessage::Conflicting);
        assert_eq!(changes.compare(1, "2.0.0", "a"), SentMessage::Changed);
        record(&mut changes, 3, &[("2.0.0", "")]);
        assert_eq!(
            (changes.changes.len(), changes.known_since, changes.last),
            (1, 2, 3),
            "of revision 2 one is missing"
        );
        assert_eq!(changes.compare(1, "3.0.0", "a"), SentMessage::Conflicting);
        assert_eq!(changes.compare(2, "3.0.0", "a"), SentMessage::Changed);
    }

    /// An earlier build says only which revision was the last.
    #[test]
    fn changes_that_are_not_known_conflict() {
        let changes = MessageChanges { last: 7, known_since: 7, changes: Vec::new() };
        assert_eq!(changes.compare(6, "1.0.0", "a"), SentMessage::Conflicting);
        assert_eq!(changes.compare(7, "1.0.0", "a"), SentMessage::Changed);
    }
}
