//! The last changes of deprecation messages. A client sends all messages of a package to change some of them. These
//! records distinguish the client's own changes from outdated messages.

use crate::checksum::Checksum;

/// The most recorded changes: every request reads them with the package.
const MAX_CHANGES: usize = 64;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MessageChanges {
    /// The last revision that changed a message; 0 if no message has changed since builds record it.
    pub last: u64,
    /// Every change after this revision is in `changes`.
    pub known_since: u64,
    /// Oldest first.
    pub changes: Vec<MessageChange>,
}

/// A revision's change of a version's message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageChange {
    pub revision: u64,
    pub version: String,
    /// The checksum of the message before, which is empty without a deprecation.
    pub before: Checksum,
}

/// A message in a client's document that differs from the package's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SentMessage {
    /// The client has changed it.
    Changed,
    /// Another client has changed it since the document's revision, and this client has not.
    Outdated,
    /// Both have changed it, or the package does not know who has.
    Conflicting,
}

impl MessageChanges {
    /// Records that `revision` changes the messages of these versions. `changed` has each version's message before.
    pub fn record(&mut self, revision: u64, changed: impl IntoIterator<Item = (String, String)>) {
        let change = |(version, before): (String, String)| {
            let before = Checksum::of(before.as_bytes());
            MessageChange { revision, version, before }
        };
        self.changes.extend(changed.into_iter().map(change));
        if let Some(excess) = self.changes.len().checked_sub(MAX_CHANGES + 1)
            && let Some(newest) = self.changes.get(excess)
        {
            self.known_since = newest.revision;
            self.changes.retain(|change| change.revision > self.known_since);
        }
        self.last = revision;
    }

    /// Classifies a message in a document of `revision`, if the version has another message now.
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
    fn forgotten_changes_conflict() {
        let mut changes = MessageChanges::default();
        let versions: Vec<String> = (0..MAX_CHANGES).map(|patch| format!("1.0.{patch}")).collect();
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
