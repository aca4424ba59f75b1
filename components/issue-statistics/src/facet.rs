//! Facets: the values by which issues are filtered. The key of a facet is one byte for its kind, then the value.
//! Numbers are big-endian, so that the keys of one kind sort by number.

use directory::user::UserKey;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::borrow::Cow;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Facet<'a> {
    Project(u64),
    /// A project whose id belonged to a deleted project earlier: the id and the incarnation.
    ReusedIdProject(u64, &'a str),
    Opened,
    Confidential,
    /// The author was banned when the issue was imported.
    Hidden,
    Author(u64),
    /// An author whose id belonged to a deleted user earlier: the id and the incarnation.
    ReusedIdAuthor(u64, &'a str),
    Assignee(u64),
    /// The same for an assignee.
    ReusedIdAssignee(u64, &'a str),
    HasAssignee,
    Label(&'a str),
    HasLabel,
    /// By title.
    Milestone(&'a str),
    HasMilestone,
    /// Of a milestone with a start or due date.
    MilestoneDates(&'a MilestoneDates),
    Iid(u64),
    Epic(u64),
    HasEpic,
    Weight(i64),
    HasWeight,
    Health(&'a str),
    HasHealth,
    Iteration(u64),
    /// By title.
    IterationTitle(&'a str),
    HasIteration,
    IterationDates(&'a IterationDates),
    /// The user who reacted, and the name of the reaction.
    Reaction(u64, &'a str),
    /// The user who reacted, their incarnation, and the name of the reaction.
    ReusedIdReaction(u64, &'a str, &'a str),
    /// The user who reacted, with any name.
    HasReaction(u64),
    /// The user who reacted, and their incarnation.
    ReusedIdHasReaction(u64, &'a str),
}

/// A milestone as an imported issue described it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct MilestoneDates {
    pub owner: MilestoneOwner,
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
pub enum MilestoneOwner {
    Group(u64),
    Project(u64),
}

/// An iteration as an imported issue described it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct IterationDates {
    pub id: u64,
    pub start: String,
    pub due: String,
}

/// The kinds whose facets a query enumerates.
pub const PROJECT_KIND: u8 = 1;
pub const REUSED_ID_PROJECT_KIND: u8 = 26;
pub const REUSED_ID_AUTHOR_KIND: u8 = 27;
pub const MILESTONE_DATES_KIND: u8 = 12;
pub const ITERATION_DATES_KIND: u8 = 23;

impl Facet<'_> {
    /// Replaces the content of `key`.
    pub fn write_key(&self, key: &mut Vec<u8>) {
        key.clear();
        let (kind, number, text): (u8, Option<u64>, &str) = match self {
            Facet::Project(id) => (PROJECT_KIND, Some(*id), ""),
            Facet::ReusedIdProject(id, incarnation) => (REUSED_ID_PROJECT_KIND, Some(*id), incarnation),
            Facet::Opened => (2, None, ""),
            Facet::Confidential => (3, None, ""),
            Facet::Hidden => (4, None, ""),
            Facet::Author(id) => (5, Some(*id), ""),
            Facet::ReusedIdAuthor(id, incarnation) => (REUSED_ID_AUTHOR_KIND, Some(*id), incarnation),
            Facet::Assignee(id) => (6, Some(*id), ""),
            Facet::ReusedIdAssignee(id, incarnation) => (28, Some(*id), incarnation),
            Facet::HasAssignee => (7, None, ""),
            Facet::Label(name) => (8, None, name),
            Facet::HasLabel => (9, None, ""),
            Facet::Milestone(title) => (10, None, title),
            Facet::HasMilestone => (11, None, ""),
            Facet::MilestoneDates(dates) => return write_json_key(key, MILESTONE_DATES_KIND, dates),
            Facet::Iid(iid) => (13, Some(*iid), ""),
            Facet::Epic(id) => (14, Some(*id), ""),
            Facet::HasEpic => (15, None, ""),
            Facet::Weight(weight) => (16, Some(*weight as u64), ""),
            Facet::HasWeight => (17, None, ""),
            Facet::Health(status) => (18, None, status),
            Facet::HasHealth => (19, None, ""),
            Facet::Iteration(id) => (20, Some(*id), ""),
            Facet::IterationTitle(title) => (21, None, title),
            Facet::HasIteration => (22, None, ""),
            Facet::IterationDates(dates) => return write_json_key(key, ITERATION_DATES_KIND, dates),
            Facet::Reaction(user, name) => (24, Some(*user), name),
            Facet::ReusedIdReaction(user, incarnation, name) => {
                return write_reused_id_reaction(key, *user, incarnation, name);
            }
            Facet::HasReaction(user) => (25, Some(*user), ""),
            Facet::ReusedIdHasReaction(user, incarnation) => (30, Some(*user), incarnation),
        };
        key.push(kind);
        if let Some(number) = number {
            key.extend_from_slice(&number.to_be_bytes());
        }
        key.extend_from_slice(text.as_bytes());
    }

    pub fn key(&self) -> Vec<u8> {
        let mut key = Vec::new();
        self.write_key(&mut key);
        key
    }
}

/// A slash ends the incarnation, which contains no slash.
fn write_reused_id_reaction(key: &mut Vec<u8>, user: u64, incarnation: &str, name: &str) {
    key.push(29);
    key.extend_from_slice(&user.to_be_bytes());
    key.extend_from_slice(incarnation.as_bytes());
    key.push(b'/');
    key.extend_from_slice(name.as_bytes());
}

fn write_json_key(key: &mut Vec<u8>, kind: u8, value: &impl Serialize) {
    key.push(kind);
    // Writing texts and numbers to memory cannot fail.
    let _ = serde_json::to_writer(key, value);
}

/// The longest title of a milestone with dates, in bytes.
const MAX_TITLE: usize = 128;

/// The longest key that is stored unchanged, in bytes.
const MAX_KEY: usize = 160;

/// How many bytes of a longer key are stored before its digest.
const KEY_PREFIX: usize = 40;

/// UTF-8 never contains this byte, so a shortened key equals no other key.
const DIGEST_MARK: u8 = 0xff;

/// The key under which a facet is stored. Long keys are shortened to their beginning and a digest, because the header
/// of a segment has the first key of each page. JSON kinds are never long ([`short_title`]).
pub fn stored_key(key: &[u8]) -> Cow<'_, [u8]> {
    match key {
        [MILESTONE_DATES_KIND | ITERATION_DATES_KIND, ..] => Cow::Borrowed(key),
        _ if key.len() <= MAX_KEY => Cow::Borrowed(key),
        _ => {
            let beginning = key.get(..KEY_PREFIX).unwrap_or_default();
            Cow::Owned([beginning, &[DIGEST_MARK], &Sha256::digest(key)].concat())
        }
    }
}

/// A title of bounded length. Longer titles are shortened to their beginning and a digest.
pub fn short_title(title: &str) -> String {
    if title.len() <= MAX_TITLE {
        return title.to_owned();
    }
    let beginning = title.get(..title.floor_char_boundary(MAX_TITLE / 4)).unwrap_or_default();
    format!("{beginning} {}", hex::encode(Sha256::digest(title)))
}

/// A project in the key of a [`Facet::Project`] or of a [`Facet::ReusedIdProject`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProjectKey<'a> {
    pub id: u64,
    /// `None` for the first project with the id.
    pub incarnation: Option<&'a str>,
}

impl<'a> ProjectKey<'a> {
    pub fn parse(key: &'a [u8]) -> Option<Self> {
        let (kind, rest) = key.split_first()?;
        let (number, incarnation) = rest.split_first_chunk()?;
        let id = u64::from_be_bytes(*number);
        match (*kind, incarnation) {
            (PROJECT_KIND, []) => Some(ProjectKey { id, incarnation: None }),
            (REUSED_ID_PROJECT_KIND, [_, ..]) => {
                Some(ProjectKey { id, incarnation: Some(std::str::from_utf8(incarnation).ok()?) })
            }
            _ => None,
        }
    }

    pub fn facet(self) -> Facet<'a> {
        match self.incarnation {
            None => Facet::Project(self.id),
            Some(incarnation) => Facet::ReusedIdProject(self.id, incarnation),
        }
    }
}

/// A user in facets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FacetUser<'a> {
    pub id: u64,
    /// `None` for the first user with the id. Facets of earlier builds always mean that user.
    pub incarnation: Option<&'a str>,
}

impl<'a> FacetUser<'a> {
    /// The user in the key of a [`Facet::ReusedIdAuthor`].
    pub fn parse_reused_id_author(key: &'a [u8]) -> Option<Self> {
        let (number, incarnation) = key.strip_prefix(&[REUSED_ID_AUTHOR_KIND])?.split_first_chunk()?;
        let incarnation = Some(std::str::from_utf8(incarnation).ok()?);
        Some(FacetUser { id: u64::from_be_bytes(*number), incarnation })
    }

    pub fn author(self) -> Facet<'a> {
        self.incarnation.map_or(Facet::Author(self.id), |incarnation| Facet::ReusedIdAuthor(self.id, incarnation))
    }

    pub fn assignee(self) -> Facet<'a> {
        self.incarnation.map_or(Facet::Assignee(self.id), |incarnation| Facet::ReusedIdAssignee(self.id, incarnation))
    }

    pub fn reaction(self, name: &'a str) -> Facet<'a> {
        match self.incarnation {
            None => Facet::Reaction(self.id, name),
            Some(incarnation) => Facet::ReusedIdReaction(self.id, incarnation, name),
        }
    }

    pub fn any_reaction(self) -> Facet<'a> {
        self.incarnation
            .map_or(Facet::HasReaction(self.id), |incarnation| Facet::ReusedIdHasReaction(self.id, incarnation))
    }
}

impl<'a> From<&'a UserKey> for FacetUser<'a> {
    fn from(user: &'a UserKey) -> Self {
        FacetUser { id: user.id, incarnation: user.incarnation.id() }
    }
}

/// The value if this is a key of the JSON kind `kind`.
pub fn json_value<'a, T: Deserialize<'a>>(key: &'a [u8], kind: u8) -> Option<T> {
    serde_json::from_slice(key.strip_prefix(&[kind])?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn keys_differ() {
        let milestone = MilestoneDates {
            owner: MilestoneOwner::Group(1),
            id: None,
            title: "a".into(),
            active: true,
            start: None,
            due: Some("2026-01-01".into()),
        };
        let iteration = IterationDates { id: 1, start: "2026-01-01".into(), due: "2026-01-14".into() };
        let facets = [
            Facet::Project(1),
            Facet::ReusedIdProject(1, "0a"),
            Facet::Opened,
            Facet::Confidential,
            Facet::Hidden,
            Facet::Author(1),
            Facet::ReusedIdAuthor(1, "0a"),
            Facet::Assignee(1),
            Facet::ReusedIdAssignee(1, "0a"),
            Facet::HasAssignee,
            Facet::Label("a"),
            Facet::Label("b"),
            Facet::HasLabel,
            Facet::Milestone("a"),
            Facet::HasMilestone,
            Facet::MilestoneDates(&milestone),
            Facet::Iid(1),
            Facet::Epic(1),
            Facet::HasEpic,
            Facet::Weight(-1),
            Facet::Weight(1),
            Facet::HasWeight,
            Facet::Health("a"),
            Facet::HasHealth,
            Facet::Iteration(1),
            Facet::IterationTitle("a"),
            Facet::HasIteration,
            Facet::IterationDates(&iteration),
            Facet::Reaction(1, "a"),
            Facet::Reaction(1, "b"),
            Facet::ReusedIdReaction(1, "0a", "b"),
            Facet::ReusedIdReaction(1, "0", "ab"),
            Facet::HasReaction(1),
            Facet::ReusedIdHasReaction(1, "0a"),
        ];
        let keys: BTreeSet<Vec<u8>> = facets.iter().map(Facet::key).collect();
        assert_eq!(keys.len(), facets.len());
        assert_eq!(json_value(&Facet::MilestoneDates(&milestone).key(), MILESTONE_DATES_KIND), Some(milestone));
        assert_eq!(json_value(&Facet::IterationDates(&iteration).key(), ITERATION_DATES_KIND), Some(iteration));
        for project in [ProjectKey { id: 77, incarnation: None }, ProjectKey { id: 77, incarnation: Some("0a") }] {
            assert_eq!(ProjectKey::parse(&project.facet().key()), Some(project));
        }
        assert_eq!(ProjectKey::parse(&Facet::Author(77).key()), None);
        let reused = FacetUser { id: 77, incarnation: Some("0a") };
        assert_eq!(FacetUser::parse_reused_id_author(&reused.author().key()), Some(reused));
        assert_eq!(FacetUser::parse_reused_id_author(&reused.assignee().key()), None);
    }

    #[test]
    fn long_keys_are_shortened_and_still_differ() {
        let key = |label: &str| stored_key(&Facet::Label(label).key()).into_owned();
        let long = "ä".repeat(1000);
        assert!(key(&long).len() < MAX_KEY && short_title(&long).len() < MAX_TITLE);
        assert_eq!(key("bug"), Facet::Label("bug").key());
        let keys: BTreeSet<Vec<u8>> = ["x", "y", ""].iter().map(|end| key(&format!("{long}{end}"))).collect();
        let reactions = [1, 2].map(|user| stored_key(&Facet::Reaction(user, &long).key()).into_owned());
        assert_eq!((keys.len(), reactions[0] == reactions[1]), (3, false));
        assert_ne!(short_title(&long), short_title(&format!("{long}x")));
    }

    #[test]
    fn project_keys_sort_by_number() {
        assert!(Facet::Project(255).key() < Facet::Project(256).key());
    }
}
