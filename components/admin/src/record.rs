//! The records of an import, in the form of the entities of the reference service: one JSON object with a `kind`.
//! Unknown fields are ignored, so that clients can send whole entities.

mod feature;
mod project;
mod reference;
mod user;

use crate::line_error::{InvalidLine, LineError};
use crate::record::project::Group;
use crate::record::reference::DetailsFields;
use crate::record::user::{MemberRecord, PendingMemberships, TokenRecord};
use directory::catalog::changes::{Changes, DeletedRecords};
use directory::dependents;
use directory::feature::Actor;
use directory::namespace::Details;
use directory::path::Unconfirmed;
use feature::{Feature, PendingGates};
use kit::Env;
use kit::ndjson::ImportReport;
use kit::store::StoreError;
use project::Project;
use reference::ById;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::num::NonZeroU64;
use user::User;

/// The kinds of records.
pub const KINDS: [&str; 7] = ["user", "token", "group", "project", "member", "setting", "feature"];

#[derive(Deserialize)]
struct RecordHead<'a> {
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(default)]
    deleted: bool,
}

/// A written record whose line is reported once the record is confirmed.
struct WrittenRecord {
    line: u64,
    kind: &'static str,
    warning: Option<String>,
    unconfirmed: Unconfirmed,
}

/// Changes that end with the batch. Records are confirmed then, because each confirmation of its own would wait for the
/// disk. Memberships are written then, because a record that they name may follow after them.
#[derive(Default)]
pub struct PendingChanges {
    records: Vec<WrittenRecord>,
    memberships: PendingMemberships,
    gates: PendingGates,
}

impl PendingChanges {
    /// Adds a record that is reported later. Returns false: the line is not complete.
    fn add(&mut self, line: u64, kind: &'static str, warning: Option<String>, unconfirmed: Unconfirmed) -> bool {
        self.records.push(WrittenRecord { line, kind, warning, unconfirmed });
        false
    }

    /// Confirms the records, writes the memberships, and reports their lines. A record that is deleted by then gets neither role nor feature,
    /// and the report warns about it.
    pub fn finish(self, env: &Env, report: &mut ImportReport) -> Result<(), StoreError> {
        for WrittenRecord { line, kind, warning, unconfirmed } in self.records {
            match unconfirmed.confirm(env).map_err(LineError::from) {
                Ok(()) => {
                    report.imported(kind);
                    warning.into_iter().for_each(|warning| report.warn(line, warning));
                }
                Err(LineError::Invalid(invalid)) => report.failed(line, invalid),
                Err(LineError::Store(error)) => return Err(error),
            }
        }
        let mut deleted = DeletedRecords::default();
        self.memberships.write(env, &mut deleted, report)?;
        self.gates.close_for_deleted(env, report)
    }
}

/// A parsed line that is not applied yet.
pub enum Record {
    User(User, Box<Details>),
    DeleteUser(ById),
    Token(TokenRecord, Deleted),
    Group(Box<Group>, Box<Details>),
    DeleteGroup(ById),
    Project(Box<Project>),
    DeleteProject(ById),
    Member(MemberRecord, Deleted),
    Setting(Map<String, Value>, Deleted),
    Feature(Feature, Deleted),
}

type Deleted = bool;

impl Record {
    pub fn parse(line: &[u8]) -> Result<Self, InvalidLine> {
        // From an array, serde would read the fields of a struct in order.
        if !line.trim_ascii_start().starts_with(b"{") {
            return Err(InvalidLine::NotAnObject);
        }
        let head: RecordHead = serde_json::from_slice(line).map_err(InvalidLine::Json)?;
        let deleted = head.deleted;
        match (&*head.kind, deleted) {
            ("user", false) => Ok(Record::User(parse(line)?, details(line)?)),
            ("user", true) => parse(line).map(Record::DeleteUser),
            ("token", _) => Ok(Record::Token(parse_secret(line)?, deleted)),
            ("group", false) => Ok(Record::Group(parse(line)?, details(line)?)),
            ("group", true) => parse(line).map(Record::DeleteGroup),
            ("project", false) => parse(line).map(Record::Project),
            ("project", true) => parse(line).map(Record::DeleteProject),
            ("member", _) => Ok(Record::Member(parse(line)?, deleted)),
            ("setting", _) => Ok(Record::Setting(parse_secret(line)?, deleted)),
            ("feature", _) => Ok(Record::Feature(parse(line)?, deleted)),
            _ => Err(InvalidLine::UnknownKind { kind: head.kind.into_owned(), known: &KINDS }),
        }
    }

    pub fn kind(&self) -> &'static str {
        match self {
            Record::User(..) | Record::DeleteUser(_) => "user",
            Record::Token(..) => "token",
            Record::Group(..) | Record::DeleteGroup(_) => "group",
            Record::Project(_) | Record::DeleteProject(_) => "project",
            Record::Member(..) => "member",
            Record::Setting(..) => "setting",
            Record::Feature(..) => "feature",
        }
    }

    /// Adds the changes of this record to the changes of the catalog.
    pub fn add_to(&self, changes: &mut Changes) {
        match self {
            Record::User(user, _) => changes.user(user.id.get(), user.namespace_id.map(NonZeroU64::get)),
            Record::DeleteUser(user) => changes.delete_user(user.id.get()),
            Record::Group(group, _) => changes.group(group.id.get()),
            Record::DeleteGroup(group) => changes.delete_group(group.id.get()),
            Record::Project(project) => changes.project(project.id.get()),
            Record::DeleteProject(project) => changes.delete_project(project.id.get()),
            Record::Member(member, _) => member.add_to(changes),
            Record::Token(..) | Record::Setting(..) | Record::Feature(..) => {}
        }
    }

    /// The group, the user or the project that this record creates or changes.
    pub fn subject(&self) -> Option<Actor> {
        match self {
            Record::Group(group, _) => Some(Actor::Group(group.id.get())),
            Record::User(user, _) => Some(Actor::User(user.id.get())),
            Record::Project(project) => Some(Actor::Project(project.id.get())),
            _ => None,
        }
    }

    /// A warning for the operator about a valid record.
    pub fn warning(&self) -> Option<String> {
        match self {
            Record::Project(project) => project.warning(),
            Record::Group(group, _) => group.warning(),
            Record::Setting(fields, false) => feature::warning(fields),
            _ => None,
        }
    }

    /// Whether other records may depend on the changed record.
    pub fn changes_tree(&self) -> bool {
        match self {
            Record::User(..) | Record::Group(..) | Record::Project(_) | Record::Member(..) => true,
            Record::DeleteUser(_) | Record::DeleteGroup(_) | Record::DeleteProject(_) => false,
            Record::Token(..) | Record::Setting(..) | Record::Feature(..) => false,
        }
    }

    /// Whether this record may delete or move dependents. These are looked up in the catalog.
    pub fn changes_dependents(&self, env: &Env) -> Result<bool, StoreError> {
        match self {
            Record::DeleteUser(_) | Record::DeleteGroup(_) | Record::DeleteProject(_) => Ok(true),
            Record::User(user, _) => user.moves_namespace(env),
            Record::Group(group, _) => group.changes_parent(env),
            _ => Ok(false),
        }
    }

    /// Writes the record of a line. False for a line that `pending` completes and reports later.
    pub fn apply(self, env: &Env, line: u64, pending: &mut PendingChanges) -> Result<bool, LineError> {
        let (kind, warning) = (self.kind(), self.warning());
        let written = match self {
            Record::User(user, details) => return Ok(pending.add(line, kind, warning, user.write(env, *details)?)),
            Record::Group(group, details) => return Ok(pending.add(line, kind, warning, group.write(env, *details)?)),
            Record::Project(project) => return Ok(pending.add(line, kind, warning, project.write(env)?)),
            Record::DeleteUser(user) => Ok(dependents::delete_user(env, user.id.get())?),
            Record::Token(token, deleted) => token.apply(env, deleted),
            Record::DeleteGroup(group) => Ok(dependents::delete_group(env, group.id.get())?),
            Record::DeleteProject(project) => Ok(dependents::delete_project(env, project.id.get())?),
            Record::Member(member, deleted) => {
                return member.apply(line, deleted, &mut pending.memberships).map(|()| false);
            }
            Record::Setting(fields, deleted) => feature::apply(env, fields, deleted),
            Record::Feature(feature, deleted) => feature.apply(env, line, deleted, &mut pending.gates),
        };
        written.map(|()| true)
    }
}

fn parse<T: DeserializeOwned>(line: &[u8]) -> Result<T, InvalidLine> {
    serde_json::from_slice(line).map_err(InvalidLine::Json)
}

fn details(line: &[u8]) -> Result<Box<Details>, InvalidLine> {
    let details = DetailsFields::deserialize(&mut serde_json::Deserializer::from_slice(line));
    details.map(Box::new).map_err(InvalidLine::Json)
}

fn parse_secret<T: DeserializeOwned>(line: &[u8]) -> Result<T, InvalidLine> {
    serde_json::from_slice(line).map_err(|why| InvalidLine::SecretJson { column: why.column() })
}
