//! Roles, invitations and gates of features of deleted records. Earlier builds stored them without checking that the
//! record exists. The next record with the id would get them.

use super::subject::CheckedRecord;
use crate::catalog::changes::{Dangling, DeletedRecords};
use crate::catalog::intent_log::{self, DanglingPolicy, IntentLog};
use crate::catalog::table::Row as _;
use crate::dependents;
use crate::feature::{self, Actor};
use crate::model::membership::Source;
use crate::store::Key;
use kit::Env;
use kit::fsck::CheckReport;
use kit::store::StoreError;
use std::collections::BTreeMap;

/// The dangling roles and invitations of these records. 1 read for each record, and for each record that they name.
fn of(env: &Env, subjects: &[CheckedRecord]) -> Result<Dangling, StoreError> {
    let (mut namespaces, mut projects, mut members) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    for subject in subjects {
        match *subject {
            CheckedRecord::Namespace(id) => {
                namespaces.insert((id, 0), readable(intent_log::namespace_row(env, id))?.flatten());
            }
            CheckedRecord::Project(id) => {
                projects.insert((id, 0), readable(intent_log::project_row(env, id))?.flatten());
            }
            CheckedRecord::Memberships(id) => {
                let rows = readable(intent_log::rows_of_member(env, id))?.unwrap_or_default();
                members.extend(rows.into_iter().map(|row| (row.key(), Some(row))));
            }
            CheckedRecord::User(_) => {}
        }
    }
    // [`super::tree`] handles orphans of deleted namespaces.
    Ok(Dangling { orphans: Default::default(), ..Dangling::of(env, &namespaces, &projects, &members)? })
}

/// `None` for a record that cannot be read, which is reported elsewhere.
fn readable<T>(outcome: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
    match outcome {
        Err(StoreError::Corrupt { .. }) => Ok(None),
        outcome => outcome.map(Some),
    }
}

/// A description of each role and invitation, and the record that has it.
fn texts(dangling: &Dangling) -> Vec<(CheckedRecord, String)> {
    let name = |source: Source| match source {
        Source::Group(id) => format!("group {id}"),
        Source::Project(id) => format!("project {id}"),
    };
    let roles = dangling.roles.iter().map(|(source, user_id)| {
        (CheckedRecord::Memberships(*user_id), format!("the role in {}: that or the user is deleted", name(*source)))
    });
    let invitations = dangling.invitations.iter().map(|(inviting, invited)| {
        let subject = match *inviting {
            Source::Group(id) => CheckedRecord::Namespace(id),
            Source::Project(id) => CheckedRecord::Project(id),
        };
        (subject, format!("the invitation of group {invited}, which is deleted"))
    });
    roles.chain(invitations).collect()
}

/// The problems of a record.
pub(super) fn problems(env: &Env, subject: CheckedRecord) -> Result<Vec<String>, StoreError> {
    let found = texts(&of(env, &[subject])?);
    Ok(found.into_iter().map(|(_, text)| format!("it has {text}; `hexad fsck --repair` removes it")).collect())
}

/// Removes the dangling roles and invitations of these readable records.
pub(super) fn remove(env: &Env, subjects: &[CheckedRecord], report: &mut CheckReport) -> Result<(), StoreError> {
    let dangling = of(env, subjects)?;
    let intent_log = IntentLog::begin(env, dangling.changes())?;
    dependents::remove_dangling(env, &dangling)?;
    intent_log.update_catalog(env, DanglingPolicy::Keep)?;
    for (subject, text) in texts(&dangling) {
        report.add_problem(&subject.key(), format!("it had {text}, and is without it now"));
    }
    Ok(())
}

/// The deleted users, groups and projects in the gates of features, with the name of each feature. 1 read for each
/// user, group and project in a gate.
fn gates(env: &Env) -> Result<Vec<(String, Actor)>, StoreError> {
    let (mut found, mut deleted) = (Vec::new(), DeletedRecords::default());
    for (name, gates) in &*feature::all(env)? {
        for actor in gates.actors.iter().filter_map(|text| Actor::parse(text)) {
            let subject = match actor {
                Actor::User(id) => CheckedRecord::User(id),
                Actor::Group(id) => CheckedRecord::Namespace(id),
                Actor::Project(id) => CheckedRecord::Project(id),
            };
            // An import may write the record again after the feature.
            if deleted.actor(env, actor)? && !subject.is_pending(env)? {
                found.push((name.clone(), actor));
            }
        }
    }
    Ok(found)
}

/// The problems of the features' gates.
pub(crate) fn gate_problems(env: &Env) -> Result<Vec<String>, StoreError> {
    let text = |(name, actor): (String, Actor)| {
        format!("feature `{name}` is on for {}, which is deleted; `hexad fsck --repair` removes it", actor.name())
    };
    Ok(gates(env)?.into_iter().map(text).collect())
}

/// Removes deleted users, groups and projects from the features.
pub(super) fn remove_gates(env: &Env, report: &mut CheckReport) -> Result<(), StoreError> {
    let gates = gates(env)?;
    feature::forget_actors(env, &gates.iter().map(|(_, actor)| *actor).collect())?;
    for (name, actor) in gates {
        let text = format!("feature `{name}` was on for {}, which is deleted, and is not any more", actor.name());
        report.add_problem(&Key::Features.text(), text);
    }
    Ok(())
}
