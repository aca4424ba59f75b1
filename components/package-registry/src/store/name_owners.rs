//! The owners of names, one root for each top-level namespace and name, and the reservations of a namespace.

use super::key::{Key, RootKey};
use crate::name::PackageName;
use crate::name_owner::{FurtherProject, NameAction, NameEvent, NameOwner, Reservation, Reservations};
use directory::project::ProjectKey;
use kit::root::{self, Decision};
use kit::store::StoreError;
use kit::{Env, Timestamp};
use serde::{Deserialize, Serialize};
use std::rc::Rc;

#[derive(Serialize, Deserialize)]
struct NameOwnerRecord {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    projects: Vec<FurtherRecord>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    events: Vec<EventRecord>,
}

#[derive(Serialize, Deserialize)]
struct FurtherRecord {
    project: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    unconfirmed: bool,
}

#[derive(Serialize, Deserialize)]
struct EventRecord {
    id: String,
    at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    by: Option<u64>,
    action: NameAction,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    project: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pattern: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct ReservationsRecord {
    patterns: Vec<ReservationRecord>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    events: Vec<EventRecord>,
}

#[derive(Serialize, Deserialize)]
struct ReservationRecord {
    id: String,
    pattern: String,
    project: String,
    at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    by: Option<u64>,
}

/// `key` is the record's key, for errors.
fn project(text: &str, key: &str) -> Result<ProjectKey, StoreError> {
    ProjectKey::parse(text).ok_or_else(|| StoreError::corrupt(key, format!("`{text}` is no project")))
}

impl EventRecord {
    fn read(self, key: &str) -> Result<NameEvent, StoreError> {
        let EventRecord { id, at, by, action, pattern, .. } = self;
        let project = self.project.map(|text| project(&text, key)).transpose()?;
        Ok(NameEvent { id, at, by, action, project, pattern })
    }

    fn of(event: &NameEvent) -> Self {
        let NameEvent { id, at, by, action, project, pattern } = event.clone();
        EventRecord { id, at, by, action, project: project.map(|project| project.to_string()), pattern }
    }
}

impl NameOwnerRecord {
    fn read(self, key: &str) -> Result<NameOwner, StoreError> {
        let further = |record: FurtherRecord| {
            let project = project(&record.project, key)?;
            Ok(FurtherProject { project, is_confirmed: !record.unconfirmed })
        };
        Ok(NameOwner {
            owner: self.owner.map(|text| project(&text, key)).transpose()?,
            further: self.projects.into_iter().map(further).collect::<Result<_, StoreError>>()?,
            events: self.events.into_iter().map(|event| event.read(key)).collect::<Result<_, _>>()?,
        })
    }

    fn of(name: &NameOwner) -> Self {
        let further = |further: &FurtherProject| FurtherRecord {
            project: further.project.to_string(),
            unconfirmed: !further.is_confirmed,
        };
        NameOwnerRecord {
            owner: name.owner.as_ref().map(ProjectKey::to_string),
            projects: name.further.iter().map(further).collect(),
            events: name.events.iter().map(EventRecord::of).collect(),
        }
    }
}

impl ReservationsRecord {
    fn read(self, key: &str) -> Result<Reservations, StoreError> {
        let reservation = |record: ReservationRecord| {
            let ReservationRecord { id, pattern, at, by, .. } = record;
            Ok(Reservation { id, pattern, project: project(&record.project, key)?, at, by })
        };
        Ok(Reservations {
            patterns: self.patterns.into_iter().map(reservation).collect::<Result<_, StoreError>>()?,
            events: self.events.into_iter().map(|event| event.read(key)).collect::<Result<_, _>>()?,
        })
    }

    fn of(reservations: &Reservations) -> Self {
        let record = |known: &Reservation| {
            let Reservation { id, pattern, project, at, by } = known.clone();
            ReservationRecord { id, pattern, project: project.to_string(), at, by }
        };
        ReservationsRecord {
            patterns: reservations.patterns.iter().map(record).collect(),
            events: reservations.events.iter().map(EventRecord::of).collect(),
        }
    }
}

/// Who may publish a name below a namespace; `None` if no project has claimed it. 1 read; an instance decodes a record
/// once for each of its changes.
pub fn name_owner(env: &Env, root: &RootKey, name: &PackageName) -> Result<Option<Rc<NameOwner>>, StoreError> {
    let key = Key::NameOwner(root, name).text();
    root::read_cached(env, &key, |record: NameOwnerRecord| record.read(&key))
}

/// Changes who may publish a name, as [`root::update`] does.
pub fn update_name_owner<T, E: From<StoreError>>(
    env: &Env,
    root: &RootKey,
    name: &PackageName,
    mut decide: impl FnMut(Option<NameOwner>) -> Result<Decision<NameOwner, T>, E>,
) -> Result<T, E> {
    let key = Key::NameOwner(root, name).text();
    root::update(env, &key, |record: Option<NameOwnerRecord>| {
        Ok(match decide(record.map(|record| record.read(&key)).transpose()?)? {
            Decision::Keep(answer) => Decision::Keep(answer),
            Decision::Replace(name, answer) => Decision::Replace(NameOwnerRecord::of(&name), answer),
        })
    })
}

/// The reservations of a namespace. 1 read.
pub fn reservations(env: &Env, root: &RootKey) -> Result<Rc<Reservations>, StoreError> {
    let key = Key::Reservations(root).text();
    let found = root::read_cached(env, &key, |record: ReservationsRecord| record.read(&key))?;
    Ok(found.unwrap_or_default())
}

/// Changes the reservations of a namespace, as [`root::update`] does.
pub fn update_reservations<T, E: From<StoreError>>(
    env: &Env,
    root: &RootKey,
    mut decide: impl FnMut(Reservations) -> Result<Decision<Reservations, T>, E>,
) -> Result<T, E> {
    let key = Key::Reservations(root).text();
    root::update(env, &key, |record: Option<ReservationsRecord>| {
        let current = record.map(|record| record.read(&key)).transpose()?.unwrap_or_default();
        Ok(match decide(current)? {
            Decision::Keep(answer) => Decision::Keep(answer),
            Decision::Replace(new, answer) => Decision::Replace(ReservationsRecord::of(&new), answer),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_written_as_they_were() {
        for text in [
            r#"{}"#,
            r#"{"owner":"7","projects":[{"project":"8-01a0c4e1a80000000000000000000009"},{"project":"9","unconfirmed":true}],"events":[{"id":"a","at":5,"by":3,"action":"claimed","project":"7"}]}"#,
        ] {
            let read: NameOwnerRecord = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&NameOwnerRecord::of(&read.read("key").unwrap())).unwrap(), text);
        }
        let text = r#"{"patterns":[{"id":"a","pattern":"@acme/*","project":"7","at":5}],"events":[{"id":"a","at":5,"action":"reserved","project":"7","pattern":"@acme/*"}]}"#;
        let read: ReservationsRecord = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&ReservationsRecord::of(&read.read("key").unwrap())).unwrap(), text);
        let damaged: NameOwnerRecord = serde_json::from_str(r#"{"owner":"x"}"#).unwrap();
        assert!(matches!(damaged.read("key"), Err(StoreError::Corrupt { .. })));
    }
}
