//! What an issue can be found by, and how that is written as a key: a byte for the kind, then the
//! value. Numbers are big-endian, so that the keys of one kind are in the order of their numbers.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Term<'a> {
    Project(u64),
    Opened,
    Confidential,
    /// Its author was banned.
    Hidden,
    Author(u64),
    Assignee(u64),
    Assigned,
    Label(&'a str),
    Labelled,
    /// By title.
    Milestone(&'a str),
    InMilestone,
    /// A milestone that has a date.
    MilestoneDates(&'a MilestoneDates),
    Iid(u64),
    Epic(u64),
    InEpic,
    Weight(i64),
    Weighted,
    Health(&'a str),
    HasHealth,
    Iteration(u64),
    /// By title.
    IterationTitle(&'a str),
    InIteration,
    IterationDates(&'a IterationDates),
    /// By the user who reacted, and the name.
    Reaction(u64, &'a str),
    Reacted(u64),
}

/// A milestone as an issue showed it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct MilestoneDates {
    pub owner: Owner,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<u64>,
    pub title: String,
    pub active: bool,
    /// `YYYY-MM-DD`, as are all dates here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Owner {
    Group(u64),
    Project(u64),
}

/// An iteration as an issue showed it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct IterationDates {
    pub id: u64,
    pub start: String,
    pub due: String,
}

/// The kinds whose terms are looked through.
pub const PROJECT: u8 = 1;
pub const MILESTONE_DATES: u8 = 12;
pub const ITERATION_DATES: u8 = 23;

impl Term<'_> {
    /// Puts the key in place of what is in `key`.
    pub fn write(&self, key: &mut Vec<u8>) {
        key.clear();
        let (kind, number, text): (u8, Option<u64>, &str) = match self {
            Term::Project(id) => (PROJECT, Some(*id), ""),
            Term::Opened => (2, None, ""),
            Term::Confidential => (3, None, ""),
            Term::Hidden => (4, None, ""),
            Term::Author(id) => (5, Some(*id), ""),
            Term::Assignee(id) => (6, Some(*id), ""),
            Term::Assigned => (7, None, ""),
            Term::Label(name) => (8, None, name),
            Term::Labelled => (9, None, ""),
            Term::Milestone(title) => (10, None, title),
            Term::InMilestone => (11, None, ""),
            Term::MilestoneDates(dates) => return json(key, MILESTONE_DATES, dates),
            Term::Iid(iid) => (13, Some(*iid), ""),
            Term::Epic(id) => (14, Some(*id), ""),
            Term::InEpic => (15, None, ""),
            Term::Weight(weight) => (16, Some(*weight as u64), ""),
            Term::Weighted => (17, None, ""),
            Term::Health(status) => (18, None, status),
            Term::HasHealth => (19, None, ""),
            Term::Iteration(id) => (20, Some(*id), ""),
            Term::IterationTitle(title) => (21, None, title),
            Term::InIteration => (22, None, ""),
            Term::IterationDates(dates) => return json(key, ITERATION_DATES, dates),
            Term::Reaction(user, name) => (24, Some(*user), name),
            Term::Reacted(user) => (25, Some(*user), ""),
        };
        key.push(kind);
        if let Some(number) = number {
            key.extend_from_slice(&number.to_be_bytes());
        }
        key.extend_from_slice(text.as_bytes());
    }

    pub fn key(&self) -> Vec<u8> {
        let mut key = Vec::new();
        self.write(&mut key);
        key
    }
}

fn json(key: &mut Vec<u8>, kind: u8, value: &impl Serialize) {
    key.push(kind);
    // Structs of texts and numbers can always be written, and memory does not fail.
    let _ = serde_json::to_writer(key, value);
}

/// The project of a [`Term::Project`]'s key.
pub fn project_of(key: &[u8]) -> Option<u64> {
    let number = key.strip_prefix(&[PROJECT])?;
    Some(u64::from_be_bytes(number.try_into().ok()?))
}

/// The value of a key of one of the kinds that are JSON.
pub fn value_of<'a, T: Deserialize<'a>>(key: &'a [u8], kind: u8) -> Option<T> {
    serde_json::from_slice(key.strip_prefix(&[kind])?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn keys_differ() {
        let milestone = MilestoneDates {
            owner: Owner::Group(1),
            id: None,
            title: "a".into(),
            active: true,
            start: None,
            due: Some("2026-01-01".into()),
        };
        let iteration = IterationDates { id: 1, start: "2026-01-01".into(), due: "2026-01-14".into() };
        let terms = [
            Term::Project(1),
            Term::Opened,
            Term::Confidential,
            Term::Hidden,
            Term::Author(1),
            Term::Assignee(1),
            Term::Assigned,
            Term::Label("a"),
            Term::Label("b"),
            Term::Labelled,
            Term::Milestone("a"),
            Term::InMilestone,
            Term::MilestoneDates(&milestone),
            Term::Iid(1),
            Term::Epic(1),
            Term::InEpic,
            Term::Weight(-1),
            Term::Weight(1),
            Term::Weighted,
            Term::Health("a"),
            Term::HasHealth,
            Term::Iteration(1),
            Term::IterationTitle("a"),
            Term::InIteration,
            Term::IterationDates(&iteration),
            Term::Reaction(1, "a"),
            Term::Reaction(1, "b"),
            Term::Reacted(1),
        ];
        let keys: BTreeSet<Vec<u8>> = terms.iter().map(Term::key).collect();
        assert_eq!(keys.len(), terms.len());
        assert_eq!(value_of(&Term::MilestoneDates(&milestone).key(), MILESTONE_DATES), Some(milestone));
        assert_eq!(value_of(&Term::IterationDates(&iteration).key(), ITERATION_DATES), Some(iteration));
        assert_eq!(project_of(&Term::Project(77).key()), Some(77));
        assert_eq!(project_of(&Term::Author(77).key()), None);
    }

    #[test]
    fn projects_are_in_the_order_of_their_numbers() {
        assert!(Term::Project(255).key() < Term::Project(256).key());
    }
}
