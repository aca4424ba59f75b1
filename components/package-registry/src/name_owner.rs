//! The owner of a package name below a top-level namespace, the further projects that may publish the name, and
//! reservations of names.
//!
//! The first project that publishes a name owns it. The name stays with the namespace when the owner's last version is
//! unpublished, and when the owner is deleted or moves elsewhere. Then only an owner of the namespace gives it away.

use crate::name::PackageName;
use directory::glob;
use directory::project::ProjectKey;
use kit::Timestamp;
use serde::{Deserialize, Serialize};

/// The events that a name keeps.
const MAX_EVENTS: usize = 32;

/// The most projects that may publish a name besides its owner. A merged answer reads the package of each.
pub const MAX_FURTHER: usize = 100;

/// The most reservations of a namespace. A claim of a name compares all of them.
pub const MAX_RESERVATIONS: usize = 100;

/// The most bytes of a pattern, and its most wildcards.
const MAX_PATTERN: usize = 255;
const MAX_WILDCARDS: usize = 8;

/// Who may publish a name. It is stored as JSON; optional fields can be added.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NameOwner {
    /// The owner, even if it is deleted or elsewhere. `None` if the name was released.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<StoredProject>,
    #[serde(rename = "projects", default, skip_serializing_if = "Vec::is_empty")]
    pub further: Vec<FurtherProject>,
    /// The last changes, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<NameEvent>,
}

/// A project in a record, as the text of its key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct StoredProject(pub ProjectKey);

impl TryFrom<String> for StoredProject {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        ProjectKey::parse(&text).map(StoredProject).ok_or_else(|| format!("`{text}` is no project"))
    }
}

impl From<StoredProject> for String {
    fn from(project: StoredProject) -> Self {
        project.0.to_string()
    }
}

/// A project that may publish a name besides its owner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FurtherProject {
    pub project: StoredProject,
    /// True for a project that had the name before names had owners, until the namespace confirms it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unconfirmed: bool,
}

/// A change of who may publish a name, or of a reservation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NameEvent {
    /// Unique for each change.
    pub id: String,
    pub at: Timestamp,
    /// The user who made the change. `None` for a deploy token, and for maintenance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<u64>,
    pub action: NameAction,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<StoredProject>,
    /// The pattern of a reservation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NameAction {
    Claimed,
    /// The projects had the name before names had owners.
    Found,
    Allowed,
    Disallowed,
    Transferred,
    Released,
    Reserved,
    Unreserved,
}

impl NameOwner {
    /// The projects that may publish the name, the owner first. Unconfirmed projects are left out in `strict` mode.
    pub fn publishers(&self, strict: bool) -> impl Iterator<Item = &ProjectKey> {
        let further = self.further.iter().filter(move |further| !(further.unconfirmed && strict));
        self.owner.iter().chain(further.map(|further| &further.project)).map(|project| &project.0)
    }

    pub fn may_publish(&self, project: &ProjectKey, strict: bool) -> bool {
        self.publishers(strict).any(|publisher| publisher == project)
    }

    /// Whether this project had the name before names had owners, and the namespace has not confirmed it.
    pub fn is_unconfirmed(&self, project: &ProjectKey) -> bool {
        self.further.iter().any(|further| further.project.0 == *project && further.unconfirmed)
    }

    pub fn is_owner(&self, project: &ProjectKey) -> bool {
        self.owner.as_ref().is_some_and(|owner| owner.0 == *project)
    }

    /// Whether this change was made.
    pub fn has_applied(&self, event: &str) -> bool {
        self.events.iter().any(|known| known.id == event)
    }

    /// Adds a project, or confirms it. False if there are [`MAX_FURTHER`] already.
    pub fn allow(&mut self, project: &ProjectKey) -> bool {
        let count = self.further.len();
        match self.further.iter_mut().find(|further| further.project.0 == *project) {
            Some(known) => known.unconfirmed = false,
            None if count >= MAX_FURTHER => return false,
            None => self.further.push(FurtherProject { project: StoredProject(project.clone()), unconfirmed: false }),
        }
        true
    }

    /// Removes a further project by its id, of whatever incarnation. False if there is no such project.
    pub fn disallow(&mut self, id: u64) -> bool {
        let before = self.further.len();
        self.further.retain(|further| further.project.0.id != id);
        self.further.len() < before
    }

    /// Gives the name to a project. The former owner keeps its right, so that its versions are still served.
    pub fn transfer(&mut self, project: &ProjectKey) {
        self.further.retain(|further| further.project.0 != *project);
        let former = self.owner.replace(StoredProject(project.clone()));
        if let Some(former) = former.filter(|former| former.0 != *project) {
            self.further.insert(0, FurtherProject { project: former, unconfirmed: false });
            self.further.truncate(MAX_FURTHER);
        }
    }

    /// Leaves the name to the next project that publishes it.
    pub fn release(&mut self) {
        self.owner = None;
        self.further.clear();
    }

    pub fn record(&mut self, event: NameEvent) {
        record_event(&mut self.events, event);
    }
}

/// The reservations of names below a top-level namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reservations {
    pub patterns: Vec<Reservation>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<NameEvent>,
}

/// New names that match the pattern may be claimed by this project only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reservation {
    pub id: String,
    /// `*` stands for any text. Letter case does not matter, because names that differ only in it are easily confused.
    pub pattern: String,
    pub project: StoredProject,
    pub at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<u64>,
}

impl Reservations {
    fn of<'a>(&'a self, name: &PackageName) -> impl Iterator<Item = &'a Reservation> {
        let name = name.as_str().to_ascii_lowercase();
        self.patterns.iter().filter(move |known| glob::matches(&known.pattern.to_ascii_lowercase(), &name))
    }

    pub fn has(&self, name: &PackageName) -> bool {
        self.of(name).next().is_some()
    }

    /// Whether the name is reserved, and not for this project.
    pub fn refuses(&self, name: &PackageName, project: &ProjectKey) -> bool {
        self.has(name) && self.of(name).all(|known| known.project.0 != *project)
    }

    pub fn has_applied(&self, event: &str) -> bool {
        self.events.iter().any(|known| known.id == event)
    }

    pub fn record(&mut self, event: NameEvent) {
        record_event(&mut self.events, event);
    }
}

fn record_event(events: &mut Vec<NameEvent>, event: NameEvent) {
    events.push(event);
    events.drain(..events.len().saturating_sub(MAX_EVENTS));
}

/// Whether a pattern can be reserved: it has characters of names and a few wildcards, so that a comparison is cheap.
pub fn is_pattern(pattern: &str) -> bool {
    let is_of_names = |byte: u8| byte.is_ascii_alphanumeric() || b"@/-+._*".contains(&byte);
    !pattern.is_empty()
        && pattern.len() <= MAX_PATTERN
        && pattern.bytes().all(is_of_names)
        && pattern.matches('*').count() <= MAX_WILDCARDS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn project(id: u64) -> ProjectKey {
        ProjectKey::parse(&id.to_string()).unwrap()
    }

    fn ids(owner: &NameOwner, strict: bool) -> Vec<u64> {
        owner.publishers(strict).map(|project| project.id).collect()
    }

    #[test]
    fn the_owner_and_allowed_projects_publish() {
        let mut name = NameOwner { owner: Some(StoredProject(project(7))), ..NameOwner::default() };
        name.further.push(FurtherProject { project: StoredProject(project(8)), unconfirmed: true });
        assert_eq!((ids(&name, false), ids(&name, true)), (vec![7, 8], vec![7]));
        assert!(name.is_unconfirmed(&project(8)) && !name.may_publish(&project(9), false));
        assert!(name.allow(&project(8)) && name.allow(&project(9)));
        assert_eq!(ids(&name, true), [7, 8, 9]);
        let later = ProjectKey::parse("8-01a0c4e1a80000000000000000000009").unwrap();
        assert!(!name.may_publish(&later, false), "a later project with the id");
        name.transfer(&project(9));
        assert_eq!(ids(&name, true), [9, 7, 8]);
        assert!(name.disallow(7) && !name.disallow(7));
        name.transfer(&project(9));
        assert_eq!(ids(&name, true), [9, 8]);
        name.release();
        assert!(ids(&name, true).is_empty());
        assert!((1..=MAX_FURTHER as u64).all(|id| name.allow(&project(id))));
        assert!(!name.allow(&project(1000)) && name.allow(&project(1)));
    }

    #[test]
    fn the_last_events_are_kept() {
        let mut name = NameOwner::default();
        for id in 0..40 {
            let event = NameEvent {
                id: id.to_string(),
                at: Timestamp::from_millis(0),
                by: None,
                action: NameAction::Allowed,
                project: None,
                pattern: None,
            };
            name.record(event);
        }
        assert_eq!((name.events.len(), name.has_applied("39"), name.has_applied("7")), (MAX_EVENTS, true, false));
    }

    #[test]
    fn a_reserved_name_is_for_its_projects() {
        let reserve = |pattern: &str, id: u64| Reservation {
            id: pattern.into(),
            pattern: pattern.into(),
            project: StoredProject(project(id)),
            at: Timestamp::from_millis(0),
            by: None,
        };
        let patterns = vec![reserve("@acme/*", 7), reserve("@Acme/Core*", 8)];
        let reservations = Reservations { patterns, events: Vec::new() };
        let refuses = |name: &str, id: u64| reservations.refuses(&PackageName::parse(name).unwrap(), &project(id));
        assert_eq!(
            (refuses("@acme/core-x", 7), refuses("@acme/core-x", 8), refuses("@acme/core-x", 9)),
            (false, false, true)
        );
        assert_eq!((refuses("@acme/lib", 7), refuses("@acme/lib", 8), refuses("lib", 9)), (false, true, false));
    }

    #[test]
    fn patterns_are_bounded() {
        for pattern in ["*", "@acme/*", "lib", "a*b", &"x".repeat(255), &"*".repeat(8)] {
            assert!(is_pattern(pattern), "{pattern}");
        }
        for pattern in ["", " ", "a b", "é", "a\n", &"x".repeat(256), &"*".repeat(9)] {
            assert!(!is_pattern(pattern), "{pattern}");
        }
    }

    #[test]
    fn records_are_written_as_they_were() {
        for text in [
            r#"{}"#,
            r#"{"owner":"7","projects":[{"project":"8-01a0c4e1a80000000000000000000009"},{"project":"9","unconfirmed":true}],"events":[{"id":"a","at":5,"by":3,"action":"claimed","project":"7"}]}"#,
        ] {
            let read: NameOwner = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&read).unwrap(), text);
        }
        let text = r#"{"patterns":[{"id":"a","pattern":"@acme/*","project":"7","at":5}],"events":[{"id":"a","at":5,"action":"reserved","project":"7","pattern":"@acme/*"}]}"#;
        let read: Reservations = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
        assert!(serde_json::from_str::<NameOwner>(r#"{"owner":"x"}"#).is_err());
    }
}
